/*
 * test_store.c - what the library makes of verdicts, set here by the public functions: what it
 * takes in the place of what failed, what it refuses where nothing is left, who else reads them.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpu_mha/gpu_mha.h>

#include "harness/known_run.h"

static gpu_mha_context *context;

static gpu_mha_context *open_context(void)
{
    gpu_mha_context *made = NULL;
    ck_assert_msg(!gpu_mha_context_create(NULL, &made), "%s", gpu_mha_last_error());
    return made;
}

static void setup(void)
{
    setenv("GPU_MHA_CACHE_DIR", "store", 1);
    unsetenv("GPU_MHA_TILE");
    context = open_context();
    ck_assert_int_eq(gpu_mha_verdict_forget(context), GPU_MHA_OK);
}

static void teardown(void)
{
    gpu_mha_verdict_forget(context);
    gpu_mha_context_release(context);
}

static void set(const char *name, gpu_mha_type type, gpu_mha_verdict verdict)
{
    ck_assert_int_eq(gpu_mha_verdict_set(context, name, type, verdict, NULL), GPU_MHA_OK);
}

static gpu_mha_verdict get(gpu_mha_context *from, const char *name, gpu_mha_type type)
{
    gpu_mha_verdict verdict = GPU_MHA_VERDICT_HUNG;
    ck_assert_int_eq(gpu_mha_verdict_get(from, name, type, &verdict), GPU_MHA_OK);
    return verdict;
}

static gpu_mha_variant_info variant(size_t index)
{
    gpu_mha_variant_info info = {.struct_size = sizeof info};
    ck_assert_int_eq(gpu_mha_variant_get(context, index, &info), GPU_MHA_OK);
    return info;
}

/* The attention variants of a method get the verdict. */
static void set_all(gpu_mha_method method, gpu_mha_verdict verdict)
{
    size_t count = 0, found = 0;
    ck_assert_int_eq(gpu_mha_variant_count(context, &count), GPU_MHA_OK);
    for (size_t i = 0; i < count; i++) {
        const gpu_mha_variant_info info = variant(i);
        if (info.tile[0] && info.method == method) {
            set(info.name, GPU_MHA_F32, verdict);
            found++;
        }
    }
    ck_assert_uint_gt(found, 0);
}

/* A plan of this kind is refused with a sentence that says why and what to do. */
static void refused(enum known_kind kind, const char *name, const char *verdict)
{
    gpu_mha_plan *plan = NULL;
    ck_assert_int_eq(known_plan(context, kind, &plan), GPU_MHA_UNSUPPORTED);
    ck_assert_ptr_null(plan);
    const char *words[] = {name, verdict, "gpu-mha doctor", "--forget"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        ck_assert_msg(strstr(gpu_mha_last_error(), words[i]) != NULL, "no '%s' in: %s", words[i],
                      gpu_mha_last_error());
    }
}

static void made(enum known_kind kind)
{
    gpu_mha_plan *plan = NULL;
    ck_assert_msg(!known_plan(context, kind, &plan), "%s", gpu_mha_last_error());
    gpu_mha_plan_release(plan);
}

/* ---- what is kept -------------------------------------------------------------------------- */

START_TEST(other_contexts_read_what_is_kept)
{
    int kept = 0;
    ck_assert_int_eq(
        gpu_mha_verdict_set(context, "merge", GPU_MHA_F16, GPU_MHA_VERDICT_WRONG, &kept),
        GPU_MHA_OK);
    ck_assert_int_eq(kept, 1);
    ck_assert_int_eq(access(gpu_mha_verdict_file(context), F_OK), 0);
    gpu_mha_context *other = open_context();
    ck_assert_int_eq(get(other, "merge", GPU_MHA_F16), GPU_MHA_VERDICT_WRONG);
    ck_assert_int_eq(get(other, "merge", GPU_MHA_F32), GPU_MHA_VERDICT_NONE);
    ck_assert_int_eq(get(other, "rotary", GPU_MHA_F16), GPU_MHA_VERDICT_NONE);
    gpu_mha_context_release(other);
    ck_assert_int_eq(gpu_mha_verdict_forget(context), GPU_MHA_OK);
    ck_assert_int_eq(get(context, "merge", GPU_MHA_F16), GPU_MHA_VERDICT_NONE);
    ck_assert_int_ne(access(gpu_mha_verdict_file(context), F_OK), 0);
    other = open_context();
    ck_assert_int_eq(get(other, "merge", GPU_MHA_F16), GPU_MHA_VERDICT_NONE);
    gpu_mha_context_release(other);
}
END_TEST

