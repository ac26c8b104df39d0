/*
 * gpu-mha run: query, key, value and past, read and fitted together into one attention problem.
 */
#include "run_reader.h"

static gpu_mha_type storage_type(enum mha_npy_type type)
{
    return type == MHA_NPY_F16 ? GPU_MHA_F16 : type == MHA_NPY_BF16 ? GPU_MHA_BF16 : GPU_MHA_F32;
}

static bool read_tensor(const struct mha_run_reader *reader, const char *path,
                        struct mha_npy *array, gpu_mha_tensor *tensor, gpu_mha_layout layout)
{
    static const enum mha_npy_type file_types[] = {
        [GPU_MHA_F32] = MHA_NPY_F32, [GPU_MHA_F16] = MHA_NPY_F16, [GPU_MHA_BF16] = MHA_NPY_BF16};
    const struct mha_run_options *options = reader->options;

    if (!mha_run_read_floats(reader, path, array)) {
        return false;
    }
    enum mha_npy_type type = options->convert             ? file_types[options->type]
                             : array->type == MHA_NPY_F64 ? MHA_NPY_F32
                                                          : array->type;
    tensor->type = storage_type(type);
    tensor->layout = layout;
    return mha_run_convert(reader, path, array, type);
}

static bool read_query_key_value(const struct mha_run_reader *reader)
{
    const struct mha_run_options *options = reader->options;
    struct mha_run_problem *problem = reader->problem;
    gpu_mha_desc *desc = &problem->desc;

    if (!read_tensor(reader, options->query, &problem->query, &desc->query, GPU_MHA_BHND)) {
        return false;
    }
    problem->rank = problem->query.rank;
    if (problem->rank != 3 && problem->rank != 4) {
        return mha_run_refuse(
            reader, "%s has rank %d, but must have 4, (B, H, NQ, DK), or 3, (B, NQ, H*DK)",
            options->query, problem->rank);
    }
    gpu_mha_layout layout = problem->rank == 3 ? GPU_MHA_BNHD : GPU_MHA_BHND;
    desc->query.layout = layout;
    desc->output = desc->query;
    if (options->convert_output) {
        desc->output.type = options->output_type;
    }
    return read_tensor(reader, options->key, &problem->key, &desc->key, layout) &&
           read_tensor(reader, options->value, &problem->value, &desc->value, layout);
}

/* A head count of the command line that an array of rank 4 contradicts. */
static bool check_heads(const struct mha_run_reader *reader, const char *option, int64_t given,
                        const char *path, int64_t found)
{
    if (given == 0 || given == found) {
        return true;
    }
    return mha_run_refuse(reader, "%s is %lld, but %s has %lld heads", option, (long long)given,
                          path, (long long)found);
}

static bool fit_rank_4(const struct mha_run_reader *reader)
{
    const struct mha_run_options *options = reader->options;
    struct mha_run_problem *problem = reader->problem;
    gpu_mha_desc *desc = &problem->desc;
    const int64_t *query = problem->query.shape;

    desc->B = query[0];
    desc->H = query[1];
    desc->NQ = query[2];
    desc->DK = query[3];
    if (!mha_run_check_shape(reader, options->key, &problem->key, "(B, HKV, NK, DK)", 4,
                             (const int64_t[]){desc->B, MHA_RUN_ANY, MHA_RUN_ANY, desc->DK})) {
        return false;
    }
    desc->HKV = problem->key.shape[1];
    desc->NK = problem->key.shape[2];
    if (!mha_run_check_shape(reader, options->value, &problem->value, "(B, HKV, NK, DV)", 4,
                             (const int64_t[]){desc->B, desc->HKV, desc->NK, MHA_RUN_ANY})) {
        return false;
    }
    desc->DV = problem->value.shape[3];
    /* --kv-heads defaults to --heads only where the arrays do not say it themselves. */
    return check_heads(reader, "--heads", options->heads, options->query, desc->H) &&
           check_heads(reader, "--kv-heads", options->kv_heads, options->key, desc->HKV);
}

/* Splits the last axis of a rank-3 array into heads. */
static bool split_width(const struct mha_run_reader *reader, const char *path,
                        const struct mha_npy *array, int64_t heads, int64_t *head_size)
{
    int64_t width = array->shape[2];

    if (width % heads != 0) {
        return mha_run_refuse(reader,
                              "%s has rows of %lld elements, which %lld heads do not divide", path,
                              (long long)width, (long long)heads);
    }
    *head_size = width / heads;
    return true;
}

