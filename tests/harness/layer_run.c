/*
 * layer_run.c - see layer_run.h.
 */
#include "layer_run.h"

#include "assertions.h"
#include "canary.h"
#include "queue.h"
#include "storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *layer_array_name(enum layer_array array)
{
    static const char *const names[LAYER_ARRAYS] = {
        "query_input", "key_input",  "value_input", "weight_q",    "weight_k",
        "weight_v",    "weight_out", "bias_q",      "bias_k",      "bias_v",
        "bias_out",    "mask",       "bias",        "key_lengths", "alibi_slopes",
        "sinks",       "output",     "lse",         "weights",     "scores"};

    return names[array];
}

/* ---- drawing ---- */

static void *allocate(size_t count, size_t element_bytes)
{
    void *memory = calloc(count + 1, element_bytes);

    if (!memory) {
        fprintf(stderr, "no memory for %zu elements of %zu bytes\n", count, element_bytes);
        exit(1);
    }
    return memory;
}

static void *make(struct layer_data *data, enum layer_array array, int64_t count, size_t bytes)
{
    data->arrays[array].count = (size_t)count;
    data->arrays[array].element_bytes = bytes;
    return data->arrays[array].host = allocate((size_t)count, bytes);
}

/* Normal numbers of the given deviation, as stored. */
static double *draw(struct layer_data *data, enum layer_array array, struct rng *rng,
                    gpu_mha_type type, int64_t count, double deviation)
{
    double *dense = alloc_doubles(count);

    fill_normal_as(rng, (enum storage_type)type, dense, count, 0, deviation);
    storage_pack((enum storage_type)type, make(data, array, count, type == GPU_MHA_F32 ? 4 : 2),
                 dense, count);
    return dense;
}

/* The arrays of the weights and biases of q, k and v as packed_qkv has them: one behind the other.
 */
static void pack_qkv(struct layer_data *data)
{
    for (int kind = 0; kind < 2; kind++) {
        const enum layer_array first = kind == 0 ? LAYER_WEIGHT_Q : LAYER_BIAS_Q;
        size_t counts[3], total = 0, at = 0, bytes = data->arrays[first].element_bytes;
        if (!data->arrays[first].host) {
            continue;
        }
        for (int m = 0; m < 3; m++) {
            total += counts[m] = data->arrays[first + m].count * bytes;
        }
        unsigned char *packed = allocate(total, 1);
        for (int m = 0; m < 3; m++) {
            memcpy(packed + at, data->arrays[first + m].host, counts[m]);
            at += counts[m];
            free(data->arrays[first + m].host);
            data->arrays[first + m].host = NULL;
            data->arrays[first + m].count = 0;
        }
        data->arrays[first].host = packed;
        data->arrays[first].count = total / bytes;
    }
}

static void make_maps(struct layer_data *data, struct rng *rng)
{
    const gpu_mha_layer_desc *d = &data->desc;
    const gpu_mha_desc *a = &data->attention;
    const int64_t in[4] = {d->EQ, d->EK, d->EV, a->H * a->DV};
    const int64_t out[4] = {a->H * a->DK, a->HKV * a->DK, a->HKV * a->DV, d->EO};
    const gpu_mha_type types[3] = {a->query.type, a->key.type, a->value.type};
    const int wanted[4] = {d->bias_q, d->bias_k, d->bias_v, d->bias_out};

    for (int m = 0; m < 4; m++) {
        if (m < 3) {
            data->inputs[m] = draw(data, LAYER_QUERY_INPUT + m, rng, types[m],
                                   a->B * (m == 0 ? a->NQ : a->NK) * in[m], 1);
        }
        data->weights[m] = draw(data, LAYER_WEIGHT_Q + m, rng, d->weight_type, out[m] * in[m],
                                1 / sqrt((double)in[m]));
        if (wanted[m]) {
            data->biases[m] = draw(data, LAYER_BIAS_Q + m, rng, d->weight_type, out[m], 1);
        }
    }
    if (d->packed_qkv) {
        pack_qkv(data);
    }
}

static void make_masks(struct layer_data *data, struct rng *rng)
{
    const gpu_mha_desc *a = &data->attention;
    const int64_t count = a->B * a->H * a->NQ * a->NK;

    if (a->mask.type != GPU_MHA_MASK_NONE) {
        data->mask = make(data, LAYER_MASK, count, 1);
        for (int64_t x = 0; x < count; x++) {
            data->mask[x] = (uint8_t)(rng_below(rng, 4) * 85);
        }
    }
    if (a->bias.type != GPU_MHA_MASK_NONE) {
        const enum storage_type type = (enum storage_type)(a->bias.type - GPU_MHA_MASK_F32);
        data->bias = draw(data, LAYER_BIAS, rng, (gpu_mha_type)type, count, 1);
        for (int64_t x = 0; x < count; x += 5) {
            data->bias[x] = -INFINITY;
            storage_store(type, data->arrays[LAYER_BIAS].host, x, -INFINITY);
        }
    }
}

