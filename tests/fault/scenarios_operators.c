/*
 * Merge, rotary embedding and cache update. Merged are 2 and 4 of equal weight; rotated by a right
 * angle (x1, x2) becomes (-x2, x1); a cache gets 2 rows in its middle. Outputs have gaps.
 */
#include "scenario.h"

#include <math.h>
#include <string.h>

enum { H = 2, N = 3, D = 4, ROW = D + 3, NC = 5, ROWS = 2, FIRST = 2, P = 4 };

/* Floats from the first to the last of (1, H, N, D) or (1, H, NC, D) with rows of ROW. */
enum { SPAN = (H * N - 1) * ROW + D, CACHE_SPAN = (H * NC - 1) * ROW + D };

static gpu_mha_context *context;
static float twos[H * N * D], fours[H * N * D], zeros[H * N * D], ones[P * D], counting[H * N * D];
static int32_t positions[N], first_row[1];
static struct cells output, lse;
static struct rig rig;

static void fill_inputs(void)
{
    for (int i = 0; i < H * N * D; i++) {
        twos[i] = 2;
        fours[i] = 4;
        zeros[i] = 0;
        counting[i] = (float)(i + 1);
    }
    for (int i = 0; i < P * D; i++) {
        ones[i] = 1;
    }
    for (int i = 0; i < N; i++) {
        positions[i] = P - 1 - i;
    }
    first_row[0] = FIRST;
}

static gpu_mha_tensor strided(int rows)
{
    return (gpu_mha_tensor){.layout = GPU_MHA_STRIDED,
                            .stride_b = H * rows * ROW,
                            .stride_h = rows * ROW,
                            .stride_n = ROW};
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
    cells_clear(&output, "output", SPAN);
    cells_clear(&lse, "lse", H * N);
}

static void clear_rig(void)
{
    rig_clear(&rig);
}

static void nothing(void) {}

static void check_nothing(int succeeded)
{
    (void)succeeded;
}

/* What float `i` of an output must be; NAN: a byte pattern of 0xFF. */
static void check_span(const char *name, const float *values, int span, double (*want)(int i),
                       int succeeded)
{
    const cl_uint untouched = 0xffffffff;
    for (int i = 0; i < span; i++) {
        const double wanted = want(i);
        if (!isnan(wanted) && succeeded) {
            expect_near(name, i, (double)values[i], wanted);
        } else if (isnan(wanted) && memcmp(&values[i], &untouched, sizeof untouched) != 0) {
            complain("%s[%d], which is not written, was changed", name, i);
        }
    }
}

static void check_host(double (*want)(int i), int succeeded)
{
    check_span("output", cells_at(&output), output.count, want, succeeded);
    cells_check_guards(&output);
    cells_check_guards(&lse);
}

static void check_rig_output(int index, double (*want)(int i), int succeeded)
{
    float values[CELLS_MAX];
    rig_read(&rig, index, values);
    check_span("output", values, rig.buffers[index].count, want, succeeded);
}

static gpu_mha_status release_plan(gpu_mha_status status, gpu_mha_plan *plan)
{
    if (status != GPU_MHA_OK && plan) {
        complain("a failure left something in *plan");
    } else {
        gpu_mha_plan_release(plan);
    }
    return status;
}

static cl_int finish(void)
{
    return rig_finish(&rig);
}

static void close_rig(void)
{
    rig_close(&rig);
}

/* ---- merge ---- */

static gpu_mha_merge_desc merge_desc(void)
{
    return (gpu_mha_merge_desc){.B = 1, .H = H, .NQ = N, .DV = D, .output = strided(N)};
}

static double merged(int i)
{
    return i % ROW < D ? 3 : (double)NAN;
}

static gpu_mha_status merge(void)
{
    const gpu_mha_merge_desc desc = merge_desc();
    const gpu_mha_merge_arrays arrays = {.a = twos,
                                         .lse_a = zeros,
                                         .b = fours,
                                         .lse_b = zeros,
                                         .output = cells_at(&output),
                                         .lse = cells_at(&lse)};
    return gpu_mha_merge(context, &desc, &arrays);
}

