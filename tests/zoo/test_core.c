/*
 * test_core.c - tiny problems with everything in them, on the device that MHA_ZOO names: all of
 * them must come out right. What the library chooses there is printed, one line a problem.
 *
 * With MHA_ZOO_LONG=1 there are as many rows and keys as it takes for the device's own large
 * shapes, which PoCL builds for minutes.
 */
#include "harness/attention_run.h"
#include "harness/layer_run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_long(void)
{
    const char *text = getenv("MHA_ZOO_LONG");

    return text && strcmp(text, "1") == 0;
}

static void check(const char *what, struct attention_spec *spec)
{
    char plan[64];

    spec->desc.lse = 1;
    spec->host_call = 1;
    attention_check(spec, plan);
    printf("%s, %s: %s\n", getenv("MHA_ZOO"), what, plan);
}

/* Head sizes are the same throughout: each pair is a build of its own. */
static struct attention_spec problem(uint64_t seed)
{
    const int more = is_long() ? 16 : 1;

    return (struct attention_spec){
        .desc = {.B = 2, .H = 4, .HKV = 2, .NQ = 5 * more, .NK = 37 * more, .DK = 24, .DV = 20},
        .seed = seed,
        .key = ATTENTION_PADDED,
        .value = ATTENTION_BNHD,
        .output = ATTENTION_PADDED_BNHD};
}

START_TEST(plain)
{
    struct attention_spec spec = problem(1);

    spec.out_of_order = 1;
    check("plain", &spec);
}
END_TEST

START_TEST(masks_of_every_kind_and_a_past)
{
    struct attention_spec spec = problem(2);

    attention_spec_everything(&spec, 13, 30);
    check("masks", &spec);
}
END_TEST

START_TEST(half_precision_storage)
{
    struct attention_spec spec = problem(3);
    const gpu_mha_type type = _i ? GPU_MHA_BF16 : GPU_MHA_F16;

    spec.desc.query.type = spec.desc.key.type = spec.desc.value.type = type;
    spec.desc.output.type = _i ? GPU_MHA_F32 : GPU_MHA_F16;
    spec.desc.causal = 1;
    spec.fill = _i ? ATTENTION_SPECIAL : ATTENTION_NORMAL;
    check(_i ? "bf16" : "f16", &spec);
}
END_TEST

START_TEST(one_query)
{
    struct attention_spec spec = problem(4);

    spec.desc.NQ = 1;
    spec.desc.NP = 60;
    spec.desc.NK = is_long() ? 700 : 11;
    check("decode", &spec);
}
END_TEST

START_TEST(many_heads_and_no_key)
{
    struct attention_spec spec = problem(5);

    spec.desc.B = is_long() ? 300 : 3;
    spec.desc.H = 6;
    spec.desc.HKV = 3; /* as many rows to a head as above, or it is another shape */
    spec.desc.NK = _i ? 0 : 6;
    check(_i ? "no key" : "many heads", &spec);
}
END_TEST

START_TEST(weights_and_scores)
{
    struct attention_spec spec = problem(6);

    spec.desc.NQ = 5;
    spec.desc.NK = 19;
    spec.desc.weights = _i ? GPU_MHA_WEIGHTS_AVERAGED : GPU_MHA_WEIGHTS_PER_HEAD;
    spec.desc.scores = GPU_MHA_SCORES_MASKED;
    spec.desc.causal = 1;
    spec.desc.bias.type = GPU_MHA_MASK_F32;
    spec.bias = (struct attention_mask){0xF, 0, 0.2};
    check(_i ? "averaged weights" : "weights", &spec);
}
END_TEST

static const char *layer_kind(const gpu_mha_layer_desc *desc, char *text, size_t size)
{
    gpu_mha_plan *plan = NULL;

    ck_assert_msg(gpu_mha_layer_plan_create(attention_context, desc, &plan) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    snprintf(text, size, "%s", gpu_mha_plan_text(plan));
    gpu_mha_plan_release(plan);
    return text;
}

/* The products with few rows and with many, from single precision and from half. */
START_TEST(layer)
{
    gpu_mha_desc inside = {.B = 2, .H = 4, .HKV = 2, .NQ = 5, .NK = 7, .DK = 24, .DV = 20};
    gpu_mha_layer_desc desc = {.attention = &inside, .EQ = 11, .EK = 13, .EV = 9, .EO = 10};
    struct layer_data data;
    char text[128];

    attention_use_tile(NULL);
    inside.causal = 1;
    if (_i) {
        desc.weight_type = GPU_MHA_F16;
        desc.bias_q = desc.bias_k = desc.bias_v = desc.bias_out = 1;
        inside.query.type = inside.output.type = GPU_MHA_BF16;
    }
    layer_data_make(&data, &desc, 7);
    ck_assert_msg(layer_run_host(attention_context, &data) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    layer_check(&data);
    ck_assert_msg(layer_run_device(attention_context, &data,
                                   CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == GPU_MHA_OK,
                  "%s", gpu_mha_last_error());
    layer_check(&data);
    layer_data_free(&data);
    printf("%s, layer: %s\n", getenv("MHA_ZOO"), layer_kind(&desc, text, sizeof text));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core");
    TCase *attention = tcase_create("attention"), *layers = tcase_create("layer");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(attention, 1200);
    tcase_set_timeout(layers, 1200);
    tcase_add_checked_fixture(attention, attention_open, attention_close);
    tcase_add_checked_fixture(layers, attention_open, attention_close);
    tcase_add_test(attention, plain);
    tcase_add_test(attention, masks_of_every_kind_and_a_past);
    tcase_add_loop_test(attention, half_precision_storage, 0, 2);
    tcase_add_test(attention, one_query);
    tcase_add_loop_test(attention, many_heads_and_no_key, 0, 2);
    tcase_add_loop_test(attention, weights_and_scores, 0, 2);
    tcase_add_loop_test(layers, layer, 0, 2);
    suite_add_tcase(suite, attention);
    suite_add_tcase(suite, layers);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
