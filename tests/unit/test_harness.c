/*
 * test_harness.c - the tools of the tests: each must accept what is right and fail on what is not.
 */
#include "harness/assertions.h"
#include "harness/canary.h"
#include "harness/layouts.h"
#include "harness/storage.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define INF ((double)INFINITY)

static const struct {
    enum storage_type type;
    double value;
    uint32_t bits;
} encodings[] = {
    {STORAGE_F16, 1, 0x3C00},
    {STORAGE_F16, -2, 0xC000},
    {STORAGE_F16, 65504, 0x7BFF},
    {STORAGE_F16, 65519.99, 0x7BFF}, /* below the middle to 65536 */
    {STORAGE_F16, 65520, 0x7C00},    /* the tie goes to even: Inf */
    {STORAGE_F16, 1e300, 0x7C00},
    {STORAGE_F16, 0x1p-24, 0x0001},          /* smallest subnormal */
    {STORAGE_F16, 0x1p-25, 0x0000},          /* tie to even: 0 */
    {STORAGE_F16, 0x1.8p-24, 0x0002},        /* tie to even: 2 units */
    {STORAGE_F16, 0x1.002p0, 0x3C00},        /* tie: down to the even fraction */
    {STORAGE_F16, 0x1.006p0, 0x3C02},        /* tie: up to the even fraction */
    {STORAGE_F16, 0x1.0020000001p0, 0x3C01}, /* just above a tie: f32 in between would lose it */
    {STORAGE_F16, 0x1.ffep0, 0x4000},        /* the fraction carries into the exponent */
    {STORAGE_F16, 0x1.ffcp-15, 0x0400},      /* a subnormal rounds up to the smallest normal */
    {STORAGE_F16, -0.0, 0x8000},
    {STORAGE_BF16, 1, 0x3F80},
    {STORAGE_BF16, 0x1.01p0, 0x3F80},
    {STORAGE_BF16, 0x1.03p0, 0x3F82},
    {STORAGE_BF16, 3.4e38, 0x7F80},
    {STORAGE_BF16, 0x1p-133, 0x0001},
    {STORAGE_F32, 0.1, 0x3DCCCCCD},
    {STORAGE_F32, -FLT_MAX, 0xFF7FFFFF},
    {STORAGE_F32, 0x1p-149, 0x00000001},
    {STORAGE_F32, 1e-300, 0x00000000},
};

START_TEST(encodings_round_to_nearest_even)
{
    for (size_t n = 0; n < sizeof(encodings) / sizeof(encodings[0]); n++) {
        ck_assert_msg(storage_encode(encodings[n].type, encodings[n].value) == encodings[n].bits,
                      "%s of %a is 0x%x, want 0x%x", storage_name(encodings[n].type),
                      encodings[n].value, storage_encode(encodings[n].type, encodings[n].value),
                      encodings[n].bits);
    }
}
END_TEST

START_TEST(every_16_bit_pattern_survives)
{
    const enum storage_type types[2] = {STORAGE_F16, STORAGE_BF16};

    for (int t = 0; t < 2; t++) {
        for (uint32_t bits = 0; bits <= 0xFFFF; bits++) {
            double x = storage_decode(types[t], bits);
            if (isnan(x)) {
                ck_assert(isnan(storage_round(types[t], x)));
            } else {
                ck_assert_msg(storage_encode(types[t], x) == bits, "%s 0x%x",
                              storage_name(types[t]), bits);
            }
        }
    }
}
END_TEST

START_TEST(f32_rounds_as_the_compiler_does)
{
    struct rng rng;

    rng_seed(&rng, 4);
    for (int n = 0; n < 20000; n++) {
        double x = rng_normal(&rng) * exp2(rng_uniform(&rng, -150, 127));
        uint32_t bits = storage_encode(STORAGE_F32, x), want;
        float narrowed = (float)x;
        memcpy(&want, &narrowed, sizeof(want));
        ck_assert_msg(bits == want, "f32 of %a is 0x%x, want 0x%x", x, bits, want);
        ASSERT_DOUBLE_SAME(storage_decode(STORAGE_F32, bits), narrowed);
    }
}
END_TEST

