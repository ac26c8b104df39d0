/*
 * compare.c - see compare.h.
 */
#include "compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Sums over the elements that have statistics. */
struct sums {
    int64_t count;
    double ratio, error_squares, bound_squares, want_squares;
};

static void add_text(struct compare_report *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_text(struct compare_report *r, const char *format, ...)
{
    size_t used = strlen(r->text);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(r->text + used, sizeof(r->text) - used, format, args);
    va_end(args);
}

/* "[1,0,12,3]" */
static void add_index(struct compare_report *r, int rank, const int64_t *dims, int64_t flat)
{
    int64_t index[COMPARE_MAX_RANK];

    for (int n = rank - 1; n >= 0; n--) {
        index[n] = flat % dims[n];
        flat /= dims[n];
    }
    for (int n = 0; n < rank; n++) {
        add_text(r, "%c%" PRId64, n == 0 ? '[' : ',', index[n]);
    }
    add_text(r, "]");
}

/* |error| / bound; Inf where no bound can excuse the value. */
static double miss_ratio(double got, double want, double bound)
{
    if (isnan(want) || isnan(got)) {
        return isnan(want) && isnan(got) ? 0 : (double)INFINITY;
    }
    if (got == want) {
        return 0;
    }
    if (isinf(want) || isinf(got) || !(bound > 0)) { /* a NaN bound excuses nothing */
        return (double)INFINITY;
    }
    return fabs(got - want) / bound;
}

static void add_sums(struct sums *s, double got, double want, double bound)
{
    if (!isfinite(got) || !isfinite(want) || !isfinite(bound) || !(bound > 0)) {
        return;
    }
    s->count++;
    s->ratio += (got - want) / bound;
    s->error_squares += (got - want) * (got - want);
    s->bound_squares += bound * bound;
    s->want_squares += want * want;
}

static void add_element(struct compare_report *r, const char *which, int rank, const int64_t *dims,
                        int64_t at, const double *got, const double *want, const double *bound)
{
    add_text(r, "; %s ", which);
    add_index(r, rank, dims, at);
    add_text(r, " got %.9g, want %.9g, error %.3g, bound %.3g", got[at], want[at],
             fabs(got[at] - want[at]), bound ? bound[at] : 0);
}

int compare_elements(const char *name, int rank, const int64_t *dims, const double *got,
                     const double *want, const double *bound, struct compare_report *report)
{
    struct sums sums = {0};

    *report = (struct compare_report){.first = -1, .worst = -1, .count = 1};
    if (rank < 0 || rank > COMPARE_MAX_RANK) {
        add_text(report, "%s: rank %d, but at most %d can be compared", name, rank,
                 COMPARE_MAX_RANK);
        return 1;
    }
    for (int n = 0; n < rank; n++) {
        report->count *= dims[n];
    }

    for (int64_t n = 0; n < report->count; n++) {
        double ratio = miss_ratio(got[n], want[n], bound ? bound[n] : 0);
        if (ratio > 1) {
            report->failures++;
            if (report->first < 0) {
                report->first = n;
            }
        }
        if (report->worst < 0 || ratio > report->worst_ratio) {
            report->worst = n;
            report->worst_ratio = ratio;
        }
        add_sums(&sums, got[n], want[n], bound ? bound[n] : 0);
    }
    if (sums.count > 0) {
        report->mean_ratio = sums.ratio / (double)sums.count;
        report->l2_ratio = sqrt(sums.error_squares / sums.bound_squares);
        if (sums.want_squares > 0) {
            report->relative_l2 = sqrt(sums.error_squares / sums.want_squares);
        }
    }
    if (report->failures == 0) {
        return 0;
    }

    add_text(report, "%s: %" PRId64 " of %" PRId64 " elements miss their bound", name,
             report->failures, report->count);
    add_element(report, "first", rank, dims, report->first, got, want, bound);
    if (report->worst != report->first) {
        add_element(report, "worst", rank, dims, report->worst, got, want, bound);
    }
    return 1;
}

int compare_arrays(const char *name, int rank, const int64_t *dims, const double *got,
                   const double *want, const double *bound, struct compare_report *report)
{
    int bad = compare_elements(name, rank, dims, got, want, bound, report);

    if (report->count < COMPARE_STATISTICS_FROM) {
        return bad;
    }
    if (fabs(report->mean_ratio) > COMPARE_MEAN_LIMIT) {
        add_text(report,
                 "%s%s: errors lean to one side, mean error / bound is %.3g, at most %.3g "
                 "is allowed",
                 bad ? "; " : "", name, report->mean_ratio, COMPARE_MEAN_LIMIT);
        bad = 1;
    }
    if (report->l2_ratio > COMPARE_L2_LIMIT) {
        add_text(report,
                 "%s%s: errors crowd at the bound, |error| / |bound| (L2) is %.3g, at most "
                 "%.3g is allowed, relative L2 is %.3g",
                 bad ? "; " : "", name, report->l2_ratio, COMPARE_L2_LIMIT, report->relative_l2);
        bad = 1;
    }
    return bad;
}

int64_t compare_bytes(const void *got, const void *want, int64_t size_bytes)
{
    const unsigned char *g = got, *w = want;

    for (int64_t n = 0; n < size_bytes; n++) {
        if (g[n] != w[n]) {
            return n;
        }
    }
    return -1;
}
