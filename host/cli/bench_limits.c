/*
 * What the device can do at most, measured with the kernels of kernels/bench/limits.cl.
 *
 * Which vector width, how many work-items and which order of reading suit a device best is found by
 * trying: each limit has some candidates, and the one with the best median is the limit.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_sources.h"
#include "command.h"

enum {
    CANDIDATES_MAX = 16,
    LAUNCHES_PER_ROUND = 100,
    FMA_ROUNDS_FIRST = 256, /* of the loop, in the first try */
    READ_UNROLL = 4         /* vectors per step of read_rate */
};
#define FMA_MILLISECONDS 10.0

enum limit { FMA, READ, LAUNCH };

struct candidate {
    enum limit limit;
    cl_kernel kernel;
    size_t items, group;
    double work; /* of one run: operations, bytes or launches */
    struct mha_bench_samples samples;
};

struct mha_bench_limits {
    struct mha_bench_device *device;
    cl_mem sink; /* what the kernels write so that their work isn't removed */
    struct candidate candidates[CANDIDATES_MAX];
    size_t count;
};

/* ---- building ------------------------------------------------------------------------------ */

#define SOURCE_NAME "bench/limits.cl"

static const struct mha_bench_source *find_source(void)
{
    size_t i = 0;
    while (i + 1 < mha_bench_source_count && strcmp(mha_bench_sources[i].name, SOURCE_NAME) != 0) {
        i++;
    }
    return &mha_bench_sources[i];
}

static void report_build(const struct mha_bench_device *device, cl_program program, cl_int code)
{
    char log[4096] = "";

    clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
    mha_report("%s does not build on %s (code %d): %s", SOURCE_NAME, device->name, (int)code, log);
}

/* 24 sums beside two operands fit 32 registers; of narrower vectors there may be only 16. */
static int chains_of(int lanes)
{
    return lanes == 16 ? 24 : 12;
}

/* The program for vectors of `lanes` floats; NULL after a report. */
static cl_program build(const struct mha_bench_device *device, int lanes)
{
    const struct mha_bench_source *source = find_source();
    char options[128];
    cl_device_fp_config abilities = 0;
    cl_int code = CL_SUCCESS;

    clGetDeviceInfo(device->id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof abilities, &abilities, NULL);
    snprintf(options, sizeof options, "-cl-std=CL1.2 -w -D VEC=%d -D CHAINS=%d -D HAS_FMA=%d",
             lanes, chains_of(lanes), (abilities & CL_FP_FMA) != 0);
    cl_program program = clCreateProgramWithSource(device->cl, 1, (const char *[]){source->text},
                                                   &source->length, &code);
    if (!mha_bench_cl_ok(code, "clCreateProgramWithSource")) {
        return NULL;
    }
    code = clBuildProgram(program, 1, &device->id, options, NULL, NULL);
    if (code != CL_SUCCESS) {
        report_build(device, program, code);
        clReleaseProgram(program);
        return NULL;
    }
    return program;
}

static cl_kernel make_kernel(cl_program program, const char *name)
{
    cl_int code = CL_SUCCESS;
    cl_kernel kernel = clCreateKernel(program, name, &code);

    return mha_bench_cl_ok(code, "clCreateKernel") ? kernel : NULL;
}

static bool set_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    return mha_bench_cl_ok(clSetKernelArg(kernel, index, size, value), "clSetKernelArg");
}

/* A group that the kernel's registers allow. */
static size_t group_of(const struct mha_bench_device *device, cl_kernel kernel)
{
    size_t most = device->group;

    clGetKernelWorkGroupInfo(kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most,
                             NULL);
    return most > 0 && most < device->group ? most : device->group;
}

static bool run(const struct mha_bench_limits *limits, const struct candidate *one,
                double *milliseconds)
{
    cl_command_queue queue = limits->device->queue;
    double start = mha_milliseconds();
    cl_int code = clEnqueueNDRangeKernel(queue, one->kernel, 1, NULL, &one->items, &one->group, 0,
                                         NULL, NULL);

    if (!mha_bench_cl_ok(code, "clEnqueueNDRangeKernel")) {
        return false;
    }
    code = clFinish(queue);
    *milliseconds = mha_milliseconds() - start;
    return mha_bench_cl_ok(code, "clFinish");
}

/* ---- candidates ---------------------------------------------------------------------------- */

