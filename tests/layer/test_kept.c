/*
 * test_kept.c - what blocking calls make ready is kept: a second call with the same descriptor
 * makes nothing, another descriptor gets its own, more than a context keeps are still right.
 */
#include "cl/recent.h"
#include "harness/assertions.h"
#include "harness/layer_run.h"

#include <stdlib.h>
#include <string.h>

static gpu_mha_context *context;
static int made; /* "keep" lines of the log, one for whatever was made ready */

static void count_line(void *user, const char *level, const char *line)
{
    (void)user;
    (void)level;
    made += strncmp(line, "keep ", 5) == 0;
}

/* Checked: the level is read once in a process, and each test has its own. */
static void open_context(void)
{
    setenv("GPU_MHA_LOG", "debug", 1);
    gpu_mha_set_log(count_line, NULL);
    ck_assert_msg(gpu_mha_context_create(NULL, &context) == GPU_MHA_OK, "%s", gpu_mha_last_error());
}

static void close_context(void)
{
    gpu_mha_context_release(context);
    gpu_mha_set_log(NULL, NULL);
}

/* ---- a small call of every operation ---- */

static float a[16], b[16], c[16], d[16], out[16], more[16];

static gpu_mha_status call_attention(int64_t size)
{
    const gpu_mha_desc desc = {
        .B = 1, .H = 1, .HKV = 1, .NQ = 2, .NK = 3, .DK = size, .DV = size + 1};
    const gpu_mha_arrays arrays = {.query = a, .key = b, .value = c, .output = out};
    return gpu_mha(context, &desc, &arrays);
}

static gpu_mha_status call_merge(int64_t size)
{
    const gpu_mha_merge_desc desc = {.B = 1, .H = 1, .NQ = 2, .DV = size};
    const gpu_mha_merge_arrays arrays = {
        .a = a, .lse_a = b, .b = c, .lse_b = d, .output = out, .lse = more};
    return gpu_mha_merge(context, &desc, &arrays);
}

static gpu_mha_status call_rotary(int64_t size)
{
    const gpu_mha_rotary_desc desc = {.B = 1, .H = 1, .N = 2, .D = 2 * size};
    const gpu_mha_rotary_arrays arrays = {.input = a, .cos = b, .sin = c, .output = out};
    return gpu_mha_rotary(context, &desc, &arrays);
}

static gpu_mha_status call_cache_update(int64_t size)
{
    const gpu_mha_cache_desc desc = {.B = 1, .H = 1, .D = size, .N = 2, .NC = 3};
    const gpu_mha_cache_arrays arrays = {.update = a, .cache = out};
    return gpu_mha_cache_update(context, &desc, &arrays);
}

static gpu_mha_status call_layer(int64_t size)
{
    const gpu_mha_desc inside = {.B = 1, .H = 1, .HKV = 1, .NQ = 2, .NK = 3, .DK = 2, .DV = 3};
    const gpu_mha_layer_desc desc = {.attention = &inside, .EQ = size, .EK = 2, .EV = 4, .EO = 5};
    const gpu_mha_layer_arrays arrays = {.query_input = a,
                                         .key_input = b,
                                         .value_input = c,
                                         .weight_q = a,
                                         .weight_k = b,
                                         .weight_v = c,
                                         .weight_out = d,
                                         .output = out};
    return gpu_mha_layer(context, &desc, &arrays);
}

static const struct {
    gpu_mha_status (*call)(int64_t size);
    int made_for_another; /* 0: one kernel serves every size */
} calls[] = {{call_attention, 1},
             {call_merge, 1},
             {call_rotary, 0},
             {call_cache_update, 0},
             {call_layer, 1}};
#define CALLS (int)(sizeof calls / sizeof calls[0])

static void expect_made(int which, int64_t size, int want)
{
    made = 0;
    ck_assert_msg(calls[which].call(size) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    ck_assert_msg(made == want, "call %d of size %d: %d made, want %d", which, (int)size, made,
                  want);
}

START_TEST(a_second_call_makes_nothing)
{
    for (int which = 0; which < CALLS; which++) {
        expect_made(which, 3, 1);
        expect_made(which, 3, 0);
        expect_made(which, 2, calls[which].made_for_another);
        expect_made(which, 3, 0);
    }
    /* One list for all of them. */
    for (int which = 0; which < CALLS; which++) {
        expect_made(which, 2, 0);
    }
}
END_TEST

/* ---- layers ---- */

static void run_layer(const gpu_mha_layer_desc *desc, uint64_t seed)
{
    struct layer_data data;
    layer_data_make(&data, desc, seed);
    ck_assert_msg(layer_run_host(context, &data) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    layer_check(&data);
    layer_data_free(&data);
}

static gpu_mha_layer_desc small_layer(gpu_mha_desc *inside)
{
    *inside = (gpu_mha_desc){.B = 2, .H = 2, .HKV = 1, .NQ = 3, .NK = 5, .DK = 4, .DV = 3};
    return (gpu_mha_layer_desc){.attention = inside, .EQ = 6, .EK = 7, .EV = 8, .EO = 9};
}

/* By what they say, not by where they lie: every run has its descriptors in another place. */
START_TEST(a_layer_is_known_by_both_descriptors)
{
    gpu_mha_desc inside;
    gpu_mha_layer_desc desc = small_layer(&inside);
    for (uint64_t n = 0; n < 3; n++) {
        run_layer(&desc, 100 + n);
    }
    ck_assert_int_eq(made, 1);
    inside.causal = 1;
    run_layer(&desc, 110);
    ck_assert_int_eq(made, 2);
    desc.bias_out = 1;
    run_layer(&desc, 120);
    ck_assert_int_eq(made, 3);
    inside.query.type = GPU_MHA_F16;
    run_layer(&desc, 130);
    ck_assert_int_eq(made, 4);
    inside.query.type = GPU_MHA_F32;
    run_layer(&desc, 140);
    desc = small_layer(&inside);
    run_layer(&desc, 150);
    ck_assert_int_eq(made, 4);
}
END_TEST

/* Forwards and back: what comes again soonest is there, the rest is made again. */
START_TEST(more_layers_than_are_kept)
{
    enum { LAYERS = MHA_RECENT_MAX + 4 };
    gpu_mha_desc inside;
    gpu_mha_layer_desc desc = small_layer(&inside);
    for (int n = 0; n < LAYERS; n++) {
        desc.EO = 3 + n;
        run_layer(&desc, 200 + (uint64_t)n);
    }
    ck_assert_int_eq(made, LAYERS);
    for (int n = LAYERS - 1; n >= 0; n--) {
        desc.EO = 3 + n;
        run_layer(&desc, 300 + (uint64_t)n);
        const int again = n < LAYERS - MHA_RECENT_MAX ? LAYERS - MHA_RECENT_MAX - n : 0;
        ck_assert_int_eq(made, LAYERS + again);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kept");
    TCase *tcase = tcase_create("kept");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, open_context, close_context);
    tcase_add_test(tcase, a_second_call_makes_nothing);
    tcase_add_test(tcase, a_layer_is_known_by_both_descriptors);
    tcase_add_test(tcase, more_layers_than_are_kept);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
