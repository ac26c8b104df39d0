/*
 * C (M, N) = A (M, K) * W (N, K)^T, plus bias (N) if there is one, in single precision, for devices
 * whose work-items are CPU threads: the register tile of common/tile.h with the rows of A as
 * queries and those of W as keys.
 *
 *   gemm_pack     W to column tiles [tile][K][KT], zeros beyond N
 *                 ND-range: one work-item per column tile
 *   gemm_product  ND-range: one work-item per (block of columns, block of rows), rows fastest;
 *                 blocks are p.column_tiles tiles of KT columns and p.row_tiles tiles of MQ rows
 *   gemm_thin     M <= MQ: from W where it lies, since packing would read it twice
 *                 ND-range: one work-item per VEC columns
 *
 * K is worked on in parts. Rows of A are copied to private memory part by part, so that rows whose
 * distance is a power of two do not fight for the same cache lines, and one copy serves all columns
 * of the block. No local memory.
 *
 * -D names: as common/tile.h, with 1 for TB, DK and DV, which have no meaning here.
 */
#include "common/gemm_params.h"
#include "common/prefetch.h"
#include "common/transpose.h"

/* Terms that are summed in one go (see common/tile.h), and so the length of a part of K. */
#define GEMM_CHAIN 256
/* Floats from a private row to the next: a vector more, as for queries in common/tile.h. */
#define GEMM_ROW (GEMM_CHAIN + VEC)

MHA_BODY MHA_WIDE void mha_gemm_pack(const struct mha_gemm_params *p, mha_i64 tile,
                                     __global const float *w, __global float *scratch)
{
    if (tile * KT >= p->N) {
        return;
    }
    __global const float *rows = w + p->w_offset + tile * KT * p->w_stride;
    __global float *to = scratch + p->packed_w + tile * p->K * KT;
    for (int first = 0; first < KT; first += VEC) {
        const mha_i64 left = p->N - tile * KT - first;
        mha_i64 k = 0;
        for (; k + VEC <= p->K; k += VEC) {
            mha_floatv v[VEC];
#pragma unroll
            for (int c = 0; c < VEC; ++c) {
                v[c] = 0.0f;
                if (c < left) {
                    v[c] = MHA_LOADV(rows + (first + c) * p->w_stride + k);
                }
            }
            mha_transpose(v);
#pragma unroll
            for (int x = 0; x < VEC; ++x) {
                MHA_STOREV(v[x], to + (k + x) * KT + first);
            }
        }
        for (; k < p->K; ++k) {
            for (int c = 0; c < VEC; ++c) {
                to[k * KT + first + c] = c < left ? rows[(first + c) * p->w_stride + k] : 0.0f;
            }
        }
    }
}

__kernel MHA_WIDE void gemm_pack(const struct mha_gemm_params p, __global const float *w,
                                 __global float *scratch)
{
    mha_gemm_pack(&p, (mha_i64)get_global_id(0), w, scratch);
}

/* Adds sum over k in [0, count) of a[r][k] w[k][n] to total[r * NV + n]. */
MHA_INLINE MHA_WIDE void mha_gemm_tile(const float *a, __global const float *w, int count,
                                       mha_floatv *total)
{
    mha_floatv sum[MQ * NV];
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
            const mha_floatv x = (mha_floatv)(a[r * GEMM_ROW]);
#pragma unroll
            for (int n = 0; n < NV; ++n) {
                sum[r * NV + n] = MHA_FMA(x, column[n], sum[r * NV + n]);
            }
        }
        w += KT;
        ++a;
    }
#pragma unroll
    for (int x = 0; x < MQ * NV; ++x) {
        total[x] += sum[x];
    }
}

/* Elements [k, k + count) of `rows` rows of A, `stride` apart. What lies beyond M repeats the last
 * row. */
