/*
 * shrink.h - from a problem that fails to a smaller one that fails in the same way.
 */
#ifndef MHA_TESTS_RANDOM_SHRINK_H
#define MHA_TESTS_RANDOM_SHRINK_H

#include "harness/attention_run.h"

/*
 * Drops features and makes sizes smaller while the fault stays one of the same kind; *verdict is
 * that of the result.
 */
struct attention_spec shrink(gpu_mha_context *context, const struct attention_spec *spec,
                             struct attention_verdict *verdict);

#endif
