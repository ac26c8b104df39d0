/*
 * test_sweep_sizes.c - lengths around the edges of tiles, blocks and chains; head sizes; heads.
 *
 * A kernel is compiled for each tile and pair of head sizes, and for 1 and 4 rows anew: lengths are
 * swept on one pair, head sizes on few lengths.
 */
#include "harness/attention_run.h"

#include <check.h>
#include <stdlib.h>

static const char *const tiles[] = {"12,16,1,16", "6,8,2,16", "6,4,2,32", "1,4,2,2", "12,16,1,4"};

static const gpu_mha_method methods[] = {GPU_MHA_FUSED, GPU_MHA_STAGED};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

START_TEST(lengths_around_edges)
{
    static const int64_t queries[] = {1, 2, 4, 5, 6, 7, 11, 12, 13, 24, 25, 49};
    static const int64_t keys[] = {1,  2,  4,  7,  8,   9,   15,  16,  17,  31,  32,
                                   33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 513};

    for (int n = 0; n < COUNT(queries) * COUNT(keys); n++) {
        struct attention_spec spec = {
            .desc =
                {.B = 1, .H = 2, .HKV = 1, .DK = 8, .DV = 5, .lse = 1, .method = methods[n % 2]},
            .seed = 300 + (uint64_t)n,
            .tile = tiles[_i]};
        spec.desc.NQ = queries[n % COUNT(queries)];
        spec.desc.NK = keys[n / COUNT(queries)];
        spec.desc.causal = n % 3 == 1;
        spec.desc.offset_kind = n % 6 < 3 ? GPU_MHA_BOTTOM_RIGHT : GPU_MHA_TOP_LEFT;
        if (n % 4 == 2 && spec.desc.NK > 1) { /* the edge between past and new keys as well */
            spec.desc.NP = spec.desc.NK / 2;
            spec.desc.NK -= spec.desc.NP;
        }
        if (n % 5 == 3) {
            spec.desc.mask.type = GPU_MHA_MASK_BOOL;
            spec.mask = (struct attention_mask){0xF, 0, 0.3};
        }
        spec.output = (enum attention_layout)(n % 4);
        attention_check(&spec, NULL);
    }
}
END_TEST

/* The last coordinate counts as any other: sizes next to the widths of vectors and chains. */
static const int64_t head_sizes[][2] = {{1, 1},   {3, 16},  {16, 3},    {63, 65},  {64, 64},
                                        {65, 63}, {80, 72}, {128, 128}, {257, 40}, {40, 200}};

static void check_head_size(int n, const char *tile)
{
    for (int m = 0; m < 4; m++) {
        struct attention_spec spec = {
            .desc =
                {.B = 2, .H = 4, .HKV = 2, .NQ = 17, .NK = 71, .lse = 1, .method = methods[m % 2]},
            .seed = 900 + (uint64_t)(10 * n + m),
            .tile = tile};
        spec.desc.DK = head_sizes[n][0];
        spec.desc.DV = head_sizes[n][1];
        spec.fill = m / 2 ? ATTENTION_TAIL : ATTENTION_NORMAL;
        spec.desc.output.type = m == 1 ? GPU_MHA_F16 : GPU_MHA_F32;
        spec.desc.causal = m == 1;
        spec.query = spec.value = ATTENTION_PADDED_BNHD;
        spec.host_call = 1;
        attention_check(&spec, NULL);
    }
}

START_TEST(every_head_size)
{
    check_head_size(_i, tiles[0]);
}
END_TEST

START_TEST(some_head_sizes_on_other_tiles)
{
    static const int chosen[] = {0, 3, 6};

    check_head_size(chosen[_i % 3], tiles[_i < 3 ? 1 : 3]);
}
END_TEST

/* So long that private memory holds fewer rows. */
START_TEST(a_very_large_head)
{
    struct attention_spec spec = {.desc = {.B = 1,
                                           .H = 2,
                                           .HKV = 1,
                                           .NQ = 5,
                                           .NK = 34,
                                           .DK = 9001,
                                           .DV = 8,
                                           .lse = 1,
                                           .method = methods[_i]},
                                  .seed = 950,
                                  .tile = tiles[0]};

    attention_check(&spec, NULL);
}
END_TEST

START_TEST(query_heads_share_key_heads)
{
    static const int64_t heads[][2] = {{1, 1}, {2, 1},  {8, 1},  {6, 3},
                                       {7, 7}, {12, 4}, {71, 1}, {15, 5}};

    for (int n = 0; n < COUNT(heads); n++) {
        struct attention_spec spec = {
            .desc = {.B = 3, .NQ = 7, .NK = 35, .DK = 8, .DV = 5, .lse = 1, .method = methods[_i]},
            .seed = 600 + (uint64_t)n,
            .tile = tiles[0]};
        spec.desc.H = heads[n][0];
        spec.desc.HKV = heads[n][1];
        spec.desc.alibi = GPU_MHA_ALIBI_AUTO;
        spec.desc.sinks = 1;
        spec.desc.weights =
            methods[_i] == GPU_MHA_STAGED ? GPU_MHA_WEIGHTS_AVERAGED : GPU_MHA_WEIGHTS_NONE;
        spec.key = ATTENTION_BNHD;
        attention_check(&spec, NULL);
    }
}
END_TEST

/* More than 65,535 batch entries, or heads: counts that do not fit an axis of a small grid. */
START_TEST(very_many_batches_or_heads)
{
    struct attention_spec spec = {.desc = {.B = 65537,
                                           .H = 1,
                                           .HKV = 1,
                                           .NQ = 1,
                                           .NK = 3,
                                           .DK = 8,
                                           .DV = 5,
                                           .method = methods[_i % 2]},
                                  .seed = 700,
                                  .tile = tiles[0]};

    if (_i / 2) {
        spec.desc.B = 1;
        spec.desc.H = 65538;
        spec.desc.HKV = 3;
        spec.output = ATTENTION_BNHD;
    }
    attention_check(&spec, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sweep of sizes");
    TCase *tcase = tcase_create("sizes");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, 200);
    tcase_add_checked_fixture(tcase, attention_open, attention_close);
    tcase_add_loop_test(tcase, lengths_around_edges, 0, attention_tile_count(COUNT(tiles)));
    tcase_add_loop_test(tcase, every_head_size, 0, COUNT(head_sizes));
    tcase_add_loop_test(tcase, some_head_sizes_on_other_tiles, 0, attention_tile_count(6));
    tcase_add_loop_test(tcase, a_very_large_head, 0, 2);
    tcase_add_loop_test(tcase, query_heads_share_key_heads, 0, 2);
    tcase_add_loop_test(tcase, very_many_batches_or_heads, 0, 4);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
