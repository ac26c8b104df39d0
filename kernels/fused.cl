/*
 * Fused attention with the online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867; Dao et al.
 * 2022, arXiv:2205.14135): scores never leave the work-item, so memory does not grow with NQ * NT.
 *
 * A work-item owns MQ query rows of one head and walks over the keys in blocks of KB. Per row it
 * keeps the largest score so far m, the sum l of exp(s - m), and the output o = sum exp(s - m) v.
 * When a block raises m, what was summed before is worth exp(m_old - m_new) of itself: l and o are
 * scaled once, and the block is added. At the end o / l is the output and m + ln l the LSE.
 * Each exponential is a power of two: see mha_unit.
 *
 * Key tiles outside every row's range are never visited; tiles that a mask hides from all rows are
 * skipped before their scores are computed.
 *
 * ND-range: one work-item per (b, h, tile of MQ rows, split). No local memory, no barriers.
 * With splits > 1 the keys are divided among work-items; each leaves its normalised output and LSE
 * in the workspace, and merge.cl joins them.
 *
 * -D names: as common/tile.h.
 */
#include "common/dropout.h"
#include "common/tile.h"

/* The MQ rows of a work-item, as the walk over the keys changes them. */
struct mha_rows {
    struct mha_range range[MQ];
    struct mha_row_terms terms[MQ];
    struct mha_mask_rows masks[MQ];
    float m[MQ], l[MQ];
    uint seen[MQ]; /* not 0 once a visible key was met */
};

/*
 * Plain scores are products alone: they are kept times log2 e, which costs nothing, as powers of 2
 * want them. Others are kept as they are, since a bias or sink may be the lowest float.
 */
MHA_INLINE int mha_is_plain(const struct mha_params *p)
{
    return p->softcap <= 0.0f && p->bias_type == 0 && !p->has_alibi && !p->has_sinks;
}

/* 2^(unit * x) = e^score. */
MHA_INLINE float mha_unit(const struct mha_params *p)
{
    return mha_is_plain(p) ? 1.0f : MHA_LOG2_E;
}

