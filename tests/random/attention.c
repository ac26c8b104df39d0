/*
 * attention.c - whole attention problems, drawn from seeds, against the reference. What fails is
 * shrunk, and printed as one command of gpu-mha.
 */
#include "draw.h"
#include "failure.h"
#include "features.h"
#include "seeds.h"
#include "shrink.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a driver that crashes ---- */

static char running[64] = "";
static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM};

#define CRASHES (sizeof(crashes) / sizeof(crashes[0]))

static struct sigaction before[CRASHES];

/* Says which seed it was; whoever stood here before gets the fault again. */
static void say_seed(int number)
{
    if (write(STDERR_FILENO, running, strlen(running)) < 0) {
        _exit(1);
    }
    for (size_t n = 0; n < CRASHES; n++) {
        sigaction(crashes[n], &before[n], NULL);
    }
    raise(number);
}

static void watch_for_crashes(void)
{
    struct sigaction action = {.sa_handler = say_seed};

    for (size_t n = 0; n < CRASHES; n++) {
        sigaction(crashes[n], &action, &before[n]);
    }
}

/* ---- one problem, all problems ---- */

/* The largest error so far, in bounds, and whose it is. */
static double worst;
static uint64_t worst_seed;

/* Returns 1 if it fails. */
static int try_seed(gpu_mha_context *context, const struct seeds *options, uint64_t seed)
{
    const struct attention_spec spec = random_spec(seed);
    struct attention_verdict verdict;

    snprintf(running, sizeof(running), "crash in seed %" PRIu64 "\n", seed);
    if (options->is_one) {
        char text[2048];
        attention_spec_text(&spec, text, sizeof(text));
        printf("seed %" PRIu64 ": {%s}\n", seed, text);
    }
    verdict = attention_try(context, &spec, 1);
    features_count(&spec, verdict.plan);
    if (verdict.worst > worst) {
        worst = verdict.worst;
        worst_seed = seed;
    }
    if (verdict.fault == ATTENTION_RIGHT) {
        return 0;
    }
    struct attention_verdict small = verdict;
    struct attention_spec shrunk = shrink(context, &spec, &small);
    failure_report(options->folder, &spec, &verdict, &shrunk, &small);
    return 1;
}

static uint64_t try_all(gpu_mha_context *context, const struct seeds *options)
{
    uint64_t step = options->count / 20 > 100 ? options->count / 20 : 100;
    uint64_t tried = 0;
    uint64_t failures = 0;

    while (tried < options->count && failures < options->failures) {
        failures += (uint64_t)try_seed(context, options, options->first + tried);
        tried++;
        if (tried % step == 0 && tried < options->count) {
            printf("%" PRIu64 " of %" PRIu64 " problems, %" PRIu64 " failed\n", tried,
                   options->count, failures);
            fflush(stdout);
        }
    }
    features_print();
    if (options->count >= 300 && !failures && features_missing()) {
        failures++;
    }
    printf("%" PRIu64 " problems from seed %" PRIu64 " on, %" PRIu64
           " failed; the largest error is %.3f of its bound, in seed %" PRIu64 "\n",
           tried, options->first, failures, worst, worst_seed);
    return failures;
}

int main(int argc, char **argv)
{
    struct seeds options;
    gpu_mha_context *context;
    int code = seeds_read(&options, argc, argv);

    if (code != 0) {
        return code;
    }
    watch_for_crashes();
    if (gpu_mha_context_create(NULL, &context) != GPU_MHA_OK) {
        fprintf(stderr, "%s\n", gpu_mha_last_error());
        return 1;
    }
    uint64_t failures = try_all(context, &options);
    gpu_mha_context_release(context);
    return failures ? 1 : 0;
}
