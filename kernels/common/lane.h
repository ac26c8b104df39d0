/*
 * What the kernels for GPUs share: tiles of query rows that reach across the heads of a group, the
 * scores of one row with NK keys that follow each other, and wide loads straight from where
 * queries, keys and values lie. A work-item is one lane: everything here is held in registers, so
 * every index into an array is a constant once loops are unrolled.
 *
 * Rows are numbered through the query heads of a key/value head: row f is head f / row_pitch of the
 * group, query f % row_pitch. row_pitch is NQ where a tile has more rows than that, so that the
 * heads of a group share what is read of K and V; else NQ rounded up to whole tiles, so that a
 * tile belongs to one head.
 *
 * -D names:
 *   MQ, NK    query rows and keys of a lane
 *   DK, DV    head sizes
 */
#ifndef MHA_LANE_H
#define MHA_LANE_H

#if !defined(MQ) || !defined(NK) || !defined(DK) || !defined(DV)
#error "MQ, NK, DK and DV must be defined"
#endif
#define VEC 4
#define KT NK

#include "common/dropout.h"
#include "common/scores.h"
#include "common/source.h"
#include "common/visible.h"

#define CHAIN 16
#define NKV (NK / VEC)

/* A tile of rows of one key/value head. */
struct mha_row_tile {
    mha_i64 b, g;          /* batch entry, key/value head */
    mha_i64 head, query;   /* of the first row */
    mha_i64 length;        /* keys that exist */
    struct mha_range some; /* keys that geometry leaves to some row */
    struct mha_range all;  /* to all rows */
};

/* Tile `index` of `rows` rows in the group (b, g). */
MHA_INLINE struct mha_row_tile mha_row_tile_of(const struct mha_params *p, mha_i64 b, mha_i64 g,
                                               mha_i64 index, int rows,
                                               __global const void *key_lengths)
{
    struct mha_row_tile tile;
    const mha_i64 first = index * rows;
    tile.b = b;
    tile.g = g;
    tile.head = g * (p->H / p->HKV) + first / p->row_pitch;
    tile.query = first % p->row_pitch;
    tile.length = mha_key_length(p, key_lengths, b);
    const mha_i64 end = tile.query + rows;
    const int wraps = p->row_pitch < rows && end > p->NQ;
    const mha_i64 low = wraps ? 0 : tile.query;
    const mha_i64 high = end > p->NQ ? p->NQ - 1 : end - 1;
    tile.some = mha_rows_range(p, tile.length, low, high);
    tile.all = mha_rows_range(p, tile.length, high, low);
    return tile;
}

struct mha_row_id {
    mha_i64 head, query;
};

/*
 * Row `row` of the tile, which has `rows`; where there is no such row, one that there is: lanes
 * without a row do another one's work, with which nothing happens.
 */
MHA_INLINE struct mha_row_id mha_row_of(const struct mha_params *p, const struct mha_row_tile *tile,
                                        int row, int rows)
{
    struct mha_row_id id = {tile->head, tile->query + row};
    if (p->row_pitch < rows) {
        const uint at = (uint)id.query, pitch = (uint)p->row_pitch;
        id.head += at / pitch;
        id.query = at % pitch;
    }
    id.head = min(id.head, (tile->g + 1) * (p->H / p->HKV) - 1);
    id.query = min(id.query, p->NQ - 1);
    return id;
}

/* 1 if the tile has such a row. */
MHA_INLINE int mha_row_exists(const struct mha_params *p, const struct mha_row_tile *tile, int row,
                              int rows)
{
    const mha_i64 heads = (tile->g + 1) * (p->H / p->HKV) - tile->head;
    return tile->query + row < (p->row_pitch < rows ? heads * p->row_pitch : p->NQ);
}

/*
 * The key tiles of `keys` keys that some row of the tile sees, within this split's share.
 */
MHA_INLINE struct mha_range mha_lane_tiles(const struct mha_params *p,
                                           const struct mha_row_tile *tile, int keys, mha_i64 split)
{
    return mha_split_tiles(p, tile->some, keys, split);
}

/* 1 if vectors of 4 elements from the tensor's rows are aligned. A buffer over memory of the
 * caller's may itself not be. */
MHA_INLINE int mha_is_wide(__global const void *data, struct mha_tensor_params t)
{
    return ((t.offset | t.stride_b | t.stride_h | t.stride_n) & 3) == 0 && ((size_t)data & 15) == 0;
}

