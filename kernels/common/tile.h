/*
 * The two products of attention on one register tile: scores of MQ query rows with KT keys, and the
 * weighted sum of KT values into MQ output rows. One work-item owns the MQ rows. Keys and values
 * come packed (pack.cl), so both inner loops are loads of whole vectors, broadcasts and
 * multiply-adds, for every storage type, layout and cache.
 *
 * Sums run in chains of at most CHAIN terms, and the chains are then added: the error of a long sum
 * grows with CHAIN plus the number of chains, not with its length.
 *
 * -D names:
 *   VEC  floats per vector           NV  vectors per key tile (KT = NV * VEC)
 *   MQ   query rows per work-item    TB  key tiles per block
 *   DK, DV  head sizes
 */
#ifndef MHA_TILE_H
#define MHA_TILE_H

#if !defined(NV) || !defined(MQ) || !defined(TB) || !defined(DK) || !defined(DV) || !defined(VEC)
#error "VEC, NV, MQ, TB, DK and DV must be defined"
#endif
#define KT (NV * VEC)

#include "common/math.h"
#include "common/visible.h"

#define CHAIN 64
#define KB (TB * KT)                 /* keys per block */
#define DVV ((DV + VEC - 1) / VEC)   /* vectors per value row */
#define DVP (DVV * VEC)              /* floats per packed value row */

/*
 * Compilers that tune for narrow vectors split wide ones in two, and the tile then no longer fits
 * the registers.
 */
#if defined(__has_attribute)
#if __has_attribute(min_vector_width)
#define MHA_WIDE __attribute__((min_vector_width(VEC * 32)))
#endif
#endif
#ifndef MHA_WIDE
#define MHA_WIDE
#endif

/* Rows [row, row + MQ) of the query of head (b, h), transposed: q[d * MQ + r]. 0 beyond NQ. */
MHA_INLINE void mha_load_queries(const struct mha_params *p, __global const void *query, mha_i64 b,
                                 mha_i64 h, mha_i64 row, float *q)
{
    for (int r = 0; r < MQ; ++r) {
        mha_i64 from = mha_row(p->query, b, h, row + r);
        for (int d = 0; d < DK; ++d) {
            q[d * MQ + r] = row + r < p->NQ ? mha_load(query, p->query_type, from + d) : 0.0f;
        }
    }
}

/* s[r * NV + n] = sum_d q[r][d] * k[key n][d], k is one packed key tile [DK][KT]. */
MHA_INLINE MHA_WIDE void mha_score_tile(const float *q, __global const float *k, mha_floatv *s)
{
    for (int start = 0; start < DK; start += CHAIN) {
        const int end = start + CHAIN < DK ? start + CHAIN : DK;
        mha_floatv sum[MQ * NV];
#pragma unroll
        for (int x = 0; x < MQ * NV; ++x) {
            sum[x] = 0.0f;
        }
        for (int d = start; d < end; ++d) {
            mha_floatv key[NV];
#pragma unroll
            for (int n = 0; n < NV; ++n) {
                key[n] = MHA_LOADV(k + d * KT + n * VEC);
            }
#pragma unroll
            for (int r = 0; r < MQ; ++r) {
                const mha_floatv x = (mha_floatv)(q[d * MQ + r]);
#pragma unroll
                for (int n = 0; n < NV; ++n) {
                    sum[r * NV + n] = MHA_FMA(x, key[n], sum[r * NV + n]);
                }
            }
        }
#pragma unroll
        for (int x = 0; x < MQ * NV; ++x) {
            s[x] = start == 0 ? sum[x] : s[x] + sum[x];
        }
    }
}

/* What turns the products of one row into scores. */
struct mha_row_terms {
    float slope;      /* ALiBi; 0 without */
    mha_i64 position; /* i + offset */
};

/* Step 1 and 2: scale and soft cap. */
MHA_INLINE mha_floatv mha_cap_scores(const struct mha_params *p, mha_floatv product)
{
    mha_floatv s = product * p->scale;
    if (p->softcap > 0.0f) {
        s = p->softcap * mha_tanh_v(s / p->softcap);
    }
    return s;
}

/* Step 3: bias and ALiBi, for the keys from `key` on. */
MHA_INLINE mha_floatv mha_bias_scores(const struct mha_params *p, mha_floatv s, const float *bias,
                                      struct mha_row_terms terms, mha_i64 key)
{
    if (p->bias_type != 0) {
        s += MHA_PRIVATEV_CONST(bias);
    }
    if (p->has_alibi) {
        mha_floatv distance = (float)(terms.position - key) - convert_floatv(MHA_LANES);
        s -= terms.slope * fabs(distance);
    }
    return s;
}

/* Step 4: -inf where the bit of a lane is 0. */
MHA_INLINE mha_floatv mha_hide_scores(mha_floatv s, uint bits)
{
    mha_uintv shown = ((mha_uintv)(bits) >> MHA_LANES) & 1u;
    return select((mha_floatv)(-INFINITY), s, shown != 0u);
}

/*
 * Adds sum_j w[r][j] * v[j] to o[r] over `keys` keys, for COLUMNS vectors of the row: w, v and o
 * point at the first key and the first of these vectors. Made for NV columns, and for the one that is
 * left where the row has an odd number of vectors.
 */
