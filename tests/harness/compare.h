/*
 * compare.h - an array against its reference and the bound of every element.
 *
 * No element may miss its bound: there is no budget of misses. NaN is wanted where the reference
 * has NaN and nowhere else; where it has an infinity, the same infinity is wanted.
 */
#ifndef MHA_TESTS_COMPARE_H
#define MHA_TESTS_COMPARE_H

#include <stdint.h>

#define COMPARE_MAX_RANK 5

/* From this many elements on, compare_arrays judges the errors as a whole, too. */
#define COMPARE_STATISTICS_FROM 1001

/* |mean of (got - want) / bound|: rounding errors of either sign cancel, a bias does not. */
#define COMPARE_MEAN_LIMIT 0.25

/* |got - want|_2 / |bound|_2. Storing alone takes up to 1/sqrt(3) of it (an error spread evenly
 * over half a unit in the last place); 0.75 admits that, and fails when errors crowd at the bound.
 * Divided by |want|_2 / |bound|_2 it is a limit on the relative L2 error. */
#define COMPARE_L2_LIMIT 0.75

struct compare_report {
    int64_t count;      /* elements compared */
    int64_t failures;   /* elements that miss */
    int64_t first;      /* flat index of the first miss, -1 = none */
    int64_t worst;      /* flat index of the largest |error| / bound, -1 = no element */
    double worst_ratio; /* that ratio; Inf for a wrong non-finite value or an error over bound 0 */
    double mean_ratio;  /* mean of (got - want) / bound over finite elements with a bound > 0 */
    double l2_ratio;    /* |got - want|_2 / |bound|_2 over the same elements */
    double relative_l2; /* |got - want|_2 / |want|_2 over the same elements; for the log */
    char text[640];     /* one sentence for each thing wrong; empty = all is well */
};

/*
 * Compares every element: got, want and bound have the shape dims[0..rank-1]; bound NULL = 0.
 * Returns 0 when all is well, else 1 and report->text. For data with few distinct values, whose
 * errors have no statistics.
 */
int compare_elements(const char *name, int rank, const int64_t *dims, const double *got,
                     const double *want, const double *bound, struct compare_report *report);

/* compare_elements, and the mean and the L2 norm of the errors when the array is large enough.
 * For random data. */
int compare_arrays(const char *name, int rank, const int64_t *dims, const double *got,
                   const double *want, const double *bound, struct compare_report *report);

/* Compares bytes: returns the index of the first byte that differs, or -1. */
int64_t compare_bytes(const void *got, const void *want, int64_t size_bytes);

#endif
