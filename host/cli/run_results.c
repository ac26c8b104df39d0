/*
 * gpu-mha run: memory for the results, their files, and what is said about them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "output_file.h"
#include "plot.h"
#include "run.h"

/* ---- memory ------------------------------------------------------------------------------- */

/* The product of `rank` sizes and `item` in *bytes; false if size_t cannot hold it. */
static bool array_bytes(int rank, const int64_t *shape, size_t item, size_t *bytes)
{
    for (int axis = 0; axis < rank; axis++) {
        if (shape[axis] == 0) {
            *bytes = 0;
            return true;
        }
    }
    *bytes = item;
    for (int axis = 0; axis < rank; axis++) {
        if ((uint64_t)shape[axis] > SIZE_MAX / *bytes) {
            return false;
        }
        *bytes *= (size_t)shape[axis];
    }
    return true;
}

/* Never NULL for an empty array, except where memory is out. */
static void *allocate(int rank, const int64_t *shape, size_t item)
{
    size_t bytes;
    return array_bytes(rank, shape, item, &bytes) ? malloc(bytes ? bytes : 1) : NULL;
}

bool mha_run_results_allocate(struct mha_run_results *results, const gpu_mha_desc *desc,
                              char *error, size_t error_size)
{
    const int64_t output_shape[] = {desc->B, desc->H, desc->NQ, desc->DV};
    const int64_t score_shape[] = {desc->B, desc->H, desc->NQ, desc->NP + desc->NK};
    size_t item = desc->output.type == GPU_MHA_F32 ? sizeof(float) : sizeof(uint16_t);

    *results = (struct mha_run_results){.output = allocate(4, output_shape, item)};
    bool complete = results->output != NULL;
    if (desc->lse) {
        complete = (results->lse = allocate(3, output_shape, sizeof(float))) && complete;
    }
    if (desc->weights) {
        complete = (results->weights = allocate(4, score_shape, sizeof(float))) && complete;
    }
    if (desc->scores) {
        complete = (results->scores = allocate(4, score_shape, sizeof(float))) && complete;
    }
    return complete || mha_fail(error, error_size, "out of memory for the results");
}

void mha_run_results_free(struct mha_run_results *results)
{
    free(results->output);
    free(results->lse);
    free(results->weights);
    free(results->scores);
}

/* ---- files -------------------------------------------------------------------------------- */

static struct mha_npy output_array(const struct mha_run_results *results,
                                   const struct mha_run_problem *problem)
{
    const gpu_mha_desc *desc = &problem->desc;
    struct mha_npy array = {
        .type = desc->output.type == GPU_MHA_F16    ? MHA_NPY_F16
                : desc->output.type == GPU_MHA_BF16 ? MHA_NPY_BF16
                                                    : MHA_NPY_F32,
        .rank = problem->rank, /* the query's */
        .shape = {desc->B, desc->H, desc->NQ, desc->DV},
        .data = results->output,
    };

    if (problem->rank == 3) {
        array.shape[1] = desc->NQ;
        array.shape[2] = desc->H * desc->DV;
    }
    return array;
}

/* Of f32, (B, H, NQ) or (B, H, NQ, NT), or without the heads. */
static struct mha_npy rows_array(const gpu_mha_desc *desc, int rank, bool averaged, void *data)
{
    struct mha_npy array = {.type = MHA_NPY_F32,
                            .rank = rank,
                            .shape = {desc->B, desc->H, desc->NQ, desc->NP + desc->NK},
                            .data = data};

    if (averaged) {
        array.rank = 3;
        array.shape[1] = desc->NQ;
        array.shape[2] = desc->NP + desc->NK;
    }
    return array;
}

struct mha_npy mha_run_result_array(const struct mha_run_results *results,
                                    const struct mha_run_problem *problem,
                                    enum mha_run_result result)
{
    const gpu_mha_desc *desc = &problem->desc;
    const bool averaged = desc->weights == GPU_MHA_WEIGHTS_AVERAGED;
    struct mha_npy array = result == MHA_RUN_OUTPUT ? output_array(results, problem)
                           : result == MHA_RUN_LSE  ? rows_array(desc, 3, false, results->lse)
                           : result == MHA_RUN_WEIGHTS
                               ? rows_array(desc, 4, averaged, results->weights)
                               : rows_array(desc, 4, false, results->scores);

