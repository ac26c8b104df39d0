/*
 * layer.c - whole layers drawn from seeds, by both ways of a call, against the float64 reference.
 * The seed is the number of the loop, which Check prints.
 */
#include "harness/assertions.h"
#include "harness/layer_run.h"
#include "harness/storage.h"

#include <stdlib.h>

#define LAYERS 40

static gpu_mha_context *context;

/* Checked: a driver in use does not survive the fork in front of a test. */
static void open_context(void)
{
    setenv("GPU_MHA_LOG", "off", 1);
    ck_assert_msg(gpu_mha_context_create(NULL, &context) == GPU_MHA_OK, "%s", gpu_mha_last_error());
}

static void close_context(void)
{
    gpu_mha_context_release(context);
}

static int64_t between(struct rng *rng, int64_t low, int64_t high)
{
    return low + rng_below(rng, high - low + 1);
}

static gpu_mha_type any_type(struct rng *rng)
{
    return (gpu_mha_type)rng_below(rng, 3);
}

static void draw_masks(struct rng *rng, gpu_mha_desc *a)
{
    a->mask.type = rng_below(rng, 3) == 0 ? GPU_MHA_MASK_BOOL : GPU_MHA_MASK_NONE;
    a->bias.type = rng_below(rng, 3) == 0
                       ? (gpu_mha_mask_type)between(rng, GPU_MHA_MASK_F32, GPU_MHA_MASK_BF16)
                       : GPU_MHA_MASK_NONE;
    a->key_lengths = (gpu_mha_index_type)rng_below(rng, 3);
    a->causal = (int)rng_below(rng, 2);
    a->offset_kind = (gpu_mha_offset_kind)rng_below(rng, 2);
    a->alibi = (gpu_mha_alibi)rng_below(rng, 3);
    a->sinks = (int)rng_below(rng, 2);
}

/* Head sizes are few: each is a kernel to build. */
static gpu_mha_layer_desc draw(struct rng *rng, gpu_mha_desc *a)
{
    const int64_t HKV = between(rng, 1, 3);
    const int packed = (int)rng_below(rng, 2);
    const int64_t E = between(rng, 1, 40);

    *a = (gpu_mha_desc){.B = between(rng, 1, 3),
                        .H = HKV * between(rng, 1, 3),
                        .HKV = HKV,
                        .NQ = between(rng, 1, 20),
                        .NK = between(rng, 1, 40),
                        .DK = 7,
                        .DV = 10,
                        .softcap = rng_below(rng, 3) == 0 ? 2.5f : 0.0f,
                        .lse = (int)rng_below(rng, 2)};
    a->query.type = any_type(rng);
    a->key.type = any_type(rng);
    a->value.type = any_type(rng);
    a->output.type = any_type(rng);
    a->has_scale = (int)rng_below(rng, 2);
    a->scale = a->has_scale ? -0.21f : 0.0f;
    if (rng_below(rng, 3) == 0) {
        a->weights = (gpu_mha_weights)rng_below(rng, 3);
        a->scores = (gpu_mha_scores)rng_below(rng, 5);
    }
    draw_masks(rng, a);
    const int has_bias = (int)rng_below(rng, 2);
    return (gpu_mha_layer_desc){.attention = a,
                                .EQ = E,
                                .EK = packed ? E : between(rng, 1, 40),
                                .EV = packed ? E : between(rng, 1, 40),
                                .EO = between(rng, 1, 40),
                                .weight_type = any_type(rng),
                                .packed_qkv = packed,
                                .bias_q = has_bias,
                                .bias_k = packed ? has_bias : (int)rng_below(rng, 2),
                                .bias_v = packed ? has_bias : (int)rng_below(rng, 2),
                                .bias_out = (int)rng_below(rng, 2)};
}

START_TEST(a_random_layer_is_right)
{
    for (int seed = _i * 10; seed < _i * 10 + 10; seed++) {
        gpu_mha_desc a;
        struct layer_data data;
        struct rng rng;
        rng_seed(&rng, (uint64_t)seed);
        const gpu_mha_layer_desc desc = draw(&rng, &a);
        layer_data_make(&data, &desc, (uint64_t)seed);
        const gpu_mha_status status =
            seed % 2 ? layer_run_host(context, &data) : layer_run_device(context, &data, 0);
        ck_assert_msg(status == GPU_MHA_OK, "seed %d: %s", seed, gpu_mha_last_error());
        layer_check(&data);
        layer_data_free(&data);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("random layers");
    TCase *tcase = tcase_create("layers");
    tcase_add_checked_fixture(tcase, open_context, close_context);
    tcase_set_timeout(tcase, 240);
    tcase_add_loop_test(tcase, a_random_layer_is_right, 0, LAYERS / 10);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
