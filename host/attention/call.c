/* gpu_mha(): the blocking call on host memory. */
#include "attention/arrays.h"
#include "attention/attention.h"
#include "cl/recent.h"

enum array {
    QUERY,
    KEY,
    VALUE,
    PAST_KEY,
    PAST_VALUE,
    INPUTS, /* the first of mha_arrays_list's */
    OUTPUT = INPUTS + MHA_ARRAY_INPUTS,
    OUTPUTS, /* the first of mha_arrays_list's */
    WORKSPACE = OUTPUTS + MHA_ARRAY_OUTPUTS,
    ARRAYS
};

struct call {
    struct mha_problem problem; /* as the caller's arrays lie */
    gpu_mha_desc device_desc;   /* as the device's buffers lie */
    struct mha_transfer arrays[ARRAYS];
};

static void list_arrays(struct call *call, const gpu_mha_arrays *a)
{
    const struct mha_problem *p = &call->problem;
    const int past = p->desc.NP > 0;
    struct mha_transfer *t = call->arrays;
    t[QUERY] = mha_transfer_in("query", 1, a->query, mha_view_of_tensor(&p->query));
    t[KEY] = mha_transfer_in("key", 1, a->key, mha_view_of_tensor(&p->key));
    t[VALUE] = mha_transfer_in("value", 1, a->value, mha_view_of_tensor(&p->value));
    t[PAST_KEY] = mha_transfer_in("past_key", past, a->past_key, mha_view_of_tensor(&p->past_key));
    t[PAST_VALUE] =
        mha_transfer_in("past_value", past, a->past_value, mha_view_of_tensor(&p->past_value));
    t[OUTPUT] = mha_transfer_out("output", 1, a->output, mha_view_of_tensor(&p->output));
    mha_arrays_list(p, a, &t[INPUTS], &t[OUTPUTS]);
}

/* The caller's descriptor with every tensor laid out as its device buffer is. */
static void describe_device(struct call *call)
{
    gpu_mha_desc *d = &call->device_desc;
    const struct mha_transfer *t = call->arrays;
    *d = call->problem.desc;
    d->query = mha_transfer_tensor(&t[QUERY], d->query.type);
    d->key = mha_transfer_tensor(&t[KEY], d->key.type);
    d->value = mha_transfer_tensor(&t[VALUE], d->value.type);
    d->past_key = mha_transfer_tensor(&t[PAST_KEY], d->past_key.type);
    d->past_value = mha_transfer_tensor(&t[PAST_VALUE], d->past_value.type);
    d->output = mha_transfer_tensor(&t[OUTPUT], d->output.type);
    d->mask = mha_arrays_device_mask(&t[INPUTS + MHA_ARRAY_MASK], d->mask.type);
    d->bias = mha_arrays_device_mask(&t[INPUTS + MHA_ARRAY_BIAS], d->bias.type);
}

static gpu_mha_buffer buffer(const struct call *call, int which)
{
    return (gpu_mha_buffer){call->arrays[which].mem, 0};
}

static gpu_mha_buffers buffers_of(const struct call *call)
{
    return (gpu_mha_buffers){.query = buffer(call, QUERY),
                             .key = buffer(call, KEY),
                             .value = buffer(call, VALUE),
                             .past_key = buffer(call, PAST_KEY),
                             .past_value = buffer(call, PAST_VALUE),
                             .mask = buffer(call, INPUTS + MHA_ARRAY_MASK),
                             .bias = buffer(call, INPUTS + MHA_ARRAY_BIAS),
                             .key_lengths = buffer(call, INPUTS + MHA_ARRAY_KEY_LENGTHS),
                             .alibi_slopes = buffer(call, INPUTS + MHA_ARRAY_SLOPES),
                             .sinks = buffer(call, INPUTS + MHA_ARRAY_SINKS),
                             .output = buffer(call, OUTPUT),
                             .lse = buffer(call, OUTPUTS + MHA_ARRAY_LSE),
                             .weights = buffer(call, OUTPUTS + MHA_ARRAY_WEIGHTS),
                             .scores = buffer(call, OUTPUTS + MHA_ARRAY_SCORES),
                             .workspace = buffer(call, WORKSPACE)};
}

/* The attention as the device's buffers lie: the context's, so nothing needs destroying. */
static gpu_mha_status prepare(const struct call *call, gpu_mha_context *context,
                              struct mha_attention **attention)
{
    const gpu_mha_desc *key = &call->device_desc;
    *attention = mha_recent_find(context, &mha_attention_operation, key, sizeof *key);
    if (*attention != NULL) {
        return GPU_MHA_OK;
    }
    MHA_TRY(mha_attention_create(context, key, NULL, attention));
    return mha_recent_keep(context, &mha_attention_operation, key, sizeof *key, *attention);
}

/* Upload, launch, download. The caller holds the queue's lock and releases the buffers. */
static gpu_mha_status run(struct call *call, gpu_mha_context *context)
{
    struct mha_attention *attention = NULL;
    MHA_TRY(prepare(call, context, &attention));
    call->arrays[WORKSPACE] = mha_transfer_scratch("workspace", attention->workspace_bytes);
    MHA_TRY(mha_transfers_fit(call->arrays, ARRAYS, &context->device));
    for (int a = 0; a < ARRAYS; ++a) {
        MHA_TRY(mha_transfer_upload(&call->arrays[a], context->cl));
    }
    const gpu_mha_buffers buffers = buffers_of(call);
    struct mha_chain chain;
    mha_chain_begin(&chain, context->queue, 0, NULL);
    return mha_transfers_collect(call->arrays, WORKSPACE, &chain,
                                 mha_attention_launch(attention, &buffers, &chain));
}

gpu_mha_status gpu_mha(gpu_mha_context *context, const gpu_mha_desc *desc,
                       const gpu_mha_arrays *arrays)
{
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
    MHA_TRY(mha_arrays_check_key_lengths(&call.problem, given.key_lengths));
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
