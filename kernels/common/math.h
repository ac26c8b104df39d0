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

/*
 * e^x for x <= 0: x = n ln2 + r with |r| <= ln2 / 2, e^r by its series (Cody and Waite 1980 for the
 * reduction), 2^n through the exponent bits. Adding 1.5 * 2^23 rounds to an integer, whose value is
 * then in the low bits. Below -87.3, where 2^n leaves the normal range, the result is 0.
 */
#define MHA_EXP_LOWEST (-87.3f)
#define MHA_ROUNDER 12582912.0f
#define MHA_EXP_BODY(as_int_type, as_float_type)                                                   \
    t = MHA_FMA(clamped, 1.44269504f, MHA_ROUNDER);                                                \
    n = t - MHA_ROUNDER;                                                                           \
    r = MHA_FMA(n, -0.693359375f, clamped);                                                        \
    r = MHA_FMA(n, 2.12194440e-4f, r);                                                             \
    e = MHA_FMA(r, 1.0f / 5040.0f, 1.0f / 720.0f);                                                 \
    e = MHA_FMA(r, e, 1.0f / 120.0f);                                                              \
    e = MHA_FMA(r, e, 1.0f / 24.0f);                                                               \
    e = MHA_FMA(r, e, 1.0f / 6.0f);                                                                \
    e = MHA_FMA(r, e, 0.5f);                                                                       \
    e = MHA_FMA(r * r, e, r) + 1.0f;                                                               \
    e = e * as_float_type((as_int_type(t) << 23) + 0x3f800000);

MHA_INLINE mha_floatv mha_exp_v(mha_floatv x)
{
    mha_floatv t, n, r, e;
    mha_floatv clamped = select(x, (mha_floatv)(MHA_EXP_LOWEST), x < MHA_EXP_LOWEST);
    MHA_EXP_BODY(mha_as_intv, mha_as_floatv)
    return select(e, (mha_floatv)(0.0f), x < MHA_EXP_LOWEST);
}

MHA_INLINE float mha_exp(float x)
{
    float t, n, r, e;
    float clamped = x < MHA_EXP_LOWEST ? MHA_EXP_LOWEST : x;
    MHA_EXP_BODY(as_int, as_float)
    return x < MHA_EXP_LOWEST ? 0.0f : e;
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
