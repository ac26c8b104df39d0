/*
 * What gpu-mha bench counts as work, against numbers counted by hand; and its medians.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "bench.h"

#define ASSERT_WORK(shape, pairs, keys, rows)                                                      \
    do {                                                                                           \
        struct mha_bench_work work = mha_bench_work_of(&(shape));                                  \
        const gpu_mha_desc *d = &(shape).desc;                                                     \
        /* f32 input, f16 output */                                                                \
        ck_assert_double_eq(work.flops, 2.0 * (pairs) * (double)(d->H * (d->DK + d->DV)));         \
        ck_assert_double_eq(work.bytes, (rows) * (double)(4 * d->DK + 2 * d->DV) +                 \
                                            4.0 * (keys) * (double)(d->HKV * (d->DK + d->DV)));    \
    } while (0)

static struct mha_bench_shape shape_of(int64_t B, int64_t NQ, int64_t NK)
{
    return (struct mha_bench_shape){
        .name = "test",
        .desc = {.B = B,
                 .H = 6,
                 .HKV = 2,
                 .NQ = NQ,
                 .NK = NK,
                 .DK = 5,
                 .DV = 7,
                 .output = {.type = GPU_MHA_F16}},
    };
}

START_TEST(all_keys_are_visible)
{
    struct mha_bench_shape shape = shape_of(3, 4, 9);
    ASSERT_WORK(shape, 3 * 4 * 9, 3 * 9, 3 * 6 * 4);
}
END_TEST

/* 4 queries, 9 keys: the rows see 6, 7, 8, 9 where the last sees all, else 1, 2, 3, 4. */
START_TEST(causal)
{
    struct mha_bench_shape shape = shape_of(3, 4, 9);
    shape.desc.causal = 1;
    ASSERT_WORK(shape, 3 * 10, 3 * 4, 3 * 6 * 4);
    shape.desc.offset_kind = GPU_MHA_BOTTOM_RIGHT;
    ASSERT_WORK(shape, 3 * 30, 3 * 9, 3 * 6 * 4);
}
END_TEST

/* 9 queries, 4 keys: the last row sees all keys, the first five see none. */
START_TEST(rows_without_a_key)
{
    struct mha_bench_shape shape = shape_of(1, 9, 4);
    shape.desc.causal = 1;
    shape.desc.offset_kind = GPU_MHA_BOTTOM_RIGHT;
    ASSERT_WORK(shape, 10, 4, 6 * 9);
}
END_TEST

/* Positions 5 to 8 of 9 keys, two to the left and one to the right: 3..6, 4..7, 5..8, 6..8. */
START_TEST(window)
{
    struct mha_bench_shape shape = shape_of(1, 4, 9);
    shape.desc.has_window = 1;
    shape.desc.window_left = 2;
    shape.desc.window_right = 1;
    shape.desc.offset_kind = GPU_MHA_BOTTOM_RIGHT;
    ASSERT_WORK(shape, 15, 6, 6 * 4);
    shape.desc.causal = 1; /* 3..5, 4..6, 5..7, 6..8 */
    ASSERT_WORK(shape, 12, 6, 6 * 4);
    shape.desc.causal = 0;
    shape.desc.window_left = -1;
    shape.desc.window_right = INT64_MAX;
    ASSERT_WORK(shape, 36, 9, 6 * 4);
    shape.desc.window_left = INT64_MAX;
    shape.desc.window_right = -1;
    ASSERT_WORK(shape, 36, 9, 6 * 4);
}
END_TEST

/* Lengths 3, 6 and 9 of 9. */
START_TEST(key_lengths)
{
    struct mha_bench_shape shape = shape_of(3, 4, 9);
    shape.desc.key_lengths = GPU_MHA_I32;
    shape.shortest = 3;
    ck_assert_int_eq(mha_bench_key_length(&shape, 0), 3);
    ck_assert_int_eq(mha_bench_key_length(&shape, 1), 6);
    ck_assert_int_eq(mha_bench_key_length(&shape, 2), 9);
    ASSERT_WORK(shape, 4 * 18, 18, 3 * 6 * 4);
    /* The last query at the last key: 1 + 2 + 3 of 3 keys, 3 + .. + 6, 6 + .. + 9. */
    shape.desc.causal = 1;
    shape.desc.offset_kind = GPU_MHA_BOTTOM_RIGHT;
    ASSERT_WORK(shape, 6 + 18 + 30, 18, 3 * 6 * 4);
}
END_TEST

