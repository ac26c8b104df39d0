/* Random bits under a small exponent; the narrower types are cut from the wider. */
#include "cl/random_fill.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"

enum { COUNT = 262139 };

struct mha_random {
    uint32_t f32[COUNT];
    uint16_t f16[COUNT], bf16[COUNT];
};

/* The finaliser of SplitMix64 (Steele et al. 2014) over a counter. */
static uint32_t bits_of(uint64_t counter)
{
    uint64_t z = (counter + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

gpu_mha_status mha_random_create(struct mha_random **random)
{
    struct mha_random *made = malloc(sizeof *made);
    MHA_RETURN_IF(made == NULL, GPU_MHA_HOST_MEMORY, "no memory for %d random numbers", COUNT);
    for (int i = 0; i < COUNT; i++) {
        const uint32_t bits = bits_of((uint64_t)i);
        const uint32_t sign = bits >> 31, mantissa = bits & 0x7fffff;
        const uint32_t exponent = (bits >> 23 & 0xff) % 7; /* 2^-7 .. 2^-1 */
        made->f32[i] = sign << 31 | (exponent + 127 - 7) << 23 | mantissa;
        made->f16[i] = (uint16_t)(sign << 15 | (exponent + 15 - 7) << 10 | mantissa >> 13);
        made->bf16[i] = (uint16_t)(made->f32[i] >> 16);
    }
    *random = made;
    return GPU_MHA_OK;
}

void mha_random_destroy(struct mha_random *random)
{
    free(random);
}

gpu_mha_status mha_random_fill(const struct mha_random *random, cl_command_queue queue, cl_mem mem,
                               gpu_mha_type type, int64_t count)
{
    const void *const runs[] = {random->f32, random->f16, random->bf16};
    const size_t size = mha_type_bytes(type);
    for (int64_t at = 0; at < count; at += COUNT) {
        const size_t part = (size_t)(count - at < COUNT ? count - at : COUNT);
        MHA_TRY_CL(clEnqueueWriteBuffer(queue, mem, CL_TRUE, (size_t)at * size, part * size,
                                        runs[type], 0, NULL, NULL),
                   "clEnqueueWriteBuffer", "%" PRId64 " random numbers", count);
    }
    return GPU_MHA_OK;
}

double mha_random_value(const void *elements, gpu_mha_type type, int64_t index)
{
    if (type == GPU_MHA_F32) {
        return (double)((const float *)elements)[index];
    }
    const uint32_t bits = ((const uint16_t *)elements)[index];
    if (type == GPU_MHA_BF16) {
        const uint32_t wide = bits << 16;
        float value;
        memcpy(&value, &wide, sizeof value);
        return (double)value;
    }
    const int exponent = (int)(bits >> 10 & 31), mantissa = (int)(bits & 1023);
    double value;
    if (exponent == 31) {
        value = mantissa == 0 ? (double)INFINITY : (double)NAN;
    } else {
        value = exponent == 0 ? ldexp(mantissa, -24) : ldexp(mantissa + 1024, exponent - 25);
    }
    return bits >> 15 ? -value : value;
}

static double square_of(const struct mha_random *random, int64_t index)
{
    const double value = mha_random_value(random->f32, GPU_MHA_F32, index % COUNT);
    return value * value;
}

/* What is beyond a whole run slides over it. */
double mha_random_norm(const struct mha_random *random, int64_t width)
{
    const int64_t rest = width % COUNT;
    double whole = 0, sum = 0, largest = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        whole += square_of(random, i);
    }
    for (int64_t i = 0; i < rest; i++) {
        sum += square_of(random, i);
    }
    for (int64_t i = 0; i < COUNT; i++) {
        largest = sum > largest ? sum : largest;
        sum += square_of(random, i + rest) - square_of(random, i);
    }
    return sqrt(largest + whole * (double)(width / COUNT));
}
