/*
 * The online softmax of the fused kernels, for the MQ rows of one work-item: what is kept per row,
 * how a block of scores changes it, and what comes out at the end. fused.cl tells the idea.
 *
 * Row r is head `head + r / per_head`, query `query + r % per_head`: per_head is MQ where all rows
 * are of one head.
 *
 * -D names: as common/tile.h.
 */
#ifndef MHA_ONLINE_H
#define MHA_ONLINE_H

#include "common/dropout.h"
#include "common/tile.h"

#define RV ((MQ + VEC - 1) / VEC) /* vectors that hold one number for each row */

/* The MQ rows of a work-item, as the walk over the keys changes them. */
struct mha_rows {
    mha_i64 b, head, query;
    int per_head;
    struct mha_range range[MQ];
    struct mha_range shared; /* the keys that geometry leaves to every row */
    struct mha_row_terms terms[MQ];
    struct mha_mask_rows masks[MQ];
    mha_floatv m[RV], l[RV], l_rest[RV]; /* a lane for each row; l is a compensated sum */
    uint seen[MQ];                       /* not 0 once a visible key was met */
};

MHA_INLINE float mha_lane(const mha_floatv *v, int r)
{
    return ((const float *)v)[r];
}

MHA_INLINE mha_i64 mha_row_head(const struct mha_rows *rows, int r)
{
    return rows->head + r / rows->per_head;
}

MHA_INLINE mha_i64 mha_row_query(const struct mha_rows *rows, int r)
{
    return rows->query + r % rows->per_head;
}

/* Rows beyond NQ repeat the last one. */
MHA_INLINE void mha_rows_begin(const struct mha_params *p, struct mha_rows *rows, mha_i64 b,
                               mha_i64 head, mha_i64 query, int per_head,
                               __global const void *key_lengths, __global const float *slopes)
{
    const mha_i64 length = mha_key_length(p, key_lengths, b);
    rows->b = b;
    rows->head = head;
    rows->query = query;
    rows->per_head = per_head;
    rows->shared.first = 0;
    rows->shared.last = p->NT;
    for (int r = 0; r < MQ; ++r) {
        const mha_i64 h = mha_row_head(rows, r), i = min(mha_row_query(rows, r), p->NQ - 1);
        rows->range[r] = mha_row_range(p, length, i);
        rows->shared.first = max(rows->shared.first, rows->range[r].first);
        rows->shared.last = min(rows->shared.last, rows->range[r].last);
        rows->terms[r].slope = p->has_alibi ? slopes[p->slopes_offset + h] : 0.0f;
        rows->terms[r].position = i + mha_offset(p, length);
        if (p->has_mask || p->bias_type != 0) {
            rows->masks[r] = mha_mask_rows_of(p, b, h, i);
        }
        rows->seen[r] = 0;
    }
    for (int v = 0; v < RV; ++v) {
        rows->m[v] = -INFINITY;
        rows->l[v] = 0.0f;
        rows->l_rest[v] = 0.0f;
    }
}

/* The key tiles that any row can see, within this split's share. */
MHA_INLINE struct mha_range mha_tile_range(const struct mha_params *p, const struct mha_rows *rows,
                                           mha_i64 split)
{
    struct mha_range keys = {p->NT, 0};
    for (int r = 0; r < MQ; ++r) {
        if (rows->range[r].last > rows->range[r].first) {
            keys.first = min(keys.first, rows->range[r].first);
            keys.last = max(keys.last, rows->range[r].last);
        }
    }
    return mha_split_tiles(p, keys, KT, split);
}

/* The keys of a tile that some row sees, and those that every row does. */
struct mha_tile_bits {
    uint any, all;
};

/*
 * The keys that each row sees of the tile at `key`: bits[r]. The biases of visible keys go to
 * bias_rows[r * KT + c].
 */
MHA_INLINE struct mha_tile_bits mha_tile_bits(const struct mha_params *p, struct mha_rows *rows,
                                              mha_i64 key, __global const uchar *mask,
                                              __global const void *bias, uint *bits,
                                              float *bias_rows)
{
    struct mha_tile_bits tile = {MHA_ALL_BITS, MHA_ALL_BITS};
    if (!p->has_mask && p->bias_type == 0 && key >= rows->shared.first &&
        key + KT <= rows->shared.last) {
        for (int r = 0; r < MQ; ++r) {
            bits[r] = MHA_ALL_BITS;
            rows->seen[r] = MHA_ALL_BITS;
        }
        return tile;
    }
    tile.any = 0;
    for (int r = 0; r < MQ; ++r) {
        bits[r] = mha_visible_bits(p, rows->range[r], key, rows->masks[r], mask, bias,
                                   bias_rows + r * KT);
        rows->seen[r] |= bits[r];
        tile.any |= bits[r];
        tile.all &= bits[r];
    }
    return tile;
}

