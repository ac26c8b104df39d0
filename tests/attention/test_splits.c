/*
 * test_splits.c - few rows and many keys: the keys are divided among work-items and their results
 * merged. The reference knows nothing of parts, so the merge must not show.
 */
#include "harness/attention_run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *const tiles[] = {"12,16,1,16", "6,4,2,32", "1,4,2,2"};

static struct attention_spec problem(int tile)
{
    return (struct attention_spec){.desc = {.B = 1,
                                            .H = 1,
                                            .HKV = 1,
                                            .NQ = 1,
                                            .NK = 4099,
                                            .DK = 8,
                                            .DV = 5,
                                            .lse = 1,
                                            .method = GPU_MHA_FUSED},
                                   .seed = 31,
                                   .output = ATTENTION_PADDED,
                                   .tile = tiles[tile]};
}

static void check_split(const struct attention_spec *spec)
{
    char plan[64];

    attention_check(spec, plan);
    ck_assert_msg(strstr(plan, "split") != NULL, "the plan is \"%s\": it was to split the keys",
                  plan);
}

START_TEST(few_rows_many_keys)
{
    for (int n = 0; n < 6; n++) {
        struct attention_spec spec = problem(_i);
        spec.desc.NQ = n < 4 ? 1 : n - 2;
        spec.desc.output.type = (gpu_mha_type)(n % 3);
        spec.desc.NK -= 37 * n;
        spec.desc.NP = n == 3 ? 77 : 0;
        spec.fill = n == 1 ? ATTENTION_POSITIVE : n == 2 ? ATTENTION_GROWING : ATTENTION_NORMAL;
        spec.host_call = 1;
        spec.out_of_order = n % 2;
        check_split(&spec);
    }
}
END_TEST

/* Parts without a visible key, one visible key in all, none at all, and a sink, which is in one. */
START_TEST(parts_that_see_nothing)
{
    for (int n = 0; n < 10; n++) {
        struct attention_spec spec = problem(_i);
        spec.seed += (uint64_t)n;
        spec.desc.sinks = n % 2;
        spec.desc.has_window = 1;
        spec.desc.offset_kind = GPU_MHA_OFFSET;
        spec.desc.offset = n / 2 * 1024;
        spec.desc.window_left = n / 2 == 2 ? 1500 : 0;
        spec.desc.window_right = n / 2 == 3 ? 700 : 0;
        if (n >= 8) {
            spec.desc.offset = 5000;
        }
        check_split(&spec);
    }
}
END_TEST

START_TEST(everything_with_splits)
{
    for (int n = 0; n < 6; n++) {
        struct attention_spec spec = problem(_i);
        spec.seed += 50 + (uint64_t)n;
        spec.desc.softcap = n % 2 ? 2.0f : 0.0f;
        spec.desc.alibi = n % 3 == 0 ? GPU_MHA_ALIBI_SLOPES : GPU_MHA_ALIBI_NONE;
        spec.desc.dropout = n % 2 ? 0.0f : 0.2f;
        spec.desc.dropout_seed = 99;
        spec.desc.sinks = n / 3;
        spec.desc.mask.type = GPU_MHA_MASK_BOOL;
        spec.mask = (struct attention_mask){0xF, n % 2, n == 5 ? 0.999 : 0.5};
        spec.desc.bias.type = GPU_MHA_MASK_F32;
        spec.bias = (struct attention_mask){0x8, 0, 0.1};
        spec.desc.causal = n % 2;
        spec.desc.offset_kind = GPU_MHA_BOTTOM_RIGHT;
        spec.desc.key_lengths = GPU_MHA_I64;
        check_split(&spec);
    }
}
END_TEST

/* NaN and infinities in one part, visible or hidden. */
START_TEST(special_numbers_in_a_part)
{
    for (int n = 0; n < 8; n++) {
        struct attention_spec spec = problem(_i);
        spec.seed += 80 + (uint64_t)n;
        spec.fill = ATTENTION_SPECIAL;
        spec.desc.has_window = 1;
        spec.desc.window_left = n < 6 ? 20 + n : -1;
        spec.desc.offset_kind = GPU_MHA_OFFSET;
        spec.desc.offset = 4098 - 600 * n;
        check_split(&spec);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("splits");
    TCase *tcase = tcase_create("splits");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, attention_open, attention_close);
    tcase_add_loop_test(tcase, few_rows_many_keys, 0, attention_tile_count(3));
    tcase_add_loop_test(tcase, parts_that_see_nothing, 0, attention_tile_count(3));
    tcase_add_loop_test(tcase, everything_with_splits, 0, attention_tile_count(3));
    tcase_add_loop_test(tcase, special_numbers_in_a_part, 0, attention_tile_count(3));
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
