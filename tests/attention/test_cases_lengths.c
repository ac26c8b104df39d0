/*
 * test_cases_lengths.c - key lengths, sizes at and around the tiles, sizes of 0, grouped heads.
 *
 * The numbers of each case are ones that broke other libraries; the results follow from arithmetic.
 */
#include "harness/assertions.h"
#include "harness/probe.h"

#include <stdlib.h>

#define SMALL .DK = 5, .DV = 3

static const char *const tiles[] = {NULL, "12,16,1,16", "6,8,2,16", "6,4,2,32", "1,4,2,2"};
#define TILE_COUNT ((int)(sizeof tiles / sizeof tiles[0]))

static void set_tile(int n)
{
    if (tiles[n]) {
        setenv("GPU_MHA_TILE", tiles[n], 1);
    } else {
        unsetenv("GPU_MHA_TILE");
    }
}

/* Case 15; the probe puts NaN, 1000 and infinities past the lengths and wants the same bits. */
START_TEST(nothing_past_a_length_matters)
{
    static const struct {
        int64_t B, NQ, NP, NK, lengths[4];
    } shapes[] = {{2, 3, 0, 3, {1, 3}},
                  {4, 7, 0, 128, {32, 64, 96, 48}},
                  {4, 2, 100, 28, {32, 64, 101, 128}}};
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = shapes[_i / 2].B,
                                   .H = 2,
                                   .HKV = 1,
                                   .NQ = shapes[_i / 2].NQ,
                                   .NP = shapes[_i / 2].NP,
                                   .NK = shapes[_i / 2].NK,
                                   SMALL});
    probe_give_lengths(&p, _i % 2 ? GPU_MHA_I64 : GPU_MHA_I32, shapes[_i / 2].lengths);
    probe_spread_values(&p);
    probe_want_uniform(&p);
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 16. */
START_TEST(a_length_of_0_is_an_empty_row)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 2, .H = 1, .HKV = 1, .NQ = 2, .NK = 5, SMALL});
    probe_give_lengths(&p, GPU_MHA_I32, (int64_t[]){5, 0});
    probe_want_rows(&p, (double[]){3, 3, 0, 0}, (double[]){log(5), log(5), -INFINITY, -INFINITY});
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Lengths that only the device knows are clamped. */
START_TEST(the_device_clamps_lengths)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 3,
                                   .H = 2,
                                   .HKV = 2,
                                   .NQ = 2,
                                   .NP = 2,
                                   .NK = 4,
                                   SMALL,
                                   .causal = _i / 2,
                                   .offset_kind = GPU_MHA_BOTTOM_RIGHT});
    const int64_t far = _i % 2 ? (int64_t)1 << 62 : INT32_MAX;
    probe_give_lengths(&p, _i % 2 ? GPU_MHA_I64 : GPU_MHA_I32, (int64_t[]){-far, 7, far});
    probe_spread_values(&p);
    probe_want_uniform(&p);
    p.only_enqueue = 1;
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 17: DK and DV alike, then DV 3. The query is sqrt(DK) as f16 has it. */
START_TEST(the_last_coordinate_counts)
{
    static const int64_t sizes[] = {63, 80, 128, 224};
    const int64_t D = sizes[_i];
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 1,
                                   .H = 2,
                                   .HKV = 1,
                                   .NQ = 5,
                                   .NK = 9,
                                   .DK = D,
                                   .DV = D,
                                   .causal = 1,
                                   .offset_kind = GPU_MHA_BOTTOM_RIGHT});
    probe_make_tail(&p, storage_round(STORAGE_F16, sqrt((double)D)),
                    (double[]){0, 1, 2, 3, 4, 5, 6, 7, 8});
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 18. */
static void run_size(int64_t NQ, int64_t NK, gpu_mha_mask_type bias)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 2, .H = 2, .HKV = 1, .NQ = NQ, .NK = NK, SMALL});
    if (bias != GPU_MHA_MASK_NONE) {
        probe_give_mask(&p, bias, 2, (int64_t[]){NQ, NK});
        for (int64_t n = 0; n < NQ * NK; n++) {
            p.bias[n] = n % 6 == 4 ? -INFINITY : (double)(n % 9) / 4 - 1;
        }
        p.score_peak = 1;
    }
    probe_spread_values(&p);
    probe_want_uniform(&p);
    probe_run(&p);
    probe_free(&p);
}

START_TEST(every_size_fits_every_tile)
{
    static const int64_t keys[] = {31, 32, 33, 38, 39, 70};
    set_tile(_i);
    run_size(192, 192, GPU_MHA_MASK_NONE);
    for (int64_t NQ = 1; NQ <= 8; NQ++) {
        run_size(NQ, keys[NQ % 6], GPU_MHA_MASK_NONE);
    }
    for (int n = 0; n < 6; n++) {
        run_size(n % 2 ? 7 : 2, keys[n], GPU_MHA_MASK_NONE);
    }
    set_tile(0);
}
END_TEST