    /* The memory has been allocated, so these products fit. */
    array_bytes(array.rank, array.shape, 1, &array.count);
    array.bytes = array.count * mha_npy_item_size(array.type);
    return array;
}

static void set_statistics(struct mha_run_results *results, const float *values, size_t count)
{
    double sum = 0;
    size_t numbers = 0;

    results->minimum = results->maximum = NAN;
    for (size_t i = 0; i < count; i++) {
        if (isnan(values[i])) {
            continue;
        }
        results->minimum = fmin(results->minimum, (double)values[i]);
        results->maximum = fmax(results->maximum, (double)values[i]);
        sum += (double)values[i];
        numbers++;
    }
    results->mean = numbers ? sum / (double)numbers : NAN;
    results->nan_count = (int64_t)(count - numbers);
}

static bool write_plot(const struct mha_run_results *results, const gpu_mha_desc *desc,
                       const struct mha_run_options *options, char *error, size_t error_size)
{
    int64_t NT = desc->NP + desc->NK;
    char title[64];

    snprintf(title, sizeof title, "attention weights, batch entry %lld", (long long)options->batch);
    const struct mha_plot plot = {
        .title = title,
        .H = desc->H,
        .NQ = desc->NQ,
        .NK = NT,
        .weights = results->weights + (size_t)options->batch * (size_t)(desc->H * desc->NQ * NT),
    };
    return mha_plot_write(options->plot, &plot, error, error_size);
}

/* No path, no file. */
static bool write_result(const char *path, const struct mha_run_results *results,
                         const struct mha_run_problem *problem, enum mha_run_result result,
                         char *error, size_t error_size)
{
    struct mha_npy array = mha_run_result_array(results, problem, result);
    return !path ||
           mha_npy_write(path, array.type, array.rank, array.shape, array.data, error, error_size);
}

bool mha_run_results_write(struct mha_run_results *results, const struct mha_run_problem *problem,
                           const struct mha_run_options *options, char *error, size_t error_size)
{
    const gpu_mha_desc *desc = &problem->desc;
    struct mha_npy output = mha_run_result_array(results, problem, MHA_RUN_OUTPUT);
    float *values = mha_npy_to_f32(&output);

    if (!values) {
        return mha_fail(error, error_size, "out of memory for the results");
    }
    set_statistics(results, values, output.count);
    /* What is written for bf16 is the same numbers as f32. */
    bool as_stored = output.type != MHA_NPY_BF16;
    mha_output_files_hold();
    bool written =
        write_result(options->lse, results, problem, MHA_RUN_LSE, error, error_size) &&
        write_result(options->weights, results, problem, MHA_RUN_WEIGHTS, error, error_size) &&
        write_result(options->scores, results, problem, MHA_RUN_SCORES, error, error_size) &&
        (!options->plot || write_plot(results, desc, options, error, error_size)) &&
        mha_npy_write(options->output, as_stored ? output.type : MHA_NPY_F32, output.rank,
                      output.shape, as_stored ? output.data : values, error, error_size);
    free(values);
    return mha_output_files_release(written, error, error_size);
}

/* ---- report ------------------------------------------------------------------------------- */

static json_t *shape_json(int rank, const int64_t *shape)
{
    json_t *array = json_array();
    for (int axis = 0; axis < rank; axis++) {
        json_array_append_new(array, json_integer((json_int_t)shape[axis]));
    }
    return array;
}

static json_t *file_json(const char *path, const struct mha_run_results *results,
                         const struct mha_run_problem *problem, enum mha_run_result result)
{
    struct mha_npy array = mha_run_result_array(results, problem, result);
    /* There is no bf16 in .npy. */
    return json_pack("{s:o s:s s:o}", "path", mha_json_text(path), "type",
                     array.type == MHA_NPY_F16 ? "f16" : "f32", "shape",
                     shape_json(array.rank, array.shape));
}

