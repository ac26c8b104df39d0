/* Rows to columns. */
#ifndef MHA_TRANSPOSE_H
#define MHA_TRANSPOSE_H

#include "common/tile.h"

/*
 * VEC vectors, in place: log2 VEC rounds, each interleaving the first half of the vectors with the
 * second.
 */
MHA_INLINE MHA_WIDE void mha_transpose(mha_floatv *v)
{
#pragma unroll
    for (int round = 1; round < VEC; round *= 2) {
        mha_floatv zipped[VEC];
#pragma unroll
        for (int x = 0; x < VEC / 2; ++x) {
            zipped[2 * x].even = v[x].lo;
            zipped[2 * x].odd = v[x + VEC / 2].lo;
            zipped[2 * x + 1].even = v[x].hi;
            zipped[2 * x + 1].odd = v[x + VEC / 2].hi;
        }
#pragma unroll
        for (int x = 0; x < VEC; ++x) {
            v[x] = zipped[x];
        }
    }
}

#endif
