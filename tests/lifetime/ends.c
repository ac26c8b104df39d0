/*
 * ends.c - a process that ends in one of many ways; it must end with 0.
 *   ends WAY
 */
#include "harness/known_run.h"
#include "maps.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gpu_mha_context *context;
static gpu_mha_plan *plans[KNOWN_KINDS];
static struct known_run runs[KNOWN_KINDS];
static cl_command_queue queue;

static void fail(const char *sentence)
{
    fprintf(stderr, "ends: %s: %s\n", sentence, gpu_mha_last_error());
    _exit(EXIT_FAILURE);
}

/* Every kind of plan and call, with a queue of the program's own. */
static void use(void)
{
    float output[KNOWN_OUTPUT_MAX];
    cl_int code = CL_SUCCESS;
    if (gpu_mha_context_create(NULL, &context) != GPU_MHA_OK) {
        fail("no context");
    }
    cl_context cl = gpu_mha_context_cl(context);
    queue = clCreateCommandQueue(cl, gpu_mha_context_device(context), 0, &code);
    for (int k = 0; queue && k < KNOWN_KINDS; k++) {
        const enum known_kind kind = (enum known_kind)k;
        if (known_plan(context, kind, &plans[k]) != GPU_MHA_OK ||
            known_open(&runs[k], cl, plans[k], kind, 3) != 0 ||
            known_call(context, kind, 3, output) != GPU_MHA_OK || !known_right(kind, output, 3)) {
            fail(known_name(kind));
        }
    }
    if (!queue) {
        fail("no queue");
    }
}

static void enqueue_all(void)
{
    for (int k = 0; k < KNOWN_KINDS; k++) {
        if (known_enqueue(plans[k], &runs[k], queue, 0, NULL, NULL) != GPU_MHA_OK) {
            fail("enqueue");
        }
    }
    clFlush(queue);
}

static void destroy(void)
{
    for (int k = 0; k < KNOWN_KINDS; k++) {
        known_close(&runs[k]);
        gpu_mha_plan_release(plans[k]);
    }
    clReleaseCommandQueue(queue);
    gpu_mha_context_release(context);
}

/* ---- ways to end ---- */

static void loaded(void)
{
    int known;
    if (maps_driver(&known) != NULL || known == 0) {
        fail("a driver is there before the first call");
    }
    size_t count = 0;
    if (gpu_mha_device_count(&count) != GPU_MHA_OK || count == 0 || maps_driver(&known) == NULL) {
        fail("no driver is there after the first call");
    }
}

static void tidy(void)
{
    use();
    destroy();
}

static void without_destroy(void)
{
    use();
}

static void default_context(void)
{
    float output[KNOWN_OUTPUT_MAX];
    for (int k = 0; k < KNOWN_KINDS; k++) {
        if (known_call(NULL, (enum known_kind)k, 3, output) != GPU_MHA_OK) {
            fail("the default context");
        }
    }
}

static void in_flight(void)
{
    use();
    enqueue_all();
}

static void exit_in_flight(void)
{
    use();
    enqueue_all();
    exit(EXIT_SUCCESS);
}

static void atexit_after_use(void)
{
    use();
    atexit(destroy);
}

static void atexit_in_flight(void)
{
    use();
    atexit(destroy);
    enqueue_all();
}

static void enqueue_and_destroy(void)
{
    enqueue_all();
    clFinish(queue);
    destroy();
}

static void atexit_work(void)
{
    use();
    atexit(enqueue_and_destroy);
}

/* Runs after the handlers of what was loaded meanwhile. */
static void atexit_before_use(void)
{
    atexit(destroy);
    use();
}

static void *make_errors(void *unused)
{
    gpu_mha_plan *plan = NULL;
    if (gpu_mha_plan_create(context, NULL, &plan) != GPU_MHA_INVALID || !gpu_mha_last_error()[0]) {
        fail("no error");
    }
    return unused;
}

static void *exit_here(void *unused)
{
    make_errors(NULL);
    exit(EXIT_SUCCESS);
    return unused;
}

static void from_a_thread(void)
{
    pthread_t threads[2];
    use();
    if (pthread_create(&threads[0], NULL, make_errors, NULL) != 0) {
        fail("no thread");
    }
    pthread_join(threads[0], NULL);
    if (pthread_create(&threads[1], NULL, exit_here, NULL) != 0) {
        fail("no thread");
    }
    pthread_join(threads[1], NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {{"loaded", loaded},
            {"tidy", tidy},
            {"without_destroy", without_destroy},
            {"default_context", default_context},
            {"in_flight", in_flight},
            {"exit_in_flight", exit_in_flight},
            {"atexit_after_use", atexit_after_use},
            {"atexit_in_flight", atexit_in_flight},
            {"atexit_work", atexit_work},
            {"atexit_before_use", atexit_before_use},
            {"from_a_thread", from_a_thread}};

int main(int argc, char **argv)
{
    for (size_t w = 0; argc == 2 && w < sizeof ways / sizeof ways[0]; w++) {
        if (strcmp(argv[1], ways[w].name) == 0) {
            ways[w].run();
            return EXIT_SUCCESS;
        }
    }
    fprintf(stderr, "usage: ends WAY\n");
    return 2;
}
