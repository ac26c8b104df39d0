/* Random inputs, as many sets as leave the caches behind, and the comparison of outputs. */
#include "attention/tune_buffers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where the device does not tell its cache. */
#define CACHE_BYTES_LEAST ((int64_t)16 << 20)

enum {
    CACHES_PER_SETS = 4,
    SETS_PER_MEMORY = 8,
    SETS_MAX = 256,
    ALIGNMENT = 64 /* elements: the widest loads start like that */
};

static gpu_mha_status make_buffer(cl_context cl, const char *name, size_t bytes, cl_mem *mem)
{
    cl_int code = CL_SUCCESS;
    *mem = clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    MHA_TRY_CL(code, "clCreateBuffer", "%zu bytes to measure with: %s", bytes, name);
    return GPU_MHA_OK;
}

/* A random buffer of `count` elements; none for 0. */
static gpu_mha_status make_random(gpu_mha_context *context, cl_command_queue queue,
                                  const struct mha_random *random, const char *name,
                                  gpu_mha_type type, int64_t count, gpu_mha_buffer *buffer)
{
    if (count == 0) {
        return GPU_MHA_OK;
    }
    const int64_t bytes = mha_size_mul(count, (int64_t)mha_type_bytes(type));
    MHA_RETURN_IF(!mha_size_fits(bytes), GPU_MHA_UNSUPPORTED,
                  "%s spans more than this machine can address", name);
    MHA_TRY(make_buffer(context->cl, name, (size_t)bytes, &buffer->mem));
    return mha_random_fill(random, queue, buffer->mem, type, count);
}

/* How many sets of `bytes` each; buffer `largest` of a set must still be one allocation. */
static gpu_mha_status count_sets(const struct mha_device *device, int64_t bytes, int64_t largest,
                                 int64_t *sets)
{
    cl_ulong cache = 0;
    MHA_TRY_CL(
        clGetDeviceInfo(device->id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof cache, &cache, NULL),
        "clGetDeviceInfo", "CL_DEVICE_GLOBAL_MEM_CACHE_SIZE");
    const int64_t least = cache > (cl_ulong)CACHE_BYTES_LEAST ? (int64_t)cache : CACHE_BYTES_LEAST;
    const int64_t room = (int64_t)(device->global_bytes / SETS_PER_MEMORY);
    int64_t n = mha_size_ceil_div(mha_size_mul(least, CACHES_PER_SETS), bytes > 0 ? bytes : 1);
    n = bytes > 0 && n > room / bytes ? room / bytes : n;
    n = largest > 0 && n > (int64_t)device->max_alloc_bytes / largest
            ? (int64_t)device->max_alloc_bytes / largest
            : n;
    *sets = n < 1 ? 1 : n > SETS_MAX ? SETS_MAX : n;
    return GPU_MHA_OK;
}

static gpu_mha_status make_tensors(gpu_mha_context *context, cl_command_queue queue,
                                   const struct mha_random *random, const struct mha_problem *p,
                                   struct mha_tune_buffers *made)
{
    const struct mha_tensor *const tensors[MHA_TUNE_TENSORS] = {&p->query, &p->key, &p->value,
                                                                &p->past_key, &p->past_value};
    gpu_mha_buffer *const buffers[MHA_TUNE_TENSORS] = {
        &made->buffers.query, &made->buffers.key, &made->buffers.value, &made->buffers.past_key,
        &made->buffers.past_value};
    int64_t bytes = 0, largest = 0;
    for (int t = 0; t < MHA_TUNE_TENSORS; ++t) {
        made->pitch[t] = mha_size_round_up(tensors[t]->span, ALIGNMENT);
        const int64_t own = mha_size_mul(made->pitch[t], (int64_t)mha_type_bytes(tensors[t]->type));
        bytes = mha_size_add(bytes, own);
        largest = own > largest ? own : largest;
    }
    MHA_TRY(count_sets(&context->device, bytes, largest, &made->sets));
    for (int t = 0; t < MHA_TUNE_TENSORS; ++t) {
        MHA_TRY(make_random(context, queue, random, tensors[t]->name, tensors[t]->type,
                            mha_size_mul(made->pitch[t], made->sets), buffers[t]));
    }
    return GPU_MHA_OK;
}

static gpu_mha_type type_of_bias(gpu_mha_mask_type type)
{
    return type == GPU_MHA_MASK_F16    ? GPU_MHA_F16
           : type == GPU_MHA_MASK_BF16 ? GPU_MHA_BF16
                                       : GPU_MHA_F32;
}

