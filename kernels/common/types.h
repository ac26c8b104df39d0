/* Storage: elements of any type are read as float and written from float. */
#ifndef MHA_TYPES_H
#define MHA_TYPES_H

#include "common/params.h"

#define MHA_INLINE static inline __attribute__((always_inline))

/*
 * The body of a kernel. PoCL compiles a kernel three times over, for the ways in which it may be
 * launched, and whatever is inlined with it; a function that must not be inlined it compiles once.
 * No barriers and no get_global_id() in there: PoCL gives those a meaning in the kernel alone.
 */
#if defined(POCL_DEVICE_ADDRESS_BITS)
#define MHA_BODY static __attribute__((noinline))
#else
#define MHA_BODY MHA_INLINE
#endif

#define MHA_CAT_(a, b) a##b
#define MHA_CAT(a, b) MHA_CAT_(a, b)

/* Reads element `index`. The type is uniform over a launch, so the branch costs next to nothing. */
MHA_INLINE float mha_load(__global const void *data, mha_i32 type, mha_i64 index)
{
    if (type == MHA_TYPE_F32) {
        return ((__global const float *)data)[index];
    }
    if (type == MHA_TYPE_F16) {
        return vload_half((size_t)index, (__global const half *)data);
    }
    return as_float((uint)((__global const ushort *)data)[index] << 16);
}

/* bfloat16 is the upper half of a float, rounded to nearest, ties to even. NaN stays NaN. */
MHA_INLINE ushort mha_bf16_from_float(float value)
{
    uint bits = as_uint(value);
    uint rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    return (ushort)((isnan(value) ? (bits | 0x400000u) : rounded) >> 16);
}

MHA_INLINE void mha_store(__global void *data, mha_i32 type, mha_i64 index, float value)
{
    if (type == MHA_TYPE_F32) {
        ((__global float *)data)[index] = value;
    } else if (type == MHA_TYPE_F16) {
        vstore_half_rte(value, (size_t)index, (__global half *)data);
    } else {
        ((__global ushort *)data)[index] = mha_bf16_from_float(value);
    }
}

MHA_INLINE mha_i64 mha_load_index(__global const void *data, mha_i32 type, mha_i64 index)
{
    if (type == MHA_INDEX_I32) {
        return ((__global const int *)data)[index];
    }
    return ((__global const long *)data)[index];
}

/* First element of row (b, h, n). */
MHA_INLINE mha_i64 mha_row(struct mha_tensor_params t, mha_i64 b, mha_i64 h, mha_i64 n)
{
    return t.offset + b * t.stride_b + h * t.stride_h + n * t.stride_n;
}

#endif
