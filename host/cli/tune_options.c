/*
 * The command line of gpu-mha tune.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "options.h"
#include "tune.h"
#include "words.h"

/* The values as they were given. */
struct raw_options {
    struct mha_option_strings shapes, products;
    const char *names;
    bool causal, dtype_given;
    int type;
};

/* The shapes of gpu-mha bench that stand for a kind each, and the product of its layer. */
static const char *const default_names[] = {"prefill-64", "prefill-128", "prefill-f16",
                                            "decode",     "decode-f16",  "product"};
enum { DEFAULTS = sizeof default_names / sizeof default_names[0] };
_Static_assert((int)DEFAULTS == (int)MHA_TUNE_DEFAULT_JOBS, "as tune.h says");

struct mha_tune_job mha_tune_default_job(size_t index)
{
    struct mha_tune_job job = {.name = default_names[index]};
    size_t count;
    const struct mha_bench_shape *shapes = mha_bench_default_shapes(&count);

    for (size_t i = 0; i < count; i++) {
        if (!strcmp(shapes[i].name, job.name)) {
            job.desc = shapes[i].desc;
            return job;
        }
    }
    job.is_product = true;
    job.M = 1024;
    job.N = job.K = 768;
    return job;
}

#define usage_error(...) mha_report_usage("gpu-mha tune", __VA_ARGS__)

static bool add_job(struct mha_tune_settings *settings, const struct mha_tune_job *job)
{
    if (settings->job_count == MHA_TUNE_JOBS_MAX) {
        return usage_error("there are more than %d shapes and products", MHA_TUNE_JOBS_MAX);
    }
    settings->jobs[settings->job_count++] = *job;
    return true;
}

static bool add_default(void *settings, size_t index)
{
    const struct mha_tune_job job = mha_tune_default_job(index);

    return add_job(settings, &job);
}

static bool add_shape(struct mha_tune_settings *settings, const struct raw_options *raw,
                      const char *text)
{
    struct mha_tune_job job = {.name = text, .desc = {.struct_size = sizeof job.desc}};

    if (!mha_bench_shape_read(text, &job.desc)) {
        return usage_error(MHA_BENCH_SHAPE_RULE, text);
    }
    if (raw->causal) {
        job.desc.causal = 1;
        job.desc.offset_kind = GPU_MHA_BOTTOM_RIGHT;
    }
    if (raw->dtype_given) {
        mha_bench_store_as(&job.desc, (gpu_mha_type)raw->type);
    }
    if (gpu_mha_desc_check(&job.desc)) {
        return usage_error("shape %s: %s", text, gpu_mha_last_error());
    }
    return add_job(settings, &job);
}

static bool add_product(struct mha_tune_settings *settings, const char *text)
{
    struct mha_tune_job job = {.name = text, .is_product = true};
    int64_t *const lengths[] = {&job.M, &job.N, &job.K};

    if (mha_options_lengths(text, lengths, 3) != 3) {
        return usage_error("--product needs M,N,K, whole numbers of 1 or more, not '%s'", text);
    }
    return add_job(settings, &job);
}

