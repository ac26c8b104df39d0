/*
 * Fused attention for GPUs that have no local memory to speak of (Mali): fused.cl tells the idea of
 * the online softmax. No local memory, no barriers; keys and values are read where they lie, and
 * work-items that run side by side find each other's keys in the cache.
 *
 * A work-item owns MQ query rows and NC columns of their output, which with what rounding took from
 * them fit the registers; where a head has more columns, its scores are computed again for each NC
 * of them. Keys are taken NK at a time.
 *
 * ND-range: one work-item per (b, kv head, split, NC columns, MQ rows). With splits > 1 each leaves
 * its normalised output and LSE in the workspace, and merge.cl joins them.
 *
 * -D names: MQ, NK, NC; KEY_TYPE, VALUE_TYPE: the storage of keys and values (MHA_TYPE_*), 3 where
 * past and new ones differ; those of common/lane.h.
 */
#if !defined(NC) || !defined(KEY_TYPE) || !defined(VALUE_TYPE)
#error "NC, KEY_TYPE and VALUE_TYPE must be defined"
#endif

#include "common/lane.h"

#define NCV (NC / 4)

/* The type that a build is for, or the source's own. */
#define MHA_BUILT_TYPE(built, type) ((built) == 3 ? (type) : (built))

/* Up to this head size chains of a product are few enough for a plain sum. */
#define PLAIN_SUM_MAX 128

/* s[r * NK + n]: the products of the rows with the keys from `first` on; 0 for keys none sees. */
MHA_INLINE void mha_row_products(const struct mha_params *p, const struct mha_row_tile *tile,
                                 __global const void *query, __global const void *key,
                                 __global const void *past_key, mha_i64 first, float *s)
{
    struct mha_lane_source from[NK];
    mha_i64 rows[MQ];
    float rest[MQ * NK];
    const int wide = mha_is_wide(query, p->query);
#pragma unroll
    for (int n = 0; n < NK; ++n) {
        /* A key that no row sees may not exist: one that does is read in its place. */
        const mha_i64 j = clamp(first + n, tile->some.first, tile->some.last - 1);
        from[n] = MHA_KEY_SOURCE(j);
    }
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
        const struct mha_row_id id = mha_row_of(p, tile, r, MQ);
        rows[r] = mha_row(p->query, tile->b, id.head, id.query);
    }
