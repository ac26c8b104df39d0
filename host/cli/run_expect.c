/*
 * gpu-mha run --expect: results against files of what they must be.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bound.h"
#include "run.h"

static const char *const names[MHA_RUN_RESULTS] = {[MHA_RUN_OUTPUT] = "output",
                                                   [MHA_RUN_LSE] = "lse",
                                                   [MHA_RUN_WEIGHTS] = "weights",
                                                   [MHA_RUN_SCORES] = "scores"};

struct expectation {
    const char *folder;
    char *error;
    size_t error_size;
};

/* Elements that are too far off, and the one that is so most. */
struct misses {
    size_t count, worst;
    double worst_share;
};

/* FOLDER/NAME.npy or FOLDER/NAME_bound.npy as f64; *values is NULL where there is no such file. */
static bool read_values(const struct expectation *e, enum mha_run_result result, const char *suffix,
                        const struct mha_npy *got, double **values)
{
    struct mha_npy array;
    struct stat status;
    char path[4096 + 64], shape[2][MHA_NPY_SHAPE_TEXT];

    *values = NULL;
    snprintf(path, sizeof path, "%.4096s/%s%s.npy", e->folder, names[result], suffix);
    if (stat(path, &status) != 0 && errno == ENOENT) {
        return true;
    }
    if (!mha_npy_read(path, &array, e->error, e->error_size)) {
        return false;
    }
    if (array.rank != got->rank ||
        memcmp(array.shape, got->shape, (size_t)got->rank * sizeof got->shape[0]) != 0) {
        mha_fail(e->error, e->error_size, "%s has shape %s, but the result has %s", path,
                 mha_npy_shape_text(array.rank, array.shape, shape[0], sizeof shape[0]),
                 mha_npy_shape_text(got->rank, got->shape, shape[1], sizeof shape[1]));
        mha_npy_free(&array);
        return false;
    }
    *values = mha_npy_to_f64(&array);
    mha_npy_free(&array);
    return *values || mha_fail(e->error, e->error_size, "out of memory for %s", path);
}

static struct misses find_misses(const double *got, const double *want, const double *bound,
                                 size_t count)
{
    struct misses misses = {0};

    for (size_t i = 0; i < count; i++) {
        double share = mha_share_of_bound(mha_error_of(want[i], got[i]), bound ? bound[i] : 0);
        misses.count += share > 1;
        if (share > misses.worst_share) {
            misses.worst_share = share;
            misses.worst = i;
        }
    }
    return misses;
}

static bool explain(const struct expectation *e, enum mha_run_result result,
                    const struct mha_npy *array, const struct misses *misses, double got,
                    double want, double bound)
{
    char where[MHA_NPY_SHAPE_TEXT];

    return mha_fail(e->error, e->error_size,
                    "%s: %zu of %zu elements are not as expected; the worst, %s, is %.9g where "
                    "%.9g is expected, error %.1e of %.1e",
                    names[result], misses->count, array->count,
                    mha_npy_element_text(array, misses->worst, where, sizeof where), got, want,
                    fabs(got - want), bound);
}

/* Counts the result in *compared if there is a file for it. */
static bool expect_result(const struct expectation *e, enum mha_run_result result,
                          const struct mha_npy *array, int *compared)
{
    double *want = NULL, *bound = NULL, *got = NULL;
    bool ok = read_values(e, result, "", array, &want) &&
              (!want || read_values(e, result, "_bound", array, &bound));

    if (ok && want) {
        got = mha_npy_to_f64(array);
        ok = got || mha_fail(e->error, e->error_size, "out of memory for the results");
    }
    if (got) {
        struct misses misses = find_misses(got, want, bound, array->count);
        size_t at = misses.worst;
        (*compared)++;
        ok = misses.count == 0 ||
             explain(e, result, array, &misses, got[at], want[at], bound ? bound[at] : 0);
    }
    free(got);
    free(bound);
    free(want);
    return ok;
}

bool mha_run_results_expect(const struct mha_run_results *results,
                            const struct mha_run_problem *problem,
                            const struct mha_run_options *options, char *error, size_t error_size)
{
    const struct expectation e = {options->expect, error, error_size};
    int compared = 0;

    if (!options->expect) {
        return true;
    }
    for (int r = 0; r < MHA_RUN_RESULTS; r++) {
        struct mha_npy array = mha_run_result_array(results, problem, (enum mha_run_result)r);
        if (array.data && !expect_result(&e, (enum mha_run_result)r, &array, &compared)) {
            return false;
        }
    }
    return compared > 0 ||
           mha_fail(error, error_size, "%s has no output.npy, nor a file of another result",
                    options->expect);
}
