/*
 * gpu-mha verify on a recorded case: case.json, the .npy files that it names, the problem that
 * comes of them, the comparison.
 *
 * Input: the text of case.json; behind a NUL a byte of how, and what the arrays hold. The files are
 * made here as case.json has them, as far as they stay small, so that a change of the text alone
 * keeps a case whole. `how` is the method.
 */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "fuzz/fake_cl.h"
#include "npy.h"
#include "verify_case.h"
#include "verify_compare.h"
#include "verify_operator.h"

enum { ELEMENTS_MAX = 4096 };

/* ---- files -------------------------------------------------------------------------------- */

static bool find_type(const char *label, enum mha_npy_type *type)
{
    static const char *const labels[] = {
        [MHA_NPY_BOOL] = "bool",   [MHA_NPY_U8] = "uint8",    [MHA_NPY_I32] = "int32",
        [MHA_NPY_I64] = "int64",   [MHA_NPY_F16] = "float16", [MHA_NPY_BF16] = "bfloat16",
        [MHA_NPY_F32] = "float32", [MHA_NPY_F64] = "float64",
    };
    for (size_t i = 0; label != NULL && i < sizeof labels / sizeof *labels; i++) {
        if (strcmp(labels[i], label) == 0) {
            *type = (enum mha_npy_type)i;
            return true;
        }
    }
    return false;
}

/* A file name that stays in the folder. */
static bool is_plain(const char *file)
{
    return file != NULL && file[0] != '\0' && file[0] != '.' && strchr(file, '/') == NULL &&
           strlen(file) < 100 && strcmp(file, "case.json") != 0;
}

static void make_file(const json_t *entry, struct fuzz_bytes *bytes)
{
    const char *file = json_string_value(json_object_get(entry, "file"));
    const json_t *axes = json_object_get(entry, "shape");
    enum mha_npy_type type;
    int64_t shape[MHA_NPY_MAX_RANK] = {0};
    const size_t rank = json_array_size(axes);
    size_t count = 1;
    bool empty = false;
    char error[1024];
    if (!is_plain(file) || rank > MHA_NPY_MAX_RANK ||
        !find_type(json_string_value(json_object_get(entry, "dtype")), &type)) {
        return;
    }
    for (size_t axis = 0; axis < rank; axis++) {
        shape[axis] = json_integer_value(json_array_get(axes, axis));
        empty = empty || shape[axis] == 0;
    }
    /* Without an element the other lengths may be anything. */
    for (size_t axis = 0; axis < rank; axis++) {
        if (shape[axis] < 0 || (!empty && count > ELEMENTS_MAX / (uint64_t)shape[axis])) {
            return;
        }
        count *= (size_t)shape[axis];
    }
    count = empty ? 0 : count;
    uint8_t data[ELEMENTS_MAX * 8] = {0};
    const struct fuzz_bytes start = *bytes;
    for (size_t i = 0; i < count * mha_npy_item_size(type) && start.left > 0; i++) {
        if (bytes->left == 0) {
            *bytes = start;
        }
        data[i] = fuzz_byte(bytes);
    }
    const bool written =
        mha_npy_write(fuzz_path(file), type, (int)rank, shape, data, error, sizeof error);
    FUZZ_ASSERT(written || empty);
}

static void make_files(const char *text, size_t length, struct fuzz_bytes *bytes)
{
    json_t *document = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    static const char *const lists[] = {"inputs", "outputs"};
    for (int l = 0; l < 2; l++) {
        const json_t *list = json_object_get(document, lists[l]);
        for (size_t i = 0; i < json_array_size(list) && i < 2 * MHA_CASE_SLOTS; i++) {
            make_file(json_array_get(list, i), bytes);
        }
    }
    json_decref(document);
}

/* ---- mutation ----------------------------------------------------------------------------- */

#ifdef MHA_FUZZ_MUTATOR
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t capacity);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t capacity, unsigned seed);

/* A value in the place of the one at hand; NULL keeps it. */
static json_t *other_value(const json_t *value, unsigned seed)
{
    static const json_int_t numbers[] = {
        0, 1, 2, 3, 4, 5, 8, 16, 23, 24, 25, -1, INT64_MAX, INT32_MAX, (json_int_t)1 << 40};
    static const char *const words[] = {"float32",   "float16",  "bfloat16",   "int64",
                                        "bool",      "Q",        "K",          "V",
                                        "attn_mask", "past_key", "past_value", "Y"};
    switch (seed % 8) {
    case 0:
        return json_is_string(value) ? json_string(words[seed / 8 % 12]) : json_real(0.5);
    case 1:
        return json_null();
    case 2:
        return json_pack("[i,i]", seed / 8 % 5, seed / 64 % 5);
    default:
        return json_is_integer(value) ? json_integer(numbers[seed / 8 % 15]) : NULL;
    }
}

