/*
 * test_cases_geometry.c - causal, windows and their offsets; ALiBi, sinks and the soft cap.
 *
 * The numbers of each case are ones that broke other libraries; the results follow from arithmetic.
 */
#include "harness/assertions.h"
#include "harness/probe.h"

#include <stdlib.h>
#include <string.h>

#define SMALL .DK = 5, .DV = 3
#define ONE_HEAD .B = 1, .H = 1, .HKV = 1

/* Case 9. */
static const struct {
    int64_t NQ, NK;
    gpu_mha_offset_kind kind;
    int64_t offset;
    double rows[5];
} causal_cases[] = {
    {2, 5, GPU_MHA_BOTTOM_RIGHT, 0, {2.5, 3}},
    {5, 2, GPU_MHA_BOTTOM_RIGHT, 0, {0, 0, 0, 1, 1.5}},
    {1, 8, GPU_MHA_BOTTOM_RIGHT, 0, {4.5}},
    {2, 5, GPU_MHA_TOP_LEFT, 0, {1, 1.5}},
    {5, 2, GPU_MHA_TOP_LEFT, 0, {1, 1.5, 1.5, 1.5, 1.5}},
    {1, 8, GPU_MHA_TOP_LEFT, 0, {1}},
    {3, 6, GPU_MHA_OFFSET, 2, {2, 2.5, 3}},
    {3, 6, GPU_MHA_OFFSET, -1, {0, 1, 1.5}},
    {3, 6, GPU_MHA_OFFSET, -3, {0, 0, 0}},
    {3, 6, GPU_MHA_OFFSET, (int64_t)1 << 40, {3.5, 3.5, 3.5}},
    {3, 6, GPU_MHA_OFFSET, -((int64_t)1 << 40), {0, 0, 0}},
};

START_TEST(causal_sees_up_to_its_offset)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){ONE_HEAD, .NQ = causal_cases[_i].NQ, .NK = causal_cases[_i].NK,
                                   SMALL, .causal = 1, .offset_kind = causal_cases[_i].kind,
                                   .offset = causal_cases[_i].offset});
    double lse[5];
    /* The mean of 1 .. n is (n + 1) / 2. */
    for (int i = 0; i < 5; i++) {
        lse[i] = causal_cases[_i].rows[i] > 0 ? log(2 * causal_cases[_i].rows[i] - 1) : -INFINITY;
    }
    probe_want_rows(&p, causal_cases[_i].rows, lse);
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 10, and windows that open to the right, to both sides, to none. */
static const struct {
    int causal;
    int64_t left, right, offset;
    double rows[6];
} windows[] = {
    {0, 2, 0, 0, {1, 1.5, 2, 3, 4, 5}},
    {0, 5, 0, 0, {1, 1.5, 2, 2.5, 3, 3.5}},
    {0, -1, 0, 0, {1, 1.5, 2, 2.5, 3, 3.5}},
    {1, -1, -1, 0, {1, 1.5, 2, 2.5, 3, 3.5}},
    {1, 2, 3, 0, {1, 1.5, 2, 3, 4, 5}},
    {0, 0, 0, 0, {1, 2, 3, 4, 5, 6}},
    {0, 1, 1, 0, {1.5, 2, 3, 4, 5, 5.5}},
    {0, 0, -1, 0, {3.5, 4, 4.5, 5, 5.5, 6}},
    {0, -1, -1, 0, {3.5, 3.5, 3.5, 3.5, 3.5, 3.5}},
    {0, 0, 0, 2, {3, 4, 5, 6, 0, 0}},
    {0, 1, 0, -3, {0, 0, 0, 1, 1.5, 2.5}},
    {0, INT64_MAX, INT64_MAX, 0, {3.5, 3.5, 3.5, 3.5, 3.5, 3.5}},
};

START_TEST(windows_include_both_ends)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){ONE_HEAD, .NQ = 6, .NK = 6, SMALL, .causal = windows[_i].causal,
                                   .offset_kind = GPU_MHA_OFFSET, .offset = windows[_i].offset,
                                   .has_window = 1, .window_left = windows[_i].left,
                                   .window_right = windows[_i].right});
    probe_want_rows(&p, windows[_i].rows, NULL);
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* With key lengths the bottom right moves with each batch entry's length. */
START_TEST(bottom_right_follows_the_key_length)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 4,
                                   .H = 1,
                                   .HKV = 1,
                                   .NQ = 2,
                                   .NP = 3,
                                   .NK = 4,
                                   SMALL,
                                   .causal = 1,
                                   .offset_kind = GPU_MHA_BOTTOM_RIGHT});
    probe_give_lengths(&p, GPU_MHA_I64, (int64_t[]){7, 4, 1, 0});
    probe_want_rows(&p, (double[]){3.5, 4, 2, 2.5, 0, 1, 0, 0},
                    (double[]){log(6), log(7), log(3), log(4), -INFINITY, 0, -INFINITY, -INFINITY});
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 23. */
START_TEST(a_cap_leaves_hidden_keys_hidden)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){ONE_HEAD, .NQ = 2, .NK = 4, SMALL, .softcap = 1});
    probe_give_mask(&p, GPU_MHA_MASK_F32, 1, (int64_t[]){4});
    p.bias[3] = -INFINITY;
    for (int j = 0; j < 4; j++) {
        fill_constant(probe_value_row(&p, 0, 0, j), 3, j < 3 ? 1 : 1000);
    }
    p.value_peak = 1;
    probe_want_rows(&p, (double[]){1, 1}, (double[]){log(3), log(3)});
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 23: scores 10 and -10. */
START_TEST(caps_differ)
{
    static const float caps[] = {0, 5, 50};
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){ONE_HEAD, .NQ = 2, .NK = 2, SMALL, .has_scale = 1, .scale = 1,
                                   .softcap = caps[_i]});
    fill_constant(p.key, 10, 0);
    p.query[4] = p.query[9] = 1;
    p.key[4] = 10;
    p.key[9] = -10;
    const double s = _i == 0 ? 10 : caps[_i] * tanh(10 / (double)caps[_i]);
    const double weight = 1 / (1 + exp(-2 * s)), lse = s + log1p(exp(-2 * s));
    p.score_peak = 10;
    probe_want_rows(&p, (double[]){2 - weight, 2 - weight}, (double[]){lse, lse});
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* A scale of 0 and a negative one are taken as they stand. */
START_TEST(the_scale_is_literal)
{
    static const float scales[] = {0, -1, 0.25f};
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){ONE_HEAD, .NQ = 1, .NK = 2, SMALL, .has_scale = 1,
                                   .scale = scales[_i]});
    fill_constant(p.key, 10, 0);
    p.query[4] = 2;
    p.key[9] = 1;
    const double s = 2 * (double)scales[_i];
    p.score_peak = 2;
    probe_want_rows(&p, (double[]){(1 + 2 * exp(s)) / (1 + exp(s))}, (double[]){log1p(exp(s))});
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 24. */
#define SQRT_HALF 0.70710678118654752

