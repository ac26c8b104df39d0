/* Conversion of array elements between types; see npy.h. */
#include <stdlib.h>
#include <string.h>

#include "npy.h"

/*
 * Rounds to a 16-bit format of 1 sign bit, exponent_bits and mantissa_bits. Works on the bits of a
 * double, in which every f32 and every f16 is exact, so that each value is rounded once only.
 */
static uint16_t encode(double value, int exponent_bits, int mantissa_bits)
{
    const uint64_t fraction_mask = (UINT64_C(1) << 52) - 1;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const uint16_t infinity = (uint16_t)(((1 << exponent_bits) - 1) << mantissa_bits);
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 63 << 15);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    uint64_t fraction = bits & fraction_mask;

    if (exponent == 1024 && fraction != 0) { /* a NaN keeps the top of its payload, made quiet */
        return (uint16_t)(sign | infinity | 1 << (mantissa_bits - 1) |
                          (uint16_t)(fraction >> (52 - mantissa_bits)));
    }
    if (exponent > bias) {
        return sign | infinity;
    }

    int shift = 52 - mantissa_bits;
    uint64_t significand = (uint64_t)(exponent + bias) << 52 | fraction;
    if (exponent < 1 - bias) { /* subnormal in the target: the leading 1 becomes explicit */
        shift += 1 - bias - exponent;
        significand = UINT64_C(1) << 52 | fraction;
        if (shift > 53) {
            return sign; /* below half of the smallest subnormal */
        }
    }
    uint64_t kept = significand >> shift;
    uint64_t rest = significand & ((UINT64_C(1) << shift) - 1);
    uint64_t half = UINT64_C(1) << (shift - 1);
    if (rest > half || (rest == half && (kept & 1) != 0)) {
        kept++; /* may carry into the exponent, up to infinity: that is the right neighbour */
    }
    return (uint16_t)(sign | kept);
}

uint16_t mha_npy_f64_to_f16(double value)
{
    return encode(value, 5, 10);
}

uint16_t mha_npy_f64_to_bf16(double value)
{
    return encode(value, 8, 7);
}

float mha_npy_bf16_to_f32(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof value);
    return value;
}

float mha_npy_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = bits >> 10 & 31;
    uint32_t fraction = bits & 0x3ff;
    uint32_t wide;
    float value;

    if (exponent == 0) { /* zero or subnormal: a multiple of 2^-24 */
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    if (exponent == 31) {
        wide = sign | 0x7f800000u | fraction << 13;
    } else {
        wide = sign | (exponent + 127 - 15) << 23 | fraction << 13;
    }
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Element i as a double: exact, except for integers beyond 2^53. */
static double element(const struct mha_npy *array, size_t i)
{
    switch (array->type) {
    case MHA_NPY_BOOL:
    case MHA_NPY_U8:
        return ((const uint8_t *)array->data)[i];
    case MHA_NPY_I32:
        return ((const int32_t *)array->data)[i];
    case MHA_NPY_I64:
        return (double)((const int64_t *)array->data)[i];
    case MHA_NPY_F16:
        return (double)mha_npy_f16_to_f32(((const uint16_t *)array->data)[i]);
    case MHA_NPY_BF16:
        return (double)mha_npy_bf16_to_f32(((const uint16_t *)array->data)[i]);
    case MHA_NPY_F32:
        return (double)((const float *)array->data)[i];
    case MHA_NPY_F64:
        return ((const double *)array->data)[i];
    }
    return 0;
}

/* Room for the converted elements; never of size 0, for which malloc may return NULL. */
static void *allocate(const struct mha_npy *array, size_t item)
{
    if (array->count > SIZE_MAX / item) {
        return NULL;
    }
    return malloc(array->count > 0 ? array->count * item : 1);
}

/* The elements are already of the wanted type. */
static void *copy(const struct mha_npy *array)
{
    void *result = allocate(array, mha_npy_item_size(array->type));

    if (result) {
        memcpy(result, array->data, array->bytes);
    }
    return result;
}

float *mha_npy_to_f32(const struct mha_npy *array)
{
    if (array->type == MHA_NPY_F32) {
        return copy(array);
    }
    float *result = allocate(array, sizeof *result);
    for (size_t i = 0; result && i < array->count; i++) {
        result[i] = (float)element(array, i);
    }
    return result;
}

uint16_t *mha_npy_to_f16(const struct mha_npy *array)
{
    if (array->type == MHA_NPY_F16) {
        return copy(array);
    }
    uint16_t *result = allocate(array, sizeof *result);
    for (size_t i = 0; result && i < array->count; i++) {
        result[i] = mha_npy_f64_to_f16(element(array, i));
    }
    return result;
}

uint16_t *mha_npy_to_bf16(const struct mha_npy *array)
{
    if (array->type == MHA_NPY_BF16) {
        return copy(array);
    }
    uint16_t *result = allocate(array, sizeof *result);
    for (size_t i = 0; result && i < array->count; i++) {
        result[i] = mha_npy_f64_to_bf16(element(array, i));
    }
    return result;
}

double *mha_npy_to_f64(const struct mha_npy *array)
{
    double *result = allocate(array, sizeof *result);

    for (size_t i = 0; result && i < array->count; i++) {
        result[i] = element(array, i);
    }
    return result;
}

int64_t *mha_npy_to_i64(const struct mha_npy *array)
{
    if (mha_npy_is_float(array->type)) {
        return NULL;
    }
    if (array->type == MHA_NPY_I64) {
        return copy(array);
    }
    int64_t *result = allocate(array, sizeof *result);
    for (size_t i = 0; result && i < array->count; i++) {
        result[i] = (int64_t)element(array, i); /* at most 32 bits: exact */
    }
    return result;
}

uint8_t *mha_npy_to_bool(const struct mha_npy *array)
{
    if (mha_npy_is_float(array->type)) {
        return NULL;
    }
    uint8_t *result = allocate(array, sizeof *result);
    for (size_t i = 0; result && i < array->count; i++) {
        result[i] = element(array, i) != 0;
    }
    return result;
}