/* The next free candidate with its kernel; NULL after a report. */
static struct candidate *add(struct mha_bench_limits *limits, enum limit limit, cl_program program,
                             const char *kernel)
{
    if (limits->count == CANDIDATES_MAX) {
        mha_report("there are more than %d candidates for a limit", CANDIDATES_MAX);
        return NULL;
    }
    struct candidate *one = &limits->candidates[limits->count];
    one->kernel = make_kernel(program, kernel);
    if (!one->kernel) {
        return NULL;
    }
    limits->count++;
    one->limit = limit;
    one->group = group_of(limits->device, one->kernel);
    return one;
}

/* Some hundred work-items per lane group hide a GPU's latencies; a core needs one or a few. */
static size_t items_of(const struct mha_bench_device *device, const struct candidate *one,
                       size_t per_core)
{
    return device->compute_units * (device->is_cpu ? per_core : 2 * per_core * one->group);
}

static bool add_fma(struct mha_bench_limits *limits, cl_program program, int lanes)
{
    const cl_float factor = 0.999f, addend = 0.001f;
    cl_uint rounds = FMA_ROUNDS_FIRST;
    double milliseconds = 0;
    struct candidate *one = add(limits, FMA, program, "fma_rate");

    if (!one || !set_argument(one->kernel, 0, sizeof limits->sink, &limits->sink) ||
        !set_argument(one->kernel, 1, sizeof factor, &factor) ||
        !set_argument(one->kernel, 2, sizeof addend, &addend)) {
        return false;
    }
    one->items = items_of(limits->device, one, 8);
    /* Twice as many rounds until the start no longer counts; the first run also builds. */
    do {
        rounds *= 2;
        if (!set_argument(one->kernel, 3, sizeof rounds, &rounds) ||
            !run(limits, one, &milliseconds) || !run(limits, one, &milliseconds)) {
            return false;
        }
    } while (milliseconds < FMA_MILLISECONDS && rounds < 1u << 30);
    one->work = 2.0 * lanes * chains_of(lanes) * (double)rounds * (double)one->items;
    return true;
}

/* One stretch of the pool for each work-item, or all side by side in one stream. */
static bool add_read(struct mha_bench_limits *limits, cl_program program, int lanes, cl_mem pool,
                     size_t pool_bytes, size_t per_core, bool side_by_side)
{
    const size_t vector_bytes = (size_t)lanes * 4;
    double milliseconds = 0;
    struct candidate *one = add(limits, READ, program, "read_rate");

    if (!one) {
        return false;
    }
    one->items = items_of(limits->device, one, per_core);
    /* Each reads something, even where memory is small. */
    const size_t most = pool_bytes / vector_bytes / READ_UNROLL / one->group * one->group;
    one->items = one->items < most ? one->items : most;
    const cl_ulong steps = pool_bytes / vector_bytes / one->items / READ_UNROLL;
    const cl_ulong spacing = side_by_side ? 1 : steps * READ_UNROLL;
    const cl_ulong stride = side_by_side ? one->items : 1;
    one->work = (double)steps * READ_UNROLL * (double)vector_bytes * (double)one->items;
    return set_argument(one->kernel, 0, sizeof pool, &pool) &&
           set_argument(one->kernel, 1, sizeof spacing, &spacing) &&
           set_argument(one->kernel, 2, sizeof stride, &stride) &&
           set_argument(one->kernel, 3, sizeof steps, &steps) &&
           set_argument(one->kernel, 4, sizeof limits->sink, &limits->sink) &&
           run(limits, one, &milliseconds);
}

static bool add_launch(struct mha_bench_limits *limits, cl_program program)
{
    double milliseconds = 0;
    struct candidate *one = add(limits, LAUNCH, program, "empty");

    if (!one) {
        return false;
    }
    one->items = one->group = 1;
    one->work = 1;
    return run(limits, one, &milliseconds);
}

static bool fill_pools(struct mha_bench_limits *limits, cl_program program)
{
    struct mha_bench_device *device = limits->device;
    cl_kernel kernel = make_kernel(program, "fill_random");
    bool done = kernel != NULL;

    for (cl_int type = 0; done && type < MHA_BENCH_TYPES; type++) {
        const cl_uint seed = 0x9e3779b9u * (cl_uint)(type + 1);
        const size_t words = device->pool_bytes[type] / 4;
        if (!device->pool[type]) {
            continue;
        }
        done = set_argument(kernel, 0, sizeof(cl_mem), &device->pool[type]) &&
               set_argument(kernel, 1, sizeof type, &type) &&
               set_argument(kernel, 2, sizeof seed, &seed) &&
               mha_bench_cl_ok(clEnqueueNDRangeKernel(device->queue, kernel, 1, NULL, &words, NULL,
                                                      0, NULL, NULL),
                               "clEnqueueNDRangeKernel") &&
               mha_bench_cl_ok(clFinish(device->queue), "clFinish");
    }
    if (kernel) {
        clReleaseKernel(kernel);
    }
    return done;
}

