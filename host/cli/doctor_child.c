/*
 * gpu-mha doctor, the process in which one variant is tried. A driver may end it at any point, so
 * it says what it does before it does it, one line each on a channel of its own (drivers print to
 * stdout), and nothing of what it learns is kept here:
 *
 *     open NAME                              the device; or: gone SENTENCE
 *     begin TYPE
 *     VERDICT TYPE ERROR BOUND SENTENCE      verdict as gpu_mha_verdict_text has it
 *     done
 *
 * Arguments: DEVICE VARIANT TYPES SECONDS [TYPE VARIANT]..., DEVICE "" for the default one, VARIANT
 * "" for making a context alone, TYPES a sum of 1 << gpu_mha_type; then what is to be avoided.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "command.h"
#include "doctor.h"

static void say(const char *line, size_t length)
{
    while (length > 0) {
        const ssize_t put = write(MHA_DOCTOR_CHANNEL, line, length);
        if (put <= 0) {
            _exit(MHA_EXIT_FAILED); /* nobody listens any more */
        }
        line += put;
        length -= (size_t)put;
    }
}

/* One line of two words and more; what is printed must not break it. */
static void say_text(const char *word, const char *text)
{
    char line[MHA_DOCTOR_SENTENCE + 128];

    snprintf(line, sizeof line - 1, "%s %s", word, text);
    for (char *at = line; *at; at++) {
        *at = (unsigned char)*at < 0x20 || *at == 0x7f ? ' ' : *at;
    }
    strcat(line, "\n");
    say(line, strlen(line));
}

static void say_begin(gpu_mha_type type)
{
    char line[32];
    say(line, (size_t)snprintf(line, sizeof line, "begin %s\n", mha_type_words[type]));
}

static void say_finding(gpu_mha_type type, const struct mha_doctor_finding *finding)
{
    char words[96];

    snprintf(words, sizeof words, "%s %s %.9g %.9g", gpu_mha_verdict_text(finding->verdict),
             mha_type_words[type], finding->error, finding->bound);
    say_text(words, finding->sentence);
}

/* Goes with its parent, whatever becomes of that, and leaves no core file behind. */
static void prepare_to_die(double seconds)
{
    const struct rlimit none = {0, 0};

    setrlimit(RLIMIT_CORE, &none);
    signal(SIGALRM, SIG_DFL);
    alarm((unsigned)(seconds * MHA_DOCTOR_TYPES) + 30);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == 1) {
        _exit(MHA_EXIT_FAILED);
    }
#endif
}

static bool find_variant(gpu_mha_context *context, const char *name, gpu_mha_variant_info *info)
{
    size_t count = 0;

    if (gpu_mha_variant_count(context, &count)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        *info = (gpu_mha_variant_info){.struct_size = sizeof *info};
        if (!gpu_mha_variant_get(context, i, info) && !strcmp(info->name, name)) {
            return true;
        }
    }
    return false;
}

static void avoid(gpu_mha_context *context, const char *name, gpu_mha_type type)
{
    gpu_mha_verdict_set(context, name, type, GPU_MHA_VERDICT_WRONG, NULL);
}

static void try_variant(gpu_mha_context *context, const gpu_mha_variant_info *variant,
                        gpu_mha_type type, struct mha_doctor_finding *finding)
{
    const char *name = variant->name;

    if (variant->tile[0]) {
        mha_doctor_try_attention(context, variant, type, finding);
    } else if (!strcmp(name, "merge")) {
        mha_doctor_try_merge(context, type, finding);
    } else if (!strcmp(name, "rotary")) {
        mha_doctor_try_rotary(context, type, finding);
    } else if (!strcmp(name, "cache_update")) {
        mha_doctor_try_cache_update(context, type, finding);
    } else if (!strcmp(name, "product tile")) {
        avoid(context, "product CLBlast", GPU_MHA_F32);
        avoid(context, "product thin", GPU_MHA_F32);
        mha_doctor_try_layer(context, type, 2, 37, "tile", finding);
    } else if (!strcmp(name, "product thin")) {
        /* A layer of a single token: each product has one row. */
        avoid(context, "product CLBlast", GPU_MHA_F32);
        mha_doctor_try_layer(context, type, 1, 1, "tile", finding);
    } else if (!strcmp(name, "product CLBlast")) {
        avoid(context, "product tile", GPU_MHA_F32);
        mha_doctor_try_layer(context, type, 2, 37, "CLBlast", finding);
    } else {
        mha_doctor_try_layer(context, type, 2, 19, NULL, finding);
    }
}

static void try_types(gpu_mha_context *context, const gpu_mha_variant_info *variant, unsigned types)
{
    for (int type = 0; type < MHA_DOCTOR_TYPES; type++) {
        struct mha_doctor_finding finding = {.verdict = GPU_MHA_VERDICT_NONE};
        if (types & 1u << type) {
            say_begin((gpu_mha_type)type);
            try_variant(context, variant, (gpu_mha_type)type, &finding);
            say_finding((gpu_mha_type)type, &finding);
        }
    }
}

/* Only a context: whether the driver lets itself be used at all. */
static void try_context(const char *device)
{
    struct mha_doctor_finding finding = {.verdict = GPU_MHA_VERDICT_OK};
    gpu_mha_context *context = NULL;

    say_begin(GPU_MHA_F32);
    mha_doctor_called(gpu_mha_context_create(device, &context), &finding);
    gpu_mha_context_release(context);
    say_finding(GPU_MHA_F32, &finding);
}

/* The parent had the very device a moment ago; without it nothing can be tried. */
static void open_device(const char *device, const char *name, gpu_mha_context **context,
                        gpu_mha_variant_info *variant)
{
    char device_name[MHA_DOCTOR_NAME];

    if (gpu_mha_context_create(device, context)) {
        say_text("gone", gpu_mha_last_error());
        _exit(MHA_EXIT_FAILED);
    }
    mha_doctor_device_name(*context, device_name);
    say_text("open", device_name);
    if (!find_variant(*context, name, variant)) {
        say_text("gone", "it does not have this variant any more");
        _exit(MHA_EXIT_FAILED);
    }
}

enum mha_exit mha_doctor_child(int argc, char **argv)
{
    static const char done[] = "done\n";
    gpu_mha_context *context = NULL;
    gpu_mha_variant_info variant;

    if (argc < 4 || fcntl(MHA_DOCTOR_CHANNEL, F_SETFD, FD_CLOEXEC) == -1) {
        mha_report_usage("gpu-mha doctor", "%s is not for users", MHA_DOCTOR_CHILD);
        return MHA_EXIT_USAGE;
    }
    prepare_to_die(strtod(argv[3], NULL));
    /* Built from source, without verdicts, in the shape that is asked for and no other. */
    setenv("GPU_MHA_CACHE_DIR", "off", 1);
    unsetenv("GPU_MHA_TILE");
    const char *device = argv[0][0] ? argv[0] : NULL;
    if (!argv[1][0]) {
        try_context(device);
    } else {
        open_device(device, argv[1], &context, &variant);
        for (int i = 4; i + 1 < argc; i += 2) {
            for (int type = 0; type < MHA_DOCTOR_TYPES; type++) {
                if (!strcmp(argv[i], mha_type_words[type])) {
                    avoid(context, argv[i + 1], (gpu_mha_type)type);
                }
            }
        }
        try_types(context, &variant, (unsigned)strtoul(argv[2], NULL, 10));
        gpu_mha_context_release(context);
    }
    say(done, sizeof done - 1);
    /* Without the exit handlers of drivers: what they do there is no matter of this variant. */
    _exit(MHA_EXIT_OK);
}
