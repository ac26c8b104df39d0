/*
 * gpu-mha doctor: which of the library's variants work on a device. Each is tried in a process of
 * its own, and what fails is avoided by the library from then on. See doctor.h for the parts.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "command.h"
#include "doctor.h"
#include "options.h"

struct settings {
    const char *device, *only;
    double seconds;
    bool list, forget, dry_run, verbose, as_json;
};

/* ---- what failed so far -------------------------------------------------------------------- */

/* "f16", "NAME", "f32", "NAME", ...: what the process of a later variant is to avoid. */
struct avoided {
    char **words;
    size_t count;
};

static void avoided_free(struct avoided *avoided)
{
    for (size_t i = 0; i < avoided->count; i++) {
        free(avoided->words[i]);
    }
    free(avoided->words);
    *avoided = (struct avoided){0};
}

static bool avoided_add(struct avoided *avoided, const char *name, int type)
{
    char **grown = realloc(avoided->words, (avoided->count + 3) * sizeof *grown);

    if (!grown) {
        return false;
    }
    avoided->words = grown;
    char *type_word = strdup(mha_type_words[type]), *name_word = strdup(name);
    if (!type_word || !name_word) {
        free(type_word);
        free(name_word);
        grown[avoided->count] = NULL;
        return false;
    }
    grown[avoided->count++] = type_word;
    grown[avoided->count++] = name_word;
    grown[avoided->count] = NULL;
    return true;
}

/* ---- the walk ------------------------------------------------------------------------------ */

struct walk {
    const struct settings *settings;
    gpu_mha_context *context;
    struct mha_doctor_row *rows;
    size_t row_count;
    struct avoided avoided;
    char device_name[MHA_DOCTOR_NAME];
    bool keeps; /* what is found goes into the file: until one could not be kept */
    bool any_bad;
};

/* A word of --only: the name of a variant, or the first words of some. */
static bool is_wanted(const struct settings *settings, const char *name)
{
    const char *at = settings->only;

    while (at && *at) {
        const size_t length = strcspn(at, ";");
        if (length > 0 && !strncmp(name, at, length) &&
            (name[length] == '\0' || name[length] == ' ')) {
            return true;
        }
        at += length;
        at += *at == ';';
    }
    return settings->only == NULL;
}

static bool read_variants(struct walk *walk)
{
    size_t count = 0, wanted = 0;

    if (gpu_mha_variant_count(walk->context, &count)) {
        mha_report_library_error(NULL);
        return false;
    }
    walk->rows = calloc(count, sizeof *walk->rows);
    if (!walk->rows) {
        mha_report("out of memory for %zu variants", count);
        return false;
    }
    walk->row_count = count;
    for (size_t i = 0; i < count; i++) {
        walk->rows[i].variant.struct_size = sizeof walk->rows[i].variant;
        if (gpu_mha_variant_get(walk->context, i, &walk->rows[i].variant)) {
            mha_report_library_error(NULL);
            return false;
        }
        wanted += is_wanted(walk->settings, walk->rows[i].variant.name);
    }
    if (wanted == 0) {
        mha_report("--only is '%s', but must name a variant of gpu-mha doctor --list",
                   walk->settings->only);
    }
    return wanted > 0;
}

/* Verdicts are written one by one, so that what is known stays known if this ends early. */
static bool keep(struct walk *walk, const struct mha_doctor_row *row)
{
    for (int type = 0; type < MHA_DOCTOR_TYPES; type++) {
        const gpu_mha_verdict verdict = row->findings[type].verdict;
        int kept = 0;
        if (verdict == GPU_MHA_VERDICT_NONE) {
            continue;
        }
        if (mha_doctor_is_bad(verdict)) {
            walk->any_bad = true;
            if (!avoided_add(&walk->avoided, row->variant.name, type)) {
                mha_report("out of memory for the names of what failed");
                return false;
            }
        }
        if (!walk->keeps) {
            continue;
        }
        if (gpu_mha_verdict_set(walk->context, row->variant.name, (gpu_mha_type)type, verdict,
                                &kept)) {
            mha_report_library_error(row->variant.name);
        }
        walk->keeps = kept != 0;
    }
    return true;
}

