/*
 * storage.c - see storage.h. Conversions go from double to the type in one rounding.
 */
#include "storage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A binary floating-point format; its bits are, from the top: sign, exponent, fraction. */
struct format {
    const char *name;
    size_t size;
    int fraction_bits;
    int exponent_bits;
};

static const struct format formats[STORAGE_TYPE_COUNT] = {
    [STORAGE_F32] = {"f32", 4, 23, 8},
    [STORAGE_F16] = {"f16", 2, 10, 5},
    [STORAGE_BF16] = {"bf16", 2, 7, 8},
};

static int bias_of(const struct format *f)
{
    return (1 << (f->exponent_bits - 1)) - 1;
}

const char *storage_name(enum storage_type type)
{
    return formats[type].name;
}

size_t storage_size(enum storage_type type)
{
    return formats[type].size;
}

double storage_unit_roundoff(enum storage_type type)
{
    return ldexp(1, -formats[type].fraction_bits - 1);
}

double storage_smallest_subnormal(enum storage_type type)
{
    return ldexp(1, 1 - bias_of(&formats[type]) - formats[type].fraction_bits);
}

double storage_largest(enum storage_type type)
{
    return ldexp(2 - 2 * storage_unit_roundoff(type), bias_of(&formats[type]));
}

uint32_t storage_encode(enum storage_type type, double x)
{
    const struct format *f = &formats[type];
    uint32_t sign = (uint32_t)(signbit(x) != 0) << (f->fraction_bits + f->exponent_bits);
    uint32_t infinity = ((1u << f->exponent_bits) - 1) << f->fraction_bits;
    int exponent;
    double steps;
    uint32_t bits;

    if (isnan(x)) {
        return sign | infinity | 1u << (f->fraction_bits - 1);
    }
    if (isinf(x)) {
        return sign | infinity;
    }
    if (x == 0) {
        return sign;
    }

    /* |x| = m * 2^exponent with 1 <= m < 2; subnormals have the exponent of the least normal. */
    (void)frexp(x, &exponent);
    exponent -= 1;
    if (exponent > bias_of(f)) {
        return sign | infinity;
    }
    if (exponent < 1 - bias_of(f)) {
        exponent = 1 - bias_of(f);
    }
    /* Multiples of one unit in the last place. nearbyint rounds ties to even (default mode). */
    steps = nearbyint(ldexp(fabs(x), f->fraction_bits - exponent));
    /* Adding instead of or-ing: a fraction that rounds up to the next power of two carries into
     * the exponent, and beyond the largest value that gives the bits of infinity. */
    bits = (uint32_t)(exponent + bias_of(f) - 1) << f->fraction_bits;
    return sign | (bits + (uint32_t)steps);
}

double storage_decode(enum storage_type type, uint32_t bits)
{
    const struct format *f = &formats[type];
    uint32_t fraction = bits & ((1u << f->fraction_bits) - 1);
    int exponent = (int)(bits >> f->fraction_bits & ((1u << f->exponent_bits) - 1));
    double sign = bits >> (f->fraction_bits + f->exponent_bits) & 1 ? -1 : 1;

    if (exponent == (1 << f->exponent_bits) - 1) {
        return fraction ? (double)NAN : sign * (double)INFINITY;
    }
    if (exponent == 0) {
        exponent = 1;
    } else {
        fraction |= 1u << f->fraction_bits;
    }
    return sign * ldexp((double)fraction, exponent - bias_of(f) - f->fraction_bits);
}

double storage_round(enum storage_type type, double x)
{
    return storage_decode(type, storage_encode(type, x));
}

static void store_bits(enum storage_type type, void *array, int64_t index, uint32_t bits)
{
    unsigned char *at = (unsigned char *)array + (size_t)index * storage_size(type);
    uint16_t half = (uint16_t)bits;

    if (storage_size(type) == sizeof(half)) {
        memcpy(at, &half, sizeof(half));
    } else {
        memcpy(at, &bits, sizeof(bits));
    }
}

static uint32_t load_bits(enum storage_type type, const void *array, int64_t index)
{
    const unsigned char *at = (const unsigned char *)array + (size_t)index * storage_size(type);
    uint16_t half = 0;
    uint32_t bits = 0;

    if (storage_size(type) == sizeof(half)) {
        memcpy(&half, at, sizeof(half));
        return half;
    }
    memcpy(&bits, at, sizeof(bits));
    return bits;
}

