/* Variants and verdicts. Those of these scenarios are of a name that no variant has. */
#include "scenario.h"

#include <string.h>

static const char name[] = "a variant that is not there";

static gpu_mha_context *context;
static gpu_mha_plan *plan;
static gpu_mha_verdict verdict;
static gpu_mha_variant_info info;
static size_t count;
static int kept;

static void nothing(void) {}

static void open_context(void)
{
    must(gpu_mha_context_create(NULL, &context));
}

/* The file would be read by later scenarios. */
static void close_context(void)
{
    must(gpu_mha_verdict_forget(context));
    gpu_mha_context_release(context);
}

static void open_with_file(void)
{
    open_context();
    must(gpu_mha_verdict_set(context, name, GPU_MHA_F16, GPU_MHA_VERDICT_HUNG, NULL));
    gpu_mha_context_release(context);
    open_context();
}

static void clear(void)
{
    count = 0;
    kept = -1;
    verdict = GPU_MHA_VERDICT_NONE;
    memset(&info, 0, sizeof info);
}

/* ---- variants ---- */

static gpu_mha_status list(void)
{
    const gpu_mha_status status = gpu_mha_variant_count(context, &count);
    return status != GPU_MHA_OK ? status : gpu_mha_variant_get(context, 0, &info);
}

static void check_list(int succeeded)
{
    if (!succeeded && info.name[0]) {
        complain("a failure wrote the variant \"%s\"", info.name);
    }
    if (succeeded && (count < 2 || !info.name[0] || !info.types)) {
        complain("the first of %zu variants is \"%s\"", count, info.name);
    }
}

static void open_plan(void)
{
    const gpu_mha_desc problem = {
        .B = 1, .H = 2, .HKV = 1, .NQ = 2, .NK = 6, .DK = 4, .DV = 4, .lse = 1};
    open_context();
    must(gpu_mha_plan_create(context, &problem, &plan));
}

static void close_plan(void)
{
    gpu_mha_plan_release(plan);
    close_context();
}

/* Neither calls nor allocates. */
static gpu_mha_status read_texts(void)
{
    if (strcmp(gpu_mha_verdict_text(GPU_MHA_VERDICT_WRONG), "wrong") != 0 ||
        !gpu_mha_plan_variant(plan)[0] || !gpu_mha_verdict_file(context)[0]) {
        complain("a verdict without a text, a plan without a variant or a context without a file");
    }
    return GPU_MHA_OK;
}

static void check_nothing(int succeeded)
{
    (void)succeeded;
}

/* ---- verdicts ---- */

static gpu_mha_status set(void)
{
    return gpu_mha_verdict_set(context, name, GPU_MHA_F16, GPU_MHA_VERDICT_WRONG, &kept);
}

/* What is set holds for this context, in the file or not. */
static void check_set(int succeeded)
{
    gpu_mha_verdict now = GPU_MHA_VERDICT_NONE;
    must(gpu_mha_verdict_get(context, name, GPU_MHA_F16, &now));
    if (succeeded && (now != GPU_MHA_VERDICT_WRONG || (kept != 0 && kept != 1))) {
        complain("the verdict is \"%s\", kept %d", gpu_mha_verdict_text(now), kept);
    }
}

static gpu_mha_status get(void)
{
    return gpu_mha_verdict_get(context, name, GPU_MHA_F16, &verdict);
}

/* A file that cannot be read for want of memory is done without. */
static void check_get(int succeeded)
{
    if (succeeded && verdict != GPU_MHA_VERDICT_HUNG && verdict != GPU_MHA_VERDICT_NONE) {
        complain("the verdict is \"%s\"", gpu_mha_verdict_text(verdict));
    }
}

static gpu_mha_status forget(void)
{
    return gpu_mha_verdict_forget(context);
}

static void check_forget(int succeeded)
{
    gpu_mha_verdict now = GPU_MHA_VERDICT_NONE;
    must(gpu_mha_verdict_get(context, name, GPU_MHA_F16, &now));
    if (succeeded && now != GPU_MHA_VERDICT_NONE) {
        complain("the verdict is still \"%s\"", gpu_mha_verdict_text(now));
    }
}

const struct scenario scenarios_verdicts[] = {
    {.name = "variants",
     .covers = "gpu_mha_variant_count gpu_mha_variant_get",
     .flags = SCENARIO_FRESH,
     .open = open_with_file,
     .clear = clear,
     .act = list,
     .check = check_list,
     .close = close_context},
    {.name = "texts of verdicts",
     .covers = "gpu_mha_verdict_text gpu_mha_plan_variant gpu_mha_verdict_file",
     .flags = SCENARIO_PURE,
     .open = open_plan,
     .clear = nothing,
     .act = read_texts,
     .check = check_nothing,
     .close = close_plan},
    {.name = "verdict set",
     .covers = "gpu_mha_verdict_set",
     .flags = SCENARIO_FRESH,
     .open = open_context,
     .clear = clear,
     .act = set,
     .check = check_set,
     .close = close_context},
    {.name = "verdict get",
     .covers = "gpu_mha_verdict_get",
     .flags = SCENARIO_FRESH,
     .open = open_with_file,
     .clear = clear,
     .act = get,
     .check = check_get,
     .close = close_context},
    {.name = "verdict forget",
     .covers = "gpu_mha_verdict_forget",
     .flags = SCENARIO_FRESH,
     .open = open_with_file,
     .clear = clear,
     .act = forget,
     .check = check_forget,
     .close = close_context},
    {.name = NULL}};
