/* What gemm.cl needs to know; shared by host and device as params.h is. */
#ifndef MHA_GEMM_PARAMS_H
#define MHA_GEMM_PARAMS_H

#include "common/params.h"

struct mha_gemm_params {
    mha_i64 M, N, K;
    mha_i64 a_offset, w_offset, c_offset;
    mha_i64 packed_w; /* in floats, from the start of the scratch buffer */
    mha_i64 w_stride, c_stride;
};

#endif
