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
 * How far in powers of 2 a score may pass what exponents are relative to, m, before m follows it
 * and the sums so far are scaled down. Each scaling rounds; a row whose scores rise little by
 * little would else be scaled with every block, and the error grow with the number of keys. So
 * weights may be up to 2^MHA_RISE.
 */
#define MHA_RISE 2.0f

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
 * What a row's sums come to: m, near its largest score, in two parts, and l = sum of e^(s - m).
 * With splits this split's part of them, which the sink is not in.
 */
MHA_INLINE struct mha_sink mha_end_row(const struct mha_params *p, float m, float m_rest, float l,
                                       int seen, mha_i64 head, __global const float *sinks)
{
    const int has_sink = p->has_sinks && p->splits == 1;
    struct mha_sink joint =
        mha_join_sink(m, m == -INFINITY ? 0.0f : m_rest, l, has_sink,
                      has_sink ? sinks[p->sinks_offset + head] : 0.0f, p->has_lse || p->splits > 1);
    joint.divisor = seen ? joint.divisor : 1.0f;
    return joint;
}

#endif
