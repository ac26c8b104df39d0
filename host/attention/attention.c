/* Descriptor -> attention ready to run, and the run. */
#include "attention/attention.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/choice.h"
#include "attention/stages/stages.h"
#include "attention/workspace.h"
#include "core/log.h"

static struct mha_tensor_params tensor_params(const struct mha_tensor *t)
{
    return (struct mha_tensor_params){0, t->stride_b, t->stride_h, t->stride_n};
}

static struct mha_mask_params mask_params(const struct mha_mask *m)
{
    return (struct mha_mask_params){0, m->stride[0], m->stride[1], m->stride[2], m->stride[3]};
}

/* Everything but the workspace layout and the buffers' offsets. */
static struct mha_params params_of(const struct mha_problem *p, const struct mha_variant *v)
{
    const gpu_mha_desc *d = &p->desc;
    struct mha_params k = {
        .B = d->B, .H = d->H, .HKV = d->HKV, .NQ = d->NQ, .NP = d->NP, .NT = p->NT};
    k.query = tensor_params(&p->query);
    k.key = tensor_params(&p->key);
    k.value = tensor_params(&p->value);
    k.past_key = tensor_params(&p->past_key);
    k.past_value = tensor_params(&p->past_value);
    k.output = tensor_params(&p->output);
    k.mask = mask_params(&p->mask);
    k.bias = mask_params(&p->bias);
    k.query_type = p->query.type;
    k.key_type = p->key.type;
    k.value_type = p->value.type;
    k.past_key_type = p->past_key.type;
    k.past_value_type = p->past_value.type;
    k.output_type = p->output.type;
    k.has_mask = d->mask.type != GPU_MHA_MASK_NONE;
    k.bias_type = d->bias.type == GPU_MHA_MASK_NONE
                      ? 0
                      : (mha_i32)d->bias.type - GPU_MHA_MASK_F32 + MHA_TYPE_F32 + 1;
    k.key_lengths_type = d->key_lengths;
    k.offset_kind = d->offset_kind;
    k.offset = d->offset;
    k.causal = d->causal;
    k.window_left = p->window_left;
    k.window_right = p->window_right;
    k.has_alibi = d->alibi != GPU_MHA_ALIBI_NONE;
    k.has_sinks = d->sinks;
    k.has_lse = d->lse;
    k.weights = d->weights;
    k.scores = d->scores;
    k.scale = p->scale;
    k.scale_log2 = (float)((double)p->scale * 1.4426950408889634);
    k.softcap = d->softcap;
    /* The difference of two products may overflow, which must mean a weight of 0. */
    k.plain = d->softcap == 0.0f && d->bias.type == GPU_MHA_MASK_NONE &&
              d->alibi == GPU_MHA_ALIBI_NONE && k.scale_log2 > 0x1p-40f && isfinite(k.scale_log2);
    k.dropout_threshold = p->dropout_threshold;
    k.dropout_scale = (float)(1.0 / (1.0 - (double)d->dropout));
    k.dropout_seed = d->dropout_seed;
    k.tiles = v->tiles;
    k.splits = v->splits;
    k.score_pitch = v->tiles * v->KT;
    k.row_pitch = v->row_pitch;
    return k;
}

/* Lays out the workspace. Returns its bytes, which need not fit the machine. */
static int64_t lay_out(struct mha_attention *a)
{
    const gpu_mha_desc *d = &a->problem.desc;
    const struct mha_variant *v = &a->variant;
    struct mha_params *k = &a->params;
    const int64_t key_tiles = mha_size_mul(mha_size_mul(d->B, d->HKV), v->tiles);
    const int64_t rows = mha_problem_lse_count(&a->problem);
    struct mha_carver carver = {0};
    if (v->shape.path == MHA_PATH_FUSED || v->shape.path == MHA_PATH_STAGED) {
        k->packed_key = mha_carve(&carver, mha_size_mul(key_tiles, d->DK * v->KT));
        k->packed_value = mha_carve(&carver, mha_size_mul(key_tiles, (int64_t)v->DVP * v->KT));
        k->value_special = mha_carve(&carver, key_tiles);
    }
    if (v->splits > 1) {
        const int64_t parts = mha_size_mul(rows, v->splits);
        k->partial_output = mha_carve(&carver, mha_size_mul(parts, d->DV));
        k->partial_lse = mha_carve(&carver, parts);
    }
    if (v->shape.path == MHA_PATH_STAGED) {
        k->score_rows = mha_carve(&carver, mha_size_mul(rows, k->score_pitch));
    }
    return carver.bytes;
}