static bool fit_rank_3(const struct mha_run_reader *reader)
{
    const struct mha_run_options *options = reader->options;
    struct mha_run_problem *problem = reader->problem;
    gpu_mha_desc *desc = &problem->desc;

    if (options->heads == 0) {
        *reader->code = MHA_EXIT_USAGE;
        return mha_run_refuse(reader, "%s has rank 3, (B, NQ, H*DK), which needs --heads",
                              options->query);
    }
    desc->B = problem->query.shape[0];
    desc->NQ = problem->query.shape[1];
    desc->H = options->heads;
    desc->HKV = options->kv_heads ? options->kv_heads : options->heads;
    if (!split_width(reader, options->query, &problem->query, desc->H, &desc->DK)) {
        return false;
    }
    if (desc->DK > 0 && desc->HKV > INT64_MAX / desc->DK) {
        return mha_run_refuse(reader, "--kv-heads %lld is far too large", (long long)desc->HKV);
    }
    if (!mha_run_check_shape(reader, options->key, &problem->key, "(B, NK, HKV*DK)", 3,
                             (const int64_t[]){desc->B, MHA_RUN_ANY, desc->HKV * desc->DK})) {
        return false;
    }
    desc->NK = problem->key.shape[1];
    return mha_run_check_shape(reader, options->value, &problem->value, "(B, NK, HKV*DV)", 3,
                               (const int64_t[]){desc->B, desc->NK, MHA_RUN_ANY}) &&
           split_width(reader, options->value, &problem->value, desc->HKV, &desc->DV);
}

/* The past has rank 4 whatever the rank of the new keys, as in ONNX. */
static bool read_past(const struct mha_run_reader *reader)
{
    const struct mha_run_options *options = reader->options;
    struct mha_run_problem *problem = reader->problem;
    gpu_mha_desc *desc = &problem->desc;

    if (!options->past_key) {
        return true;
    }
    if (!read_tensor(reader, options->past_key, &problem->past_key, &desc->past_key,
                     GPU_MHA_BHND) ||
        !mha_run_check_shape(reader, options->past_key, &problem->past_key, "(B, HKV, NP, DK)", 4,
                             (const int64_t[]){desc->B, desc->HKV, MHA_RUN_ANY, desc->DK})) {
        return false;
    }
    desc->NP = problem->past_key.shape[2];
    return read_tensor(reader, options->past_value, &problem->past_value, &desc->past_value,
                       GPU_MHA_BHND) &&
           mha_run_check_shape(reader, options->past_value, &problem->past_value,
                               "(B, HKV, NP, DV)", 4,
                               (const int64_t[]){desc->B, desc->HKV, desc->NP, desc->DV});
}

static bool check_plot(const struct mha_run_reader *reader)
{
    const struct mha_run_options *options = reader->options;
    const gpu_mha_desc *desc = &reader->problem->desc;

    if (!options->plot) {
        return true;
    }
    if (desc->B == 0 || desc->NQ == 0 || desc->NP + desc->NK == 0) {
        return mha_run_refuse(reader,
                              "%s cannot be drawn: there are no weights, as B is %lld, NQ is %lld "
                              "and the number of keys is %lld",
                              options->plot, (long long)desc->B, (long long)desc->NQ,
                              (long long)(desc->NP + desc->NK));
    }
    if (options->batch >= desc->B) {
        return mha_run_refuse(
            reader, "--batch is %lld, but must be 0 to %lld, as %s has %lld batch entries",
            (long long)options->batch, (long long)(desc->B - 1), options->query,
            (long long)desc->B);
    }
    return true;
}

static bool check_desc(const struct mha_run_reader *reader)
{
    if (gpu_mha_desc_check(&reader->problem->desc)) {
        return mha_run_refuse(reader, "%s", gpu_mha_last_error());
    }
    return true;
}

bool mha_run_problem_read(struct mha_run_problem *problem, const struct mha_run_options *options,
                          enum mha_exit *code, char *error, size_t error_size)
{
    const struct mha_run_reader reader = {problem, options, code, error, error_size};

    *problem = (struct mha_run_problem){.desc = options->desc};
    *code = MHA_EXIT_FAILED;
    /* The sizes are checked before anything is compared with or computed from them. */
    return read_query_key_value(&reader) &&
           (problem->rank == 3 ? fit_rank_3(&reader) : fit_rank_4(&reader)) && read_past(&reader) &&
           check_desc(&reader) && mha_run_read_extras(&reader) && check_plot(&reader) &&
           check_desc(&reader);
}

void mha_run_problem_free(struct mha_run_problem *problem)
{
    mha_npy_free(&problem->query);
    mha_npy_free(&problem->key);
    mha_npy_free(&problem->value);
    mha_npy_free(&problem->past_key);
    mha_npy_free(&problem->past_value);
    mha_npy_free(&problem->mask);
    mha_npy_free(&problem->bias);
    mha_npy_free(&problem->key_lengths);
    mha_npy_free(&problem->alibi_slopes);
    mha_npy_free(&problem->sinks);
}