START_TEST(with_caching_off_a_verdict_holds_for_its_context)
{
    int kept = 1;
    setenv("GPU_MHA_CACHE_DIR", "off", 1);
    gpu_mha_context *other = open_context();
    ck_assert_str_eq(gpu_mha_verdict_file(other), "");
    ck_assert_int_eq(gpu_mha_verdict_set(other, "merge", GPU_MHA_F32, GPU_MHA_VERDICT_HUNG, &kept),
                     GPU_MHA_OK);
    ck_assert_int_eq(kept, 0);
    ck_assert_int_eq(get(other, "merge", GPU_MHA_F32), GPU_MHA_VERDICT_HUNG);
    ck_assert_int_eq(gpu_mha_verdict_forget(other), GPU_MHA_OK);
    ck_assert_int_eq(get(other, "merge", GPU_MHA_F32), GPU_MHA_VERDICT_NONE);
    gpu_mha_context_release(other);
}
END_TEST

/* ---- what follows -------------------------------------------------------------------------- */

START_TEST(what_has_no_stand_in_is_refused)
{
    static const gpu_mha_verdict bad[] = {GPU_MHA_VERDICT_WRONG, GPU_MHA_VERDICT_FAILED,
                                          GPU_MHA_VERDICT_CRASHED, GPU_MHA_VERDICT_HUNG};
    static const gpu_mha_verdict fine[] = {GPU_MHA_VERDICT_OK, GPU_MHA_VERDICT_REFUSED,
                                           GPU_MHA_VERDICT_NONE};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        set("merge", GPU_MHA_F32, bad[i]);
        refused(KNOWN_MERGE, "merge", gpu_mha_verdict_text(bad[i]));
    }
    made(KNOWN_ROTARY);
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        set("merge", GPU_MHA_F32, fine[i]);
        made(KNOWN_MERGE);
    }
}
END_TEST

/* What fails in single precision fails in every type; what fails in another one, in that alone. */
START_TEST(a_storage_type_has_a_verdict_of_its_own)
{
    gpu_mha_plan *plan = NULL;
    const gpu_mha_merge_desc half = {.struct_size = sizeof half,
                                     .B = 1,
                                     .H = 1,
                                     .NQ = 1,
                                     .DV = 1,
                                     .a.type = GPU_MHA_F16,
                                     .b.type = GPU_MHA_F16,
                                     .output.type = GPU_MHA_F16};
    set("merge", GPU_MHA_F16, GPU_MHA_VERDICT_CRASHED);
    made(KNOWN_MERGE);
    ck_assert_int_eq(gpu_mha_merge_plan_create(context, &half, &plan), GPU_MHA_UNSUPPORTED);
    set("merge", GPU_MHA_F16, GPU_MHA_VERDICT_OK);
    ck_assert_int_eq(gpu_mha_merge_plan_create(context, &half, &plan), GPU_MHA_OK);
    gpu_mha_plan_release(plan);
    plan = NULL;
    set("merge", GPU_MHA_F32, GPU_MHA_VERDICT_CRASHED);
    ck_assert_int_eq(gpu_mha_merge_plan_create(context, &half, &plan), GPU_MHA_UNSUPPORTED);
}
END_TEST

START_TEST(attention_goes_to_the_staged_kernels_and_then_nowhere)
{
    gpu_mha_plan *plan = NULL;
    gpu_mha_desc desc = {
        .struct_size = sizeof desc, .B = 1, .H = 1, .HKV = 1, .NQ = 5, .NK = 6, .DK = 8, .DV = 8};
    set_all(GPU_MHA_FUSED, GPU_MHA_VERDICT_WRONG);
    ck_assert_msg(!gpu_mha_plan_create(context, &desc, &plan), "%s", gpu_mha_last_error());
    ck_assert_msg(!strncmp(gpu_mha_plan_variant(plan), "staged ", 7), "\"%s\" was taken",
                  gpu_mha_plan_variant(plan));
    gpu_mha_plan_release(plan);
    plan = NULL;
    desc.method = GPU_MHA_FUSED;
    ck_assert_int_eq(gpu_mha_plan_create(context, &desc, &plan), GPU_MHA_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(gpu_mha_last_error(), "gpu-mha doctor"));
    desc.method = GPU_MHA_AUTO;
    set_all(GPU_MHA_STAGED, GPU_MHA_VERDICT_WRONG);
    ck_assert_int_eq(gpu_mha_plan_create(context, &desc, &plan), GPU_MHA_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(gpu_mha_last_error(), "gpu-mha doctor"));
}
END_TEST

START_TEST(products_go_to_the_other_implementation_and_then_nowhere)
{
    gpu_mha_plan *plan = NULL;
    set("product tile", GPU_MHA_F32, GPU_MHA_VERDICT_CRASHED);
    ck_assert_msg(!known_plan(context, KNOWN_LAYER, &plan), "%s", gpu_mha_last_error());
    ck_assert_msg(!strncmp(gpu_mha_plan_text(plan), "products CLBlast,", 17), "%s",
                  gpu_mha_plan_text(plan));
    gpu_mha_plan_release(plan);
    set("product CLBlast", GPU_MHA_F32, GPU_MHA_VERDICT_CRASHED);
    refused(KNOWN_LAYER, "product", "crashed");
    set("product tile", GPU_MHA_F32, GPU_MHA_VERDICT_OK);
    ck_assert_msg(!known_plan(context, KNOWN_LAYER, &plan), "%s", gpu_mha_last_error());
    ck_assert_msg(!strncmp(gpu_mha_plan_text(plan), "products tile,", 14), "%s",
                  gpu_mha_plan_text(plan));
    gpu_mha_plan_release(plan);
}
END_TEST

