/*
 * gpu-mha verify: runs recorded cases on a device and says whether it computes right.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "command.h"
#include "options.h"
#include "verify_compare.h"
#include "verify_operator.h"
#include "verify_walk.h"

struct verify {
    struct mha_verify_settings settings;
    double tolerance;
    bool json, verbose;
    json_t *cases; /* with json: the array of results */
    long passed, failed;
};

/* How one case went. */
struct outcome {
    bool passed;
    int worst_slot; /* the output nearest to its bound, or furthest over it */
    struct mha_comparison comparisons[MHA_CASE_SLOTS];
    char sentence[MHA_ERROR_SIZE]; /* why it failed */
};

/* ---- one case ----------------------------------------------------------------------------- */

static bool explain_misses(const struct mha_case_array *output,
                           const struct mha_comparison *comparison, struct outcome *outcome)
{
    char where[MHA_NPY_SHAPE_TEXT];

    return mha_fail(outcome->sentence, sizeof outcome->sentence,
                    "output %s: %zu of %zu elements are over their bound; the worst, %s, is %.9g "
                    "where %.9g is recorded, error %.1e of %.1e",
                    output->name, comparison->misses, output->npy.count,
                    mha_npy_element_text(&output->npy, comparison->worst, where, sizeof where),
                    comparison->got, comparison->want, comparison->error, comparison->bound);
}

static bool compare_outputs(const struct verify *verify, const struct mha_case *record,
                            const struct mha_computed *computed, struct outcome *outcome)
{
    double worst_share = -1.0;

    for (int slot = 0; slot < MHA_CASE_SLOTS; slot++) {
        const struct mha_case_array *output = &record->outputs[slot];
        struct mha_comparison *comparison = &outcome->comparisons[slot];
        if (!output->name) {
            continue;
        }
        if (!computed[slot].npy.data) {
            return mha_fail(outcome->sentence, sizeof outcome->sentence, "output %s: not computed",
                            output->name);
        }
        if (!mha_compare(&output->npy, &computed[slot].npy, computed[slot].exact, verify->tolerance,
                         comparison)) {
            return mha_fail(outcome->sentence, sizeof outcome->sentence, "out of memory");
        }
        if (mha_share_of_bound(comparison->error, comparison->bound) > worst_share) {
            worst_share = mha_share_of_bound(comparison->error, comparison->bound);
            outcome->worst_slot = slot;
        }
    }
    const struct mha_comparison *worst = &outcome->comparisons[outcome->worst_slot];
    return worst->misses == 0 ||
           explain_misses(&record->outputs[outcome->worst_slot], worst, outcome);
}

static void run_case(const struct verify *verify, const char *folder, struct mha_case *record,
                     struct outcome *outcome)
{
    struct mha_computed computed[MHA_CASE_SLOTS] = {{{0}, false}};

    if (mha_case_read(folder, record) && mha_operator_run(record, &verify->settings, computed)) {
        outcome->passed = compare_outputs(verify, record, computed, outcome);
    } else {
        mha_fail(outcome->sentence, sizeof outcome->sentence, "%s", record->error);
    }
    mha_computed_free(computed);
}

/* ---- printing ----------------------------------------------------------------------------- */

/* Texts come from files: a control character among them must not reach the terminal. */
static void print_text(const char *text)
{
    for (const char *at = text; *at; at++) {
        unsigned char character = (unsigned char)*at;
        if (character < 0x20 || character == 0x7f) {
            printf("\\x%02X", character);
        } else {
            putchar(character);
        }
    }
}

