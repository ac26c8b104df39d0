/*
 * Attention. Queries are 0, so that visible keys weigh the same, and value j is j + 1: query i,
 * which sees the keys 0 .. i, gives 1 + i / 2 and the LSE ln(i + 1).
 */
#include "scenario.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { H = 2, NQ = 3, NK = 5, DK = 8, DV = 4, NKS = 700 };

/* Rows with gaps between them, in the key and in the output. */
enum { KEY_ROW = DK + 1, OUT_ROW = DV + 3, OUT_HEAD = NQ * OUT_ROW + 2 };

static float query[H * NQ * DK], key[NKS * KEY_ROW], value[NKS * DV];
static struct cells output, lse, weights;
static gpu_mha_context *context;

static void fill_inputs(void)
{
    memset(query, 0, sizeof query);
    for (int i = 0; i < NKS * KEY_ROW; i++) {
        key[i] = (float)(i % 7) - 3;
    }
    for (int i = 0; i < NKS * DV; i++) {
        value[i] = (float)(i / DV + 1);
    }
}

static gpu_mha_desc problem(void)
{
    return (gpu_mha_desc){
        .B = 1,
        .H = H,
        .HKV = 1,
        .NQ = NQ,
        .NK = NK,
        .DK = DK,
        .DV = DV,
        .key = {.layout = GPU_MHA_STRIDED, .stride_b = NK * KEY_ROW, .stride_n = KEY_ROW},
        .output = {.layout = GPU_MHA_STRIDED,
                   .stride_b = H * OUT_HEAD,
                   .stride_h = OUT_HEAD,
                   .stride_n = OUT_ROW},
        .causal = 1,
        .lse = 1};
}

/* `o` and `l` NULL: not looked at. Gaps of the output must be bytes of 0xFF. */
static void check_numbers(const float *o, const float *l, int succeeded)
{
    const cl_uint untouched = 0xffffffff;
    for (int i = 0; i < H * OUT_HEAD - 2; i++) {
        const int row = i % OUT_HEAD / OUT_ROW;
        const int inside = i % OUT_HEAD % OUT_ROW < DV && row < NQ;
        if (inside && succeeded) {
            expect_near("output", i, (double)o[i], 1 + 0.5 * row);
        } else if (!inside && memcmp(&o[i], &untouched, sizeof untouched) != 0) {
            complain("output[%d], in a gap, was changed", i);
        }
    }
    for (int i = 0; l && succeeded && i < H * NQ; i++) {
        expect_near("lse", i, (double)l[i], log(i % NQ + 1));
    }
}

static void open_context(void)
{
    fill_inputs();
    must(gpu_mha_context_create(NULL, &context));
}

static void close_context(void)
{
    gpu_mha_context_release(context);
    context = NULL;
}

static void clear_host(void)
{
    cells_clear(&output, "output", H * OUT_HEAD - 2);
    cells_clear(&lse, "lse", H * NQ);
    cells_clear(&weights, "weights", NQ * NK);
}

/* ---- blocking ---- */

static gpu_mha_arrays host_arrays(void)
{
    return (gpu_mha_arrays){.query = query,
                            .key = key,
                            .value = value,
                            .output = cells_at(&output),
                            .lse = cells_at(&lse)};
}

static gpu_mha_status call(void)
{
    const gpu_mha_desc desc = problem();
    const gpu_mha_arrays arrays = host_arrays();
    return gpu_mha(context, &desc, &arrays);
}

static void check_call(int succeeded)
{
    check_numbers(cells_at(&output), cells_at(&lse), succeeded);
    cells_check_guards(&output);
    cells_check_guards(&lse);
    cells_check_guards(&weights);
}

static void open_warm(void)
{
    open_context();
    clear_host();
    must(call());
}

static gpu_mha_status call_staged(void)
{
    gpu_mha_desc desc = problem();
    gpu_mha_arrays arrays = host_arrays();
    desc.weights = GPU_MHA_WEIGHTS_AVERAGED;
    arrays.weights = cells_at(&weights);
    return gpu_mha(context, &desc, &arrays);
}

static void check_staged(int succeeded)
{
    check_call(succeeded);
    for (int i = 0; succeeded && i < NQ * NK; i++) {
        const int row = i / NK, column = i % NK;
        expect_near("weights", i, (double)cells_at(&weights)[i],
                    column <= row ? 1.0 / (row + 1) : 0);
    }
}