/* ---- names and arguments ------------------------------------------------------------------- */

START_TEST(every_variant_has_a_name_of_its_own_and_its_verdicts)
{
    size_t count = 0;
    ck_assert_int_eq(gpu_mha_variant_count(context, &count), GPU_MHA_OK);
    for (size_t i = 0; i < count; i++) {
        const gpu_mha_variant_info info = variant(i);
        ck_assert_uint_ge(strlen(info.name), 1);
        ck_assert_uint_le(strlen(info.name), 57);
        ck_assert(info.types & 1u << GPU_MHA_F32);
        for (size_t j = 0; j < i; j++) {
            ck_assert_str_ne(info.name, variant(j).name);
        }
        set(info.name, GPU_MHA_F32, GPU_MHA_VERDICT_REFUSED);
        ck_assert_int_eq(variant(i).verdicts[GPU_MHA_F32], GPU_MHA_VERDICT_REFUSED);
        ck_assert_int_eq(variant(i).verdicts[GPU_MHA_F16], GPU_MHA_VERDICT_NONE);
    }
    ck_assert_str_eq(variant(count - 1).name, "layer");
    /* All of them are kept at once. */
    gpu_mha_context *other = open_context();
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(get(other, variant(i).name, GPU_MHA_F32), GPU_MHA_VERDICT_REFUSED);
    }
    gpu_mha_context_release(other);
}
END_TEST

/* Invalid, with a sentence that names what is wrong. */
static void invalid(gpu_mha_status status, const char *part)
{
    ck_assert_int_eq(status, GPU_MHA_INVALID);
    ck_assert_msg(strstr(gpu_mha_last_error(), part) != NULL, "no '%s' in: %s", part,
                  gpu_mha_last_error());
}

START_TEST(wrong_arguments_are_refused)
{
    char name[59];
    size_t count = 0;
    gpu_mha_variant_info info = {.struct_size = sizeof info};
    memset(name, 'x', sizeof name);
    name[58] = '\0';
    const char *names[] = {NULL, "", "a\nb", "a\tb", "\xc3\xa9", name};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert_msg(gpu_mha_verdict_set(context, names[i], GPU_MHA_F32, GPU_MHA_VERDICT_OK,
                                          NULL) == GPU_MHA_INVALID,
                      "name %zu is taken", i);
        invalid(gpu_mha_verdict_set(context, names[i], GPU_MHA_F32, GPU_MHA_VERDICT_OK, NULL),
                "name is ");
    }
    name[57] = '\0';
    set(name, GPU_MHA_BF16, GPU_MHA_VERDICT_WRONG);
    ck_assert_int_eq(get(context, name, GPU_MHA_BF16), GPU_MHA_VERDICT_WRONG);
    invalid(gpu_mha_verdict_set(context, "merge", (gpu_mha_type)3, GPU_MHA_VERDICT_OK, NULL),
            "type is 3");
    invalid(gpu_mha_verdict_set(context, "merge", GPU_MHA_F32, (gpu_mha_verdict)7, NULL),
            "verdict is 7");
    invalid(gpu_mha_verdict_get(context, NULL, GPU_MHA_F32, &(gpu_mha_verdict){0}), "name is NULL");
    invalid(gpu_mha_verdict_get(context, "merge", GPU_MHA_F32, NULL), "verdict is NULL");
    invalid(gpu_mha_variant_count(context, NULL), "NULL");
    invalid(gpu_mha_variant_get(context, 0, NULL), "NULL");
    ck_assert_int_eq(gpu_mha_variant_count(context, &count), GPU_MHA_OK);
    invalid(gpu_mha_variant_get(context, count, &info), "index is ");
    ck_assert_str_eq(gpu_mha_verdict_file(NULL), "");
    ck_assert_str_eq(gpu_mha_verdict_text(GPU_MHA_VERDICT_NONE), "not tried");
    ck_assert_str_eq(gpu_mha_verdict_text(GPU_MHA_VERDICT_HUNG), "hung");
    ck_assert_str_eq(gpu_mha_verdict_text((gpu_mha_verdict)7), "unknown verdict");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verdicts");
    TCase *tcase = tcase_create("store");
    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, other_contexts_read_what_is_kept);
    tcase_add_test(tcase, with_caching_off_a_verdict_holds_for_its_context);
    tcase_add_test(tcase, what_has_no_stand_in_is_refused);
    tcase_add_test(tcase, a_storage_type_has_a_verdict_of_its_own);
    tcase_add_test(tcase, attention_goes_to_the_staged_kernels_and_then_nowhere);
    tcase_add_test(tcase, products_go_to_the_other_implementation_and_then_nowhere);
    tcase_add_test(tcase, every_variant_has_a_name_of_its_own_and_its_verdicts);
    tcase_add_test(tcase, wrong_arguments_are_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
