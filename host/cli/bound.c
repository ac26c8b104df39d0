/* See bound.h. */
#include "bound.h"

#include <math.h>

double mha_error_of(double want, double got)
{
    if (isnan(want) || isnan(got)) {
        return isnan(want) && isnan(got) ? 0.0 : INFINITY;
    }
    if (isinf(want) || isinf(got)) {
        return want == got ? 0.0 : INFINITY;
    }
    return fabs(got - want);
}

double mha_share_of_bound(double error, double bound)
{
    if (error == 0.0) {
        return 0.0;
    }
    return isfinite(error) && bound > 0.0 ? error / bound : INFINITY;
}

struct mha_rounding mha_rounding_of(enum mha_npy_type type)
{
    switch (type) {
    case MHA_NPY_F16:
        return (struct mha_rounding){0x1p-11, 0x1p-24};
    case MHA_NPY_BF16:
        return (struct mha_rounding){0x1p-8, 0x1p-133};
    default:
        return (struct mha_rounding){0x1p-24, 0x1p-149};
    }
}
