/* Reading of the demo's data; see demo_data.h. */
#include "demo_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

/* Keeps every product of sizes far from overflow. */
#define MAX_SIZE 65536

static bool read_json(const char *folder, struct mha_demo_data *data, char *error,
                      size_t error_size)
{
    json_error_t problem;
    size_t size = strlen(folder) + sizeof "/layer.json";
    char *path = malloc(size);

    if (!path) {
        return mha_fail(error, error_size, "out of memory");
    }
    snprintf(path, size, "%s/layer.json", folder);
    data->document = json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    free(path);
    if (!data->document && problem.line < 0) {
        return mha_fail(error, error_size, "%s/layer.json: %s", folder, problem.text);
    }
    if (!data->document) {
        return mha_fail(error, error_size, "%s/layer.json, line %d: %s", folder, problem.line,
                        problem.text);
    }

    json_int_t heads = 0, layer = 0, layers = 0;
    json_t *sentences = NULL, *tokens = NULL;
    if (json_unpack_ex(data->document, &problem, 0, "{s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o}",
                       "model", &data->model, "query_token", &data->query_token, "wanted_token",
                       &data->wanted_token, "heads", &heads, "layer", &layer, "layers", &layers,
                       "sentences", &sentences, "tokens", &tokens) != 0) {
        return mha_fail(error, error_size, "%s/layer.json: %s", folder, problem.text);
    }
    if (heads < 1 || heads > MAX_SIZE) {
        return mha_fail(error, error_size, "%s/layer.json: heads is %lld, it must be 1 .. %d",
                        folder, (long long)heads, MAX_SIZE);
    }
    data->H = heads;
    data->layer = layer;
    data->layers = layers;
    data->sentences = sentences;
    data->tokens = tokens;
    return true;
}

static bool read_array(const char *folder, const char *stem, enum mha_npy_type type,
                       struct mha_npy *array, char *error, size_t error_size)
{
    size_t size = strlen(folder) + strlen(stem) + sizeof "/.npy";
    char *path = malloc(size);

    if (!path) {
        return mha_fail(error, error_size, "out of memory");
    }
    snprintf(path, size, "%s/%s.npy", folder, stem);
    bool ok = mha_npy_read(path, array, error, error_size);
    if (ok && array->type != type) {
        ok = mha_fail(error, error_size, "%s is %s, it must be %s", path,
                      mha_npy_type_name(array->type), mha_npy_type_name(type));
    }
    free(path);
    return ok;
}

