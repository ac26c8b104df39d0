/* Host arrays that every blocking call around an attention has: as transfers, and checked. */
#ifndef MHA_ATTENTION_ARRAYS_H
#define MHA_ATTENTION_ARRAYS_H

#include "attention/problem.h"
#include "cl/transfer.h"

/* Places in the lists below. */
enum mha_array_input {
    MHA_ARRAY_MASK,
    MHA_ARRAY_BIAS,
    MHA_ARRAY_KEY_LENGTHS,
    MHA_ARRAY_SLOPES,
    MHA_ARRAY_SINKS,
    MHA_ARRAY_INPUTS
};
enum mha_array_output { MHA_ARRAY_LSE, MHA_ARRAY_WEIGHTS, MHA_ARRAY_SCORES, MHA_ARRAY_OUTPUTS };

/* Lists what stands beside the tensors; of `given` only those fields are read. */
void mha_arrays_list(const struct mha_problem *problem, const gpu_mha_arrays *given,
                     struct mha_transfer inputs[MHA_ARRAY_INPUTS],
                     struct mha_transfer outputs[MHA_ARRAY_OUTPUTS]);

/* What the host knows, the host checks: the device could only clamp. */
gpu_mha_status mha_arrays_check_key_lengths(const struct mha_problem *problem,
                                            const void *key_lengths);

/* A mask as its planned transfer lays it out: gaps gone, an axis of stride 0 broadcast. */
gpu_mha_mask mha_arrays_device_mask(const struct mha_transfer *transfer, gpu_mha_mask_type type);

#endif
