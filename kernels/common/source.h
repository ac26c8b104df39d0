/* Where rows of keys and values lie, past ones first. */
#ifndef MHA_SOURCE_H
#define MHA_SOURCE_H

#include "common/types.h"

struct mha_source {
    __global const void *data;
    mha_i64 at; /* the row's first element */
    mha_i32 type;
};

/* Row (b, h, j) of past (j < NP) or new keys or values. */
MHA_INLINE struct mha_source mha_source_of(mha_i64 NP, __global const void *past,
                                           struct mha_tensor_params past_tensor, mha_i32 past_type,
                                           __global const void *data,
                                           struct mha_tensor_params tensor, mha_i32 type, mha_i64 b,
                                           mha_i64 h, mha_i64 j)
{
    struct mha_source source;
    if (j < NP) {
        source.data = past;
        source.at = mha_row(past_tensor, b, h, j);
        source.type = past_type;
    } else {
        source.data = data;
        source.at = mha_row(tensor, b, h, j - NP);
        source.type = type;
    }
    return source;
}

#endif
