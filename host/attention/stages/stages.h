/*
 * The stages of attention, each one kernel: which file, how many work-items, which arguments. A
 * table row is all the host has to know of a kernel.
 */
#ifndef MHA_ATTENTION_STAGES_H
#define MHA_ATTENTION_STAGES_H

#include "attention/attention.h"

/* What a kernel can be given, in the order its signature has them. */
enum mha_stage_arg {
    MHA_STAGE_END,
    MHA_STAGE_PARAMS,
    MHA_STAGE_QUERY,
    MHA_STAGE_KEY,
    MHA_STAGE_VALUE,
    MHA_STAGE_PAST_KEY,
    MHA_STAGE_PAST_VALUE,
    MHA_STAGE_MASK,
    MHA_STAGE_BIAS,
    MHA_STAGE_KEY_LENGTHS,
    MHA_STAGE_SLOPES,
    MHA_STAGE_SINKS,
    MHA_STAGE_OUTPUT,
    MHA_STAGE_LSE,
    MHA_STAGE_WEIGHTS,
    MHA_STAGE_SCORES,
    MHA_STAGE_WORKSPACE
};

#define MHA_STAGE_ARGS_MAX 15

/* What a kernel is built for besides tile and head sizes. */
enum mha_stage_build {
    MHA_STAGE_PLAIN,
    MHA_STAGE_TYPED, /* the storage type of keys and values */
    MHA_STAGE_HEADS  /* room for the keys of a head */
};

struct mha_stage {
    const char *file;   /* kernels/<file> */
    const char *kernel; /* also the stage's name */
    int64_t (*items)(const struct mha_attention *attention);
    enum mha_stage_build build;
    enum mha_stage_arg args[MHA_STAGE_ARGS_MAX];
};

extern const struct mha_stage mha_stage_pack_key, mha_stage_pack_value;
extern const struct mha_stage mha_stage_fused, mha_stage_heads, mha_stage_decode;
extern const struct mha_stage mha_stage_shared, mha_stage_rows, mha_stage_merge_splits;
extern const struct mha_stage mha_stage_scores, mha_stage_softmax;
extern const struct mha_stage mha_stage_weighted_sum, mha_stage_average_heads;

/* Builds the stage's kernel and appends it to the attention. */
gpu_mha_status mha_stage_prepare(struct mha_attention *attention, gpu_mha_context *context,
                                 const struct mha_stage *stage);

/* Launches stage number `index` of the attention. */
gpu_mha_status mha_stage_launch(struct mha_attention *attention, int index,
                                const struct mha_params *params, const gpu_mha_buffers *buffers,
                                struct mha_chain *chain);

#endif
