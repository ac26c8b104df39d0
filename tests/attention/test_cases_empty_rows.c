/*
 * test_cases_empty_rows.c - rows without a visible key, scores far apart, very negative biases.
 *
 * The numbers of each case are ones that broke other libraries; the results follow from arithmetic.
 */
#include "harness/assertions.h"
#include "harness/probe.h"

#include <stdlib.h>
#include <string.h>

/* Head sizes of the tests that need none in particular: few, since each means kernels to build. */
#define SMALL .DK = 5, .DV = 3

static const char *const tiles[] = {NULL, "12,16,1,16", "6,8,2,16", "6,4,2,32", "1,4,2,2"};
#define TILE_COUNT ((int)(sizeof tiles / sizeof tiles[0]))

static void set_tile(int n)
{
    if (tiles[n]) {
        setenv("GPU_MHA_TILE", tiles[n], 1);
    } else {
        unsetenv("GPU_MHA_TILE");
    }
}

/* Case 1. */
START_TEST(a_row_whose_mask_is_all_false_is_0)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 1, .H = 2, .HKV = 2, .NQ = 6, .NK = 10, .DK = 8, .DV = 8});
    probe_give_mask(&p, GPU_MHA_MASK_BOOL, 2, (int64_t[]){6, 10});
    for (int n = 0; n < 60; n++) {
        p.mask[n] = n / 10 != 5 && n % 10 <= n / 10;
    }
    probe_want_rows(&p, (double[]){1, 1.5, 2, 2.5, 3, 0, 1, 1.5, 2, 2.5, 3, 0},
                    (double[]){0, log(2), log(3), log(4), log(5), -INFINITY, 0, log(2), log(3),
                               log(4), log(5), -INFINITY});
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 2: causal leaves j <= i, the mask j > i. */
START_TEST(masks_that_hide_all_keys_together_give_0)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 1, .H = 1, .HKV = 1, .NQ = 4, .NK = 4, SMALL, .causal = 1});
    probe_give_mask(&p, GPU_MHA_MASK_BOOL, 2, (int64_t[]){4, 4});
    for (int n = 0; n < 16; n++) {
        p.mask[n] = n % 4 > n / 4;
    }
    probe_want_rows(&p, (double[]){0, 0, 0, 0},
                    (double[]){-INFINITY, -INFINITY, -INFINITY, -INFINITY});
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 3: a first tile that is wholly hidden must not set the maximum to 0. */
START_TEST(a_hidden_first_tile_leaves_the_maximum_alone)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 1,
                                   .H = 14,
                                   .HKV = 2,
                                   .NQ = 88,
                                   .NK = 448,
                                   .DK = 64,
                                   .DV = 64,
                                   .causal = 1,
                                   .offset_kind = GPU_MHA_BOTTOM_RIGHT});
    double ones[14 * 88], lse[14 * 88];
    fill_constant(p.query, 14 * 88 * 64, 5);
    fill_constant(p.key, 2 * 448 * 64, -5);
    fill_constant(p.value, 2 * 448 * 64, 1);
    for (int row = 0; row < 14 * 88; row++) {
        ones[row] = 1;
        lse[row] = -200 + log(row % 88 + 361);
    }
    p.score_peak = 200;
    p.value_peak = 1;
    probe_want_rows(&p, ones, lse);
    probe_run(&p);
    /* The same with scores that a maximum of 0 would drown, after 300 hidden keys. */
    p.desc.has_window = 1;
    p.desc.window_left = 60;
    p.desc.window_right = -1;
    for (int row = 0; row < 14 * 88; row++) {
        p.want_lse[row] = -200 + log(61);
    }
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 4: the most negative finite bias of its type is a bias and hides nothing. */
START_TEST(a_very_negative_bias_hides_nothing)
{
    static const struct {
        gpu_mha_mask_type type;
        enum storage_type storage;
    } biases[] = {{GPU_MHA_MASK_F32, STORAGE_F32},
                  {GPU_MHA_MASK_F16, STORAGE_F16},
                  {GPU_MHA_MASK_BF16, STORAGE_BF16}};
    const double lowest = -storage_largest(biases[_i].storage);
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 1, .H = 1, .HKV = 1, .NQ = 3, .NK = 3, .DK = 4, .DV = 4});
    probe_give_mask(&p, biases[_i].type, 2, (int64_t[]){3, 3});
    for (int n = 0; n < 9; n++) {
        p.bias[n] = n < 3 ? lowest : 1;
    }
    probe_want_rows(&p, (double[]){2, 2, 2}, (double[]){lowest + log(3), 1 + log(3), 1 + log(3)});
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 5. */
START_TEST(causal_and_a_key_mask_intersect)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 1, .H = 1, .HKV = 1, .NQ = 7, .NK = 7, SMALL, .causal = 1});
    probe_give_mask(&p, GPU_MHA_MASK_BOOL, 1, (int64_t[]){7});
    memcpy(p.mask, (unsigned char[]){0, 1, 1, 0, 0, 1, 0}, 7);
    probe_want_rows(&p, (double[]){0, 2, 2.5, 2.5, 2.5, 11.0 / 3, 11.0 / 3},
                    (double[]){-INFINITY, 0, log(2), log(2), log(2), log(3), log(3)});
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 6: one score of 120 among zeros, wherever its tile ends. */
START_TEST(one_large_score_wins)
{
    static const int64_t lengths[] = {1, 2, 5, 17, 33, 63, 65, 1000, 1024, 1025};
    set_tile(_i);
    for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
        const int64_t NK = lengths[n], at = NK == 1024 ? 700 : NK * 7 / 10;
        struct probe p;
        probe_init(
            &p,
            &(gpu_mha_desc){
                .B = 1, .H = 1, .HKV = 1, .NQ = 7, .NK = NK, SMALL, .has_scale = 1, .scale = 1});
        double output[7], lse[7];
        fill_constant(p.key, NK * 5, 0);
        for (int i = 0; i < 7; i++) {
            p.query[i * 5 + 2] = 1;
            output[i] = (double)(at + 1);
            lse[i] = 120;
        }
        probe_key_row(&p, 0, 0, at)[2] = 120;
        p.score_peak = 120;
        probe_want_rows(&p, output, lse);
        probe_run(&p);
        for (int i = 0; i < 7; i++) {
            ASSERT_DOUBLE_SAME(p.output[i * 3], (double)(at + 1));
        }
        probe_free(&p);
    }
    set_tile(0);
}
END_TEST

