/*
 * The problem that a case of ONNX Attention (opsets 23 to 25) describes, in the library's terms.
 * The standard's text leaves some points open; where it does, its reference implementation
 * decides, because that is what cases are recorded with.
 */
#ifndef MHA_CLI_VERIFY_ATTENTION_H
#define MHA_CLI_VERIFY_ATTENTION_H

#include "verify_operator.h"

/* Positions of the inputs and outputs in the standard. */
enum { Q, K, V, ATTN_MASK, PAST_KEY, PAST_VALUE, NONPAD_KV_SEQLEN };
enum { Y, PRESENT_KEY, PRESENT_VALUE, QK_MATMUL_OUTPUT };

struct mha_attention_problem {
    gpu_mha_desc desc;     /* asks for the output alone */
    gpu_mha_arrays arrays; /* inputs only; they belong to the case or to this struct */
    gpu_mha_scores scores; /* the stage that the case records, or none */
    void *padded_mask;
};

/* Reads and checks; on failure a sentence is in record->error. To be freed either way. */
bool mha_attention_problem_read(struct mha_case *record, struct mha_attention_problem *problem);
void mha_attention_problem_free(struct mha_attention_problem *problem);

#endif
