/* Sizes that cannot overflow unseen: 64-bit, non-negative, sticky. */
#ifndef MHA_CORE_SIZE_H
#define MHA_CORE_SIZE_H

#include <stddef.h>
#include <stdint.h>

/*
 * 0 <= a, b or the result saturates: INT64_MAX stands for "too large" and stays so through further
 * sums and products, so a chain of them needs one check at its end (mha_size_fits). Only a factor
 * of 0 gives 0 again, in whatever order it comes: nothing of something huge is nothing.
 */
int64_t mha_size_add(int64_t a, int64_t b);
int64_t mha_size_mul(int64_t a, int64_t b);

/* a rounded up to a multiple of `step` (step >= 1); saturates. */
int64_t mha_size_round_up(int64_t a, int64_t step);

/* ceil(a / b) for a >= 0, b >= 1. */
int64_t mha_size_ceil_div(int64_t a, int64_t b);

/* 1 if a is a real size that also fits size_t and ptrdiff_t. */
int mha_size_fits(int64_t a);

#endif