static void make_lengths(struct layer_data *data, struct rng *rng)
{
    const gpu_mha_desc *a = &data->attention;
    const int is_short = a->key_lengths == GPU_MHA_I32;

    data->key_lengths = allocate((size_t)a->B, sizeof(int64_t));
    data->offset = allocate((size_t)a->B, sizeof(int64_t));
    if (a->key_lengths != GPU_MHA_INDEX_NONE) {
        make(data, LAYER_KEY_LENGTHS, a->B, is_short ? 4 : 8);
    }
    for (int64_t b = 0; b < a->B; b++) {
        int64_t length = a->NK;
        if (a->key_lengths != GPU_MHA_INDEX_NONE) {
            void *host = data->arrays[LAYER_KEY_LENGTHS].host;
            length = b == 0 ? 0 : 1 + rng_below(rng, a->NK);
            if (is_short) {
                ((int32_t *)host)[b] = (int32_t)length;
            } else {
                ((int64_t *)host)[b] = length;
            }
        }
        data->key_lengths[b] = length;
        data->offset[b] = a->offset_kind == GPU_MHA_BOTTOM_RIGHT ? length - a->NQ : a->offset;
    }
}

void layer_data_make(struct layer_data *data, const gpu_mha_layer_desc *desc, uint64_t seed)
{
    const gpu_mha_desc *a = desc->attention;
    const int64_t rows = a->B * a->H * a->NQ;
    struct rng rng;

    *data = (struct layer_data){.attention = *a, .desc = *desc};
    data->desc.attention = &data->attention;
    rng_seed(&rng, seed);
    make_maps(data, &rng);
    make_masks(data, &rng);
    make_lengths(data, &rng);
    if (a->alibi == GPU_MHA_ALIBI_SLOPES) {
        data->slopes = draw(data, LAYER_SLOPES, &rng, GPU_MHA_F32, a->H, 0.3);
    }
    if (a->alibi == GPU_MHA_ALIBI_AUTO) {
        data->slopes = alloc_doubles(a->H);
        ref_alibi_slopes(a->H, data->slopes);
    }
    if (a->sinks) {
        data->sinks = draw(data, LAYER_SINKS, &rng, GPU_MHA_F32, a->H, 1);
    }
    make(data, LAYER_OUTPUT, a->B * a->NQ * desc->EO, a->output.type == GPU_MHA_F32 ? 4 : 2);
    if (a->lse) {
        make(data, LAYER_LSE, rows, 4);
    }
    if (a->weights != GPU_MHA_WEIGHTS_NONE) {
        make(data, LAYER_WEIGHTS,
             (a->weights == GPU_MHA_WEIGHTS_PER_HEAD ? rows : a->B * a->NQ) * a->NK, 4);
    }
    if (a->scores != GPU_MHA_SCORES_NONE) {
        make(data, LAYER_SCORES, rows * a->NK, 4);
    }
}

void layer_data_free(struct layer_data *data)
{
    for (int x = 0; x < LAYER_ARRAYS; x++) {
        free(data->arrays[x].host);
    }
    for (int m = 0; m < 4; m++) {
        if (m < 3) {
            free(data->inputs[m]);
        }
        free(data->weights[m]);
        free(data->biases[m]);
    }
    free(data->bias);
    free(data->slopes);
    free(data->sinks);
    free(data->key_lengths);
    free(data->offset);
    *data = (struct layer_data){.mask = NULL}; /* the mask is its array */
}

void layer_data_set(struct layer_data *data, enum layer_array input, int64_t index, double value)
{
    const gpu_mha_desc *a = &data->attention;
    const gpu_mha_type types[3] = {a->query.type, a->key.type, a->value.type};
    const enum storage_type type = (enum storage_type)types[input];

    data->inputs[input][index] = storage_round(type, value);
    storage_store(type, data->arrays[input].host, index, value);
}

/* ---- running ---- */

static size_t bytes_of(const struct layer_data *data, int array)
{
    return data->arrays[array].host ? data->arrays[array].count * data->arrays[array].element_bytes
                                    : 0;
}