static gpu_mha_status make_key_lengths(gpu_mha_context *context, cl_command_queue queue,
                                       const struct mha_problem *p, gpu_mha_buffer *buffer)
{
    const gpu_mha_index_type type = p->desc.key_lengths;
    if (type == GPU_MHA_INDEX_NONE) {
        return GPU_MHA_OK;
    }
    const size_t bytes = (size_t)p->desc.B * mha_index_bytes(type);
    const cl_int narrow = (cl_int)(p->NT < INT32_MAX ? p->NT : INT32_MAX);
    const cl_long wide = p->NT;
    MHA_TRY(make_buffer(context->cl, "key_lengths", bytes, &buffer->mem));
    MHA_TRY_CL(clEnqueueFillBuffer(queue, buffer->mem,
                                   type == GPU_MHA_I32 ? (const void *)&narrow : &wide,
                                   mha_index_bytes(type), 0, bytes, 0, NULL, NULL),
               "clEnqueueFillBuffer", "key_lengths");
    MHA_TRY_CL(clFinish(queue), "clFinish", "key_lengths");
    return GPU_MHA_OK;
}

/* Of a mask's random bytes one in some 200 is 0, and hides its key. */
static gpu_mha_status make_options(gpu_mha_context *context, cl_command_queue queue,
                                   const struct mha_random *random, const struct mha_problem *p,
                                   gpu_mha_buffers *b)
{
    const gpu_mha_desc *d = &p->desc;
    MHA_TRY(make_random(context, queue, random, "mask", GPU_MHA_F32,
                        mha_size_ceil_div(p->mask.span, (int64_t)sizeof(float)), &b->mask));
    MHA_TRY(make_random(context, queue, random, "bias", type_of_bias(d->bias.type), p->bias.span,
                        &b->bias));
    MHA_TRY(make_random(context, queue, random, "alibi_slopes", GPU_MHA_F32,
                        d->alibi == GPU_MHA_ALIBI_SLOPES ? d->H : 0, &b->alibi_slopes));
    MHA_TRY(
        make_random(context, queue, random, "sinks", GPU_MHA_F32, d->sinks ? d->H : 0, &b->sinks));
    return make_key_lengths(context, queue, p, &b->key_lengths);
}

static gpu_mha_status make_outputs(gpu_mha_context *context, const struct mha_problem *p,
                                   struct mha_tune_buffers *made)
{
    made->output_type = p->output.type;
    made->output_count = p->output.span;
    made->lse_count = p->desc.lse ? mha_problem_lse_count(p) : 0;
    const size_t output_bytes = (size_t)p->output.span * mha_type_bytes(p->output.type);
    const size_t lse_bytes = (size_t)made->lse_count * sizeof(float);
    MHA_TRY(make_buffer(context->cl, "output", output_bytes, &made->buffers.output.mem));
    if (lse_bytes > 0) {
        MHA_TRY(make_buffer(context->cl, "lse", lse_bytes, &made->buffers.lse.mem));
    }
    /* The LSE behind the output, where a float may lie. */
    const size_t bytes = (output_bytes + sizeof(float)) / sizeof(float) * sizeof(float) + lse_bytes;
    made->expected = malloc(bytes);
    made->found = malloc(bytes);
    MHA_RETURN_IF(made->expected == NULL || made->found == NULL, GPU_MHA_HOST_MEMORY,
                  "no memory for two outputs of %zu bytes to compare", bytes);
    return GPU_MHA_OK;
}

/*
 * Twice the header's bound, with |v| <= 1 / (1 - p) and the largest a that the inputs can have: two
 * results that keep it differ by no more.
 */
static void set_tolerances(const struct mha_random *random, const struct mha_problem *p,
                           struct mha_tune_buffers *made)
{
    static const int bits[] = {24, 11, 8}, subnormal_bits[] = {149, 24, 133};
    const gpu_mha_desc *d = &p->desc;
    const double norm = mha_random_norm(random, d->DK);
    double a = fabs((double)p->scale) * norm * norm;
    if (d->bias.type != GPU_MHA_MASK_NONE) {
        a += 1;
    }
    if (d->alibi != GPU_MHA_ALIBI_NONE) {
        a += (double)p->NT + (double)d->NQ + fabs((double)d->offset);
    }
    const double unit = ldexp(1, -24), value = 1 / (1 - (double)d->dropout);
    made->rounding = 2 * ldexp(1, -bits[made->output_type]);
    made->slack = 2 * unit * (8 + 8 * a) * value + ldexp(1, -subnormal_bits[made->output_type]);
    made->lse_slack = 2 * unit * (8 + 4 * a);
}

gpu_mha_status mha_tune_buffers_make(gpu_mha_context *context, cl_command_queue queue,
                                     const struct mha_problem *p, struct mha_tune_buffers *made)
{
    struct mha_random *random = NULL;
    *made = (struct mha_tune_buffers){0};
    MHA_TRY(mha_random_create(&random));
    gpu_mha_status status = make_tensors(context, queue, random, p, made);
    if (status == GPU_MHA_OK) {
        status = make_options(context, queue, random, p, &made->buffers);
    }
    if (status == GPU_MHA_OK) {
        status = make_outputs(context, p, made);
    }
    if (status == GPU_MHA_OK) {
        set_tolerances(random, p, made);
    }
    mha_random_destroy(random);
    return status;
}