/* A row of keys or values, and whether its vectors of 4 are aligned. */
struct mha_lane_source {
    struct mha_source row;
    int wide;
};

MHA_INLINE struct mha_lane_source mha_lane_source_of(const struct mha_params *p,
                                                     __global const void *past,
                                                     struct mha_tensor_params past_tensor,
                                                     mha_i32 past_type, __global const void *data,
                                                     struct mha_tensor_params tensor, mha_i32 type,
                                                     mha_i64 b, mha_i64 g, mha_i64 j)
{
    /* Both, before either is chosen: a choice of structs would be a choice of addresses, which
     * keeps the parameters in memory. */
    const int past_wide = mha_is_wide(past, past_tensor), new_wide = mha_is_wide(data, tensor);
    struct mha_lane_source from;
    from.row = mha_source_of(p->NP, past, past_tensor, past_type, data, tensor, type, b, g, j);
    from.wide = j < p->NP ? past_wide : new_wide;
    return from;
}

#define MHA_KEY_SOURCE(j)                                                                          \
    mha_lane_source_of(p, past_key, p->past_key, p->past_key_type, key, p->key, p->key_type,       \
                       tile->b, tile->g, j)
#define MHA_VALUE_SOURCE(j)                                                                        \
    mha_lane_source_of(p, past_value, p->past_value, p->past_value_type, value, p->value,          \
                       p->value_type, tile->b, tile->g, j)

/*
 * Elements [at, at + 4) of which `left` exist, 0 behind them; nothing behind is read. `wide` tells
 * that they are aligned: one load.
 */
MHA_INLINE float4 mha_load4(__global const void *data, mha_i32 type, mha_i64 at, int left, int wide)
{
    if (left < 4) {
        float4 x = 0.0f;
        x.x = left > 0 ? mha_load(data, type, at) : 0.0f;
        x.y = left > 1 ? mha_load(data, type, at + 1) : 0.0f;
        x.z = left > 2 ? mha_load(data, type, at + 2) : 0.0f;
        return x;
    }
    if (type == MHA_TYPE_F32) {
        __global const float *from = (__global const float *)data + at;
        return wide ? *(__global const float4 *)from : vload4(0, from);
    }
    if (type == MHA_TYPE_F16) {
        __global const half *from = (__global const half *)data + at;
        return wide ? vloada_half4(0, from) : vload_half4(0, from);
    }
    __global const ushort *from = (__global const ushort *)data + at;
    const ushort4 bits = wide ? *(__global const ushort4 *)from : vload4(0, from);
    return as_float4(convert_uint4(bits) << 16);
}

/* Stores those of 4 elements that exist. */
MHA_INLINE void mha_store4(__global void *data, mha_i32 type, mha_i64 at, int left, int wide,
                           float4 x)
{
    if (left >= 4 && wide && type == MHA_TYPE_F32) {
        *(__global float4 *)((__global float *)data + at) = x;
        return;
    }
    if (left > 0) {
        mha_store(data, type, at, x.x);
    }
    if (left > 1) {
        mha_store(data, type, at + 1, x.y);
    }
    if (left > 2) {
        mha_store(data, type, at + 2, x.z);
    }
    if (left > 3) {
        mha_store(data, type, at + 3, x.w);
    }
}

/* The keys [key, key + NK) that a row sees; biases of visible ones go to bias_row. */
MHA_INLINE uint mha_lane_bits(const struct mha_params *p, const struct mha_row_tile *tile,
                              struct mha_row_id id, mha_i64 key, __global const uchar *mask,
                              __global const void *bias, float *bias_row)
{
    return mha_visible_bits(p, mha_row_range(p, tile->length, id.query), key,
                            mha_mask_rows_of(p, tile->b, id.head, id.query), mask, bias, bias_row);
}

/*
 * The products of one row with its NK keys to scores, in place, -inf where hidden. Returns the
 * largest of them.
 */