static void check_merge(int succeeded)
{
    check_host(merged, succeeded);
    for (int i = 0; succeeded && i < H * N; i++) {
        expect_near("lse", i, (double)cells_at(&lse)[i], log(2));
    }
}

static gpu_mha_status merge_plan(void)
{
    const gpu_mha_merge_desc desc = merge_desc();
    gpu_mha_plan *plan = (gpu_mha_plan *)twos;
    const gpu_mha_status status = gpu_mha_merge_plan_create(context, &desc, &plan);
    return release_plan(status, plan);
}

static gpu_mha_merge_buffers merge_buffers;

static void open_merge(void)
{
    const gpu_mha_merge_desc desc = merge_desc();
    fill_inputs();
    rig_open(&rig, 1);
    must(gpu_mha_merge_plan_create(rig.context, &desc, &rig.plan));
    merge_buffers = (gpu_mha_merge_buffers){.a = rig_input(&rig, 0, twos, H * N * D),
                                            .lse_a = rig_input(&rig, 1, zeros, H * N),
                                            .b = rig_input(&rig, 2, fours, H * N * D),
                                            .lse_b = rig_input(&rig, 3, zeros, H * N),
                                            .output = rig_output(&rig, 4, "output", SPAN),
                                            .lse = rig_output(&rig, 5, "lse", H * N)};
}

static gpu_mha_status merge_enqueue(void)
{
    return rig_enqueued(
        &rig, gpu_mha_merge_enqueue(rig.plan, rig.queue, &merge_buffers, 1, &rig.gate, &rig.done));
}

static void check_merge_rig(int succeeded)
{
    float values[CELLS_MAX];
    check_rig_output(4, merged, succeeded);
    rig_read(&rig, 5, values);
}

/* ---- rotary embedding ---- */

static gpu_mha_rotary_desc rotary_desc(void)
{
    return (gpu_mha_rotary_desc){
        .B = 1, .H = H, .N = N, .D = D, .positions = GPU_MHA_I32, .P = P, .output = strided(N)};
}

static double rotated(int i)
{
    const int row = i / ROW, d = i % ROW, half = D / 2;
    if (d >= D) {
        return (double)NAN;
    }
    return d < half ? -(double)(row * D + d + half + 1) : (double)(row * D + d - half + 1);
}

static gpu_mha_status rotary(void)
{
    const gpu_mha_rotary_desc desc = rotary_desc();
    const gpu_mha_rotary_arrays arrays = {.input = counting,
                                          .cos = zeros,
                                          .sin = ones,
                                          .positions = positions,
                                          .output = cells_at(&output)};
    return gpu_mha_rotary(context, &desc, &arrays);
}

static void check_rotary(int succeeded)
{
    check_host(rotated, succeeded);
}

static gpu_mha_status rotary_plan(void)
{
    const gpu_mha_rotary_desc desc = rotary_desc();
    gpu_mha_plan *plan = (gpu_mha_plan *)twos;
    const gpu_mha_status status = gpu_mha_rotary_plan_create(context, &desc, &plan);
    return release_plan(status, plan);
}

static gpu_mha_rotary_buffers rotary_buffers;

static void open_rotary(void)
{
    const gpu_mha_rotary_desc desc = rotary_desc();
    fill_inputs();
    rig_open(&rig, 0);
    must(gpu_mha_rotary_plan_create(rig.context, &desc, &rig.plan));
    rotary_buffers = (gpu_mha_rotary_buffers){.input = rig_input(&rig, 0, counting, H * N * D),
                                              .cos = rig_input(&rig, 1, zeros, P * D / 2),
                                              .sin = rig_input(&rig, 2, ones, P * D / 2),
                                              .positions = rig_input(&rig, 3, positions, N),
                                              .output = rig_output(&rig, 4, "output", SPAN)};
}

static gpu_mha_status rotary_enqueue(void)
{
    return rig_enqueued(&rig, gpu_mha_rotary_enqueue(rig.plan, rig.queue, &rotary_buffers, 1,
                                                     &rig.gate, &rig.done));
}

static void check_rotary_rig(int succeeded)
{
    check_rig_output(4, rotated, succeeded);
}

