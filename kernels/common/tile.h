/*
 * The two products of attention on one register tile: scores of MQ query rows with KT keys, and the
 * weighted sum of KT values into MQ output rows. One work-item owns the MQ rows. Keys and values
 * come packed (pack.cl), so both inner loops are loads of whole vectors, broadcasts and
 * multiply-adds, for every storage type, layout and cache.
 *
 * Rounding. n equal terms added one by one may lose n/3 units in the last place, and the bound of
 * gpu_mha.h leaves 8 for a sum over all keys, 4 for a product over all of DK. So sums run in chains
 * of CHAIN terms, up to 4 chains make a group, and what is longer than a block is a compensated sum
 * (mha_add_v): rounding does not grow with the number of keys.
 *
 * -D names:
 *   VEC  floats per vector           NV  vectors per key tile (KT = NV * VEC)
 *   MQ   query rows per work-item    TB  key tiles per block
 *   MR   rows that are summed at a time, a divisor of MQ: MR * NV chains and as many groups (below)
 *        stay in registers
 *   DK, DV  head sizes
 */
#ifndef MHA_TILE_H
#define MHA_TILE_H

#if !defined(NV) || !defined(MQ) || !defined(MR) || !defined(TB) || !defined(DK) ||                \
    !defined(DV) || !defined(VEC)
#error "VEC, NV, MQ, MR, TB, DK and DV must be defined"
#endif
#define KT (NV * VEC)

#include "common/scores.h"
#include "common/visible.h"

#define CHAIN 16
#define GROUP (4 * CHAIN)
#define KB (TB * KT)               /* keys per block */
#define DVV ((DV + VEC - 1) / VEC) /* vectors per value row */
#define DVP (DVV * VEC)            /* floats per packed value row */

/* Where packed keys and values lie; a kernel that packs for itself alone keeps them private. */
#ifndef MHA_PACKED
#define MHA_PACKED __global
#endif
#if defined(__clang__)
#define MHA_LOAD_PACKED(pointer) (*(MHA_PACKED const mha_floatv_unaligned *)(pointer))
#else
#define MHA_LOAD_PACKED(pointer) mha_vload(0, pointer)
#endif

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

/*
 * A vector of halves at any address. PoCL's vload_half8 and 16 may be compiled to loads that trap
 * where the address is no multiple of 16.
 */
#if defined(__clang__)
typedef MHA_CAT(ushort, VEC) mha_ushortv;
typedef mha_ushortv mha_ushortv_unaligned __attribute__((aligned(2)));
MHA_INLINE MHA_WIDE mha_floatv mha_load_halfv(__global const half *from)
{
    const mha_ushortv bits = *(__global const mha_ushortv_unaligned *)from;
    return MHA_CAT(vloada_half, VEC)(0, (const half *)&bits);
}
#else
#define mha_load_halfv(from) MHA_CAT(vload_half, VEC)(0, from)
#endif

/*
 * `count` elements from element `at` on as a vector, 0 behind them. A constant count at every call:
 * a row's end is read element by element, since nothing may lie behind it.
 */
MHA_INLINE MHA_WIDE mha_floatv mha_load_vector(__global const void *data, mha_i32 type, mha_i64 at,
                                               int count)
{
    if (count < VEC) {
        mha_floatv part = 0.0f;
        for (int x = 0; x < count; ++x) {
            ((float *)&part)[x] = mha_load(data, type, at + x);
        }
        return part;
    }
    if (type == MHA_TYPE_F32) {
        return MHA_LOADV((__global const float *)data + at);
    }
    if (type == MHA_TYPE_F16) {
        return mha_load_halfv((__global const half *)data + at);
    }
    return mha_as_floatv(mha_convert_uintv(mha_vload(0, (__global const ushort *)data + at)) << 16);
}

#define DKV ((DK + VEC - 1) / VEC) /* vectors per query row */
/* Floats from a query row to the next: a vector more, so that rows do not meet in the same cache
 * lines. */
#define DKP (DKV * VEC + VEC)

/* One query row, 0 behind DK. */
MHA_INLINE MHA_WIDE void mha_load_query(__global const void *query, mha_i32 type, mha_i64 at,
                                        mha_floatv *q)
{
    for (int v = 0; v < DK / VEC; ++v) {
        q[v] = mha_load_vector(query, type, at + v * VEC, VEC);
    }
    if (DK % VEC != 0) {
        q[DKV - 1] = mha_load_vector(query, type, at + DK / VEC * VEC, DK % VEC);
    }
}

