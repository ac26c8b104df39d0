/*
 * test_cases_masks.c - broadcast masks, layouts, and outputs whose surroundings must stay as they
 * are.
 *
 * The numbers of each case are ones that broke other libraries; the results follow from arithmetic.
 */
#include "harness/assertions.h"
#include "harness/probe.h"

#include <stdlib.h>
#include <string.h>

#define SMALL .DK = 5, .DV = 3

/* Case 11. */
START_TEST(each_batch_entry_has_its_mask)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 2, .H = 2, .HKV = 2, .NQ = 1, .NK = 2, SMALL});
    probe_give_mask(&p, GPU_MHA_MASK_F32, 4, (int64_t[]){2, 1, 1, 2});
    p.bias[1] = p.bias[2] = -INFINITY;
    probe_want_rows(&p, (double[]){1, 1, 2, 2}, (double[]){0, 0, 0, 0});
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/*
 * Cases 11 and 12: every broadcast pattern of (B, H, NQ, NT), boolean and additive, the array
 * exactly as large as its cells. Bit a of the pattern: axis a has its full size.
 */
START_TEST(every_broadcast_pattern_is_right)
{
    const int64_t full[4] = {2, 3, 5, 7};
    int64_t shape[4];
    for (int a = 0; a < 4; a++) {
        shape[a] = _i >> a & 1 ? full[a] : 1;
    }
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 2, .H = 3, .HKV = 1, .NQ = 5, .NP = 3, .NK = 4, SMALL});
    probe_give_mask(&p, GPU_MHA_MASK_BOOL, 4, shape);
    for (int64_t n = 0; n < p.mask_cells; n++) {
        p.mask[n] = (unsigned char)(n * n % 3 != 2 && n % 7 != 3) * (unsigned char)(n % 255 + 1);
    }
    probe_give_mask(&p, GPU_MHA_MASK_F16, 4, shape);
    for (int64_t n = 0; n < p.bias_cells; n++) {
        p.bias[n] = n % 4 == 1 && n > 1 ? -INFINITY : (double)(n * 5 % 11) / 8;
    }
    p.score_peak = 1.25;
    probe_spread_values(&p);
    probe_want_uniform(&p);
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Fewer axes than four align to the right: (k), (q, k), (heads, q, k). */
START_TEST(low_ranks_align_to_the_right)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 3, .H = 2, .HKV = 1, .NQ = 4, .NK = 6, SMALL});
    probe_give_mask(&p, GPU_MHA_MASK_BOOL, _i, (int64_t[][4]){{0}, {6}, {4, 6}, {2, 4, 6}}[_i]);
    for (int64_t n = 0; n < p.mask_cells; n++) {
        p.mask[n] = n % 5 != 3;
    }
    probe_spread_values(&p);
    probe_want_uniform(&p);
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* A band matrix as one vector: strides of masks may overlap, skip and run backwards over axes. */
START_TEST(strided_masks_are_read_by_their_strides)
{
    static const int64_t strides[][4] = {
        {0, 0, 1, 1}, {200, 61, 11, 1}, {1, 2, 6, 40}, {3, 0, 0, 7}};
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 2, .H = 3, .HKV = 3, .NQ = 5, .NK = 7, SMALL});
    probe_give_mask(&p, GPU_MHA_MASK_BOOL, 1, (int64_t[]){7});
    p.desc.mask = (gpu_mha_mask){.type = GPU_MHA_MASK_BOOL, .strided = 1};
    memcpy(p.desc.mask.stride, strides[_i], sizeof strides[_i]);
    p.mask_cells =
        1 + strides[_i][0] + 2 * strides[_i][1] + 4 * strides[_i][2] + 6 * strides[_i][3];
    free(p.mask);
    p.mask = malloc((size_t)p.mask_cells);
    ck_assert_ptr_nonnull(p.mask);
    for (int64_t n = 0; n < p.mask_cells; n++) {
        p.mask[n] = n % 3 != 1;
    }
    probe_spread_values(&p);
    probe_want_uniform(&p);
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 13. */
START_TEST(heads_behind_positions_are_as_packed)
{
    static const struct {
        int64_t B, H, N, D;
    } shapes[] = {{84, 3, 3, 64}, {1, 16, 62, 128}};
    const int64_t B = shapes[_i].B, H = shapes[_i].H, N = shapes[_i].N, D = shapes[_i].D;
    for (int only_value = 0; only_value < 2; only_value++) {
        struct probe p;
        probe_init(&p,
                   &(gpu_mha_desc){
                       .B = B, .H = H, .HKV = H, .NQ = N, .NK = N, .DK = D, .DV = D, .causal = 1});
        p.desc.value.layout = GPU_MHA_BNHD;
        if (!only_value) {
            p.desc.query.layout = p.desc.key.layout = p.desc.output.layout = GPU_MHA_BNHD;
        }
        probe_spread_values(&p);
        probe_want_uniform(&p);
        probe_run(&p);
        probe_free(&p);
    }
}
END_TEST

