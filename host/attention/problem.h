/* An attention descriptor, checked and normalised: every default filled in, every size safe. */
#ifndef MHA_ATTENTION_PROBLEM_H
#define MHA_ATTENTION_PROBLEM_H

#include "core/tensor.h"

struct mha_mask {
    const char *name;
    gpu_mha_mask_type type;
    int64_t stride[4]; /* over (B, H, NQ, NT); 0 where it broadcasts */
    int64_t span;      /* elements; 0 if there is none */
};

struct mha_problem {
    gpu_mha_desc desc; /* a full copy of this library's size; what follows replaces its options */
    int64_t NT;
    float scale;
    int64_t window_left, window_right; /* MHA_UNBOUNDED (params.h) if open */
    uint32_t dropout_threshold;
    struct mha_tensor query, key, value, past_key, past_value, output;
    struct mha_mask mask, bias;
    int empty_output; /* B, NQ is 0: nothing to write */
};

gpu_mha_status mha_problem_read(const gpu_mha_desc *desc, struct mha_problem *problem);

/* Element counts of the packed outputs. */
int64_t mha_problem_lse_count(const struct mha_problem *problem);
int64_t mha_problem_scores_count(const struct mha_problem *problem);
int64_t mha_problem_weights_count(const struct mha_problem *problem);

#endif
