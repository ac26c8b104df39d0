/*
 * The command line of gpu-mha bench.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "options.h"
#include "report.h"
#include "words.h"

/* The values as they were given. */
struct raw_options {
    struct mha_option_strings shapes;
    const char *names;
    bool causal, window_given, dtype_given, without_start;
    int64_t window[2];
    int method, type;
};

#define usage_error(...) mha_report_usage("gpu-mha bench", __VA_ARGS__)

static bool add_shape(struct mha_bench_options *options, const struct mha_bench_shape *shape)
{
    if (options->shape_count == MHA_BENCH_SHAPES_MAX) {
        return usage_error("there are more than %d shapes", MHA_BENCH_SHAPES_MAX);
    }
    options->shapes[options->shape_count++] = *shape;
    return true;
}

static bool add_default(void *options, size_t index)
{
    size_t count;

    return add_shape(options, &mha_bench_default_shapes(&count)[index]);
}

static bool add_names(struct mha_bench_options *options, const char *text)
{
    size_t count;
    const struct mha_bench_shape *shapes = mha_bench_default_shapes(&count);
    const char *names[MHA_BENCH_SHAPES_MAX];

    for (size_t i = 0; i < count; i++) {
        names[i] = shapes[i].name;
    }
    return mha_options_add_names("gpu-mha bench", "shape ", text, names, count, add_default,
                                 options);
}

static bool add_given(struct mha_bench_options *options, const struct raw_options *raw,
                      const char *text)
{
    struct mha_bench_shape shape = {.name = text, .desc = {.struct_size = sizeof shape.desc}};
    gpu_mha_desc *desc = &shape.desc;

    if (!mha_bench_shape_read(text, desc)) {
        return usage_error(MHA_BENCH_SHAPE_RULE, text);
    }
    desc->causal = raw->causal;
    desc->has_window = raw->window_given;
    if (raw->window_given) {
        desc->window_left = raw->window[0];
        desc->window_right = raw->window[1];
    }
    if (raw->causal || raw->window_given) {
        desc->offset_kind = GPU_MHA_BOTTOM_RIGHT;
    }
    return add_shape(options, &shape);
}

static bool add_defaults(struct mha_bench_options *options)
{
    size_t count;
    const struct mha_bench_shape *shapes = mha_bench_default_shapes(&count);

    for (size_t i = 0; i < count; i++) {
        if (!add_shape(options, &shapes[i])) {
            return false;
        }
    }
    return true;
}

/* What is said for all shapes; the library itself says what it would refuse. */
static bool finish_shapes(struct mha_bench_options *options, const struct raw_options *raw)
{
    for (size_t i = 0; i < options->shape_count; i++) {
        gpu_mha_desc *desc = &options->shapes[i].desc;
        desc->method = (gpu_mha_method)raw->method;
        if (raw->dtype_given) {
            mha_bench_store_as(desc, (gpu_mha_type)raw->type);
        }
        if (gpu_mha_desc_check(desc)) {
            return usage_error("shape %s: %s", options->shapes[i].name, gpu_mha_last_error());
        }
    }
    return true;
}

static bool interpret(struct mha_bench_options *options, const struct raw_options *raw)
{
    if (raw->shapes.count == 0 && (raw->causal || raw->window_given)) {
        return usage_error("--%s does nothing without --shape", raw->causal ? "causal" : "window");
    }
    if (options->seconds <= 0 || options->seconds > 3600) {
        return usage_error("--seconds is %g, but must be more than 0 and at most 3600",
                           options->seconds);
    }
    options->with_start = !raw->without_start;
    if (raw->names && !add_names(options, raw->names)) {
        return false;
    }
    for (size_t i = 0; i < raw->shapes.count; i++) {
        if (!add_given(options, raw, raw->shapes.values[i])) {
            return false;
        }
    }
    if (options->shape_count == 0 && !add_defaults(options)) {
        return false;
    }
    return finish_shapes(options, raw);
}