/*
 * Width 10, 6 heads and 2 of keys, sizes 5 and 7: weights (30, 10), (10, 10), (14, 10), (10, 42)
 * and as many biases as rows; 3 * 4 rows of the input; all of 16 bits.
 */
START_TEST(layer)
{
    struct mha_bench_shape shape = shape_of(3, 4, 4);
    shape.width = 10;
    shape.desc.query.type = GPU_MHA_BF16;
    const double weights = 300 + 100 + 140 + 420, biases = 30 + 10 + 14 + 10;
    struct mha_bench_work work = mha_bench_work_of(&shape);
    ck_assert_double_eq(work.flops, 2.0 * (3 * 4 * 4) * 6 * (5 + 7) + 2.0 * 12 * weights);
    ck_assert_double_eq(work.bytes, 2 * (12 * 10 + weights + biases + 12 * 10));
}
END_TEST

START_TEST(default_shapes_are_right)
{
    size_t count;
    const struct mha_bench_shape *shapes = mha_bench_default_shapes(&count);
    ck_assert_uint_eq(count, 15);
    for (size_t i = 0; i < count; i++) {
        ck_assert_msg(gpu_mha_desc_check(&shapes[i].desc) == GPU_MHA_OK, "%s: %s", shapes[i].name,
                      gpu_mha_last_error());
        for (int64_t b = 0; b < shapes[i].desc.B; b++) {
            int64_t length = mha_bench_key_length(&shapes[i], b);
            ck_assert_int_ge(length, 1);
            ck_assert_int_le(length, shapes[i].desc.NK);
        }
    }
}
END_TEST

START_TEST(shapes_are_read)
{
    gpu_mha_desc desc = {0};
    ck_assert(mha_bench_shape_read("2,6,3,5,9,16", &desc));
    ck_assert_int_eq(desc.B, 2);
    ck_assert_int_eq(desc.H, 6);
    ck_assert_int_eq(desc.HKV, 3);
    ck_assert_int_eq(desc.NQ, 5);
    ck_assert_int_eq(desc.NK, 9);
    ck_assert_int_eq(desc.DK, 16);
    ck_assert_int_eq(desc.DV, 16);
    ck_assert(mha_bench_shape_read("2,6,3,5,9,16,24", &desc));
    ck_assert_int_eq(desc.DV, 24);
}
END_TEST

START_TEST(median_is_the_middle)
{
    static const double times[] = {7, 1, 5, 100};
    struct mha_bench_samples samples = {0};
    ck_assert(isnan(mha_bench_samples_median(&samples)));
    for (int i = 0; i < 3; i++) {
        ck_assert(mha_bench_samples_add(&samples, times[i]));
    }
    ck_assert_double_eq(mha_bench_samples_median(&samples), 5);
    ck_assert(mha_bench_samples_add(&samples, times[3]));
    ck_assert_double_eq(mha_bench_samples_median(&samples), 6);
    for (int i = 0; i < 1000; i++) {
        ck_assert(mha_bench_samples_add(&samples, 3));
    }
    ck_assert_double_eq(mha_bench_samples_median(&samples), 3);
    mha_bench_samples_free(&samples);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_work");
    TCase *work = tcase_create("work");

    tcase_add_test(work, all_keys_are_visible);
    tcase_add_test(work, causal);
    tcase_add_test(work, rows_without_a_key);
    tcase_add_test(work, window);
    tcase_add_test(work, key_lengths);
    tcase_add_test(work, layer);
    tcase_add_test(work, default_shapes_are_right);
    tcase_add_test(work, shapes_are_read);
    tcase_add_test(work, median_is_the_middle);
    suite_add_tcase(suite, work);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