void mha_tune_buffers_release(struct mha_tune_buffers *made)
{
    const gpu_mha_buffers *b = &made->buffers;
    const cl_mem buffers[] = {b->query.mem,        b->key.mem,   b->value.mem,  b->past_key.mem,
                              b->past_value.mem,   b->mask.mem,  b->bias.mem,   b->key_lengths.mem,
                              b->alibi_slopes.mem, b->sinks.mem, b->output.mem, b->lse.mem,
                              b->workspace.mem};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; ++i) {
        if (buffers[i] != NULL) {
            clReleaseMemObject(buffers[i]);
        }
    }
    free(made->expected);
    free(made->found);
    *made = (struct mha_tune_buffers){0};
}

gpu_mha_status mha_tune_buffers_reserve(gpu_mha_context *context, struct mha_tune_buffers *made,
                                        size_t workspace_bytes)
{
    gpu_mha_buffer *workspace = &made->buffers.workspace;
    if (workspace_bytes <= made->workspace_bytes) {
        return GPU_MHA_OK;
    }
    if (workspace->mem != NULL) {
        clReleaseMemObject(workspace->mem);
        workspace->mem = NULL;
        made->workspace_bytes = 0;
    }
    MHA_TRY(make_buffer(context->cl, "workspace", workspace_bytes, &workspace->mem));
    made->workspace_bytes = workspace_bytes;
    return GPU_MHA_OK;
}

gpu_mha_buffers mha_tune_buffers_of(const struct mha_tune_buffers *made, uint64_t turn)
{
    gpu_mha_buffers b = made->buffers;
    const uint64_t set = turn % (uint64_t)made->sets;
    gpu_mha_buffer *const buffers[MHA_TUNE_TENSORS] = {&b.query, &b.key, &b.value, &b.past_key,
                                                       &b.past_value};
    for (int t = 0; t < MHA_TUNE_TENSORS; ++t) {
        buffers[t]->offset = set * (uint64_t)made->pitch[t];
    }
    return b;
}

static float *lse_of(const struct mha_tune_buffers *made, void *read)
{
    const size_t bytes = (size_t)made->output_count * mha_type_bytes(made->output_type);
    return (float *)read + (bytes + sizeof(float)) / sizeof(float);
}

gpu_mha_status mha_tune_buffers_clear(const struct mha_tune_buffers *made, cl_command_queue queue)
{
    const size_t size = mha_type_bytes(made->output_type);
    const cl_uint zero = 0;
    MHA_TRY_CL(clEnqueueFillBuffer(queue, made->buffers.output.mem, &zero, size, 0,
                                   (size_t)made->output_count * size, 0, NULL, NULL),
               "clEnqueueFillBuffer", "output");
    if (made->lse_count > 0) {
        MHA_TRY_CL(clEnqueueFillBuffer(queue, made->buffers.lse.mem, &zero, sizeof zero, 0,
                                       (size_t)made->lse_count * sizeof(float), 0, NULL, NULL),
                   "clEnqueueFillBuffer", "lse");
    }
    return GPU_MHA_OK;
}

/* Equal, infinities and NaN included, or within the distance. */
static int is_close(double a, double b, double distance)
{
    return a == b || fabs(a - b) <= distance || (isnan(a) && isnan(b));
}

gpu_mha_status mha_tune_buffers_compare(struct mha_tune_buffers *made, cl_command_queue queue,
                                        int first, int *agrees)
{
    void *read = first ? made->expected : made->found;
    const gpu_mha_type type = made->output_type;
    MHA_TRY_CL(clEnqueueReadBuffer(queue, made->buffers.output.mem, CL_TRUE, 0,
                                   (size_t)made->output_count * mha_type_bytes(type), read, 0, NULL,
                                   NULL),
               "clEnqueueReadBuffer", "output");
    if (made->lse_count > 0) {
        MHA_TRY_CL(clEnqueueReadBuffer(queue, made->buffers.lse.mem, CL_TRUE, 0,
                                       (size_t)made->lse_count * sizeof(float), lse_of(made, read),
                                       0, NULL, NULL),
                   "clEnqueueReadBuffer", "lse");
    }
    *agrees = 1;
    for (int64_t i = 0; i < made->output_count && *agrees; ++i) {
        const double a = mha_random_value(read, type, i);
        const double b = mha_random_value(made->expected, type, i);
        *agrees = is_close(a, b, made->slack + made->rounding * fabs(b));
    }
    for (int64_t i = 0; i < made->lse_count && *agrees; ++i) {
        const double a = (double)lse_of(made, read)[i];
        const double b = (double)lse_of(made, made->expected)[i];
        *agrees = is_close(a, b, made->lse_slack + ldexp(fabs(b), -23));
    }
    return GPU_MHA_OK;
}