static bool walk_through(struct walk *walk)
{
    const struct settings *settings = walk->settings;

    for (size_t i = 0; i < walk->row_count && !mha_doctor_interrupted(); i++) {
        struct mha_doctor_row *row = &walk->rows[i];
        const struct mha_doctor_job job = {.device = settings->device,
                                           .opened = walk->device_name,
                                           .variant = row->variant.name,
                                           .types = row->variant.types,
                                           .seconds = settings->seconds,
                                           .verbose = settings->verbose,
                                           .avoid = walk->avoided.words};
        if (!is_wanted(settings, row->variant.name)) {
            continue;
        }
        mha_bench_progress("%zu of %zu, %s", i + 1, walk->row_count, row->variant.name);
        if (!mha_doctor_try(&job, row->findings)) {
            return false;
        }
        mha_bench_progress(NULL);
        row->tried = true;
        if (!settings->as_json) {
            mha_doctor_print_row(row);
        }
        if (!keep(walk, row)) {
            return false;
        }
    }
    return true;
}

/*
 * A driver that ends or hangs a process that only opens it must not do so to this one, which keeps
 * the verdicts.
 */
static bool opens(const struct settings *settings)
{
    const struct mha_doctor_job job = {.device = settings->device,
                                       .variant = "",
                                       .types = 1u << GPU_MHA_F32,
                                       .seconds = settings->seconds,
                                       .verbose = settings->verbose};
    struct mha_doctor_finding findings[MHA_DOCTOR_TYPES];

    if (!mha_doctor_try(&job, findings) || mha_doctor_interrupted()) {
        return false;
    }
    const struct mha_doctor_finding *finding = &findings[GPU_MHA_F32];
    if (mha_doctor_is_bad(finding->verdict) && finding->verdict != GPU_MHA_VERDICT_FAILED) {
        mha_report("opening the device %s: %s; another one can be named by --device",
                   gpu_mha_verdict_text(finding->verdict), finding->sentence);
        return false;
    }
    return true; /* a refusal is told by this process, in full */
}

static enum mha_exit tell(struct walk *walk, bool early)
{
    const struct mha_doctor_summary summary = {.rows = walk->rows,
                                               .row_count = walk->row_count,
                                               .early = early,
                                               .dry_run = walk->settings->dry_run,
                                               .kept = walk->keeps,
                                               .file = gpu_mha_verdict_file(walk->context)};
    enum mha_exit code = MHA_EXIT_OK;

    if (walk->settings->as_json) {
        code = mha_doctor_print_json(&summary, walk->context);
    } else {
        mha_doctor_print_report(&summary, walk->context);
    }
    const bool lost = summary.file[0] && !summary.dry_run && !summary.kept;
    return walk->any_bad || lost || early ? MHA_EXIT_FAILED : code;
}

static void print_list(const struct walk *walk)
{
    for (size_t i = 0; i < walk->row_count; i++) {
        const gpu_mha_variant_info *variant = &walk->rows[i].variant;
        printf("%-32s", variant->name);
        for (int type = 0; type < MHA_DOCTOR_TYPES; type++) {
            if (variant->types & 1u << type) {
                printf("  %s %s", mha_type_words[type],
                       gpu_mha_verdict_text(variant->verdicts[type]));
            }
        }
        printf("\n");
    }
}

static enum mha_exit examine(const struct settings *settings)
{
    struct walk walk = {.settings = settings};
    enum mha_exit code = MHA_EXIT_FAILED;

    if (!opens(settings)) {
        return code;
    }
    if (gpu_mha_context_create(settings->device, &walk.context)) {
        return mha_report_library_error(NULL);
    }
    mha_doctor_device_name(walk.context, walk.device_name);
    if (settings->forget) {
        code = gpu_mha_verdict_forget(walk.context) ? mha_report_library_error(NULL) : MHA_EXIT_OK;
    } else if (read_variants(&walk)) {
        walk.keeps = !settings->dry_run && gpu_mha_verdict_file(walk.context)[0];
        if (settings->list) {
            print_list(&walk);
            code = MHA_EXIT_OK;
        } else {
            const bool whole = walk_through(&walk);
            code = tell(&walk, !whole || mha_doctor_interrupted());
        }
    } else if (walk.row_count > 0 && settings->only) {
        code = MHA_EXIT_USAGE;
    }
    avoided_free(&walk.avoided);
    free(walk.rows);
    gpu_mha_context_release(walk.context);
    return code;
}

