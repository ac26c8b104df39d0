/*
 * queue.h - command queues and events for tests.
 */
#ifndef MHA_TESTS_QUEUE_H
#define MHA_TESTS_QUEUE_H

#include <gpu_mha/gpu_mha.h>

/*
 * A queue of the context, on its device; ends the test if there is none. OpenCL does not promise
 * out-of-order queues: a device without them gives an in-order one.
 */
cl_command_queue queue_make(gpu_mha_context *context, int out_of_order);

/* The state that the event's command is in: CL_COMPLETE, above it before, below it if it failed. */
cl_int event_state(cl_event event);

#endif
