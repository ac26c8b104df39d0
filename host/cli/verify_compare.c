/* Comparison of computed with recorded arrays; see verify_compare.h. */
#include "verify_compare.h"

#include <math.h>
#include <stdlib.h>

/* The part of an element's bound that comes from the output's type. */
struct rounding {
    double unit, smallest;
};

static struct rounding type_rounding(enum mha_npy_type type)
{
    switch (type) {
    case MHA_NPY_F16:
        return (struct rounding){0x1p-11, 0x1p-24};
    case MHA_NPY_BF16:
        return (struct rounding){0x1p-8, 0x1p-133};
    default:
        return (struct rounding){0x1p-24, 0x1p-149};
    }
}

static double largest_magnitude(const double *values, size_t count)
{
    double largest = 0.0;

    for (size_t i = 0; i < count; i++) {
        if (isfinite(values[i]) && fabs(values[i]) > largest) {
            largest = fabs(values[i]);
        }
    }
    return largest;
}

static double element_error(double want, double got)
{
    if (isnan(want) || isnan(got)) {
        return isnan(want) && isnan(got) ? 0.0 : INFINITY;
    }
    if (isinf(want) || isinf(got)) {
        return want == got ? 0.0 : INFINITY;
    }
    return fabs(got - want);
}

static void compare(const double *want, const double *got, size_t count, struct rounding rounding,
                    double slack, struct mha_comparison *result)
{
    double worst_share = -1.0;

    for (size_t i = 0; i < count; i++) {
        double error = element_error(want[i], got[i]);
        double bound = slack + rounding.smallest +
                       (isfinite(want[i]) ? 2.0 * rounding.unit * fabs(want[i]) : 0.0);
        double share = bound > 0.0 ? error / bound : (error > 0.0 ? INFINITY : 0.0);
        if (error > bound) {
            result->misses++;
        }
        if (share > worst_share) {
            worst_share = share;
            result->worst = i;
            result->want = want[i];
            result->got = got[i];
            result->error = error;
            result->bound = bound;
        }
    }
}

bool mha_compare(const struct mha_npy *want, const struct mha_npy *got, bool exact,
                 double tolerance, struct mha_comparison *result)
{
    double *wanted = mha_npy_to_f64(want);
    double *computed = mha_npy_to_f64(got);
    bool ok = wanted && computed;

    *result = (struct mha_comparison){0};
    if (ok) {
        struct rounding rounding = {0.0, 0.0};
        double slack = 0.0;
        if (!exact) {
            rounding = type_rounding(want->type);
            slack = tolerance * largest_magnitude(wanted, want->count);
        }
        compare(wanted, computed, want->count, rounding, slack, result);
    }
    free(wanted);
    free(computed);
    return ok;
}