START_TEST(a_bias_fits_every_tile)
{
    static const int64_t keys[] = {1, 4, 7, 8, 9, 16, 27, 32};
    set_tile(_i);
    for (int n = 0; n < 8; n++) {
        run_size(n % 2 ? 5 : 2, keys[n],
                 n % 3 == 0   ? GPU_MHA_MASK_F32
                 : n % 3 == 1 ? GPU_MHA_MASK_F16
                              : GPU_MHA_MASK_BF16);
    }
    set_tile(0);
}
END_TEST

/* Case 19. */
START_TEST(groups_of_query_heads_share_a_key_head)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 1, .H = 4, .HKV = 2, .NQ = 1, .NK = 3, SMALL});
    for (int j = 0; j < 3; j++) {
        fill_constant(probe_value_row(&p, 0, 0, j), 3, 1);
        fill_constant(probe_value_row(&p, 0, 1, j), 3, 2);
    }
    probe_want_rows(&p, (double[]){1, 1, 2, 2}, (double[]){log(3), log(3), log(3), log(3)});
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Cases 20 and 22: sizes of 0. */
static const struct {
    int64_t B, H, NQ, NP, NK;
    int causal;
    gpu_mha_offset_kind kind;
} empties[] = {
    {7, 9, 0, 0, 5, 0, 0},
    {0, 2, 3, 0, 4, 0, 0},
    {0, 2, 3, 2, 0, 1, GPU_MHA_BOTTOM_RIGHT},
    {2, 3, 4, 0, 0, 0, 0},
    {2, 3, 4, 0, 0, 1, GPU_MHA_TOP_LEFT},
    {2, 3, 4, 0, 0, 1, GPU_MHA_BOTTOM_RIGHT},
    {2, 3, 0, 0, 0, 0, 0},
    {2, 3, 4, 5, 0, 0, 0},
    {0, 3, 0, 0, 0, 1, GPU_MHA_BOTTOM_RIGHT},
};

START_TEST(a_size_of_0_is_no_error)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = empties[_i].B,
                                   .H = empties[_i].H,
                                   .HKV = 1,
                                   .NQ = empties[_i].NQ,
                                   .NP = empties[_i].NP,
                                   .NK = empties[_i].NK,
                                   SMALL,
                                   .causal = empties[_i].causal,
                                   .offset_kind = empties[_i].kind});
    probe_want_uniform(&p);
    p.types = PROBE_F32 | PROBE_F16 | PROBE_BF16;
    probe_run(&p);
    p.desc.weights = GPU_MHA_WEIGHTS_AVERAGED;
    p.desc.scores = GPU_MHA_SCORES_RAW;
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 22: the LSE of rows above the diagonal, and of four keys. */
START_TEST(lse_counts_the_visible_keys)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 1,
                                   .H = 1,
                                   .HKV = 1,
                                   .NQ = 5,
                                   .NK = 2,
                                   SMALL,
                                   .causal = 1,
                                   .offset_kind = GPU_MHA_BOTTOM_RIGHT});
    probe_want_rows(&p, (double[]){0, 0, 0, 1, 1.5},
                    (double[]){-INFINITY, -INFINITY, -INFINITY, 0, log(2)});
    probe_run(&p);
    probe_free(&p);
    probe_init(&p, &(gpu_mha_desc){.B = 1, .H = 1, .HKV = 1, .NQ = 1, .NK = 4, SMALL});
    probe_want_rows(&p, (double[]){2.5}, (double[]){1.3862943611198906});
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* More entries and more heads than a 16-bit number counts. */
START_TEST(many_entries_and_many_heads)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = _i ? 1 : 65537,
                                   .H = _i ? 65537 : 1,
                                   .HKV = _i ? 65537 : 1,
                                   .NQ = 1,
                                   .NK = 2,
                                   SMALL});
    probe_spread_values(&p);
    probe_want_uniform(&p);
    p.types = PROBE_F32;
    p.once = 1;
    probe_run(&p);
    probe_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lengths, sizes and heads");
    TCase *cases = tcase_create("cases 15 to 20 and 22");
    tcase_add_loop_test(cases, nothing_past_a_length_matters, 0, 6);
    tcase_add_test(cases, a_length_of_0_is_an_empty_row);
    tcase_add_loop_test(cases, the_device_clamps_lengths, 0, 4);
    tcase_add_loop_test(cases, the_last_coordinate_counts, 0, 4);
    tcase_add_loop_test(cases, every_size_fits_every_tile, 0, TILE_COUNT);
    tcase_add_loop_test(cases, a_bias_fits_every_tile, 0, TILE_COUNT);
    tcase_add_test(cases, groups_of_query_heads_share_a_key_head);
    tcase_add_loop_test(cases, a_size_of_0_is_no_error, 0,
                        (int)(sizeof empties / sizeof empties[0]));
    tcase_add_test(cases, lse_counts_the_visible_keys);
    tcase_add_loop_test(cases, many_entries_and_many_heads, 0, 2);
    suite_add_tcase(suite, cases);
    return probe_main(suite);
}
