/* test_layer.c - whole layers against the float64 reference, and what they refuse. */
#include "cl/context.h"
#include "harness/assertions.h"
#include "harness/layer_run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gpu_mha_context *context;

/* Checked: a driver in use does not survive the fork in front of a test. */
static void open_context(void)
{
    setenv("GPU_MHA_LOG", "off", 1);
    ck_assert_msg(gpu_mha_context_create(NULL, &context) == GPU_MHA_OK, "%s", gpu_mha_last_error());
}

/* A device that does not say it is a CPU has its products from CLBlast. */
static void open_context_for_clblast(void)
{
    open_context();
    context->device.type = CL_DEVICE_TYPE_ACCELERATOR;
}

static void close_context(void)
{
    gpu_mha_context_release(context);
}

#define ASSERT_OK(call) ck_assert_msg((call) == GPU_MHA_OK, "%s", gpu_mha_last_error())

/* All widths and head sizes differ; two query heads share a key head. */
static gpu_mha_layer_desc cross_attention(gpu_mha_desc *a)
{
    *a = (gpu_mha_desc){.B = 2, .H = 4, .HKV = 2, .NQ = 5, .NK = 7, .DK = 6, .DV = 3};
    return (gpu_mha_layer_desc){.attention = a, .EQ = 11, .EK = 13, .EV = 9, .EO = 10};
}

static gpu_mha_layer_desc self_attention(gpu_mha_desc *a)
{
    *a = (gpu_mha_desc){.B = 3, .H = 3, .HKV = 3, .NQ = 6, .NK = 6, .DK = 5, .DV = 8};
    return (gpu_mha_layer_desc){
        .attention = a, .EQ = 14, .EK = 14, .EV = 14, .EO = 17, .packed_qkv = 1};
}

static void try_host(const gpu_mha_layer_desc *desc, uint64_t seed)
{
    struct layer_data data;
    layer_data_make(&data, desc, seed);
    ASSERT_OK(layer_run_host(context, &data));
    layer_check(&data);
    layer_data_free(&data);
}

static void try_device(const gpu_mha_layer_desc *desc, uint64_t seed,
                       cl_command_queue_properties properties)
{
    struct layer_data data;
    layer_data_make(&data, desc, seed);
    ASSERT_OK(layer_run_device(context, &data, properties));
    layer_check(&data);
    layer_data_free(&data);
}

