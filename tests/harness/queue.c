/* queue.c - see queue.h. */
#include "queue.h"

#include <check.h>

cl_command_queue queue_make(gpu_mha_context *context, int out_of_order)
{
    cl_context cl = gpu_mha_context_cl(context);
    cl_device_id device = gpu_mha_context_device(context);
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = clCreateCommandQueue(
        cl, device, out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0, &code);

    if (out_of_order && code == CL_INVALID_QUEUE_PROPERTIES) {
        queue = clCreateCommandQueue(cl, device, 0, &code);
    }
    if (!queue) { /* the assertions of Check are only for programs that run under it */
        ck_abort_msg("clCreateCommandQueue gives %d", code);
    }
    return queue;
}

cl_int event_state(cl_event event)
{
    cl_int state = 0;
    ck_assert_int_eq(
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL),
        CL_SUCCESS);
    return state;
}
