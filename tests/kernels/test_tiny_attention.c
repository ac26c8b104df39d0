/*
 * test_tiny_attention.c - a few problems so small that the simulator Oclgrind can bear them, with
 * every kernel, every kind of argument, and lengths that leave tiles and blocks unfilled.
 *
 * The simulator looks for races, reads of what nobody wrote and accesses outside of buffers; the
 * numbers are judged as everywhere else.
 */
#include "harness/attention_run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* The first two serve both methods, the others the fused one alone. */
static const char *const tiles[] = {
    "1,4,2,2",    "6,4,2,32",     "shared 2,4,2,4,16,2,0,0", "shared 1,8,1,4,16,4,1,0",
    "rows 2,4,8", "heads 6,4,1,4"};
enum { STAGED_TILES = 2, TILES = 6 };

static struct attention_spec problem(int tile)
{
    return (struct attention_spec){.desc = {.B = 2,
                                            .H = 2,
                                            .HKV = 1,
                                            .NQ = 7,
                                            .NK = 11,
                                            .DK = 5,
                                            .DV = 3,
                                            .lse = 1,
                                            .method = GPU_MHA_FUSED},
                                   .tile = tiles[tile],
                                   .seed = 3,
                                   .key = ATTENTION_PADDED,
                                   .value = ATTENTION_BNHD,
                                   .output = ATTENTION_PADDED_BNHD};
}

START_TEST(fused_with_everything)
{
    struct attention_spec spec = problem(_i);

    attention_spec_everything(&spec, 4, 6);
    spec.desc.query.type = spec.desc.past_value.type = GPU_MHA_F16;
    spec.desc.key.type = spec.desc.output.type = GPU_MHA_BF16;
    attention_check(&spec, NULL);
}
END_TEST

START_TEST(fused_with_special_numbers)
{
    struct attention_spec spec = problem(_i);

    spec.fill = ATTENTION_SPECIAL;
    spec.desc.causal = 1;
    spec.out_of_order = 1;
    attention_check(&spec, NULL);
    spec.desc.NK = 70; /* tiles that all rows see whole, and some that none sees */
    spec.desc.NQ = 3;
    attention_check(&spec, NULL);
}
END_TEST

/* On the small tiles, whose blocks are few keys, the keys of one row are split. */
START_TEST(split_and_merged)
{
    static const int small[] = {0, 2, 3, 4};
    struct attention_spec spec = problem(small[_i]);
    char plan[64];

    spec.desc.B = spec.desc.H = 1;
    spec.desc.NQ = 1;
    spec.desc.NK = 131;
    spec.desc.output.type = GPU_MHA_F16;
    spec.desc.sinks = 1;
    attention_check(&spec, plan);
    ck_assert_msg(strstr(plan, "split") != NULL, "the plan is \"%s\": it was to split the keys",
                  plan);
}
END_TEST

START_TEST(staged_with_every_output)
{
    for (int n = 0; n < 5; n++) {
        struct attention_spec spec = problem(_i);
        spec.seed += (uint64_t)n;
        spec.desc.method = GPU_MHA_STAGED;
        spec.desc.NP = n == 1 ? 3 : 0;
        spec.desc.scores = (gpu_mha_scores)n;
        spec.desc.weights = (gpu_mha_weights)((n + 1) % 3);
        spec.desc.causal = n % 2;
        spec.desc.key_lengths = n == 3 ? GPU_MHA_I64 : GPU_MHA_INDEX_NONE;
        spec.desc.dropout = n == 4 ? 0.5f : 0.0f;
        spec.desc.softcap = n == 2 ? 2.0f : 0.0f;
        if (n > 2) {
            spec.desc.mask.type = GPU_MHA_MASK_BOOL;
            spec.mask = (struct attention_mask){0xA, 0, 0.3};
        }
        attention_check(&spec, NULL);
    }
}
END_TEST

START_TEST(nothing_visible)
{
    struct attention_spec spec = problem(_i);

    spec.desc.NK = 0;
    attention_check(&spec, NULL);
    spec.desc.method = GPU_MHA_STAGED;
    spec.desc.weights = GPU_MHA_WEIGHTS_AVERAGED;
    attention_check(&spec, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tiny attention");
    TCase *tcase = tcase_create("tiny");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, 300);
    tcase_add_checked_fixture(tcase, attention_open, attention_close);
    tcase_add_loop_test(tcase, fused_with_everything, 0, TILES);
    tcase_add_loop_test(tcase, fused_with_special_numbers, 0, TILES);
    tcase_add_loop_test(tcase, split_and_merged, 0, 4);
    tcase_add_loop_test(tcase, staged_with_every_output, 0, STAGED_TILES);
    tcase_add_loop_test(tcase, nothing_visible, 0, TILES);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