/* Products of one tile, w[r * KB + c], to scores in place: -inf where hidden. */
MHA_INLINE MHA_WIDE void mha_tile_scores(const struct mha_params *p, const struct mha_rows *rows,
                                         mha_i64 key, const uint *bits, const float *bias_rows,
                                         float *w)
{
    for (int x = 0; x < MQ * NV; ++x) {
        const int r = x / NV, n = x % NV;
        mha_floatv s = MHA_PRIVATEV(w + r * KB + n * VEC);
        if (!p->plain) {
            s = mha_cap_scores(p, s * p->scale);
            s = mha_bias_scores(p, s,
                                p->bias_type != 0 ? MHA_PRIVATEV_CONST(bias_rows + r * KT + n * VEC)
                                                  : (mha_floatv)(0.0f),
                                rows->terms[r], key + n * VEC);
        }
        MHA_PRIVATEV(w + r * KB + n * VEC) = mha_hide_scores(s, bits[r] >> (n * VEC));
    }
}

/* A tile that no row sees, or that lies behind the last: scores of -inf. */
MHA_INLINE MHA_WIDE void mha_tile_hidden(float *w)
{
    for (int x = 0; x < MQ * NV; ++x) {
        MHA_PRIVATEV(w + x / NV * KB + x % NV * VEC) = -INFINITY;
    }
}

/* The largest of each row's vector of scores, to its lane. */
MHA_INLINE MHA_WIDE mha_floatv mha_rows_max(mha_floatv *v, int rows)
{
    if (rows > 2) {
        return mha_turn_max(v);
    }
    mha_floatv top = -INFINITY;
    for (int r = 0; r < rows; ++r) {
        ((float *)&top)[r] = mha_max_across(v[r]);
    }
    return top;
}

MHA_INLINE MHA_WIDE mha_floatv mha_rows_sum(mha_floatv *v, int rows)
{
    if (rows > 2) {
        return mha_turn_sum(v);
    }
    mha_floatv sum = 0.0f;
    for (int r = 0; r < rows; ++r) {
        ((float *)&sum)[r] = mha_sum_across(v[r]);
    }
    return sum;
}

/* Rows of vector `v` of RV. */
#define MHA_ROWS_IN(v) (MQ - (v)*VEC < VEC ? MQ - (v)*VEC : VEC)

/*
 * Plain scores are products alone, and stay products: their scale is part of the factor that makes
 * a difference of two a power of 2. Others are scaled, capped and biased before.
 * 2^(unit * (x - y)) = e^(score x - score y).
 */
MHA_INLINE float mha_row_unit(const struct mha_params *p)
{
    return p->plain ? p->scale_log2 : MHA_LOG2_E;
}

/*
 * A block's largest scores, each row's in its vector `peak`, may raise m: then what was summed so
 * far is scaled down. Leaves in `base` what exponents are relative to.
 */
MHA_INLINE MHA_WIDE void mha_raise(const struct mha_params *p, struct mha_rows *rows,
                                   mha_floatv *peak, mha_floatv *base, struct mha_outputs *o)
{
    for (int v = 0; v < RV; ++v) {
        const mha_floatv top = mha_rows_max(peak + v * VEC, MHA_ROWS_IN(v));
        const mha_floatv rise = (top - rows->m[v]) * mha_row_unit(p);
        const mha_intv raised = rise > MHA_RISE;
        const mha_floatv m = select(rows->m[v], top, raised);
        /* Visible scores that are all -inf must give exp(-inf) = 0, not exp(-inf + inf). */
        base[v] = select(m, (mha_floatv)(0.0f), m == -INFINITY);
        if (!any(raised)) {
            continue;
        }
        const mha_floatv down = select((mha_floatv)(1.0f), mha_exp2_v(-rise), raised);
        rows->m[v] = m;
        rows->l[v] *= down;
        rows->l_rest[v] *= down;
        for (int r = v * VEC; r < v * VEC + MHA_ROWS_IN(v); ++r) {
            const float scale = mha_lane(&down, r - v * VEC);
            for (int c = r * DVV; o->begun && scale != 1.0f && c < (r + 1) * DVV; ++c) {
                o->total[c] *= scale;
                o->rest[c] *= scale;
            }
        }
    }
}

