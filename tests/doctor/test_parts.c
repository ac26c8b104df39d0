/*
 * test_parts.c - how gpu-mha doctor judges results, and what it leaves out of a report.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "doctor.h"
#include "harness/assertions.h"
#include "harness/storage.h"

/* One element of f32: wanted, got, and how far it may be off besides rounding. */
static struct mha_doctor_finding judge(double want, double slack, float got)
{
    struct mha_doctor_output output;
    struct mha_doctor_finding finding = {.verdict = GPU_MHA_VERDICT_NONE};

    ck_assert(mha_doctor_output_make(&output, GPU_MHA_F32, 1));
    mha_doctor_want(&output, 0, want, slack);
    memcpy(output.data, &got, sizeof got);
    mha_doctor_judge(&output, &finding);
    mha_doctor_output_free(&output);
    return finding;
}

/* 1 with a slack of 2^-20 may be off by 2^-20 and its own rounding, 2^-24 and half a subnormal. */
START_TEST(an_element_is_held_to_its_bound)
{
    struct mha_doctor_finding finding = judge(1, 0x1p-20, 1.0f + 0x1p-20f);
    ck_assert_int_eq(finding.verdict, GPU_MHA_VERDICT_OK);
    ASSERT_DOUBLE_SAME(finding.error, 0x1p-20);
    ASSERT_DOUBLE_NEAR(finding.bound, 0x1p-20 + 0x1p-24, 0x1p-140);
    finding = judge(1, 0x1p-20, 1.0f + 0x1p-20f + 0x1p-23f);
    ck_assert_int_eq(finding.verdict, GPU_MHA_VERDICT_WRONG);
    ASSERT_DOUBLE_SAME(finding.error, 0x1p-20 + 0x1p-23);
    finding = judge(1, 0x1p-20, 1.0f - 0x1p-20f - 0x1p-23f);
    ck_assert_int_eq(finding.verdict, GPU_MHA_VERDICT_WRONG);
}
END_TEST

START_TEST(what_is_no_number_is_wrong)
{
    ck_assert_int_eq(judge(1, 1, NAN).verdict, GPU_MHA_VERDICT_WRONG);
    ck_assert_int_eq(judge(1, 1, INFINITY).verdict, GPU_MHA_VERDICT_WRONG);
    ck_assert_int_eq(judge(-INFINITY, 0, -INFINITY).verdict, GPU_MHA_VERDICT_OK);
    ck_assert_int_eq(judge(-INFINITY, 0, INFINITY).verdict, GPU_MHA_VERDICT_WRONG);
    ck_assert_int_eq(judge(-INFINITY, 0, 0).verdict, GPU_MHA_VERDICT_WRONG);
}
END_TEST

START_TEST(a_copy_may_differ_in_nothing)
{
    ck_assert_int_eq(judge(0.5, 0, 0.5f).verdict, GPU_MHA_VERDICT_OK);
    ck_assert_int_eq(judge(0.5, 0, nextafterf(0.5f, 1)).verdict, GPU_MHA_VERDICT_WRONG);
}
END_TEST

/* An output that no kernel has written to. */
START_TEST(an_output_left_alone_is_wrong_in_every_type)
{
    for (int type = 0; type < MHA_DOCTOR_TYPES; type++) {
        struct mha_doctor_output output;
        struct mha_doctor_finding finding = {.verdict = GPU_MHA_VERDICT_NONE};
        ck_assert(mha_doctor_output_make(&output, (gpu_mha_type)type, 3));
        for (size_t i = 0; i < 3; i++) {
            mha_doctor_want(&output, i, 1, 1e30);
        }
        mha_doctor_judge(&output, &finding);
        ck_assert_int_eq(finding.verdict, GPU_MHA_VERDICT_WRONG);
        mha_doctor_output_free(&output);
    }
}
END_TEST

/* A verdict that is wrong stays wrong, whatever is judged after it. */
START_TEST(the_worst_element_stays)
{
    struct mha_doctor_output output;
    struct mha_doctor_finding finding = judge(1, 0x1p-20, 2.0f);
    const float right = 1;

    ck_assert(mha_doctor_output_make(&output, GPU_MHA_F32, 1));
    mha_doctor_want(&output, 0, 1, 0x1p-20);
    memcpy(output.data, &right, sizeof right);
    mha_doctor_judge(&output, &finding);
    ck_assert_int_eq(finding.verdict, GPU_MHA_VERDICT_WRONG);
    ASSERT_DOUBLE_SAME(finding.error, 1);
    mha_doctor_output_free(&output);
}
END_TEST

