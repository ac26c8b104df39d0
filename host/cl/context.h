/* The public context: an OpenCL context, its device, its programs, what blocking calls keep. */
#ifndef MHA_CL_CONTEXT_H
#define MHA_CL_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "cl/kernel.h"

struct mha_recent; /* recent.h */
struct mha_tuned;  /* tuned.h */

struct gpu_mha_context {
    atomic_int references;
    pid_t pid; /* of the process that made it: a context does not survive fork */
    cl_context cl;
    struct mha_device device;
    struct mha_program_cache *programs;
    struct mha_tuned *tuned; /* what was measured on the device; device.verdicts is its twin */
    atomic_int clblast;      /* what host/blas found out about CLBlast here */
    cl_command_queue queue;  /* in-order, for the blocking calls; guarded by queue_lock */
    pthread_mutex_t queue_lock;
    struct mha_recent *recent; /* of the blocking calls; NULL until used; guarded by queue_lock */
};

/* `context`, or the process-wide default for NULL: made on first use, kept. Checks fork. */
gpu_mha_status mha_context_resolve(gpu_mha_context *context, gpu_mha_context **resolved);

/* 1 in a child of the process that made the context. */
int mha_context_is_forked(const gpu_mha_context *context);

/* GPU_MHA_FORKED in a child of the process that made the context. */
gpu_mha_status mha_context_check(const gpu_mha_context *context);

#endif