/* ---- cache update ---- */

static gpu_mha_cache_desc cache_desc(void)
{
    return (gpu_mha_cache_desc){
        .B = 1, .H = H, .D = D, .N = ROWS, .NC = NC, .indices = GPU_MHA_I32, .cache = strided(NC)};
}

static double cached(int i)
{
    const int head = i / (NC * ROW), row = i / ROW % NC - FIRST, d = i % ROW;
    return row >= 0 && row < ROWS && d < D ? (double)((head * ROWS + row) * D + d + 1)
                                           : (double)NAN;
}

static void clear_cache(void)
{
    cells_clear(&output, "cache", CACHE_SPAN);
    cells_clear(&lse, "lse", H * N);
}

static gpu_mha_status cache_update(void)
{
    const gpu_mha_cache_desc desc = cache_desc();
    const gpu_mha_cache_arrays arrays = {
        .update = counting, .indices = first_row, .cache = cells_at(&output)};
    return gpu_mha_cache_update(context, &desc, &arrays);
}

static void check_cache(int succeeded)
{
    check_host(cached, succeeded);
}

static gpu_mha_status cache_plan(void)
{
    const gpu_mha_cache_desc desc = cache_desc();
    gpu_mha_plan *plan = (gpu_mha_plan *)twos;
    const gpu_mha_status status = gpu_mha_cache_plan_create(context, &desc, &plan);
    return release_plan(status, plan);
}

static gpu_mha_cache_buffers cache_buffers;

static void open_cache(void)
{
    const gpu_mha_cache_desc desc = cache_desc();
    fill_inputs();
    rig_open(&rig, 1);
    must(gpu_mha_cache_plan_create(rig.context, &desc, &rig.plan));
    cache_buffers = (gpu_mha_cache_buffers){.update = rig_input(&rig, 0, counting, H * ROWS * D),
                                            .indices = rig_input(&rig, 1, first_row, 1),
                                            .cache = rig_output(&rig, 2, "cache", CACHE_SPAN)};
}

static gpu_mha_status cache_enqueue(void)
{
    return rig_enqueued(
        &rig, gpu_mha_cache_enqueue(rig.plan, rig.queue, &cache_buffers, 1, &rig.gate, &rig.done));
}

static void check_cache_rig(int succeeded)
{
    check_rig_output(2, cached, succeeded);
}

/* ---- the list ---- */

#define BLOCKING(function, clears, acts, checks)                                                   \
    {                                                                                              \
        .name = #function, .covers = #function, .flags = SCENARIO_FRESH, .open = open_context,     \
        .clear = clears, .act = acts, .check = checks, .close = close_context                      \
    }
#define PLAN(function, acts)                                                                       \
    {                                                                                              \
        .name = #function, .covers = #function, .flags = SCENARIO_FRESH, .open = open_context,     \
        .clear = nothing, .act = acts, .check = check_nothing, .close = close_context              \
    }
#define ENQUEUE(function, opens, acts, checks)                                                     \
    {                                                                                              \
        .name = #function, .covers = #function, .open = opens, .clear = clear_rig, .act = acts,    \
        .finish = finish, .check = checks, .close = close_rig                                      \
    }

const struct scenario scenarios_operators[] = {
    BLOCKING(gpu_mha_merge, clear_host, merge, check_merge),
    PLAN(gpu_mha_merge_plan_create, merge_plan),
    ENQUEUE(gpu_mha_merge_enqueue, open_merge, merge_enqueue, check_merge_rig),
    BLOCKING(gpu_mha_rotary, clear_host, rotary, check_rotary),
    PLAN(gpu_mha_rotary_plan_create, rotary_plan),
    ENQUEUE(gpu_mha_rotary_enqueue, open_rotary, rotary_enqueue, check_rotary_rig),
    BLOCKING(gpu_mha_cache_update, clear_cache, cache_update, check_cache),
    PLAN(gpu_mha_cache_plan_create, cache_plan),
    ENQUEUE(gpu_mha_cache_enqueue, open_cache, cache_enqueue, check_cache_rig),
    {.name = NULL}};
