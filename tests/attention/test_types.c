/*
 * test_types.c - every mix of storage types, and numbers at the ends of their ranges.
 */
#include "harness/attention_run.h"

#include "harness/assertions.h"

#include <check.h>
#include <stdlib.h>

static const gpu_mha_method methods[] = {GPU_MHA_FUSED, GPU_MHA_STAGED};

static struct attention_spec problem(gpu_mha_method method)
{
    return (struct attention_spec){.desc = {.B = 2,
                                            .H = 4,
                                            .HKV = 2,
                                            .NQ = 9,
                                            .NK = 41,
                                            .DK = 8,
                                            .DV = 5,
                                            .lse = 1,
                                            .method = method},
                                   .seed = 9,
                                   .key = ATTENTION_PADDED,
                                   .output = ATTENTION_BNHD};
}

START_TEST(every_mix)
{
    struct attention_spec spec = problem(methods[_i]);

    for (int n = 0; n < 81; n++) {
        spec.desc.query.type = (gpu_mha_type)(n % 3);
        spec.desc.key.type = (gpu_mha_type)(n / 3 % 3);
        spec.desc.value.type = (gpu_mha_type)(n / 9 % 3);
        spec.desc.output.type = (gpu_mha_type)(n / 27);
        spec.seed++;
        spec.host_call = n % 5 == 0;
        attention_check(&spec, NULL);
    }
}
END_TEST

/* The past may have been stored in other types than what is new. */
START_TEST(every_mix_of_past_and_new)
{
    struct attention_spec spec = problem(methods[_i]);

    for (int n = 0; n < 81; n++) {
        spec.desc.NP = 1 + n;
        spec.desc.key.type = (gpu_mha_type)(n % 3);
        spec.desc.past_key.type = (gpu_mha_type)(n / 3 % 3);
        spec.desc.value.type = (gpu_mha_type)(n / 9 % 3);
        spec.desc.past_value.type = (gpu_mha_type)(n / 27);
        spec.desc.weights =
            methods[_i] == GPU_MHA_STAGED ? (gpu_mha_weights)(n % 3) : GPU_MHA_WEIGHTS_NONE;
        attention_check(&spec, NULL);
    }
}
END_TEST

/* Values of one size: the mean of equal numbers is that number, at either end of each type. */
START_TEST(the_ends_of_the_range)
{
    static const struct {
        gpu_mha_type type;
        uint32_t bits;
    } numbers[] = {
        {GPU_MHA_F16, 0x7bff},  /* 65504 */
        {GPU_MHA_F16, 0x0001},  /* 2^-24, the smallest subnormal */
        {GPU_MHA_F16, 0x03ff},  /* the largest subnormal */
        {GPU_MHA_BF16, 0x7b00}, /* 6.6e35: a sum over the keys still is a float */
        {GPU_MHA_BF16, 0x0080}, /* 2^-126, the smallest normal number */
        {GPU_MHA_F32, 0x7b000000}, {GPU_MHA_F32, 0x00800000},
    };
    for (size_t n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++) {
        struct attention_spec spec = problem(methods[_i]);
        struct attention_launch launch = {.poison = POISON_NAN};
        struct attention_outputs outputs;
        struct attention_data data;
        char error[ATTENTION_ERROR_SIZE];

        spec.desc.value.type = spec.desc.output.type = numbers[n].type;
        spec.desc.NK = 64; /* weights of 1/64: sums and means are exact */
        spec.fill = ATTENTION_UNIFORM;
        attention_data_make(&spec, &data);
        double x = storage_decode((enum storage_type)numbers[n].type, numbers[n].bits);
        struct attention_image *value = &data.images[ARRAY_VALUE];
        for (int64_t e = 0; e < value->elements; e++) {
            if (value->used[e]) {
                storage_store(value->type, value->bytes, e, x);
            }
        }
        ck_assert_msg(attention_run(attention_context, &data, launch, &outputs, error) == 0, "%s",
                      error);
        for (int64_t e = 0; e < spec.desc.B * spec.desc.H * spec.desc.NQ * spec.desc.DV; e++) {
            double got =
                storage_load(data.images[ARRAY_OUTPUT].type, outputs.arrays[ARRAY_OUTPUT], e);
            ASSERT_DOUBLE_NEAR(got, x, 4 * REF_U32 * x);
        }
        attention_outputs_free(&outputs);
        attention_data_free(&data);
    }
}
END_TEST

/* One key has the weight 1, so the output is its value, rounded once: to nearest, ties to even. */
START_TEST(outputs_are_rounded_to_nearest_even)
{
    for (int type = GPU_MHA_F16; type <= GPU_MHA_BF16; type++) {
        struct attention_spec spec = problem(methods[_i]);
        struct attention_launch launch = {.poison = POISON_NAN};
        struct attention_outputs outputs;
        struct attention_data data;
        char error[ATTENTION_ERROR_SIZE];

        spec.desc.NK = spec.desc.HKV = spec.desc.B = 1;
        spec.desc.output.type = (gpu_mha_type)type;
        spec.tile = "6,4,2,32"; /* a row is one whole vector and one element more */
        attention_use_tile(spec.tile);
        attention_data_make(&spec, &data);
        struct attention_image *value = &data.images[ARRAY_VALUE];
        double step = 2 * storage_unit_roundoff((enum storage_type)type); /* next to 1 */
        for (int64_t d = 0; d < spec.desc.DV; d++) {
            storage_store(value->type, value->bytes, layout_index(&value->layout, 0, 0, 0, d),
                          1 + ((double)d + 0.5) * step);
        }
        ck_assert_msg(attention_run(attention_context, &data, launch, &outputs, error) == 0, "%s",
                      error);
        for (int64_t e = 0; e < spec.desc.H * spec.desc.NQ * spec.desc.DV; e++) {
            int64_t even = (e % spec.desc.DV + 1) / 2 * 2; /* 0.5 -> 0, 1.5 -> 2, 2.5 -> 2 */
            ASSERT_DOUBLE_SAME(
                storage_load((enum storage_type)type, outputs.arrays[ARRAY_OUTPUT], e),
                1 + (double)even * step);
        }
        attention_outputs_free(&outputs);
        attention_data_free(&data);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("types");
    TCase *tcase = tcase_create("types");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, attention_open, attention_close);
    tcase_add_loop_test(tcase, every_mix, 0, 2);
    tcase_add_loop_test(tcase, every_mix_of_past_and_new, 0, 2);
    tcase_add_loop_test(tcase, the_ends_of_the_range, 0, 2);
    tcase_add_loop_test(tcase, outputs_are_rounded_to_nearest_even, 0, 2);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
