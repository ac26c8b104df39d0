/*
 * Fused attention for GPUs: fused.cl tells the idea of the online softmax, this kernel spreads it
 * over a work-group. Keys and values are read where they lie, once for all rows of the group.
 *
 * A work-group of LR x LC lanes owns BQ = LR * MQ query rows of one key/value head, and walks over
 * the keys in tiles of TK = LC * NK. Lane (lr, lc) holds, in registers,
 *
 *   scores   of the rows lr, lr + LR, ... (MQ of them) with the keys lc * NK + 0 .. NK - 1
 *   outputs  of the same rows in the columns 4 * lc + 0 .. 3, and so again every 4 * LC (a pass)
 *
 * Both products are made of tiles in local memory, whose rows are one vector longer than they need
 * to be so that lanes of different rows meet different banks:
 *
 *   query   [BQ][DC]  elements of a chunk of the head; with QUERY_LOCAL all of it, loaded once
 *   key     [TK][DC]  key lc * NK + n stands in row n * LC + lc
 *   weight  [BQ][CK]  of CK = LC * KC keys: KC of each lane's NK
 *   value   [CK][4 * LC]  the same keys, columns of one pass; in the memory of `key`
 *
 * Tiles outside every row's range are never visited; those that a mask hides from all rows are
 * skipped. Every branch around a barrier depends on the group alone.
 *
 * ND-range: one work-group of LR * LC per (b, kv head, split, tile of BQ rows). With splits > 1
 * each leaves its normalised output and LSE in the workspace, and merge.cl joins them. Local
 * memory: mha_shape_local_bytes in host/attention/shape.c.
 *
 * -D names: LR, LC, MQ, NK, DC, KC as above; QUERY_LOCAL; SUB_GROUP (1: a sub-group has LC lanes,
 * and finds the largest score of a row); those of common/lane.h.
 */
#if !defined(LR) || !defined(LC) || !defined(DC) || !defined(KC) || !defined(QUERY_LOCAL) ||       \
    !defined(SUB_GROUP)
#error "LR, LC, DC, KC, QUERY_LOCAL and SUB_GROUP must be defined"
#endif

#include "common/lane.h"

#define LANES (LR * LC)
#define BQ (LR * MQ)
#define TK (LC * NK)
#define CK (LC * KC)
#define DKP ((DK + DC - 1) / DC * DC)
#define PASSES ((DV + 4 * LC - 1) / (4 * LC))

/* Vectors of 4 in a row of each local tile. */
#define QUERY_ROW ((QUERY_LOCAL ? DKP : DC) / 4 + 1)
#define KEY_ROW (DC / 4 + 1)
#define VALUE_ROW LC
#define WEIGHT_ROW (CK / 4 + 1)
#define SHARED_VECTORS (TK * KEY_ROW > CK * VALUE_ROW ? TK * KEY_ROW : CK * VALUE_ROW)

/* Up to this head size chains of a product are few enough for a plain sum. */
#define PLAIN_SUM_MAX 128

/* The weight of a hidden key, which no arithmetic makes: 0, and adds nothing. */
#define MHA_HIDDEN (-0.0f)

#if SUB_GROUP
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#if defined(cl_intel_required_subgroup_size)
#define MHA_SUB_GROUP_SIZE __attribute__((intel_reqd_sub_group_size(LC)))
#endif
#endif
#ifndef MHA_SUB_GROUP_SIZE
#define MHA_SUB_GROUP_SIZE
#endif

/*
 * What the group knows of its call and its rows lies in local memory too, and each step opens it
 * anew: else compilers keep all that follows from it, row by row, in registers through the loop
 * over the keys, and the tiles no longer fit. A barrier or fence keeps them from doing so.
 */
struct mha_group {
    struct mha_params params;
    struct mha_row_tile tile;
};

#define MHA_OPEN(group)                                                                            \
    const struct mha_params params_here = (group)->params;                                         \
    const struct mha_row_tile tile_here = (group)->tile;                                           \
    const struct mha_params *const p = &params_here;                                               \
    const struct mha_row_tile *const tile = &tile_here