START_TEST(limits_of_the_types)
{
    ASSERT_DOUBLE_SAME(storage_unit_roundoff(STORAGE_F32), 0x1p-24);
    ASSERT_DOUBLE_SAME(storage_unit_roundoff(STORAGE_F16), 0x1p-11);
    ASSERT_DOUBLE_SAME(storage_unit_roundoff(STORAGE_BF16), 0x1p-8);
    ASSERT_DOUBLE_SAME(storage_smallest_subnormal(STORAGE_F32), 0x1p-149);
    ASSERT_DOUBLE_SAME(storage_smallest_subnormal(STORAGE_F16), 0x1p-24);
    ASSERT_DOUBLE_SAME(storage_smallest_subnormal(STORAGE_BF16), 0x1p-133);
    ASSERT_DOUBLE_SAME(storage_largest(STORAGE_F32), FLT_MAX);
    ASSERT_DOUBLE_SAME(storage_largest(STORAGE_F16), 65504);
    ASSERT_DOUBLE_SAME(storage_largest(STORAGE_BF16), 0x1.FEp127);
}
END_TEST

START_TEST(poison_is_seen)
{
    for (int t = 0; t < STORAGE_TYPE_COUNT; t++) {
        for (int kind = 0; kind < POISON_COUNT; kind++) {
            unsigned char cells[3 * 4 + 1];
            void *odd = cells + 1; /* unaligned on purpose */
            storage_poison((enum storage_type)t, odd, 3, (enum poison)kind);
            double x = storage_load((enum storage_type)t, odd, 2);
            ck_assert(kind == POISON_1000 ? x == storage_round((enum storage_type)t, 1000)
                                          : isnan(x));
            ck_assert(storage_is_poison((enum storage_type)t, odd, 1, (enum poison)kind));
            storage_store((enum storage_type)t, odd, 1, 2.5);
            ck_assert(!storage_is_poison((enum storage_type)t, odd, 1, (enum poison)kind));
            ck_assert(storage_is_poison((enum storage_type)t, odd, 2, (enum poison)kind));
        }
    }
}
END_TEST

START_TEST(random_numbers_have_their_moments)
{
    const int count = 100000;
    double *x = alloc_doubles(count), mean = 0, square = 0;
    struct rng rng, again;

    rng_seed(&rng, 7);
    rng_seed(&again, 7);
    fill_normal(&rng, x, count, 0, 1);
    ASSERT_DOUBLE_SAME(rng_normal(&again), x[0]);
    for (int n = 0; n < count; n++) {
        mean += x[n] / count;
        square += x[n] * x[n] / count;
    }
    ASSERT_DOUBLE_NEAR(mean, 0, 0.016); /* five standard errors */
    ASSERT_DOUBLE_NEAR(square, 1, 0.023);
    fill_uniform(&rng, x, count, -3, -1);
    for (int n = 0; n < count; n++) {
        ck_assert(x[n] >= -3 && x[n] < -1);
    }
    for (int n = 0; n < 1000; n++) {
        ck_assert_int_lt(rng_below(&rng, 5), 5);
    }
    free(x);
}
END_TEST

START_TEST(comparison_of_one_element)
{
    const struct {
        double got, want, bound;
        int bad;
    } cases[] = {
        {1.5, 1, 0.5, 0},     {1.75, 1, 0.5, 1},   {0.25, 1, 0.5, 1}, {1, 1, 0, 0},
        {1 + 1e-15, 1, 0, 1}, {NAN, NAN, 0, 0},    {1, NAN, INF, 1},  {NAN, 1, INF, 1},
        {INF, INF, 0, 0},     {-INF, INF, INF, 1}, {NAN, INF, 1, 1},  {INF, 1, INF, 1},
        {1e30, INF, INF, 1},  {2, 1, NAN, 1},      {1, 1, NAN, 0},    {0, -0.0, 0, 0},
        {2, 1, -1, 1},
    };
    const int64_t dims[1] = {1};
    struct compare_report report;

    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        int bad =
            compare_elements("x", 1, dims, &cases[n].got, &cases[n].want, &cases[n].bound, &report);
        ck_assert_msg(bad == cases[n].bad, "got %g, want %g, bound %g: %d", cases[n].got,
                      cases[n].want, cases[n].bound, bad);
        ck_assert_int_eq(report.text[0] != '\0', bad);
    }
}
END_TEST