static const struct {
    int64_t H;
    double slopes[12];
} published[] = {
    {1, {0.00390625}},
    {2, {0.0625, 0.00390625}},
    {8, {.5, .25, .125, .0625, .03125, .015625, .0078125, .00390625}},
    {6, {.25, .0625, .015625, .00390625, .5, .125}},
    {12,
     {.5, .25, .125, .0625, .03125, .015625, .0078125, .00390625, SQRT_HALF, SQRT_HALF / 2,
      SQRT_HALF / 4, SQRT_HALF / 8}},
};

START_TEST(alibi_has_the_published_slopes)
{
    const int64_t H = published[_i].H;
    float slopes[13];
    slopes[H] = 77;
    ck_assert_int_eq(gpu_mha_alibi_slopes(H, slopes), GPU_MHA_OK);
    for (int64_t h = 0; h < H; h++) {
        ASSERT_DOUBLE_SAME(slopes[h], (float)published[_i].slopes[h]);
    }
    ASSERT_DOUBLE_SAME(slopes[H], 77);

    for (int given = 0; given < 2; given++) {
        struct probe p;
        probe_init(&p,
                   &(gpu_mha_desc){.B = 2,
                                   .H = H,
                                   .HKV = 1,
                                   .NQ = 3,
                                   .NK = 7,
                                   SMALL,
                                   .offset_kind = given ? GPU_MHA_TOP_LEFT : GPU_MHA_BOTTOM_RIGHT,
                                   .alibi = GPU_MHA_ALIBI_SLOPES});
        p.slopes = malloc((size_t)H * sizeof *p.slopes);
        ck_assert_ptr_nonnull(p.slopes);
        memcpy(p.slopes, slopes, (size_t)H * sizeof *p.slopes);
        p.score_peak = 7;
        probe_want_uniform(&p);
        if (!given) {
            p.desc.alibi = GPU_MHA_ALIBI_AUTO;
            free(p.slopes);
            p.slopes = NULL;
        }
        probe_run(&p);
        probe_free(&p);
    }
}
END_TEST

/* A sink joins the sum and has no value; in a row without keys the LSE is the sink's. */
START_TEST(sinks_join_the_sum)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 2,
                                   .H = 4,
                                   .HKV = 2,
                                   .NQ = 3,
                                   .NK = 6,
                                   SMALL,
                                   .sinks = 1,
                                   .causal = 1,
                                   .offset_kind = GPU_MHA_OFFSET,
                                   .offset = -1});
    p.sinks = malloc(4 * sizeof *p.sinks);
    ck_assert_ptr_nonnull(p.sinks);
    memcpy(p.sinks, (float[]){0, 1.5f, -INFINITY, -200}, 4 * sizeof *p.sinks);
    p.score_peak = 1.5;
    probe_spread_values(&p);
    probe_want_uniform(&p);
    for (int64_t row = 0; row < 2 * 4 * 3; row += 3) {
        p.want_lse[row] = (double)p.sinks[row / 3 % 4];
    }
    probe_run(&p);
    probe_free(&p);
}
END_TEST

#define COUNT(array) ((int)(sizeof array / sizeof array[0]))

int main(void)
{
    Suite *suite = suite_create("causal, windows, caps, ALiBi and sinks");
    TCase *cases = tcase_create("cases 9, 10, 23 and 24");
    tcase_add_loop_test(cases, causal_sees_up_to_its_offset, 0, COUNT(causal_cases));
    tcase_add_loop_test(cases, windows_include_both_ends, 0, COUNT(windows));
    tcase_add_test(cases, bottom_right_follows_the_key_length);
    tcase_add_test(cases, a_cap_leaves_hidden_keys_hidden);
    tcase_add_loop_test(cases, caps_differ, 0, 3);
    tcase_add_loop_test(cases, the_scale_is_literal, 0, 3);
    tcase_add_loop_test(cases, alibi_has_the_published_slopes, 0, COUNT(published));
    tcase_add_test(cases, sinks_join_the_sum);
    suite_add_tcase(suite, cases);
    return probe_main(suite);
}
