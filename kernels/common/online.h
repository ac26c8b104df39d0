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

/* The MQ rows of a work-item, as the walk over the keys changes them. */
struct mha_rows {
    mha_i64 b, head, query;
    int per_head;
    struct mha_range range[MQ];
    struct mha_row_terms terms[MQ];
    struct mha_mask_rows masks[MQ];
    float m[MQ], l[MQ], l_rest[MQ]; /* l is a compensated sum */
    uint seen[MQ];                  /* not 0 once a visible key was met */
};

/*
 * Plain scores are products alone: they are kept times log2 e, which costs nothing, as powers of 2
 * want them. Others are kept as they are, since a bias may be the lowest float.
 * 2^(unit * x) = e^score.
 */
MHA_INLINE float mha_unit(const struct mha_params *p)
{
    return p->plain ? 1.0f : MHA_LOG2_E;
}

MHA_INLINE mha_i64 mha_row_head(const struct mha_rows *rows, int r)
{
    return rows->head + r / rows->per_head;
}

MHA_INLINE mha_i64 mha_row_query(const struct mha_rows *rows, int r)
{
    return rows->query + r % rows->per_head;
}

/* Rows beyond NQ see nothing. */
MHA_INLINE void mha_rows_begin(const struct mha_params *p, struct mha_rows *rows, mha_i64 b,
                               mha_i64 head, mha_i64 query, int per_head,
                               __global const void *key_lengths, __global const float *slopes)
{
    const mha_i64 length = mha_key_length(p, key_lengths, b);
    rows->b = b;
    rows->head = head;
    rows->query = query;
    rows->per_head = per_head;
    for (int r = 0; r < MQ; ++r) {
        const mha_i64 h = mha_row_head(rows, r), i = mha_row_query(rows, r);
        rows->range[r] = mha_row_range(p, length, i);
        if (i >= p->NQ) {
            rows->range[r].first = 0;
            rows->range[r].last = 0;
        }
        rows->terms[r].slope = p->has_alibi ? slopes[p->slopes_offset + h] : 0.0f;
        rows->terms[r].position = i + mha_offset(p, length);
        rows->masks[r] = mha_mask_rows_of(p, b, h, i);
        rows->m[r] = -INFINITY;
        rows->l[r] = 0.0f;
        rows->l_rest[r] = 0.0f;
        rows->seen[r] = 0;
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
    const mha_i64 share = (p->tiles + p->splits - 1) / p->splits;
    struct mha_range tiles;
    tiles.first = max(keys.first / KT, split * share);
    tiles.last = min((keys.last + KT - 1) / KT, (split + 1) * share);
    return tiles;
}

/*
 * The keys that each row sees of the tile at `key`: bits[r], and their union as the result. The
 * biases of visible keys go to bias_rows[r * KT + c].
 */
MHA_INLINE uint mha_tile_bits(const struct mha_params *p, struct mha_rows *rows, mha_i64 key,
                              __global const uchar *mask, __global const void *bias, uint *bits,
                              float *bias_rows)
{
    uint shown = 0;
    for (int r = 0; r < MQ; ++r) {
        bits[r] = mha_visible_bits(p, rows->range[r], key, rows->masks[r], mask, bias,
                                   bias_rows + r * KT);
        rows->seen[r] |= bits[r];
        shown |= bits[r];
    }
    return shown;
}

/*
 * Products of one tile to scores in w[r * KB + c], -inf where hidden; `peak` follows the largest of
 * each row.
 */
MHA_INLINE MHA_WIDE void mha_tile_scores(const struct mha_params *p, const struct mha_rows *rows,
                                         const mha_floatv *s, mha_i64 key, const uint *bits,
                                         const float *bias_rows, float *w, mha_floatv *peak)
{
    for (int r = 0; r < MQ; ++r) {
        for (int n = 0; n < NV; ++n) {
            mha_floatv x = s[r * NV + n];
            if (p->plain) {
                x *= p->scale_log2;
            } else {
                x = mha_cap_scores(p, x * p->scale);
                x = mha_bias_scores(p, x, bias_rows + r * KT + n * VEC, rows->terms[r],
                                    key + n * VEC);
            }
            if (bits[r] != MHA_ALL_BITS) {
                x = mha_hide_scores(x, bits[r] >> (n * VEC));
            }
            peak[r] = mha_larger_v(x, peak[r]);
            MHA_PRIVATEV(w + r * KB + n * VEC) = x;
        }
    }
}

/*
 * One row's scores of a block to weights relative to the row's largest score, which the block may
 * raise: then what was summed so far is scaled down.
 */
MHA_INLINE MHA_WIDE void mha_row_softmax(struct mha_rows *rows, int r, float unit, mha_floatv peak,
                                         int tiles, const uint *shown, float *w,
                                         struct mha_outputs *o)
{
    const float m = mha_larger(mha_max_across(peak), rows->m[r]);
    /* Visible scores that are all -inf must give exp(-inf) = 0, not exp(-inf + inf). */
    const float base = m == -INFINITY ? 0.0f : m;
    if (m > rows->m[r]) {
        const float scale = mha_exp2((rows->m[r] - base) * unit);
        rows->l[r] *= scale;
        rows->l_rest[r] *= scale;
        for (int c = r * DVV; c < (r + 1) * DVV; ++c) {
            o->total[c] *= scale;
            o->rest[c] *= scale;
        }
        rows->m[r] = m;
    }
    /* Lane by lane: tiles, then groups of 4 of them. */
    mha_floatv sum = 0.0f, group = 0.0f;
    for (int t = 0; t < tiles; ++t) {
        if (shown[t] != 0) {
            for (int n = 0; n < NV; ++n) {
                float *to = w + r * KB + t * KT + n * VEC;
                const mha_floatv e = mha_exp2_v((MHA_PRIVATEV(to) - base) * unit);
                group += e;
                MHA_PRIVATEV(to) = e;
            }
        }
        if (t % 4 == 3 || t == tiles - 1) {
            sum += group;
            group = 0.0f;
        }
    }
    mha_add(&rows->l[r], &rows->l_rest[r], mha_sum_across(sum));
}

/* The scores of a block's shown tiles to weights, dropout included. `key` is the block's first. */
MHA_INLINE MHA_WIDE void mha_block_softmax(const struct mha_params *p, struct mha_rows *rows,
                                           mha_i64 key, int tiles, const uint *shown,
                                           const mha_floatv *peak, float *w, struct mha_outputs *o)
{
    const float unit = mha_unit(p);
    for (int r = 0; r < MQ; ++r) {
        mha_row_softmax(rows, r, unit, peak[r], tiles, shown, w, o);
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
        /* m as a natural logarithm in two parts. */
        const float m = p->plain ? rows->m[r] * MHA_LN_2 : rows->m[r];
        float m_rest = 0.0f;
        if (p->plain && rows->m[r] != -INFINITY) {
            m_rest = MHA_FMA(rows->m[r], MHA_LN_2, -m) + rows->m[r] * MHA_LN_2_REST;
        }
        const int has_sink = p->has_sinks && p->splits == 1;
        const struct mha_sink joint = mha_join_sink(m, m_rest, rows->l[r], has_sink,
                                                    has_sink ? sinks[p->sinks_offset + h] : 0.0f,
                                                    p->has_lse || p->splits > 1);
        const mha_i64 line = (rows->b * p->H + h) * p->NQ + i;
        const float divisor = rows->seen[r] ? joint.divisor : 1.0f;
        if (p->splits > 1) {
            const mha_i64 part = line * p->splits + split;
            mha_store_row(workspace, MHA_TYPE_F32, p->partial_output + part * DV,
                          o->total + r * DVV, 1.0f, divisor);
            workspace[p->partial_lse + part] = joint.lse;
            continue;
        }
        mha_store_row(output, p->output_type, mha_row(p->output, rows->b, h, i), o->total + r * DVV,
                      joint.factor, divisor);
        if (p->has_lse) {
            lse[p->lse_offset + line] = joint.lse;
        }
    }
}

#endif