/* Rows [row, row + MQ) of the query of head (b, h), DKP floats each. Beyond NQ the last again. */
MHA_INLINE MHA_WIDE void mha_load_queries(const struct mha_params *p, __global const void *query,
                                          mha_i64 b, mha_i64 h, mha_i64 row, mha_floatv *q)
{
    for (int r = 0; r < MQ; ++r) {
        mha_load_query(query, p->query_type, mha_row(p->query, b, h, min(row + r, p->NQ - 1)),
                       q + r * (DKP / VEC));
    }
}

/*
 * sum[r * NV + n] = sum_d q[r][d] * k[key n][d] for MR rows over `count` elements d, at most a
 * chain, of a packed tile [DK][KT]: q and k point at the first.
 */
MHA_INLINE MHA_WIDE void mha_score_chain(const float *q, MHA_PACKED const float *k, int count,
                                         mha_floatv *sum)
{
#pragma unroll
    for (int x = 0; x < MR * NV; ++x) {
        sum[x] = 0.0f;
    }
#pragma unroll 4
    for (int d = 0; d < count; ++d) {
        mha_floatv key[NV];
#pragma unroll
        for (int n = 0; n < NV; ++n) {
            key[n] = MHA_LOAD_PACKED(k + d * KT + n * VEC);
        }
#pragma unroll
        for (int r = 0; r < MR; ++r) {
            const mha_floatv x = (mha_floatv)(q[r * DKP + d]);
#pragma unroll
            for (int n = 0; n < NV; ++n) {
                sum[r * NV + n] = MHA_FMA(x, key[n], sum[r * NV + n]);
            }
        }
    }
}

/* The same over [start, end), at most a group: chain by chain. */
MHA_INLINE MHA_WIDE void mha_score_group(const float *q, MHA_PACKED const float *k, int start,
                                         int end, mha_floatv *group)
{
    mha_floatv sum[MR * NV];
    int d = start;
#pragma unroll
    for (int x = 0; x < MR * NV; ++x) {
        group[x] = 0.0f;
    }
#pragma unroll 1
    for (; d + CHAIN <= end; d += CHAIN) {
        mha_score_chain(q + d, k + d * KT, CHAIN, sum);
#pragma unroll
        for (int x = 0; x < MR * NV; ++x) {
            group[x] += sum[x];
        }
    }
    if (d < end) {
        mha_score_chain(q + d, k + d * KT, end - d, sum);
#pragma unroll
        for (int x = 0; x < MR * NV; ++x) {
            group[x] += sum[x];
        }
    }
}

/* Adds a group's sums to those of the groups before it. */
MHA_INLINE MHA_WIDE void mha_join_group(const mha_floatv *group, mha_floatv *total,
                                        mha_floatv *rest)
{
#pragma unroll
    for (int x = 0; x < MR * NV; ++x) {
        if (DK > 4 * GROUP) {
            mha_add_v(&total[x], &rest[x], group[x]);
        } else {
            total[x] += group[x];
        }
    }
}

/* The products of all MQ rows with one key tile, over all of DK: row r to s + r * pitch. */
MHA_INLINE MHA_WIDE void mha_score_tile(const float *q, MHA_PACKED const float *k, float *s,
                                        int pitch)
{
    for (int row = 0; row < MQ; row += MR) {
        mha_floatv total[MR * NV];
        mha_score_group(q + row * DKP, k, 0, DK < GROUP ? DK : GROUP, total);
#if DK > GROUP
        mha_floatv group[MR * NV], rest[MR * NV];
#pragma unroll
        for (int x = 0; x < MR * NV; ++x) {
            rest[x] = 0.0f;
        }
        for (int start = GROUP; start + GROUP <= DK; start += GROUP) {
            mha_score_group(q + row * DKP, k, start, start + GROUP, group);
            mha_join_group(group, total, rest);
        }
        /* By itself, so that every loop's count is known to the compiler. */
        if (DK % GROUP != 0) {
            mha_score_group(q + row * DKP, k, DK / GROUP * GROUP, DK, group);
            mha_join_group(group, total, rest);
        }
#endif
#pragma unroll
        for (int x = 0; x < MR * NV; ++x) {
            MHA_PRIVATEV(s + (row + x / NV) * pitch + x % NV * VEC) = total[x];
        }
    }
}

/* An output row's sums, undivided, and what rounding took from them. */
struct mha_outputs {
    mha_floatv total[MQ * DVV], rest[MQ * DVV];
    int begun; /* 0: they hold nothing yet, not even 0 */
};