/* ---- command line -------------------------------------------------------------------------- */

static bool parse(struct settings *settings, int argc, char **argv, enum mha_exit *code)
{
    const struct mha_option options[] = {
        {.kind = MHA_OPTION_STRING,
         .name = "device",
         .target = &settings->device,
         .value_name = "DEVICE",
         .help = "gpu, cpu, accelerator, PLATFORM:DEVICE as in gpu-mha info, or part of a name; "
                 "the best device if not given."},
        {.kind = MHA_OPTION_STRING,
         .name = "only",
         .target = &settings->only,
         .value_name = "NAME;...",
         .help = "Try only the variants whose names begin with one of these words, as \"fused\", "
                 "\"product CLBlast\" or \"decode 16;merge\"."},
        {.kind = MHA_OPTION_DOUBLE,
         .name = "timeout",
         .target = &settings->seconds,
         .value_name = "S",
         .help = "Seconds that a variant may take with one storage type, building included, before "
                 "it counts as hung; 120 if not given."},
        {.kind = MHA_OPTION_FLAG,
         .name = "list",
         .target = &settings->list,
         .help = "Try nothing; list the variants and the verdicts that are kept."},
        {.kind = MHA_OPTION_FLAG,
         .name = "forget",
         .target = &settings->forget,
         .help = "Try nothing; remove the verdicts that are kept for this device."},
        {.kind = MHA_OPTION_FLAG,
         .name = "dry-run",
         .target = &settings->dry_run,
         .help = "Try, but keep no verdict."},
        {.kind = MHA_OPTION_FLAG,
         .name = "verbose",
         .target = &settings->verbose,
         .help = "Let through what drivers and the library's log say while they are tried."},
        {.kind = MHA_OPTION_FLAG,
         .name = "json",
         .target = &settings->as_json,
         .help = "Print one JSON object instead of text."},
    };
    const struct mha_command_line line = {
        .command = "gpu-mha doctor",
        .summary =
            "Tries every variant that the library has for a device, each in a process of its "
            "own, and compares its results with a float64 reference. The library avoids what "
            "fails from then on.",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .epilogue =
            "Verdicts: ok; wrong, an element is over its bound; failed, the library says which "
            "call; "
            "crashed, the driver ended the process; hung; refused, the library does not run that "
            "on "
            "such a device, which is no fault. They are kept in a file beside the built kernels, "
            "for "
            "this device, driver and version alone. The report at the end holds no paths and no "
            "names of user or host. Exit codes: 0 all is ok or refused, 1 something is not or the "
            "verdicts could not be kept, 2 wrong command line.",
    };
    int operand_count = 0;

    if (!mha_options_are_ok(mha_options_parse(&line, argc, argv, &operand_count), code)) {
        return false;
    }
    if (!(settings->seconds > 0 && settings->seconds <= 86400)) {
        return mha_report_usage(line.command,
                                "--timeout is %g, but must be more than 0 and at most 86400",
                                settings->seconds);
    }
    if (settings->list + settings->forget + settings->dry_run > 1 ||
        (settings->forget && settings->only)) {
        return mha_report_usage(line.command, "--list, --forget and --dry-run do not go together, "
                                              "nor --forget and --only");
    }
    return true;
}

enum mha_exit mha_cmd_doctor(int argc, char **argv)
{
    struct settings settings = {.seconds = 120};
    enum mha_exit code;

    if (argc > 0 && !strcmp(argv[0], MHA_DOCTOR_CHILD)) {
        return mha_doctor_child(argc - 1, argv + 1);
    }
    if (!parse(&settings, argc, argv, &code)) {
        return code;
    }
    mha_doctor_watch_begin();
    code = examine(&settings);
    const int number = mha_doctor_watch_end();
    if (number) {
        /* Whoever waits for this process is to see what ended it. */
        fflush(stdout);
        raise(number);
    }
    return code;
}
