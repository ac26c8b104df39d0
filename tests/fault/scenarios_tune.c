/* Tuning and what it leaves. */
#include "scenario.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static gpu_mha_context *context;
static gpu_mha_tune_result result;
static gpu_mha_choice choice;

static const gpu_mha_desc problem = {
    .B = 1, .H = 2, .HKV = 1, .NQ = 2, .NK = 6, .DK = 4, .DV = 4, .lse = 1};

/* One run in each round. */
static const gpu_mha_tune_options quick = {.seconds = 1e-9};

static void nothing(void) {}

static void open_context(void)
{
    must(gpu_mha_context_create(NULL, &context));
}

/* The file would change what later scenarios run. */
static void close_context(void)
{
    unlink(gpu_mha_tuning_file(context));
    gpu_mha_context_release(context);
}

static void clear(void)
{
    memset(&result, 0, sizeof result);
    memset(&choice, 0, sizeof choice);
}

static gpu_mha_status tune(void)
{
    return gpu_mha_tune(context, &problem, &quick, &result);
}

static gpu_mha_status tune_product(void)
{
    return gpu_mha_tune_product(context, 3, 4, 5, &quick, &result);
}

static void check_result(int succeeded)
{
    if (!succeeded && (result.count || result.winner[0])) {
        complain("a failure wrote a result");
    }
    if (succeeded && (result.count < 2 || !result.winner[0] || !(result.winner_ms > 0))) {
        complain("of %d candidates \"%s\" won with %g ms", result.count, result.winner,
                 result.winner_ms);
    }
}

/* With a file, which is read. */
static void open_tuned(void)
{
    open_context();
    must(tune());
    gpu_mha_context_release(context);
    open_context();
}

static gpu_mha_status choose(void)
{
    gpu_mha_choice product = {.struct_size = 0};
    const gpu_mha_status status = gpu_mha_choice_get(context, &problem, &choice);
    if (!gpu_mha_tuning_file(context)) {
        complain("the tuning file's name is NULL");
    }
    return status != GPU_MHA_OK ? status : gpu_mha_choice_get(context, NULL, &product);
}

static void check_choice(int succeeded)
{
    if (succeeded && (!choice.kind[0] || !choice.text[0])) {
        complain("the choice for \"%s\" is \"%s\"", choice.kind, choice.text);
    }
}

const struct scenario scenarios_tune[] = {
    {.name = "tune",
     .covers = "gpu_mha_tune",
     .flags = SCENARIO_FRESH | SCENARIO_GIVES_WAY | SCENARIO_SPARSE,
     .open = open_context,
     .clear = clear,
     .act = tune,
     .check = check_result,
     .close = close_context},
    {.name = "tune a product",
     .covers = "gpu_mha_tune_product",
     .flags = SCENARIO_GIVES_WAY | SCENARIO_CLBLAST | SCENARIO_SPARSE,
     .open = open_context,
     .clear = clear,
     .act = tune_product,
     .check = check_result,
     .close = close_context},
    {.name = "choice",
     .covers = "gpu_mha_choice_get gpu_mha_tuning_file",
     .flags = SCENARIO_FRESH,
     .open = open_tuned,
     .clear = clear,
     .act = choose,
     .check = check_choice,
     .close = close_context},
    {.name = NULL}};

/* ---- what needs neither device nor memory ---- */

static gpu_mha_desc described;
static float slopes[8];

static void log_line(void *user, const char *level, const char *line)
{
    (void)user;
    (void)level;
    (void)line;
}

static gpu_mha_status texts(void)
{
    const int64_t shape[] = {2, 6};
    gpu_mha_set_log(log_line, NULL);
    gpu_mha_set_log(NULL, NULL);
    described = problem;
    gpu_mha_status status = gpu_mha_mask_broadcast(&described, GPU_MHA_MASK_BOOL, 2, shape);
    if (status == GPU_MHA_OK) {
        status = gpu_mha_desc_check(&described);
    }
    if (gpu_mha_desc_check(NULL) != GPU_MHA_INVALID || !gpu_mha_last_error()[0] ||
        gpu_mha_last_error_info().status != GPU_MHA_INVALID) {
        complain("a missing descriptor is no error");
    }
    return status == GPU_MHA_OK ? gpu_mha_alibi_slopes(8, slopes) : status;
}

static void check_texts(int succeeded)
{
    if (!succeeded || strcmp(gpu_mha_version(), GPU_MHA_VERSION_STRING) != 0 ||
        strcmp(gpu_mha_status_name(GPU_MHA_OK), "GPU_MHA_OK") != 0 ||
        strcmp(gpu_mha_status_text(GPU_MHA_OK), "success") != 0) {
        complain("a call that needs nothing failed");
    }
    for (int h = 0; h < 8; h++) {
        expect_near("slope", h, (double)slopes[h], exp2(-(h + 1)));
    }
}

const struct scenario scenarios_texts[] = {
    {.name = "texts",
     .covers = "gpu_mha_version gpu_mha_status_text gpu_mha_status_name gpu_mha_last_error "
               "gpu_mha_last_error_info gpu_mha_set_log gpu_mha_mask_broadcast gpu_mha_desc_check "
               "gpu_mha_alibi_slopes",
     .flags = SCENARIO_PURE,
     .open = nothing,
     .clear = nothing,
     .act = texts,
     .check = check_texts,
     .close = nothing},
    {.name = NULL}};