gpu_mha_status layer_run_host(gpu_mha_context *context, struct layer_data *data)
{
    struct canary canaries[LAYER_ARRAYS];
    void *at[LAYER_ARRAYS];
    ptrdiff_t where;

    for (int x = 0; x < LAYER_ARRAYS; x++) {
        at[x] = NULL;
        ck_assert_int_eq(canary_alloc(&canaries[x], bytes_of(data, x), 64), 0);
        if (!data->arrays[x].host) {
            continue;
        }
        at[x] = canaries[x].data;
        if (x < LAYER_OUTPUT) {
            memcpy(at[x], data->arrays[x].host, bytes_of(data, x));
        }
    }
    const gpu_mha_layer_arrays arrays = {.query_input = at[LAYER_QUERY_INPUT],
                                         .key_input = at[LAYER_KEY_INPUT],
                                         .value_input = at[LAYER_VALUE_INPUT],
                                         .weight_q = at[LAYER_WEIGHT_Q],
                                         .weight_k = at[LAYER_WEIGHT_K],
                                         .weight_v = at[LAYER_WEIGHT_V],
                                         .weight_out = at[LAYER_WEIGHT_OUT],
                                         .bias_q = at[LAYER_BIAS_Q],
                                         .bias_k = at[LAYER_BIAS_K],
                                         .bias_v = at[LAYER_BIAS_V],
                                         .bias_out = at[LAYER_BIAS_OUT],
                                         .mask = at[LAYER_MASK],
                                         .bias = at[LAYER_BIAS],
                                         .key_lengths = at[LAYER_KEY_LENGTHS],
                                         .alibi_slopes = at[LAYER_SLOPES],
                                         .sinks = at[LAYER_SINKS],
                                         .output = at[LAYER_OUTPUT],
                                         .lse = at[LAYER_LSE],
                                         .weights = at[LAYER_WEIGHTS],
                                         .scores = at[LAYER_SCORES]};
    const gpu_mha_status status = gpu_mha_layer(context, &data->desc, &arrays);
    for (int x = 0; x < LAYER_ARRAYS; x++) {
        ck_assert_msg(!canary_check(&canaries[x], &where), "%s: byte %td was written",
                      layer_array_name((enum layer_array)x), where);
        if (status == GPU_MHA_OK && x >= LAYER_OUTPUT && bytes_of(data, x) > 0) {
            memcpy(data->arrays[x].host, canaries[x].data, bytes_of(data, x));
        }
        canary_free(&canaries[x]);
    }
    return status;
}

/* One buffer of a run on the device: 0xFF, the array, 0xFF. The workspace is the last. */
struct device_array {
    struct canary canary;
    cl_mem mem;
    uint64_t offset; /* elements; bytes for the workspace */
};

#define WORKSPACE LAYER_ARRAYS
#define WORKSPACE_OFFSET 384

static void device_array_make(struct device_array *array, cl_context cl, const void *host,
                              size_t bytes, size_t guard, cl_event gate)
{
    cl_int code = CL_SUCCESS;

    ck_assert_int_eq(canary_alloc(&array->canary, bytes, guard), 0);
    if (host && !gate && bytes > 0) {
        memcpy(array->canary.data, host, bytes);
    }
    array->mem = clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                array->canary.block_bytes, array->canary.block, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
}

static gpu_mha_status enqueue(gpu_mha_plan *plan, cl_command_queue queue,
                              const struct device_array *at, const struct layer_data *data,
                              cl_event *uploaded, cl_event *done)
{
    gpu_mha_buffer b[LAYER_ARRAYS + 1];

    for (int x = 0; x <= WORKSPACE; x++) {
        const int absent = x < WORKSPACE && !data->arrays[x].host;
        b[x] = absent ? (gpu_mha_buffer){NULL, 0} : (gpu_mha_buffer){at[x].mem, at[x].offset};
    }
    const gpu_mha_layer_buffers buffers = {.struct_size = sizeof(buffers),
                                           .query_input = b[LAYER_QUERY_INPUT],
                                           .key_input = b[LAYER_KEY_INPUT],
                                           .value_input = b[LAYER_VALUE_INPUT],
                                           .weight_q = b[LAYER_WEIGHT_Q],
                                           .weight_k = b[LAYER_WEIGHT_K],
                                           .weight_v = b[LAYER_WEIGHT_V],
                                           .weight_out = b[LAYER_WEIGHT_OUT],
                                           .bias_q = b[LAYER_BIAS_Q],
                                           .bias_k = b[LAYER_BIAS_K],
                                           .bias_v = b[LAYER_BIAS_V],
                                           .bias_out = b[LAYER_BIAS_OUT],
                                           .mask = b[LAYER_MASK],
                                           .bias = b[LAYER_BIAS],
                                           .key_lengths = b[LAYER_KEY_LENGTHS],
                                           .alibi_slopes = b[LAYER_SLOPES],
                                           .sinks = b[LAYER_SINKS],
                                           .output = b[LAYER_OUTPUT],
                                           .lse = b[LAYER_LSE],
                                           .weights = b[LAYER_WEIGHTS],
                                           .scores = b[LAYER_SCORES],
                                           .workspace = b[WORKSPACE]};
    return gpu_mha_layer_enqueue(plan, queue, &buffers, 1, uploaded, done);
}

