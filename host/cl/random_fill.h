/*
 * Numbers for measurements: random, the same in every process, none of them 0, each of magnitude
 * 2^-7 to 1, and their full mantissas. A buffer is filled with one run of them over and over; its
 * length is a prime, so that rows differ.
 */
#ifndef MHA_CL_RANDOM_FILL_H
#define MHA_CL_RANDOM_FILL_H

#include "core/error.h"

struct mha_random; /* the run of numbers, in each type */

gpu_mha_status mha_random_create(struct mha_random **random);
void mha_random_destroy(struct mha_random *random); /* NULL-safe */

/* Writes elements 0 .. count - 1 of a buffer; blocks. */
gpu_mha_status mha_random_fill(const struct mha_random *random, cl_command_queue queue, cl_mem mem,
                               gpu_mha_type type, int64_t count);

/* The largest Euclidean norm of any `width` elements in a row, whatever the type. */
double mha_random_norm(const struct mha_random *random, int64_t width);

/* Element `index` of a filled buffer or of a result, in memory of that type, as a double. */
double mha_random_value(const void *elements, gpu_mha_type type, int64_t index);

#endif
