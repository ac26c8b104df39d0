/*
 * Host arrays to device buffers and back, for the blocking calls. Only elements that a tensor names
 * are touched on the host: an array with gaps is gathered into a packed one, and scattered back.
 */
#ifndef MHA_CL_TRANSFER_H
#define MHA_CL_TRANSFER_H

#include "cl/device.h"
#include "cl/kernel.h"
#include "core/tensor.h"

/* Four axes, the last usually contiguous. A stride of 0 broadcasts. */
struct mha_view {
    int64_t length[4], stride[4];
    size_t element_bytes;
};

struct mha_view mha_view_of_tensor(const struct mha_tensor *tensor);
struct mha_view mha_view_flat(int64_t count, size_t element_bytes);

struct mha_transfer {
    const char *name;
    int wanted;        /* 0: the descriptor does not ask for it, so the pointer must be NULL */
    const void *input; /* one of the two */
    void *output;
    struct mha_view host;
    struct mha_view device; /* set by mha_transfer_plan: the same lengths, its own strides */
    int64_t span;           /* set by mha_transfer_plan: elements of the device buffer */
    int whole;              /* set by mha_transfer_plan: copied in one piece, strides kept */
    cl_mem mem;             /* set by mha_transfer_upload; NULL if span is 0 */
};

/* What the device reads, what it writes, and what only it sees. Planned next, but for scratch. */
struct mha_transfer mha_transfer_in(const char *name, int wanted, const void *input,
                                    struct mha_view host);
struct mha_transfer mha_transfer_out(const char *name, int wanted, void *output,
                                     struct mha_view host);
struct mha_transfer mha_transfer_scratch(const char *name, size_t bytes);

/* Lays out the device side, and checks that the pointer is there if and only if it must be. */
gpu_mha_status mha_transfer_plan(struct mha_transfer *transfer);

/*
 * GPU_MHA_UNSUPPORTED where a device buffer, or all of them together, are more than the device has.
 * All have been planned.
 */
gpu_mha_status mha_transfers_fit(const struct mha_transfer *transfers, int count,
                                 const struct mha_device *device);

/* Makes the device buffer, filled from `input` if there is one. */
gpu_mha_status mha_transfer_upload(struct mha_transfer *transfer, cl_context cl);

/*
 * Ends the chain and reads every device buffer that has an `output` back into it. Blocks. A launch
 * that was accepted and failed later is an error here: the reads wait for the last one's event.
 */
gpu_mha_status mha_transfers_collect(const struct mha_transfer *transfers, int count,
                                     struct mha_chain *chain, gpu_mha_status launched);

/* Releases the device buffer. NULL-safe. */
void mha_transfer_release(struct mha_transfer *transfer);

/* The tensor as it lies on the device, for a descriptor. */
gpu_mha_tensor mha_transfer_tensor(const struct mha_transfer *transfer, gpu_mha_type type);

#endif
