/* Elements that pass through a kernel unchanged. */
#ifndef MHA_COPY_H
#define MHA_COPY_H

#include "common/types.h"

/* Every bit comes through where the types agree, whatever the device does to NaN and subnormals;
 * else the value is converted. */
MHA_INLINE void mha_copy(__global void *to, mha_i32 to_type, mha_i64 to_index,
                         __global const void *from, mha_i32 from_type, mha_i64 from_index)
{
    if (to_type != from_type) {
        mha_store(to, to_type, to_index, mha_load(from, from_type, from_index));
    } else if (to_type == MHA_TYPE_F32) {
        ((__global uint *)to)[to_index] = ((__global const uint *)from)[from_index];
    } else {
        ((__global ushort *)to)[to_index] = ((__global const ushort *)from)[from_index];
    }
}

#endif
