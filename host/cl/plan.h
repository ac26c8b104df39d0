/* The public plan: what an operation made ready, under one counted object. */
#ifndef MHA_CL_PLAN_H
#define MHA_CL_PLAN_H

#include <stdatomic.h>

#include "cl/context.h"

/* One per operation; its address tells whose plan, or whose kept state, something is. */
struct mha_operation {
    const char *name; /* for messages: "an attention" */
    void (*destroy)(void *state);
};

struct gpu_mha_plan {
    atomic_int references;
    gpu_mha_context *context;
    const struct mha_operation *operation;
    void *state;
    size_t workspace_bytes;
    char text[160];
    char variant[64]; /* of an attention, as gpu-mha doctor knows it; else "" */
};

/* Takes `state` over, also on failure. Retains the context. */
gpu_mha_status mha_plan_create(gpu_mha_context *context, const struct mha_operation *operation,
                               void *state, size_t workspace_bytes, const char *text,
                               gpu_mha_plan **plan);

/*
 * What every enqueue checks first: the plan is `operation`'s, the process is the one that made it,
 * queue and wait list are sound. Sets *event to NULL.
 */
gpu_mha_status mha_plan_check(const gpu_mha_plan *plan, const struct mha_operation *operation,
                              cl_command_queue queue, cl_uint wait_count, const cl_event *wait,
                              cl_event *event);

#endif
