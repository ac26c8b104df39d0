/*
 * The elementary functions of softmax, on vectors of VEC floats and on floats: within 2 units in
 * the last place, exact at 0 and at the infinities, NaN in, NaN out, on every device. The built-in
 * ones have bounds that differ by device, and are slow where they guard against ranges that cannot
 * occur here.
 *
 * -D names: VEC (4, 8 or 16), MHA_HAS_FMA (fma is as fast as a multiply).
 */
#ifndef MHA_MATH_H
#define MHA_MATH_H

#include "common/types.h"

#if !defined(VEC) || !defined(MHA_HAS_FMA)
#error "VEC and MHA_HAS_FMA must be defined"
#endif

typedef MHA_CAT(float, VEC) mha_floatv;
typedef MHA_CAT(int, VEC) mha_intv;
typedef MHA_CAT(uint, VEC) mha_uintv;
#define convert_floatv MHA_CAT(convert_float, VEC)
#define mha_as_intv MHA_CAT(as_int, VEC)
#define mha_as_uintv MHA_CAT(as_uint, VEC)
#define mha_as_floatv MHA_CAT(as_float, VEC)
#define mha_vload MHA_CAT(vload, VEC)
#define mha_vstore MHA_CAT(vstore, VEC)
#define mha_vstore_half MHA_CAT(MHA_CAT(vstore_half, VEC), _rte)
#define mha_convert_ushortv MHA_CAT(convert_ushort, VEC)
#define mha_convert_uintv MHA_CAT(convert_uint, VEC)

/* Whole vectors in private arrays that are declared as vectors, and so are aligned for them. */
#define MHA_PRIVATEV(pointer) (*(mha_floatv *)(pointer))
#define MHA_PRIVATEV_CONST(pointer) (*(const mha_floatv *)(pointer))

/* Without a fused multiply-add the two roundings stay within the bounds of the header. */
#if MHA_HAS_FMA
#define MHA_FMA(a, b, c) fma(a, b, c)
#else
#define MHA_FMA(a, b, c) ((a) * (b) + (c))
#endif

/* One unaligned vector, in one instruction where the compiler lets us say so. */
#if defined(__clang__)
typedef mha_floatv mha_floatv_unaligned __attribute__((aligned(4)));
#define MHA_LOADV(pointer) (*(__global const mha_floatv_unaligned *)(pointer))
#define MHA_STOREV(value, pointer) (*(__global mha_floatv_unaligned *)(pointer) = (value))
#else
#define MHA_LOADV(pointer) mha_vload(0, pointer)
#define MHA_STOREV(value, pointer) mha_vstore(value, 0, pointer)
#endif

/* mha_bf16_from_float on a vector. */
MHA_INLINE MHA_CAT(ushort, VEC) mha_bf16_from_float_v(mha_floatv x)
{
    const mha_uintv bits = mha_as_uintv(x);
    const mha_uintv rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    return mha_convert_ushortv(select(rounded, bits | 0x400000u, isnan(x)) >> 16);
}

/*
 * 2^x for x < 127: x = n + f with n an integer and |f| <= 1/2. Adding ROUNDER, 1.5 * 2^23, rounds x
 * to n and leaves n in the low bits, which shifted up and added to those of 2^f multiply it by 2^n.
 * 2^f is a polynomial fitted to a relative error of 2^-25, exact at 0. Below LOWEST the result is
 * 0; NaN stays NaN, since every comparison with it is false and its low bits are 0.
 *
 * e^x = 2^(x log2 e), with the product kept in two parts (Cody and Waite 1980) so that it loses
 * nothing for x far from 0.
 */
#define MHA_ROUNDER 12582912.0f
#define MHA_LOWEST (-126.0f)
#define MHA_LOG2_E 1.44269502f
#define MHA_LOG2_E_REST 1.92596303e-8f
#define MHA_LN_2 0.693147182f
#define MHA_LN_2_REST (-1.90465421e-9f)

#define MHA_EXP2_POLYNOMIAL(type, f, p)                                                            \
    p = MHA_FMA(f, (type)(0.00015353285f), (type)(0.0013398876f));                                 \
    p = MHA_FMA(f, p, (type)(0.009618438f));                                                       \
    p = MHA_FMA(f, p, (type)(0.055503324f));                                                       \
    p = MHA_FMA(f, p, (type)(0.24022648f));                                                        \
    p = MHA_FMA(f, p, (type)(0.6931472f));                                                         \
    p = MHA_FMA(f, p, (type)(1.0f));

/* p * 2^n, 0 where `low`. */
MHA_INLINE mha_floatv mha_scale_by_power_v(mha_floatv p, mha_floatv rounded, mha_intv low)
{
    const mha_uintv bits = mha_as_uintv(p) + (mha_as_uintv(rounded) << 23);
    return mha_as_floatv(select(bits, (mha_uintv)(0), low));
}

MHA_INLINE float mha_scale_by_power(float p, float rounded, int low)
{
    return low ? 0.0f : as_float(as_uint(p) + (as_uint(rounded) << 23));
}

