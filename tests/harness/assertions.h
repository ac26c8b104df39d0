/*
 * assertions.h - assertions for Check that print both values, where Check's own do not fit.
 *
 * Not named after the C header, which it would hide from anything compiled with this folder on
 * its include path.
 */
#ifndef MHA_TESTS_ASSERTIONS_H
#define MHA_TESTS_ASSERTIONS_H

#include "compare.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>

#define ASSERT_I64_EQ(got, want)                                                                   \
    do {                                                                                           \
        int64_t got_ = (got);                                                                      \
        int64_t want_ = (want);                                                                    \
        ck_assert_msg(got_ == want_, "%s is %" PRId64 ", want %s = %" PRId64, #got, got_, #want,   \
                      want_);                                                                      \
    } while (0)

#define ASSERT_HEX_EQ(got, want)                                                                   \
    do {                                                                                           \
        uint64_t got_ = (got);                                                                     \
        uint64_t want_ = (want);                                                                   \
        ck_assert_msg(got_ == want_, "%s is 0x%" PRIx64 ", want %s = 0x%" PRIx64, #got, got_,      \
                      #want, want_);                                                               \
    } while (0)

/* Equal values; NaN equals NaN, infinities equal themselves. */
#define ASSERT_DOUBLE_SAME(got, want)                                                              \
    do {                                                                                           \
        double got_ = (got);                                                                       \
        double want_ = (want);                                                                     \
        ck_assert_msg(got_ == want_ || (isnan(got_) && isnan(want_)),                              \
                      "%s is %.17g, want %s = %.17g", #got, got_, #want, want_);                   \
    } while (0)

/* Within `bound` of each other; a NaN never is, an infinity only of itself. */
#define ASSERT_DOUBLE_NEAR(got, want, bound)                                                       \
    do {                                                                                           \
        double got_ = (got);                                                                       \
        double want_ = (want);                                                                     \
        double bound_ = (bound);                                                                   \
        ck_assert_msg(got_ == want_ || fabs(got_ - want_) <= bound_,                               \
                      "%s is %.17g, want %s = %.17g within %.3g", #got, got_, #want, want_,        \
                      bound_);                                                                     \
    } while (0)

/* Every element within its bound, and for random data the statistics too: see compare.h. */
#define ASSERT_ELEMENTS(name, rank, dims, got, want, bound)                                        \
    do {                                                                                           \
        struct compare_report report_;                                                             \
        int bad_ = compare_elements((name), (rank), (dims), (got), (want), (bound), &report_);     \
        ck_assert_msg(!bad_, "%s", report_.text);                                                  \
    } while (0)

#define ASSERT_ARRAYS(name, rank, dims, got, want, bound)                                          \
    do {                                                                                           \
        struct compare_report report_;                                                             \
        int bad_ = compare_arrays((name), (rank), (dims), (got), (want), (bound), &report_);       \
        ck_assert_msg(!bad_, "%s", report_.text);                                                  \
    } while (0)

#endif
