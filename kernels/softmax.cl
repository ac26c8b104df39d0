/*
 * Staged attention, second stage: per row soft cap, bias, masks and softmax, in place in the
 * workspace, and on the way whatever the caller wants to see: scores after a named step, weights,
 * LSE. Two passes over the row: the largest score, then exponentials and their sum; a third
 * divides.
 *
 * ND-range: one work-item per row (b, h, i). No local memory.
 *   in, out: score rows [B*H*NQ][score_pitch]; out: the weights, after dropout, 0 where hidden.
 *
 * -D names: as common/tile.h.
 */
#include "common/dropout.h"
#include "common/tile.h"

/* One row and where it stands. */
struct mha_line {
    mha_i64 b, h, i, number; /* number = (b * H + h) * NQ + i */
    struct mha_range range;
    struct mha_row_terms terms;
    struct mha_mask_rows masks;
};

MHA_INLINE struct mha_line mha_line_of(const struct mha_params *p, mha_i64 number,
                                       __global const void *key_lengths,
                                       __global const float *slopes)
{
    struct mha_line line;
    line.number = number;
    line.i = number % p->NQ;
    line.h = number / p->NQ % p->H;
    line.b = number / p->NQ / p->H;
    const mha_i64 length = mha_key_length(p, key_lengths, line.b);
    line.range = mha_row_range(p, length, line.i);
    line.terms.slope = p->has_alibi ? slopes[p->slopes_offset + line.h] : 0.0f;
    line.terms.position = line.i + mha_offset(p, length);
    line.masks = mha_mask_rows_of(p, line.b, line.h, line.i);
    return line;
}

/* One tile of the row to the caller's packed array of NT columns. */
MHA_INLINE void mha_copy_out(const struct mha_params *p, const float *tile, mha_i64 row,
                             mha_i64 key, __global float *to)
{
    const int count = p->NT - key < KT ? (int)(p->NT - key) : KT;
    for (int c = 0; c < count; ++c) {
        to[row * p->NT + key + c] = tile[c];
    }
}

/* Steps 2 to 4 on the whole row. Returns the largest visible score; *seen tells if there is one. */
MHA_INLINE float mha_mask_line(const struct mha_params *p, const struct mha_line *line,
                               __global const uchar *mask, __global const void *bias,
                               __global float *row, __global float *scores_out, uint *seen)
{
    mha_floatv peak = -INFINITY;
    const int every_key = mha_wants_every_key(p);
    for (mha_i64 tile = 0; tile < p->tiles; ++tile) {
        const mha_i64 key = tile * KT;
        mha_floatv bias_vectors[NV], before[NV], after[NV];
        float *row_bias = (float *)bias_vectors;
        /* Hidden keys' biases are added too, to scores that are then hidden. */
        for (int n = 0; n < NV; ++n) {
            bias_vectors[n] = 0.0f;
        }
        const uint bits = mha_visible_bits(p, line->range, key, line->masks, mask, bias, row_bias);
        *seen |= bits;
        for (int n = 0; n < NV; ++n) {
            mha_floatv raw = 0.0f;
            if (bits != 0 || every_key) {
                raw = MHA_LOADV(row + key + n * VEC);
            }
            mha_floatv s = mha_cap_scores(p, raw);
            before[n] = p->scores == MHA_SCORES_RAW ? raw : s;
            s = mha_bias_scores(p, s, p->bias_type != 0 ? bias_vectors[n] : (mha_floatv)(0.0f),
                                line->terms, key + n * VEC);
            s = mha_hide_scores(s, bits >> (n * VEC));
            peak = mha_larger_v(s, peak);
            MHA_STOREV(s, row + key + n * VEC);
            after[n] = s;
        }
        if (p->scores != MHA_SCORES_NONE && p->scores != MHA_SCORES_SOFTMAX) {
            mha_copy_out(p, (const float *)(every_key ? before : after), line->number, key,
                         scores_out + p->scores_offset);
        }
    }
    return mha_max_across(peak);
}

__kernel void softmax(const struct mha_params p, __global const uchar *mask,
                      __global const void *bias, __global const void *key_lengths,
                      __global const float *slopes, __global const float *sinks,
                      __global float *lse, __global float *weights, __global float *scores_out,
                      __global float *workspace)
{
    const mha_i64 number = (mha_i64)get_global_id(0);
    if (number >= p.B * p.H * p.NQ) {
        return;
    }
    const struct mha_line line = mha_line_of(&p, number, key_lengths, slopes);
    __global float *row = workspace + p.score_rows + number * p.score_pitch;

    uint seen = 0;
    const float m = mha_mask_line(&p, &line, mask, bias, row, scores_out, &seen);
    /* Visible scores that are all -inf must give exp(-inf) = 0, not exp(-inf + inf). */
    const float base = m == -INFINITY ? 0.0f : m;
    float l = 0.0f;
    float rest = 0.0f;
    for (mha_i64 tile = 0; tile < p.tiles; ++tile) {
        mha_floatv sum = 0.0f;
        for (int n = 0; n < NV; ++n) {
            __global float *at = row + tile * KT + n * VEC;
            const mha_floatv e = mha_exp_v(MHA_LOADV(at) - base);
            sum += e;
            MHA_STOREV(e, at);
        }
        mha_add(&l, &rest, mha_sum_across(sum));
    }

    const struct mha_sink joint = mha_join_sink(
        m, 0.0f, l, p.has_sinks, p.has_sinks ? sinks[p.sinks_offset + line.h] : 0.0f, p.has_lse);
    for (mha_i64 tile = 0; tile < p.tiles; ++tile) {
        mha_floatv w_vectors[NV];
        float *w = (float *)w_vectors;
        for (int n = 0; n < NV; ++n) {
            const mha_floatv e = MHA_LOADV(row + tile * KT + n * VEC);
            w_vectors[n] = seen != 0 ? e * joint.factor / joint.divisor : (mha_floatv)(0.0f);
        }
        if (seen != 0 && !(l > 0.0f)) {
            /* e * joint.factor / joint.divisor is NaN everywhere, but what the row does not see
             * still weighs 0. */
            float row_bias[KT];
            const uint bits =
                mha_visible_bits(&p, line.range, tile * KT, line.masks, mask, bias, row_bias);
            for (int c = 0; c < KT; ++c) {
                w[c] = (bits >> c) & 1u ? w[c] : 0.0f;
            }
        }
        if (p.scores == MHA_SCORES_SOFTMAX) {
            mha_copy_out(&p, w, number, tile * KT, scores_out + p.scores_offset);
        }
        if (p.dropout_threshold != 0) {
            mha_drop_weights(&p, line.b * p.H + line.h, line.i, tile * KT, KT, w);
        }
        if (p.weights == 1) {
            mha_copy_out(&p, w, number, tile * KT, weights + p.weights_offset);
        }
        for (int n = 0; n < NV; ++n) {
            MHA_STOREV(w_vectors[n], row + tile * KT + n * VEC);
        }
    }
    if (p.has_lse) {
        lse[p.lse_offset + number] = joint.lse;
    }
}
