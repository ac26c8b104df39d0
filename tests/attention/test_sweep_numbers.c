/*
 * test_sweep_numbers.c - inputs that are hard on the arithmetic: long sums, scores that grow from
 * key to key, scores far apart, biases at the end of the range.
 */
#include "harness/attention_run.h"

#include "harness/assertions.h"

#include <check.h>
#include <stdlib.h>

static const char *const tiles[] = {"12,16,1,16", "6,8,2,16", "6,4,2,32", "1,4,2,2"};

/* Sums of thousands of terms of one sign, in which rounding errors add up. */
START_TEST(long_sums)
{
    static const gpu_mha_method methods[] = {GPU_MHA_FUSED, GPU_MHA_STAGED};

    for (int n = 0; n < 8; n++) {
        struct attention_spec spec = {.desc = {.B = 1,
                                               .H = 2,
                                               .HKV = 1,
                                               .NQ = 13,
                                               .NK = 4096,
                                               .DK = 8,
                                               .DV = 8,
                                               .lse = 1,
                                               .method = methods[n % 2]},
                                      .seed = 40 + (uint64_t)n,
                                      .tile = tiles[_i]};
        spec.fill = n < 2   ? ATTENTION_POSITIVE
                    : n < 4 ? ATTENTION_GROWING
                    : n < 6 ? ATTENTION_UNIFORM
                            : ATTENTION_NORMAL;
        attention_check(&spec, NULL);
    }
    for (int n = 0; n < 2; n++) { /* as long as a context of a language model */
        struct attention_spec spec = {.desc = {.B = 1,
                                               .H = 1,
                                               .HKV = 1,
                                               .NQ = 13,
                                               .NK = 65536,
                                               .DK = 8,
                                               .DV = 8,
                                               .lse = 1,
                                               .method = methods[n]},
                                      .fill = ATTENTION_POSITIVE,
                                      .tile = tiles[_i],
                                      .seed = 40};
        attention_check(&spec, NULL);
    }
}
END_TEST

/* Softmax of scores of some hundred: most weights are 0, and no exponential overflows. */
START_TEST(large_scores)
{
    for (int n = 0; n < 12; n++) {
        struct attention_spec spec = {
            .desc = {.B = 2, .H = 2, .HKV = 1, .NQ = 26, .NK = 200, .DK = 8, .DV = 8, .lse = 1},
            .seed = 60 + (uint64_t)n,
            .tile = tiles[_i]};
        spec.fill = n % 2 ? ATTENTION_LARGE : ATTENTION_GROWING;
        spec.desc.method = n % 4 < 2 ? GPU_MHA_FUSED : GPU_MHA_STAGED;
        spec.desc.scores = n % 4 < 2 ? GPU_MHA_SCORES_NONE : (gpu_mha_scores)(n / 3 + 1);
        spec.desc.has_scale = n > 5; /* growing becomes falling */
        spec.desc.scale = n > 5 ? -0.5f : 0.0f;
        spec.desc.sinks = n % 3 == 0;
        spec.desc.softcap = n == 9 ? 30.0f : 0.0f;
        attention_check(&spec, NULL);
    }
}
END_TEST

/* The lowest finite number of its type, as a bias, hides nothing: keys that have it are seen. */
START_TEST(lowest_finite_bias)
{
    for (int n = 0; n < 6; n++) {
        struct attention_spec spec = {
            .desc = {.B = 2, .H = 2, .HKV = 1, .NQ = 14, .NK = 45, .DK = 8, .DV = 8, .lse = 1},
            .seed = 80,
            .tile = tiles[_i]};
        struct attention_launch launch = {.poison = POISON_NAN};
        struct attention_outputs outputs;
        struct attention_data data;
        char error[ATTENTION_ERROR_SIZE];

        spec.desc.method = n % 2 ? GPU_MHA_STAGED : GPU_MHA_FUSED;
        spec.desc.bias.type = (gpu_mha_mask_type)(GPU_MHA_MASK_F32 + n / 2);
        spec.bias.full = 0x4; /* (NQ): a row has one bias, so the weights are those without it */
        spec.fill = ATTENTION_UNIFORM;
        attention_use_tile(spec.tile);
        attention_data_make(&spec, &data);
        struct attention_image *bias = &data.images[ARRAY_BIAS];
        double lowest = -storage_largest(bias->type);
        for (int64_t i = 0; i < spec.desc.NQ; i++) {
            storage_store(bias->type, bias->bytes, bias->layout.offset + i, lowest);
        }
        ck_assert_msg(attention_run(attention_context, &data, launch, &outputs, error) == 0, "%s",
                      error);
        for (int64_t e = 0; e < 2 * 2 * 14 * 8; e++) {
            ASSERT_DOUBLE_NEAR((double)((float *)outputs.arrays[ARRAY_OUTPUT])[e], 23.0,
                               16 * REF_U32 * 23); /* the mean of 1 to 45 */
        }
        for (int64_t e = 0; e < 2 * 2 * 14; e++) {
            ASSERT_DOUBLE_NEAR((double)((float *)outputs.arrays[ARRAY_LSE])[e], lowest + log(45),
                               5 * REF_U32 * fabs(lowest));
        }
        attention_outputs_free(&outputs);
        attention_data_free(&data);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sweep of numbers");
    TCase *tcase = tcase_create("numbers");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, attention_open, attention_close);
    tcase_add_loop_test(tcase, long_sums, 0, attention_tile_count(4));
    tcase_add_loop_test(tcase, large_scores, 0, attention_tile_count(4));
    tcase_add_loop_test(tcase, lowest_finite_bias, 0, attention_tile_count(4));
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
