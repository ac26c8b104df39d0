/* What the kernel rotary needs to know; shared by host and device as params.h is. */
#ifndef MHA_ROTARY_PARAMS_H
#define MHA_ROTARY_PARAMS_H

#include "common/params.h"

/* A row is R/2 pairs to turn and then D - R elements to copy: one after the other, this many to
 * each work-item. */
#define MHA_ROTARY_CHUNK 8

struct mha_rotary_params {
    mha_i64 B, H, N, D;
    mha_i64 pairs;  /* R/2 */
    mha_i64 P;      /* rows of cos and sin, if there are positions */
    mha_i64 chunks; /* per row */
    struct mha_tensor_params input, output;
    mha_i64 cos_offset, sin_offset, positions_offset;
    mha_i32 input_type, output_type;
    mha_i32 cache_type; /* of cos and sin */
    mha_i32 positions_type;
    mha_i32 interleaved;
    mha_i32 unused; /* keeps the size a multiple of 8 */
};

#endif
