/*
 * The command lines of run, bench, tune and verify. Input: a byte of which, then the arguments,
 * each ended by a newline.
 */
#include "options.h"

#include <string.h>

#include "bench.h"
#include "fuzz/fuzz.h"
#include "run.h"
#include "tune.h"

enum { ARGUMENTS_MAX = 200 };

/* Cuts the text into arguments, in a block of their own each. */
static int cut(char *text, char *arguments[ARGUMENTS_MAX + 1])
{
    int count = 0;
    for (char *at = text; *at != '\0' && count < ARGUMENTS_MAX;) {
        const size_t length = strcspn(at, "\n");
        char *argument = malloc(length + 1);
        FUZZ_ASSERT(argument != NULL);
        memcpy(argument, at, length);
        argument[length] = '\0';
        arguments[count++] = argument;
        at += length + (at[length] == '\n');
    }
    arguments[count] = NULL;
    return count;
}

/* A line that was taken makes problems that the library takes, or refuses with a sentence. */
static void check_desc(const gpu_mha_desc *desc)
{
    const gpu_mha_status status = gpu_mha_desc_check(desc);
    FUZZ_ASSERT(status == GPU_MHA_OK || status == GPU_MHA_INVALID);
}

static void try_run(int count, char **arguments)
{
    struct mha_run_options options;
    enum mha_exit code = MHA_EXIT_FAILED;
    if (!mha_run_options_parse(&options, count, arguments, &code)) {
        FUZZ_ASSERT(code == MHA_EXIT_OK || code == MHA_EXIT_USAGE);
        return;
    }
    FUZZ_ASSERT(options.query && options.key && options.value && options.output);
    FUZZ_ASSERT(options.heads >= 0 && options.kv_heads >= 0 && options.batch >= 0);
    options.desc.B = options.desc.H = options.desc.HKV = options.desc.DK = options.desc.DV = 1;
    options.desc.NQ = options.desc.NK = 2;
    check_desc(&options.desc);
}

static void try_bench(int count, char **arguments)
{
    static struct mha_bench_options options;
    enum mha_exit code = MHA_EXIT_FAILED;
    memset(&options, 0, sizeof options);
    if (!mha_bench_options_parse(&options, count, arguments, &code)) {
        FUZZ_ASSERT(code == MHA_EXIT_OK || code == MHA_EXIT_USAGE);
        return;
    }
    FUZZ_ASSERT(options.shape_count > 0 && options.shape_count <= MHA_BENCH_SHAPES_MAX);
    FUZZ_ASSERT(options.seconds > 0);
    for (size_t i = 0; i < options.shape_count; i++) {
        FUZZ_ASSERT(gpu_mha_desc_check(&options.shapes[i].desc) == GPU_MHA_OK);
        FUZZ_ASSERT(options.shapes[i].name != NULL);
    }
}

static void try_tune(int count, char **arguments)
{
    static struct mha_tune_settings settings;
    enum mha_exit code = MHA_EXIT_FAILED;
    memset(&settings, 0, sizeof settings);
    if (!mha_tune_settings_parse(&settings, count, arguments, &code)) {
        FUZZ_ASSERT(code == MHA_EXIT_OK || code == MHA_EXIT_USAGE);
        return;
    }
    FUZZ_ASSERT(settings.job_count <= MHA_TUNE_JOBS_MAX);
    for (size_t i = 0; i < settings.job_count; i++) {
        FUZZ_ASSERT(settings.jobs[i].name != NULL);
        if (!settings.jobs[i].is_product) {
            check_desc(&settings.jobs[i].desc);
        }
    }
}

/* What a number means does not depend on who reads it. */
static void try_numbers(const char *text)
{
    int64_t number = 0, again = 0, lengths[3];
    double real = 0;
    char printed[32];
    if (mha_options_int64(text, &number)) {
        snprintf(printed, sizeof printed, "%lld", (long long)number);
        FUZZ_ASSERT(mha_options_int64(printed, &again) && again == number);
        FUZZ_ASSERT(mha_options_double(text, false, &real));
    }
    int64_t *const list[3] = {&lengths[0], &lengths[1], &lengths[2]};
    FUZZ_ASSERT(mha_options_lengths(text, list, 3) <= 3);
    mha_options_double(text, true, &real);
    static const char *const words[] = {"query", "key", "a-very-long-name-of-an-option", ""};
    mha_options_nearest(text, words, 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    const uint8_t which = fuzz_byte(&bytes);
    char *text = fuzz_text(&bytes);
    char *arguments[ARGUMENTS_MAX + 1], *given[ARGUMENTS_MAX + 1];
    const int count = cut(text, arguments);
    memcpy(given, arguments, sizeof given); /* operands are moved to the front */
    if (which % 4 == 0) {
        try_run(count, given);
    } else if (which % 4 == 1) {
        try_bench(count, given);
    } else if (which % 4 == 2) {
        try_tune(count, given);
    } else {
        try_numbers(text);
    }
    for (int i = 0; i < count; i++) {
        free(arguments[i]);
    }
    free(text);
    return 0;
}
