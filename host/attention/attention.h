/*
 * One attention made ready for a device: the kernels of its stages, the parameters that do not
 * change from call to call, and the layout of its workspace. Immutable once made, except for the
 * locks of its kernels. The plan, the blocking call and the layer all run it.
 */
#ifndef MHA_ATTENTION_ATTENTION_H
#define MHA_ATTENTION_ATTENTION_H

#include "attention/problem.h"
#include "attention/variant.h"
#include "cl/plan.h"
#include "common/params.h"

#define MHA_STAGES_MAX 6

struct mha_stage; /* stages/stages.h */

struct mha_attention {
    struct mha_problem problem;
    struct mha_variant variant;
    struct mha_params params; /* without the buffers' offsets */
    size_t workspace_bytes;
    cl_mem slopes; /* of GPU_MHA_ALIBI_AUTO; else a few bytes, bound wherever a buffer is absent */
    int stage_count;
    const struct mha_stage *stages[MHA_STAGES_MAX];
    struct mha_kernel kernels[MHA_STAGES_MAX];
    size_t items[MHA_STAGES_MAX];
};

extern const struct mha_operation mha_attention_operation;

/*
 * `wanted`: the shape to run where it fits (mha_variant_choose); NULL: the one measured for such
 * problems, if one was (mha_choice_tuned).
 */
gpu_mha_status mha_attention_create(gpu_mha_context *context, const gpu_mha_desc *desc,
                                    const struct mha_shape *wanted,
                                    struct mha_attention **attention);
void mha_attention_destroy(struct mha_attention *attention); /* NULL-safe */

/* "fused 12x16 split 4" */
void mha_attention_text(const struct mha_attention *attention, char *text, size_t size);

/* The variant that runs, as mha_shape_name has it; "" where nothing does. */
void mha_attention_name(const struct mha_attention *attention, char *name, size_t size);

/* Checks the caller's buffers; changes nothing. */
gpu_mha_status mha_attention_check(const struct mha_attention *attention,
                                   const gpu_mha_buffers *buffers, cl_context cl);

/* Puts the stages on the chain. The buffers have been checked. */
gpu_mha_status mha_attention_launch(struct mha_attention *attention, const gpu_mha_buffers *buffers,
                                    struct mha_chain *chain);

#endif
