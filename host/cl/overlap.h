/* Whether two tensors share bytes of a device buffer, or are the very same. */
#ifndef MHA_CL_OVERLAP_H
#define MHA_CL_OVERLAP_H

#include "cl/transfer.h"

/* A tensor's elements in an allocation. The view has elements and is within the allocation. */
struct mha_footprint {
    cl_mem memory;       /* the whole buffer, where the caller's is a sub-buffer */
    uint64_t first_byte; /* of element (0, 0, 0, 0) */
    struct mha_view view;
};

/* `buffer` is a buffer that mha_regions_check found sound. */
gpu_mha_status mha_footprint_find(const char *name, gpu_mha_buffer buffer,
                                  const struct mha_view *view, struct mha_footprint *footprint);

/* The same elements at the same bytes. */
int mha_footprint_same(const struct mha_footprint *a, const struct mha_footprint *b);

/*
 * 1 if no byte belongs to both. Exact where the strides of both are multiples of each other, as in
 * tensors interleaved in one buffer; of other strides it may give 0 for tensors that miss each
 * other by luck of their lengths.
 */
int mha_footprint_apart(const struct mha_footprint *a, const struct mha_footprint *b);

#endif
