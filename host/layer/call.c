/* gpu_mha_layer(): the blocking call on host memory. */
#include <inttypes.h>

#include "cl/transfer.h"
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
    struct mha_layer_problem problem; /* as the caller's arrays lie */
    gpu_mha_layer_desc device_desc;   /* as the device's buffers lie */
    struct mha_transfer arrays[ARRAYS];
};

/* What the host knows, the host checks: the device could only clamp. */
static gpu_mha_status check_key_lengths(const gpu_mha_desc *d, const void *lengths)
{
    for (int64_t b = 0; d->key_lengths != GPU_MHA_INDEX_NONE && b < d->B; ++b) {
        const int64_t length = d->key_lengths == GPU_MHA_I32 ? ((const int32_t *)lengths)[b]
                                                             : ((const int64_t *)lengths)[b];
        MHA_INVALID_IF(length < 0 || length > d->NK,
                       "key_lengths[%" PRId64 "] is %" PRId64
                       ": it must be from 0 to NK, which is %" PRId64,
                       b, length, d->NK);
    }
    return GPU_MHA_OK;
}

static struct mha_transfer in(const char *name, int wanted, const void *input, struct mha_view view)
{
    return (struct mha_transfer){.name = name, .wanted = wanted, .input = input, .host = view};
}

static struct mha_transfer out(const char *name, int wanted, void *output, struct mha_view view)
{
    return (struct mha_transfer){.name = name, .wanted = wanted, .output = output, .host = view};
}

static struct mha_view view_of_mask(const struct mha_problem *p, const struct mha_mask *m,
                                    size_t element_bytes)
{
    const gpu_mha_desc *d = &p->desc;
    return (struct mha_view){{d->B, d->H, d->NQ, p->NT},
                             {m->stride[0], m->stride[1], m->stride[2], m->stride[3]},
                             element_bytes};
}

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
    for (int m = 0; m < MHA_MAPS; ++m) {
        const struct mha_linear *map = &maps[m];
        const int own = map->weight_rows > 0;
        if (map->input_name != NULL) {
            call->arrays[QUERY_INPUT + m] = in(map->input_name, 1, inputs[m], view_of_input(map));
        }
        call->arrays[WEIGHT_Q + m] =
            in(map->weight_name, own, weights[m], mha_view_flat(map->weight_rows * map->K, bytes));
        call->arrays[BIAS_Q + m] = in(map->bias_name, own && map->has_bias, biases[m],
                                      mha_view_flat(map->weight_rows, bytes));
    }
    const struct mha_linear *o = &maps[MHA_MAP_OUT];
    call->arrays[OUTPUT] =
        out("output", 1, a->output, mha_view_flat(o->M * o->N, mha_type_bytes(o->output_type)));
}

static void list_attention(struct call *call, const gpu_mha_layer_arrays *a)
{
    const struct mha_problem *p = &call->problem.attention;
    const gpu_mha_desc *d = &p->desc;
    struct mha_transfer *t = call->arrays;
    t[MASK] = in("mask", d->mask.type != GPU_MHA_MASK_NONE, a->mask, view_of_mask(p, &p->mask, 1));
    t[BIAS] = in("bias", d->bias.type != GPU_MHA_MASK_NONE, a->bias,
                 view_of_mask(p, &p->bias, d->bias.type == GPU_MHA_MASK_F32 ? 4 : 2));
    t[KEY_LENGTHS] = in("key_lengths", d->key_lengths != GPU_MHA_INDEX_NONE, a->key_lengths,
                        mha_view_flat(d->B, mha_index_bytes(d->key_lengths)));
    t[SLOPES] = in("alibi_slopes", d->alibi == GPU_MHA_ALIBI_SLOPES, a->alibi_slopes,
                   mha_view_flat(d->H, sizeof(float)));
    t[SINKS] = in("sinks", d->sinks, a->sinks, mha_view_flat(d->H, sizeof(float)));
    t[LSE] = out("lse", d->lse, a->lse, mha_view_flat(mha_problem_lse_count(p), sizeof(float)));
    t[WEIGHTS] = out("weights", d->weights != GPU_MHA_WEIGHTS_NONE, a->weights,
                     mha_view_flat(mha_problem_weights_count(p), sizeof(float)));
    t[SCORES] = out("scores", d->scores != GPU_MHA_SCORES_NONE, a->scores,
                    mha_view_flat(mha_problem_scores_count(p), sizeof(float)));
}

/* The mask as its device buffer lies: gaps gone, an axis of stride 0 broadcast. */
static gpu_mha_mask device_mask(const struct mha_transfer *t, const gpu_mha_mask *given)
{
    gpu_mha_mask mask = {.type = given->type};
    for (int a = 0; a < 4 && given->type != GPU_MHA_MASK_NONE; ++a) {
        mask.strided = 1;
        mask.shape[a] = t->device.stride[a] == 0 ? 1 : given->shape[a];
        mask.stride[a] = t->device.stride[a];
    }
    return mask;
}

static gpu_mha_buffer buffer(const struct call *call, enum array which)
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
static gpu_mha_status run(struct call *call, struct mha_layer *layer, gpu_mha_context *context)
{
    const int64_t bytes = (int64_t)layer->workspace_bytes;
    call->arrays[WORKSPACE] = out("workspace", 1, NULL, mha_view_flat(bytes, 1));
    call->arrays[WORKSPACE].span = bytes;
    for (int a = 0; a < ARRAYS; ++a) {
        MHA_TRY(mha_transfer_upload(&call->arrays[a], context->cl));
    }
    const gpu_mha_layer_buffers buffers = buffers_of(call);
    struct mha_chain chain;
    mha_chain_begin(&chain, context->queue, 0, NULL);
    const gpu_mha_status launched = mha_layer_launch(layer, &buffers, &chain);
    MHA_TRY(mha_chain_end(&chain, launched, NULL));
    for (int a = OUTPUT; a <= SCORES; ++a) {
        MHA_TRY(mha_transfer_download(&call->arrays[a], context->queue));
    }
    return GPU_MHA_OK;
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
    list_maps(&call, &given);
    list_attention(&call, &given);
    for (int a = 0; a < WORKSPACE; ++a) {
        MHA_TRY(mha_transfer_plan(&call.arrays[a]));
    }
    MHA_TRY(check_key_lengths(&call.problem.attention.desc, given.key_lengths));
    MHA_TRY(mha_context_resolve(context, &context));
    if (call.problem.attention.empty_output) {
        return GPU_MHA_OK;
    }
    call.device_desc = call.problem.desc;
    call.device_desc.struct_size = sizeof call.device_desc;
    call.device_desc.attention.mask =
        device_mask(&call.arrays[MASK], &call.problem.desc.attention.mask);
    call.device_desc.attention.bias =
        device_mask(&call.arrays[BIAS], &call.problem.desc.attention.bias);

    struct mha_layer *layer = NULL;
    MHA_TRY(mha_layer_create(context, &call.device_desc, 0, &layer));
    pthread_mutex_lock(&context->queue_lock);
    const gpu_mha_status status = run(&call, layer, context);
    for (int a = 0; a < ARRAYS; ++a) {
        mha_transfer_release(&call.arrays[a]);
    }
    pthread_mutex_unlock(&context->queue_lock);
    mha_layer_destroy(layer);
    return status;
}
