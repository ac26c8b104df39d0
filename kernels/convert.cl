/*
 * Packed rows from one storage type to another, with a bias added on the way:
 *   to[m][n] = from[m][n] + bias[n]
 * in single precision, rounded once. `to` may be `from` (same buffer, offset and type).
 *
 * ND-range: one work-item per (row, run of MHA_CONVERT_RUN columns). No local memory, no -D names.
 */
#include "common/convert_params.h"
#include "common/types.h"

__kernel void convert_rows(const struct mha_convert_params p, __global const void *from,
                           __global const void *bias, __global void *to)
{
    const mha_i64 item = (mha_i64)get_global_id(0);
    const mha_i64 runs = (p.columns + MHA_CONVERT_RUN - 1) / MHA_CONVERT_RUN;
    if (item >= p.rows * runs) {
        return;
    }
    const mha_i64 row = item / runs * p.columns;
    const mha_i64 first = item % runs * MHA_CONVERT_RUN;
    const mha_i64 last = min(first + MHA_CONVERT_RUN, p.columns);
    for (mha_i64 n = first; n < last; ++n) {
        float x = mha_load(from, p.from_type, p.from_offset + row + n);
        if (p.bias_type != 0) {
            x += mha_load(bias, p.bias_type - 1, p.bias_offset + n);
        }
        mha_store(to, p.to_type, p.to_offset + row + n, x);
    }
}