START_TEST(report_names_first_and_worst)
{
    const int64_t dims[3] = {2, 3, 4};
    double got[24], want[24], bound[24];
    struct compare_report report;

    fill_constant(want, 24, 5);
    fill_constant(got, 24, 5);
    fill_constant(bound, 24, 0.25);
    got[7] = 5.5; /* [0,1,3] */
    got[22] = 4;  /* [1,2,2] */
    ck_assert_int_eq(compare_elements("scores", 3, dims, got, want, bound, &report), 1);
    ASSERT_I64_EQ(report.failures, 2);
    ASSERT_I64_EQ(report.first, 7);
    ASSERT_I64_EQ(report.worst, 22);
    ASSERT_DOUBLE_SAME(report.worst_ratio, 4);
    ck_assert_str_eq(report.text,
                     "scores: 2 of 24 elements miss their bound; first [0,1,3] got 5.5, want 5, "
                     "error 0.5, bound 0.25; worst [1,2,2] got 4, want 5, error 1, bound 0.25");
    got[7] = got[22] = 5;
    ck_assert_int_eq(compare_elements("scores", 3, dims, got, want, NULL, &report), 0);
    ck_assert_int_eq(compare_elements("deep", 6, dims, got, want, NULL, &report), 1);
}
END_TEST

START_TEST(statistics_notice_what_elements_do_not)
{
    const int64_t dims[1] = {2000}, few[1] = {1000};
    double *got = alloc_doubles(2000), *want = alloc_doubles(2000), *bound = alloc_doubles(2000);
    struct compare_report report;
    struct rng rng;

    rng_seed(&rng, 12);
    fill_normal(&rng, want, 2000, 0, 1);
    fill_constant(bound, 2000, 0x1p-10);
    for (int n = 0; n < 2000; n++) {
        got[n] = want[n] + rng_uniform(&rng, -1, 1) * bound[n];
    }
    ck_assert_msg(compare_arrays("even", 1, dims, got, want, bound, &report) == 0, "%s",
                  report.text);
    ASSERT_DOUBLE_NEAR(report.l2_ratio, 1 / sqrt(3), 0.05);

    for (int n = 0; n < 2000; n++) {
        got[n] = want[n] + 0.3 * bound[n];
    }
    ck_assert_int_eq(compare_elements("biased", 1, dims, got, want, bound, &report), 0);
    ck_assert_int_eq(compare_arrays("biased", 1, dims, got, want, bound, &report), 1);
    ck_assert_ptr_nonnull(strstr(report.text, "lean to one side"));
    ck_assert_int_eq(compare_arrays("biased", 1, few, got, want, bound, &report), 0);

    for (int n = 0; n < 2000; n++) {
        got[n] = want[n] + (n % 2 ? 0.9 : -0.9) * bound[n];
    }
    ck_assert_int_eq(compare_elements("crowded", 1, dims, got, want, bound, &report), 0);
    ck_assert_int_eq(compare_arrays("crowded", 1, dims, got, want, bound, &report), 1);
    ck_assert_ptr_nonnull(strstr(report.text, "crowd at the bound"));
    free(got);
    free(want);
    free(bound);
}
END_TEST

START_TEST(comparison_of_bytes)
{
    ASSERT_I64_EQ(compare_bytes("abcd", "abcd", 4), -1);
    ASSERT_I64_EQ(compare_bytes("abcd", "abXd", 4), 2);
    ASSERT_I64_EQ(compare_bytes("abcd", "abXd", 2), -1);
}
END_TEST

/* Changes one byte `where` from the array's start and expects the canary's verdict. */
static void expect_canary(int64_t where, int bad)
{
    struct canary c;
    ptrdiff_t found = 12345;

    ck_assert_int_eq(canary_alloc(&c, 100, 64), 0);
    ck_assert_int_eq(canary_check(&c, &found), 0);
    c.block[64 + where] ^= 1;
    ck_assert_int_eq(canary_check(&c, &found), bad);
    if (bad) {
        ASSERT_I64_EQ(found, where);
    }
    canary_free(&c);
}

START_TEST(canaries_die_of_one_byte)
{
    struct canary c;

    expect_canary(-64, 1);
    expect_canary(-1, 1);
    expect_canary(0, 0);
    expect_canary(99, 0);
    expect_canary(100, 1);
    expect_canary(163, 1);
    ck_assert_int_eq(canary_alloc(&c, 0, 0), 0);
    ck_assert_int_eq(canary_check(&c, NULL), 0);
    canary_free(&c);
    ck_assert_int_eq(canary_alloc(&c, SIZE_MAX - 8, 64), -1);
    canary_free(&c);
}
END_TEST

static const size_t guarded_sizes[] = {1, 100, 4096, 5000};