/* A work-item's place in the group. */
struct mha_lane {
    int id, lr, lc;
};

MHA_INLINE struct mha_lane mha_lane_here(void)
{
    struct mha_lane lane;
#if SUB_GROUP
    lane.lr = (int)get_sub_group_id();
    lane.lc = (int)get_sub_group_local_id();
#else
    lane.lr = (int)get_local_id(0) / LC;
    lane.lc = (int)get_local_id(0) % LC;
#endif
    lane.id = lane.lr * LC + lane.lc;
    return lane;
}

/* Rows of the tile, `vectors` of each from element `d` on, to local memory. 0 beyond the end. */
MHA_INLINE void mha_load_query_tile(__local const struct mha_group *group,
                                    __global const void *query, int d, int vectors, int lane,
                                    __local float4 *to)
{
    MHA_OPEN(group);
    const int wide = mha_is_wide(query, p->query);
#pragma unroll 1
    for (int e = lane; e < BQ * vectors; e += LANES) {
        const int row = e / vectors, v = e % vectors;
        const struct mha_row_id id = mha_row_of(p, tile, row, BQ);
        to[row * QUERY_ROW + v] = mha_load4(
            query, p->query_type, mha_row(p->query, tile->b, id.head, id.query) + d + 4 * v,
            DK - d - 4 * v, wide);
    }
}

/* Keys from `first` on, a chunk of each from element `d` on. 0 for keys that no row sees. */
MHA_INLINE void mha_load_key_tile(__local const struct mha_group *group, __global const void *key,
                                  __global const void *past_key, mha_i64 first, int d, int lane,
                                  __local float4 *to)
{
    MHA_OPEN(group);
#pragma unroll 1
    for (int e = lane; e < TK * (DC / 4); e += LANES) {
        const int k = e / (DC / 4), v = e % (DC / 4);
        const mha_i64 j = first + k;
        float4 x = 0.0f;
        if (j >= tile->some.first && j < tile->some.last) {
            const struct mha_lane_source from = MHA_KEY_SOURCE(j);
            x = mha_load4(from.row.data, from.row.type, from.row.at + d + 4 * v, DK - d - 4 * v,
                          from.wide);
        }
        to[(k % NK * LC + k / NK) * KEY_ROW + v] = x;
    }
}

/*
 * The values of keys n .. n + KC - 1 of each lane, the columns from `column` on. Notes in *special
 * if one is NaN or infinite: 0 times that is not 0.
 */
MHA_INLINE void mha_load_value_tile(__local const struct mha_group *group,
                                    __global const void *value, __global const void *past_value,
                                    mha_i64 first, int n, int column, int lane, __local float4 *to,
                                    __local int *special)
{
    MHA_OPEN(group);
#pragma unroll 1
    for (int e = lane; e < CK * VALUE_ROW; e += LANES) {
        const int k = e / VALUE_ROW, c = column + 4 * (e % VALUE_ROW);
        const mha_i64 j = first + k / KC * NK + n + k % KC;
        float4 x = 0.0f;
        if (j >= tile->some.first && j < tile->some.last) {
            const struct mha_lane_source from = MHA_VALUE_SOURCE(j);
            x = mha_load4(from.row.data, from.row.type, from.row.at + c, DV - c, from.wide);
        }
        if (any(!isfinite(x))) {
            atomic_or(special, 1);
        }
        to[e] = x;
    }
}

