/*
 * draw.h - whole attention problems from a seed.
 *
 * A kernel is compiled for its tile, its head sizes and sometimes the types of keys and values, so
 * these change from epoch to epoch only; all else is drawn anew for each seed.
 */
#ifndef MHA_TESTS_RANDOM_DRAW_H
#define MHA_TESTS_RANDOM_DRAW_H

#include "harness/attention_data.h"

/* Seeds with the same quotient by this share their kernels. */
#define RANDOM_EPOCH 1000

/* What is asked to run a problem: a kernel on a tile, or (AUTO) whatever the library chooses. */
enum random_family {
    FAMILY_AUTO,
    FAMILY_FUSED,
    FAMILY_STAGED,
    FAMILY_DECODE,
    FAMILY_HEADS,
    FAMILY_SHARED,
    FAMILY_ROWS
};

/*
 * The problem of a seed: always one that the library must solve, within what the header's bounds
 * hold for.
 */
struct attention_spec random_spec(uint64_t seed);

/* The same, for one family. */
struct attention_spec random_spec_of(uint64_t seed, enum random_family family);

/* 0 if the spec breaks a rule of its own or of the library's: layouts that do not go together. */
int random_spec_is_valid(const struct attention_spec *spec);

#endif