static void print_details(const struct mha_case *record, const struct outcome *outcome)
{
    printf("       %s of opset %lld: ", record->operator_name, (long long)record->opset);
    print_text(record->summary);
    putchar('\n');
    for (int slot = 0; slot < MHA_CASE_SLOTS; slot++) {
        const struct mha_case_array *output = &record->outputs[slot];
        const struct mha_comparison *comparison = &outcome->comparisons[slot];
        char shape[MHA_NPY_SHAPE_TEXT];
        if (!output->name) {
            continue;
        }
        printf("       %s %s %s: max error %.1e of %.1e\n", output->name,
               mha_npy_type_name(output->npy.type),
               mha_npy_shape_text(output->npy.rank, output->npy.shape, shape, sizeof shape),
               comparison->error, comparison->bound);
    }
}

static void print_outcome(const struct verify *verify, const char *folder, const char *name,
                          const struct mha_case *record, const struct outcome *outcome)
{
    if (outcome->passed) {
        const struct mha_comparison *worst = &outcome->comparisons[outcome->worst_slot];
        printf("ok   ");
        print_text(name);
        printf("  max error %.1e of %.1e (output %s)\n", worst->error, worst->bound,
               record->outputs[outcome->worst_slot].name);
    } else {
        printf("FAIL ");
        print_text(name);
        printf(": ");
        print_text(outcome->sentence);
        putchar('\n');
    }
    if (!verify->verbose) {
        return;
    }
    printf("       in ");
    print_text(folder);
    putchar('\n');
    if (outcome->passed) {
        print_details(record, outcome);
    }
}

static json_t *outputs_json(const struct mha_case *record, const struct outcome *outcome)
{
    json_t *outputs = json_array();

    for (int slot = 0; slot < MHA_CASE_SLOTS; slot++) {
        const struct mha_comparison *comparison = &outcome->comparisons[slot];
        if (record->outputs[slot].name) {
            json_array_append_new(outputs,
                                  json_pack("{s:s, s:o, s:o}", "name", record->outputs[slot].name,
                                            "max_error", mha_json_number(comparison->error),
                                            "bound", mha_json_number(comparison->bound)));
        }
    }
    return outputs;
}

static void add_json(struct verify *verify, const char *folder, const char *name,
                     const struct mha_case *record, const struct outcome *outcome)
{
    json_t *result = json_pack("{s:o, s:o, s:b}", "name", mha_json_text(name), "folder",
                               mha_json_text(folder), "passed", outcome->passed);
    if (outcome->passed) {
        json_object_set_new(result, "outputs", outputs_json(record, outcome));
    } else {
        json_object_set_new(result, "reason", mha_json_text(outcome->sentence));
    }
    /* An append that fails for want of memory shows as a missing case, so it drops the array. */
    if (verify->cases && json_array_append_new(verify->cases, result) != 0) {
        json_decref(verify->cases);
        verify->cases = NULL;
    }
}

/* ---- the command -------------------------------------------------------------------------- */

static void visit_case(void *user, const char *folder, const char *problem)
{
    struct verify *verify = user;
    struct mha_case record = {0};
    struct outcome outcome = {0};

    if (problem) {
        mha_fail(outcome.sentence, sizeof outcome.sentence, "%s", problem);
    } else {
        run_case(verify, folder, &record, &outcome);
    }
    const char *name = record.name ? record.name : folder;
    if (verify->json) {
        add_json(verify, folder, name, &record, &outcome);
    } else {
        print_outcome(verify, folder, name, &record, &outcome);
    }
    if (outcome.passed) {
        verify->passed++;
    } else {
        verify->failed++;
    }
    mha_case_free(&record);
}

static enum mha_exit print_result(struct verify *verify, const char *device)
{
    bool good = verify->failed == 0 && verify->passed > 0;

    if (verify->json) {
        json_t *cases = verify->cases;
        verify->cases = NULL;
        enum mha_exit printed = mha_print_json(
            json_pack("{s:o, s:f, s:o, s:I, s:I}", "device", mha_json_text(device), "tolerance",
                      verify->tolerance, "cases", cases, "passed", (json_int_t)verify->passed,
                      "failed", (json_int_t)verify->failed));
        if (printed != MHA_EXIT_OK) {
            return printed;
        }
    } else {
        printf("%ld passed, %ld failed\n", verify->passed, verify->failed);
    }
    return good ? MHA_EXIT_OK : MHA_EXIT_FAILED;
}