/* Adds to s[r * NK + n] the products over one chunk. */
MHA_INLINE void mha_chunk_scores(__local const float4 *query, __local const float4 *key,
                                 struct mha_lane lane, float *s, float *rest)
{
#pragma unroll 1
    for (int chain = 0; chain < DC / 4; chain += CHAIN / 4) {
        float sum[MQ * NK];
#pragma unroll
        for (int x = 0; x < MQ * NK; ++x) {
            sum[x] = 0.0f;
        }
#pragma unroll 1
        for (int d = chain; d < chain + CHAIN / 4; ++d) {
            float4 k[NK];
#pragma unroll
            for (int n = 0; n < NK; ++n) {
                k[n] = key[(n * LC + lane.lc) * KEY_ROW + d];
            }
#pragma unroll
            for (int r = 0; r < MQ; ++r) {
                const float4 q = query[(r * LR + lane.lr) * QUERY_ROW + d];
#pragma unroll
                for (int n = 0; n < NK; ++n) {
                    float x = sum[r * NK + n];
                    x = MHA_FMA(q.x, k[n].x, x);
                    x = MHA_FMA(q.y, k[n].y, x);
                    x = MHA_FMA(q.z, k[n].z, x);
                    sum[r * NK + n] = MHA_FMA(q.w, k[n].w, x);
                }
            }
        }
#pragma unroll
        for (int x = 0; x < MQ * NK; ++x) {
            if (DK <= PLAIN_SUM_MAX) {
                s[x] += sum[x];
            } else {
                mha_add(&s[x], &rest[x], sum[x]);
            }
        }
    }
}

/* The products of the lane's rows with its keys, over all of DK. */
MHA_INLINE void mha_tile_products(__local const struct mha_group *group, __global const void *query,
                                  __global const void *key, __global const void *past_key,
                                  mha_i64 first, struct mha_lane lane, __local float4 *queries,
                                  __local float4 *keys, float *s)
{
    float rest[MQ * NK];
#pragma unroll
    for (int x = 0; x < MQ * NK; ++x) {
        s[x] = 0.0f;
        rest[x] = 0.0f;
    }
    for (int d = 0; d < DK; d += DC) {
        /* What these loads overwrite has been read: values, or the chunk before. */
        barrier(CLK_LOCAL_MEM_FENCE);
        mha_load_key_tile(group, key, past_key, first, d, lane.id, keys);
        if (!QUERY_LOCAL) {
            mha_load_query_tile(group, query, d, DC / 4, lane.id, queries);
        }
        /* The chunk is there, for all lanes. */
        barrier(CLK_LOCAL_MEM_FENCE);
        mha_chunk_scores(queries + (QUERY_LOCAL ? d / 4 : 0), keys, lane, s, rest);
    }
}

/* The largest score of each of the lane's rows, of what each lane of a row has found. */
MHA_INLINE void mha_group_peaks(struct mha_lane lane, __local float4 *scratch, float *peak)
{
#if SUB_GROUP
    (void)lane;
    (void)scratch;
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
        peak[r] = sub_group_reduce_max(peak[r]);
    }
#else
    __local float *to = (__local float *)scratch;
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
        to[(r * LR + lane.lr) * (4 * WEIGHT_ROW) + lane.lc] = peak[r];
    }
    /* The peaks are there; their place becomes that of weights after the barrier that follows. */
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
        float4 most = scratch[(r * LR + lane.lr) * WEIGHT_ROW];
        for (int c = 1; c < LC / 4; ++c) {
            most = mha_larger_v(scratch[(r * LR + lane.lr) * WEIGHT_ROW + c], most);
        }
        peak[r] = mha_max_across(most);
    }
#endif
}

/* A lane's weights of keys n .. n + KC - 1 to local memory. `seen` has a bit per row and key. */
MHA_INLINE void mha_store_weights(const float *s, ulong seen, int n, struct mha_lane lane,
                                  __local float4 *weights)
{
    __local float *to = (__local float *)weights;
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
#pragma unroll
        for (int k = 0; k < KC; ++k) {
            const int x = r * NK + n + k;
            to[(r * LR + lane.lr) * (4 * WEIGHT_ROW) + lane.lc * KC + k] =
                (seen >> x) & 1 ? s[x] : MHA_HIDDEN;
        }
    }
}

/* 0 for a value whose weight says that the row does not see its key. */
MHA_INLINE float4 mha_seen_value(float4 value, float weight)
{
    return as_uint(weight) == as_uint(MHA_HIDDEN) ? (float4)(0.0f) : value;
}

/*
 * group[r] = the sum over the chunk's keys of weight * value, for the lane's rows and columns of
 * one pass. With `special` a value counts only where the row sees its key; the order of the sums is
 * the same, so that what hidden values hold does not change a bit.
 */
