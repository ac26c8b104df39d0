/*
 * From products to scores, and from a row's sums to what is stored: one row's rules, whatever the
 * kernel holds of it. Of the page's steps (gpu_mha.h) these are the soft cap, the bias and ALiBi,
 * hiding, and the sink.
 *
 * -D names: as common/math.h.
 */
#ifndef MHA_SCORES_H
#define MHA_SCORES_H

#include "common/math.h"

/*
 * Plain scores are products alone: their largest, m, is kept times log2 e, which costs nothing, as
 * powers of 2 want it. Others are kept as they are, since a bias may be the lowest float.
 * 2^(unit * m) = e^score.
 */
MHA_INLINE float mha_unit(const struct mha_params *p)
{
    return p->plain ? 1.0f : MHA_LOG2_E;
}

/* What turns the products of one row into scores. */
struct mha_row_terms {
    float slope;      /* ALiBi; 0 without */
    mha_i64 position; /* i + offset */
};

/* Step 2: soft cap, of scaled products. */
MHA_INLINE mha_floatv mha_cap_scores(const struct mha_params *p, mha_floatv s)
{
    return p->softcap > 0.0f ? p->softcap * mha_tanh_v(s / p->softcap) : s;
}

/* Step 3: bias and ALiBi, for the keys from `key` on. */
MHA_INLINE mha_floatv mha_bias_scores(const struct mha_params *p, mha_floatv s, mha_floatv bias,
                                      struct mha_row_terms terms, mha_i64 key)
{
    if (p->bias_type != 0) {
        s += bias;
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
 * What a row's sums come to: its largest score m, as it is kept, and l = sum of e^(s - m). With
 * splits this split's part of them, which the sink is not in.
 */
MHA_INLINE struct mha_sink mha_end_row(const struct mha_params *p, float kept_m, float l, int seen,
                                       mha_i64 head, __global const float *sinks)
{
    /* m as a natural logarithm in two parts. */
    const float m = p->plain ? kept_m * MHA_LN_2 : kept_m;
    float m_rest = 0.0f;
    if (p->plain && kept_m != -INFINITY) {
        m_rest = MHA_FMA(kept_m, MHA_LN_2, -m) + kept_m * MHA_LN_2_REST;
    }
    const int has_sink = p->has_sinks && p->splits == 1;
    struct mha_sink joint =
        mha_join_sink(m, m_rest, l, has_sink, has_sink ? sinks[p->sinks_offset + head] : 0.0f,
                      p->has_lse || p->splits > 1);
    joint.divisor = seen ? joint.divisor : 1.0f;
    return joint;
}

#endif
