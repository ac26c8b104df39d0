/*
 * features.h - what the problems of a run were about, counted.
 */
#ifndef MHA_TESTS_RANDOM_FEATURES_H
#define MHA_TESTS_RANDOM_FEATURES_H

#include "harness/attention_data.h"

/* Counts one problem; `plan` is what its plan says of itself. */
void features_count(const struct attention_spec *spec, const char *plan);

/* "causal 3511, window 2496, ..." in lines, on stdout. */
void features_print(void);

/* 1 if some kernel or feature never occurred; names them on stdout. */
int features_missing(void);

#endif
