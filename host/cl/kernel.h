/*
 * A kernel ready to launch, and the chain of events that orders the launches of one call.
 * Setting arguments and enqueueing is one step under a lock: clSetKernelArg on a shared kernel is
 * the one OpenCL call that threads may not make at once.
 */
#ifndef MHA_CL_KERNEL_H
#define MHA_CL_KERNEL_H

#include <pthread.h>

#include "cl/program.h"

struct mha_kernel {
    cl_kernel cl;
    pthread_mutex_t lock;
    int lock_made;
    size_t local;     /* work-items per group, a power of two within the built kernel's limit */
    size_t max_items; /* of one launch: what a size_t of the device counts */
    const char *name;
};

/*
 * Builds `name` of kernels/<file> and picks the local size: the largest power of two that is at
 * most `wanted_local`, the limit of the built kernel on this device (CL_KERNEL_WORK_GROUP_SIZE) and
 * the device's dimension 0. A kernel with a compiled-in size (reqd_work_group_size) gets that.
 * `name` is kept, not copied. On failure nothing needs destroying.
 */
gpu_mha_status mha_kernel_create(struct mha_program_cache *cache, const struct mha_device *device,
                                 const char *file, const char *name,
                                 const struct mha_options *options, size_t wanted_local,
                                 struct mha_kernel *kernel);
void mha_kernel_destroy(struct mha_kernel *kernel); /* NULL-safe, also for a zeroed struct */

/* One argument: a buffer (size == sizeof(cl_mem)) or a value. */
struct mha_arg {
    size_t size;
    const void *value;
};
#define MHA_ARG(object) ((struct mha_arg){sizeof(object), &(object)})

/*
 * The launches of one call, in order, each waiting for the one before; the first waits for the
 * caller's list. Works on in-order and out-of-order queues.
 */
struct mha_chain {
    cl_command_queue queue;
    cl_uint wait_count; /* the caller's, until the first launch */
    const cl_event *wait;
    cl_event last; /* owned; NULL before the first launch */
};

void mha_chain_begin(struct mha_chain *chain, cl_command_queue queue, cl_uint wait_count,
                     const cl_event *wait);

/*
 * Launches `items` work-items (rounded up to whole groups); kernels return beyond their count.
 * 0 items launch nothing.
 */
gpu_mha_status mha_chain_launch(struct mha_chain *chain, struct mha_kernel *kernel, size_t items,
                                const struct mha_arg *args, cl_uint count);

/* Makes `event` (owned by the caller, taken over) the last of the chain: for foreign launches. */
void mha_chain_push(struct mha_chain *chain, cl_event event);

/*
 * The same for a launch that did not wait for what came before, though it was ordered behind it:
 * the last of the chain then stands for both, so that a failure of either is seen.
 */
gpu_mha_status mha_chain_join(struct mha_chain *chain, cl_event event);

/* The wait list of the next command. */
cl_uint mha_chain_wait_count(const struct mha_chain *chain);
const cl_event *mha_chain_wait_list(const struct mha_chain *chain);

/*
 * Ends the chain. On success `*event` (if event is not NULL) is the last event, or a marker's when
 * nothing was launched. On failure it is NULL. Always releases what the chain holds.
 * Returns `status`, or the marker's failure.
 */
gpu_mha_status mha_chain_end(struct mha_chain *chain, gpu_mha_status status, cl_event *event);

#endif