MHA_INLINE void mha_chunk_outputs(__local const float4 *weights, __local const float4 *values,
                                  struct mha_lane lane, int special, float4 *group)
{
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
        group[r] = 0.0f;
    }
#pragma unroll 1
    for (int chain = 0; chain < CK / 4; chain += CHAIN / 4) {
        float4 sum[MQ];
#pragma unroll
        for (int r = 0; r < MQ; ++r) {
            sum[r] = 0.0f;
        }
#pragma unroll 1
        for (int k = chain; k < min(chain + CHAIN / 4, CK / 4); ++k) {
            float4 v[4];
#pragma unroll
            for (int x = 0; x < 4; ++x) {
                v[x] = values[(4 * k + x) * VALUE_ROW + lane.lc];
            }
            if (special) {
#pragma unroll
                for (int r = 0; r < MQ; ++r) {
                    const float4 w = weights[(r * LR + lane.lr) * WEIGHT_ROW + k];
                    sum[r] = MHA_FMA((float4)(w.x), mha_seen_value(v[0], w.x), sum[r]);
                    sum[r] = MHA_FMA((float4)(w.y), mha_seen_value(v[1], w.y), sum[r]);
                    sum[r] = MHA_FMA((float4)(w.z), mha_seen_value(v[2], w.z), sum[r]);
                    sum[r] = MHA_FMA((float4)(w.w), mha_seen_value(v[3], w.w), sum[r]);
                }
                continue;
            }
#pragma unroll
            for (int r = 0; r < MQ; ++r) {
                const float4 w = weights[(r * LR + lane.lr) * WEIGHT_ROW + k];
                sum[r] = MHA_FMA((float4)(w.x), v[0], sum[r]);
                sum[r] = MHA_FMA((float4)(w.y), v[1], sum[r]);
                sum[r] = MHA_FMA((float4)(w.z), v[2], sum[r]);
                sum[r] = MHA_FMA((float4)(w.w), v[3], sum[r]);
            }
        }
#pragma unroll
        for (int r = 0; r < MQ; ++r) {
            group[r] += sum[r];
        }
    }
}

/*
 * What the lanes of a row have left of their sums in local memory: their own sum, or MHA_HIDDEN if
 * they have seen no key.
 */
struct mha_row_sum {
    float l;
    int seen;
};

MHA_INLINE struct mha_row_sum mha_sum_row(__local const float *from)
{
    struct mha_row_sum sum = {0.0f, 0};
    float rest = 0.0f;
    for (int c = 0; c < LC; ++c) {
        sum.seen |= as_uint(from[c]) != as_uint(MHA_HIDDEN);
        mha_add(&sum.l, &rest, from[c]);
    }
    return sum;
}

/* Whether any row sees a key of the lane's share of a tile that masks may hide. */
MHA_INLINE int mha_lane_sees(__local const struct mha_group *group, __global const uchar *mask,
                             __global const void *bias, mha_i64 mine, struct mha_lane lane)
{
    MHA_OPEN(group);
    uint bits = 0;
    for (int r = 0; r < MQ && bits == 0; ++r) {
        float unused[NK];
        bits = mha_lane_bits(p, tile, mha_row_of(p, tile, r * LR + lane.lr, BQ), mine, mask, bias,
                             unused);
    }
    return bits != 0;
}

/* 1 if each row sees the whole tile and its scores are scaled products. */
MHA_INLINE int mha_tile_is_plain(__local const struct mha_group *group, mha_i64 first, float *scale)
{
    MHA_OPEN(group);
    *scale = p->scale_log2;
    return p->plain & !p->has_mask & (first >= tile->all.first) & (first + TK <= tile->all.last);
}

/*
 * The lane's products to scores, and the largest of each row to `peak`. Returns a bit per row and
 * key that is seen.
 */
