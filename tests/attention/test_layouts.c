/*
 * test_layouts.c - every layout of every tensor, as strides and offsets into larger buffers.
 */
#include "harness/attention_run.h"

#include <check.h>
#include <stdlib.h>

static const gpu_mha_method methods[] = {GPU_MHA_FUSED, GPU_MHA_STAGED};

static struct attention_spec problem(gpu_mha_method method)
{
    return (struct attention_spec){.desc = {.B = 3,
                                            .H = 6,
                                            .HKV = 2,
                                            .NQ = 14,
                                            .NK = 37,
                                            .NP = 11,
                                            .DK = 8,
                                            .DV = 5,
                                            .lse = 1,
                                            .causal = 1,
                                            .offset_kind = GPU_MHA_BOTTOM_RIGHT,
                                            .key_lengths = GPU_MHA_I32,
                                            .method = method},
                                   .seed = 5,
                                   .host_call = 1};
}

/* Each input in turn has each layout, the others stay as they are. */
START_TEST(each_input_has_each_layout)
{
    struct attention_spec spec = problem(methods[_i]);
    enum attention_layout *const tensors[] = {&spec.query, &spec.key, &spec.value, &spec.past_key,
                                              &spec.past_value};

    for (size_t t = 0; t < sizeof(tensors) / sizeof(tensors[0]); t++) {
        for (int layout = ATTENTION_BHND; layout <= ATTENTION_ONE_ROW; layout++) {
            *tensors[t] = (enum attention_layout)layout;
            spec.seed++;
            attention_check(&spec, NULL);
        }
        *tensors[t] = ATTENTION_BHND;
    }
}
END_TEST

START_TEST(the_output_has_each_layout)
{
    struct attention_spec spec = problem(methods[_i]);

    for (int type = GPU_MHA_F32; type <= GPU_MHA_BF16; type++) {
        for (int layout = ATTENTION_BHND; layout <= ATTENTION_PADDED_BNHD; layout++) {
            spec.desc.output.type = (gpu_mha_type)type;
            spec.output = (enum attention_layout)layout;
            attention_check(&spec, NULL);
        }
    }
}
END_TEST

/* All six tensors differ from each other: strides of one taken for another's show. */
START_TEST(layouts_mix)
{
    for (int n = 0; n < 28; n++) {
        struct attention_spec spec = problem(methods[_i]);
        spec.seed = 100 + (uint64_t)n;
        spec.query = (enum attention_layout)(n % 7);
        spec.key = (enum attention_layout)((n + 1 + n / 7) % 7);
        spec.value = (enum attention_layout)((2 * n + 2) % 7);
        spec.past_key = (enum attention_layout)((3 * n + 3) % 7);
        spec.past_value = (enum attention_layout)((5 * n + 5) % 7);
        spec.output = (enum attention_layout)((n + n / 4) % 4);
        spec.desc.key.type = (gpu_mha_type)(n % 3);
        spec.desc.past_value.type = (gpu_mha_type)(n / 3 % 3);
        spec.out_of_order = n % 2;
        attention_check(&spec, NULL);
    }
}
END_TEST

START_TEST(query_key_and_value_share_rows)
{
    const int64_t heads[][2] = {{1, 1}, {6, 2}, {5, 5}};

    for (int n = 0; n < 9; n++) {
        struct attention_spec spec = problem(methods[_i]);
        spec.desc.H = heads[n % 3][0];
        spec.desc.HKV = heads[n % 3][1];
        spec.desc.NK = spec.desc.NQ;
        spec.desc.NP = n == 4 ? 9 : 0;
        spec.desc.query.type = spec.desc.key.type = spec.desc.value.type = (gpu_mha_type)(n / 3);
        spec.query = spec.key = spec.value = ATTENTION_QKV;
        spec.output = ATTENTION_BNHD;
        attention_check(&spec, NULL);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layouts");
    TCase *tcase = tcase_create("layouts");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, attention_open, attention_close);
    tcase_add_loop_test(tcase, each_input_has_each_layout, 0, 2);
    tcase_add_loop_test(tcase, the_output_has_each_layout, 0, 2);
    tcase_add_loop_test(tcase, layouts_mix, 0, 2);
    tcase_add_loop_test(tcase, query_key_and_value_share_rows, 0, 2);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