START_TEST(guarded_arrays_are_usable)
{
    struct guard g;

    for (size_t n = 0; n < sizeof(guarded_sizes) / sizeof(guarded_sizes[0]); n++) {
        for (int side = GUARD_BEHIND; side <= GUARD_BEFORE; side++) {
            ck_assert_int_eq(guard_alloc(&g, guarded_sizes[n], (enum guard_side)side), 0);
            memset(g.data, 1, guarded_sizes[n]);
            guard_free(&g);
        }
    }
    ck_assert_int_eq(guard_alloc(&g, 0, GUARD_BEHIND), 0);
    guard_free(&g);
    ck_assert_int_eq(guard_alloc(&g, SIZE_MAX, GUARD_BEHIND), -1);
    guard_free(&g);
}
END_TEST

static void die_by_default(void)
{
    /* A sanitizer's own handler would turn the signal into an exit code. */
    (void)signal(SIGSEGV, SIG_DFL);
}

/* Run once per size; the signal is the pass. */
START_TEST(one_byte_behind_crashes)
{
    struct guard g;

    die_by_default();
    ck_assert_int_eq(guard_alloc(&g, guarded_sizes[_i], GUARD_BEHIND), 0);
    *((volatile unsigned char *)g.data + guarded_sizes[_i]) = 1;
}
END_TEST

START_TEST(one_byte_before_crashes)
{
    struct guard g;

    die_by_default();
    ck_assert_int_eq(guard_alloc(&g, guarded_sizes[_i], GUARD_BEFORE), 0);
    *((volatile unsigned char *)g.data - 1) = 1;
}
END_TEST

START_TEST(layout_strides)
{
    struct layout l = layout_make(LAYOUT_BHND, 2, 3, 5, 4, 11);
    struct layout q, k, v;

    ASSERT_I64_EQ(l.stride_b, 60);
    ASSERT_I64_EQ(l.stride_h, 20);
    ASSERT_I64_EQ(l.stride_n, 4);
    ASSERT_I64_EQ(l.span, 131);
    l = layout_make(LAYOUT_BNHD, 2, 3, 5, 4, 0);
    ASSERT_I64_EQ(l.stride_h, 4);
    ASSERT_I64_EQ(l.stride_n, 12);
    ASSERT_I64_EQ(l.span, 120);
    ASSERT_I64_EQ(layout_index(&l, 1, 2, 3, 1), 60 + 36 + 8 + 1);
    l = layout_make(LAYOUT_BHND, 2, 3, 0, 4, 11);
    ASSERT_I64_EQ(l.span, 0);

    layout_make_qkv(2, 5, 4, 2, 3, 7, 1, &q, &k, &v); /* rows of 12 + 6 + 14 */
    ASSERT_I64_EQ(q.stride_n, 32);
    ASSERT_I64_EQ(v.stride_b, 160);
    ASSERT_I64_EQ(k.offset, 13);
    ASSERT_I64_EQ(v.offset, 19);
    ASSERT_I64_EQ(v.stride_h, 7);
    ASSERT_I64_EQ(v.span, 321);
}
END_TEST

START_TEST(layouts_round_trip_and_keep_their_gaps)
{
    double dense[2 * 3 * 5 * 4], back[2 * 3 * 5 * 4];

    for (int n = 0; n < 120; n++) {
        dense[n] = n + 1;
    }
    for (int kind = 0; kind < LAYOUT_COUNT; kind++) {
        struct layout l = layout_make((enum layout_kind)kind, 2, 3, 5, 4, 9);
        int64_t elements = l.span + 6;
        void *storage = layout_new(&l, STORAGE_F16, elements, POISON_FF, dense);
        ck_assert_ptr_nonnull(storage);
        layout_gather(&l, STORAGE_F16, storage, back);
        for (int n = 0; n < 120; n++) {
            ASSERT_DOUBLE_SAME(back[n], dense[n]);
        }
        ASSERT_DOUBLE_SAME(storage_load(STORAGE_F16, storage, layout_index(&l, 1, 2, 3, 1)),
                           ((1 * 3 + 2) * 5 + 3) * 4 + 1 + 1);
        ASSERT_I64_EQ(layout_first_changed_gap(&l, STORAGE_F16, storage, elements, POISON_FF), -1);
        storage_store(STORAGE_F16, storage, l.span, 0);
        ASSERT_I64_EQ(layout_first_changed_gap(&l, STORAGE_F16, storage, elements, POISON_FF),
                      l.span);
        storage_store(STORAGE_F16, storage, 8, 0);
        ASSERT_I64_EQ(layout_first_changed_gap(&l, STORAGE_F16, storage, elements, POISON_FF), 8);
        free(storage);
    }
}
END_TEST

