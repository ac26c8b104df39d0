/*
 * A part of a buffer as a sub-buffer of its own. For libraries that count elements in 32 bits from
 * a buffer's begin, or take a buffer without an offset. Nothing is allocated on the device.
 */
#ifndef MHA_BLAS_WINDOW_H
#define MHA_BLAS_WINDOW_H

#include "core/error.h"

struct mha_window {
    cl_mem mem;    /* owned: mha_window_close */
    size_t offset; /* floats from the begin of mem to the part; 0 if the part begins aligned */
};

/*
 * Opens `count` floats from `buffer` on. A sub-buffer may only begin at multiples of `align_bytes`,
 * so up to that much of what lies in front is inside the window too. It may be closed as soon as
 * the commands that use it are enqueued. `name` is for messages. On failure `mem` is NULL.
 */
gpu_mha_status mha_window_open(gpu_mha_buffer buffer, int64_t count, size_t align_bytes,
                               const char *name, struct mha_window *window);

void mha_window_close(struct mha_window *window); /* NULL-safe, also for a zeroed struct */

#endif