MHA_INLINE ulong mha_tile_scores(__local const struct mha_group *group, __global const uchar *mask,
                                 __global const void *bias, __global const float *slopes,
                                 mha_i64 first, struct mha_lane lane, float *s, float *peak)
{
    const mha_i64 mine = first + lane.lc * NK;
    ulong seen = 0;
    float scale;
    if (mha_tile_is_plain(group, first, &scale)) {
#pragma unroll
        for (int r = 0; r < MQ; ++r) {
            peak[r] = -INFINITY;
#pragma unroll
            for (int n = 0; n < NK; ++n) {
                s[r * NK + n] *= scale;
                peak[r] = mha_larger(s[r * NK + n], peak[r]);
            }
        }
        return ~(ulong)0;
    }
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
        mem_fence(CLK_LOCAL_MEM_FENCE); /* see MHA_OPEN */
        MHA_OPEN(group);
        const struct mha_row_id id = mha_row_of(p, tile, r * LR + lane.lr, BQ);
        float bias_row[NK];
#pragma unroll
        for (int n = 0; n < NK; ++n) {
            bias_row[n] = 0.0f;
        }
        const uint bits = mha_lane_bits(p, tile, id, mine, mask, bias, bias_row);
        seen |= (ulong)bits << (r * NK);
        peak[r] = mha_lane_scores(p, tile, id, mine, bits, bias_row, slopes, s + r * NK);
    }
    return seen;
}

/* Scores to weights; what was summed before is scaled where a row's peak has risen. */
MHA_INLINE void mha_tile_weights(__local const struct mha_group *group, mha_i64 first,
                                 struct mha_lane lane, const float *peak,
                                 struct mha_lane_sums *sums, float4 *o, float4 *o_rest, float *s)
{
    const float unit = group->params.plain ? 1.0f : MHA_LOG2_E; /* mha_unit */
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
        const float scale = mha_lane_raise(&sums[r], unit, peak[r]);
        if (scale != 1.0f) {
#pragma unroll
            for (int c = 0; c < PASSES; ++c) {
                o[r * PASSES + c] *= scale;
                o_rest[r * PASSES + c] *= scale;
            }
        }
        mha_lane_weights(&sums[r], unit, s + r * NK);
    }
    if (group->params.dropout_threshold == 0) {
        return;
    }
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
        mem_fence(CLK_LOCAL_MEM_FENCE); /* see MHA_OPEN */
        MHA_OPEN(group);
        const struct mha_row_id id = mha_row_of(p, tile, r * LR + lane.lr, BQ);
        mha_drop_weights(p, tile->b * p->H + id.head, id.query, first + lane.lc * NK, NK,
                         s + r * NK);
    }
}

__kernel MHA_SUB_GROUP_SIZE __attribute__((reqd_work_group_size(LANES, 1, 1))) void
shared(const struct mha_params params, __global const void *query, __global const void *key,
       __global const void *value, __global const void *past_key, __global const void *past_value,
       __global const uchar *mask, __global const void *bias, __global const void *key_lengths,
       __global const float *slopes, __global const float *sinks, __global void *output,
       __global float *lse, __global float *workspace)
{
    __local struct mha_group here;
    __local float4 queries[BQ * QUERY_ROW];
    __local float4 keys[SHARED_VECTORS]; /* and values */
    __local float4 weights[BQ * WEIGHT_ROW];
    __local int special, votes[3];

    const mha_i64 row_tiles = (params.H / params.HKV * params.row_pitch + BQ - 1) / BQ;
    const mha_i64 item = (mha_i64)get_group_id(0);
    const mha_i64 index = item % row_tiles;
    const mha_i64 split = item / row_tiles % params.splits;
    const mha_i64 g = item / row_tiles / params.splits % params.HKV;
    const mha_i64 b = item / row_tiles / params.splits / params.HKV;
    const struct mha_lane lane = mha_lane_here();
    /*
     * No group is beyond the last: the host launches whole groups. (PoCL takes every branch to the
     * end of a kernel for uniform once an early return shares it.)
     *
     * Later rows see more keys where it is causal: those groups start first.
     */
    if (lane.id == 0) {
        here.params = params;
        here.tile = mha_row_tile_of(&params, b, g, params.causal ? row_tiles - 1 - index : index,
                                    BQ, key_lengths);
        special = 0;
        votes[0] = votes[1] = votes[2] = 0;
    }

    struct mha_lane_sums sums[MQ];
    float4 o[MQ * PASSES], o_rest[MQ * PASSES];
    ulong any_seen = 0; /* a bit per row and key of a tile */
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
        sums[r].m = -INFINITY;
        sums[r].l = 0.0f;
        sums[r].l_rest = 0.0f;
    }
