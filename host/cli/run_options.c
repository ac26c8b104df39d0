/*
 * The command line of gpu-mha run.
 */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "options.h"
#include "run.h"
#include "words.h"

/* The values as they were given, before their meaning and their combination are looked at. */
struct raw_options {
    const char *causal, *offset, *alibi, *scores, *dropout_seed;
    bool scale_given, softcap_given, window_given, dtype_given, batch_given, average;
    bool output_dtype_given;
    double scale, softcap, dropout;
    int64_t window[2];
    int method, type, output_type;
};

static const char *const stage_words[] = {[GPU_MHA_SCORES_RAW] = "raw",
                                          [GPU_MHA_SCORES_CAPPED] = "capped",
                                          [GPU_MHA_SCORES_MASKED] = "masked",
                                          [GPU_MHA_SCORES_SOFTMAX] = "softmax"};

const char *mha_run_type_name(gpu_mha_type type)
{
    return mha_type_words[type];
}

#define usage_error(...) mha_report_usage("gpu-mha run", __VA_ARGS__)

/* "top-left", "bottom-right" or a number: where query 0 stands among the keys. */
static bool set_offset(gpu_mha_desc *desc, const char *option, const char *text)
{
    if (!strcmp(text, "top-left")) {
        desc->offset_kind = GPU_MHA_TOP_LEFT;
    } else if (!strcmp(text, "bottom-right")) {
        desc->offset_kind = GPU_MHA_BOTTOM_RIGHT;
    } else if (mha_options_int64(text, &desc->offset)) {
        desc->offset_kind = GPU_MHA_OFFSET;
    } else {
        return usage_error("%s needs top-left, bottom-right or a whole number, not '%s'", option,
                           text);
    }
    return true;
}

static bool set_positions(struct mha_run_options *options, const struct raw_options *raw)
{
    gpu_mha_desc *desc = &options->desc;

    if (raw->window_given) {
        desc->has_window = 1;
        desc->window_left = raw->window[0];
        desc->window_right = raw->window[1];
    }
    if (raw->alibi && !strcmp(raw->alibi, "auto")) {
        desc->alibi = GPU_MHA_ALIBI_AUTO;
    } else if (raw->alibi) {
        desc->alibi = GPU_MHA_ALIBI_SLOPES;
        options->alibi_slopes = raw->alibi;
    }
    if (raw->causal && raw->offset) {
        return usage_error("--causal sets the offset, so --offset cannot be given with it");
    }
    if (raw->causal) {
        desc->causal = 1;
        return set_offset(desc, "--causal", raw->causal);
    }
    if (!raw->offset) {
        return true;
    }
    if (!raw->window_given && !raw->alibi) {
        return usage_error("--offset does nothing without --window or --alibi");
    }
    return set_offset(desc, "--offset", raw->offset);
}

/* A value that single precision would turn into infinity or into 0 is not what was meant. */
static bool set_float(float *target, const char *option, double value)
{
    if (fabs(value) > FLT_MAX) {
        return usage_error("%s %g is beyond single precision, whose largest number is %g", option,
                           value, (double)FLT_MAX);
    }
    *target = (float)value;
    if (value != 0 && *target == 0) {
        return usage_error("%s %g is 0 in single precision", option, value);
    }
    return true;
}

static bool set_numbers(gpu_mha_desc *desc, const struct raw_options *raw)
{
    desc->has_scale = raw->scale_given;
    if (raw->scale_given && !set_float(&desc->scale, "--scale", raw->scale)) {
        return false;
    }
    if (raw->softcap < 0) {
        return usage_error("--softcap is %g, but must be positive, or 0 for none", raw->softcap);
    }
    return set_float(&desc->softcap, "--softcap", raw->softcap);
}

static bool set_dropout(gpu_mha_desc *desc, const struct raw_options *raw)
{
    const char *seed = raw->dropout_seed;
    char *end = NULL;

    if (!(raw->dropout >= 0 && raw->dropout < 1)) {
        return usage_error("--dropout is %g, but must be at least 0 and below 1", raw->dropout);
    }
    if (!set_float(&desc->dropout, "--dropout", raw->dropout)) {
        return false;
    }
    if (!seed) {
        return true;
    }
    if (raw->dropout == 0) {
        return usage_error("--dropout-seed does nothing without --dropout");
    }
    errno = 0;
    desc->dropout_seed = strtoull(seed, &end, 10);
    if (errno || *end != '\0' || seed[0] < '0' || seed[0] > '9') {
        return usage_error("--dropout-seed needs a whole number from 0 to 2^64 - 1, not '%s'",
                           seed);
    }
    return true;
}