/* By the host's memory, in order and out of order. */
static void try_all(const gpu_mha_layer_desc *desc, uint64_t seed)
{
    try_host(desc, seed);
    try_device(desc, seed + 1, 0);
    try_device(desc, seed + 2, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
}

START_TEST(separate_weights_with_every_set_of_biases)
{
    gpu_mha_desc a;
    gpu_mha_layer_desc desc = cross_attention(&a);
    desc.bias_q = _i & 1;
    desc.bias_k = _i >> 1 & 1;
    desc.bias_v = _i >> 2 & 1;
    desc.bias_out = _i >> 3 & 1;
    try_all(&desc, 1000 + 10 * (uint64_t)_i);
}
END_TEST

START_TEST(packed_weights_with_every_set_of_biases)
{
    gpu_mha_desc a;
    gpu_mha_layer_desc desc = self_attention(&a);
    desc.bias_q = desc.bias_k = desc.bias_v = _i & 1;
    desc.bias_out = _i >> 1;
    try_all(&desc, 2000 + 10 * (uint64_t)_i);
}
END_TEST

/* Packed weights do not need one sequence, nor one length. */
START_TEST(packed_weights_across_two_sequences)
{
    gpu_mha_desc a;
    gpu_mha_layer_desc desc = self_attention(&a);
    a.NQ = 4;
    a.H = 6;
    desc.bias_q = desc.bias_k = desc.bias_v = 1;
    try_all(&desc, 2500);
}
END_TEST

START_TEST(every_mix_of_types)
{
    gpu_mha_desc a;
    gpu_mha_layer_desc desc = _i % 2 == 0 ? cross_attention(&a) : self_attention(&a);
    a.query.type = (gpu_mha_type)(_i % 3);
    a.key.type = (gpu_mha_type)((_i / 3 + 1) % 3);
    a.value.type = (gpu_mha_type)((_i + 2) % 3);
    a.output.type = (gpu_mha_type)(_i / 3 % 3);
    desc.weight_type = (gpu_mha_type)((_i + _i / 3 + _i / 9) % 3);
    desc.bias_q = desc.bias_k = desc.bias_v = _i / 2 % 2;
    desc.bias_out = _i / 4 % 2;
    try_all(&desc, 3000 + 10 * (uint64_t)_i);
}
END_TEST

START_TEST(masks_reach_the_attention)
{
    gpu_mha_desc a;
    gpu_mha_layer_desc desc = cross_attention(&a);
    desc.bias_k = desc.bias_out = 1;
    if (_i & 1) {
        a.mask.type = GPU_MHA_MASK_BOOL;
        a.causal = 1;
        a.offset_kind = GPU_MHA_BOTTOM_RIGHT;
    }
    if (_i & 2) {
        a.key_lengths = _i & 1 ? GPU_MHA_I32 : GPU_MHA_I64;
        a.sinks = 1;
    }
    if (_i & 4) {
        a.bias.type = _i & 2 ? GPU_MHA_MASK_F16 : GPU_MHA_MASK_F32;
        a.alibi = _i & 1 ? GPU_MHA_ALIBI_AUTO : GPU_MHA_ALIBI_SLOPES;
        a.softcap = 3.0f;
        a.has_scale = 1;
        a.scale = 0.3f;
    }
    try_all(&desc, 4000 + 10 * (uint64_t)_i);
}
END_TEST

START_TEST(lse_weights_and_scores_come_out)
{
    gpu_mha_desc a;
    gpu_mha_layer_desc desc = cross_attention(&a);
    a.lse = 1;
    a.weights = _i < 3 ? (gpu_mha_weights)_i : GPU_MHA_WEIGHTS_PER_HEAD;
    a.scores = (gpu_mha_scores)_i;
    a.key_lengths = GPU_MHA_I32;
    desc.bias_q = 1;
    try_all(&desc, 5000 + 10 * (uint64_t)_i);
}
END_TEST

/* Enough elements for the statistics of the errors, and more than one key tile. */
START_TEST(a_larger_layer)
{
    const gpu_mha_desc a = {.B = 2,
                            .H = 6,
                            .HKV = 3,
                            .NQ = 77,
                            .NK = 130,
                            .DK = 24,
                            .DV = 40,
                            .causal = 1,
                            .offset_kind = GPU_MHA_BOTTOM_RIGHT,
                            .lse = 1};
    const gpu_mha_layer_desc desc = {.attention = &a,
                                     .EQ = 96,
                                     .EK = 130,
                                     .EV = 61,
                                     .EO = 150,
                                     .bias_q = 1,
                                     .bias_k = 1,
                                     .bias_v = 1,
                                     .bias_out = 1,
                                     .weight_type = (gpu_mha_type)_i};
    try_all(&desc, 6000 + 10 * (uint64_t)_i);
}
END_TEST

START_TEST(lengths_of_zero_and_one)
{
    gpu_mha_desc a;
    gpu_mha_layer_desc desc = cross_attention(&a);
    desc.bias_q = desc.bias_v = desc.bias_out = 1;
    a.B = _i == 0 ? 0 : 2;
    a.NQ = _i == 1 ? 0 : 5;
    a.NK = _i == 2 ? 0 : 7; /* attention gives 0: the output is its bias */
    if (_i == 3) {
        a = (gpu_mha_desc){.B = 1, .H = 1, .HKV = 1, .NQ = 1, .NK = 1, .DK = 1, .DV = 1};
        desc.EQ = desc.EK = desc.EV = desc.EO = 1;
    }
    a.output.type = (gpu_mha_type)(_i % 3);
    try_all(&desc, 7000 + 10 * (uint64_t)_i);
}
END_TEST

/* NaN in padded rows must reach no visible one: not by the products, not by the attention. */
START_TEST(nan_in_hidden_rows_stays_there)
{
    gpu_mha_desc a;
    gpu_mha_layer_desc desc = cross_attention(&a);
    a.key_lengths = GPU_MHA_I32;
    a.B = 3;
    desc.bias_k = desc.bias_v = 1;
    struct layer_data data;
    layer_data_make(&data, &desc, 8000);
    int hidden = 0;
    for (int64_t b = 0; b < a.B; ++b) {
        for (int64_t n = data.key_lengths[b]; n < a.NK; ++n, ++hidden) {
            const int64_t row = b * a.NK + n;
            for (int64_t e = 0; e < desc.EK; ++e) {
                layer_data_set(&data, LAYER_KEY_INPUT, row * desc.EK + e, NAN);
            }
            for (int64_t e = 0; e < desc.EV; ++e) {
                layer_data_set(&data, LAYER_VALUE_INPUT, row * desc.EV + e, e % 2 ? NAN : INFINITY);
            }
        }
    }
    ck_assert_int_gt(hidden, 0);
    ASSERT_OK(layer_run_host(context, &data));
    const float *output = data.arrays[LAYER_OUTPUT].host;
    for (size_t x = 0; x < data.arrays[LAYER_OUTPUT].count; ++x) {
        ck_assert_msg(isfinite(output[x]), "output[%zu] is %g", x, (double)output[x]);
    }
    layer_check(&data);
    layer_data_free(&data);
}
END_TEST

START_TEST(the_same_bits_by_both_ways)
{
    gpu_mha_desc a;
    gpu_mha_layer_desc desc = cross_attention(&a);
    a.output.type = GPU_MHA_F16;
    desc.weight_type = GPU_MHA_BF16;
    struct layer_data data;
    layer_data_make(&data, &desc, 9000);
    const size_t bytes = data.arrays[LAYER_OUTPUT].count * data.arrays[LAYER_OUTPUT].element_bytes;
    ASSERT_OK(layer_run_host(context, &data));
    void *first = malloc(bytes);
    ck_assert_ptr_nonnull(first);
    memcpy(first, data.arrays[LAYER_OUTPUT].host, bytes);
    const cl_command_queue_properties properties[] = {0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
    for (int run = 0; run < 3; ++run) {
        memset(data.arrays[LAYER_OUTPUT].host, 0, bytes);
        ASSERT_OK(layer_run_device(context, &data, properties[run]));
        ASSERT_I64_EQ(compare_bytes(data.arrays[LAYER_OUTPUT].host, first, (int64_t)bytes), -1);
    }
    free(first);
    layer_data_free(&data);
}
END_TEST

static void *run_in_thread(void *argument)
{
    struct layer_data *data = argument;
    for (int run = 0; run < 3; ++run) {
        if (layer_run_device(context, data,
                             run == 1 ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0) != GPU_MHA_OK ||
            layer_run_host(context, data) != GPU_MHA_OK) {
            return "failed";
        }
    }
    return NULL;
}

START_TEST(threads_run_layers_at_once)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct layer_data data[THREADS];
    for (int t = 0; t < THREADS; ++t) {
        gpu_mha_desc a;
        gpu_mha_layer_desc desc = t % 2 ? cross_attention(&a) : self_attention(&a);
        a.query.type = (gpu_mha_type)(t % 3);
        desc.bias_out = 1;
        layer_data_make(&data[t], &desc, 9500 + (uint64_t)t);
        ck_assert_int_eq(pthread_create(&threads[t], NULL, run_in_thread, &data[t]), 0);
    }
    for (int t = 0; t < THREADS; ++t) {
        void *failed = NULL;
        ck_assert_int_eq(pthread_join(threads[t], &failed), 0);
        ck_assert_ptr_null(failed);
        layer_check(&data[t]);
        layer_data_free(&data[t]);
    }
}
END_TEST

START_TEST(a_plan_says_what_it_runs)
{
    gpu_mha_desc a;
    gpu_mha_layer_desc desc = cross_attention(&a);
    gpu_mha_plan *plan = NULL;
    ASSERT_OK(gpu_mha_layer_plan_create(context, &desc, &plan));
    const char *kind = context->device.type & CL_DEVICE_TYPE_CPU ? "tile" : "CLBlast";
    char want[64];
    snprintf(want, sizeof want, "products %s, ", kind);
    ck_assert_msg(strncmp(gpu_mha_plan_text(plan), want, strlen(want)) == 0, "%s",
                  gpu_mha_plan_text(plan));
    ck_assert_uint_gt(gpu_mha_plan_workspace_bytes(plan), 0);
    gpu_mha_plan_release(plan);
    a.B = 0;
    ASSERT_OK(gpu_mha_layer_plan_create(context, &desc, &plan));
    ck_assert_str_eq(gpu_mha_plan_text(plan), "nothing to compute");
    ck_assert_uint_eq(gpu_mha_plan_workspace_bytes(plan), 0);
    gpu_mha_plan_release(plan);
}
END_TEST

/* ---- refused ---- */

/* Each function spoils one thing; the message must begin as given. */
#define SPOIL(name, statement)                                                                     \
    static void name(gpu_mha_layer_desc *d, gpu_mha_desc *a)                                       \
    {                                                                                              \
        (void)d, (void)a;                                                                          \
        statement;                                                                                 \
    }
SPOIL(layout, a->key.layout = GPU_MHA_BNHD)
SPOIL(stride, a->output.stride_n = 40)
SPOIL(type, a->value.type = (gpu_mha_type)3)
SPOIL(past, a->NP = 2)
SPOIL(heads, a->HKV = 3)
SPOIL(batch, a->B = -1)
SPOIL(no_attention, d->attention = NULL)
SPOIL(inner_size, a->struct_size = sizeof *a - 1)
SPOIL(inner_size_unset, a->struct_size = SIZE_MAX)
SPOIL(width_q, d->EQ = 0)
SPOIL(width_k, d->EK = -4)
SPOIL(width_v, d->EV = (INT64_C(1) << 40) + 1)
SPOIL(width_out, d->EO = 0)
SPOIL(weight_type, d->weight_type = (gpu_mha_type)-1)
SPOIL(packed_flag, d->packed_qkv = 2)
SPOIL(bias_flag, d->bias_v = -1)
SPOIL(packed_k, d->packed_qkv = 1)
SPOIL(packed_v, (d->packed_qkv = 1, d->EK = d->EQ))
SPOIL(packed_bias_k, (d->packed_qkv = 1, d->EK = d->EV = d->EQ, d->bias_k = 1))
SPOIL(packed_bias_v, (d->packed_qkv = 1, d->EK = d->EV = d->EQ, d->bias_q = d->bias_k = 1))
SPOIL(too_large, (a->NQ = INT64_C(1) << 40, d->EQ = INT64_C(1) << 40))
SPOIL(weight_too_large, (a->H = INT64_C(1) << 30, d->EQ = INT64_C(1) << 40))
SPOIL(method, (a->method = GPU_MHA_FUSED, a->scores = GPU_MHA_SCORES_RAW))

static const struct {
    void (*spoil)(gpu_mha_layer_desc *d, gpu_mha_desc *a);
    const char *message;
} refused[] = {
    {layout, "attention.key.layout is 1: a layer's inputs and output are packed"},
    {stride, "attention.output.stride_n is 40: a layer's inputs and output are packed"},
    {type, "attention.value.type is 3: it must be GPU_MHA_F32, GPU_MHA_F16 or GPU_MHA_BF16"},
    {past, "attention.NP is 2: a layer has no past keys, so it must be 0"},
    {heads, "H is 4: it must be a multiple of HKV, which is 3"},
    {batch, "B is -1: it must be at least 0"},
    {no_attention, "attention is NULL: the descriptor of the attention is needed"},
    {inner_size, "gpu_mha_desc.struct_size is "},
    {inner_size_unset, "gpu_mha_desc.struct_size is 18446744073709551615: it must be 0 or "},
    {width_q, "EQ is 0: it must be at least 1"},
    {width_k, "EK is -4: it must be at least 1"},
    {width_v, "EV is 1099511627777: it must be at most 2^40"},
    {width_out, "EO is 0: it must be at least 1"},
    {weight_type, "weight_type is -1: it must be"},
    {packed_flag, "packed_qkv is 2: it must be 0 or 1"},
    {bias_flag, "bias_v is -1: it must be 0 or 1"},
    {packed_k, "EK is 13: with packed_qkv it must equal EQ, which is 11"},
    {packed_v, "EV is 9: with packed_qkv it must equal EQ, which is 11"},
    {packed_bias_k, "bias_k is 1: with packed_qkv it must equal bias_q, which is 0"},
    {packed_bias_v, "bias_v is 0: with packed_qkv it must equal bias_q, which is 1"},
    {too_large, "query_input spans more than this machine can address"},
    {weight_too_large, "weight_q spans more than this machine can address"},
    {method, "method is GPU_MHA_FUSED: it gives no scores"},
};

static void assert_message(const char *want)
{
    ck_assert_msg(strncmp(gpu_mha_last_error(), want, strlen(want)) == 0, "\"%s\", want \"%s\"",
                  gpu_mha_last_error(), want);
}

START_TEST(a_wrong_descriptor_is_refused)
{
    for (size_t r = 0; r < sizeof refused / sizeof refused[0]; ++r) {
        gpu_mha_desc a;
        gpu_mha_layer_desc desc = cross_attention(&a);
        gpu_mha_plan *plan = (gpu_mha_plan *)&desc;
        gpu_mha_layer_arrays arrays = {0};
        refused[r].spoil(&desc, &a);
        ck_assert_int_eq(gpu_mha_layer_plan_create(context, &desc, &plan), GPU_MHA_INVALID);
        assert_message(refused[r].message);
        ck_assert_ptr_null(plan);
        ck_assert_int_eq(gpu_mha_layer(context, &desc, &arrays), GPU_MHA_INVALID);
        assert_message(refused[r].message);
    }
}
END_TEST

/* The descriptor of a caller that was built against a later version. */
START_TEST(a_larger_descriptor_inside_must_be_zero_at_its_end)
{
    struct {
        gpu_mha_desc known;
        int64_t unknown;
    } larger;
    memset(&larger, 0, sizeof larger);
    gpu_mha_layer_desc desc = cross_attention(&larger.known);
    gpu_mha_plan *plan = NULL;
    larger.known.struct_size = sizeof larger;
    ASSERT_OK(gpu_mha_layer_plan_create(context, &desc, &plan));
    gpu_mha_plan_release(plan);
    struct layer_data data;
    layer_data_make(&data, &desc, 9900);
    data.desc.attention = &larger.known;
    ASSERT_OK(layer_run_host(context, &data));
    layer_check(&data);
    larger.unknown = 1;
    ck_assert_int_eq(layer_run_host(context, &data), GPU_MHA_INVALID);
    assert_message("gpu_mha_desc has a field at byte ");
    ck_assert_int_eq(gpu_mha_layer_plan_create(context, &desc, &plan), GPU_MHA_INVALID);
    assert_message("gpu_mha_desc has a field at byte ");
    layer_data_free(&data);
}
END_TEST

static gpu_mha_layer_desc everything(gpu_mha_desc *a)
{
    gpu_mha_layer_desc desc = cross_attention(a);
    desc.bias_q = desc.bias_k = desc.bias_v = desc.bias_out = 1;
    a->mask.type = GPU_MHA_MASK_BOOL;
    a->bias.type = GPU_MHA_MASK_F32;
    a->key_lengths = GPU_MHA_I64;
    a->alibi = GPU_MHA_ALIBI_SLOPES;
    a->sinks = 1;
    a->lse = 1;
    a->weights = GPU_MHA_WEIGHTS_PER_HEAD;
    a->scores = GPU_MHA_SCORES_MASKED;
    return desc;
}

static void assert_refused_both_ways(struct layer_data *data, const char *want)
{
    ck_assert_int_eq(layer_run_host(context, data), GPU_MHA_INVALID);
    assert_message(want);
    ck_assert_int_eq(layer_run_device(context, data, 0), GPU_MHA_INVALID);
    assert_message(want);
}

START_TEST(a_lost_array_is_named)
{
    gpu_mha_desc a;
    gpu_mha_layer_desc desc = everything(&a);
    struct layer_data data;
    layer_data_make(&data, &desc, 10000);
    for (int x = 0; x < LAYER_ARRAYS; ++x) {
        void *lost = data.arrays[x].host;
        data.arrays[x].host = NULL;
        char want[64];
        snprintf(want, sizeof want, "%s is NULL: the descriptor asks for it",
                 layer_array_name((enum layer_array)x));
        assert_refused_both_ways(&data, want);
        data.arrays[x].host = lost;
    }
    layer_data_free(&data);
}
END_TEST

static void give_too_much(const gpu_mha_layer_desc *desc, enum layer_array array)
{
    struct layer_data data;
    float extra[4] = {0};
    char want[96];
    layer_data_make(&data, desc, 11000);
    ck_assert_ptr_null(data.arrays[array].host);
    data.arrays[array].host = extra;
    data.arrays[array].count = 4;
    data.arrays[array].element_bytes = sizeof extra[0];
    snprintf(want, sizeof want, "%s is given: the descriptor does not ask for it",
             layer_array_name(array));
    assert_refused_both_ways(&data, want);
    data.arrays[array].host = NULL;
    layer_data_free(&data);
}

START_TEST(an_array_too_much_is_named)
{
    const enum layer_array optional[] = {LAYER_BIAS_Q,      LAYER_BIAS_OUT, LAYER_MASK,  LAYER_BIAS,
                                         LAYER_KEY_LENGTHS, LAYER_SLOPES,   LAYER_SINKS, LAYER_LSE,
                                         LAYER_WEIGHTS,     LAYER_SCORES};
    gpu_mha_desc cross, self;
    const gpu_mha_layer_desc separate = cross_attention(&cross);
    gpu_mha_layer_desc packed = self_attention(&self);
    packed.bias_q = packed.bias_k = packed.bias_v = 1;
    for (size_t x = 0; x < sizeof optional / sizeof optional[0]; ++x) {
        give_too_much(&separate, optional[x]);
    }
    give_too_much(&packed, LAYER_WEIGHT_K);
    give_too_much(&packed, LAYER_WEIGHT_V);
    give_too_much(&packed, LAYER_BIAS_K);
    give_too_much(&packed, LAYER_BIAS_V);
}
END_TEST

START_TEST(key_lengths_out_of_range_are_refused)
{
    gpu_mha_desc a;
    gpu_mha_layer_desc desc = cross_attention(&a);
    a.key_lengths = GPU_MHA_I32;
    struct layer_data data;
    layer_data_make(&data, &desc, 13000);
    ((int32_t *)data.arrays[LAYER_KEY_LENGTHS].host)[1] = 8;
    ck_assert_int_eq(layer_run_host(context, &data), GPU_MHA_INVALID);
    assert_message("key_lengths[1] is 8: it must be from 0 to NP + NK, which is 7");
    layer_data_free(&data);
}
END_TEST

START_TEST(wrong_calls_are_refused)
{
    gpu_mha_desc a;
    gpu_mha_layer_desc desc = cross_attention(&a);
    gpu_mha_plan *layer = NULL, *attention = NULL, *none = NULL;
    gpu_mha_layer_buffers buffers = {0};
    cl_event event = (cl_event)&desc;
    ASSERT_OK(gpu_mha_layer_plan_create(context, &desc, &layer));
    ASSERT_OK(gpu_mha_plan_create(context, &a, &attention));
    ck_assert_int_eq(gpu_mha_layer_plan_create(context, &desc, NULL), GPU_MHA_INVALID);
    ck_assert_int_eq(gpu_mha_layer_plan_create(context, NULL, &none), GPU_MHA_INVALID);
    assert_message("desc is NULL");
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = clCreateCommandQueue(gpu_mha_context_cl(context),
                                                  gpu_mha_context_device(context), 0, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    ck_assert_int_eq(gpu_mha_layer_enqueue(attention, queue, &buffers, 0, NULL, &event),
                     GPU_MHA_INVALID);
    assert_message("plan is an attention plan: a layer plan is needed here");
    ck_assert_ptr_null(event);
    ck_assert_int_eq(gpu_mha_layer_enqueue(layer, queue, NULL, 0, NULL, NULL), GPU_MHA_INVALID);
    assert_message("buffers is NULL");
    ck_assert_int_eq(gpu_mha_layer_enqueue(layer, queue, &buffers, 0, NULL, NULL), GPU_MHA_INVALID);
    assert_message("query_input is NULL: the descriptor asks for it");
    ck_assert_int_eq(gpu_mha_layer(context, &desc, NULL), GPU_MHA_INVALID);
    assert_message("arrays is NULL");
    clReleaseCommandQueue(queue);
    gpu_mha_plan_release(layer);
    gpu_mha_plan_release(attention);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layer");
    TCase *runs = tcase_create("runs"), *refuses = tcase_create("refuses");
    TCase *clblast = tcase_create("clblast");
    tcase_set_timeout(clblast, 120);
    tcase_add_checked_fixture(clblast, open_context_for_clblast, close_context);
    tcase_add_loop_test(clblast, separate_weights_with_every_set_of_biases, 14, 16);
    tcase_add_loop_test(clblast, packed_weights_with_every_set_of_biases, 0, 4);
    tcase_add_loop_test(clblast, every_mix_of_types, 0, 4);
    tcase_add_loop_test(clblast, a_larger_layer, 0, 2);
    tcase_add_loop_test(clblast, lengths_of_zero_and_one, 0, 4);
    tcase_add_test(clblast, nan_in_hidden_rows_stays_there);
    tcase_add_test(clblast, the_same_bits_by_both_ways);
    tcase_add_test(clblast, threads_run_layers_at_once);
    tcase_add_test(clblast, a_plan_says_what_it_runs);
    tcase_set_timeout(runs, 120);
    tcase_set_timeout(refuses, 120);
    tcase_add_checked_fixture(runs, open_context, close_context);
    tcase_add_checked_fixture(refuses, open_context, close_context);
    tcase_add_loop_test(runs, separate_weights_with_every_set_of_biases, 0, 16);
    tcase_add_loop_test(runs, packed_weights_with_every_set_of_biases, 0, 4);
    tcase_add_test(runs, packed_weights_across_two_sequences);
    tcase_add_loop_test(runs, every_mix_of_types, 0, 18);
    tcase_add_loop_test(runs, masks_reach_the_attention, 0, 8);
    tcase_add_loop_test(runs, lse_weights_and_scores_come_out, 0, 5);
    tcase_add_loop_test(runs, a_larger_layer, 0, 3);
    tcase_add_loop_test(runs, lengths_of_zero_and_one, 0, 4);
    tcase_add_test(runs, nan_in_hidden_rows_stays_there);
    tcase_add_test(runs, the_same_bits_by_both_ways);
    tcase_add_test(runs, threads_run_layers_at_once);
    tcase_add_test(runs, a_plan_says_what_it_runs);
    tcase_add_test(refuses, a_wrong_descriptor_is_refused);
    tcase_add_test(refuses, a_larger_descriptor_inside_must_be_zero_at_its_end);
    tcase_add_test(refuses, a_lost_array_is_named);
    tcase_add_test(refuses, an_array_too_much_is_named);
    tcase_add_test(refuses, key_lengths_out_of_range_are_refused);
    tcase_add_test(refuses, wrong_calls_are_refused);
    suite_add_tcase(suite, runs);
    suite_add_tcase(suite, clblast);
    suite_add_tcase(suite, refuses);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
