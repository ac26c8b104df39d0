/*
 * test_masks.c - who sees whom: every kind of mask alone and together, in every shape, and what
 * NaN and infinities do where they are hidden and where they are visible.
 */
#include "harness/attention_run.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const gpu_mha_method methods[] = {GPU_MHA_FUSED, GPU_MHA_STAGED};

static struct attention_spec problem(gpu_mha_method method)
{
    return (struct attention_spec){.desc = {.B = 3,
                                            .H = 4,
                                            .HKV = 2,
                                            .NQ = 14,
                                            .NK = 37,
                                            .DK = 8,
                                            .DV = 5,
                                            .lse = 1,
                                            .method = method},
                                   .seed = 21,
                                   .output = ATTENTION_PADDED};
}

/* Staged runs show what each key's score and weight became. */
static void show(struct attention_spec *spec, int n)
{
    if (spec->desc.method == GPU_MHA_STAGED) {
        spec->desc.weights = (gpu_mha_weights)(n % 3);
        spec->desc.scores = (gpu_mha_scores)(n % 5);
    }
}

/* All 16 shapes of a boolean mask and of a bias of every type, packed and strided. */
START_TEST(every_broadcast_shape)
{
    for (int n = 0; n < 16 * 4 * 2; n++) {
        struct attention_spec spec = problem(methods[_i]);
        struct attention_mask shape = {
            .full = (unsigned)(n % 16), .strided = n / 64, .hidden = 0.4};
        int kind = n / 16 % 4;
        spec.seed += (uint64_t)n;
        if (kind == 0) {
            spec.desc.mask.type = GPU_MHA_MASK_BOOL;
            spec.mask = shape;
        } else {
            spec.desc.bias.type = (gpu_mha_mask_type)(GPU_MHA_MASK_F32 + kind - 1);
            spec.bias = shape;
        }
        show(&spec, n / 3);
        spec.host_call = n % 3 == 0;
        attention_check(&spec, NULL);
    }
}
END_TEST

/* Mask and bias of different shapes intersect, with everything else that hides. */
START_TEST(masks_intersect)
{
    for (int n = 0; n < 64; n++) {
        struct attention_spec spec = problem(methods[_i]);
        spec.seed += 200 + (uint64_t)n;
        spec.desc.NP = n % 4 == 0 ? 6 : 0;
        spec.desc.mask.type = GPU_MHA_MASK_BOOL;
        spec.mask = (struct attention_mask){(unsigned)n % 16, n % 2, 0.2};
        spec.desc.bias.type = (gpu_mha_mask_type)(GPU_MHA_MASK_F32 + n % 3);
        spec.bias = (struct attention_mask){15 - (unsigned)n % 16, n / 2 % 2, 0.2};
        spec.desc.causal = n / 16 % 2;
        spec.desc.offset_kind = (gpu_mha_offset_kind)(n % 3);
        spec.desc.offset = spec.desc.offset_kind == GPU_MHA_OFFSET ? n - 20 : 0;
        spec.desc.has_window = n / 32;
        spec.desc.window_left = n / 32 ? n % 23 - 1 : 0;
        spec.desc.window_right = n / 32 ? n % 5 - 1 : 0;
        spec.desc.key_lengths = (gpu_mha_index_type)(n / 4 % 3);
        show(&spec, n / 7);
        attention_check(&spec, NULL);
    }
}
END_TEST

/* Offsets that reach past both ends of the keys, with each kind of window. */
START_TEST(every_offset_and_window)
{
    static const int64_t windows[][2] = {{-1, -1}, {0, 0}, {3, 2}, {-1, 4}, {5, -1}, {40, 0}};
    static const int64_t offsets[] = {-INT64_C(1099511627776), -50, -13, -3, 0, 4, 36, 49, 50,
                                      INT64_C(1099511627776)};

    for (int w = 0; w < 6; w++) {
        for (int o = 0; o < 12; o++) {
            for (int causal = 0; causal < 2; causal++) {
                struct attention_spec spec = problem(methods[_i]);
                spec.fill = (w + o) % 2 ? ATTENTION_UNIFORM : ATTENTION_NORMAL;
                spec.desc.B = 2;
                spec.desc.causal = causal;
                spec.desc.has_window = 1;
                spec.desc.window_left = windows[w][0];
                spec.desc.window_right = windows[w][1];
                spec.desc.offset_kind = o < 10 ? GPU_MHA_OFFSET : (gpu_mha_offset_kind)(o - 10);
                spec.desc.offset = o < 10 ? offsets[o] : 0;
                spec.desc.key_lengths = o % 4 == 3 ? GPU_MHA_I64 : GPU_MHA_INDEX_NONE;
                attention_check(&spec, NULL);
            }
        }
    }
}
END_TEST