/* Keys of a chain, and of a step of it. */
#define MHA_KEYS_CHAIN (KT < CHAIN ? KT : CHAIN)
#define MHA_KEYS_STEP 4

/* Tiles that some row sees, at most a group of keys; of the last one the steps that a row sees. */

struct mha_run {
    int first, keys;
    int special; /* a value is NaN or infinite */
};

/*
 * For COLUMNS vectors of the output rows:
 * mha_value_chain_ sum[r * COLUMNS + n] = sum_j w[r][j] * v[j] for MR rows over the first `count`
 *                  keys of a chain,
 * mha_value_group_ adds the same over the keys of a run, chain by chain, to block.
 * w and v point at the first key and the first of these vectors.
 */
#define MHA_VALUE_GROUP(COLUMNS)                                                                   \
    MHA_INLINE MHA_WIDE void MHA_CAT(mha_value_chain_, COLUMNS)(                                   \
        const float *w, MHA_PACKED const float *v, int count, mha_floatv *sum)                     \
    {                                                                                              \
        _Pragma("unroll") for (int x = 0; x < MR * COLUMNS; ++x)                                   \
        {                                                                                          \
            sum[x] = 0.0f;                                                                         \
        }                                                                                          \
        _Pragma("unroll 1") for (int first = 0; first < count; first += MHA_KEYS_STEP)             \
        {                                                                                          \
            _Pragma("unroll") for (int j = first; j < first + MHA_KEYS_STEP; ++j)                  \
            {                                                                                      \
                mha_floatv value[COLUMNS];                                                         \
                _Pragma("unroll") for (int n = 0; n < COLUMNS; ++n)                                \
                {                                                                                  \
                    value[n] = MHA_LOAD_PACKED(v + j * DVP + n * VEC);                             \
                }                                                                                  \
                _Pragma("unroll") for (int r = 0; r < MR; ++r)                                     \
                {                                                                                  \
                    const mha_floatv x = (mha_floatv)(w[r * KB + j]);                              \
                    _Pragma("unroll") for (int n = 0; n < COLUMNS; ++n)                            \
                    {                                                                              \
                        sum[r * COLUMNS + n] = MHA_FMA(x, value[n], sum[r * COLUMNS + n]);         \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    MHA_INLINE MHA_WIDE void MHA_CAT(mha_value_group_, COLUMNS)(                                   \
        const float *w, MHA_PACKED const float *v, int keys, mha_floatv *block)                    \
    {                                                                                              \
        mha_floatv group[MR * COLUMNS], sum[MR * COLUMNS];                                         \
        _Pragma("unroll") for (int x = 0; x < MR * COLUMNS; ++x)                                   \
        {                                                                                          \
            group[x] = 0.0f;                                                                       \
        }                                                                                          \
        _Pragma("unroll 1") for (int j = 0; j < keys; j += MHA_KEYS_CHAIN)                         \
        {                                                                                          \
            MHA_CAT(mha_value_chain_, COLUMNS)                                                     \
            (w + j, v + j * DVP, keys - j < MHA_KEYS_CHAIN ? keys - j : MHA_KEYS_CHAIN, sum);      \
            _Pragma("unroll") for (int x = 0; x < MR * COLUMNS; ++x)                               \
            {                                                                                      \
                group[x] += sum[x];                                                                \
            }                                                                                      \
        }                                                                                          \
        _Pragma("unroll") for (int x = 0; x < MR * COLUMNS; ++x)                                   \
        {                                                                                          \
            block[x] += group[x];                                                                  \
        }                                                                                          \
    }

/*
 * The same where a value is NaN or infinite: 0 * NaN would carry it into rows that do not see it,
 * so for a row that does not see a key its value counts as 0. The order of the sums is the same, so
 * that what hidden values hold does not change a bit. `bits` are those of the first row in the
 * run's first tile.
 */
MHA_INLINE void mha_value_group_selected(const float *w, MHA_PACKED const float *v,
                                         const uint *bits, int keys, int columns, mha_floatv *block)
{
    for (int x = 0; x < MR * columns; ++x) {
        const int r = x / columns, n = x % columns;
        mha_floatv group = 0.0f;
        for (int chain = 0; chain < keys; chain += MHA_KEYS_CHAIN) {
            mha_floatv sum = 0.0f;
            for (int j = chain; j < min(chain + MHA_KEYS_CHAIN, keys); ++j) {
                const int seen = (bits[j / KT * MQ + r] >> (j % KT)) & 1u;
                const mha_floatv value =
                    seen ? MHA_LOAD_PACKED(v + j * DVP + n * VEC) : (mha_floatv)(0.0f);
                sum = MHA_FMA((mha_floatv)(w[r * KB + j]), value, sum);
            }
            group += sum;
        }
        block[x] += group;
    }
}

/* Adds a block's values to COLUMNS columns of the outputs: a group for each run, then their sum. */
#define MHA_VALUE_COLUMNS(COLUMNS)                                                                 \
    MHA_VALUE_GROUP(COLUMNS)                                                                       \
    MHA_INLINE MHA_WIDE void MHA_CAT(mha_value_columns_, COLUMNS)(                                 \
        const float *w, MHA_PACKED const float *v, const uint *bits, const struct mha_run *runs,   \
        int run_count, int column, struct mha_outputs *o)                                          \
    {                                                                                              \
        for (int row = 0; row < MQ; row += MR) {                                                   \
            mha_floatv block[MR * COLUMNS];                                                        \
            for (int x = 0; x < MR * COLUMNS; ++x) {                                               \
                block[x] = 0.0f;                                                                   \
            }                                                                                      \
            for (int run = 0; run < run_count; ++run) {                                            \
                const int first = runs[run].first;                                                 \
                const float *weights = w + row * KB + first;                                       \
                MHA_PACKED const float *from = v + first * DVP + column * VEC;                     \
                if (runs[run].special) {                                                           \
                    mha_value_group_selected(weights, from, bits + first / KT * MQ + row,          \
                                             runs[run].keys, COLUMNS, block);                      \
                } else {                                                                           \
                    MHA_CAT(mha_value_group_, COLUMNS)(weights, from, runs[run].keys, block);      \
                }                                                                                  \
            }                                                                                      \
            for (int x = 0; x < MR * COLUMNS; ++x) {                                               \
                const int at = (row + x / COLUMNS) * DVV + column + x % COLUMNS;                   \
                if (o->begun) {                                                                    \
                    mha_add_v(&o->total[at], &o->rest[at], block[x]);                              \
                } else {                                                                           \
                    o->total[at] = block[x];                                                       \
                    o->rest[at] = 0.0f;                                                            \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* For NV columns, and for the one that is left where the row has an odd number of vectors. */
#if NV == 2
MHA_VALUE_COLUMNS(2)
#endif
MHA_VALUE_COLUMNS(1)

/*
 * Adds one block's values to o. Per tile t: shown[t] joins the bits of all rows, bits[t * MQ + r]
 * are those of row r, special[t] tells of a NaN or infinity among the values.
 */
MHA_INLINE MHA_WIDE void mha_value_block(const float *w, MHA_PACKED const float *v,
                                         MHA_PACKED const int *special, int tiles,
                                         const uint *shown, const uint *bits, struct mha_outputs *o)
{
    const int longest = GROUP > KT ? GROUP / KT : 1;
    struct mha_run runs[TB];
    int run_count = 0;
    for (int t = 0; t < tiles;) {
        struct mha_run run = {t * KT, 0, 0};
        for (; run.keys < longest * KT && t < tiles && shown[t] != 0; ++t) {
            run.special |= special[t];
            run.keys += KT;
        }
        if (run.keys > 0) {
            const int hidden = (int)clz(shown[t - 1]) - (32 - KT);
            run.keys -= hidden / MHA_KEYS_STEP * MHA_KEYS_STEP;
            runs[run_count++] = run;
        } else {
            ++t;
        }
    }
    if (run_count == 0) {
        return;
    }
    int column = 0;
#if NV == 2
    for (; column + 2 <= DVV; column += 2) {
        mha_value_columns_2(w, v, bits, runs, run_count, column, o);
    }
#endif
    for (; column < DVV; ++column) {
        mha_value_columns_1(w, v, bits, runs, run_count, column, o);
    }
    o->begun = 1;
}

/* Outputs that hold 0, where they hold nothing. */
MHA_INLINE void mha_outputs_begin(struct mha_outputs *o)
{
    o->begun = 1;
    for (int x = 0; x < MQ * DVV; ++x) {
        o->total[x] = 0.0f;
        o->rest[x] = 0.0f;
    }
}

/* One output row, times `factor` and divided; `at` is its first element. */
MHA_INLINE MHA_WIDE void mha_store_row(__global void *data, mha_i32 type, mha_i64 at,
                                       const mha_floatv *o, float factor, float divisor)
{
    for (int c = 0; c < DV / VEC; ++c) {
        const mha_floatv x = o[c] * factor / divisor;
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
        mha_store(data, type, at + d, rest[d] * factor / divisor);
    }
}

#endif