static json_t *files_json(const struct mha_run_results *results,
                          const struct mha_run_problem *problem,
                          const struct mha_run_options *options)
{
    const struct {
        const char *name, *path;
    } of[MHA_RUN_RESULTS] = {[MHA_RUN_OUTPUT] = {"output", options->output},
                             [MHA_RUN_LSE] = {"lse", options->lse},
                             [MHA_RUN_WEIGHTS] = {"weights", options->weights},
                             [MHA_RUN_SCORES] = {"scores", options->scores}};
    json_t *files = json_object();

    for (int r = 0; r < MHA_RUN_RESULTS; r++) {
        if (of[r].path) {
            json_object_set_new(files, of[r].name,
                                file_json(of[r].path, results, problem, (enum mha_run_result)r));
        }
    }
    if (options->plot) {
        json_object_set_new(files, "plot",
                            json_pack("{s:o}", "path", mha_json_text(options->plot)));
    }
    return files;
}

static enum mha_exit print_as_json(const struct mha_run_results *results,
                                   const struct mha_run_problem *problem,
                                   const struct mha_run_options *options)
{
    const gpu_mha_desc *desc = &problem->desc;
    json_t *sizes = json_pack(
        "{s:I s:I s:I s:I s:I s:I s:I s:I}", "B", (json_int_t)desc->B, "H", (json_int_t)desc->H,
        "HKV", (json_int_t)desc->HKV, "NQ", (json_int_t)desc->NQ, "NK", (json_int_t)desc->NK, "NP",
        (json_int_t)desc->NP, "DK", (json_int_t)desc->DK, "DV", (json_int_t)desc->DV);
    json_t *types =
        json_pack("{s:s s:s s:s s:s}", "query", mha_run_type_name(desc->query.type), "key",
                  mha_run_type_name(desc->key.type), "value", mha_run_type_name(desc->value.type),
                  "output", mha_run_type_name(desc->output.type));
    json_t *statistics =
        json_pack("{s:o s:o s:o s:I}", "min", mha_json_number(results->minimum), "max",
                  mha_json_number(results->maximum), "mean", mha_json_number(results->mean), "nan",
                  (json_int_t)results->nan_count);

    return mha_print_json(json_pack(
        "{s:o s:o s:I s:o s:o s:o s:o s:o}", "device", mha_json_text(results->device), "method",
        mha_json_text(results->method), "workspace_bytes", (json_int_t)results->workspace_bytes,
        "milliseconds", mha_json_number(results->milliseconds), "sizes", sizes, "types", types,
        "files", files_json(results, problem, options), "output", statistics));
}

static void print_as_text(const struct mha_run_results *results,
                          const struct mha_run_problem *problem,
                          const struct mha_run_options *options)
{
    struct mha_npy output = mha_run_result_array(results, problem, MHA_RUN_OUTPUT);
    char shape[MHA_NPY_SHAPE_TEXT];

    mha_npy_shape_text(output.rank, output.shape, shape, sizeof shape);
    printf("%s: %s %s", options->output, mha_run_type_name(problem->desc.output.type), shape);
    if (output.type == MHA_NPY_BF16) {
        printf(" (written as f4, as .npy has no bf16)");
    }
    if (!isnan(results->mean)) {
        printf(", %g to %g, mean %g", results->minimum, results->maximum, results->mean);
    }
    if (results->nan_count) {
        printf(", %lld NaN", (long long)results->nan_count);
    }
    printf(
        "\n%s: %s, %.2f ms with copies and kernels that had to be built, %zu bytes of workspace\n",
        results->device, results->method, results->milliseconds, results->workspace_bytes);
}

enum mha_exit mha_run_results_print(const struct mha_run_results *results,
                                    const struct mha_run_problem *problem,
                                    const struct mha_run_options *options)
{
    if (options->as_json) {
        return print_as_json(results, problem, options);
    }
    print_as_text(results, problem, options);
    return MHA_EXIT_OK;
}