/* Gaps of four kinds in four tensors; the probe looks at every element between the rows. */
START_TEST(gaps_between_rows_are_left_alone)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 2, .H = 4, .HKV = 2, .NQ = 3, .NP = 2, .NK = 5, SMALL});
    p.desc.query = (gpu_mha_tensor){0, GPU_MHA_STRIDED, 97, 23, 7};
    p.desc.key = (gpu_mha_tensor){0, GPU_MHA_STRIDED, 101, 6, 19};
    p.desc.value = (gpu_mha_tensor){0, GPU_MHA_STRIDED, 5, 53, 10};
    p.desc.past_key = (gpu_mha_tensor){0, GPU_MHA_STRIDED, 59, 29, 13};
    p.desc.past_value = (gpu_mha_tensor){0, GPU_MHA_BNHD, 0, 0, 0};
    p.desc.output = (gpu_mha_tensor){0, GPU_MHA_STRIDED, 71, 5, 21};
    probe_spread_values(&p);
    probe_want_uniform(&p);
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Input strides of 0: one row of keys and values for all heads or entries. */
START_TEST(inputs_may_broadcast)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 3, .H = 4, .HKV = 2, .NQ = 2, .NK = 6, SMALL});
    p.desc.query = (gpu_mha_tensor){0, GPU_MHA_STRIDED, 0, 0, 0};
    p.desc.key = (gpu_mha_tensor){0, GPU_MHA_STRIDED, 0, 0, 5};
    p.desc.value = (gpu_mha_tensor){0, GPU_MHA_STRIDED, 0, 0, 4};
    fill_constant(p.key, 3 * 2 * 6 * 5, 1);
    probe_want_uniform(&p);
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Case 14: the keys split over work-groups. */
START_TEST(split_keys_write_their_rows_alone)
{
    const int64_t NQ = _i;
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 1,
                                   .H = 1,
                                   .HKV = 1,
                                   .NQ = NQ,
                                   .NK = 4096,
                                   SMALL,
                                   .causal = 1,
                                   .offset_kind = GPU_MHA_OFFSET,
                                   .offset = 4000,
                                   .output = {.layout = GPU_MHA_BNHD}});
    gpu_mha_plan *plan = NULL;
    ck_assert_int_eq(gpu_mha_plan_create(probe_context(), &p.desc, &plan), GPU_MHA_OK);
    ck_assert_msg(strstr(gpu_mha_plan_text(plan), "split") != NULL, "the keys are not split: %s",
                  gpu_mha_plan_text(plan));
    gpu_mha_plan_release(plan);
    probe_spread_values(&p);
    probe_want_uniform(&p);
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Splits of which some or all have no visible key. */
START_TEST(empty_splits_do_not_count)
{
    struct probe p;
    probe_init(&p, &(gpu_mha_desc){.B = 1, .H = 1, .HKV = 1, .NQ = 3, .NK = 4096, SMALL});
    probe_give_mask(&p, GPU_MHA_MASK_BOOL, 2, (int64_t[]){3, 4096});
    memset(p.mask, 0, 3 * 4096);
    memset(p.mask + 4096 + 3000, 1, 2);
    memset(p.mask + 2 * 4096 + 5, 1, 1);
    probe_spread_values(&p);
    probe_want_uniform(&p);
    probe_run(&p);
    probe_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("masks and layouts");
    TCase *cases = tcase_create("cases 11 to 14");
    tcase_add_test(cases, each_batch_entry_has_its_mask);
    tcase_add_loop_test(cases, every_broadcast_pattern_is_right, 0, 16);
    tcase_add_loop_test(cases, low_ranks_align_to_the_right, 0, 4);
    tcase_add_loop_test(cases, strided_masks_are_read_by_their_strides, 0, 4);
    tcase_add_loop_test(cases, heads_behind_positions_are_as_packed, 0, 2);
    tcase_add_test(cases, gaps_between_rows_are_left_alone);
    tcase_add_test(cases, inputs_may_broadcast);
    tcase_add_loop_test(cases, split_keys_write_their_rows_alone, 1, 5);
    tcase_add_test(cases, empty_splits_do_not_count);
    suite_add_tcase(suite, cases);
    return probe_main(suite);
}