static bool interpret(struct mha_tune_settings *settings, const struct raw_options *raw)
{
    if (raw->shapes.count == 0 && (raw->causal || raw->dtype_given)) {
        return usage_error("--%s does nothing without --shape", raw->causal ? "causal" : "dtype");
    }
    if (settings->seconds <= 0 || settings->seconds > 60) {
        return usage_error("--seconds is %g, but must be more than 0 and at most 60",
                           settings->seconds);
    }
    if (raw->names && !mha_options_add_names("gpu-mha tune", "", raw->names, default_names,
                                             DEFAULTS, add_default, settings)) {
        return false;
    }
    for (size_t i = 0; i < raw->shapes.count; i++) {
        if (!add_shape(settings, raw, raw->shapes.values[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < raw->products.count; i++) {
        if (!add_product(settings, raw->products.values[i])) {
            return false;
        }
    }
    const bool nothing_asked = settings->job_count == 0;
    for (size_t i = 0; nothing_asked && i < DEFAULTS; i++) {
        add_default(settings, i);
    }
    return true;
}

/* Parses into `settings` and `raw`; the table is at the same time the text of --help. */
static enum mha_options_result parse(struct mha_tune_settings *settings, struct raw_options *raw,
                                     int argc, char **argv)
{
    const struct mha_option table[] = {
        {.kind = MHA_OPTION_HEADING, .help = "What is tuned; all of --name if nothing is given"},
        {.kind = MHA_OPTION_STRING,
         .name = "name",
         .target = &raw->names,
         .value_name = "NAME,...",
         .help = "Only these: prefill-64, prefill-128, prefill-f16, decode, decode-f16 (the shapes "
                 "of gpu-mha bench), product (1024,768,768)."},
        {.kind = MHA_OPTION_STRINGS,
         .name = "shape",
         .target = &raw->shapes,
         .value_name = "B,H,HKV,NQ,NK,DK[,DV]",
         .help = "An attention of this shape; may be given several times. DV is DK if not given."},
        {.kind = MHA_OPTION_FLAG,
         .name = "causal",
         .target = &raw->causal,
         .help = "The shapes of --shape are causal, the last query seeing all keys."},
        {.kind = MHA_OPTION_CHOICE,
         .name = "dtype",
         .target = &raw->type,
         .given = &raw->dtype_given,
         .choices = mha_type_words,
         .help = "The tensors of --shape are stored as this type; f32 if not given."},
        {.kind = MHA_OPTION_STRINGS,
         .name = "product",
         .target = &raw->products,
         .value_name = "M,N,K",
         .help = "The layer's matrix product, of (M, K) by (K, N); may be given several times."},

        {.kind = MHA_OPTION_HEADING, .help = "How"},
        {.kind = MHA_OPTION_STRING,
         .name = "device",
         .target = &settings->device,
         .value_name = "DEVICE",
         .help = "gpu, cpu, accelerator, PLATFORM:DEVICE as in gpu-mha info, or part of a name; "
                 "the best device if not given."},
        {.kind = MHA_OPTION_DOUBLE,
         .name = "seconds",
         .target = &settings->seconds,
         .help = "Running time of each candidate; 0.5 if not given."},
        {.kind = MHA_OPTION_FLAG,
         .name = "dry-run",
         .target = &settings->dry_run,
         .help = "Measure, but keep nothing."},
        {.kind = MHA_OPTION_FLAG,
         .name = "json",
         .target = &settings->as_json,
         .help = "Print one JSON object instead of text."},
    };
    const struct mha_command_line line = {
        .command = "gpu-mha tune",
        .summary = "Measures the shapes that the kernels can have on a device, and keeps the "
                   "fastest where the library finds it.",
        .options = table,
        .option_count = sizeof table / sizeof table[0],
        .epilogue =
            "A winner holds for its kind of problem: few or many queries or many short sequences, "
            "the head sizes rounded up to a power of two, the storage of the keys, and the same "
            "default; of two of one kind the later one counts. Candidates take turns; each is "
            "first checked against the default's result, "
            "and one that does not build, differs or is far slower is dropped. The machine should "
            "do nothing else meanwhile. Building takes seconds for each candidate, and the first "
            "product through CLBlast some ten. The winners are kept in a file beside the built "
            "kernels, for this device and driver alone; gpu-mha info tells what holds.",
    };
    int operand_count = 0;

    return mha_options_parse(&line, argc, argv, &operand_count);
}

bool mha_tune_settings_parse(struct mha_tune_settings *settings, int argc, char **argv,
                             enum mha_exit *code)
{
    struct raw_options raw = {0};

    *settings = (struct mha_tune_settings){.seconds = 0.5};
    if (!mha_options_are_ok(parse(settings, &raw, argc, argv), code)) {
        return false;
    }
    return interpret(settings, &raw);
}