/* Case 7: a hidden key has weight 0 exactly, and a value of 10000 does not shine through. */
START_TEST(hidden_weights_are_exactly_0)
{
    for (int weights = 0; weights < 2; weights++) {
        struct probe p;
        probe_init(&p, &(gpu_mha_desc){.B = 1,
                                       .H = 1,
                                       .HKV = 1,
                                       .NQ = 1,
                                       .NK = 4,
                                       SMALL,
                                       .has_scale = 1,
                                       .scale = 1,
                                       .weights = weights ? GPU_MHA_WEIGHTS_PER_HEAD : 0});
        fill_constant(p.key, 4 * 5, 0);
        p.query[4] = 1;
        for (int j = 0; j < 4; j++) {
            probe_key_row(&p, 0, 0, j)[4] = j + 1;
            fill_constant(probe_value_row(&p, 0, 0, j), 3, j == 0 ? 1 : 1e4);
        }
        probe_give_mask(&p, GPU_MHA_MASK_BOOL, 1, (int64_t[]){4});
        memcpy(p.mask, (unsigned char[]){1, 0, 0, 0}, 4);
        p.score_peak = 1;
        p.value_peak = 1;
        probe_want_rows(&p, (double[]){1}, (double[]){1});
        probe_run(&p);
        for (int e = 0; e < 3; e++) {
            ASSERT_DOUBLE_SAME(p.output[e], 1);
        }
        for (int j = 0; j < 4 && weights; j++) {
            ASSERT_DOUBLE_SAME(p.weights[j], j == 0);
        }
        probe_free(&p);
    }
}
END_TEST

/* Case 8: products of 128 * 65536, beyond what f16 holds. */
START_TEST(scores_beyond_f16_are_right)
{
    const double score = 128.0 * 256 * 256 / sqrt(128);
    for (int equal = 0; equal < 2; equal++) {
        struct probe p;
        probe_init(
            &p, &(gpu_mha_desc){.B = 1, .H = 1, .HKV = 1, .NQ = 5, .NK = 2, .DK = 128, .DV = 128});
        fill_constant(p.query, 5 * 128, 256);
        fill_constant(probe_key_row(&p, 0, 0, 0), 128, 256);
        fill_constant(probe_key_row(&p, 0, 0, 1), 128, equal ? 256 : -256);
        const double output = equal ? 1.5 : 1;
        probe_want_rows(&p, (double[]){output, output, output, output, output}, NULL);
        probe_run(&p);
        for (int i = 0; i < 5; i++) {
            ASSERT_DOUBLE_NEAR(p.lse[i], score + (equal ? log(2) : 0), 0x1p-24 * (8 + 5 * score));
        }
        probe_free(&p);
    }
}
END_TEST

/*
 * What a visible key holds comes out as arithmetic has it, and what a hidden one has as weight is 0
 * also beside a NaN.
 */
START_TEST(a_visible_nan_comes_out_and_hidden_keys_stay_0)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 1,
                                   .H = 1,
                                   .HKV = 1,
                                   .NQ = 3,
                                   .NK = 4,
                                   SMALL,
                                   .causal = 1,
                                   .weights = _i == 1 ? GPU_MHA_WEIGHTS_PER_HEAD : 0,
                                   .scores = _i == 2 ? GPU_MHA_SCORES_SOFTMAX : 0});
    fill_constant(probe_key_row(&p, 0, 0, 1), 5, NAN);
    probe_want_rows(&p, (double[]){1, NAN, NAN}, (double[]){0, NAN, NAN});
    double *want = alloc_doubles(12);
    memcpy(want, (double[]){1, 0, 0, 0, NAN, NAN, 0, 0, NAN, NAN, NAN, 0}, 12 * sizeof *want);
    if (_i == 1) {
        p.want_weights = want;
    } else {
        p.want_scores = want;
    }
    if (_i == 0) {
        p.want_scores = NULL;
    }
    probe_run(&p);
    if (_i == 0) {
        free(want);
    }
    probe_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("empty rows and infinities");
    TCase *cases = tcase_create("cases 1 to 8");
    tcase_add_test(cases, a_row_whose_mask_is_all_false_is_0);
    tcase_add_test(cases, masks_that_hide_all_keys_together_give_0);
    tcase_add_test(cases, a_hidden_first_tile_leaves_the_maximum_alone);
    tcase_add_loop_test(cases, a_very_negative_bias_hides_nothing, 0, 3);
    tcase_add_test(cases, causal_and_a_key_mask_intersect);
    tcase_add_loop_test(cases, one_large_score_wins, 0, TILE_COUNT);
    tcase_add_test(cases, hidden_weights_are_exactly_0);
    tcase_add_test(cases, scores_beyond_f16_are_right);
    tcase_add_loop_test(cases, a_visible_nan_comes_out_and_hidden_keys_stay_0, 0, 3);
    suite_add_tcase(suite, cases);
    return probe_main(suite);
}
