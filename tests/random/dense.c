/*
 * dense.c - see dense.h.
 */
#include "dense.h"

#include "harness/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAYS_MAX 16

/* Elements in front of an array, without dense.shift: no multiple of a vector. */
#define IN_FRONT 3

static int64_t matrix_count(const struct dense *d)
{
    return d->desc.B * d->desc.H * d->desc.NQ * d->NT;
}

static void *copy_of(const void *from, int64_t count, size_t element_bytes)
{
    void *to = NULL;

    if (from) {
        to = attention_alloc(count, element_bytes);
        memcpy(to, from, (size_t)count * element_bytes);
    }
    return to;
}

static void copy_arrays(struct dense *to, const double *q, const double *k, const double *v,
                        const uint8_t *mask, const double *bias, const int64_t *lengths,
                        const double *slopes, const double *sinks)
{
    const gpu_mha_desc *d = &to->desc;

    to->q = copy_of(q, d->B * d->H * d->NQ * d->DK, sizeof(double));
    to->k = copy_of(k, d->B * d->HKV * to->NT * d->DK, sizeof(double));
    to->v = copy_of(v, d->B * d->HKV * to->NT * d->DV, sizeof(double));
    to->mask = copy_of(mask, matrix_count(to), 1);
    to->bias = copy_of(bias, matrix_count(to), sizeof(double));
    to->key_lengths = copy_of(lengths, d->B, sizeof(int64_t));
    to->slopes = copy_of(slopes, d->H, sizeof(double));
    to->sinks = copy_of(sinks, d->H, sizeof(double));
}

struct dense dense_make(const struct attention_spec *spec)
{
    struct attention_data data;
    struct dense d = {.desc = spec->desc, .NT = spec->desc.NP + spec->desc.NK};
    const int has_lengths = d.desc.key_lengths != GPU_MHA_INDEX_NONE;

    attention_data_make(spec, &data);
    copy_arrays(&d, data.q, data.k, data.v, data.mask, data.bias,
                has_lengths ? data.key_lengths : NULL, data.slopes, data.sinks);
    attention_data_free(&data);
    return d;
}

struct dense dense_copy(const struct dense *from)
{
    struct dense d = *from;

    copy_arrays(&d, from->q, from->k, from->v, from->mask, from->bias, from->key_lengths,
                from->slopes, from->sinks);
    return d;
}

void dense_free(struct dense *d)
{
    free(d->q);
    free(d->k);
    free(d->v);
    free(d->mask);
    free(d->bias);
    free(d->key_lengths);
    free(d->slopes);
    free(d->sinks);
    *d = (struct dense){0};
}

double *dense_replace(double **array, int64_t count)
{
    double *old = *array;

    *array = alloc_doubles(count);
    return old;
}

/* ---- the reference ---- */

int64_t dense_offset(const struct dense *d, int64_t b)
{
    return d->desc.offset_kind == GPU_MHA_TOP_LEFT ? 0
           : d->desc.offset_kind == GPU_MHA_OFFSET
               ? d->desc.offset
               : (d->key_lengths ? d->key_lengths[b] : d->NT) - d->desc.NQ;
}

/* `offset` has room for one number per batch entry. */
static struct ref_problem problem_of(const struct dense *dense, int64_t *offset)
{
    const gpu_mha_desc *d = &dense->desc;
    const enum storage_type out = (enum storage_type)d->output.type;

    for (int64_t b = 0; b < d->B; b++) {
        offset[b] = dense_offset(dense, b);
    }
    return (struct ref_problem){.B = d->B,
                                .H = d->H,
                                .HKV = d->HKV,
                                .NQ = d->NQ,
                                .NK = dense->NT,
                                .DK = d->DK,
                                .DV = d->DV,
                                .q = dense->q,
                                .k = dense->k,
                                .v = dense->v,
                                .scale = d->has_scale ? (double)d->scale : ref_default_scale(d->DK),
                                .softcap = (double)d->softcap,
                                .mask = dense->mask,
                                .bias = dense->bias,
                                .key_lengths = dense->key_lengths,
                                .causal = d->causal,
                                .has_window = d->has_window,
                                .window_left = d->window_left,
                                .window_right = d->window_right,
                                .offset = offset,
                                .slopes = dense->slopes,
                                .sinks = dense->sinks,
                                .dropout = {(double)d->dropout, d->dropout_seed},
                                .u_out = storage_unit_roundoff(out),
                                .out_subnormal = storage_smallest_subnormal(out)};
}