#define MHA_VALUE_COLUMNS(COLUMNS)                                                                 \
    MHA_INLINE MHA_WIDE void MHA_CAT(mha_value_columns_, COLUMNS)(                                 \
        const float *w, __global const float *v, int keys, mha_floatv *o)                          \
    {                                                                                              \
        mha_floatv sum[MQ * COLUMNS];                                                              \
        _Pragma("unroll") for (int x = 0; x < MQ * COLUMNS; ++x)                                   \
        {                                                                                          \
            sum[x] = 0.0f;                                                                         \
        }                                                                                          \
        for (int j = 0; j < keys; ++j) {                                                           \
            mha_floatv value[COLUMNS];                                                             \
            _Pragma("unroll") for (int n = 0; n < COLUMNS; ++n)                                    \
            {                                                                                      \
                value[n] = MHA_LOADV(v + n * VEC);                                                 \
            }                                                                                      \
            _Pragma("unroll") for (int r = 0; r < MQ; ++r)                                         \
            {                                                                                      \
                const mha_floatv x = (mha_floatv)(w[r * KB]);                                      \
                _Pragma("unroll") for (int n = 0; n < COLUMNS; ++n)                                \
                {                                                                                  \
                    sum[r * COLUMNS + n] = MHA_FMA(x, value[n], sum[r * COLUMNS + n]);             \
                }                                                                                  \
            }                                                                                      \
            v += DVP;                                                                              \
            ++w;                                                                                   \
        }                                                                                          \
        _Pragma("unroll") for (int x = 0; x < MQ * COLUMNS; ++x)                                   \
        {                                                                                          \
            o[x / COLUMNS * DVV + x % COLUMNS] += sum[x];                                          \
        }                                                                                          \
    }

#if NV == 2
MHA_VALUE_COLUMNS(2)
#endif
MHA_VALUE_COLUMNS(1)

/* All columns of a run of at most CHAIN keys. */
MHA_INLINE MHA_WIDE void mha_value_run(const float *w, __global const float *v, int keys,
                                       mha_floatv *o)
{
    int column = 0;
#if NV == 2
    for (; column + 2 <= DVV; column += 2) {
        mha_value_columns_2(w, v + column * VEC, keys, o + column);
    }
#endif
    for (; column < DVV; ++column) {
        mha_value_columns_1(w, v + column * VEC, keys, o + column);
    }
}

/*
 * The same for a run in which a value is NaN or infinite: 0 * NaN would carry it into rows that do
 * not see it, so for a row that does not see a key its value counts as 0. The order of the sums is
 * that of mha_value_run, so that what hidden values hold does not change a bit.
 */
MHA_INLINE void mha_value_run_selected(const float *w, __global const float *v, const uint *bits,
                                       int keys, mha_floatv *o)
{
    for (int r = 0; r < MQ; ++r) {
        for (int c = 0; c < DVV; ++c) {
            mha_floatv sum = 0.0f;
            for (int j = 0; j < keys; ++j) {
                const int seen = (bits[j / KT * MQ + r] >> (j % KT)) & 1u;
                const mha_floatv value =
                    seen ? MHA_LOADV(v + j * DVP + c * VEC) : (mha_floatv)(0.0f);
                sum = MHA_FMA((mha_floatv)(w[r * KB + j]), value, sum);
            }
            o[r * DVV + c] += sum;
        }
    }
}

/*
 * Adds one block's values to o, run by run of tiles that some row sees. Per tile t: shown[t] joins
 * the bits of all rows, bits[t * MQ + r] are those of row r, special[t] tells of a NaN or infinity
 * among the values.
 */
MHA_INLINE void mha_value_block(const float *w, __global const float *v,
                                __global const int *special, int tiles, const uint *shown,
                                const uint *bits, mha_floatv *o)
{
    const int longest = CHAIN > KT ? CHAIN / KT : 1;
    int t = 0;
    while (t < tiles) {
        int run = 0, any_special = 0;
        while (run < longest && t + run < tiles && shown[t + run] != 0) {
            any_special |= special[t + run];
            ++run;
        }
        if (any_special) {
            mha_value_run_selected(w + t * KT, v + t * KT * DVP, bits + t * MQ, run * KT, o);
        } else if (run > 0) {
            mha_value_run(w + t * KT, v + t * KT * DVP, run * KT, o);
        }
        t += run > 0 ? run : 1;
    }
}

/* One output row, divided; `at` is its first element. */
MHA_INLINE MHA_WIDE void mha_store_row(__global void *data, mha_i32 type, mha_i64 at,
                                       const mha_floatv *o, float divisor)
{
    for (int c = 0; c < DV / VEC; ++c) {
        const mha_floatv x = o[c] / divisor;
        if (type == MHA_TYPE_F32) {
            MHA_STOREV(x, (__global float *)data + at + c * VEC);
        } else if (type == MHA_TYPE_F16) {
            mha_vstore_half(x, 0, (__global half *)data + at + c * VEC);
        } else {
            mha_vstore(mha_bf16_from_float_v(x), 0, (__global ushort *)data + at + c * VEC);
        }
    }
    const float *rest = (const float *)o;
    for (int d = DV / VEC * VEC; d < DV; ++d) {
        mha_store(data, type, at + d, rest[d] / divisor);
    }
}

#endif