/* Vectors whose weights are summed before they join the row's sum. */
#define MHA_WEIGHTS_GROUP (TB * NV % 2 == 0 ? 2 : 1)

/* The exponentials of one row's `vectors` scores relative to `base`, and their sum lane by lane. */
MHA_INLINE MHA_WIDE mha_floatv mha_row_weights(float unit, float base, int vectors, float *w)
{
    mha_floatv sum = 0.0f;
    for (int v = 0; v < vectors; v += MHA_WEIGHTS_GROUP) {
        mha_floatv group = 0.0f;
#pragma unroll
        for (int x = 0; x < MHA_WEIGHTS_GROUP; ++x) {
            const mha_floatv s = MHA_PRIVATEV(w + (v + x) * VEC);
            const mha_floatv e = mha_exp2_v((s - base) * unit);
            group += e;
            MHA_PRIVATEV(w + (v + x) * VEC) = e;
        }
        sum += group;
    }
    return sum;
}

/* The scores of a block to weights, dropout included. `key` is the block's first. */
MHA_INLINE MHA_WIDE void mha_block_softmax(const struct mha_params *p, struct mha_rows *rows,
                                           mha_i64 key, int tiles, const uint *shown, float *w,
                                           struct mha_outputs *o)
{
    mha_floatv of_row[RV * VEC], base[RV];
    const int vectors =
        (tiles * NV + MHA_WEIGHTS_GROUP - 1) / MHA_WEIGHTS_GROUP * MHA_WEIGHTS_GROUP;
    for (int r = 0; r < RV * VEC; ++r) {
        of_row[r] = -INFINITY;
        for (int v = 0; r < MQ && v < vectors; ++v) {
            of_row[r] = mha_larger_v(MHA_PRIVATEV(w + r * KB + v * VEC), of_row[r]);
        }
    }
    const float unit = mha_row_unit(p);
    mha_raise(p, rows, of_row, base, o);
    for (int r = 0; r < MQ; ++r) {
        of_row[r] = mha_row_weights(unit, mha_lane(base, r), vectors, w + r * KB);
    }
    for (int v = 0; v < RV; ++v) {
        mha_add_v(&rows->l[v], &rows->l_rest[v], mha_rows_sum(of_row + v * VEC, MHA_ROWS_IN(v)));
    }
    if (p->dropout_threshold == 0) {
        return;
    }
    for (int x = 0; x < MQ * tiles; ++x) {
        const int r = x % MQ, t = x / MQ;
        if (shown[t] != 0) {
            mha_drop_weights(p, rows->b * p->H + mha_row_head(rows, r), mha_row_query(rows, r),
                             key + t * KT, KT, w + r * KB + t * KT);
        }
    }
}

/* Output and LSE of the rows; with splits, this split's part of them, which the sink is not in. */
MHA_INLINE MHA_WIDE void mha_rows_end(const struct mha_params *p, const struct mha_rows *rows,
                                      const struct mha_outputs *o, mha_i64 split,
                                      __global const float *sinks, __global void *output,
                                      __global float *lse, __global float *workspace)
{
    for (int r = 0; r < MQ; ++r) {
        const mha_i64 h = mha_row_head(rows, r), i = mha_row_query(rows, r);
        if (i >= p->NQ) {
            continue;
        }
        /* m as a score, in two parts. */
        const float kept = mha_lane(rows->m, r);
        const float m = p->plain ? kept * p->scale : kept;
        const float rest = p->plain ? MHA_FMA(kept, p->scale, -m) : 0.0f;
        const struct mha_sink end =
            mha_end_row(p, m, rest, mha_lane(rows->l, r), rows->seen[r] != 0, h, sinks);
        const mha_i64 line = (rows->b * p->H + h) * p->NQ + i;
        if (p->splits > 1) {
            const mha_i64 part = line * p->splits + split;
            mha_store_row(workspace, MHA_TYPE_F32, p->partial_output + part * DV,
                          o->total + r * DVV, 1.0f, end.divisor);
            workspace[p->partial_lse + part] = end.lse;
            continue;
        }
        mha_store_row(output, p->output_type, mha_row(p->output, rows->b, h, i), o->total + r * DVV,
                      end.factor, end.divisor);
        if (p->has_lse) {
            lse[p->lse_offset + line] = end.lse;
        }
    }
}

#endif