START_TEST(padded_layouts_have_gaps_inside)
{
    for (int kind = LAYOUT_PADDED; kind <= LAYOUT_PADDED_BNHD; kind++) {
        struct layout l = layout_make((enum layout_kind)kind, 2, 3, 5, 4, 0);
        void *storage = layout_new(&l, STORAGE_F32, 0, POISON_NAN, NULL);
        ck_assert_ptr_nonnull(storage);
        storage_store(STORAGE_F32, storage, 4, 0); /* behind the first row */
        ASSERT_I64_EQ(layout_first_changed_gap(&l, STORAGE_F32, storage, l.span, POISON_NAN), 4);
        ck_assert(l.stride_b != 2 * l.stride_h && l.stride_h != 5 * l.stride_n &&
                  l.stride_n != 3 * l.stride_h);
        free(storage);
    }
}
END_TEST

START_TEST(qkv_shares_a_buffer_without_overlap)
{
    double q_dense[2 * 4 * 5 * 3], k_dense[2 * 2 * 5 * 3], v_dense[2 * 2 * 5 * 7];
    double back[2 * 2 * 5 * 7];
    struct layout q, k, v;
    void *storage;

    layout_make_qkv(2, 5, 4, 2, 3, 7, 1, &q, &k, &v);
    fill_constant(q_dense, 120, 1);
    fill_constant(k_dense, 60, 2);
    fill_constant(v_dense, 140, 3);
    storage = layout_new(&v, STORAGE_BF16, 0, POISON_NAN, v_dense);
    ck_assert_ptr_nonnull(storage);
    layout_scatter(&q, STORAGE_BF16, storage, q_dense);
    layout_scatter(&k, STORAGE_BF16, storage, k_dense);
    ASSERT_DOUBLE_SAME(storage_load(STORAGE_BF16, storage, 0), (double)NAN);
    for (int64_t n = 1; n < v.span; n++) {
        int64_t column = (n - 1) % 32;
        ASSERT_DOUBLE_SAME(storage_load(STORAGE_BF16, storage, n), column < 12   ? 1
                                                                   : column < 18 ? 2
                                                                                 : 3);
    }
    layout_gather(&v, STORAGE_BF16, storage, back);
    ASSERT_I64_EQ(compare_bytes(back, v_dense, sizeof(back)), -1);
    free(storage);
}
END_TEST

static Suite *harness_suite(void)
{
    const int sizes = (int)(sizeof(guarded_sizes) / sizeof(guarded_sizes[0]));
    Suite *suite = suite_create("harness");
    TCase *storage = tcase_create("storage");
    TCase *compare = tcase_create("compare");
    TCase *guards = tcase_create("guards");
    TCase *layouts = tcase_create("layouts");

    tcase_add_test(storage, encodings_round_to_nearest_even);
    tcase_add_test(storage, every_16_bit_pattern_survives);
    tcase_add_test(storage, f32_rounds_as_the_compiler_does);
    tcase_add_test(storage, limits_of_the_types);
    tcase_add_test(storage, poison_is_seen);
    tcase_add_test(storage, random_numbers_have_their_moments);
    suite_add_tcase(suite, storage);

    tcase_add_test(compare, comparison_of_one_element);
    tcase_add_test(compare, report_names_first_and_worst);
    tcase_add_test(compare, statistics_notice_what_elements_do_not);
    tcase_add_test(compare, comparison_of_bytes);
    suite_add_tcase(suite, compare);

    tcase_add_test(guards, canaries_die_of_one_byte);
    tcase_add_test(guards, guarded_arrays_are_usable);
    tcase_add_loop_test_raise_signal(guards, one_byte_behind_crashes, SIGSEGV, 0, sizes);
    tcase_add_loop_test_raise_signal(guards, one_byte_before_crashes, SIGSEGV, 0, sizes);
    suite_add_tcase(suite, guards);

    tcase_add_test(layouts, layout_strides);
    tcase_add_test(layouts, layouts_round_trip_and_keep_their_gaps);
    tcase_add_test(layouts, padded_layouts_have_gaps_inside);
    tcase_add_test(layouts, qkv_shares_a_buffer_without_overlap);
    suite_add_tcase(suite, layouts);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(harness_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