int dense_visible(const struct dense *d, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int64_t offset[64];
    const struct ref_problem problem = problem_of(d, offset);

    return ref_visible(&problem, b, h, i, j);
}

/* Bounds of every element; 0, or -1 if the reference refuses. */
static int find_bounds(const struct dense *d, struct dense_result *result)
{
    int64_t *offset = attention_alloc(d->desc.B, sizeof(*offset));
    const struct ref_problem problem = problem_of(d, offset);
    struct ref_result want;
    int status = ref_attention(&problem, &want);

    if (status == 0) {
        result->bound_o = copy_of(want.bound_o, result->rows * result->DV, sizeof(double));
        result->bound_lse = copy_of(want.bound_lse, result->rows, sizeof(double));
        ref_result_free(&want);
    } else {
        printf("the reference refuses the problem\n");
    }
    free(offset);
    return status;
}

/* ---- the device ---- */

struct run {
    const struct dense *dense;
    cl_context cl;
    cl_mem mems[ARRAYS_MAX];
    int count;
    int failed;
};

static gpu_mha_buffer send(struct run *run, const void *block, size_t bytes, int64_t offset)
{
    cl_int code = CL_SUCCESS;
    cl_mem mem = clCreateBuffer(run->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes,
                                (void *)(uintptr_t)block, &code);

    if (mem) {
        run->mems[run->count++] = mem;
    } else {
        printf("clCreateBuffer gives %d for %zu bytes\n", code, bytes);
        run->failed = 1;
    }
    return (gpu_mha_buffer){mem, (uint64_t)offset};
}

static gpu_mha_buffer send_floats(struct run *run, struct layout l, enum storage_type type,
                                  const double *values)
{
    const int64_t elements = (l.span > l.offset ? l.span : l.offset) + IN_FRONT;
    void *block = layout_new(&l, type, elements, POISON_NAN, values);

    if (!block) {
        printf("no memory\n");
        exit(1);
    }
    gpu_mha_buffer buffer = send(run, block, (size_t)elements * storage_size(type), l.offset);
    free(block);
    return buffer;
}

static gpu_mha_buffer send_flat(struct run *run, int64_t count, const double *values,
                                enum storage_type type)
{
    const int64_t offset = IN_FRONT + run->dense->shift;

    return values ? send_floats(run, layout_make(LAYOUT_BHND, 1, 1, 1, count, offset), type, values)
                  : (gpu_mha_buffer){NULL, 0};
}

/* Bytes or whole numbers. */
static gpu_mha_buffer send_exact(struct run *run, const void *values, int64_t count, size_t size)
{
    const int64_t offset = IN_FRONT + run->dense->shift;
    unsigned char *block;

    if (!values) {
        return (gpu_mha_buffer){NULL, 0};
    }
    block = attention_alloc(offset + count, size);
    memcpy(block + (size_t)offset * size, values, (size_t)count * size);
    gpu_mha_buffer buffer = send(run, block, (size_t)(offset + count) * size, offset);
    free(block);
    return buffer;
}

static gpu_mha_buffer send_lengths(struct run *run)
{
    const struct dense *d = run->dense;
    gpu_mha_buffer buffer = {NULL, 0};

    if (d->key_lengths && d->desc.key_lengths == GPU_MHA_I64) {
        return send_exact(run, d->key_lengths, d->desc.B, sizeof(int64_t));
    }
    if (d->key_lengths) {
        int32_t *narrow = attention_alloc(d->desc.B, sizeof(*narrow));
        for (int64_t b = 0; b < d->desc.B; b++) {
            narrow[b] = (int32_t)d->key_lengths[b];
        }
        buffer = send_exact(run, narrow, d->desc.B, sizeof(*narrow));
        free(narrow);
    }
    return buffer;
}