MHA_INLINE mha_floatv mha_exp2_v(mha_floatv x)
{
    const mha_floatv t = x + MHA_ROUNDER;
    const mha_floatv f = x - (t - MHA_ROUNDER);
    mha_floatv p;
    MHA_EXP2_POLYNOMIAL(mha_floatv, f, p)
    return mha_scale_by_power_v(p, t, x < MHA_LOWEST);
}

MHA_INLINE float mha_exp2(float x)
{
    const float t = x + MHA_ROUNDER;
    const float f = x - (t - MHA_ROUNDER);
    float p;
    MHA_EXP2_POLYNOMIAL(float, f, p)
    return mha_scale_by_power(p, t, x < MHA_LOWEST);
}

/* f = y log2 e - n. Without a fused multiply-add, 355 / 512 is the part of ln 2 that is exact. */
#if MHA_HAS_FMA
#define MHA_EXP_REDUCE(type, y, n, f)                                                              \
    f = MHA_FMA(y, (type)(MHA_LOG2_E), -n);                                                        \
    f = MHA_FMA(y, (type)(MHA_LOG2_E_REST), f);
#else
#define MHA_EXP_REDUCE(type, y, n, f) f = (y - n * 0.693359375f + n * 2.12194440e-4f) * MHA_LOG2_E;
#endif

MHA_INLINE mha_floatv mha_exp_v(mha_floatv x)
{
    const mha_floatv t = MHA_FMA(x, (mha_floatv)(MHA_LOG2_E), (mha_floatv)(MHA_ROUNDER));
    const mha_floatv n = t - MHA_ROUNDER;
    mha_floatv f, p;
    MHA_EXP_REDUCE(mha_floatv, x, n, f)
    MHA_EXP2_POLYNOMIAL(mha_floatv, f, p)
    return mha_scale_by_power_v(p, t, x < MHA_LOWEST * MHA_LN_2);
}

MHA_INLINE float mha_exp(float x)
{
    const float t = MHA_FMA(x, MHA_LOG2_E, MHA_ROUNDER);
    const float n = t - MHA_ROUNDER;
    float f, p;
    MHA_EXP_REDUCE(float, x, n, f)
    MHA_EXP2_POLYNOMIAL(float, f, p)
    return mha_scale_by_power(p, t, x < MHA_LOWEST * MHA_LN_2);
}

/*
 * tanh: up to 0.55 as x - x^3 p(x^2), p fitted by least squares (its error stays below 2^-27 of x);
 * above, (1 - e) / (1 + e) with e = exp(-2|x|), whose cancellation is then harmless.
 */
MHA_INLINE mha_floatv mha_tanh_v(mha_floatv x)
{
    mha_floatv a = fabs(x);
    mha_floatv y = x * x;
    mha_floatv e = mha_exp_v(-2.0f * a);
    mha_floatv large = (1.0f - e) / (1.0f + e);
    mha_floatv p = MHA_FMA(y, (mha_floatv)(-0.0023616229f), (mha_floatv)(0.0083853155f));
    p = MHA_FMA(y, p, (mha_floatv)(-0.021773951f));
    p = MHA_FMA(y, p, (mha_floatv)(0.053958409f));
    p = MHA_FMA(y, p, (mha_floatv)(-0.13333286f));
    p = MHA_FMA(y, p, (mha_floatv)(0.33333331f));
    mha_floatv small = MHA_FMA(x * y, -p, x);
    return select(copysign(large, x), small, a < 0.55f);
}

/* a > b ? a : b: one instruction, where fmax has to look for NaN. NaN in a gives b. */
MHA_INLINE mha_floatv mha_larger_v(mha_floatv a, mha_floatv b)
{
    return select(b, a, a > b);
}

MHA_INLINE float mha_larger(float a, float b)
{
    return a > b ? a : b;
}

/*
 * Compensated sums (Kahan 1965): `rest` is what rounding took from `total` too much, and is given
 * back with the next term. The error then does not grow with the number of terms. A rest of NaN,
 * which infinities leave, is none.
 */
MHA_INLINE void mha_add_v(mha_floatv *total, mha_floatv *rest, mha_floatv x)
{
    const mha_floatv y = x - *rest;
    const mha_floatv sum = *total + y;
    const mha_floatv lost = (sum - *total) - y;
    *rest = select(lost, (mha_floatv)(0.0f), lost != lost);
    *total = sum;
}

MHA_INLINE void mha_add(float *total, float *rest, float x)
{
    const float y = x - *rest;
    const float sum = *total + y;
    const float lost = (sum - *total) - y;
    *rest = lost != lost ? 0.0f : lost;
    *total = sum;
}

/*
 * e^(a + a_rest - b) for a <= b: the difference is kept in two parts (Knuth's two-sum), since its
 * rounding would be an error of the result as large as a and b are.
 */
