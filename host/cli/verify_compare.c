/* Comparison of computed with recorded arrays; see verify_compare.h. */
#include "verify_compare.h"

#include <math.h>
#include <stdlib.h>

#include "bound.h"

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

static void compare(const double *want, const double *got, size_t count,
                    struct mha_rounding rounding, double slack, struct mha_comparison *result)
{
    double worst_share = -1.0;

    for (size_t i = 0; i < count; i++) {
        double error = mha_error_of(want[i], got[i]);
        double bound = slack + rounding.smallest +
                       (isfinite(want[i]) ? 2.0 * rounding.unit * fabs(want[i]) : 0.0);
        double share = mha_share_of_bound(error, bound);
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
        struct mha_rounding rounding = {0.0, 0.0};
        double slack = 0.0;
        if (!exact) {
            rounding = mha_rounding_of(want->type);
            slack = tolerance * largest_magnitude(wanted, want->count);
        }
        compare(wanted, computed, want->count, rounding, slack, result);
    }
    free(wanted);
    free(computed);
    return ok;
}
