/*
 * One shape on one device: its plan, its slices of the shared buffers, and one run.
 *
 * Inputs of a run lie side by side in a slice of the pool of random numbers; each run takes the
 * next slice. So decode steps find keys and values in memory, as a model's many layers would.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "command.h"

/* Tensors start where the widest loads like it. */
enum { ALIGNMENT = 256 };

/* A count of elements, or more than any buffer has. */
static size_t bounded(double count)
{
    return count > 1e15 ? (size_t)1e15 : (size_t)count;
}

/* Product of four positive numbers, or more than any buffer has. */
static size_t product(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return bounded((double)a * (double)b * (double)c * (double)d);
}

static size_t element_bytes(gpu_mha_type type)
{
    return type == GPU_MHA_F32 ? 4 : 2;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void lay_out_layer(struct mha_bench_case *one)
{
    const struct mha_bench_layer layer = mha_bench_layer_of(one->shape);
    size_t size = element_bytes(one->shape->desc.query.type);

    one->slice_bytes = 0;
    for (int part = 0; part < MHA_BENCH_LAYER_PARTS; part++) {
        one->layer_at[part] = one->slice_bytes / size;
        one->slice_bytes += aligned(size * bounded(layer.counts[part]));
    }
    one->output_bytes = size * bounded(layer.counts[MHA_BENCH_INPUT]);
}

static void lay_out(struct mha_bench_case *one)
{
    const gpu_mha_desc *desc = &one->shape->desc;
    size_t size = element_bytes(desc->query.type);

    one->key_at = aligned(size * product(desc->B, desc->H, desc->NQ, desc->DK));
    one->value_at = one->key_at + aligned(size * product(desc->B, desc->HKV, desc->NK, desc->DK));
    one->slice_bytes =
        one->value_at + aligned(size * product(desc->B, desc->HKV, desc->NK, desc->DV));
    one->output_bytes = size * product(desc->B, desc->H, desc->NQ, desc->DV);
}

static bool make_key_lengths(struct mha_bench_case *one, struct mha_bench_device *device)
{
    size_t count = (size_t)one->shape->desc.B;
    cl_int *lengths = malloc(count * sizeof *lengths);
    cl_int code = CL_SUCCESS;

    if (!lengths) {
        mha_report("out of memory for %zu key lengths", count);
        return false;
    }
    for (size_t b = 0; b < count; b++) {
        lengths[b] = (cl_int)mha_bench_key_length(one->shape, (int64_t)b);
    }
    one->key_lengths = clCreateBuffer(device->cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                      count * sizeof *lengths, lengths, &code);
    free(lengths);
    return mha_bench_cl_ok(code, "clCreateBuffer");
}

bool mha_bench_case_open(struct mha_bench_case *one, struct mha_bench_device *device,
                         const struct mha_bench_shape *shape)
{
    one->shape = shape;
    const gpu_mha_status made =
        shape->width > 0 ? mha_bench_layer_plan(device->context, shape, &one->plan)
                         : gpu_mha_plan_create(device->context, &shape->desc, &one->plan);
    if (made) {
        mha_report_library_error(shape->name);
        return false;
    }
    if (shape->width > 0) {
        lay_out_layer(one);
    } else {
        lay_out(one);
    }
    return shape->desc.key_lengths == GPU_MHA_INDEX_NONE || make_key_lengths(one, device);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

bool mha_bench_cases_reserve(struct mha_bench_case *cases, size_t count,
                             struct mha_bench_device *device, size_t pool_bytes)
{
    size_t output = 0, workspace = 0, pools[MHA_BENCH_TYPES] = {0};
    const char *output_of = "", *workspace_of = "", *pool_of[MHA_BENCH_TYPES] = {""};
    char what[256];

    for (size_t i = 0; i < count; i++) {
        gpu_mha_type type = cases[i].shape->desc.query.type;
        size_t needed = gpu_mha_plan_workspace_bytes(cases[i].plan);
        if (pools[type] == 0 || cases[i].slice_bytes > pools[type]) {
            pool_of[type] = cases[i].shape->name;
        }
        pools[type] = larger(pools[type], cases[i].slice_bytes);
        if (cases[i].output_bytes > output) {
            output_of = cases[i].shape->name;
        }
        output = larger(output, cases[i].output_bytes);
        if (needed > workspace) {
            workspace_of = cases[i].shape->name;
        }
        workspace = larger(workspace, needed);
    }
    for (int type = 0; type < MHA_BENCH_TYPES; type++) {
        if (pools[type] == 0) {
            continue;
        }
        device->pool_bytes[type] = larger(pools[type], pool_bytes);
        snprintf(what, sizeof what, "the input of shape %s", pool_of[type]);
        device->pool[type] =
            mha_bench_buffer(device, CL_MEM_READ_WRITE, device->pool_bytes[type], what);
        if (!device->pool[type]) {
            return false;
        }
    }
    snprintf(what, sizeof what, "the output of shape %s", output_of);
    device->output = mha_bench_buffer(device, CL_MEM_READ_WRITE, output, what);
    if (!device->output || workspace == 0) {
        return device->output != NULL;
    }
    snprintf(what, sizeof what, "the workspace of shape %s", workspace_of);
    device->workspace = mha_bench_buffer(device, CL_MEM_READ_WRITE, workspace, what);
    return device->workspace != NULL;
}

bool mha_bench_case_run(struct mha_bench_case *one, struct mha_bench_device *device,
                        double *milliseconds)
{
    gpu_mha_type type = one->shape->desc.query.type;
    size_t slices = device->pool_bytes[type] / one->slice_bytes;
    size_t at = one->next++ % slices * one->slice_bytes;
    size_t size = element_bytes(type);
    const gpu_mha_buffer workspace = {
        gpu_mha_plan_workspace_bytes(one->plan) ? device->workspace : NULL, 0};
    const gpu_mha_buffers buffers = {
        .struct_size = sizeof buffers,
        .query = {device->pool[type], at / size},
        .key = {device->pool[type], (at + one->key_at) / size},
        .value = {device->pool[type], (at + one->value_at) / size},
        .key_lengths = {one->key_lengths, 0},
        .output = {device->output, 0},
        .workspace = workspace,
    };

    double start = mha_milliseconds();
    const gpu_mha_status enqueued =
        one->shape->width > 0 ? mha_bench_layer_enqueue(one, device, at / size, workspace)
                              : gpu_mha_enqueue(one->plan, device->queue, &buffers, 0, NULL, NULL);
    if (enqueued) {
        mha_report_library_error(one->shape->name);
        return false;
    }
    cl_int code = clFinish(device->queue);
    *milliseconds = mha_milliseconds() - start;
    return mha_bench_cl_ok(code, "clFinish");
}

void mha_bench_case_close(struct mha_bench_case *one)
{
    gpu_mha_plan_release(one->plan);
    if (one->key_lengths) {
        clReleaseMemObject(one->key_lengths);
    }
    mha_bench_samples_free(&one->samples);
    *one = (struct mha_bench_case){0};
}
