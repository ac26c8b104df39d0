/* What merge_pair needs to know; shared by host and device as params.h is. */
#ifndef MHA_MERGE_PARAMS_H
#define MHA_MERGE_PARAMS_H

#include "common/params.h"

struct mha_merge_params {
    mha_i64 B, H, NQ;
    struct mha_tensor_params a, b, output;
    mha_i64 lse_a_offset, lse_b_offset, lse_offset;
    mha_i32 a_type, b_type, output_type;
    mha_i32 unused; /* keeps the size a multiple of 8 */
};

#endif
