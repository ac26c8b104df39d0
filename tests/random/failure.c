/*
 * failure.c - see failure.h.
 *
 * The files hold the problem without its layouts: gpu-mha reads packed arrays. What must not be
 * read is NaN in them as well.
 */
#include "failure.h"

#include "npy.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PATH_SIZE 512

/* Files and command of one problem. */
struct writer {
    const struct attention_data *data;
    char folder[PATH_SIZE];
    char command[8192];
    int failed;
};

static void add(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct writer *w, const char *format, ...)
{
    size_t used = strlen(w->command);
    va_list args;

    va_start(args, format);
    int written = vsnprintf(w->command + used, sizeof(w->command) - used, format, args);
    va_end(args);
    w->failed |= written < 0 || (size_t)written >= sizeof(w->command) - used;
}

/* ---- files ---- */

static void write_file(struct writer *w, const char *name, enum mha_npy_type type, int rank,
                       const int64_t *shape, const void *values)
{
    char path[PATH_SIZE + 64], error[6000];

    snprintf(path, sizeof(path), "%s/%.48s.npy", w->folder, name);
    if (!mha_npy_write(path, type, rank, shape, values, error, sizeof(error))) {
        printf("%s\n", error);
        w->failed = 1;
    }
}

static enum mha_npy_type npy_type(enum storage_type type)
{
    return type == STORAGE_F32 ? MHA_NPY_F32 : type == STORAGE_F16 ? MHA_NPY_F16 : MHA_NPY_BF16;
}

/* " --OPTION FOLDER/NAME.npy", NAME that of the array. */
static void write_image(struct writer *w, const char *option, enum attention_array array,
                        enum mha_npy_type type, int rank, const int64_t *shape,
                        const int64_t *stride)
{
    const struct attention_image *image = &w->data->images[array];
    const size_t size = image->element_bytes;
    int64_t count = 1, at[4];

    for (int a = 0; a < rank; a++) {
        count *= shape[a];
    }
    unsigned char *poisoned = attention_data_poisoned(image, POISON_NAN);
    unsigned char *packed = attention_alloc(count, size);
    for (int64_t n = 0; n < count; n++) {
        int64_t rest = n, from = image->layout.offset;
        for (int a = rank - 1; a >= 0; a--) {
            at[a] = rest % shape[a];
            rest /= shape[a];
            from += at[a] * stride[a];
        }
        memcpy(packed + (size_t)n * size, poisoned + (size_t)from * size, size);
    }
    write_file(w, attention_array_name(array), type, rank, shape, packed);
    add(w, " --%s %s/%s.npy", option, w->folder, attention_array_name(array));
    free(packed);
    free(poisoned);
}

static void write_tensor(struct writer *w, const char *option, enum attention_array array)
{
    const struct attention_image *image = &w->data->images[array];
    const struct layout *l = &image->layout;

    if (image->wanted) {
        write_image(w, option, array, npy_type(image->type), 4,
                    (const int64_t[]){l->B, l->H, l->N, l->D},
                    (const int64_t[]){l->stride_b, l->stride_h, l->stride_n, 1});
    }
}

static void write_flat(struct writer *w, const char *option, enum attention_array array,
                       enum mha_npy_type type)
{
    const struct attention_image *image = &w->data->images[array];

    if (image->wanted) {
        write_image(w, option, array, type, 1, (const int64_t[]){image->layout.D},
                    (const int64_t[]){1});
    }
}

/* In its own shape: what broadcasts has length 1. */
static void write_mask(struct writer *w, const char *option, enum attention_array array,
                       const gpu_mha_mask *mask)
{
    const gpu_mha_desc *d = &w->data->desc;
    const struct attention_image *image = &w->data->images[array];
    int64_t shape[4] = {d->B, d->H, d->NQ, w->data->NT}, stride[4], step = 1;

    if (!image->wanted) {
        return;
    }
    for (int a = 3; a >= 0; a--) {
        shape[a] = mask->shape[a] == 0 ? shape[a] : mask->shape[a];
        stride[a] = mask->strided ? mask->stride[a] : step;
        step *= shape[a];
    }
    write_image(w, option, array, image->is_float ? npy_type(image->type) : MHA_NPY_BOOL, 4, shape,
                stride);
}

