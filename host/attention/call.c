/* gpu_mha(): the blocking call on host memory. */
#include <inttypes.h>
#include <string.h>

#include "attention/recent.h"
#include "cl/transfer.h"

enum array {
    QUERY,
    KEY,
    VALUE,
    PAST_KEY,
    PAST_VALUE,
    MASK,
    BIAS,
    KEY_LENGTHS,
    SLOPES,
    SINKS,
    OUTPUT,
    LSE,
    WEIGHTS,
    SCORES,
    WORKSPACE,
    ARRAYS
};

struct call {
    struct mha_problem problem; /* as the caller's arrays lie */
    gpu_mha_desc device_desc;   /* as the device's buffers lie */
    struct mha_transfer arrays[ARRAYS];
};

static struct mha_view view_of_mask(const struct mha_problem *p, const struct mha_mask *m,
                                    size_t element_bytes) {
    const gpu_mha_desc *d = &p->desc;
    return (struct mha_view){{d->B, d->H, d->NQ, p->NT},
                             {m->stride[0], m->stride[1], m->stride[2], m->stride[3]},
                             element_bytes};
}

static size_t bias_bytes(const gpu_mha_desc *d) {
    return d->bias.type == GPU_MHA_MASK_F32 ? 4 : 2;
}

/* What the host knows, the host checks: the device could only clamp. */
static gpu_mha_status check_key_lengths(const struct mha_problem *p, const void *lengths) {
    if (p->desc.key_lengths == GPU_MHA_INDEX_NONE || lengths == NULL) {
        return GPU_MHA_OK;
    }
    for (int64_t b = 0; b < p->desc.B; ++b) {
        const int64_t length = p->desc.key_lengths == GPU_MHA_I32
                                   ? ((const int32_t *)lengths)[b]
                                   : ((const int64_t *)lengths)[b];
        MHA_INVALID_IF(length < 0 || length > p->NT,
                       "key_lengths[%" PRId64 "] is %" PRId64
                       ": it must be from 0 to NP + NK, which is %" PRId64,
                       b, length, p->NT);
    }
    return GPU_MHA_OK;
}

static struct mha_transfer in(const char *name, int wanted, const void *input,
                              struct mha_view view) {
    return (struct mha_transfer){.name = name, .wanted = wanted, .input = input, .host = view};
}

static struct mha_transfer out(const char *name, int wanted, void *output, struct mha_view view) {
    return (struct mha_transfer){.name = name, .wanted = wanted, .output = output, .host = view};
}

static void list_arrays(struct call *call, const gpu_mha_arrays *a) {
    const struct mha_problem *p = &call->problem;
    const gpu_mha_desc *d = &p->desc;
    struct mha_transfer *t = call->arrays;
    t[QUERY] = in("query", 1, a->query, mha_view_of_tensor(&p->query));
    t[KEY] = in("key", 1, a->key, mha_view_of_tensor(&p->key));
    t[VALUE] = in("value", 1, a->value, mha_view_of_tensor(&p->value));
    t[PAST_KEY] = in("past_key", d->NP > 0, a->past_key, mha_view_of_tensor(&p->past_key));
    t[PAST_VALUE] =
        in("past_value", d->NP > 0, a->past_value, mha_view_of_tensor(&p->past_value));
    t[MASK] = in("mask", d->mask.type != GPU_MHA_MASK_NONE, a->mask, view_of_mask(p, &p->mask, 1));
    t[BIAS] = in("bias", d->bias.type != GPU_MHA_MASK_NONE, a->bias,
                 view_of_mask(p, &p->bias, bias_bytes(d)));
    t[KEY_LENGTHS] = in("key_lengths", d->key_lengths != GPU_MHA_INDEX_NONE, a->key_lengths,
                        mha_view_flat(d->B, mha_index_bytes(d->key_lengths)));
    t[SLOPES] = in("alibi_slopes", d->alibi == GPU_MHA_ALIBI_SLOPES, a->alibi_slopes,
                   mha_view_flat(d->H, sizeof(float)));
    t[SINKS] = in("sinks", d->sinks, a->sinks, mha_view_flat(d->H, sizeof(float)));
    t[OUTPUT] = out("output", 1, a->output, mha_view_of_tensor(&p->output));
    t[LSE] = out("lse", d->lse, a->lse, mha_view_flat(mha_problem_lse_count(p), sizeof(float)));
    t[WEIGHTS] = out("weights", d->weights != GPU_MHA_WEIGHTS_NONE, a->weights,
                     mha_view_flat(mha_problem_weights_count(p), sizeof(float)));
    t[SCORES] = out("scores", d->scores != GPU_MHA_SCORES_NONE, a->scores,
                    mha_view_flat(mha_problem_scores_count(p), sizeof(float)));
}

