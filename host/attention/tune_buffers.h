/*
 * Buffers for the measurement of one attention: inputs as a descriptor wants them, made here and
 * random, and what its outputs must agree with.
 */
#ifndef MHA_ATTENTION_TUNE_BUFFERS_H
#define MHA_ATTENTION_TUNE_BUFFERS_H

#include "attention/problem.h"
#include "cl/context.h"
#include "cl/random_fill.h"

/* Query, key, value, past key, past value. */
enum { MHA_TUNE_TENSORS = 5 };

struct mha_tune_buffers {
    gpu_mha_buffers buffers;         /* of set 0; the workspace is for the caller to reserve */
    int64_t sets;                    /* of tensors, of which runs take one after the other */
    int64_t pitch[MHA_TUNE_TENSORS]; /* elements from one set to the next */
    size_t workspace_bytes;
    gpu_mha_type output_type;
    int64_t output_count, lse_count; /* elements */
    void *expected, *found;          /* output, then LSE, as read from the device */
    /* Two results agree within slack + 2 * rounding * |o|, their LSE within slack + ... of theirs
     */
    double slack, rounding, lse_slack;
};

/* On failure too, mha_tune_buffers_release. */
gpu_mha_status mha_tune_buffers_make(gpu_mha_context *context, cl_command_queue queue,
                                     const struct mha_problem *problem,
                                     struct mha_tune_buffers *made);
void mha_tune_buffers_release(struct mha_tune_buffers *made);

/* At least that much workspace. No run may be under way. */
gpu_mha_status mha_tune_buffers_reserve(gpu_mha_context *context, struct mha_tune_buffers *made,
                                        size_t workspace_bytes);

/* The buffers of run number `turn`. */
gpu_mha_buffers mha_tune_buffers_of(const struct mha_tune_buffers *made, uint64_t turn);

/* Clears the outputs, so that what a run leaves out is seen. */
gpu_mha_status mha_tune_buffers_clear(const struct mha_tune_buffers *made, cl_command_queue queue);

/* Reads the outputs; keeps them if they are the first, else compares. */
gpu_mha_status mha_tune_buffers_compare(struct mha_tune_buffers *made, cl_command_queue queue,
                                        int first, int *agrees);

#endif
