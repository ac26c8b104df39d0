/* Rows to columns. */
#ifndef MHA_TRANSPOSE_H
#define MHA_TRANSPOSE_H

#include "common/tile.h"

/* The lanes of the lower, and of the upper, halves of x and y in turn. */
#if !defined(__clang__)
MHA_INLINE mha_floatv mha_zip_lo(mha_floatv x, mha_floatv y)
{
    mha_floatv zipped;
    zipped.even = x.lo;
    zipped.odd = y.lo;
    return zipped;
}
MHA_INLINE mha_floatv mha_zip_hi(mha_floatv x, mha_floatv y)
{
    mha_floatv zipped;
    zipped.even = x.hi;
    zipped.odd = y.hi;
    return zipped;
}
#define MHA_ZIP_LO mha_zip_lo
#define MHA_ZIP_HI mha_zip_hi
#elif VEC == 16
#define MHA_ZIP_LO(x, y)                                                                           \
    __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define MHA_ZIP_HI(x, y)                                                                           \
    __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VEC == 8
#define MHA_ZIP_LO(x, y) __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11)
#define MHA_ZIP_HI(x, y) __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define MHA_ZIP_LO(x, y) __builtin_shufflevector(x, y, 0, 4, 1, 5)
#define MHA_ZIP_HI(x, y) __builtin_shufflevector(x, y, 2, 6, 3, 7)
#endif

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
            zipped[2 * x] = MHA_ZIP_LO(v[x], v[x + VEC / 2]);
            zipped[2 * x + 1] = MHA_ZIP_HI(v[x], v[x + VEC / 2]);
        }
#pragma unroll
        for (int x = 0; x < VEC; ++x) {
            v[x] = zipped[x];
        }
    }
}

#endif