/* More queries than keys, more keys than queries, and none at all, under both diagonals. */
START_TEST(lengths_differ_or_are_zero)
{
    static const int64_t lengths[][3] = {{14, 37, 0}, {37, 14, 0}, {9, 9, 0},
                                         {5, 1, 0},   {14, 0, 0},  {14, 0, 23},
                                         {14, 23, 1}, {0, 9, 0},   {33, 65, 7}}; /* NQ NK NP */

    for (int n = 0; n < 9 * 6; n++) {
        struct attention_spec spec = problem(methods[_i]);
        spec.desc.NQ = lengths[n % 9][0];
        spec.desc.NK = lengths[n % 9][1];
        spec.desc.NP = lengths[n % 9][2];
        spec.desc.B = n == 50 ? 0 : 3;
        spec.desc.causal = n / 9 % 2;
        spec.desc.offset_kind = n / 9 > 2 ? GPU_MHA_BOTTOM_RIGHT : GPU_MHA_TOP_LEFT;
        spec.desc.sinks = n / 27;
        show(&spec, n / 2);
        spec.host_call = 1;
        attention_check(&spec, NULL);
    }
}
END_TEST

/* NaN and infinities in what is visible come out as arithmetic says, and nowhere else. */
START_TEST(visible_nan_and_infinity)
{
    for (int n = 0; n < 60; n++) {
        struct attention_spec spec = problem(methods[_i]);
        spec.fill = ATTENTION_SPECIAL;
        spec.seed += 500 + (uint64_t)n;
        spec.desc.NK = 33 + n;
        spec.desc.causal = n % 2;
        spec.desc.offset_kind = GPU_MHA_BOTTOM_RIGHT;
        spec.desc.key_lengths = (gpu_mha_index_type)(n % 3);
        spec.desc.softcap = n % 4 == 1 ? 3.0f : 0.0f;
        spec.desc.sinks = n % 5 == 2;
        if (n % 3 == 1) {
            spec.desc.mask.type = GPU_MHA_MASK_BOOL;
            spec.mask = (struct attention_mask){0xF, 0, 0.5};
        }
        if (n % 7 == 3) {
            spec.desc.bias.type = GPU_MHA_MASK_F16;
            spec.bias = (struct attention_mask){0x9, 1, 0.2};
        }
        show(&spec, n);
        attention_check(&spec, NULL);
    }
}
END_TEST

/* The device clamps lengths that only it knows: below 0 is 0, above NT is NT. */
START_TEST(lengths_out_of_range_are_clamped)
{
    struct attention_launch launch = {.poison = POISON_NAN};
    static const int64_t wild[2][3] = {{INT32_MIN, INT32_MAX, 38},
                                       {INT64_MIN, INT64_MAX, INT64_C(1) << 40}};

    for (int wide = 0; wide < 2; wide++) {
        struct attention_spec spec = problem(methods[_i]);
        struct attention_data data;
        struct attention_outputs got, want;
        char error[ATTENTION_ERROR_SIZE];

        spec.desc.key_lengths = wide ? GPU_MHA_I64 : GPU_MHA_I32;
        attention_data_make(&spec, &data);
        struct attention_image *lengths = &data.images[ARRAY_KEY_LENGTHS];
        unsigned char *at =
            lengths->bytes + (size_t)lengths->layout.offset * lengths->element_bytes;
        for (int pass = 0; pass < 2; pass++) {
            for (int b = 0; b < 3; b++) {
                int64_t length = pass == 1 ? wild[wide][b] : b == 0 ? 0 : spec.desc.NK;
                int32_t narrow = (int32_t)length;
                memcpy(at + (size_t)b * lengths->element_bytes,
                       wide ? (const void *)&length : (const void *)&narrow,
                       lengths->element_bytes);
            }
            for (int a = 0; a < ARRAY_INPUTS; a++) { /* every key is used now */
                if (data.images[a].used) {
                    memset(data.images[a].used, 1, (size_t)data.images[a].elements);
                }
            }
            ck_assert_msg(
                attention_run(attention_context, &data, launch, pass ? &got : &want, error) == 0,
                "%s", error);
        }
        ck_assert_ptr_null(attention_outputs_differ(&got, &want));
        attention_outputs_free(&got);
        attention_outputs_free(&want);
        attention_data_free(&data);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("masks");
    TCase *tcase = tcase_create("masks");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, attention_open, attention_close);
    tcase_add_loop_test(tcase, every_broadcast_shape, 0, 2);
    tcase_add_loop_test(tcase, masks_intersect, 0, 2);
    tcase_add_loop_test(tcase, every_offset_and_window, 0, 2);
    tcase_add_loop_test(tcase, lengths_differ_or_are_zero, 0, 2);
    tcase_add_loop_test(tcase, visible_nan_and_infinity, 0, 2);
    tcase_add_loop_test(tcase, lengths_out_of_range_are_clamped, 0, 2);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
