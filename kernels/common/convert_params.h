/* What convert_rows needs to know; shared by host and device as params.h is. */
#ifndef MHA_CONVERT_PARAMS_H
#define MHA_CONVERT_PARAMS_H

#include "common/params.h"

/* Elements of a row that one work-item converts. */
#define MHA_CONVERT_RUN 8

struct mha_convert_params {
    mha_i64 rows, columns;
    mha_i64 from_offset, to_offset, bias_offset;
    mha_i32 from_type, to_type;
    mha_i32 bias_type; /* a type + 1; 0: none */
    mha_i32 unused;    /* keeps the size a multiple of 8 */
};

#endif