void storage_store(enum storage_type type, void *array, int64_t index, double x)
{
    store_bits(type, array, index, storage_encode(type, x));
}

double storage_load(enum storage_type type, const void *array, int64_t index)
{
    return storage_decode(type, load_bits(type, array, index));
}

void storage_round_array(enum storage_type type, double *x, int64_t count)
{
    for (int64_t n = 0; n < count; n++) {
        x[n] = storage_round(type, x[n]);
    }
}

void storage_pack(enum storage_type type, void *array, const double *x, int64_t count)
{
    for (int64_t n = 0; n < count; n++) {
        storage_store(type, array, n, x[n]);
    }
}

void storage_unpack(enum storage_type type, double *x, const void *array, int64_t count)
{
    for (int64_t n = 0; n < count; n++) {
        x[n] = storage_load(type, array, n);
    }
}

static uint32_t poison_bits(enum storage_type type, enum poison kind)
{
    switch (kind) {
    case POISON_NAN:
        return storage_encode(type, (double)NAN);
    case POISON_1000:
        return storage_encode(type, 1000);
    case POISON_FF:
        break;
    }
    return storage_size(type) == 2 ? 0xFFFFu : 0xFFFFFFFFu;
}

void storage_poison(enum storage_type type, void *array, int64_t count, enum poison kind)
{
    for (int64_t n = 0; n < count; n++) {
        store_bits(type, array, n, poison_bits(type, kind));
    }
}

int storage_is_poison(enum storage_type type, const void *array, int64_t index, enum poison kind)
{
    return load_bits(type, array, index) == poison_bits(type, kind);
}

void poison_doubles(double *x, int64_t count, enum poison kind)
{
    fill_constant(x, count, kind == POISON_1000 ? 1000 : (double)NAN);
}

/* Splitmix64 (Steele et al.): turns any seed, 0 included, into well-mixed state. */
static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

void rng_seed(struct rng *rng, uint64_t seed)
{
    for (int n = 0; n < 4; n++) {
        rng->state[n] = splitmix64(&seed);
    }
}

static uint64_t rotate_left(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

/* xoshiro256** of Blackman and Vigna. */
uint64_t rng_next(struct rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

int64_t rng_below(struct rng *rng, int64_t limit)
{
    /* The remainder favours small numbers by less than limit / 2^63: nothing a test can see. */
    return (int64_t)(rng_next(rng) % (uint64_t)limit);
}

double rng_uniform(struct rng *rng, double low, double high)
{
    return low + (high - low) * ((double)(rng_next(rng) >> 11) * 0x1p-53);
}

/* Box-Muller; one of the pair is enough. */
double rng_normal(struct rng *rng)
{
    const double two_pi = 6.283185307179586;
    double radius = sqrt(-2 * log(1 - rng_uniform(rng, 0, 1))); /* 1 - u is never 0 */

    return radius * cos(two_pi * rng_uniform(rng, 0, 1));
}

void fill_uniform(struct rng *rng, double *x, int64_t count, double low, double high)
{
    for (int64_t n = 0; n < count; n++) {
        x[n] = rng_uniform(rng, low, high);
    }
}

void fill_normal(struct rng *rng, double *x, int64_t count, double mean, double deviation)
{
    for (int64_t n = 0; n < count; n++) {
        x[n] = mean + deviation * rng_normal(rng);
    }
}

void fill_constant(double *x, int64_t count, double value)
{
    for (int64_t n = 0; n < count; n++) {
        x[n] = value;
    }
}

void fill_normal_as(struct rng *rng, enum storage_type type, double *x, int64_t count, double mean,
                    double deviation)
{
    fill_normal(rng, x, count, mean, deviation);
    storage_round_array(type, x, count);
}

double *alloc_doubles(int64_t count)
{
    double *x = NULL;

    if (count >= 0 && (uint64_t)count < SIZE_MAX / sizeof(double)) {
        x = calloc((size_t)count + 1, sizeof(double));
    }
    if (!x) {
        fprintf(stderr, "alloc_doubles: no memory for %lld doubles\n", (long long)count);
        abort();
    }
    return x;
}
