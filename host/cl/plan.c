/* The plan object: references, and the checks every enqueue makes. */
#include "cl/plan.h"

#include <stdio.h>
#include <stdlib.h>

gpu_mha_status mha_plan_create(gpu_mha_context *context, const struct mha_operation *operation,
                               void *state, size_t workspace_bytes, const char *text,
                               gpu_mha_plan **plan)
{
    gpu_mha_status status = GPU_MHA_OK;
    gpu_mha_plan *made = calloc(1, sizeof *made);
    if (made == NULL) {
        status = mha_error_set(GPU_MHA_HOST_MEMORY, "no memory for a plan");
        goto cleanup;
    }
    status = gpu_mha_context_retain(context);
    if (status != GPU_MHA_OK) {
        goto cleanup;
    }
    atomic_init(&made->references, 1);
    made->context = context;
    made->operation = operation;
    made->state = state;
    made->workspace_bytes = workspace_bytes;
    snprintf(made->text, sizeof made->text, "%s", text);
    *plan = made;
    made = NULL;
    state = NULL;
cleanup:
    if (state != NULL) {
        operation->destroy(state);
    }
    free(made);
    return status;
}

gpu_mha_status gpu_mha_plan_retain(gpu_mha_plan *plan)
{
    MHA_INVALID_IF(plan == NULL, "plan is NULL: a plan is needed");
    MHA_TRY(mha_context_check(plan->context));
    atomic_fetch_add(&plan->references, 1);
    return GPU_MHA_OK;
}

void gpu_mha_plan_release(gpu_mha_plan *plan)
{
    if (plan == NULL || atomic_fetch_sub(&plan->references, 1) != 1) {
        return;
    }
    /* In a forked child a driver's locks may be held for ever: what it holds is left alone. */
    if (!mha_context_is_forked(plan->context)) {
        plan->operation->destroy(plan->state);
    }
    gpu_mha_context_release(plan->context);
    free(plan);
}

size_t gpu_mha_plan_workspace_bytes(const gpu_mha_plan *plan)
{
    return plan == NULL ? 0 : plan->workspace_bytes;
}

const char *gpu_mha_plan_variant(const gpu_mha_plan *plan)
{
    return plan == NULL ? "" : plan->variant;
}

const char *gpu_mha_plan_text(const gpu_mha_plan *plan)
{
    return plan == NULL ? "" : plan->text;
}

static gpu_mha_status check_queue(const gpu_mha_plan *plan, cl_command_queue queue)
{
    cl_context cl = NULL;
    cl_device_id device = NULL;
    MHA_INVALID_IF(queue == NULL, "queue is NULL: a command queue is needed");
    MHA_TRY_CL(clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof cl, (void *)&cl, NULL),
               "clGetCommandQueueInfo", "asking for the context of queue");
    MHA_TRY_CL(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, (void *)&device, NULL),
               "clGetCommandQueueInfo", "asking for the device of queue");
    MHA_INVALID_IF(cl != plan->context->cl, "queue is of another OpenCL context than the plan's");
    MHA_INVALID_IF(device != plan->context->device.id,
                   "queue is of another device than the plan's");
    return GPU_MHA_OK;
}

/* Drivers that do not look at an event's context, or that it has failed, would wait for ever. */
static gpu_mha_status check_wait_list(const gpu_mha_plan *plan, cl_uint wait_count,
                                      const cl_event *wait)
{
    for (cl_uint i = 0; i < wait_count; ++i) {
        cl_context cl = NULL;
        cl_int state = CL_COMPLETE;
        MHA_INVALID_IF(wait[i] == NULL, "wait[%u] is NULL: an event is needed", i);
        MHA_TRY_CL(clGetEventInfo(wait[i], CL_EVENT_CONTEXT, sizeof cl, (void *)&cl, NULL),
                   "clGetEventInfo", "asking for the context of wait[%u]", i);
        MHA_INVALID_IF(cl != plan->context->cl,
                       "wait[%u] is of another OpenCL context than the plan's", i);
        MHA_TRY_CL(
            clGetEventInfo(wait[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL),
            "clGetEventInfo", "asking for the state of wait[%u]", i);
        MHA_TRY_CL(state < 0 ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : CL_SUCCESS,
                   "clGetEventInfo", "wait[%u] has ended with %d", i, (int)state);
    }
    return GPU_MHA_OK;
}

gpu_mha_status mha_plan_check(const gpu_mha_plan *plan, const struct mha_operation *operation,
                              cl_command_queue queue, cl_uint wait_count, const cl_event *wait,
                              cl_event *event)
{
    if (event != NULL) {
        *event = NULL;
    }
    MHA_INVALID_IF(plan == NULL, "plan is NULL: a plan is needed");
    MHA_INVALID_IF(plan->operation != operation, "plan is %s plan: %s plan is needed here",
                   plan->operation->name, operation->name);
    MHA_TRY(mha_context_check(plan->context));
    MHA_TRY(check_queue(plan, queue));
    MHA_INVALID_IF((wait_count == 0) != (wait == NULL),
                   "wait is %sNULL and wait_count is %u: both are given, or neither",
                   wait == NULL ? "" : "not ", wait_count);
    return check_wait_list(plan, wait_count, wait);
}
