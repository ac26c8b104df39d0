/* The expert calls of the layer: plan and enqueue. */
#include "layer/layer.h"

static void destroy(void *state)
{
    mha_layer_destroy(state);
}

const struct mha_operation mha_layer_operation = {"a layer", destroy};

gpu_mha_status gpu_mha_layer_plan_create(gpu_mha_context *context, const gpu_mha_layer_desc *desc,
                                         gpu_mha_plan **plan)
{
    MHA_INVALID_IF(plan == NULL, "plan is NULL: room for a plan is needed");
    *plan = NULL;
    MHA_TRY(mha_context_resolve(context, &context));
    struct mha_layer *layer = NULL;
    MHA_TRY(mha_layer_create(context, desc, &layer));
    char text[160];
    mha_layer_text(layer, text, sizeof text);
    return mha_plan_create(context, &mha_layer_operation, layer, layer->workspace_bytes, text,
                           plan);
}

gpu_mha_status gpu_mha_layer_enqueue(gpu_mha_plan *plan, cl_command_queue queue,
                                     const gpu_mha_layer_buffers *buffers, cl_uint wait_count,
                                     const cl_event *wait, cl_event *event)
{
    MHA_TRY(mha_plan_check(plan, &mha_layer_operation, queue, wait_count, wait, event));
    MHA_INVALID_IF(buffers == NULL, "buffers is NULL: the buffers of the run are needed");
    gpu_mha_layer_buffers b;
    MHA_TRY(mha_struct_read(&b, sizeof b, buffers, buffers->struct_size,
                            sizeof(gpu_mha_layer_buffers), "gpu_mha_layer_buffers"));
    struct mha_layer *layer = plan->state;
    MHA_TRY(mha_layer_check(layer, &b, plan->context->cl));
    struct mha_chain chain;
    mha_chain_begin(&chain, queue, wait_count, wait);
    return mha_chain_end(&chain, mha_layer_launch(layer, &b, &chain), event);
}
