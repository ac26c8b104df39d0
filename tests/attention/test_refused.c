/*
 * test_refused.c - every descriptor, array and selector that must be refused: the status, a
 * sentence that names the field and its value, outputs as they were, and a next call that works.
 */
#include "harness/assertions.h"
#include "harness/probe.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A valid problem without masks; the tables below change one thing of it. */
static const gpu_mha_desc valid = {.B = 2, .H = 4, .HKV = 2, .NQ = 3, .NK = 4, .DK = 5, .DV = 3};

static float query[2 * 4 * 3 * 5], key[2 * 2 * 4 * 5], value[2 * 2 * 4 * 3], output[2 * 4 * 3 * 3];
static float extra[2 * 4 * 3 * 8];
static unsigned char untouched[sizeof output];

static void expect_untouched(void)
{
    ck_assert_mem_eq(output, untouched, sizeof output);
}

static void expect_the_next_call_works(void)
{
    const gpu_mha_arrays arrays = {.query = query, .key = key, .value = value, .output = output};
    for (size_t n = 0; n < sizeof value / sizeof value[0]; n++) {
        value[n] = 6;
    }
    ck_assert_msg(gpu_mha(probe_context(), &valid, &arrays) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    for (size_t n = 0; n < sizeof output / sizeof output[0]; n++) {
        ASSERT_DOUBLE_SAME(output[n], 6);
    }
    memset(output, 0xFF, sizeof output);
}

static void expect_sentence(gpu_mha_status status, gpu_mha_status want, const char *words)
{
    const gpu_mha_error error = gpu_mha_last_error_info();
    ck_assert_msg(status == want, "status %s, want %s for \"%s\"", gpu_mha_status_name(status),
                  gpu_mha_status_name(want), words);
    ck_assert_msg(strncmp(error.message, words, strlen(words)) == 0,
                  "the message is \"%s\", want \"%s...\"", error.message, words);
    ck_assert_int_eq(error.status, want);
    ck_assert_str_eq(error.build_log, "");
    ck_assert_str_eq(error.message, gpu_mha_last_error());
}

/* ---- descriptors ---- */

enum kind { I64, INT, FLOAT };

struct patch {
    size_t at;
    enum kind kind;
    int64_t integer;
    float real;
};

#define SET(field, number)                                                                         \
    {                                                                                              \
        offsetof(gpu_mha_desc, field), I64, number, 0                                              \
    }
#define FLAG(field, number)                                                                        \
    {                                                                                              \
        offsetof(gpu_mha_desc, field), INT, number, 0                                              \
    }
#define REAL(field, number)                                                                        \
    {                                                                                              \
        offsetof(gpu_mha_desc, field), FLOAT, 0, number                                            \
    }
#define BIG ((int64_t)1 << 40)

static const struct {
    const char *words;
    struct patch patches[5]; /* the unused ones are 0 */
} wrong[] = {
    {"B is -1: ", {SET(B, -1)}},
    {"B is 1099511627777: ", {SET(B, BIG + 1)}},
    {"B is -9223372036854775808: ", {SET(B, INT64_MIN)}},
    {"H is 0: ", {SET(H, 0)}},
    {"H is -4: ", {SET(H, -4)}},
    {"HKV is 0: ", {SET(HKV, 0)}},
    {"H is 33: it must be a multiple of HKV, which is 2", {SET(H, 33)}},
    {"H is 3: it must be a multiple of HKV, which is 2", {SET(H, 3)}},
    {"H is 2: it must be a multiple of HKV, which is 4", {SET(H, 2), SET(HKV, 4)}},
    {"NQ is -1: ", {SET(NQ, -1)}},
    {"NK is -1: ", {SET(NK, -1)}},
    {"NP is -1: ", {SET(NP, -1)}},
    {"NP + NK is 2199023255552: ", {SET(NP, BIG), SET(NK, BIG)}},
    {"DK is 0: ", {SET(DK, 0)}},
    {"DV is 0: ", {SET(DV, 0)}},
    {"DV is -3: ", {SET(DV, -3)}},

    {"has_scale is 2: ", {FLAG(has_scale, 2)}},
    {"scale is 0.5: ", {REAL(scale, 0.5f)}},
    {"scale is nan: ", {FLAG(has_scale, 1), REAL(scale, NAN)}},
    {"scale is inf: ", {FLAG(has_scale, 1), REAL(scale, INFINITY)}},
    {"scale is -inf: ", {FLAG(has_scale, 1), REAL(scale, -INFINITY)}},
    {"softcap is -1: ", {REAL(softcap, -1)}},
    {"softcap is nan: ", {REAL(softcap, NAN)}},
    {"softcap is inf: ", {REAL(softcap, INFINITY)}},
    {"sinks is -1: ", {FLAG(sinks, -1)}},
    {"dropout is -0.25: ", {REAL(dropout, -0.25f)}},
    {"dropout is 1: ", {REAL(dropout, 1)}},
    {"dropout is nan: ", {REAL(dropout, NAN)}},
    {"alibi is 3: ", {FLAG(alibi, 3)}},
    {"alibi is -1: ", {FLAG(alibi, -1)}},

    {"causal is 7: ", {FLAG(causal, 7)}},
    {"has_window is 2: ", {FLAG(has_window, 2)}},
    {"offset_kind is 3: ", {FLAG(offset_kind, 3)}},
    {"offset_kind is -1: ", {FLAG(offset_kind, -1)}},
    {"offset is 5: ", {SET(offset, 5)}},
    {"offset is -5: ", {FLAG(offset_kind, GPU_MHA_BOTTOM_RIGHT), SET(offset, -5)}},
    {"offset is 1099511627777: ", {FLAG(offset_kind, GPU_MHA_OFFSET), SET(offset, BIG + 1)}},
    {"offset is -1099511627777: ", {FLAG(offset_kind, GPU_MHA_OFFSET), SET(offset, -BIG - 1)}},
    {"window_left is 1: ", {SET(window_left, 1)}},
    {"window_right is -1: ", {SET(window_right, -1)}},
    {"window_left is -2: ", {FLAG(has_window, 1), SET(window_left, -2)}},
    {"window_right is -2: ", {FLAG(has_window, 1), SET(window_right, -2)}},
    {"key_lengths is 3: ", {FLAG(key_lengths, 3)}},
    {"key_lengths is -1: ", {FLAG(key_lengths, -1)}},

    {"lse is 2: ", {FLAG(lse, 2)}},
    {"weights is 3: ", {FLAG(weights, 3)}},
    {"scores is 5: ", {FLAG(scores, 5)}},
    {"scores is -1: ", {FLAG(scores, -1)}},
    {"method is 3: ", {FLAG(method, 3)}},
    {"method is GPU_MHA_FUSED: it gives no weights", {FLAG(method, 1), FLAG(weights, 1)}},
    {"method is GPU_MHA_FUSED: it gives no scores", {FLAG(method, 1), FLAG(scores, 1)}},

    {"query.type is 3: ", {FLAG(query.type, 3)}},
    {"key.type is -1: ", {FLAG(key.type, -1)}},
    {"value.type is 9: ", {FLAG(value.type, 9)}},
    {"past_key.type is 3: ", {SET(NP, 1), FLAG(past_key.type, 3)}},
    {"past_value.type is 3: ", {SET(NP, 1), FLAG(past_value.type, 3)}},
    {"output.type is 3: ", {FLAG(output.type, 3)}},
    {"query.layout is 3: ", {FLAG(query.layout, 3)}},
    {"output.layout is -1: ", {FLAG(output.layout, -1)}},
    {"key.stride_b is 40: ", {SET(key.stride_b, 40)}},
    {"value.stride_h is 1: ", {FLAG(value.layout, GPU_MHA_BNHD), SET(value.stride_h, 1)}},
    {"query.stride_n is -5: ", {FLAG(query.layout, GPU_MHA_STRIDED), SET(query.stride_n, -5)}},
    {"key spans more than",
     {FLAG(key.layout, GPU_MHA_STRIDED), SET(key.stride_b, INT64_MAX), SET(key.stride_h, 20)}},
    {"value spans more than",
     {FLAG(value.layout, GPU_MHA_STRIDED), SET(value.stride_n, INT64_MAX / 3)}},
    {"query spans more than", {SET(B, BIG), SET(H, BIG), SET(HKV, BIG)}},
    {"output.stride_n is 0: rows of an output must not overlap",
     {FLAG(output.layout, GPU_MHA_STRIDED), SET(output.stride_b, 36), SET(output.stride_h, 9)}},
    {"output.stride_n is 2: rows of an output must not overlap",
     {FLAG(output.layout, GPU_MHA_STRIDED), SET(output.stride_b, 36), SET(output.stride_h, 9),
      SET(output.stride_n, 2)}},
    {"output.stride_h is 8: rows of an output must not overlap",
     {FLAG(output.layout, GPU_MHA_STRIDED), SET(output.stride_b, 36), SET(output.stride_h, 8),
      SET(output.stride_n, 3)}},
    {"output.stride_b is 35: rows of an output must not overlap",
     {FLAG(output.layout, GPU_MHA_STRIDED), SET(output.stride_b, 35), SET(output.stride_h, 9),
      SET(output.stride_n, 3)}},

    {"mask.type is 2: ", {FLAG(mask.type, GPU_MHA_MASK_F32)}},
    {"mask.type is -1: ", {FLAG(mask.type, -1)}},
    {"bias.type is 1: ", {FLAG(bias.type, GPU_MHA_MASK_BOOL)}},
    {"bias.type is 5: ", {FLAG(bias.type, 5)}},
    {"mask.strided is 2: ", {FLAG(mask.type, 1), FLAG(mask.strided, 2)}},
    {"mask.shape[3] is set: without a mask type it must be 0", {SET(mask.shape[3], 4)}},
    {"bias.stride[0] is set: without a mask type it must be 0", {SET(bias.stride[0], 4)}},
    {"mask.shape[0] is 3: it must be B, which is 2, or 1",
     {FLAG(mask.type, 1), SET(mask.shape[0], 3)}},
    {"bias.shape[1] is 2: it must be H, which is 4, or 1",
     {FLAG(bias.type, 2), SET(bias.shape[1], 2)}},
    {"mask.shape[2] is -1: it must be NQ, which is 3, or 1",
     {FLAG(mask.type, 1), SET(mask.shape[2], -1)}},
    {"mask.shape[3] is 3: it must be NP + NK, which is 4, or 1",
     {FLAG(mask.type, 1), SET(mask.shape[3], 3)}},
    {"bias.shape[3] is 4: it must be NP + NK, which is 9, or 1",
     {FLAG(bias.type, 2), SET(bias.shape[3], 4), SET(NP, 5)}},
    {"mask.stride[2] is 4: it must be 0 unless strided is 1",
     {FLAG(mask.type, 1), SET(mask.stride[2], 4)}},
    {"bias.stride[1] is -1: it must not be negative",
     {FLAG(bias.type, 2), FLAG(bias.strided, 1), SET(bias.stride[1], -1)}},
    {"mask spans more than",
     {FLAG(mask.type, 1), FLAG(mask.strided, 1), SET(mask.stride[0], INT64_MAX)}},
    {"B * H * NQ is too large: ",
     {SET(NQ, BIG), SET(H, BIG >> 20), SET(DV, 1), FLAG(query.layout, GPU_MHA_STRIDED),
      FLAG(output.type, GPU_MHA_F16)}},
    {"B * H * NQ * (NP + NK) is too large", {SET(NQ, BIG), SET(NK, BIG >> 20), FLAG(weights, 1)}},
    {"B * H * NQ * (NP + NK) is too large", {SET(NQ, BIG), SET(NK, BIG >> 20), FLAG(scores, 1)}},
    {"gpu_mha_desc.struct_size is 8: ", {SET(struct_size, 8)}},
    {"gpu_mha_desc.struct_size is 18446744073709551615: ", {SET(struct_size, -1)}},
};

static gpu_mha_desc desc_with(const struct patch patches[5])
{
    gpu_mha_desc desc = valid;
    for (int n = 0; n < 5; n++) {
        const struct patch *p = &patches[n];
        void *at = (char *)&desc + p->at;
        if (p->at == 0 && p->integer == 0) {
            break;
        }
        if (p->kind == I64) {
            memcpy(at, &p->integer, sizeof p->integer);
        } else if (p->kind == INT) {
            memcpy(at, &(int){(int)p->integer}, sizeof(int));
        } else {
            memcpy(at, &p->real, sizeof p->real);
        }
    }
    return desc;
}

START_TEST(a_wrong_descriptor_is_refused)
{
    const gpu_mha_desc desc = desc_with(wrong[_i].patches);
    const gpu_mha_arrays arrays = {.query = query, .key = key, .value = value, .output = output};
    gpu_mha_plan *plan = (gpu_mha_plan *)(void *)output;
    memset(output, 0xFF, sizeof output);
    expect_sentence(gpu_mha_desc_check(&desc), GPU_MHA_INVALID, wrong[_i].words);
    expect_sentence(gpu_mha_plan_create(probe_context(), &desc, &plan), GPU_MHA_INVALID,
                    wrong[_i].words);
    ck_assert_ptr_null(plan);
    expect_sentence(gpu_mha(probe_context(), &desc, &arrays), GPU_MHA_INVALID, wrong[_i].words);
    expect_untouched();
    expect_the_next_call_works();
}
END_TEST

/* Right, but more than a device of today holds: another answer than "invalid". */
START_TEST(a_limit_of_the_device_is_another_answer)
{
    const struct {
        const char *words;
        struct patch patches[5];
    } large[] = {
        {"DK is 16385: ", {SET(DK, 16385)}},
        {"DV is 1099511627776: ", {SET(DV, BIG), SET(B, 1), SET(H, 1), SET(HKV, 1)}},
        {"the workspace of the staged method is ",
         {FLAG(method, GPU_MHA_STAGED), SET(NQ, (int64_t)1 << 22), SET(NK, (int64_t)1 << 22)}},
    };
    gpu_mha_plan *plan = NULL;
    for (size_t n = 0; n < sizeof large / sizeof large[0]; n++) {
        const gpu_mha_desc desc = desc_with(large[n].patches);
        ck_assert_int_eq(gpu_mha_desc_check(&desc), GPU_MHA_OK);
        expect_sentence(gpu_mha_plan_create(probe_context(), &desc, &plan), GPU_MHA_UNSUPPORTED,
                        large[n].words);
        ck_assert_ptr_null(plan);
    }
    expect_the_next_call_works();
}
END_TEST

START_TEST(a_missing_argument_is_refused)
{
    gpu_mha_plan *plan = NULL;
    gpu_mha_context *context = NULL;
    const gpu_mha_arrays arrays = {.query = query, .key = key, .value = value, .output = output};
    float slope = 0;
    gpu_mha_desc desc = valid;
    expect_sentence(gpu_mha_desc_check(NULL), GPU_MHA_INVALID, "desc is NULL");
    expect_sentence(gpu_mha_plan_create(probe_context(), NULL, &plan), GPU_MHA_INVALID,
                    "desc is NULL");
    expect_sentence(gpu_mha_plan_create(probe_context(), &valid, NULL), GPU_MHA_INVALID,
                    "plan is NULL");
    expect_sentence(gpu_mha(probe_context(), NULL, &arrays), GPU_MHA_INVALID, "desc is NULL");
    expect_sentence(gpu_mha(probe_context(), &valid, NULL), GPU_MHA_INVALID, "arrays is NULL");
    expect_sentence(gpu_mha_plan_retain(NULL), GPU_MHA_INVALID, "plan is NULL");
    expect_sentence(gpu_mha_context_retain(NULL), GPU_MHA_INVALID, "context is NULL");
    expect_sentence(gpu_mha_context_create("", NULL), GPU_MHA_INVALID, "context is NULL");
    expect_sentence(gpu_mha_context_wrap(NULL, NULL, &context), GPU_MHA_INVALID, "cl is NULL");
    expect_sentence(gpu_mha_device_count(NULL), GPU_MHA_INVALID, "count is NULL");
    expect_sentence(gpu_mha_device_get(0, NULL), GPU_MHA_INVALID, "info is NULL");
    expect_sentence(gpu_mha_alibi_slopes(0, &slope), GPU_MHA_INVALID, "H is 0");
    expect_sentence(gpu_mha_alibi_slopes(1, NULL), GPU_MHA_INVALID, "slopes is NULL");
    expect_sentence(gpu_mha_mask_broadcast(NULL, GPU_MHA_MASK_BOOL, 0, NULL), GPU_MHA_INVALID,
                    "desc is NULL");
    expect_sentence(gpu_mha_mask_broadcast(&desc, GPU_MHA_MASK_BOOL, 1, NULL), GPU_MHA_INVALID,
                    "shape is NULL");
    expect_sentence(gpu_mha_mask_broadcast(&desc, GPU_MHA_MASK_BOOL, 5, NULL), GPU_MHA_INVALID,
                    "rank is 5");
    expect_sentence(gpu_mha_mask_broadcast(&desc, GPU_MHA_MASK_BOOL, -1, NULL), GPU_MHA_INVALID,
                    "rank is -1");
    expect_sentence(gpu_mha_mask_broadcast(&desc, GPU_MHA_MASK_NONE, 0, NULL), GPU_MHA_INVALID,
                    "type is 0");
    expect_sentence(gpu_mha_mask_broadcast(&desc, GPU_MHA_MASK_F32, 1, &(int64_t){5}),
                    GPU_MHA_INVALID, "shape[0] is 5: it must be NP + NK, which is 4");
    expect_sentence(gpu_mha_mask_broadcast(&desc, GPU_MHA_MASK_F32, 2, (int64_t[]){4, 4}),
                    GPU_MHA_INVALID, "shape[0] is 4: it must be NQ, which is 3");
    ck_assert_mem_eq(&desc, &valid, sizeof desc);
    expect_the_next_call_works();
}
END_TEST

/* ---- arrays ---- */

enum field {
    QUERY,
    KEY,
    VALUE,
    PAST_KEY,
    PAST_VALUE,
    MASK,
    BIAS,
    KEY_LENGTHS,
    SLOPES,
    SINKS,
    OUTPUT,
    LSE,
    WEIGHTS,
    SCORES,
    FIELDS
};

static const char *const names[FIELDS] = {
    "query",       "key",          "value", "past_key", "past_value", "mask",    "bias",
    "key_lengths", "alibi_slopes", "sinks", "output",   "lse",        "weights", "scores"};

/* Everything that can be asked for, and an array for each. */
static gpu_mha_desc full_desc(void)
{
    gpu_mha_desc desc = valid;
    desc.NP = 4;
    desc.mask.type = GPU_MHA_MASK_BOOL;
    desc.bias.type = GPU_MHA_MASK_F32;
    desc.key_lengths = GPU_MHA_I32;
    desc.alibi = GPU_MHA_ALIBI_SLOPES;
    desc.sinks = desc.lse = 1;
    desc.weights = GPU_MHA_WEIGHTS_PER_HEAD;
    desc.scores = GPU_MHA_SCORES_RAW;
    return desc;
}

static void set_array(gpu_mha_arrays *arrays, int field, void *pointer)
{
    const void **const inputs[] = {&arrays->query,    &arrays->key,        &arrays->value,
                                   &arrays->past_key, &arrays->past_value, &arrays->mask,
                                   &arrays->bias,     &arrays->key_lengths};
    const float **const floats[] = {&arrays->alibi_slopes, &arrays->sinks};
    float **const outputs[] = {&arrays->lse, &arrays->weights, &arrays->scores};
    if (field < SLOPES) {
        *inputs[field] = pointer;
    } else if (field < OUTPUT) {
        *floats[field - SLOPES] = pointer;
    } else if (field == OUTPUT) {
        arrays->output = pointer;
    } else {
        *outputs[field - LSE] = pointer;
    }
}

START_TEST(a_missing_array_is_refused)
{
    const gpu_mha_desc desc = full_desc();
    gpu_mha_arrays arrays = {0};
    char words[80];
    memset(output, 0xFF, sizeof output);
    memset(extra, 0, sizeof extra);
    for (int field = 0; field < FIELDS; field++) {
        set_array(&arrays, field, field == OUTPUT ? output : extra);
    }
    set_array(&arrays, _i, NULL);
    snprintf(words, sizeof words, "%s is NULL: ", names[_i]);
    expect_sentence(gpu_mha(probe_context(), &desc, &arrays), GPU_MHA_INVALID, words);
    expect_untouched();
    expect_the_next_call_works();
}
END_TEST

START_TEST(an_array_not_asked_for_is_refused)
{
    gpu_mha_arrays arrays = {.query = query, .key = key, .value = value, .output = output};
    char words[80];
    if (_i < PAST_KEY || _i == OUTPUT) {
        return;
    }
    memset(output, 0xFF, sizeof output);
    set_array(&arrays, _i, extra);
    snprintf(words, sizeof words, "%s is given: ", names[_i]);
    expect_sentence(gpu_mha(probe_context(), &valid, &arrays), GPU_MHA_INVALID, words);
    expect_untouched();
    expect_the_next_call_works();
}
END_TEST

START_TEST(a_key_length_out_of_range_is_refused)
{
    static const struct {
        const char *words;
        int64_t lengths[2];
    } cases[] = {{"key_lengths[0] is -1: ", {-1, 2}},
                 {"key_lengths[1] is 5: it must be from 0 to NP + NK, which is 4", {4, 5}}};
    const int64_t *wide = cases[_i / 2].lengths;
    const int32_t narrow[2] = {(int32_t)wide[0], (int32_t)wide[1]};
    gpu_mha_desc desc = valid;
    desc.key_lengths = _i % 2 ? GPU_MHA_I64 : GPU_MHA_I32;
    gpu_mha_arrays arrays = {.query = query,
                             .key = key,
                             .value = value,
                             .output = output,
                             .key_lengths = _i % 2 ? (const void *)wide : narrow};
    memset(output, 0xFF, sizeof output);
    expect_sentence(gpu_mha(probe_context(), &desc, &arrays), GPU_MHA_INVALID, cases[_i / 2].words);
    expect_untouched();
    expect_the_next_call_works();
}
END_TEST

/* ---- selectors ---- */

START_TEST(an_unknown_device_is_refused)
{
    static const char *const selectors[] = {
        "no such device",        "99:0", "0:99", "1:", ":0", "-1:0", "0:-1", "0:0:0",
        "18446744073709551616:0"};
    gpu_mha_context *context = (gpu_mha_context *)(void *)output;
    const gpu_mha_status status = gpu_mha_context_create(selectors[_i], &context);
    ck_assert_msg(status == GPU_MHA_NO_DEVICE, "\"%s\" gives %s", selectors[_i],
                  gpu_mha_status_name(status));
    ck_assert_ptr_null(context);
    ck_assert_msg(strstr(gpu_mha_last_error(), selectors[_i]) != NULL, "\"%s\" does not name %s",
                  gpu_mha_last_error(), selectors[_i]);
    gpu_mha_device_info info = {0};
    ck_assert_int_eq(gpu_mha_device_get(0, &info), GPU_MHA_OK);
    ck_assert_msg(strstr(gpu_mha_last_error(), info.name) != NULL,
                  "\"%s\" does not list the device %s", gpu_mha_last_error(), info.name);
    expect_the_next_call_works();
}
END_TEST

#define COUNT(array) ((int)(sizeof array / sizeof array[0]))

int main(void)
{
    Suite *suite = suite_create("refusals");
    TCase *refused = tcase_create("refused");
    memset(untouched, 0xFF, sizeof untouched);
    tcase_add_loop_test(refused, a_wrong_descriptor_is_refused, 0, COUNT(wrong));
    tcase_add_test(refused, a_limit_of_the_device_is_another_answer);
    tcase_add_test(refused, a_missing_argument_is_refused);
    tcase_add_loop_test(refused, a_missing_array_is_refused, 0, FIELDS);
    tcase_add_loop_test(refused, an_array_not_asked_for_is_refused, 0, FIELDS);
    tcase_add_loop_test(refused, a_key_length_out_of_range_is_refused, 0, 4);
    tcase_add_loop_test(refused, an_unknown_device_is_refused, 0, 9);
    suite_add_tcase(suite, refused);
    return probe_main(suite);
}