#pragma unroll
    for (int x = 0; x < MQ * PASSES; ++x) {
        o[x] = 0.0f;
        o_rest[x] = 0.0f;
    }
    /* What lane 0 has written is read from here on. */
    barrier(CLK_LOCAL_MEM_FENCE);
    if (QUERY_LOCAL) {
        mha_load_query_tile(&here, query, 0, DKP / 4, lane.id, queries);
    }
    struct mha_range tiles;
    int masked;
    {
        MHA_OPEN(&here);
        tiles = mha_lane_tiles(p, tile, TK, split);
        masked = p->has_mask || p->bias_type != 0;
    }
    int vote = 0;
    for (mha_i64 t = tiles.first; t < tiles.last; ++t) {
        const mha_i64 first = t * TK;
        if (masked) {
            if (mha_lane_sees(&here, mask, bias, first + lane.lc * NK, lane)) {
                atomic_or(&votes[vote], 1);
            }
            /*
             * All have voted. Of three votes one is cast, one may still be read by lanes that are
             * behind, and one is free to be cleared for the tile after the next.
             */
            barrier(CLK_LOCAL_MEM_FENCE);
            const int shown = votes[vote];
            if (lane.id == 0) {
                votes[(vote + 2) % 3] = 0;
            }
            vote = (vote + 1) % 3;
            if (!shown) {
                continue;
            }
        }

        float s[MQ * NK], peak[MQ];
        mha_tile_products(&here, query, key, past_key, first, lane, queries, keys, s);
        const ulong seen = mha_tile_scores(&here, mask, bias, slopes, first, lane, s, peak);
        any_seen |= seen;
        mha_group_peaks(lane, weights, peak);
        mha_tile_weights(&here, first, lane, peak, sums, o, o_rest, s);
#pragma unroll
        for (int n = 0; n < NK; n += KC) {
#pragma unroll
            for (int c = 0; c < PASSES; ++c) {
                float4 sum[MQ];
                /* Keys, peaks, weights and values that are overwritten now have been read. */
                barrier(CLK_LOCAL_MEM_FENCE);
                if (c == 0) {
                    mha_store_weights(s, seen, n, lane, weights);
                }
                mha_load_value_tile(&here, value, past_value, first, n, c * 4 * LC, lane.id, keys,
                                    &special);
                /* Weights and values are there, for all lanes. */
                barrier(CLK_LOCAL_MEM_FENCE);
                mha_chunk_outputs(weights, keys, lane, special, sum);
#pragma unroll
                for (int r = 0; r < MQ; ++r) {
                    mha_add_v(&o[r * PASSES + c], &o_rest[r * PASSES + c], sum[r]);
                }
            }
        }
    }

    /* The last weights have been read: their place takes what each lane has of its rows' sums. */
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
        ((__local float *)weights)[(r * LR + lane.lr) * (4 * WEIGHT_ROW) + lane.lc] =
            (any_seen >> (r * NK)) & MHA_ALL_BITS ? sums[r].l - sums[r].l_rest : MHA_HIDDEN;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
        mem_fence(CLK_LOCAL_MEM_FENCE); /* see MHA_OPEN */
        MHA_OPEN(&here);
        const int row = r * LR + lane.lr;
        const struct mha_row_id id = mha_row_of(p, tile, row, BQ);
        const struct mha_row_sum sum =
            mha_sum_row((__local const float *)weights + row * (4 * WEIGHT_ROW));
        if (mha_row_exists(p, tile, row, BQ)) {
            const struct mha_sink joint =
                mha_lane_end(p, sums[r].m, sum.l, sum.seen, id.head, sinks);
#pragma unroll
            for (int c = 0; c < PASSES; ++c) {
                mha_lane_store(p, tile, id, split, 4 * (c * LC + lane.lc), joint, o[r * PASSES + c],
                               output, lse, workspace);
            }
        }
    }
}