static int fits(int64_t bytes, const struct mha_device *device)
{
    return mha_size_fits(bytes) && (cl_ulong)bytes <= device->max_alloc_bytes;
}

/* Splits make a call faster and its workspace larger: where that is too large, there are none. */
static gpu_mha_status carve(struct mha_attention *a, const struct mha_device *device)
{
    int64_t bytes = lay_out(a);
    if (a->variant.splits > 1 && !fits(bytes, device)) {
        mha_log(MHA_LOG_INFO,
                "lower splits from %" PRId64 " to 1: a workspace of %" PRId64 " bytes",
                a->variant.splits, bytes);
        a->variant.splits = a->params.splits = 1;
        bytes = lay_out(a);
    }
    MHA_RETURN_IF(!fits(bytes, device), GPU_MHA_UNSUPPORTED,
                  "the workspace of the %s method is %" PRId64
                  " bytes: the device allocates at most %" PRIu64,
                  a->variant.shape.path == MHA_PATH_STAGED ? "staged" : "fused", bytes,
                  (uint64_t)device->max_alloc_bytes);
    a->workspace_bytes = (size_t)bytes;
    return GPU_MHA_OK;
}

/* The slopes of ALiBi's published rule, or a few bytes to bind where a buffer is absent. */
static gpu_mha_status make_slopes(struct mha_attention *a, gpu_mha_context *context)
{
    gpu_mha_status status = GPU_MHA_OK;
    const int64_t count = a->problem.desc.alibi == GPU_MHA_ALIBI_AUTO ? a->problem.desc.H : 4;
    const int64_t bytes = mha_size_mul(count, (int64_t)sizeof(float));
    /* Before the host takes the memory for them, and the time. */
    MHA_RETURN_IF(!fits(bytes, &context->device), GPU_MHA_UNSUPPORTED,
                  "the ALiBi slopes of %" PRId64 " heads are %" PRId64
                  " bytes: the device allocates at most %" PRIu64,
                  count, bytes, (uint64_t)context->device.max_alloc_bytes);
    float *slopes = calloc((size_t)count, sizeof *slopes);
    if (slopes == NULL) {
        status = mha_error_set(GPU_MHA_HOST_MEMORY, "no memory for %" PRId64 " slopes", count);
        goto cleanup;
    }
    status = gpu_mha_alibi_slopes(count, slopes);
    if (status != GPU_MHA_OK) {
        goto cleanup;
    }
    cl_int code = CL_SUCCESS;
    a->slopes = clCreateBuffer(context->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                               (size_t)count * sizeof *slopes, slopes, &code);
    if (a->slopes == NULL) {
        status = mha_error_cl(code, "clCreateBuffer", "%zu bytes for ALiBi slopes",
                              (size_t)count * sizeof *slopes);
    }
cleanup:
    free(slopes);
    return status;
}

