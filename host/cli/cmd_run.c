/*
 * gpu-mha run: attention on .npy files. The parts are in run_options.c, run_problem.c and
 * run_results.c; here is the order in which they are used.
 */
#include <stdio.h>

#include "command.h"
#include "run.h"

/* The arrays that the descriptor asks for; what it does not ask for is NULL. */
static gpu_mha_arrays arrays_of(const struct mha_run_problem *problem,
                                const struct mha_run_results *results)
{
    const gpu_mha_desc *desc = &problem->desc;
    gpu_mha_arrays arrays = {
        .struct_size = sizeof arrays,
        .query = problem->query.data,
        .key = problem->key.data,
        .value = problem->value.data,
        .key_lengths = problem->key_lengths.data,
        .alibi_slopes = problem->alibi_slopes.data,
        .sinks = problem->sinks.data,
        .output = results->output,
        .lse = results->lse,
        .weights = results->weights,
        .scores = results->scores,
    };

    if (desc->NP > 0) {
        arrays.past_key = problem->past_key.data;
        arrays.past_value = problem->past_value.data;
    }
    if (desc->mask.type != GPU_MHA_MASK_NONE) {
        arrays.mask = problem->mask.data;
    }
    if (desc->bias.type != GPU_MHA_MASK_NONE) {
        arrays.bias = problem->bias.data;
    }
    return arrays;
}

/* Computes; the plan is made first so that building kernels does not count as running them. */
static enum mha_exit compute(const struct mha_run_problem *problem, const char *device,
                             struct mha_run_results *results)
{
    gpu_mha_arrays arrays = arrays_of(problem, results);
    gpu_mha_context *context = NULL;
    gpu_mha_plan *plan = NULL;
    enum mha_exit code = MHA_EXIT_OK;

    if (gpu_mha_context_create(device, &context) ||
        gpu_mha_plan_create(context, &problem->desc, &plan)) {
        code = mha_report_library_error(NULL);
        goto cleanup;
    }
    mha_device_name(context, results->device, sizeof results->device);
    snprintf(results->method, sizeof results->method, "%s", gpu_mha_plan_text(plan));
    results->workspace_bytes = gpu_mha_plan_workspace_bytes(plan);

    double start = mha_milliseconds();
    if (gpu_mha(context, &problem->desc, &arrays)) {
        code = mha_report_library_error(NULL);
        goto cleanup;
    }
    results->milliseconds = mha_milliseconds() - start;

cleanup:
    gpu_mha_plan_release(plan);
    gpu_mha_context_release(context);
    return code;
}

enum mha_exit mha_cmd_run(int argc, char **argv)
{
    struct mha_run_options options;
    struct mha_run_problem problem = {0};
    struct mha_run_results results = {0};
    char error[MHA_ERROR_SIZE] = "";
    enum mha_exit code;

    if (!mha_run_options_parse(&options, argc, argv, &code)) {
        return code;
    }

    if (!mha_run_problem_read(&problem, &options, &code, error, sizeof error)) {
        mha_report("%s", error);
        goto cleanup;
    }
    code = MHA_EXIT_FAILED;
    if (!mha_run_results_allocate(&results, &problem.desc, error, sizeof error)) {
        mha_report("%s", error);
        goto cleanup;
    }
    code = compute(&problem, options.device, &results);
    if (code != MHA_EXIT_OK) {
        goto cleanup;
    }
    code = MHA_EXIT_FAILED;
    if (!mha_run_results_write(&results, &problem, &options, error, sizeof error)) {
        mha_report("%s", error);
        goto cleanup;
    }
    if (!mha_run_results_expect(&results, &problem, &options, error, sizeof error)) {
        mha_report("%s", error);
        goto cleanup;
    }
    code = mha_run_results_print(&results, &problem, &options);

cleanup:
    mha_run_results_free(&results);
    mha_run_problem_free(&problem);
    return code;
}