/* ---- the default context: made by the first call that succeeds, and kept ---- */

static gpu_mha_status call_default(void)
{
    const gpu_mha_desc desc = problem();
    const gpu_mha_arrays arrays = host_arrays();
    return gpu_mha(NULL, &desc, &arrays);
}

/* ---- a shape of a GPU's kernels, which gives way to another ---- */

static void open_shared(void)
{
    setenv("GPU_MHA_TILE", "shared 2,4,2,4,16,4,0,0", 1);
    open_context();
}

static void close_shared(void)
{
    close_context();
    unsetenv("GPU_MHA_TILE");
}

/* ---- plan and enqueue ---- */

static gpu_mha_status make_plan(void)
{
    const gpu_mha_desc desc = problem();
    gpu_mha_plan *plan = (gpu_mha_plan *)query;
    gpu_mha_status status = gpu_mha_plan_create(context, &desc, &plan);
    if (status != GPU_MHA_OK) {
        if (plan) {
            complain("a failure left something in *plan");
        }
        return status;
    }
    status = gpu_mha_plan_retain(plan);
    gpu_mha_plan_release(plan);
    if (!gpu_mha_plan_text(plan)[0] || gpu_mha_plan_workspace_bytes(plan) > 1 << 20) {
        complain("the plan says \"%s\"", gpu_mha_plan_text(plan));
    }
    gpu_mha_plan_release(plan);
    return status;
}

static void check_nothing(int succeeded)
{
    (void)succeeded;
}

static struct rig rig;
static gpu_mha_buffers buffers;

enum { IN_QUERY, IN_KEY, IN_VALUE, OUT, OUT_LSE, OUT_WEIGHTS, SPACE };

static void open_rig_for(int out_of_order, gpu_mha_desc desc)
{
    fill_inputs();
    rig_open(&rig, out_of_order);
    must(gpu_mha_plan_create(rig.context, &desc, &rig.plan));
    buffers = (gpu_mha_buffers){.query = rig_input(&rig, IN_QUERY, query, H * NQ * DK),
                                .key = rig_input(&rig, IN_KEY, key, NK * KEY_ROW),
                                .value = rig_input(&rig, IN_VALUE, value, NK * DV),
                                .output = rig_output(&rig, OUT, "output", H * OUT_HEAD - 2),
                                .lse = rig_output(&rig, OUT_LSE, "lse", H * NQ)};
    if (desc.weights) {
        buffers.weights = rig_output(&rig, OUT_WEIGHTS, "weights", NQ * NK);
    }
    buffers.workspace = rig_workspace(&rig, SPACE, gpu_mha_plan_workspace_bytes(rig.plan));
}

static void open_rig_fused(void)
{
    open_rig_for(1, problem());
}

static void open_rig_staged(void)
{
    gpu_mha_desc desc = problem();
    desc.weights = GPU_MHA_WEIGHTS_AVERAGED;
    open_rig_for(1, desc);
}

static void open_rig_ordered(void)
{
    gpu_mha_desc desc = problem();
    desc.weights = GPU_MHA_WEIGHTS_AVERAGED;
    open_rig_for(0, desc);
}

static void clear_rig(void)
{
    rig_clear(&rig);
}

static gpu_mha_status enqueue(void)
{
    return rig_enqueued(&rig,
                        gpu_mha_enqueue(rig.plan, rig.queue, &buffers, 1, &rig.gate, &rig.done));
}

static cl_int finish(void)
{
    return rig_finish(&rig);
}

static void check_rig(int succeeded)
{
    float o[CELLS_MAX], l[CELLS_MAX], w[CELLS_MAX];
    rig_read(&rig, OUT, o);
    rig_read(&rig, OUT_LSE, l);
    check_numbers(o, l, succeeded);
    if (rig.buffers[OUT_WEIGHTS].mem) {
        rig_read(&rig, OUT_WEIGHTS, w);
    }
}

static void close_rig(void)
{
    rig_close(&rig);
}

/* Without queries there is no kernel, and a marker takes its place. */
static void open_rig_empty(void)
{
    gpu_mha_desc desc = problem();
    desc.NQ = 0;
    rig_open(&rig, 1);
    must(gpu_mha_plan_create(rig.context, &desc, &rig.plan));
    buffers = (gpu_mha_buffers){.struct_size = 0};
}