MHA_INLINE MHA_WIDE void mha_gemm_load(const struct mha_gemm_params *p, __global const float *a,
                                       mha_i64 row, int rows, mha_i64 k, int count, int stride,
                                       float *to)
{
    for (int r = 0; r < rows; ++r) {
        __global const float *from =
            a + p->a_offset + (row + r < p->M ? row + r : p->M - 1) * p->a_stride + k;
        int x = 0;
        for (; x + VEC <= count; x += VEC) {
            *(mha_floatv *)(to + r * stride + x) = MHA_LOADV(from + x);
        }
        for (; x < count; ++x) {
            to[r * stride + x] = from[x];
        }
    }
}

/* VEC columns of a row from `column` on, or as many as there are. */
MHA_INLINE MHA_WIDE void mha_gemm_store(const struct mha_gemm_params *p, __global float *c,
                                        __global const float *bias, mha_i64 row, mha_i64 column,
                                        mha_floatv values)
{
    __global float *to = c + p->c_offset + row * p->c_stride + column;
    __global const float *add = bias + p->bias_offset + column;
    if (column + VEC <= p->N) {
        MHA_STOREV(p->has_bias ? values + MHA_LOADV(add) : values, to);
        return;
    }
    for (int x = 0; column + x < p->N; ++x) {
        const float value = ((const float *)&values)[x];
        to[x] = p->has_bias ? value + add[x] : value;
    }
}

MHA_BODY MHA_WIDE void mha_gemm_product(const struct mha_gemm_params *p, mha_i64 item,
                                        __global const float *a, __global float *c,
                                        __global const float *scratch, __global const float *bias)
{
    const mha_i64 block_rows = (mha_i64)p->row_tiles * MQ;
    const mha_i64 row_blocks = (p->M + block_rows - 1) / block_rows;
    const mha_i64 row = item % row_blocks * block_rows;
    const mha_i64 first_tile = item / row_blocks * p->column_tiles;
    if (first_tile * KT >= p->N) {
        return;
    }
    const mha_i64 rows_left = (p->M - row + MQ - 1) / MQ;
    const mha_i64 columns_left = (p->N + KT - 1) / KT - first_tile;
    const int row_tiles = rows_left < p->row_tiles ? (int)rows_left : p->row_tiles;
    const int column_tiles = columns_left < p->column_tiles ? (int)columns_left : p->column_tiles;
    mha_floatv total[MHA_GEMM_TILES * MQ * NV];
    mha_floatv rows[MHA_GEMM_ROW_TILES * MQ * GEMM_ROW / VEC];
    for (int x = 0; x < row_tiles * column_tiles * MQ * NV; ++x) {
        total[x] = 0.0f;
    }
    for (mha_i64 k = 0; k < p->K; k += GEMM_CHAIN) {
        const int count = p->K - k < GEMM_CHAIN ? (int)(p->K - k) : GEMM_CHAIN;
        mha_gemm_load(p, a, row, row_tiles * MQ, k, count, GEMM_ROW, (float *)rows);
        for (int r = 0; r < row_tiles; ++r) {
            __global const float *w = scratch + p->packed_w + (first_tile * p->K + k) * KT;
            for (int t = 0; t < column_tiles; ++t) {
                mha_gemm_tile((const float *)rows + r * MQ * GEMM_ROW, w + t * p->K * KT, count,
                              total + (r * column_tiles + t) * MQ * NV);
            }
        }
    }
    for (int r = 0; r < row_tiles * MQ && row + r < p->M; ++r) {
        for (int t = 0; t < column_tiles; ++t) {
            const mha_floatv *values = total + (r / MQ * column_tiles + t) * MQ * NV + r % MQ * NV;
            for (int n = 0; n < NV && (first_tile + t) * KT + n * VEC < p->N; ++n) {
                mha_gemm_store(p, c, bias, row + r, (first_tile + t) * KT + n * VEC, values[n]);
            }
        }
    }
}

__kernel MHA_WIDE void gemm_product(const struct mha_gemm_params p, __global const float *a,
                                    __global float *c, __global const float *scratch,
                                    __global const float *bias)
{
    mha_gemm_product(&p, (mha_i64)get_global_id(0), a, c, scratch, bias);
}

/* Columns of gemm_thin that are summed at a time (THIN * MQ sums stay in registers), and the length
 * of a part of K: the rows of A stay in the nearest cache. */