/* "STAGE,FILE". */
static bool set_scores(struct mha_run_options *options, const char *text)
{
    size_t length = strcspn(text, ",");

    if (text[length] == '\0' || text[length + 1] == '\0') {
        return usage_error("--scores needs a stage and a file, as in masked,S.npy, not '%s'", text);
    }
    for (int stage = GPU_MHA_SCORES_RAW; stage <= GPU_MHA_SCORES_SOFTMAX; stage++) {
        if (strlen(stage_words[stage]) == length && !strncmp(text, stage_words[stage], length)) {
            options->desc.scores = (gpu_mha_scores)stage;
            options->scores = text + length + 1;
            return true;
        }
    }
    return usage_error("--scores needs the stage raw, capped, masked or softmax, not '%.*s'",
                       (int)length, text);
}

/* The folder that a path lies in, or would lie in. */
static bool stat_folder(const char *path, struct stat *status)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    bool found = folder && stat(folder, status) == 0;
    free(folder);
    return found;
}

static const char *name_in_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* True if both paths lead to one file, also where that is still to be made. */
static bool same_file(const char *a, const char *b)
{
    struct stat status_a, status_b;
    bool exists_a = stat(a, &status_a) == 0;
    bool exists_b = stat(b, &status_b) == 0;

    if (exists_a != exists_b) {
        return false;
    }
    if (!exists_a && (strcmp(name_in_folder(a), name_in_folder(b)) != 0 ||
                      !stat_folder(a, &status_a) || !stat_folder(b, &status_b))) {
        return false;
    }
    return status_a.st_dev == status_b.st_dev && status_a.st_ino == status_b.st_ino;
}

struct file_option {
    const char *option, *path;
};

/* A result in the place of an input would be there once, and the input never again. */
static bool check_inputs_stay(const struct mha_run_options *options,
                              const struct file_option *output)
{
    const struct file_option inputs[] = {
        {"--q", options->query},
        {"--k", options->key},
        {"--v", options->value},
        {"--past-k", options->past_key},
        {"--past-v", options->past_value},
        {"--mask", options->mask},
        {"--kv-lens", options->key_lengths},
        {"--alibi", options->alibi_slopes},
        {"--sinks", options->sinks},
    };

    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        if (inputs[i].path && output->path && same_file(inputs[i].path, output->path)) {
            return usage_error("%s is '%s', the file of %s: a result must not replace an input",
                               output->option, output->path, inputs[i].option);
        }
    }
    return true;
}

/* Two results in one file would leave only the second. */
static bool check_outputs_differ(const struct mha_run_options *options)
{
    const struct file_option outputs[] = {
        {"-o", options->output},       {"--lse", options->lse},   {"--weights", options->weights},
        {"--scores", options->scores}, {"--plot", options->plot},
    };
    const size_t count = sizeof outputs / sizeof outputs[0];

    for (size_t i = 0; i < count; i++) {
        if (!check_inputs_stay(options, &outputs[i])) {
            return false;
        }
        for (size_t j = i + 1; j < count; j++) {
            if (outputs[i].path && outputs[j].path && same_file(outputs[i].path, outputs[j].path)) {
                return usage_error("%s and %s name the same file '%s'", outputs[i].option,
                                   outputs[j].option, outputs[j].path);
            }
        }
    }
    return true;
}

static bool set_outputs(struct mha_run_options *options, const struct raw_options *raw)
{
    gpu_mha_desc *desc = &options->desc;

    desc->lse = options->lse != NULL;
    /* The picture is drawn from the weights. */
    if (options->weights || options->plot) {
        desc->weights = GPU_MHA_WEIGHTS_PER_HEAD;
    }
    if (raw->average && (!options->weights || options->plot)) {
        return usage_error(options->plot ? "--average leaves no heads for --plot"
                                         : "--average does nothing without --weights");
    }
    if (raw->average) {
        desc->weights = GPU_MHA_WEIGHTS_AVERAGED;
    }
    if (raw->scores && !set_scores(options, raw->scores)) {
        return false;
    }
    if (raw->batch_given && !options->plot) {
        return usage_error("--batch does nothing without --plot");
    }
    if (desc->method == GPU_MHA_FUSED && (desc->weights || desc->scores)) {
        return usage_error("--method fused keeps no scores, so it does not go with %s",
                           options->weights ? "--weights"
                           : options->plot  ? "--plot"
                                            : "--scores");
    }
    return check_outputs_differ(options);
}

static bool interpret(struct mha_run_options *options, const struct raw_options *raw)
{
    options->desc.method = (gpu_mha_method)raw->method;
    options->convert = raw->dtype_given;
    options->type = (gpu_mha_type)raw->type;
    options->convert_output = raw->output_dtype_given;
    options->output_type = (gpu_mha_type)raw->output_type;
    options->desc.sinks = options->sinks != NULL;
    if (!options->past_key != !options->past_value) {
        return usage_error("--past-k and --past-v are given together or not at all");
    }
    if (options->kv_heads && !options->heads) {
        return usage_error("--kv-heads does not go without --heads");
    }
    return set_positions(options, raw) && set_numbers(&options->desc, raw) &&
           set_dropout(&options->desc, raw) && set_outputs(options, raw);
}

