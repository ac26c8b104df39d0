/*
 * Measured times and their median.
 */
#include <math.h>
#include <stdlib.h>

#include "bench.h"
#include "report.h"

bool mha_bench_samples_add(struct mha_bench_samples *samples, double milliseconds)
{
    if (samples->count == samples->capacity) {
        size_t capacity = samples->capacity ? 2 * samples->capacity : 64;
        double *values = realloc(samples->values, capacity * sizeof *values);
        if (!values) {
            mha_report("out of memory for %zu times", capacity);
            return false;
        }
        samples->values = values;
        samples->capacity = capacity;
    }
    samples->values[samples->count++] = milliseconds;
    return true;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double mha_bench_samples_median(struct mha_bench_samples *samples)
{
    if (samples->count == 0) {
        return NAN;
    }
    qsort(samples->values, samples->count, sizeof *samples->values, compare);
    size_t middle = samples->count / 2;
    return samples->count % 2 ? samples->values[middle]
                              : (samples->values[middle - 1] + samples->values[middle]) / 2;
}

void mha_bench_samples_free(struct mha_bench_samples *samples)
{
    free(samples->values);
    *samples = (struct mha_bench_samples){0};
}
