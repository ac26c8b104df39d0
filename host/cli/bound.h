/* Errors and their bounds, for all that compares numbers. */
#ifndef MHA_CLI_BOUND_H
#define MHA_CLI_BOUND_H

#include "npy.h"

/* |got - want|. A NaN wants a NaN and an infinity that infinity: all else is infinitely wrong. */
double mha_error_of(double want, double got);

/* The part of its bound that an error takes: at most 1 is right. No bound excuses an infinite one.
 */
double mha_share_of_bound(double error, double bound);

/* What rounding to a float type may do: its unit round-off and its smallest subnormal. */
struct mha_rounding {
    double unit, smallest;
};

struct mha_rounding mha_rounding_of(enum mha_npy_type type);

#endif
