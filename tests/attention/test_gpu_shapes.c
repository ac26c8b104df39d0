/*
 * test_gpu_shapes.c - the kernels for GPUs at head sizes that no vector divides, at shapes that
 * differ in every number, and with rows of several heads in one tile.
 */
#include "harness/attention_run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static void check(struct attention_spec *spec, const char *word)
{
    char plan[64];

    spec->desc.method = GPU_MHA_FUSED;
    spec->desc.lse = 1;
    attention_check(spec, plan);
    ck_assert_msg(strncmp(plan, word, strlen(word)) == 0, "the plan is \"%s\", not \"%s\"", plan,
                  word);
}

static const int64_t head_sizes[][2] = {{1, 100}, {100, 3}, {3, 80}, {256, 1}};

START_TEST(head_sizes_that_nothing_divides)
{
    static const char *const tiles[] = {"shared 2,4,1,4,16,4,0,0", "rows 1,4,16"};

    for (int n = 0; n < 3; n++) {
        struct attention_spec spec = {.desc = {.B = 2, .H = 4, .HKV = 2, .NQ = 9, .NK = 71},
                                      .seed = 1300 + (uint64_t)(10 * _i + n),
                                      .tile = tiles[_i / COUNT(head_sizes)]};
        spec.desc.DK = head_sizes[_i % COUNT(head_sizes)][0];
        spec.desc.DV = head_sizes[_i % COUNT(head_sizes)][1];
        spec.fill = n == 1 ? ATTENTION_TAIL : ATTENTION_NORMAL;
        spec.desc.output.type = n == 1 ? GPU_MHA_F16 : GPU_MHA_F32;
        spec.desc.causal = n == 1;
        spec.desc.NP = n == 2 ? 13 : 0;
        spec.query = spec.value = n == 0 ? ATTENTION_PADDED_BNHD : ATTENTION_BNHD;
        check(&spec, _i < COUNT(head_sizes) ? "shared" : "rows");
    }
}
END_TEST

/* Chunks of keys, of heads and of columns; with and without the query in local memory. */
static const char *const shapes[] = {"shared 4,4,2,8,16,8,1,0", "shared 1,16,2,4,32,2,0,0",
                                     "shared 4,32,1,4,32,1,1,0", "rows 4,16,8", "rows 2,8,32"};

START_TEST(shapes_that_differ_in_every_number)
{
    static const int64_t keys[] = {1, 31, 128, 150}, queries[] = {1, 5, 21};

    for (int n = 0; n < 12; n++) {
        struct attention_spec spec = {.desc = {.B = 2, .H = 6, .HKV = 2, .DK = 40, .DV = 20},
                                      .seed = 1500 + (uint64_t)n,
                                      .tile = shapes[_i]};
        spec.desc.NQ = queries[n % 3];
        spec.desc.NK = keys[n / 3];
        spec.desc.causal = n % 2;
        spec.desc.offset_kind = GPU_MHA_BOTTOM_RIGHT;
        spec.desc.has_window = n % 4 == 1;
        spec.desc.window_left = n % 4 == 1 ? 40 : 0;
        spec.desc.window_right = n % 4 == 1 ? 3 : 0;
        spec.fill = n % 5 == 4 ? ATTENTION_SPECIAL : ATTENTION_NORMAL;
        if (n % 4 == 2) {
            spec.desc.mask.type = GPU_MHA_MASK_BOOL;
            spec.mask = (struct attention_mask){0xF, 1, 0.6};
        }
        check(&spec, shapes[_i][0] == 's' ? "shared" : "rows");
    }
}
END_TEST

/* A tile of rows reaches over heads, ends within one, or has more rows than the group. */
START_TEST(rows_of_several_heads_share_a_tile)
{
    static const int64_t heads[][2] = {{1, 1}, {8, 1}, {6, 3}, {12, 4}, {71, 1}};
    static const char *const tiles[] = {"shared 4,4,2,4,16,2,1,0", "rows 4,4,8"};

    for (int n = 0; n < COUNT(heads) * 3; n++) {
        struct attention_spec spec = {.desc = {.B = 2, .NK = 35, .DK = 8, .DV = 5},
                                      .seed = 1600 + (uint64_t)n,
                                      .tile = tiles[_i]};
        spec.desc.NQ = n % 3 * 2 + 1;
        spec.desc.H = heads[n / 3][0];
        spec.desc.HKV = heads[n / 3][1];
        spec.desc.alibi = GPU_MHA_ALIBI_AUTO;
        spec.desc.sinks = 1;
        spec.desc.causal = n % 2;
        spec.desc.offset_kind = GPU_MHA_BOTTOM_RIGHT;
        spec.desc.bias.type = GPU_MHA_MASK_F16;
        spec.bias = (struct attention_mask){0xF, 0, 0.2};
        spec.key = ATTENTION_BNHD;
        check(&spec, _i ? "rows" : "shared");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shapes for GPUs");
    TCase *tcase = tcase_create("shapes");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, 200);
    tcase_add_checked_fixture(tcase, attention_open, attention_close);
    tcase_add_loop_test(tcase, head_sizes_that_nothing_divides, 0, 2 * COUNT(head_sizes));
    tcase_add_loop_test(tcase, shapes_that_differ_in_every_number, 0, COUNT(shapes));
    tcase_add_loop_test(tcase, rows_of_several_heads_share_a_tile, 0, 2);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