/* Few queries on many keys: the keys are split, and the parts merged by a kernel of their own. */
enum { DECODE_OUT = H * DV };

static void open_rig_decode(void)
{
    const gpu_mha_desc desc = {
        .B = 1, .H = H, .HKV = 1, .NQ = 1, .NK = NKS, .DK = DK, .DV = DV, .lse = 1};
    cl_int code;
    fill_inputs();
    rig_open(&rig, 1);
    must(gpu_mha_plan_create(rig.context, &desc, &rig.plan));
    cl_context cl = gpu_mha_context_cl(rig.context);
    buffers = (gpu_mha_buffers){.query = rig_input(&rig, IN_QUERY, query, H * DK)};
    const struct {
        float *from;
        size_t bytes;
        gpu_mha_buffer *to;
    } large[] = {{key, NKS * DK * sizeof(float), &buffers.key},
                 {value, NKS * DV * sizeof(float), &buffers.value}};
    for (int i = 0; i < 2; i++) {
        cl_mem mem = clCreateBuffer(cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, large[i].bytes,
                                    large[i].from, &code);
        must_cl(code, "clCreateBuffer");
        rig.buffers[IN_KEY + i].mem = mem;
        large[i].to->mem = mem;
    }
    buffers.output = rig_output(&rig, OUT, "output", DECODE_OUT);
    buffers.lse = rig_output(&rig, OUT_LSE, "lse", H);
    buffers.workspace = rig_workspace(&rig, SPACE, gpu_mha_plan_workspace_bytes(rig.plan));
}

static void check_decode(int succeeded)
{
    float o[CELLS_MAX], l[CELLS_MAX];
    rig_read(&rig, OUT, o);
    rig_read(&rig, OUT_LSE, l);
    for (int i = 0; succeeded && i < DECODE_OUT; i++) {
        expect_near("output", i, (double)o[i], 0.5 * (NKS + 1));
    }
    for (int i = 0; succeeded && i < H; i++) {
        expect_near("lse", i, (double)l[i], log(NKS));
    }
}

#define PLAN_FUNCTIONS                                                                             \
    "gpu_mha_plan_create gpu_mha_plan_retain gpu_mha_plan_release gpu_mha_plan_text "              \
    "gpu_mha_plan_workspace_bytes"
#define BLOCKING .covers = "gpu_mha", .clear = clear_host
#define ENQUEUE                                                                                    \
    .covers = "gpu_mha_enqueue", .clear = clear_rig, .act = enqueue, .finish = finish,             \
    .close = close_rig

static void nothing(void) {}

const struct scenario scenarios_attention[] = {
    {.name = "attention",
     BLOCKING,
     .flags = SCENARIO_FRESH,
     .open = open_context,
     .act = call,
     .check = check_call,
     .close = close_context},
    {.name = "attention again",
     BLOCKING,
     .open = open_warm,
     .act = call,
     .check = check_call,
     .close = close_context},
    {.name = "staged attention",
     BLOCKING,
     .flags = SCENARIO_FRESH,
     .open = open_context,
     .act = call_staged,
     .check = check_staged,
     .close = close_context},
    {.name = "attention on the default context",
     BLOCKING,
     .flags = SCENARIO_KEEPS,
     .open = fill_inputs,
     .act = call_default,
     .check = check_call,
     .close = nothing},
    {.name = "attention of a shape that gives way",
     BLOCKING,
     .flags = SCENARIO_FRESH | SCENARIO_GIVES_WAY,
     .open = open_shared,
     .act = call,
     .check = check_call,
     .close = close_shared},
    {.name = "plan",
     .covers = PLAN_FUNCTIONS,
     .flags = SCENARIO_FRESH,
     .open = open_context,
     .clear = nothing,
     .act = make_plan,
     .check = check_nothing,
     .close = close_context},
    {.name = "enqueue", ENQUEUE, .open = open_rig_fused, .check = check_rig},
    {.name = "enqueue of many stages", ENQUEUE, .open = open_rig_staged, .check = check_rig},
    {.name = "enqueue in order", ENQUEUE, .open = open_rig_ordered, .check = check_rig},
    {.name = "enqueue of splits", ENQUEUE, .open = open_rig_decode, .check = check_decode},
    {.name = "enqueue of nothing", ENQUEUE, .open = open_rig_empty, .check = check_nothing},
    {.name = NULL}};