#pragma unroll
    for (int x = 0; x < MQ * NK; ++x) {
        s[x] = 0.0f;
        rest[x] = 0.0f;
    }
    for (int chain = 0; chain < DK; chain += CHAIN) {
        float sum[MQ * NK];
#pragma unroll
        for (int x = 0; x < MQ * NK; ++x) {
            sum[x] = 0.0f;
        }
        for (int d = chain; d < min(chain + CHAIN, DK); d += 4) {
            float4 q[MQ];
#pragma unroll
            for (int r = 0; r < MQ; ++r) {
                q[r] = mha_load4(query, p->query_type, rows[r] + d, DK - d, wide);
            }
#pragma unroll
            for (int n = 0; n < NK; ++n) {
                const float4 k =
                    mha_load4(from[n].row.data, MHA_BUILT_TYPE(KEY_TYPE, from[n].row.type),
                              from[n].row.at + d, DK - d, from[n].wide);
#pragma unroll
                for (int r = 0; r < MQ; ++r) {
                    float x = sum[r * NK + n];
                    x = MHA_FMA(q[r].x, k.x, x);
                    x = MHA_FMA(q[r].y, k.y, x);
                    x = MHA_FMA(q[r].z, k.z, x);
                    sum[r * NK + n] = MHA_FMA(q[r].w, k.w, x);
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

/*
 * Adds the values of NK keys, each to the rows that see it: a hidden value is not read where no row
 * sees it, and counts as 0 for a row that does not. `bits` has a bit per row and key.
 */
MHA_INLINE void mha_row_values(const struct mha_params *p, const struct mha_row_tile *tile,
                               __global const void *value, __global const void *past_value,
                               mha_i64 first, int column, ulong bits, const float *w, float4 *o,
                               float4 *rest)
{
    struct mha_lane_source from[NK];
#pragma unroll
    for (int n = 0; n < NK; ++n) {
        const mha_i64 j = clamp(first + n, tile->some.first, tile->some.last - 1);
        from[n] = MHA_VALUE_SOURCE(j);
    }
#pragma unroll
    for (int c = 0; c < NCV; ++c) {
        const int at = column + 4 * c;
        float4 sum[MQ];
#pragma unroll
        for (int r = 0; r < MQ; ++r) {
            sum[r] = 0.0f;
        }
#pragma unroll
        for (int n = 0; n < NK; ++n) {
            const float4 v =
                mha_load4(from[n].row.data, MHA_BUILT_TYPE(VALUE_TYPE, from[n].row.type),
                          from[n].row.at + at, DV - at, from[n].wide);
#pragma unroll
            for (int r = 0; r < MQ; ++r) {
                const int seen = (int)(bits >> (r * NK + n)) & 1;
                sum[r] = MHA_FMA((float4)(w[r * NK + n]), seen ? v : (float4)(0.0f), sum[r]);
            }
        }
#pragma unroll
        for (int r = 0; r < MQ; ++r) {
            mha_add_v(&o[r * NCV + c], &rest[r * NCV + c], sum[r]);
        }
    }
}

__kernel void rows(const struct mha_params params, __global const void *query,
                   __global const void *key, __global const void *value,
                   __global const void *past_key, __global const void *past_value,
                   __global const uchar *mask, __global const void *bias,
                   __global const void *key_lengths, __global const float *slopes,
                   __global const float *sinks, __global void *output, __global float *lse,
                   __global float *workspace)
{
    const struct mha_params *p = &params;
    const mha_i64 row_tiles = (p->H / p->HKV * p->row_pitch + MQ - 1) / MQ;
    const int chunks = (DV + NC - 1) / NC;
    const mha_i64 item = (mha_i64)get_global_id(0);
    const mha_i64 index = item % row_tiles;
    const mha_i64 chunk = item / row_tiles % chunks;
    const mha_i64 split = item / row_tiles / chunks % p->splits;
    const mha_i64 g = item / row_tiles / chunks / p->splits % p->HKV;
    const mha_i64 b = item / row_tiles / chunks / p->splits / p->HKV;
    if (b >= p->B) {
        return;
    }
    const struct mha_row_tile row_tile = mha_row_tile_of(p, b, g, index, MQ, key_lengths);
    const struct mha_row_tile *tile = &row_tile;
    const struct mha_range tiles = mha_lane_tiles(p, tile, NK, split);
    const int column = (int)chunk * NC;
    const int masked = p->has_mask || p->bias_type != 0;

    struct mha_lane_sums sums[MQ];
    float4 o[MQ * NCV], o_rest[MQ * NCV];
    uint any_seen = 0; /* a bit per row */
#pragma unroll
    for (int r = 0; r < MQ; ++r) {
        sums[r].m = -INFINITY;
        sums[r].l = 0.0f;
        sums[r].l_rest = 0.0f;
    }
#pragma unroll
    for (int x = 0; x < MQ * NCV; ++x) {
        o[x] = 0.0f;
        o_rest[x] = 0.0f;
    }

    for (mha_i64 t = tiles.first; t < tiles.last; ++t) {
        const mha_i64 first = t * NK;
        const int whole = !masked & (first >= tile->all.first) & (first + NK <= tile->all.last);
        float s[MQ * NK], bias_rows[MQ * NK];
        ulong bits = 0;
#pragma unroll
        for (int r = 0; r < MQ; ++r) {
            uint seen = MHA_ALL_BITS;
#pragma unroll
            for (int n = 0; n < NK; ++n) {
                bias_rows[r * NK + n] = 0.0f;
            }
            if (!whole) {
                seen = mha_lane_bits(p, tile, mha_row_of(p, tile, r, MQ), first, mask, bias,
                                     bias_rows + r * NK);
            }
            bits |= (ulong)seen << (r * NK);
            any_seen |= seen != 0 ? 1u << r : 0u;
        }
        if (bits == 0) {
            continue;
        }
        mha_row_products(p, tile, query, key, past_key, first, s);
#pragma unroll
        for (int r = 0; r < MQ; ++r) {
            const struct mha_row_id id = mha_row_of(p, tile, r, MQ);
            const float peak = mha_lane_scores(p, tile, id, first, (uint)(bits >> (r * NK)),
                                               bias_rows + r * NK, slopes, s + r * NK);
            const float scale = mha_lane_raise(&sums[r], mha_unit(p), peak);
            if (scale != 1.0f) {
#pragma unroll
                for (int c = 0; c < NCV; ++c) {
                    o[r * NCV + c] *= scale;
                    o_rest[r * NCV + c] *= scale;
                }
            }
            mha_lane_weights(&sums[r], mha_unit(p), s + r * NK);
            if (p->dropout_threshold != 0) {
                mha_drop_weights(p, tile->b * p->H + id.head, id.query, first, NK, s + r * NK);
            }
        }
        mha_row_values(p, tile, value, past_value, first, column, bits, s, o, o_rest);
    }

#pragma unroll
    for (int r = 0; r < MQ; ++r) {
        const struct mha_row_id id = mha_row_of(p, tile, r, MQ);
        if (mha_row_exists(p, tile, r, MQ)) {
            const struct mha_sink joint =
                mha_lane_end(p, sums[r].m, sums[r].l, (any_seen >> r) & 1, id.head, sinks);
#pragma unroll
            for (int c = 0; c < NCV; ++c) {
                mha_lane_store(p, tile, id, split, column + 4 * c, joint, o[r * NCV + c], output,
                               lse, workspace);
            }
        }
    }
}
