/*
 * split.h - keys cut into parts, and the partial results merged.
 */
#ifndef MHA_TESTS_RANDOM_SPLIT_H
#define MHA_TESTS_RANDOM_SPLIT_H

#include "dense.h"

/*
 * Runs one to five parts of the keys, empty ones among them, and merges them in any order. The
 * result's bounds are those of the parts and the merges together. Returns 0, or -1 with a sentence
 * on stdout: something failed, or merging an empty part changed a bit.
 */
int split_and_merge(gpu_mha_context *context, struct rng *rng, const struct dense *whole,
                    struct dense_result *result);

#endif