/* Rows [row, row + MQ) of head (b, h); those beyond NQ see nothing. */
MHA_INLINE void mha_rows_begin(const struct mha_params *p, struct mha_rows *rows,
                               __global const void *key_lengths, __global const float *slopes,
                               __global const float *sinks, mha_i64 b, mha_i64 h, mha_i64 row,
                               int with_sink)
{
    const mha_i64 length = mha_key_length(p, key_lengths, b);
    const float sink = with_sink ? sinks[p->sinks_offset + h] : -INFINITY;
    for (int r = 0; r < MQ; ++r) {
        rows->range[r] = mha_row_range(p, length, row + r);
        if (row + r >= p->NQ) {
            rows->range[r].first = 0;
            rows->range[r].last = 0;
        }
        rows->terms[r].slope = p->has_alibi ? slopes[p->slopes_offset + h] : 0.0f;
        rows->terms[r].position = row + r + mha_offset(p, length);
        rows->masks[r] = mha_mask_rows_of(p, b, h, row + r);
        rows->m[r] = sink;
        rows->l[r] = sink == -INFINITY ? 0.0f : mha_exp2(sink - sink);
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
 * Scores of one tile to w[r * KB + c], -inf where hidden; `peak` follows the largest of each row.
 * bits[r] are the keys row r sees. Returns their union; with 0 nothing was computed.
 */
MHA_INLINE MHA_WIDE uint mha_block_scores(const struct mha_params *p, struct mha_rows *rows,
                                          const float *q, __global const float *k, mha_i64 key,
                                          __global const uchar *mask, __global const void *bias,
                                          uint *bits, float *w, mha_floatv *peak)
{
    mha_floatv bias_vectors[MQ * NV];
    float *row_bias = (float *)bias_vectors;
    uint shown = 0;
    for (int r = 0; r < MQ; ++r) {
        bits[r] = mha_visible_bits(p, rows->range[r], key, rows->masks[r], mask, bias,
                                   row_bias + r * KT);
        rows->seen[r] |= bits[r];
        shown |= bits[r];
    }
    if (shown == 0) {
        return 0;
    }
    const int plain = mha_is_plain(p);
    mha_floatv s[MQ * NV];
    mha_score_tile(q, k, s);
    for (int r = 0; r < MQ; ++r) {
        for (int n = 0; n < NV; ++n) {
            mha_floatv x = s[r * NV + n];
            if (plain) {
                x *= p->scale_log2;
            } else {
                x = mha_cap_scores(p, x);
                x = mha_bias_scores(p, x, row_bias + r * KT + n * VEC, rows->terms[r],
                                    key + n * VEC);
            }
            if (bits[r] != MHA_ALL_BITS) {
                x = mha_hide_scores(x, bits[r] >> (n * VEC));
            }
            peak[r] = mha_larger_v(x, peak[r]);
            MHA_PRIVATEV(w + r * KB + n * VEC) = x;
        }
    }
    return shown;
}

/*
 * One row's scores of a block to weights relative to the row's largest score, which the block may
 * raise: then what was summed so far is scaled down.
 */
MHA_INLINE MHA_WIDE void mha_block_softmax(struct mha_rows *rows, int r, float unit,
                                           mha_floatv peak, int tiles, const uint *shown, float *w,
                                           mha_floatv *o)
{
    const float m = mha_larger(mha_max_across(peak), rows->m[r]);
    /* Visible scores that are all -inf must give exp(-inf) = 0, not exp(-inf + inf). */
    const float base = m == -INFINITY ? 0.0f : m;
    if (m > rows->m[r]) {
        const float scale = mha_exp2((rows->m[r] - base) * unit);
        rows->l[r] *= scale;
        for (int c = 0; c < DVV; ++c) {
            o[r * DVV + c] *= scale;
        }
        rows->m[r] = m;
    }
    mha_floatv sum = 0.0f;
    for (int t = 0; t < tiles; ++t) {
        if (shown[t] != 0) {
            for (int n = 0; n < NV; ++n) {
                float *to = w + r * KB + t * KT + n * VEC;
                const mha_floatv e = mha_exp2_v((MHA_PRIVATEV(to) - base) * unit);
                sum += e;
                MHA_PRIVATEV(to) = e;
            }
        }
    }
    rows->l[r] += mha_sum_across(sum);
}

/* m as a natural logarithm, plus ln l; ln 2 is in two parts, since m may be large. */
MHA_INLINE float mha_natural_lse(const struct mha_params *p, float m, float l)
{
    if (m == -INFINITY) {
        return log(l); /* of 0; or of NaN, where a visible score is NaN */
    }
    if (!mha_is_plain(p)) {
        return m + log(l);
    }
    return MHA_FMA(m, MHA_LN_2, MHA_FMA(m, MHA_LN_2_REST, log(l)));
}

/* Output and LSE of the rows; with splits, this split's part of them. */
MHA_INLINE MHA_WIDE void mha_rows_end(const struct mha_params *p, const struct mha_rows *rows,
                                      const mha_floatv *o, mha_i64 b, mha_i64 h, mha_i64 row,
                                      mha_i64 split, __global void *output, __global float *lse,
                                      __global float *workspace)
{
    const int count = p->NQ - row < MQ ? (int)(p->NQ - row) : MQ;
    for (int r = 0; r < count; ++r) {
        const mha_i64 line = (b * p->H + h) * p->NQ + row + r;
        const float row_lse = mha_natural_lse(p, rows->m[r], rows->l[r]);
        const float divisor = rows->seen[r] ? rows->l[r] : 1.0f;
        if (p->splits > 1) {
            const mha_i64 part = line * p->splits + split;
            mha_store_row(workspace, MHA_TYPE_F32, p->partial_output + part * DV, o + r * DVV,
                          divisor);
            workspace[p->partial_lse + part] = row_lse;
            continue;
        }
        mha_store_row(output, p->output_type, mha_row(p->output, b, h, row + r), o + r * DVV,
                      divisor);
        if (p->has_lse) {
            lse[p->lse_offset + line] = row_lse;
        }
    }
}

__kernel MHA_WIDE void fused(const struct mha_params p, __global const void *query,
                             __global const uchar *mask, __global const void *bias,
                             __global const void *key_lengths, __global const float *slopes,
                             __global const float *sinks, __global void *output,
                             __global float *lse, __global float *workspace)
{
    const mha_i64 item = (mha_i64)get_global_id(0);
    const mha_i64 row_tiles = (p.NQ + MQ - 1) / MQ;
    if (item >= p.B * p.H * row_tiles * p.splits) {
        return;
    }
    const mha_i64 split = item % p.splits;
    const mha_i64 row = item / p.splits % row_tiles * MQ;
    const mha_i64 h = item / p.splits / row_tiles % p.H;
    const mha_i64 b = item / p.splits / row_tiles / p.H;

    struct mha_rows rows;
    float q[DK * MQ];
    mha_floatv w_vectors[MQ * KB / VEC];
    float *w = (float *)w_vectors;
    mha_floatv o[MQ * DVV];
    uint bits[TB * MQ];
    uint shown[TB];

    mha_rows_begin(&p, &rows, key_lengths, slopes, sinks, b, h, row, p.has_sinks && split == 0);
    mha_load_queries(&p, query, b, h, row, q);
    for (int x = 0; x < MQ * DVV; ++x) {
        o[x] = 0.0f;
    }

    const struct mha_range range = mha_tile_range(&p, &rows, split);
    const mha_i64 head = (b * p.HKV + h / (p.H / p.HKV)) * p.tiles;
    for (mha_i64 tile = range.first; tile < range.last; tile += TB) {
        const int tiles = range.last - tile < TB ? (int)(range.last - tile) : TB;
        mha_floatv peak[MQ];
        uint any = 0;
        for (int r = 0; r < MQ; ++r) {
            peak[r] = -INFINITY;
        }
        for (int t = 0; t < tiles; ++t) {
            __global const float *k =
                workspace + p.packed_key + (head + tile + t) * (mha_i64)(DK * KT);
            shown[t] = mha_block_scores(&p, &rows, q, k, (tile + t) * KT, mask, bias,
                                        bits + t * MQ, w + t * KT, peak);
            any |= shown[t];
        }
        if (any == 0) {
            continue;
        }
        for (int r = 0; r < MQ; ++r) {
            mha_block_softmax(&rows, r, mha_unit(&p), peak[r], tiles, shown, w, o);
        }
        if (p.dropout_threshold != 0) {
            for (int x = 0; x < MQ * tiles; ++x) {
                const int r = x % MQ, t = x / MQ;
                if (shown[t] != 0) {
                    mha_drop_weights(&p, b * p.H + h, row + r, (tile + t) * KT, KT,
                                     w + r * KB + t * KT);
                }
            }
        }
        mha_value_block(
            w, workspace + p.packed_value + (head + tile) * (mha_i64)(KT * DVP),
            (__global const int *)(workspace + p.value_special) + head + tile, tiles, shown, bits,
            o);
    }
    mha_rows_end(&p, &rows, o, b, h, row, split, output, lse, workspace);
}
