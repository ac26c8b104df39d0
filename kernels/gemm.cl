/*
 * C (M, N) = A (M, K) * W (N, K)^T in single precision, for devices whose work-items are CPU
 * threads: the register tile of common/tile.h with the rows of A as queries and those of W as keys.
 *
 *   gemm_pack     W to column tiles [tile][K][KT], zeros beyond N
 *                 ND-range: one work-item per column tile
 *   gemm_product  ND-range: one work-item per (column tile, tile of MQ rows), rows fastest, so that
 *                 neighbours read the same packed columns
 *
 * Rows of A are read where they lie, MQ at a time: each k takes one element of each, as a
 * broadcast. The last tile begins at row M - MQ, and leaves the rows that the tile before it owns
 * alone. No local memory.
 *
 * -D names: as common/tile.h, with MQ <= M, and 1 for TB, DK and DV, which have no meaning here;
 * A_STRIDE, elements from a row of A to the next.
 */
#include "common/gemm_params.h"
#include "common/transpose.h"

#if !defined(A_STRIDE)
#error "A_STRIDE must be defined"
#endif

__kernel MHA_WIDE void gemm_pack(const struct mha_gemm_params p, __global const float *w,
                                 __global float *scratch)
{
    const mha_i64 tile = (mha_i64)get_global_id(0);
    if (tile * KT >= p.N) {
        return;
    }
    __global const float *rows = w + p.w_offset + tile * KT * p.w_stride;
    __global float *to = scratch + p.packed_w + tile * p.K * KT;
    for (int first = 0; first < KT; first += VEC) {
        const mha_i64 left = p.N - tile * KT - first;
        mha_i64 k = 0;
        for (; k + VEC <= p.K; k += VEC) {
            mha_floatv v[VEC];
#pragma unroll
            for (int c = 0; c < VEC; ++c) {
                v[c] = c < left ? MHA_LOADV(rows + (first + c) * p.w_stride + k)
                                : (mha_floatv)(0.0f);
            }
            mha_transpose(v);
#pragma unroll
            for (int x = 0; x < VEC; ++x) {
                MHA_STOREV(v[x], to + (k + x) * KT + first);
            }
        }
        for (; k < p.K; ++k) {
            for (int c = 0; c < VEC; ++c) {
                to[k * KT + first + c] = c < left ? rows[(first + c) * p.w_stride + k] : 0.0f;
            }
        }
    }
}

/* sum[r * NV + n] over k in [0, count), for MQ whole rows from `a` on. */
MHA_INLINE MHA_WIDE void mha_gemm_rows(__global const float *a, __global const float *w, int count,
                                       mha_floatv *sum)
{
#pragma unroll
    for (int x = 0; x < MQ * NV; ++x) {
        sum[x] = 0.0f;
    }
    for (int k = 0; k < count; ++k) {
        mha_floatv column[NV];
#pragma unroll
        for (int n = 0; n < NV; ++n) {
            column[n] = MHA_LOADV(w + n * VEC);
        }
#pragma unroll
        for (int r = 0; r < MQ; ++r) {
            const mha_floatv x = (mha_floatv)(a[(long)r * A_STRIDE]);
#pragma unroll
            for (int n = 0; n < NV; ++n) {
                sum[r * NV + n] = MHA_FMA(x, column[n], sum[r * NV + n]);
            }
        }
        w += KT;
        ++a;
    }
}

/* Terms that are summed in one go; see common/tile.h. */
#define GEMM_CHAIN 256

__kernel MHA_WIDE void gemm_product(const struct mha_gemm_params p, __global const float *a,
                                    __global float *c, __global const float *scratch)
{
    const mha_i64 item = (mha_i64)get_global_id(0);
    const mha_i64 row_tiles = (p.M + MQ - 1) / MQ;
    const mha_i64 tile = item / row_tiles;
    if (tile * KT >= p.N) {
        return;
    }
    const mha_i64 owned = item % row_tiles * MQ;
    const mha_i64 row = owned < p.M - MQ ? owned : p.M - MQ;
    __global const float *from = a + p.a_offset + row * A_STRIDE;
    __global const float *w = scratch + p.packed_w + tile * p.K * KT;

    mha_floatv total[MQ * NV];
    for (mha_i64 k = 0; k < p.K; k += GEMM_CHAIN) {
        const int count = p.K - k < GEMM_CHAIN ? (int)(p.K - k) : GEMM_CHAIN;
        mha_floatv sum[MQ * NV];
        mha_gemm_rows(from + k, w + k * KT, count, sum);
#pragma unroll
        for (int x = 0; x < MQ * NV; ++x) {
            total[x] = k == 0 ? sum[x] : total[x] + sum[x];
        }
    }

    const float *values = (const float *)total;
    const int columns = p.N - tile * KT < KT ? (int)(p.N - tile * KT) : KT;
    for (int r = (int)(owned - row); r < MQ; ++r) {
        __global float *to = c + p.c_offset + (row + r) * p.c_stride + tile * KT;
        if (columns == KT) {
            for (int n = 0; n < NV; ++n) {
                MHA_STOREV(total[r * NV + n], to + n * VEC);
            }
        } else {
            for (int n = 0; n < columns; ++n) {
                to[n] = values[r * KT + n];
            }
        }
    }
}