static gpu_mha_status prepare_stages(struct mha_attention *a, gpu_mha_context *context)
{
    static const struct mha_stage *const paths[][MHA_STAGES_MAX + 1] = {
        [MHA_PATH_FUSED] = {&mha_stage_pack_key, &mha_stage_pack_value, &mha_stage_fused},
        [MHA_PATH_HEADS] = {&mha_stage_heads},
        [MHA_PATH_DECODE] = {&mha_stage_decode},
        [MHA_PATH_SHARED] = {&mha_stage_shared},
        [MHA_PATH_ROWS] = {&mha_stage_rows},
        [MHA_PATH_STAGED] = {&mha_stage_pack_key, &mha_stage_pack_value, &mha_stage_scores,
                             &mha_stage_softmax, &mha_stage_weighted_sum},
    };
    const struct mha_stage *const *stages = paths[a->variant.shape.path];
    for (int s = 0; stages[s] != NULL; ++s) {
        MHA_TRY(mha_stage_prepare(a, context, stages[s]));
    }
    if (a->variant.splits > 1) {
        MHA_TRY(mha_stage_prepare(a, context, &mha_stage_merge_splits));
    }
    if (a->problem.desc.weights == GPU_MHA_WEIGHTS_AVERAGED) {
        MHA_TRY(mha_stage_prepare(a, context, &mha_stage_average_heads));
    }
    return GPU_MHA_OK;
}

static void drop_stages(struct mha_attention *a)
{
    for (int s = 0; s < MHA_STAGES_MAX; ++s) {
        mha_kernel_destroy(&a->kernels[s]);
    }
    a->stage_count = 0;
}

/* Parameters, workspace and kernels of a->variant. */
static gpu_mha_status try_variant(struct mha_attention *a, gpu_mha_context *context)
{
    a->params = params_of(&a->problem, &a->variant);
    MHA_TRY(carve(a, &context->device));
    return prepare_stages(a, context);
}

/*
 * The kernels for GPUs are built for limits that only the built kernel tells: one that asks too
 * much, or does not build, gives way to a smaller shape.
 */
static gpu_mha_status try_gpu_shapes(struct mha_attention *a, gpu_mha_context *context, int *done)
{
    struct mha_shape shape = a->variant.shape;
    while (shape.path == MHA_PATH_SHARED || shape.path == MHA_PATH_ROWS) {
        char text[MHA_SHAPE_TEXT];
        mha_error_attempt();
        const gpu_mha_status status = try_variant(a, context);
        *done = status == GPU_MHA_OK;
        /* Some drivers call a kernel too large CL_OUT_OF_RESOURCES. */
        const int gives_way = status == GPU_MHA_UNSUPPORTED || status == GPU_MHA_BUILD ||
                              status == GPU_MHA_DEVICE_MEMORY;
        if (!*done && !gives_way) {
            return mha_error_attempt_failed();
        }
        if (*done) {
            mha_error_attempt_end();
            return GPU_MHA_OK;
        }
        struct mha_shape smaller = shape;
        mha_shape_smaller(&a->problem, &context->device, &smaller);
        if (mha_shape_to_avoid(&a->problem, &context->device, &smaller) != GPU_MHA_VERDICT_NONE) {
            return mha_error_attempt_failed();
        }
        const char *why = mha_error_attempt_end();
        mha_shape_text(&shape, text, sizeof text);
        mha_log(MHA_LOG_WARN, "replace \"%s\" by a smaller shape: %s", text, why);
        drop_stages(a);
        shape = smaller;
        mha_variant_of(&a->problem, &context->device, &shape, &a->variant);
    }
    return GPU_MHA_OK;
}

static gpu_mha_status prepare(struct mha_attention *a, gpu_mha_context *context,
                              const gpu_mha_desc *desc, const struct mha_shape *wanted)
{
    MHA_TRY(mha_problem_read(desc, &a->problem));
    MHA_TRY(mha_variant_choose(&a->problem, &context->device, wanted, &a->variant));
    if (a->problem.empty_output) {
        return GPU_MHA_OK;
    }
    MHA_TRY(make_slopes(a, context));
    int done = 0;
    MHA_TRY(try_gpu_shapes(a, context, &done));
    return done ? GPU_MHA_OK : try_variant(a, context);
}

static gpu_mha_status make(gpu_mha_context *context, const gpu_mha_desc *desc,
                           const struct mha_shape *wanted, struct mha_attention **attention)
{
    struct mha_attention *made = calloc(1, sizeof *made);
    MHA_RETURN_IF(made == NULL, GPU_MHA_HOST_MEMORY, "no memory for an attention");
    const gpu_mha_status status = prepare(made, context, desc, wanted);
    if (status != GPU_MHA_OK) {
        mha_attention_destroy(made);
        return status;
    }
    *attention = made;
    return GPU_MHA_OK;
}