static bool add_candidates(struct mha_bench_limits *limits, cl_program program, int lanes,
                           bool first)
{
    struct mha_bench_device *device = limits->device;
    int type = 0;

    while (!device->pool[type]) {
        type++;
    }
    cl_mem pool = device->pool[type];
    size_t bytes = device->pool_bytes[type];
    if (!add_fma(limits, program, lanes)) {
        return false;
    }
    if (!first) {
        return device->is_cpu || add_read(limits, program, lanes, pool, bytes, 4, true);
    }
    if (!fill_pools(limits, program) || !add_launch(limits, program)) {
        return false;
    }
    if (!device->is_cpu) {
        return add_read(limits, program, lanes, pool, bytes, 1, true) &&
               add_read(limits, program, lanes, pool, bytes, 4, true);
    }
    return add_read(limits, program, lanes, pool, bytes, 1, false) &&
           add_read(limits, program, lanes, pool, bytes, 4, false) &&
           add_read(limits, program, lanes, pool, bytes, 64, false);
}

struct mha_bench_limits *mha_bench_limits_create(struct mha_bench_device *device)
{
    static const int cpu_lanes[] = {16, 8, 4}, other_lanes[] = {4, 2, 1};
    const int *lanes = device->is_cpu ? cpu_lanes : other_lanes;
    struct mha_bench_limits *limits = calloc(1, sizeof *limits);
    bool done = false;

    if (!limits) {
        mha_report("out of memory for the limits");
        return NULL;
    }
    limits->device = device;
    /* A vector of 64 bytes for each work-item of the largest launch. */
    limits->sink = mha_bench_buffer(device, CL_MEM_READ_WRITE,
                                    (size_t)device->compute_units * 64 * 64 *
                                        (device->is_cpu ? 1 : device->group),
                                    "the buffer of the limits");
    if (!limits->sink) {
        goto cleanup;
    }
    for (int i = 0; i < 3; i++) {
        cl_program program = build(device, lanes[i]);
        bool added = program && add_candidates(limits, program, lanes[i], i == 0);
        if (program) {
            clReleaseProgram(program); /* the kernels keep it */
        }
        if (!added) {
            goto cleanup;
        }
    }
    done = true;

cleanup:
    if (!done) {
        mha_bench_limits_free(limits);
        limits = NULL;
    }
    return limits;
}

/* ---- measuring ----------------------------------------------------------------------------- */

bool mha_bench_limits_round(struct mha_bench_limits *limits)
{
    for (size_t i = 0; i < limits->count; i++) {
        struct candidate *one = &limits->candidates[i];
        int repeats = one->limit == LAUNCH ? LAUNCHES_PER_ROUND : 1;
        for (int repeat = 0; repeat < repeats; repeat++) {
            double milliseconds = 0;
            if (!run(limits, one, &milliseconds) ||
                !mha_bench_samples_add(&one->samples, milliseconds)) {
                return false;
            }
        }
    }
    return true;
}

/* Work per millisecond of the best candidate. */
static double best_rate(struct mha_bench_limits *limits, enum limit limit)
{
    double best = 0;

    for (size_t i = 0; i < limits->count; i++) {
        struct candidate *one = &limits->candidates[i];
        if (one->limit == limit) {
            best = fmax(best, one->work / mha_bench_samples_median(&one->samples));
        }
    }
    return best;
}

struct mha_bench_peaks mha_bench_limits_peaks(struct mha_bench_limits *limits)
{
    return (struct mha_bench_peaks){
        .fma_gflops = best_rate(limits, FMA) * 1e-6,
        .read_gbps = best_rate(limits, READ) * 1e-6,
        .launch_us = 1e3 / best_rate(limits, LAUNCH),
    };
}

void mha_bench_limits_free(struct mha_bench_limits *limits)
{
    if (!limits) {
        return;
    }
    for (size_t i = 0; i < limits->count; i++) {
        clReleaseKernel(limits->candidates[i].kernel);
        mha_bench_samples_free(&limits->candidates[i].samples);
    }
    if (limits->sink) {
        clReleaseMemObject(limits->sink);
    }
    free(limits);
}