/* Walks the tree and changes the value in which *left runs out. */
static void change(json_t *value, int *left, unsigned seed)
{
    const bool is_object = json_is_object(value);
    const char *key;
    json_t *item;
    size_t i;
    if (is_object) {
        json_object_foreach(value, key, item)
        {
            if ((*left)-- == 0) {
                json_t *made = other_value(item, seed);
                if (made == NULL) {
                    json_object_del(value, key);
                } else {
                    json_object_set_new(value, key, made);
                }
                return;
            }
            change(item, left, seed);
            if (*left < 0) {
                return;
            }
        }
    }
    json_array_foreach(value, i, item)
    {
        if ((*left)-- == 0) {
            json_t *made = other_value(item, seed);
            if (made != NULL) {
                json_array_set_new(value, i, made);
            } else if (seed & 64) {
                json_array_append(value, item);
            } else {
                json_array_remove(value, i);
            }
            return;
        }
        change(item, left, seed);
        if (*left < 0) {
            return;
        }
    }
}

/* Two in three times a value of the tree, else bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t capacity, unsigned seed)
{
    const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
    const size_t length = end != NULL ? (size_t)(end - data) : size;
    json_t *document = seed % 3 ? json_loadb((const char *)data, length, 0, NULL) : NULL;
    char *text = NULL;
    if (document != NULL) {
        int left = (int)(seed / 512 % 128);
        change(document, &left, seed / 3);
        text = json_dumps(document, JSON_COMPACT);
        json_decref(document);
    }
    const size_t made = text != NULL ? strlen(text) : 0;
    if (made == 0 || made + (size - length) > capacity) {
        free(text);
        return LLVMFuzzerMutate(data, size, capacity);
    }
    memmove(data + made, data + length, size - length);
    memcpy(data, text, made);
    free(text);
    return made + (size - length);
}
#endif

/* ---- the case ----------------------------------------------------------------------------- */

static void check_sentence(const struct mha_case *record)
{
    FUZZ_ASSERT(memchr(record->error, '\0', sizeof record->error) != NULL);
    FUZZ_ASSERT(strlen(record->error) > 4);
}

static void compare(const struct mha_case *record, const struct mha_computed *computed)
{
    for (int slot = 0; slot < MHA_CASE_SLOTS; slot++) {
        struct mha_comparison result;
        const struct mha_npy *want = &record->outputs[slot].npy;
        if (record->outputs[slot].name == NULL) {
            FUZZ_ASSERT(computed[slot].npy.data == NULL);
            continue;
        }
        FUZZ_ASSERT(computed[slot].npy.data != NULL && computed[slot].npy.bytes == want->bytes);
        FUZZ_ASSERT(mha_compare(want, &computed[slot].npy, computed[slot].exact,
                                MHA_DEFAULT_TOLERANCE, &result));
        FUZZ_ASSERT(result.misses <= want->count &&
                    (want->count == 0 || result.worst < want->count));
        FUZZ_ASSERT(result.misses > 0 || isnan(result.error) || result.error <= result.bound);
    }
}

static void try_folder(gpu_mha_context *context, gpu_mha_method method)
{
    const struct mha_verify_settings settings = {.context = context, .method = method};
    struct mha_computed computed[MHA_CASE_SLOTS];
    struct mha_case record;
    memset(computed, 0, sizeof computed);
    if (!mha_case_read(fuzz_folder(), &record)) {
        check_sentence(&record);
    } else if (!mha_operator_run(&record, &settings, computed)) {
        check_sentence(&record);
    } else {
        compare(&record, computed);
    }
    mha_computed_free(computed);
    mha_case_free(&record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const gpu_mha_method methods[] = {GPU_MHA_AUTO, GPU_MHA_FUSED, GPU_MHA_STAGED};
    const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
    const size_t length = end != NULL ? (size_t)(end - data) : size;
    struct fuzz_bytes bytes = {data + length, size - length};
    gpu_mha_context *context = NULL;
    fuzz_settle();
    fake_devices(&fake_cpu, 1, 1);
    FUZZ_ASSERT(gpu_mha_context_create(NULL, &context) == GPU_MHA_OK);
    fuzz_byte(&bytes); /* the NUL */
    const uint8_t how = fuzz_byte(&bytes);
    fuzz_put("case.json", data, length);
    make_files((const char *)data, length, &bytes);
    try_folder(context, methods[how % 3]);
    fuzz_clear();
    gpu_mha_context_release(context);
    FUZZ_ASSERT(fake_live() == 0);
    return 0;
}