static void write_inputs(struct writer *w)
{
    const gpu_mha_desc *d = &w->data->desc;

    write_tensor(w, "q", ARRAY_QUERY);
    write_tensor(w, "k", ARRAY_KEY);
    write_tensor(w, "v", ARRAY_VALUE);
    write_tensor(w, "past-k", ARRAY_PAST_KEY);
    write_tensor(w, "past-v", ARRAY_PAST_VALUE);
    write_mask(w, "mask", ARRAY_MASK, &d->mask);
    write_mask(w, "bias", ARRAY_BIAS, &d->bias);
    write_flat(w, "kv-lens", ARRAY_KEY_LENGTHS,
               d->key_lengths == GPU_MHA_I32 ? MHA_NPY_I32 : MHA_NPY_I64);
    write_flat(w, "sinks", ARRAY_SINKS, MHA_NPY_F32);
}

/* "NAME.npy" and "NAME_bound.npy". */
static void write_wanted(struct writer *w, const char *name, int rank, const int64_t *shape,
                         const double *want, const double *bound)
{
    char bound_name[64];

    snprintf(bound_name, sizeof(bound_name), "%s_bound", name);
    write_file(w, name, MHA_NPY_F64, rank, shape, want);
    write_file(w, bound_name, MHA_NPY_F64, rank, shape, bound);
}

static void write_matrices(struct writer *w)
{
    const gpu_mha_desc *d = &w->data->desc;
    const struct ref_result *r = &w->data->want;
    const int64_t NT = w->data->NT, shape[4] = {d->B, d->H, d->NQ, NT};
    const struct attention_wanted scores = attention_want_scores(w->data);

    if (d->scores != GPU_MHA_SCORES_NONE) {
        write_wanted(w, "scores", 4, shape, scores.values, scores.bound);
    }
    if (d->weights == GPU_MHA_WEIGHTS_PER_HEAD) {
        write_wanted(w, "weights", 4, shape, r->weights, r->bound_weights);
    }
    if (d->weights == GPU_MHA_WEIGHTS_AVERAGED) {
        double *mean = alloc_doubles(d->B * d->NQ * NT), *bound = alloc_doubles(d->B * d->NQ * NT);
        ref_head_average(d->B, d->H, d->NQ, NT, r->weights, mean);
        ref_head_average(d->B, d->H, d->NQ, NT, r->bound_weights, bound);
        write_wanted(w, "weights", 3, (const int64_t[]){d->B, d->NQ, NT}, mean, bound);
        free(bound);
        free(mean);
    }
}

static void write_results(struct writer *w)
{
    static const char *const stages[] = {"", "raw", "capped", "masked", "softmax"};
    const gpu_mha_desc *d = &w->data->desc;
    const struct ref_result *r = &w->data->want;
    const int64_t shape[4] = {d->B, d->H, d->NQ, d->DV};

    add(w, " -o %s/got_output.npy", w->folder);
    write_wanted(w, "output", 4, shape, r->o, r->bound_o);
    if (d->lse) {
        add(w, " --lse %s/got_lse.npy", w->folder);
        write_wanted(w, "lse", 3, shape, r->lse, r->bound_lse);
    }
    if (d->weights != GPU_MHA_WEIGHTS_NONE) {
        add(w, " --weights %s/got_weights.npy%s", w->folder,
            d->weights == GPU_MHA_WEIGHTS_AVERAGED ? " --average" : "");
    }
    if (d->scores != GPU_MHA_SCORES_NONE) {
        add(w, " --scores %s,%s/got_scores.npy", stages[d->scores], w->folder);
    }
    write_matrices(w);
    add(w, " --expect %s", w->folder);
}

/* ---- the rest of the command ---- */

