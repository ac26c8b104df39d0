/* What gemm.cl needs to know; shared by host and device as params.h is. */
#ifndef MHA_GEMM_PARAMS_H
#define MHA_GEMM_PARAMS_H

#include "common/params.h"

/* What a work-item of gemm_product owns at most: tiles of rows, and tiles in all. */
#define MHA_GEMM_ROW_TILES 4
#define MHA_GEMM_TILES 48

struct mha_gemm_params {
    mha_i64 M, N, K;
    mha_i64 a_offset, w_offset, c_offset, bias_offset;
    mha_i64 packed_w; /* in floats, from the start of the scratch buffer */
    mha_i64 a_stride, w_stride, c_stride;
    mha_i32 row_tiles, column_tiles; /* that a work-item of gemm_product owns */
    mha_i32 has_bias;
    mha_i32 unused;
};

#endif
