/* The number of the process that was first to use OpenCL here. */
#include "cl/process.h"

#include <stdatomic.h>
#include <unistd.h>

static atomic_long user; /* 0: none yet */

gpu_mha_status mha_process_check(void)
{
    const long self = (long)getpid();
    long found = 0;
    if (!atomic_compare_exchange_strong(&user, &found, self)) {
        MHA_RETURN_IF(found != self, GPU_MHA_FORKED,
                      "OpenCL was used by process %ld, this is process %ld after a fork()", found,
                      self);
    }
    return GPU_MHA_OK;
}