static enum mha_exit verify_folders(struct verify *verify, const char *selector, int count,
                                    char **folders)
{
    char device[256];

    if (gpu_mha_context_create(selector, &verify->settings.context) != GPU_MHA_OK) {
        return mha_report_library_error(NULL);
    }
    mha_device_name(verify->settings.context, device, sizeof device);
    if (verify->json) {
        verify->cases = json_array();
    } else {
        printf("device: ");
        print_text(device);
        putchar('\n');
    }
    for (int i = 0; i < count; i++) {
        mha_walk_cases(folders[i], visit_case, verify);
    }
    enum mha_exit code = print_result(verify, device);
    gpu_mha_context_release(verify->settings.context);
    return code;
}

static const char epilogue[] =
    "Each DIR is a recorded case, a folder with a case.json, or a tree of such folders. Known "
    "operators: Attention (ONNX opsets 23 to 25), RotaryEmbedding (23), TensorScatter (24).\n"
    "\n"
    "An element passes if it differs from the recorded value, want, by at most\n"
    "2 u |want| + s + X * (the largest |want| of its output)\n"
    "where u is the unit round-off of the output's type (f32 2^-24, f16 2^-11, bf16 2^-8), s its "
    "smallest subnormal, and X the tolerance, by default 2^-20 = 9.54e-07. Outputs whose elements "
    "are only moved (present_key, present_value, present_cache) must be equal.\n"
    "\n"
    "Exit code 0 if every case passed and there was one, 1 if not.";

enum mha_exit mha_cmd_verify(int argc, char **argv)
{
    static const char *const methods[] = {"auto", "fused", "staged", NULL};
    struct verify verify = {.tolerance = MHA_DEFAULT_TOLERANCE};
    const char *selector = NULL;
    int method = 0, folders = 0;
    const struct mha_option options[] = {
        {.kind = MHA_OPTION_STRING,
         .name = "device",
         .target = &selector,
         .value_name = "DEVICE",
         .help = "gpu, cpu, accelerator, PLATFORM:DEVICE as in gpu-mha info, or part of a name; "
                 "the best device if not given."},
        {.kind = MHA_OPTION_CHOICE,
         .name = "method",
         .target = &method,
         .choices = methods,
         .help = "The kernels for Attention. Where fused ones are asked for and a case records "
                 "scores, which they do not keep, the scores come from the staged ones."},
        {.kind = MHA_OPTION_DOUBLE,
         .name = "tolerance",
         .target = &verify.tolerance,
         .value_name = "X",
         .help = "Tighten the bound below. X is from 0 to 9.5367e-07."},
        {.kind = MHA_OPTION_FLAG,
         .name = "json",
         .target = &verify.json,
         .help = "Print the results as JSON."},
        {.kind = MHA_OPTION_FLAG,
         .name = "verbose",
         .letter = 'v',
         .target = &verify.verbose,
         .help = "Describe each case and all of its outputs."},
    };
    const struct mha_command_line line = {
        .command = "gpu-mha verify",
        .summary = "Runs recorded cases on a device and compares with the recorded results.",
        .operands = "DIR...",
        .operands_minimum = 1,
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .epilogue = epilogue,
    };

    enum mha_exit code;
    if (!mha_options_are_ok(mha_options_parse(&line, argc, argv, &folders), &code)) {
        return code;
    }
    if (!(verify.tolerance >= 0.0 && verify.tolerance <= MHA_DEFAULT_TOLERANCE)) {
        mha_report("--tolerance is %g; it may only tighten the default, %g, and not be negative",
                   verify.tolerance, MHA_DEFAULT_TOLERANCE);
        return MHA_EXIT_USAGE;
    }
    verify.settings.method = (gpu_mha_method)method;
    return verify_folders(&verify, selector, folders, argv);
}