/* Everything back; what lies around the arrays, and the inputs, must be as before. */
static void collect(struct layer_data *data, struct device_array *at, cl_command_queue queue)
{
    for (int x = 0; x <= WORKSPACE; x++) {
        const struct canary *c = &at[x].canary;
        unsigned char *got = allocate(c->block_bytes, 1);
        const char *name = x == WORKSPACE ? "workspace" : layer_array_name((enum layer_array)x);
        ptrdiff_t where = 0;
        ck_assert_int_eq(
            clEnqueueReadBuffer(queue, at[x].mem, CL_TRUE, 0, c->block_bytes, got, 0, NULL, NULL),
            CL_SUCCESS);
        ck_assert_msg(!canary_check_block(c, got, &where), "%s: byte %td was written", name, where);
        if (x < LAYER_OUTPUT && bytes_of(data, x) > 0) {
            ck_assert_msg(memcmp(got + c->guard_bytes, data->arrays[x].host, c->size_bytes) == 0,
                          "%s was changed", name);
        }
        if (x >= LAYER_OUTPUT && x < WORKSPACE && bytes_of(data, x) > 0) {
            memcpy(data->arrays[x].host, got + c->guard_bytes, c->size_bytes);
        }
        free(got);
    }
}

/* The descriptors are gone before the plan runs: it has what it needs. */
static gpu_mha_status make_plan(gpu_mha_context *context, const struct layer_data *data,
                                gpu_mha_plan **plan)
{
    gpu_mha_layer_desc *desc = allocate(1, sizeof *desc);
    gpu_mha_desc *attention = allocate(1, sizeof *attention);

    *attention = data->attention;
    *desc = data->desc;
    desc->attention = attention;
    const gpu_mha_status status = gpu_mha_layer_plan_create(context, desc, plan);
    memset(attention, 0xFF, sizeof *attention);
    free(attention);
    free(desc);
    return status;
}

