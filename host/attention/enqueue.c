/* The expert calls: plan and enqueue. */
#include <string.h>

#include "attention/attention.h"
#include "cl/plan.h"

static void destroy(void *state)
{
    mha_attention_destroy(state);
}

const struct mha_operation mha_attention_operation = {"an attention", destroy};

gpu_mha_status gpu_mha_plan_create(gpu_mha_context *context, const gpu_mha_desc *desc,
                                   gpu_mha_plan **plan)
{
    MHA_INVALID_IF(plan == NULL, "plan is NULL: room for a plan is needed");
    *plan = NULL;
    MHA_TRY(mha_context_resolve(context, &context));
    struct mha_attention *attention = NULL;
    MHA_TRY(mha_attention_create(context, desc, NULL, &attention));
    char text[128], variant[sizeof(*plan)->variant];
    mha_attention_text(attention, text, sizeof text);
    mha_attention_name(attention, variant, sizeof variant);
    MHA_TRY(mha_plan_create(context, &mha_attention_operation, attention,
                            attention->workspace_bytes, text, plan));
    memcpy((*plan)->variant, variant, sizeof variant);
    return GPU_MHA_OK;
}

gpu_mha_status gpu_mha_enqueue(gpu_mha_plan *plan, cl_command_queue queue,
                               const gpu_mha_buffers *buffers, cl_uint wait_count,
                               const cl_event *wait, cl_event *event)
{
    MHA_TRY(mha_plan_check(plan, &mha_attention_operation, queue, wait_count, wait, event));
    MHA_INVALID_IF(buffers == NULL, "buffers is NULL: the buffers of the run are needed");
    gpu_mha_buffers b;
    MHA_TRY(mha_struct_read(&b, sizeof b, buffers, buffers->struct_size, sizeof(gpu_mha_buffers),
                            "gpu_mha_buffers"));
    struct mha_attention *attention = plan->state;
    MHA_TRY(mha_attention_check(attention, &b, plan->context->cl));
    struct mha_chain chain;
    mha_chain_begin(&chain, queue, wait_count, wait);
    return mha_chain_end(&chain, mha_attention_launch(attention, &b, &chain), event);
}
