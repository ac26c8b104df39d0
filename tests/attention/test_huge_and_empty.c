/*
 * test_huge_and_empty.c - a length of 0 makes nothing of the largest others, whatever their order;
 * without it they are refused.
 */
#include "attention/problem.h"
#include "harness/assertions.h"

#include <string.h>

#define HUGE_LENGTH (INT64_C(1) << 40)

#define ASSERT_OK(call) ck_assert_msg((call) == GPU_MHA_OK, "%s", gpu_mha_last_error())

/* The product of B and H alone is 2^80. */
static gpu_mha_desc huge(void)
{
    return (gpu_mha_desc){.B = HUGE_LENGTH,
                          .H = HUGE_LENGTH,
                          .HKV = 4,
                          .NQ = 0,
                          .NK = 3,
                          .DK = 5,
                          .DV = 7,
                          .lse = 1,
                          .scores = GPU_MHA_SCORES_RAW,
                          .mask.type = GPU_MHA_MASK_BOOL,
                          .bias.type = GPU_MHA_MASK_F16};
}

START_TEST(counts_of_no_queries_are_zero)
{
    gpu_mha_desc desc = huge();
    struct mha_problem p;
    desc.weights = (gpu_mha_weights)_i;
    ASSERT_OK(gpu_mha_desc_check(&desc));
    ASSERT_OK(mha_problem_read(&desc, &p));
    ck_assert(p.empty_output);
    ck_assert_int_eq(mha_problem_lse_count(&p), 0);
    ck_assert_int_eq(mha_problem_scores_count(&p), 0);
    ck_assert_int_eq(mha_problem_weights_count(&p), 0);
    ck_assert_int_eq(p.query.span, 0);
    ck_assert_int_eq(p.output.span, 0);
    ck_assert_int_eq(p.mask.span, 0);
    ck_assert_int_eq(p.bias.span, 0);
}
END_TEST

START_TEST(one_query_is_too_many)
{
    gpu_mha_desc desc = huge();
    desc.NQ = 1;
    ck_assert_int_eq(gpu_mha_desc_check(&desc), GPU_MHA_INVALID);
    ck_assert_msg(strstr(gpu_mha_last_error(), "than this machine can address") != NULL, "%s",
                  gpu_mha_last_error());
}
END_TEST

/* Without keys no array has an element, so all may be absent. */
START_TEST(calls_succeed)
{
    gpu_mha_desc desc = huge();
    gpu_mha_plan *plan = NULL;
    desc.NK = 0;
    ASSERT_OK(gpu_mha(NULL, &desc, &(gpu_mha_arrays){0}));
    ASSERT_OK(gpu_mha_plan_create(NULL, &desc, &plan));
    ck_assert_uint_eq(gpu_mha_plan_workspace_bytes(plan), 0);
    gpu_mha_plan_release(plan);

    const gpu_mha_merge_desc merge = {
        .B = HUGE_LENGTH, .H = HUGE_LENGTH, .NQ = 0, .DV = HUGE_LENGTH};
    ASSERT_OK(gpu_mha_merge(NULL, &merge, &(gpu_mha_merge_arrays){0}));
    const gpu_mha_rotary_desc rotary = {
        .B = HUGE_LENGTH, .H = HUGE_LENGTH, .N = 0, .D = HUGE_LENGTH};
    ASSERT_OK(gpu_mha_rotary(NULL, &rotary, &(gpu_mha_rotary_arrays){0}));
    const gpu_mha_cache_desc cache = {
        .B = HUGE_LENGTH, .H = HUGE_LENGTH, .N = 0, .NC = 0, .D = HUGE_LENGTH};
    ASSERT_OK(gpu_mha_cache_update(NULL, &cache, &(gpu_mha_cache_arrays){0}));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("huge and empty");
    TCase *tcase = tcase_create("huge and empty");
    tcase_add_loop_test(tcase, counts_of_no_queries_are_zero, 0, 3);
    tcase_add_test(tcase, one_query_is_too_many);
    tcase_add_test(tcase, calls_succeed);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
