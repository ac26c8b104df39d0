/* The caller's device buffers: there when needed, absent when not, large enough, not overlapping.
 */
#ifndef MHA_CL_REGION_H
#define MHA_CL_REGION_H

#include "core/tensor.h"

enum mha_region_use {
    MHA_READ,     /* an input */
    MHA_WRITE,    /* an output with gaps that may hold other tensors */
    MHA_EXCLUSIVE /* a packed output or workspace: nothing else may lie in its range */
};

/* What one field of a buffers struct must provide. */
struct mha_region {
    const char *name;
    gpu_mha_buffer buffer;
    int wanted;   /* 0: the descriptor does not ask for it, so it must be NULL */
    int64_t span; /* elements it must have from its offset on; 0: may be NULL */
    size_t element_bytes;
    enum mha_region_use use;
};

/* Refuses what does not fit; asks OpenCL for sizes and contexts, changes nothing. */
gpu_mha_status mha_regions_check(const struct mha_region *regions, int count, cl_context cl);

#endif
