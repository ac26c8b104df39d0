/*
 * storage.h - element types, seeded random numbers and fills for tests.
 *
 * A test draws doubles, rounds them to the storage type (storage_round_array), gives the rounded
 * doubles to the reference and their bytes to the library: both then see the same inputs.
 */
#ifndef MHA_TESTS_STORAGE_H
#define MHA_TESTS_STORAGE_H

#include <stddef.h>
#include <stdint.h>

enum storage_type { STORAGE_F32, STORAGE_F16, STORAGE_BF16 };
#define STORAGE_TYPE_COUNT 3

const char *storage_name(enum storage_type type);          /* "f32", "f16", "bf16" */
size_t storage_size(enum storage_type type);               /* bytes of one element */
double storage_unit_roundoff(enum storage_type type);      /* 2^-24, 2^-11, 2^-8 */
double storage_smallest_subnormal(enum storage_type type); /* 2^-149, 2^-24, 2^-133 */
double storage_largest(enum storage_type type);            /* largest finite value */

/* Bits of `x` rounded once to nearest, ties to even; beyond the range becomes Inf, NaN stays NaN
 * (quiet). The bits stand in the low end of the result. */
uint32_t storage_encode(enum storage_type type, double x);
double storage_decode(enum storage_type type, uint32_t bits);
double storage_round(enum storage_type type, double x);

/* Element `index` of an array that need not be aligned. */
void storage_store(enum storage_type type, void *array, int64_t index, double x);
double storage_load(enum storage_type type, const void *array, int64_t index);

void storage_round_array(enum storage_type type, double *x, int64_t count);
void storage_pack(enum storage_type type, void *array, const double *x, int64_t count);
void storage_unpack(enum storage_type type, double *x, const void *array, int64_t count);

/* What goes into cells that nobody may read: a kernel that reads one shows it in its result. */
enum poison { POISON_NAN, POISON_1000, POISON_FF };
#define POISON_COUNT 3

void storage_poison(enum storage_type type, void *array, int64_t count, enum poison kind);

/* Whether element `index` still holds the bytes that storage_poison wrote. */
int storage_is_poison(enum storage_type type, const void *array, int64_t index, enum poison kind);

void poison_doubles(double *x, int64_t count, enum poison kind); /* FF: NaN */

/* xoshiro256** seeded by splitmix64: the same numbers on every machine. */
struct rng {
    uint64_t state[4];
};

void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
int64_t rng_below(struct rng *rng, int64_t limit);            /* 0 <= x < limit, limit > 0 */
double rng_uniform(struct rng *rng, double low, double high); /* low <= x < high */
double rng_normal(struct rng *rng);                           /* mean 0, variance 1 */

void fill_uniform(struct rng *rng, double *x, int64_t count, double low, double high);
void fill_normal(struct rng *rng, double *x, int64_t count, double mean, double deviation);
void fill_constant(double *x, int64_t count, double value);

/* Drawn and rounded to `type` in one step. */
void fill_normal_as(struct rng *rng, enum storage_type type, double *x, int64_t count, double mean,
                    double deviation);

/* calloc for `count` doubles (at least one); ends the test run when memory is out. */
double *alloc_doubles(int64_t count);

#endif