#if MQ >= 6
#define THIN 2
#define THIN_PART 512
#else
#define THIN 4
#define THIN_PART 2048
#endif
/* Floats from a private row to the next. */
#define THIN_ROW (THIN_PART + VEC)

/* A row of W from which the next columns are read; the last one stands in for those beyond N. */
MHA_INLINE __global const float *mha_gemm_column(const struct mha_gemm_params *p,
                                                 __global const float *w, mha_i64 column)
{
    return w + p->w_offset + (column < p->N ? column : p->N - 1) * p->w_stride;
}

/*
 * Adds the products of all rows with THIN rows of W, lane by lane over `count` elements from k on,
 * to total[r * VEC + n]. The same elements of the rows of W behind these are fetched meanwhile.
 */
MHA_INLINE MHA_WIDE void mha_gemm_lanes(const struct mha_gemm_params *p, const float *a,
                                        __global const float *w, mha_i64 column, mha_i64 k,
                                        int count, mha_floatv *total)
{
    __global const float *weights[THIN], *ahead[THIN];
    mha_floatv sum[MQ * THIN];
#pragma unroll
    for (int n = 0; n < THIN; ++n) {
        weights[n] = mha_gemm_column(p, w, column + n) + k;
        ahead[n] = mha_gemm_column(p, w, column + THIN + n) + k;
    }
#pragma unroll
    for (int x = 0; x < MQ * THIN; ++x) {
        sum[x] = 0.0f;
    }
    for (int x = 0; x < count; x += VEC) {
        mha_floatv part[THIN];
#pragma unroll
        for (int n = 0; n < THIN; ++n) {
            part[n] = MHA_LOADV(weights[n] + x);
            MHA_PREFETCH(ahead[n] + x);
        }
#pragma unroll
        for (int r = 0; r < MQ; ++r) {
            const mha_floatv row = *(const mha_floatv *)(a + r * THIN_ROW + x);
#pragma unroll
            for (int n = 0; n < THIN; ++n) {
                sum[r * THIN + n] = MHA_FMA(row, part[n], sum[r * THIN + n]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
#pragma unroll
        for (int n = 0; n < THIN; ++n) {
            total[r * VEC + n] += sum[r * THIN + n];
        }
    }
}

MHA_BODY MHA_WIDE void mha_gemm_thin(const struct mha_gemm_params *p, mha_i64 first,
                                     __global const float *a, __global const float *w,
                                     __global float *c, __global const float *bias)
{
    if (first >= p->N) {
        return;
    }
    mha_floatv total[MQ * VEC];
    mha_floatv rows[MQ * THIN_ROW / VEC];
    for (int x = 0; x < MQ * VEC; ++x) {
        total[x] = 0.0f;
    }
    const mha_i64 whole = p->K / VEC * VEC;
    for (mha_i64 k = 0; k < whole; k += THIN_PART) {
        const int count = whole - k < THIN_PART ? (int)(whole - k) : THIN_PART;
        mha_gemm_load(p, a, 0, MQ, k, count, THIN_ROW, (float *)rows);
        for (int n = 0; n < VEC && first + n < p->N; n += THIN) {
            mha_gemm_lanes(p, (const float *)rows, w, first + n, k, count, total + n);
        }
    }
    for (int r = 0; r < MQ && r < p->M; ++r) {
        mha_floatv sum = mha_turn_sum(total + r * VEC);
        for (mha_i64 k = whole; k < p->K; ++k) {
            const float x = a[p->a_offset + r * p->a_stride + k];
            for (int n = 0; n < VEC && first + n < p->N; ++n) {
                ((float *)&sum)[n] += x * w[p->w_offset + (first + n) * p->w_stride + k];
            }
        }
        mha_gemm_store(p, c, bias, r, first, sum);
    }
}

__kernel MHA_WIDE void gemm_thin(const struct mha_gemm_params p, __global const float *a,
                                 __global const float *w, __global float *c,
                                 __global const float *bias)
{
    mha_gemm_thin(&p, (mha_i64)get_global_id(0) * VEC, a, w, c, bias);
}
