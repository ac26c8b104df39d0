/*
 * What a device can do at most: the kernels with which `gpu-mha bench` measures the limits that it
 * holds attention against. They belong to the command; the library does not use them.
 *
 * -D names:
 *   VEC      lanes of a vector (1, 2, 4, 8 or 16)
 *   CHAINS   independent sums of a work-item in fma_rate: enough to hide the latency of one
 *            multiply-add, few enough to stay in registers
 *   HAS_FMA  fma() is one instruction
 */
#if !defined(VEC) || !defined(CHAINS) || !defined(HAS_FMA)
#error "VEC, CHAINS and HAS_FMA must be defined"
#endif

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#if VEC == 1
typedef float floatv;
typedef uint uintv;
#else
typedef CAT(float, VEC) floatv;
typedef CAT(uint, VEC) uintv;
#endif

/* Compilers that tune for narrow vectors split wide ones in two. */
#if defined(__has_attribute)
#if __has_attribute(min_vector_width)
#define WIDE __attribute__((min_vector_width(VEC * 32)))
#endif
#endif
#ifndef WIDE
#define WIDE
#endif

#if HAS_FMA
#define FMA(a, b, c) fma(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

/*
 * 2 * VEC * CHAINS * rounds floating-point operations per work-item. factor < 1 and addend > 0 keep
 * the sums finite and normal; as arguments they cannot be folded. out: one vector per work-item,
 * which keeps the work from being removed.
 */
__kernel WIDE void fma_rate(__global floatv *out, float factor, float addend, uint rounds)
{
    const floatv a = (floatv)(factor);
    const floatv b = (floatv)(addend);
    floatv sum[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) {
        sum[c] = (floatv)((float)(c + 1));
    }
    for (uint i = 0; i < rounds; ++i) {
#pragma unroll
        for (int c = 0; c < CHAINS; ++c) {
            sum[c] = FMA(sum[c], a, b);
        }
    }
#pragma unroll
    for (int c = 1; c < CHAINS; ++c) {
        sum[0] += sum[c];
    }
    out[get_global_id(0)] = sum[0];
}

/*
 * Reads 4 * steps vectors per work-item: those at first + i * stride, where first is the number of
 * the work-item times `spacing`. Integers, as any bits may be read. out: one vector per work-item.
 */
__kernel WIDE void read_rate(__global const uintv *data, ulong spacing, ulong stride, ulong steps,
                             __global uintv *out)
{
    __global const uintv *at = data + get_global_id(0) * spacing;
    uintv mix0 = (uintv)(0u), mix1 = (uintv)(0u), mix2 = (uintv)(0u), mix3 = (uintv)(0u);
    for (ulong i = 0; i < steps; ++i) {
        mix0 ^= at[0];
        mix1 ^= at[stride];
        mix2 ^= at[2 * stride];
        mix3 ^= at[3 * stride];
        at += 4 * stride;
    }
    out[get_global_id(0)] = mix0 ^ mix1 ^ mix2 ^ mix3;
}

/* What it costs to start a kernel and to wait for it. */
__kernel void empty(void) {}

/* An integer hash without visible pattern (Wellons 2018, "lowbias32"). */
static inline uint hash(uint x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

/* Uniform with mean 0 and variance 1. */
static inline float random_number(uint index)
{
    return ((float)(hash(index) >> 8) * 0x1p-24f - 0.5f) * 3.46410162f;
}

/* One random float, or two of 16 bits, in each 32-bit word. type: 0 f32, 1 f16, 2 bf16. */
__kernel void fill_random(__global uint *data, int type, uint seed)
{
    const size_t word = get_global_id(0);
    const uint index = (uint)word * 2u + seed;
    const float first = random_number(index);
    const float second = random_number(index + 1u);
    if (type == 0) {
        data[word] = as_uint(first);
    } else if (type == 1) {
        vstore_half2((float2)(first, second), word, (__global half *)data);
    } else {
        data[word] = (as_uint(first) >> 16) | (as_uint(second) & 0xffff0000u);
    }
}