/* Rows first .. first + count - 1 of every head of a (B,HKV,NT,D) array. */
static gpu_mha_buffer send_keys(struct run *run, enum layout_kind kind, gpu_mha_type type,
                                const double *all, int64_t D, int64_t first, int64_t count)
{
    const gpu_mha_desc *d = &run->dense->desc;
    const struct layout l = layout_make(kind, d->B, d->HKV, count, D, IN_FRONT + run->dense->shift);
    double *rows = alloc_doubles(layout_count(&l));

    for (int64_t head = 0; head < d->B * d->HKV && count > 0; head++) {
        memcpy(rows + head * count * D, all + (head * run->dense->NT + first) * D,
               (size_t)(count * D) * sizeof(double));
    }
    gpu_mha_buffer buffer = send_floats(run, l, (enum storage_type)type, rows);
    free(rows);
    return buffer;
}

static struct layout query_layout(const struct dense *d)
{
    return layout_make(d->query, d->desc.B, d->desc.H, d->desc.NQ, d->desc.DK, IN_FRONT + d->shift);
}

static struct layout output_layout(const struct dense *d)
{
    return layout_make(d->output, d->desc.B, d->desc.H, d->desc.NQ, d->desc.DV,
                       IN_FRONT + d->shift);
}

static gpu_mha_buffers send_all(struct run *run, size_t workspace)
{
    const struct dense *dense = run->dense;
    const gpu_mha_desc *d = &dense->desc;
    const int64_t matrix = matrix_count(dense), rows = d->B * d->H * d->NQ;
    gpu_mha_buffers b = {
        .query = send_floats(run, query_layout(dense), (enum storage_type)d->query.type, dense->q),
        .key = send_keys(run, dense->key, d->key.type, dense->k, d->DK, d->NP, d->NK),
        .value = send_keys(run, dense->value, d->value.type, dense->v, d->DV, d->NP, d->NK),
        .mask = send_exact(run, dense->mask, matrix, 1),
        .key_lengths = send_lengths(run),
        .alibi_slopes = send_flat(run, d->H, dense->slopes, STORAGE_F32),
        .sinks = send_flat(run, d->H, dense->sinks, STORAGE_F32),
        .output = send_floats(run, output_layout(dense), (enum storage_type)d->output.type, NULL)};

    if (d->NP > 0) {
        b.past_key = send_keys(run, dense->key, d->key.type, dense->k, d->DK, 0, d->NP);
        b.past_value = send_keys(run, dense->value, d->value.type, dense->v, d->DV, 0, d->NP);
    }
    if (dense->bias) {
        b.bias = send_flat(run, matrix, dense->bias,
                           (enum storage_type)(d->bias.type - GPU_MHA_MASK_F32));
    }
    if (d->lse) {
        double *zeros = alloc_doubles(rows);
        b.lse = send_flat(run, rows, zeros, STORAGE_F32);
        free(zeros);
    }
    if (workspace > 0) {
        void *bytes = attention_alloc((int64_t)workspace, 1);
        b.workspace = send(run, bytes, workspace, 0);
        free(bytes);
    }
    return b;
}

static double *read_back(cl_command_queue queue, gpu_mha_buffer from, struct layout l,
                         enum storage_type type, cl_event done)
{
    const size_t bytes = (size_t)l.span * storage_size(type);
    unsigned char *block = attention_alloc((int64_t)bytes, 1);
    double *values = alloc_doubles(layout_count(&l));
    cl_int code = clEnqueueReadBuffer(queue, from.mem, CL_TRUE, 0, bytes, block, 1, &done, NULL);

    if (code == CL_SUCCESS) {
        layout_gather(&l, type, block, values);
    } else {
        printf("clEnqueueReadBuffer gives %d\n", code);
        free(values);
        values = NULL;
    }
    free(block);
    return values;
}

