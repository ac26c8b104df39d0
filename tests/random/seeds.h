/*
 * seeds.h - which seeds a program tries.
 */
#ifndef MHA_TESTS_RANDOM_SEEDS_H
#define MHA_TESTS_RANDOM_SEEDS_H

#include <stdint.h>

struct seeds {
    uint64_t first, count;
    uint64_t failures;  /* after which a run ends */
    int is_one;         /* --seed: a single one, described */
    const char *folder; /* where failures leave their files */
};

/*
 * --first N, --count N, --seed N, --failures N, --folder DIR. Returns 0, or the exit code and a
 * sentence on stderr, 2.
 */
int seeds_read(struct seeds *options, int argc, char **argv);

#endif