#define FILE_OPTION(long_name, field, text)                                                        \
    {                                                                                              \
        .kind = MHA_OPTION_STRING, .name = long_name, .target = &(field), .value_name = "FILE",    \
        .help = text                                                                               \
    }
#define HEADING(text)                                                                              \
    {                                                                                              \
        .kind = MHA_OPTION_HEADING, .help = text                                                   \
    }

/* Parses into `options` and `raw`; the table is at the same time the text of --help. */
static enum mha_options_result parse(struct mha_run_options *options, struct raw_options *raw,
                                     int argc, char **argv)
{
    const struct mha_option table[] = {
        HEADING("Input, .npy files"),
        {.kind = MHA_OPTION_STRING,
         .name = "q",
         .target = &options->query,
         .value_name = "FILE",
         .required = true,
         .help = "Queries, (B,H,NQ,DK), or (B,NQ,H*DK) with --heads."},
        {.kind = MHA_OPTION_STRING,
         .name = "k",
         .target = &options->key,
         .value_name = "FILE",
         .required = true,
         .help = "Keys, (B,HKV,NK,DK) or (B,NK,HKV*DK)."},
        {.kind = MHA_OPTION_STRING,
         .name = "v",
         .target = &options->value,
         .value_name = "FILE",
         .required = true,
         .help = "Values, (B,HKV,NK,DV) or (B,NK,HKV*DV)."},
        {.kind = MHA_OPTION_INT64,
         .name = "heads",
         .target = &options->heads,
         .minimum = 1,
         .maximum = INT64_MAX,
         .value_name = "H",
         .help = "Number of query heads; needed where the arrays have rank 3."},
        {.kind = MHA_OPTION_INT64,
         .name = "kv-heads",
         .target = &options->kv_heads,
         .minimum = 1,
         .maximum = INT64_MAX,
         .value_name = "HKV",
         .help = "Number of key and value heads, which divides H; as many as H if not given."},
        FILE_OPTION("past-k", options->past_key,
                    "Keys of earlier steps, (B,HKV,NP,DK), read in front of the new ones."),
        FILE_OPTION("past-v", options->past_value, "Values of earlier steps, (B,HKV,NP,DV)."),
        {.kind = MHA_OPTION_CHOICE,
         .name = "dtype",
         .target = &raw->type,
         .given = &raw->dtype_given,
         .choices = mha_type_words,
         .help = "Convert q, k, v and past to this type first. Without it they keep the type of "
                 "their file (f8 is rounded to f32)."},

        HEADING("What is computed"),
        FILE_OPTION(
            "mask", options->mask,
            "Mask of rank 0 to 4 that broadcasts to (B,H,NQ,NP+NK). Booleans: true is "
            "attended to. Floats are added to the scores; -inf hides. A padding mask, a row "
            "of keys per batch entry, is (B,1,1,NK)."),
        FILE_OPTION("bias", options->bias,
                    "A mask of floats beside a --mask of booleans: added to the scores."),
        FILE_OPTION("kv-lens", options->key_lengths,
                    "Valid keys of each batch entry, past ones included, (B) of i4 or i8."),
        {.kind = MHA_OPTION_STRING,
         .name = "causal",
         .target = &raw->causal,
         .value_name = "OFFSET",
         .help = "Query i sees keys up to i + OFFSET. OFFSET is top-left (0), bottom-right (the "
                 "last query sees all keys) or a number."},
        {.kind = MHA_OPTION_INT64_PAIR,
         .name = "window",
         .target = raw->window,
         .given = &raw->window_given,
         .minimum = -1,
         .maximum = INT64_MAX,
         .value_name = "LEFT,RIGHT",
         .help = "Query i sees keys from i + OFFSET - LEFT to i + OFFSET + RIGHT; -1 is no bound."},
        {.kind = MHA_OPTION_STRING,
         .name = "alibi",
         .target = &raw->alibi,
         .value_name = "auto|FILE",
         .help = "Subtract slope * |i + OFFSET - j| from the score of key j, with the published "
                 "slopes or those in a file, (H)."},
        {.kind = MHA_OPTION_STRING,
         .name = "offset",
         .target = &raw->offset,
         .value_name = "OFFSET",
         .help = "OFFSET of --window and --alibi where there is no --causal; top-left if not "
                 "given."},
        {.kind = MHA_OPTION_DOUBLE,
         .name = "scale",
         .target = &raw->scale,
         .given = &raw->scale_given,
         .value_name = "X",
         .help = "Factor of the scores; 1/sqrt(DK) if not given."},
        {.kind = MHA_OPTION_DOUBLE,
         .name = "softcap",
         .target = &raw->softcap,
         .value_name = "X",
         .help = "Limit the scores softly: X * tanh(score / X). 0 is no limit."},
        FILE_OPTION("sinks", options->sinks,
                    "One more score per head that takes weight but has no value, (H)."),
        {.kind = MHA_OPTION_DOUBLE,
         .name = "dropout",
         .target = &raw->dropout,
         .value_name = "P",
         .help = "Drop a weight with this probability and divide what is left by 1 - P."},
        {.kind = MHA_OPTION_STRING,
         .name = "dropout-seed",
         .target = &raw->dropout_seed,
         .value_name = "N",
         .help = "Which weights --dropout drops; 0 if not given."},

        HEADING("Output, .npy files"),
        {.kind = MHA_OPTION_STRING,
         .name = "output",
         .letter = 'o',
         .target = &options->output,
         .value_name = "FILE",
         .required = true,
         .help = "The result, (B,H,NQ,DV), or (B,NQ,H*DV) where q has rank 3."},
        {.kind = MHA_OPTION_CHOICE,
         .name = "output-dtype",
         .target = &raw->output_type,
         .given = &raw->output_dtype_given,
         .choices = mha_type_words,
         .help = "Type of the result; that of q if not given. bf16 is written as f4, which holds "
                 "it exactly, as .npy has no bf16."},
        FILE_OPTION("lse", options->lse, "Log-sum-exp of each row, (B,H,NQ)."),
        FILE_OPTION("weights", options->weights, "The weights, (B,H,NQ,NP+NK)."),
        {.kind = MHA_OPTION_FLAG,
         .name = "average",
         .target = &raw->average,
         .help = "--weights are their mean over the heads, (B,NQ,NP+NK)."},
        {.kind = MHA_OPTION_STRING,
         .name = "scores",
         .target = &raw->scores,
         .value_name = "STAGE,FILE",
         .help = "The scores, (B,H,NQ,NP+NK), as they stand after the stage raw (scaled), capped, "
                 "masked (biases added, -inf where hidden) or softmax."},
        {.kind = MHA_OPTION_STRING,
         .name = "plot",
         .target = &options->plot,
         .value_name = "FILE.png",
         .help = "A picture of the weights, one panel per head."},
        {.kind = MHA_OPTION_INT64,
         .name = "batch",
         .target = &options->batch,
         .given = &raw->batch_given,
         .minimum = 0,
         .maximum = INT64_MAX,
         .help = "The batch entry that --plot shows; 0 if not given."},
        {.kind = MHA_OPTION_STRING,
         .name = "expect",
         .target = &options->expect,
         .value_name = "FOLDER",
         .help = "Fail if a result is not as in its file there, output.npy, lse.npy, weights.npy "
                 "or scores.npy: no element may be further off than it says in output_bound.npy "
                 "and so on, or than 0 without that file."},
        {.kind = MHA_OPTION_FLAG,
         .name = "json",
         .target = &options->as_json,
         .help = "Print one JSON object instead of text."},

        HEADING("How"),
        {.kind = MHA_OPTION_CHOICE,
         .name = "method",
         .target = &raw->method,
         .choices = mha_method_words,
         .help = "fused needs no memory for the scores; staged keeps them. auto (the default) is "
                 "fused unless weights or scores are asked for."},
        {.kind = MHA_OPTION_STRING,
         .name = "device",
         .target = &options->device,
         .value_name = "DEVICE",
         .help = "gpu, cpu, accelerator, PLATFORM:DEVICE as in gpu-mha info, or part of a name; "
                 "the best device if not given."},
    };
    const struct mha_command_line line = {
        .command = "gpu-mha run",
        .summary = "Computes softmax(scale * q k^T + mask) v for every head and writes it.",
        .options = table,
        .option_count = sizeof table / sizeof table[0],
        .epilogue = "B batch entries, H query heads, HKV key and value heads, NQ queries, NK keys, "
                    "NP past keys, DK head size of q and k, DV head size of v and the result. "
                    "Files appear only when everything has succeeded.",
    };
    int operand_count = 0;

    return mha_options_parse(&line, argc, argv, &operand_count);
}

bool mha_run_options_parse(struct mha_run_options *options, int argc, char **argv,
                           enum mha_exit *code)
{
    struct raw_options raw = {0};

    *options = (struct mha_run_options){.desc = {.struct_size = sizeof options->desc}};
    if (!mha_options_are_ok(parse(options, &raw, argc, argv), code)) {
        return false;
    }
    return interpret(options, &raw);
}