static bool read_arrays(const char *folder, struct mha_demo_data *data, char *error,
                        size_t error_size)
{
#define READ(name, type)                                                                           \
    if (!read_array(folder, #name, MHA_NPY_##type, &data->name, error, error_size))                \
        return false;
    MHA_DEMO_ARRAYS(READ)
#undef READ
    return true;
}

static bool has_shape(const struct mha_npy *array, const char *name, int rank, const int64_t *shape,
                      char *error, size_t error_size)
{
    char found[MHA_NPY_SHAPE_TEXT], needed[MHA_NPY_SHAPE_TEXT];

    if (array->rank == rank &&
        (rank == 0 || memcmp(array->shape, shape, (size_t)rank * sizeof *shape) == 0)) {
        return true;
    }
    return mha_fail(error, error_size, "%s has the shape %s, it must be %s", name,
                    mha_npy_shape_text(array->rank, array->shape, found, sizeof found),
                    mha_npy_shape_text(rank, shape, needed, sizeof needed));
}

static bool check_shapes(struct mha_demo_data *data, char *error, size_t error_size)
{
    const struct mha_npy *input = &data->layer_input;

    if (input->rank != 3 || input->count == 0 || input->shape[0] > MAX_SIZE ||
        input->shape[1] > MAX_SIZE || input->shape[2] > MAX_SIZE) {
        return mha_fail(error, error_size, "layer_input must have 3 axes of 1 .. %d", MAX_SIZE);
    }
    data->B = input->shape[0];
    data->N = input->shape[1];
    data->E = input->shape[2];
    if (data->E % data->H != 0) {
        return mha_fail(error, error_size, "heads is %lld, it must divide the width, %lld",
                        (long long)data->H, (long long)data->E);
    }

    const int64_t sequence[] = {data->B, data->N, data->E};
    const int64_t square[] = {data->E, data->E};
    const int64_t weights[] = {data->B, data->H, data->N, data->N};
#define CHECK(name, rank, shape) has_shape(&data->name, #name, rank, shape, error, error_size)
    return CHECK(key_mask, 2, sequence) && CHECK(w_q, 2, square) && CHECK(w_k, 2, square) &&
           CHECK(w_v, 2, square) && CHECK(w_out, 2, square) && CHECK(b_q, 1, square) &&
           CHECK(b_k, 1, square) && CHECK(b_v, 1, square) && CHECK(b_out, 1, square) &&
           CHECK(expected_weights, 4, weights) && CHECK(expected_output, 3, sequence);
#undef CHECK
}

/* Texts go to the terminal: without control characters, so that they cannot drive it. */
static bool is_plain(const json_t *text)
{
    const char *at = json_string_value(text);

    while (at && *at && (unsigned char)*at >= 0x20 && *at != 0x7f) {
        at++;
    }
    return at && !*at;
}

/* Every text that will be shown is there and fit for it. */
static bool check_texts(const struct mha_demo_data *data, char *error, size_t error_size)
{
    if (!is_plain(json_object_get(data->document, "model")) ||
        !is_plain(json_object_get(data->document, "query_token")) ||
        !is_plain(json_object_get(data->document, "wanted_token"))) {
        return mha_fail(error, error_size, "layer.json: a name has a control character");
    }
    if (json_array_size(data->tokens) != (size_t)data->B ||
        json_array_size(data->sentences) != (size_t)data->B) {
        return mha_fail(error, error_size,
                        "layer.json must have tokens and a sentence for each of "
                        "%lld batch entries",
                        (long long)data->B);
    }
    for (int64_t b = 0; b < data->B; b++) {
        const json_t *row = json_array_get(data->tokens, (size_t)b);
        if (json_array_size(row) != (size_t)data->N ||
            !is_plain(json_array_get(data->sentences, (size_t)b))) {
            return mha_fail(error, error_size,
                            "layer.json must have a sentence and %lld tokens for "
                            "batch entry %lld",
                            (long long)data->N, (long long)b);
        }
        for (int64_t n = 0; n < data->N; n++) {
            if (!is_plain(json_array_get(row, (size_t)n))) {
                return mha_fail(error, error_size,
                                "layer.json: token %lld of batch entry %lld is "
                                "not a plain text",
                                (long long)n, (long long)b);
            }
        }
    }
    return true;
}

bool mha_demo_data_read(const char *folder, struct mha_demo_data *data, char *error,
                        size_t error_size)
{
    memset(data, 0, sizeof *data);
    return read_json(folder, data, error, error_size) &&
           read_arrays(folder, data, error, error_size) && check_shapes(data, error, error_size) &&
           check_texts(data, error, error_size);
}

void mha_demo_data_free(struct mha_demo_data *data)
{
#define FREE(name, type) mha_npy_free(&data->name);
    MHA_DEMO_ARRAYS(FREE)
#undef FREE
    json_decref(data->document);
    memset(data, 0, sizeof *data);
}

const char *mha_demo_token(const struct mha_demo_data *data, int64_t b, int64_t n)
{
    return json_string_value(json_array_get(json_array_get(data->tokens, (size_t)b), (size_t)n));
}

int64_t mha_demo_length(const struct mha_demo_data *data, int64_t b)
{
    const uint8_t *mask = (const uint8_t *)data->key_mask.data + b * data->N;
    int64_t length = data->N;

    while (length > 0 && !mask[length - 1]) {
        length--;
    }
    return length;
}

int64_t mha_demo_find(const struct mha_demo_data *data, int64_t b, const char *token)
{
    int64_t length = mha_demo_length(data, b);

    for (int64_t n = 0; n < length; n++) {
        if (strcmp(mha_demo_token(data, b, n), token) == 0) {
            return n;
        }
    }
    return -1;
}