static gpu_mha_mask device_mask(const struct mha_transfer *t, const gpu_mha_mask *given) {
    gpu_mha_mask mask = {.type = given->type};
    for (int a = 0; a < 4 && given->type != GPU_MHA_MASK_NONE; ++a) {
        mask.strided = 1;
        /* An axis of stride 0 broadcasts on the device, whatever its length is here. */
        mask.shape[a] = t->device.stride[a] == 0 ? 1 : given->shape[a];
        mask.stride[a] = t->device.stride[a];
    }
    return mask;
}

/* The caller's descriptor with every tensor laid out as its device buffer is. */
static void describe_device(struct call *call) {
    gpu_mha_desc *d = &call->device_desc;
    const struct mha_transfer *t = call->arrays;
    memcpy(d, &call->problem.desc, sizeof *d);
    d->query = mha_transfer_tensor(&t[QUERY], d->query.type);
    d->key = mha_transfer_tensor(&t[KEY], d->key.type);
    d->value = mha_transfer_tensor(&t[VALUE], d->value.type);
    d->past_key = mha_transfer_tensor(&t[PAST_KEY], d->past_key.type);
    d->past_value = mha_transfer_tensor(&t[PAST_VALUE], d->past_value.type);
    d->output = mha_transfer_tensor(&t[OUTPUT], d->output.type);
    d->mask = device_mask(&t[MASK], &call->problem.desc.mask);
    d->bias = device_mask(&t[BIAS], &call->problem.desc.bias);
    d->struct_size = sizeof *d;
}

static gpu_mha_buffer buffer(const struct call *call, enum array which) {
    return (gpu_mha_buffer){call->arrays[which].mem, 0};
}

static gpu_mha_buffers buffers_of(const struct call *call) {
    return (gpu_mha_buffers){.query = buffer(call, QUERY),
                             .key = buffer(call, KEY),
                             .value = buffer(call, VALUE),
                             .past_key = buffer(call, PAST_KEY),
                             .past_value = buffer(call, PAST_VALUE),
                             .mask = buffer(call, MASK),
                             .bias = buffer(call, BIAS),
                             .key_lengths = buffer(call, KEY_LENGTHS),
                             .alibi_slopes = buffer(call, SLOPES),
                             .sinks = buffer(call, SINKS),
                             .output = buffer(call, OUTPUT),
                             .lse = buffer(call, LSE),
                             .weights = buffer(call, WEIGHTS),
                             .scores = buffer(call, SCORES),
                             .workspace = buffer(call, WORKSPACE)};
}

/* Upload, launch, download. The caller holds the queue's lock and releases the buffers. */
static gpu_mha_status run(struct call *call, gpu_mha_context *context) {
    struct mha_attention *attention = NULL;
    MHA_TRY(mha_recent_get(context, &call->device_desc, &attention));
    call->arrays[WORKSPACE] =
        out("workspace", 1, NULL, mha_view_flat((int64_t)attention->workspace_bytes, 1));
    call->arrays[WORKSPACE].span = (int64_t)attention->workspace_bytes;
    for (int a = 0; a < ARRAYS; ++a) {
        MHA_TRY(mha_transfer_upload(&call->arrays[a], context->cl));
    }
    const gpu_mha_buffers buffers = buffers_of(call);
    struct mha_chain chain;
    mha_chain_begin(&chain, context->queue, 0, NULL);
    const gpu_mha_status launched = mha_attention_launch(attention, &buffers, &chain);
    MHA_TRY(mha_chain_end(&chain, launched, NULL));
    for (int a = OUTPUT; a <= SCORES; ++a) {
        MHA_TRY(mha_transfer_download(&call->arrays[a], context->queue));
    }
    return GPU_MHA_OK;
}

gpu_mha_status gpu_mha(gpu_mha_context *context, const gpu_mha_desc *desc,
                       const gpu_mha_arrays *arrays) {
    struct call call = {0};
    gpu_mha_arrays given;
    MHA_TRY(mha_problem_read(desc, &call.problem));
    MHA_INVALID_IF(arrays == NULL, "arrays is NULL: the host arrays are needed");
    MHA_TRY(mha_struct_read(&given, sizeof given, arrays, arrays->struct_size,
                            sizeof(gpu_mha_arrays), "gpu_mha_arrays"));
    list_arrays(&call, &given);
    for (int a = 0; a < WORKSPACE; ++a) {
        MHA_TRY(mha_transfer_plan(&call.arrays[a]));
    }
    MHA_TRY(check_key_lengths(&call.problem, given.key_lengths));
    MHA_TRY(mha_context_resolve(context, &context));
    if (call.problem.empty_output) {
        return GPU_MHA_OK;
    }
    describe_device(&call);
    pthread_mutex_lock(&context->queue_lock);
    const gpu_mha_status status = run(&call, context);
    for (int a = 0; a < ARRAYS; ++a) {
        mha_transfer_release(&call.arrays[a]);
    }
    pthread_mutex_unlock(&context->queue_lock);
    return status;
}
