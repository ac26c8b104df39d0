/* gpu_mha_layer(): the blocking call on host memory. */
#include "attention/arrays.h"
#include "cl/recent.h"
#include "layer/layer.h"

enum array {
    QUERY_INPUT,
    KEY_INPUT,
    VALUE_INPUT,
    WEIGHT_Q,
    WEIGHT_K,
    WEIGHT_V,
    WEIGHT_OUT,
    BIAS_Q,
    BIAS_K,
    BIAS_V,
    BIAS_OUT,
    INPUTS, /* the first of mha_arrays_list's */
    OUTPUT = INPUTS + MHA_ARRAY_INPUTS,
    OUTPUTS, /* the first of mha_arrays_list's */
    WORKSPACE = OUTPUTS + MHA_ARRAY_OUTPUTS,
    ARRAYS
};

/* Both descriptors as the device's buffers lie. A key: layer.attention is NULL. */
struct device_desc {
    gpu_mha_layer_desc layer;
    gpu_mha_desc attention;
};

struct call {
    struct mha_layer_problem problem; /* as the caller's arrays lie */
    struct device_desc device_desc;
    struct mha_transfer arrays[ARRAYS];
};

static struct mha_view view_of_input(const struct mha_linear *map)
{
    return mha_view_flat(map->M * map->K, mha_type_bytes(map->input_type));
}

static void list_maps(struct call *call, const gpu_mha_layer_arrays *a)
{
    const struct mha_linear *maps = call->problem.maps;
    const size_t bytes = mha_type_bytes(call->problem.desc.weight_type);
    const void *inputs[] = {a->query_input, a->key_input, a->value_input, NULL};
    const void *weights[] = {a->weight_q, a->weight_k, a->weight_v, a->weight_out};
    const void *biases[] = {a->bias_q, a->bias_k, a->bias_v, a->bias_out};
    struct mha_transfer *t = call->arrays;
    for (int m = 0; m < MHA_MAPS; ++m) {
        const struct mha_linear *map = &maps[m];
        const int own = map->weight_rows > 0;
        if (map->input_name != NULL) {
            t[QUERY_INPUT + m] = mha_transfer_in(map->input_name, 1, inputs[m], view_of_input(map));
        }
        t[WEIGHT_Q + m] = mha_transfer_in(map->weight_name, own, weights[m],
                                          mha_view_flat(map->weight_rows * map->K, bytes));
        t[BIAS_Q + m] = mha_transfer_in(map->bias_name, own && map->has_bias, biases[m],
                                        mha_view_flat(map->weight_rows, bytes));
    }
    const struct mha_linear *o = &maps[MHA_MAP_OUT];
    t[OUTPUT] = mha_transfer_out("output", 1, a->output,
                                 mha_view_flat(o->M * o->N, mha_type_bytes(o->output_type)));
}

static void list_arrays(struct call *call, const gpu_mha_layer_arrays *a)
{
    const gpu_mha_arrays inside = {.mask = a->mask,
                                   .bias = a->bias,
                                   .key_lengths = a->key_lengths,
                                   .alibi_slopes = a->alibi_slopes,
                                   .sinks = a->sinks,
                                   .lse = a->lse,
                                   .weights = a->weights,
                                   .scores = a->scores};
    list_maps(call, a);
    mha_arrays_list(&call->problem.attention, &inside, &call->arrays[INPUTS],
                    &call->arrays[OUTPUTS]);
}

/* The caller's descriptors with both masks laid out as their device buffers are. */
static void describe_device(struct call *call)
{
    struct device_desc *d = &call->device_desc;
    const struct mha_transfer *t = call->arrays;
    d->layer = call->problem.desc;
    d->attention = call->problem.attention_desc;
    d->attention.mask = mha_arrays_device_mask(&t[INPUTS + MHA_ARRAY_MASK], d->attention.mask.type);
    d->attention.bias = mha_arrays_device_mask(&t[INPUTS + MHA_ARRAY_BIAS], d->attention.bias.type);
}

static gpu_mha_buffer buffer(const struct call *call, int which)
{
    return (gpu_mha_buffer){call->arrays[which].mem, 0};
}

static gpu_mha_layer_buffers buffers_of(const struct call *call)
{
    return (gpu_mha_layer_buffers){.query_input = buffer(call, QUERY_INPUT),
                                   .key_input = buffer(call, KEY_INPUT),
                                   .value_input = buffer(call, VALUE_INPUT),
                                   .weight_q = buffer(call, WEIGHT_Q),
                                   .weight_k = buffer(call, WEIGHT_K),
                                   .weight_v = buffer(call, WEIGHT_V),
                                   .weight_out = buffer(call, WEIGHT_OUT),
                                   .bias_q = buffer(call, BIAS_Q),
                                   .bias_k = buffer(call, BIAS_K),
                                   .bias_v = buffer(call, BIAS_V),
                                   .bias_out = buffer(call, BIAS_OUT),
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

/* The layer as the device's buffers lie: the context's, so nothing needs destroying. */
static gpu_mha_status prepare(const struct call *call, gpu_mha_context *context,
                              struct mha_layer **layer)
{
    const struct device_desc *key = &call->device_desc;
    *layer = mha_recent_find(context, &mha_layer_operation, key, sizeof *key);
    if (*layer != NULL) {
        return GPU_MHA_OK;
    }
    gpu_mha_layer_desc desc = key->layer;
    desc.attention = &key->attention;
    MHA_TRY(mha_layer_create(context, &desc, layer));
    return mha_recent_keep(context, &mha_layer_operation, key, sizeof *key, *layer);
}

/* Upload, launch, download. The caller holds the queue's lock and releases the buffers. */
static gpu_mha_status run(struct call *call, gpu_mha_context *context)
{
    struct mha_layer *layer = NULL;
    MHA_TRY(prepare(call, context, &layer));
    call->arrays[WORKSPACE] = mha_transfer_scratch("workspace", layer->workspace_bytes);
    MHA_TRY(mha_transfers_fit(call->arrays, ARRAYS, &context->device));
    for (int a = 0; a < ARRAYS; ++a) {
        MHA_TRY(mha_transfer_upload(&call->arrays[a], context->cl));
    }
    const gpu_mha_layer_buffers buffers = buffers_of(call);
    struct mha_chain chain;
    mha_chain_begin(&chain, context->queue, 0, NULL);
    return mha_transfers_collect(call->arrays, WORKSPACE, &chain,
                                 mha_layer_launch(layer, &buffers, &chain));
}

gpu_mha_status gpu_mha_layer(gpu_mha_context *context, const gpu_mha_layer_desc *desc,
                             const gpu_mha_layer_arrays *arrays)
{
    struct call call = {0};
    gpu_mha_layer_arrays given;
    MHA_TRY(mha_layer_read(desc, &call.problem));
    MHA_INVALID_IF(arrays == NULL, "arrays is NULL: the host arrays are needed");
    MHA_TRY(mha_struct_read(&given, sizeof given, arrays, arrays->struct_size,
                            sizeof(gpu_mha_layer_arrays), "gpu_mha_layer_arrays"));
    list_arrays(&call, &given);
    for (int a = 0; a < WORKSPACE; ++a) {
        MHA_TRY(mha_transfer_plan(&call.arrays[a]));
    }
    MHA_TRY(mha_arrays_check_key_lengths(&call.problem.attention, given.key_lengths));
    MHA_TRY(mha_context_resolve(context, &context));
    if (call.problem.attention.empty_output) {
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