/* The numbers that a kernel is given are the ones that the reference computes with. */
START_TEST(inputs_are_what_they_are_stored_as)
{
    static const enum storage_type types[MHA_DOCTOR_TYPES] = {
        [GPU_MHA_F32] = STORAGE_F32, [GPU_MHA_F16] = STORAGE_F16, [GPU_MHA_BF16] = STORAGE_BF16};

    for (int type = 0; type < MHA_DOCTOR_TYPES; type++) {
        struct mha_doctor_array array;
        int differ = 0;
        ck_assert(mha_doctor_random(&array, (gpu_mha_type)type, 100, 7));
        for (int64_t i = 0; i < 100; i++) {
            const double value = array.values[i];
            ASSERT_DOUBLE_SAME(value, storage_load(types[type], array.data, i));
            ck_assert(value >= -1 && value <= 1);
            differ += i > 0 && value != array.values[0];
        }
        ck_assert_int_gt(differ, 90);
        mha_doctor_free(&array);
    }
}
END_TEST

/*
 * Query 0: all weights are equal. Two keys of three are seen, for causal and for the key length,
 * and the values are 1, 2, 3: the mean is 1.5, the LSE log 2.
 */
START_TEST(the_reference_sees_what_the_masks_leave)
{
    static const double query[2] = {0, 0}, key[3] = {5, 6, 7}, value[3] = {1, 2, 3};
    static const int32_t lengths[] = {2};
    static const uint8_t mask[] = {1, 1, 1, 0, 1, 1};
    struct mha_doctor_problem problem = {
        .desc = {.B = 1, .H = 1, .HKV = 1, .NQ = 2, .NK = 3, .DK = 1, .DV = 1, .causal = 1}};
    struct mha_doctor_output output, lse;

    ck_assert(mha_doctor_output_make(&output, GPU_MHA_F32, 2));
    ck_assert(mha_doctor_output_make(&lse, GPU_MHA_F32, 2));
    mha_doctor_reference(&problem, query, key, value, &output, &lse);
    ASSERT_DOUBLE_SAME(output.values[0], 1);
    ASSERT_DOUBLE_SAME(output.values[1], 1.5);
    ASSERT_DOUBLE_NEAR(lse.values[1], log(2), 1e-15);
    problem.desc.causal = 0;
    problem.desc.key_lengths = GPU_MHA_I32;
    problem.lengths = lengths;
    mha_doctor_reference(&problem, query, key, value, &output, &lse);
    ASSERT_DOUBLE_SAME(output.values[0], 1.5);
    problem.mask = mask;
    mha_doctor_reference(&problem, query, key, value, &output, &lse);
    ASSERT_DOUBLE_SAME(output.values[0], 1.5);
    ASSERT_DOUBLE_SAME(output.values[1], 2);
    ASSERT_DOUBLE_SAME(lse.values[1], 0);
    mha_doctor_output_free(&output);
    mha_doctor_output_free(&lse);
}
END_TEST

static const struct {
    const char *text, *clean;
} texts[] = {
    {"nothing to hide", "nothing to hide"},
    {"in /home/ann/x.cl:3: no", "in *:3: no"},
    {"'/tmp/a b' and \"/usr/lib/y.so\"", "'* b' and \"*\""},
    {"~/.cache/x, ../up/y and ./z", "*, * and *"},
    {"-I/opt/inc, file:///etc/x", "-I*, file:*"},
    {"at src/ann/b.cl:7", "at *:7"},
    {"1/2 of 3 / 4, and/or", "1/2 of 3 / 4, and/or"},
    {"by ann77 on it, ann77's, joann77", "by * on it, *'s, joann77"},
    {"", ""},
};

START_TEST(a_sentence_loses_paths_and_names)
{
    char text[256];
    setenv("USER", "ann77", 1);
    strcpy(text, texts[_i].text);
    mha_doctor_clean(text);
    ck_assert_str_eq(text, texts[_i].clean);
}
END_TEST

START_TEST(a_sentence_loses_the_name_of_the_host)
{
    struct utsname system;
    char text[sizeof system.nodename + 16];
    ck_assert_int_ge(uname(&system), 0);
    snprintf(text, sizeof text, "on %s.", system.nodename);
    mha_doctor_clean(text);
    ck_assert_str_eq(text, strlen(system.nodename) > 1 ? "on *." : text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("the doctor's parts");
    TCase *tcase = tcase_create("parts");
    tcase_add_test(tcase, an_element_is_held_to_its_bound);
    tcase_add_test(tcase, what_is_no_number_is_wrong);
    tcase_add_test(tcase, a_copy_may_differ_in_nothing);
    tcase_add_test(tcase, an_output_left_alone_is_wrong_in_every_type);
    tcase_add_test(tcase, the_worst_element_stays);
    tcase_add_test(tcase, inputs_are_what_they_are_stored_as);
    tcase_add_test(tcase, the_reference_sees_what_the_masks_leave);
    tcase_add_loop_test(tcase, a_sentence_loses_paths_and_names, 0,
                        (int)(sizeof texts / sizeof texts[0]));
    tcase_add_test(tcase, a_sentence_loses_the_name_of_the_host);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
