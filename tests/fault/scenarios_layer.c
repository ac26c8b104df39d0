/*
 * The layer. The query input is 0, so that visible keys weigh the same; row n of the value input is
 * n + 1, Wv and Wo take means, and the output's bias is 3: query i gives 4 + i / 2. Inputs of the
 * query and all weights are f16, so that they are converted first.
 */
#include "scenario.h"

#include <stdlib.h>
#include <string.h>

#include "cl/context.h"

enum { H = 2, NQ = 3, NK = 5, DK = 2, DV = 4, EQ = 3, EK = 6, EV = 4, EO = 5 };

/* f16 */
enum { QUARTER = 0x3400, EIGHTH = 0x3000, ONE = 0x3c00, THREE = 0x4200 };

/* Even numbers of f16 elements, as they go into buffers of floats. */
static uint16_t query_input[NQ * EQ + 1], weight_q[H * DK * EQ], weight_k[DK * EK],
    weight_v[DV * EV], weight_out[EO * H * DV], bias_out[EO + 1];
static float key_input[NK * EK], value_input[NK * EV];
static struct cells output;
static struct rig rig;
static gpu_mha_context *context;
static gpu_mha_desc inside;

static void fill(uint16_t *to, size_t count, uint16_t value)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = value;
    }
}

#define FILL(array, value) fill(array, sizeof array / sizeof array[0], value)

static void fill_inputs(void)
{
    FILL(query_input, 0);
    FILL(weight_q, ONE);
    FILL(weight_k, ONE);
    FILL(weight_v, QUARTER);
    FILL(weight_out, EIGHTH);
    FILL(bias_out, THREE);
    for (int i = 0; i < NK * EK; i++) {
        key_input[i] = (float)(i % 5);
    }
    for (int i = 0; i < NK * EV; i++) {
        value_input[i] = (float)(i / EV + 1);
    }
}

static gpu_mha_layer_desc layer_desc(void)
{
    inside = (gpu_mha_desc){.B = 1,
                            .H = H,
                            .HKV = 1,
                            .NQ = NQ,
                            .NK = NK,
                            .DK = DK,
                            .DV = DV,
                            .query = {.type = GPU_MHA_F16},
                            .causal = 1};
    return (gpu_mha_layer_desc){.attention = &inside,
                                .EQ = EQ,
                                .EK = EK,
                                .EV = EV,
                                .EO = EO,
                                .weight_type = GPU_MHA_F16,
                                .bias_out = 1};
}

static void check_numbers(const float *values, int succeeded)
{
    for (int i = 0; succeeded && i < NQ * EO; i++) {
        expect_near("output", i, (double)values[i], 4 + 0.5 * (i / EO));
    }
}

static void nothing(void) {}

static void check_nothing(int succeeded)
{
    (void)succeeded;
}

static void open_context(void)
{
    fill_inputs();
    must(gpu_mha_context_create(NULL, &context));
}

static void close_context(void)
{
    gpu_mha_context_release(context);
}

static void clear_host(void)
{
    cells_clear(&output, "output", NQ * EO);
}

static gpu_mha_status call(void)
{
    const gpu_mha_layer_desc desc = layer_desc();
    const gpu_mha_layer_arrays arrays = {.query_input = query_input,
                                         .key_input = key_input,
                                         .value_input = value_input,
                                         .weight_q = weight_q,
                                         .weight_k = weight_k,
                                         .weight_v = weight_v,
                                         .weight_out = weight_out,
                                         .bias_out = bias_out,
                                         .output = cells_at(&output)};
    return gpu_mha_layer(context, &desc, &arrays);
}

static void check_call(int succeeded)
{
    check_numbers(cells_at(&output), succeeded);
    cells_check_guards(&output);
}

static void open_warm(void)
{
    open_context();
    clear_host();
    must(call());
}

static gpu_mha_status make_plan(void)
{
    const gpu_mha_layer_desc desc = layer_desc();
    gpu_mha_plan *plan = (gpu_mha_plan *)query_input;
    const gpu_mha_status status = gpu_mha_layer_plan_create(context, &desc, &plan);
    if (status != GPU_MHA_OK && plan) {
        complain("a failure left something in *plan");
    } else {
        gpu_mha_plan_release(plan);
    }
    return status;
}

/* ---- enqueue ---- */

enum { OUT = 8, SPACE = 9 };

static gpu_mha_layer_buffers buffers;

/* Offsets count elements: twice as many of f16 as of floats. */
static gpu_mha_buffer half_input(int index, const uint16_t *values, size_t bytes)
{
    gpu_mha_buffer made = rig_input(&rig, index, values, (int)(bytes / sizeof(float)));
    made.offset *= 2;
    return made;
}

#define HALF_INPUT(index, array) half_input(index, array, sizeof array)