static void add_offset(struct writer *w)
{
    const gpu_mha_desc *d = &w->data->desc;

    if (!d->causal && !d->has_window && d->alibi == GPU_MHA_ALIBI_NONE) {
        return;
    }
    add(w, " --%s ", d->causal ? "causal" : "offset");
    if (d->offset_kind == GPU_MHA_OFFSET) {
        add(w, "%" PRId64, d->offset);
    } else {
        add(w, "%s", d->offset_kind == GPU_MHA_TOP_LEFT ? "top-left" : "bottom-right");
    }
}

static void add_options(struct writer *w)
{
    static const char *const methods[] = {"auto", "fused", "staged"};
    static const char *const types[] = {"f32", "f16", "bf16"};
    const gpu_mha_desc *d = &w->data->desc;

    add_offset(w);
    if (d->has_window) {
        add(w, " --window %" PRId64 ",%" PRId64, d->window_left, d->window_right);
    }
    if (d->alibi == GPU_MHA_ALIBI_AUTO) {
        add(w, " --alibi auto");
    } else if (d->alibi == GPU_MHA_ALIBI_SLOPES) {
        write_flat(w, "alibi", ARRAY_SLOPES, MHA_NPY_F32);
    }
    if (d->has_scale) {
        add(w, " --scale %.9g", (double)d->scale);
    }
    if (d->softcap > 0) {
        add(w, " --softcap %.9g", (double)d->softcap);
    }
    if (d->dropout > 0) {
        add(w, " --dropout %.9g --dropout-seed %" PRIu64, (double)d->dropout, d->dropout_seed);
    }
    if (d->output.type != d->query.type) {
        add(w, " --output-dtype %s", types[d->output.type]);
    }
    if (d->method != GPU_MHA_AUTO) {
        add(w, " --method %s", methods[d->method]);
    }
}

/* Writes the files and the command; 0 if all of it is there. */
static int write_all(struct writer *w, const char *folder, const struct attention_spec *spec)
{
    const char *tile = getenv("GPU_MHA_TEST_TILE");

    snprintf(w->folder, sizeof(w->folder), "%.400s/random_%" PRIu64, folder, spec->seed);
    (void)mkdir(w->folder, 0777); /* the first file tells */
    tile = tile ? tile : spec->tile;
    if (tile) {
        add(w, "GPU_MHA_TILE='%s' ", tile);
    }
    add(w, "gpu-mha run");
    write_inputs(w);
    add_options(w);
    write_results(w);
    return w->failed;
}

/* Whether the command fails here as well: what it prints is the proof. */
static void try_command(const char *command)
{
    const char *run = strstr(command, "gpu-mha run");
    char line[12000];

    fflush(stdout);
    snprintf(line, sizeof(line), "%.*s'%s' %s 2>&1", (int)(run - command), command,
             MHA_TEST_COMMAND, run + strlen("gpu-mha "));
    int status = system(line);
    printf("  %s\n", status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0
                         ? "The command alone does not show it: layouts, offsets, queues and the "
                           "like are in the seed only."
                         : "The command shows it.");
}

static void print_problem(const char *title, const struct attention_spec *spec,
                          const struct attention_verdict *verdict)
{
    char text[2048];

    attention_spec_text(spec, text, sizeof(text));
    printf("  %s: %s\n    plan \"%s\"\n    {%s}\n", title, verdict->text, verdict->plan, text);
}

void failure_report(const char *folder, const struct attention_spec *spec,
                    const struct attention_verdict *verdict, const struct attention_spec *shrunk,
                    const struct attention_verdict *small)
{
    struct attention_data data;
    struct writer writer = {.data = &data};

    printf("seed %" PRIu64 " FAILS\n", spec->seed);
    print_problem("as drawn", spec, verdict);
    print_problem("shrunk", shrunk, small);
    attention_data_make(shrunk, &data);
    if (write_all(&writer, folder, shrunk) == 0) {
        printf("%s\n", writer.command);
        try_command(writer.command);
    }
    attention_data_free(&data);
    fflush(stdout);
}
