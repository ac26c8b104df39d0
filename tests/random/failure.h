/*
 * failure.h - a failure as something that another person can run.
 */
#ifndef MHA_TESTS_RANDOM_FAILURE_H
#define MHA_TESTS_RANDOM_FAILURE_H

#include "harness/attention_run.h"

/*
 * Prints what failed and writes the shrunk problem to files in `folder`, with one command of
 * gpu-mha that runs it, and tells whether that command shows the fault.
 */
void failure_report(const char *folder, const struct attention_spec *spec,
                    const struct attention_verdict *verdict, const struct attention_spec *shrunk,
                    const struct attention_verdict *small);

#endif