static void make_buffers(void)
{
    buffers = (gpu_mha_layer_buffers){
        .query_input = HALF_INPUT(0, query_input),
        .key_input = rig_input(&rig, 1, key_input, NK * EK),
        .value_input = rig_input(&rig, 2, value_input, NK * EV),
        .weight_q = HALF_INPUT(3, weight_q),
        .weight_k = HALF_INPUT(4, weight_k),
        .weight_v = HALF_INPUT(5, weight_v),
        .weight_out = HALF_INPUT(6, weight_out),
        .bias_out = HALF_INPUT(7, bias_out),
        .output = rig_output(&rig, OUT, "output", NQ * EO),
        .workspace = rig_workspace(&rig, SPACE, gpu_mha_plan_workspace_bytes(rig.plan))};
}

static void open_rig(void)
{
    const gpu_mha_layer_desc desc = layer_desc();
    fill_inputs();
    rig_open(&rig, 1);
    must(gpu_mha_layer_plan_create(rig.context, &desc, &rig.plan));
    make_buffers();
}

/*
 * A device that does not say it is a CPU has its products from CLBlast. The attention keeps a
 * CPU's shape.
 */
static void use_clblast(gpu_mha_context *of)
{
    setenv("GPU_MHA_TILE", "6,8,2,16", 1);
    of->device.type = CL_DEVICE_TYPE_ACCELERATOR;
}

static void open_clblast_rig(int out_of_order)
{
    const gpu_mha_layer_desc desc = layer_desc();
    fill_inputs();
    rig_open(&rig, out_of_order);
    use_clblast(rig.context);
    must(gpu_mha_layer_plan_create(rig.context, &desc, &rig.plan));
    make_buffers();
}

static void open_clblast_ordered(void)
{
    open_clblast_rig(0);
}

static void open_clblast_unordered(void)
{
    open_clblast_rig(1);
}

static void clear_rig(void)
{
    rig_clear(&rig);
}

static gpu_mha_status enqueue(void)
{
    return rig_enqueued(
        &rig, gpu_mha_layer_enqueue(rig.plan, rig.queue, &buffers, 1, &rig.gate, &rig.done));
}

static cl_int finish(void)
{
    return rig_finish(&rig);
}

static void check_rig(int succeeded)
{
    float values[CELLS_MAX];
    rig_read(&rig, OUT, values);
    check_numbers(values, succeeded);
}

static void close_rig(void)
{
    rig_close(&rig);
    unsetenv("GPU_MHA_TILE");
}

/* Its first use on a context compiles, so that is done once. */
static void open_clblast_plan(void)
{
    open_context();
    use_clblast(context);
    must(make_plan());
}

static void open_clblast_warm(void)
{
    open_clblast_plan();
    clear_host();
    must(call());
}

static void close_clblast(void)
{
    close_context();
    unsetenv("GPU_MHA_TILE");
}

const struct scenario scenarios_layer[] = {{.name = "layer",
                                            .covers = "gpu_mha_layer",
                                            .flags = SCENARIO_FRESH,
                                            .open = open_context,
                                            .clear = clear_host,
                                            .act = call,
                                            .check = check_call,
                                            .close = close_context},
                                           {.name = "layer again",
                                            .covers = "gpu_mha_layer",
                                            .open = open_warm,
                                            .clear = clear_host,
                                            .act = call,
                                            .check = check_call,
                                            .close = close_context},
                                           {.name = "layer plan",
                                            .covers = "gpu_mha_layer_plan_create",
                                            .flags = SCENARIO_FRESH,
                                            .open = open_context,
                                            .clear = nothing,
                                            .act = make_plan,
                                            .check = check_nothing,
                                            .close = close_context},
                                           {.name = "layer enqueue",
                                            .covers = "gpu_mha_layer_enqueue",
                                            .open = open_rig,
                                            .clear = clear_rig,
                                            .act = enqueue,
                                            .finish = finish,
                                            .check = check_rig,
                                            .close = close_rig},
                                           {.name = "layer again, CLBlast",
                                            .covers = "gpu_mha_layer",
                                            .flags = SCENARIO_CLBLAST,
                                            .open = open_clblast_warm,
                                            .clear = clear_host,
                                            .act = call,
                                            .check = check_call,
                                            .close = close_clblast},
                                           {.name = "layer plan, CLBlast",
                                            .covers = "gpu_mha_layer_plan_create",
                                            .flags = SCENARIO_CLBLAST,
                                            .open = open_clblast_plan,
                                            .clear = nothing,
                                            .act = make_plan,
                                            .check = check_nothing,
                                            .close = close_clblast},
                                           {.name = "layer enqueue, CLBlast, in order",
                                            .covers = "gpu_mha_layer_enqueue",
                                            .flags = SCENARIO_CLBLAST,
                                            .open = open_clblast_ordered,
                                            .clear = clear_rig,
                                            .act = enqueue,
                                            .finish = finish,
                                            .check = check_rig,
                                            .close = close_rig},
                                           {.name = "layer enqueue, CLBlast, out of order",
                                            .covers = "gpu_mha_layer_enqueue",
                                            .flags = SCENARIO_CLBLAST,
                                            .open = open_clblast_unordered,
                                            .clear = clear_rig,
                                            .act = enqueue,
                                            .finish = finish,
                                            .check = check_rig,
                                            .close = close_rig},
                                           {.name = NULL}};