MHA_INLINE float mha_lane_scores(const struct mha_params *p, const struct mha_row_tile *tile,
                                 struct mha_row_id id, mha_i64 key, uint bits,
                                 const float *bias_row, __global const float *slopes, float *s)
{
    float peak = -INFINITY;
    struct mha_row_terms terms;
    terms.slope = p->has_alibi ? slopes[p->slopes_offset + id.head] : 0.0f;
    terms.position = id.query + mha_offset(p, tile->length);
#pragma unroll
    for (int v = 0; v < NKV; ++v) {
        mha_floatv x = (float4)(s[4 * v], s[4 * v + 1], s[4 * v + 2], s[4 * v + 3]);
        if (p->plain) {
            x *= p->scale_log2;
        } else {
            const mha_floatv b = (float4)(bias_row[4 * v], bias_row[4 * v + 1], bias_row[4 * v + 2],
                                          bias_row[4 * v + 3]);
            x = mha_cap_scores(p, x * p->scale);
            x = mha_bias_scores(p, x, b, terms, key + 4 * v);
        }
        x = mha_hide_scores(x, bits >> (4 * v));
        s[4 * v] = x.x;
        s[4 * v + 1] = x.y;
        s[4 * v + 2] = x.z;
        s[4 * v + 3] = x.w;
        peak = mha_larger(mha_max_across(mha_larger_v(x, (mha_floatv)(-INFINITY))), peak);
    }
    return peak;
}

/*
 * What is kept of a row: its largest score so far, or one not far below, and the sum of the weights
 * of the keys that this lane has seen, compensated.
 */
struct mha_lane_sums {
    float m, l, l_rest;
};

/*
 * Raises m to `peak`, if that is far larger (MHA_RISE). Returns what everything summed so far is to
 * be multiplied by, which has been done to l.
 */
MHA_INLINE float mha_lane_raise(struct mha_lane_sums *sums, float unit, float peak)
{
    const float rise = (peak - sums->m) * unit;
    if (!(rise > MHA_RISE)) {
        return 1.0f;
    }
    const float scale = mha_exp2(-rise);
    sums->l *= scale;
    sums->l_rest *= scale;
    sums->m = peak;
    return scale;
}

/*
 * Scores of a lane are kept times log2 e where they are plain, since powers of 2 want them so:
 * 2^(unit * x) = e^score. A bias may be the lowest float, so others stay as they are.
 */
MHA_INLINE float mha_unit(const struct mha_params *p)
{
    return p->plain ? 1.0f : MHA_LOG2_E;
}

/* mha_end_row, for m as a lane keeps it. */
MHA_INLINE struct mha_sink mha_lane_end(const struct mha_params *p, float kept_m, float l, int seen,
                                        mha_i64 head, __global const float *sinks)
{
    const float m = p->plain ? kept_m * MHA_LN_2 : kept_m;
    const float rest = p->plain ? MHA_FMA(kept_m, MHA_LN_2, -m) + kept_m * MHA_LN_2_REST : 0.0f;
    return mha_end_row(p, m, rest, l, seen, head, sinks);
}

/* Scores of one row to weights, in place. */
MHA_INLINE void mha_lane_weights(struct mha_lane_sums *sums, float unit, float *s)
{
    /* Visible scores that are all -inf must give exp(-inf) = 0, not exp(-inf + inf). */
    const float base = sums->m == -INFINITY ? 0.0f : sums->m;
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < NKV; ++v) {
        const mha_floatv x = (float4)(s[4 * v], s[4 * v + 1], s[4 * v + 2], s[4 * v + 3]);
        const mha_floatv e = mha_exp2_v((x - base) * unit);
        s[4 * v] = e.x;
        s[4 * v + 1] = e.y;
        s[4 * v + 2] = e.z;
        s[4 * v + 3] = e.w;
        sum += mha_sum_across(e);
    }
    mha_add(&sums->l, &sums->l_rest, sum);
}

/* Columns [column, column + 4) of a row that is done, or of this split's part of it. */
MHA_INLINE void mha_lane_store(const struct mha_params *p, const struct mha_row_tile *tile,
                               struct mha_row_id id, mha_i64 split, int column,
                               struct mha_sink joint, float4 o, __global void *output,
                               __global float *lse, __global float *workspace)
{
    const mha_i64 line = (tile->b * p->H + id.head) * p->NQ + id.query;
    const int left = DV - column;
    if (p->splits > 1) {
        const mha_i64 part = line * p->splits + split;
        mha_store4(workspace, MHA_TYPE_F32, p->partial_output + part * DV + column, left,
                   DV % 4 == 0 && ((size_t)workspace & 15) == 0, o / joint.divisor);
        if (column == 0) {
            workspace[p->partial_lse + part] = joint.lse;
        }
        return;
    }
    mha_store4(output, p->output_type, mha_row(p->output, tile->b, id.head, id.query) + column,
               left, mha_is_wide(output, p->output), o * joint.factor / joint.divisor);
    if (column == 0 && p->has_lse) {
        lse[p->lse_offset + line] = joint.lse;
    }
}

#endif