MHA_INLINE float mha_exp_difference(float a, float a_rest, float b)
{
    const float d = a - b;
    const float back = d - a;
    const float lost = (a - (d - back)) - (b + back) + a_rest;
    const float e = mha_exp(d);
    return lost == lost ? MHA_FMA(e, lost, e) : e; /* NaN where a or b is infinite */
}

/*
 * The sink joins sums that the keys have made: with m the largest score of a row (m + m_rest, in
 * two parts) and l = sum of e^(s - m), a weight is e^(s - m) * factor / divisor. Only here, at the
 * end, since a sink far above the scores would otherwise cost each of them its last digits.
 */
struct mha_sink {
    float factor, divisor, lse;
};

MHA_INLINE struct mha_sink mha_join_sink(float m, float m_rest, float l, int has_sink, float sink,
                                         int wants_lse)
{
    struct mha_sink joint = {1.0f, l, 0.0f};
    if (has_sink && sink > m) {
        joint.factor = mha_exp_difference(m, m_rest, sink);
        /* 1, or NaN where the sink is infinite. */
        joint.divisor = MHA_FMA(l, joint.factor, mha_exp(sink - sink));
        joint.lse = wants_lse ? sink + log(joint.divisor) : 0.0f;
        return joint;
    }
    if (has_sink && sink != -INFINITY) {
        joint.divisor = l + mha_exp_difference(sink, -m_rest, m);
    }
    /* m is -inf where every visible score is, or is NaN: then l tells. */
    if (wants_lse) {
        const float l_log = log(joint.divisor);
        joint.lse = m == -INFINITY ? l_log : m + (m_rest + l_log);
    }
    return joint;
}

/* Across a vector by halves: pairwise, so the sum's error grows with log2(VEC) only. */
MHA_INLINE float mha_sum_across(mha_floatv v)
{
#if VEC == 16
    float8 v8 = v.lo + v.hi;
    float4 v4 = v8.lo + v8.hi;
#elif VEC == 8
    float4 v4 = v.lo + v.hi;
#else
    float4 v4 = v;
#endif
    return (v4.x + v4.y) + (v4.z + v4.w);
}

MHA_INLINE float mha_max_across(mha_floatv v)
{
#if VEC == 16
    float8 v8 = select(v.lo, v.hi, v.hi > v.lo);
    float4 v4 = select(v8.lo, v8.hi, v8.hi > v8.lo);
#elif VEC == 8
    float4 v4 = select(v.lo, v.hi, v.hi > v.lo);
#else
    float4 v4 = v;
#endif
    return mha_larger(mha_larger(v4.x, v4.y), mha_larger(v4.z, v4.w));
}

/*
 * VEC vectors to one: lane c is the sum, or the largest, of the lanes of v[c]. Neighbouring lanes
 * are joined, those of x in the lower half, those of y in the upper, so one round halves the
 * vectors. They are used up. The largest: NaN is left out.
 */
#if !defined(__clang__)
#define MHA_EVENS(x, y) ((mha_floatv)((x).even, (y).even))
#define MHA_ODDS(x, y) ((mha_floatv)((x).odd, (y).odd))
#elif VEC == 16
#define MHA_EVENS(x, y)                                                                            \
    __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define MHA_ODDS(x, y)                                                                             \
    __builtin_shufflevector(x, y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#elif VEC == 8
#define MHA_EVENS(x, y) __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14)
#define MHA_ODDS(x, y) __builtin_shufflevector(x, y, 1, 3, 5, 7, 9, 11, 13, 15)
#else
#define MHA_EVENS(x, y) __builtin_shufflevector(x, y, 0, 2, 4, 6)
#define MHA_ODDS(x, y) __builtin_shufflevector(x, y, 1, 3, 5, 7)
#endif
#define MHA_PAIR_SUM(x, y) (MHA_EVENS(x, y) + MHA_ODDS(x, y))
#define MHA_PAIR_MAX(x, y) mha_larger_v(MHA_EVENS(x, y), MHA_ODDS(x, y))

#define MHA_TURN(name, pair)                                                                       \
    MHA_INLINE mha_floatv name(mha_floatv *v)                                                      \
    {                                                                                              \
        _Pragma("unroll") for (int width = VEC; width > 1; width /= 2)                             \
        {                                                                                          \
            _Pragma("unroll") for (int x = 0; x < width / 2; ++x)                                  \
            {                                                                                      \
                v[x] = pair(v[2 * x], v[2 * x + 1]);                                               \
            }                                                                                      \
        }                                                                                          \
        return v[0];                                                                               \
    }

MHA_TURN(mha_turn_sum, MHA_PAIR_SUM)
MHA_TURN(mha_turn_max, MHA_PAIR_MAX)

/* 0, 1, 2, ...: the number of each lane. */
#if VEC == 16
#define MHA_LANES ((mha_uintv)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#elif VEC == 8
#define MHA_LANES ((mha_uintv)(0, 1, 2, 3, 4, 5, 6, 7))
#elif VEC == 4
#define MHA_LANES ((mha_uintv)(0, 1, 2, 3))
#else
#error "VEC must be 4, 8 or 16"
#endif

#endif