/* Parses into `options` and `raw`; the table is at the same time the text of --help. */
static enum mha_options_result parse(struct mha_bench_options *options, struct raw_options *raw,
                                     int argc, char **argv)
{
    const struct mha_option table[] = {
        {.kind = MHA_OPTION_HEADING, .help = "What is measured"},
        {.kind = MHA_OPTION_STRING,
         .name = "name",
         .target = &raw->names,
         .value_name = "NAME,...",
         .help = "Only these of the named shapes: prefill-64, prefill-128 (full attention), "
                 "causal-64, causal-128, gqa (grouped heads, causal), bert (padded batch), tiny "
                 "(many small), odd (nothing divides; window), long (16384 keys, causal), decode, "
                 "decode-batch (one query, many keys), decode-f16, prefill-f16 (stored in 16 "
                 "bits), cross (so small that only starting it counts), layer-768 (a whole layer "
                 "with its projections)."},
        {.kind = MHA_OPTION_STRINGS,
         .name = "shape",
         .target = &raw->shapes,
         .value_name = "B,H,HKV,NQ,NK,DK[,DV]",
         .help = "This shape; may be given several times. DV is DK if not given."},
        {.kind = MHA_OPTION_FLAG,
         .name = "causal",
         .target = &raw->causal,
         .help = "The shapes of --shape are causal, the last query seeing all keys."},
        {.kind = MHA_OPTION_INT64_PAIR,
         .name = "window",
         .target = raw->window,
         .given = &raw->window_given,
         .minimum = -1,
         .maximum = INT64_MAX,
         .value_name = "LEFT,RIGHT",
         .help = "The shapes of --shape have this window around the position of the query, the "
                 "last one standing at the last key; -1 is no bound."},
        {.kind = MHA_OPTION_CHOICE,
         .name = "dtype",
         .target = &raw->type,
         .given = &raw->dtype_given,
         .choices = mha_type_words,
         .help = "All tensors of all shapes are stored as this type."},
        {.kind = MHA_OPTION_CHOICE,
         .name = "method",
         .target = &raw->method,
         .choices = mha_method_words,
         .help = "As in gpu-mha run, for all shapes; auto if not given."},

        {.kind = MHA_OPTION_HEADING, .help = "How"},
        {.kind = MHA_OPTION_STRING,
         .name = "device",
         .target = &options->device,
         .value_name = "DEVICE",
         .help = "gpu, cpu, accelerator, PLATFORM:DEVICE as in gpu-mha info, or part of a name; "
                 "the best device if not given."},
        {.kind = MHA_OPTION_DOUBLE,
         .name = "seconds",
         .target = &options->seconds,
         .help = "Running time of each shape; 1 if not given."},
        {.kind = MHA_OPTION_FLAG,
         .name = "no-start",
         .target = &raw->without_start,
         .help = "Leave out the cold and the warm start, which take new processes and seconds."},
        {.kind = MHA_OPTION_FLAG,
         .name = "json",
         .target = &options->as_json,
         .help = "Print one JSON object instead of text."},
    };
    const struct mha_command_line line = {
        .command = "gpu-mha bench",
        .summary = "Measures attention on a device, and in the same minutes what the device can do "
                   "at most.",
        .options = table,
        .option_count = sizeof table / sizeof table[0],
        .epilogue =
            "Every round runs each shape and each limit once or more; medians are shown. GFLOP/s "
            "and GB/s count visible keys only, each once. A shape's limit is what would take the "
            "longest at the measured best: fma (its multiply-adds), bandwidth (its bytes) or "
            "launch (one empty kernel); beside it stands which share of that limit is reached. "
            "Cold start: what the first result in a new process costs over a later one, with empty "
            "caches; warm: with filled ones.",
    };
    int operand_count = 0;

    return mha_options_parse(&line, argc, argv, &operand_count);
}

bool mha_bench_options_parse(struct mha_bench_options *options, int argc, char **argv,
                             enum mha_exit *code)
{
    struct raw_options raw = {0};

    *options = (struct mha_bench_options){.seconds = 1};
    if (!mha_options_are_ok(parse(options, &raw, argc, argv), code)) {
        return false;
    }
    return interpret(options, &raw);
}