gpu_mha_status layer_run_device(gpu_mha_context *context, struct layer_data *data,
                                cl_command_queue_properties properties)
{
    struct device_array at[LAYER_ARRAYS + 1];
    gpu_mha_plan *plan = NULL;
    cl_event gate, uploaded = NULL, done = NULL;
    cl_int code = CL_SUCCESS;
    cl_context cl = gpu_mha_context_cl(context);
    const size_t input_bytes = bytes_of(data, LAYER_QUERY_INPUT);

    gpu_mha_status status = make_plan(context, data, &plan);
    if (status != GPU_MHA_OK) {
        return status;
    }
    cl_command_queue queue =
        queue_make(context, (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0);
    gate = clCreateUserEvent(cl, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    for (int x = 0; x < LAYER_ARRAYS; x++) {
        const size_t bytes = data->arrays[x].element_bytes ? data->arrays[x].element_bytes : 1;
        at[x].offset = (uint64_t)(3 + 5 * x);
        device_array_make(&at[x], cl, data->arrays[x].host, bytes_of(data, x), at[x].offset * bytes,
                          x == LAYER_QUERY_INPUT ? gate : NULL);
    }
    at[WORKSPACE].offset = WORKSPACE_OFFSET;
    device_array_make(&at[WORKSPACE], cl, NULL, gpu_mha_plan_workspace_bytes(plan),
                      WORKSPACE_OFFSET, NULL);
    if (input_bytes > 0) {
        code = clEnqueueWriteBuffer(queue, at[LAYER_QUERY_INPUT].mem, CL_FALSE,
                                    at[LAYER_QUERY_INPUT].canary.guard_bytes, input_bytes,
                                    data->arrays[LAYER_QUERY_INPUT].host, 1, &gate, &uploaded);
    } else {
        code = clEnqueueMarkerWithWaitList(queue, 1, &gate, &uploaded);
    }
    ck_assert_int_eq(code, CL_SUCCESS);

    status = enqueue(plan, queue, at, data, &uploaded, &done);
    clSetUserEventStatus(gate, CL_COMPLETE);
    ck_assert_int_eq(done != NULL, status == GPU_MHA_OK);
    if (done) {
        ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
        collect(data, at, queue);
        clReleaseEvent(done);
    }
    clFinish(queue);
    for (int x = 0; x <= WORKSPACE; x++) {
        clReleaseMemObject(at[x].mem);
        canary_free(&at[x].canary);
    }
    clReleaseEvent(uploaded);
    clReleaseEvent(gate);
    clReleaseCommandQueue(queue);
    gpu_mha_plan_release(plan);
    return status;
}

/* ---- comparing ---- */

static void compare(const struct layer_data *data, enum layer_array array, enum storage_type type,
                    int rank, const int64_t *dims, const double *want, const double *bound)
{
    const int64_t count = (int64_t)data->arrays[array].count;
    double *got = alloc_doubles(count);

    storage_unpack(type, got, data->arrays[array].host, count);
    ASSERT_ARRAYS(layer_array_name(array), rank, dims, got, want, bound);
    free(got);
}

static struct ref_layer reference_of(const struct layer_data *data)
{
    const gpu_mha_layer_desc *d = &data->desc;
    const gpu_mha_desc *a = &data->attention;
    const enum storage_type output = (enum storage_type)a->output.type;

    return (struct ref_layer){
        .attention = {.B = a->B,
                      .H = a->H,
                      .HKV = a->HKV,
                      .NQ = a->NQ,
                      .NK = a->NK,
                      .DK = a->DK,
                      .DV = a->DV,
                      .scale = a->has_scale ? (double)a->scale : ref_default_scale(a->DK),
                      .softcap = (double)a->softcap,
                      .mask = data->mask,
                      .bias = data->bias,
                      .key_lengths = data->key_lengths,
                      .causal = a->causal,
                      .offset = data->offset,
                      .slopes = data->slopes,
                      .sinks = data->sinks,
                      .want_matrices = 1},
        .EQ = d->EQ,
        .EK = d->EK,
        .EV = d->EV,
        .EOUT = d->EO,
        .xq = data->inputs[0],
        .xk = data->inputs[1],
        .xv = data->inputs[2],
        .wq = data->weights[0],
        .wk = data->weights[1],
        .wv = data->weights[2],
        .wo = data->weights[3],
        .bq = data->biases[0],
        .bk = data->biases[1],
        .bv = data->biases[2],
        .bo = data->biases[3],
        .u_out = storage_unit_roundoff(output),
        .out_subnormal = storage_smallest_subnormal(output)};
}

void layer_check(const struct layer_data *data)
{
    const gpu_mha_layer_desc *d = &data->desc;
    const gpu_mha_desc *a = &data->attention;
    const struct ref_layer layer = reference_of(data);
    struct ref_layer_result r;
    const int64_t output[] = {a->B, a->NQ, d->EO}, matrix[] = {a->B, a->H, a->NQ, a->NK};

    ck_assert_int_eq(ref_layer(&layer, &r), 0);
    const struct ref_result *in = &r.attention;
    const struct {
        const double *want, *bound;
    } scores[] = {{NULL, NULL},
                  {in->raw, in->bound_raw},
                  {in->capped, in->bound_capped},
                  {in->masked, in->bound_masked},
                  {in->softmax, in->bound_softmax}};
    compare(data, LAYER_OUTPUT, (enum storage_type)a->output.type, 3, output, r.y, r.bound_y);
    if (a->lse) {
        compare(data, LAYER_LSE, STORAGE_F32, 3, matrix, in->lse, in->bound_lse);
    }
    if (a->scores != GPU_MHA_SCORES_NONE) {
        compare(data, LAYER_SCORES, STORAGE_F32, 4, matrix, scores[a->scores].want,
                scores[a->scores].bound);
    }
    if (a->weights == GPU_MHA_WEIGHTS_PER_HEAD) {
        compare(data, LAYER_WEIGHTS, STORAGE_F32, 4, matrix, in->weights, in->bound_weights);
    }
    if (a->weights == GPU_MHA_WEIGHTS_AVERAGED) {
        const int64_t averaged[] = {a->B, a->NQ, a->NK};
        double *mean = alloc_doubles(a->B * a->NQ * a->NK);
        double *bound = alloc_doubles(a->B * a->NQ * a->NK);
        ref_head_average(a->B, a->H, a->NQ, a->NK, in->weights, mean);
        ref_head_average(a->B, a->H, a->NQ, a->NK, in->bound_weights, bound);
        compare(data, LAYER_WEIGHTS, STORAGE_F32, 3, averaged, mean, bound);
        free(bound);
        free(mean);
    }
    ref_layer_result_free(&r);
}