/* Every field of the descriptor that the rest says. */
static gpu_mha_tensor tensor_of(gpu_mha_type type, enum layout_kind kind, struct layout l)
{
    gpu_mha_tensor t = {.type = type};

    if (kind == LAYOUT_BNHD) {
        t.layout = GPU_MHA_BNHD;
    } else if (kind != LAYOUT_BHND) {
        t.layout = GPU_MHA_STRIDED;
        t.stride_b = l.stride_b;
        t.stride_h = l.stride_h;
        t.stride_n = l.stride_n;
    }
    return t;
}

static gpu_mha_desc describe(const struct dense *dense)
{
    gpu_mha_desc d = dense->desc;

    d.mask = (gpu_mha_mask){.type = dense->mask ? GPU_MHA_MASK_BOOL : GPU_MHA_MASK_NONE};
    d.bias = (gpu_mha_mask){.type = dense->bias ? d.bias.type : GPU_MHA_MASK_NONE};
    d.alibi = dense->slopes ? GPU_MHA_ALIBI_SLOPES : GPU_MHA_ALIBI_NONE;
    d.sinks = dense->sinks != NULL;
    d.query = tensor_of(d.query.type, dense->query, query_layout(dense));
    d.key = tensor_of(d.key.type, dense->key, layout_make(dense->key, d.B, d.HKV, d.NK, d.DK, 0));
    d.value =
        tensor_of(d.value.type, dense->value, layout_make(dense->value, d.B, d.HKV, d.NK, d.DV, 0));
    d.output = tensor_of(d.output.type, dense->output, output_layout(dense));
    d.past_key = d.past_value = (gpu_mha_tensor){GPU_MHA_F32};
    if (d.NP > 0) {
        d.past_key =
            tensor_of(d.key.type, dense->key, layout_make(dense->key, d.B, d.HKV, d.NP, d.DK, 0));
        d.past_value = tensor_of(d.value.type, dense->value,
                                 layout_make(dense->value, d.B, d.HKV, d.NP, d.DV, 0));
    }
    return d;
}

/* Output and LSE; 0, or -1. */
static int run_plan(gpu_mha_context *context, gpu_mha_plan *plan, struct run *run,
                    struct dense_result *result)
{
    const struct dense *d = run->dense;
    const gpu_mha_buffers buffers = send_all(run, gpu_mha_plan_workspace_bytes(plan));
    cl_command_queue queue = queue_make(context, 0);
    cl_event done = NULL;

    if (!run->failed && gpu_mha_enqueue(plan, queue, &buffers, 0, NULL, &done) != GPU_MHA_OK) {
        printf("gpu_mha_enqueue: %s\n", gpu_mha_last_error());
    }
    if (done) {
        result->o = read_back(queue, buffers.output, output_layout(d),
                              (enum storage_type)d->desc.output.type, done);
        result->lse =
            read_back(queue, buffers.lse,
                      layout_make(LAYOUT_BHND, 1, 1, 1, result->rows, (int64_t)buffers.lse.offset),
                      STORAGE_F32, done);
        clReleaseEvent(done);
    }
    clReleaseCommandQueue(queue);
    for (int n = 0; n < run->count; n++) {
        clReleaseMemObject(run->mems[n]);
    }
    return result->o && result->lse ? 0 : -1;
}

int dense_run(gpu_mha_context *context, const struct dense *d, gpu_mha_plan **plan,
              struct dense_result *result)
{
    const gpu_mha_desc desc = describe(d);
    struct run run = {.dense = d, .cl = gpu_mha_context_cl(context)};

    *result = (struct dense_result){.rows = desc.B * desc.H * desc.NQ, .DV = desc.DV};
    if (!*plan && gpu_mha_plan_create(context, &desc, plan) != GPU_MHA_OK) {
        printf("gpu_mha_plan_create: %s\n", gpu_mha_last_error());
        return -1;
    }
    if (run_plan(context, *plan, &run, result) != 0 || find_bounds(d, result) != 0) {
        dense_result_free(result);
        return -1;
    }
    return 0;
}

void dense_result_free(struct dense_result *result)
{
    free(result->o);
    free(result->bound_o);
    free(result->lse);
    free(result->bound_lse);
    *result = (struct dense_result){0};
}
