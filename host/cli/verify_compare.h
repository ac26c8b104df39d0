/*
 * Is what the device computed what the case recorded?
 *
 * The bound of one element, with `want` the recorded value and the largest |want| taken over the
 * finite elements of the output:
 *
 *     2 u |want| + s + tolerance * largest |want|
 *
 * - 2 u |want| + s: computed and recorded value were each rounded to the output's type, so that two
 *   nearly equal numbers may end one unit in the last place apart. u is the type's unit round-off
 *   (f32 2^-24, f16 2^-11, bf16 2^-8), s its smallest subnormal.
 * - tolerance * largest |want|: the device's own single precision arithmetic. The default is 2^-20,
 *   16 units of round-off: what the library promises (see gpu_mha.h) is 8 + 8 a[j] units for scores
 *   whose products sum to a[j] in magnitude, and recorded cases have a[j] of about 1.
 *
 * Outputs whose elements are only moved must be equal. A recorded NaN wants a NaN, an infinity that
 * infinity.
 */
#ifndef MHA_CLI_VERIFY_COMPARE_H
#define MHA_CLI_VERIFY_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "npy.h"

#define MHA_DEFAULT_TOLERANCE 0x1p-20

struct mha_comparison {
    /* The element whose error takes the largest part of its bound; the first one on a tie. */
    size_t worst;
    double want, got;
    double error; /* |got - want|; infinite where only equality would do */
    double bound;
    size_t misses; /* elements over their bound */
};

/*
 * Compares two arrays of the same float type and shape; `exact` leaves no room for an error.
 * False: out of memory.
 */
bool mha_compare(const struct mha_npy *want, const struct mha_npy *got, bool exact,
                 double tolerance, struct mha_comparison *result);

#endif
