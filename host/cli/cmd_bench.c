/*
 * gpu-mha bench: attention measured against what the device can do at most. Here is the order of
 * things; the parts are listed in bench.h.
 *
 * Machines are shared and change their pace within seconds. So shapes and limits take turns, round
 * after round, and what is compared was measured in the same minutes.
 */
#include <math.h>
#include <stdlib.h>

#include "bench.h"
#include "command.h"

enum {
    ROUNDS = 9,
    WARM_UP_RUNS = 2,
    SAMPLES_LEAST = 3,   /* of a shape whose runs take longer than its time */
    REPEATS_MOST = 10000 /* of a shape in one round */
};

/* In processes of their own, before this one uses OpenCL. */
static bool measure_starts(const struct mha_bench_options *options, struct mha_bench_case *cases)
{
    for (size_t i = 0; i < options->shape_count; i++) {
        cases[i].cold_ms = cases[i].warm_ms = NAN;
        if (!options->with_start) {
            continue;
        }
        mha_bench_progress("start %zu/%zu: %s", i + 1, options->shape_count,
                           options->shapes[i].name);
        if (!mha_bench_start_measure(&options->shapes[i], options->device, &cases[i].cold_ms,
                                     &cases[i].warm_ms)) {
            return false;
        }
    }
    return true;
}

/* Builds what is left to build and finds out how many runs fill a shape's part of a round. */
static bool warm_up(struct mha_bench_case *one, struct mha_bench_device *device, double seconds)
{
    double milliseconds = 0;

    for (int run = 0; run <= WARM_UP_RUNS; run++) {
        if (!mha_bench_case_run(one, device, &milliseconds)) {
            return false;
        }
    }
    double repeats = seconds * 1e3 / ROUNDS / fmax(milliseconds, 1e-3);
    one->repeats = (size_t)fmin(fmax(repeats, 1), REPEATS_MOST);
    return true;
}

static bool run_case(struct mha_bench_case *one, struct mha_bench_device *device, double seconds)
{
    double milliseconds = 0;

    for (size_t run = 0; run < one->repeats; run++) {
        if (one->samples.count >= SAMPLES_LEAST && one->spent_ms > seconds * 1e3) {
            return true;
        }
        if (!mha_bench_case_run(one, device, &milliseconds) ||
            !mha_bench_samples_add(&one->samples, milliseconds)) {
            return false;
        }
        one->spent_ms += milliseconds;
    }
    return true;
}

static bool run_rounds(const struct mha_bench_options *options, struct mha_bench_case *cases,
                       struct mha_bench_device *device, struct mha_bench_limits *limits)
{
    for (size_t i = 0; i < options->shape_count; i++) {
        mha_bench_progress("warm up %zu/%zu: %s", i + 1, options->shape_count,
                           options->shapes[i].name);
        if (!warm_up(&cases[i], device, options->seconds)) {
            return false;
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        mha_bench_progress("round %d/%d: limits", round + 1, ROUNDS);
        if (!mha_bench_limits_round(limits)) {
            return false;
        }
        for (size_t i = 0; i < options->shape_count; i++) {
            mha_bench_progress("round %d/%d: %s", round + 1, ROUNDS, options->shapes[i].name);
            if (!run_case(&cases[i], device, options->seconds)) {
                return false;
            }
        }
    }
    return true;
}

static enum mha_exit bench(const struct mha_bench_options *options, struct mha_bench_case *cases)
{
    struct mha_bench_device device = {0};
    struct mha_bench_limits *limits = NULL;
    enum mha_exit code = MHA_EXIT_FAILED;

    if (!measure_starts(options, cases) || !mha_bench_device_open(&device, options->device)) {
        goto cleanup;
    }
    for (size_t i = 0; i < options->shape_count; i++) {
        mha_bench_progress("plan %zu/%zu: %s", i + 1, options->shape_count,
                           options->shapes[i].name);
        if (!mha_bench_case_open(&cases[i], &device, &options->shapes[i])) {
            goto cleanup;
        }
    }
    mha_bench_progress("limits");
    if (!mha_bench_cases_reserve(cases, options->shape_count, &device,
                                 mha_bench_pool_bytes(&device))) {
        goto cleanup;
    }
    limits = mha_bench_limits_create(&device);
    if (!limits || !run_rounds(options, cases, &device, limits)) {
        goto cleanup;
    }
    mha_bench_progress(NULL);
    struct mha_bench_peaks peaks = mha_bench_limits_peaks(limits);
    code = mha_bench_report(options, &device, &peaks, cases);

cleanup:
    mha_bench_limits_free(limits);
    for (size_t i = 0; i < options->shape_count; i++) {
        mha_bench_case_close(&cases[i]);
    }
    mha_bench_device_close(&device);
    return code;
}

enum mha_exit mha_cmd_bench(int argc, char **argv)
{
    struct mha_bench_options options;
    enum mha_exit code;

    if (!mha_bench_options_parse(&options, argc, argv, &code)) {
        return code;
    }
    struct mha_bench_case *cases = calloc(options.shape_count, sizeof *cases);
    if (!cases) {
        mha_report("out of memory for %zu shapes", options.shape_count);
        return MHA_EXIT_FAILED;
    }
    code = bench(&options, cases);
    free(cases);
    return code;
}