/* A measured shape is never the reason for a failure: the default gets its turn. */
gpu_mha_status mha_attention_create(gpu_mha_context *context, const gpu_mha_desc *desc,
                                    const struct mha_shape *wanted,
                                    struct mha_attention **attention)
{
    struct mha_problem problem;
    struct mha_shape tuned;
    struct mha_tuned_entry entry;
    MHA_TRY(mha_problem_read(desc, &problem));
    if (wanted != NULL || !mha_choice_tuned(context, &problem, &tuned, &entry)) {
        return make(context, desc, wanted, attention);
    }
    mha_error_attempt();
    const gpu_mha_status status = make(context, desc, &tuned, attention);
    const char *why = mha_error_attempt_end();
    if (status != GPU_MHA_OK) {
        MHA_TRY(make(context, desc, NULL, attention));
        mha_tuned_reject(context->tuned, &entry, status, why);
    }
    return GPU_MHA_OK;
}

void mha_attention_name(const struct mha_attention *a, char *name, size_t size)
{
    if (a->problem.empty_output) {
        snprintf(name, size, "%s", "");
    } else {
        mha_shape_name(&a->variant.shape, name, size);
    }
}

void mha_attention_destroy(struct mha_attention *a)
{
    if (a == NULL) {
        return;
    }
    drop_stages(a);
    if (a->slopes != NULL) {
        clReleaseMemObject(a->slopes);
    }
    free(a);
}

static const char *path_name(enum mha_path path)
{
    static const char *const names[] = {
        [MHA_PATH_FUSED] = "fused",   [MHA_PATH_HEADS] = "heads", [MHA_PATH_DECODE] = "decode",
        [MHA_PATH_SHARED] = "shared", [MHA_PATH_ROWS] = "rows",   [MHA_PATH_STAGED] = "staged"};
    return names[path];
}

void mha_attention_text(const struct mha_attention *a, char *text, size_t size)
{
    const struct mha_variant *v = &a->variant;
    if (a->problem.empty_output) {
        snprintf(text, size, "nothing to compute");
        return;
    }
    const int length = snprintf(text, size, "%s %dx%d", path_name(v->shape.path),
                                mha_shape_rows(&v->shape), v->KT);
    if (v->splits > 1 && length > 0 && (size_t)length < size) {
        snprintf(text + length, size - (size_t)length, " split %" PRId64, v->splits);
    }
}

gpu_mha_status mha_attention_launch(struct mha_attention *a, const gpu_mha_buffers *b,
                                    struct mha_chain *chain)
{
    struct mha_params k = a->params;
    k.query.offset = (mha_i64)b->query.offset;
    k.key.offset = (mha_i64)b->key.offset;
    k.value.offset = (mha_i64)b->value.offset;
    k.past_key.offset = (mha_i64)b->past_key.offset;
    k.past_value.offset = (mha_i64)b->past_value.offset;
    k.output.offset = (mha_i64)b->output.offset;
    k.mask.offset = (mha_i64)b->mask.offset;
    k.bias.offset = (mha_i64)b->bias.offset;
    k.key_lengths_offset = (mha_i64)b->key_lengths.offset;
    k.slopes_offset = (mha_i64)b->alibi_slopes.offset;
    k.sinks_offset = (mha_i64)b->sinks.offset;
    k.lse_offset = (mha_i64)b->lse.offset;
    k.weights_offset = (mha_i64)b->weights.offset;
    k.scores_offset = (mha_i64)b->scores.offset;
    const mha_i64 base = (mha_i64)(b->workspace.offset / sizeof(float));
    k.packed_key += base;
    k.packed_value += base;
    k.value_special += base;
    k.partial_output += base;
    k.partial_lse += base;
    k.score_rows += base;
    for (int s = 0; s < a->stage_count; ++s) {
        MHA_TRY(mha_stage_launch(a, s, &k, b, chain));
    }
    return GPU_MHA_OK;
}
