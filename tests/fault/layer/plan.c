/* Counts, and the one failure that is asked for. */
#include "plan.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objects.h"

#define NAME(name, ...) #name,
static const char *const names[] = {FAULT_CALLS(NAME)};
#undef NAME

#define CODES(name, ...) static const cl_int codes_of_##name[] = {__VA_ARGS__};
FAULT_CALLS(CODES)
#undef CODES

static const char *const kind_names[FAULT_KINDS] = {
    "contexts", "queues", "buffers", "programs", "kernels", "events", "references to devices"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int calls[FAULT_CALL_COUNT];
static struct {
    enum fault_call call;
    int nth; /* 0: none */
    cl_int code;
    enum fault_mode mode;
} plan;
static int failed;
static const char *report_path;

const char *fault_call_name(enum fault_call call)
{
    return names[call];
}

const cl_int *fault_call_codes(enum fault_call call, int *count)
{
    switch (call) {
#define CASE(name, ...)                                                                            \
    case FAULT_##name:                                                                             \
        *count = (int)(sizeof codes_of_##name / sizeof codes_of_##name[0]);                        \
        return codes_of_##name;
        FAULT_CALLS(CASE)
#undef CASE
    default:
        *count = 0;
        return NULL;
    }
}

const char *fault_kind_name(enum fault_kind kind)
{
    return kind_names[kind];
}

void fault_layer_arm(enum fault_call call, int nth, cl_int code, enum fault_mode mode)
{
    pthread_mutex_lock(&lock);
    memset(calls, 0, sizeof calls);
    failed = 0;
    plan.call = call;
    plan.nth = nth;
    plan.code = code;
    plan.mode = mode;
    pthread_mutex_unlock(&lock);
}

void fault_layer_disarm(void)
{
    pthread_mutex_lock(&lock);
    plan.nth = 0;
    pthread_mutex_unlock(&lock);
}

int fault_layer_failed(void)
{
    return failed;
}

int fault_layer_calls(enum fault_call call)
{
    return calls[call];
}

int fault_layer_live(enum fault_kind kind)
{
    return objects_live(kind);
}

const char *fault_layer_misuse(void)
{
    return objects_misuse();
}

void fault_layer_forget_misuse(void)
{
    objects_forget_misuse();
}

cl_int plan_next_command(enum fault_call call, cl_int *late)
{
    cl_int code = CL_SUCCESS;
    *late = CL_SUCCESS;
    pthread_mutex_lock(&lock);
    const int number = ++calls[call];
    if (plan.nth > 0 && plan.call == call &&
        (number == plan.nth || (number > plan.nth && plan.mode == FAULT_EVER))) {
        failed++;
        if (plan.mode == FAULT_LATE) {
            *late = plan.code;
        } else {
            code = plan.code;
        }
    }
    pthread_mutex_unlock(&lock);
    return code;
}

cl_int plan_next(enum fault_call call)
{
    cl_int late;
    const cl_int code = plan_next_command(call, &late);
    return code != CL_SUCCESS ? code : late;
}

/* ---- without a test in the process ---- */

static void report(void)
{
    FILE *file = fopen(report_path, "w");
    if (!file) {
        return;
    }
    for (int call = 0; call < FAULT_CALL_COUNT; call++) {
        fprintf(file, "calls %s %d\n", names[call], calls[call]);
    }
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        fprintf(file, "live %s %d\n", kind_names[kind], objects_live((enum fault_kind)kind));
    }
    fprintf(file, "failed %d\nmisuse %s\n", failed, objects_misuse());
    fclose(file);
}

static int read_plan(const char *text)
{
    char name[64], mode[8];
    int nth, code;
    if (sscanf(text, "%63s %d %d %7s", name, &nth, &code, mode) != 4) {
        return 0;
    }
    for (int call = 0; call < FAULT_CALL_COUNT; call++) {
        if (strcmp(names[call], name) == 0) {
            fault_layer_arm((enum fault_call)call, nth, code,
                            strcmp(mode, "ever") == 0   ? FAULT_EVER
                            : strcmp(mode, "late") == 0 ? FAULT_LATE
                                                        : FAULT_ONCE);
            return 1;
        }
    }
    return 0;
}

void plan_from_environment(void)
{
    const char *text = getenv("MHA_FAULT");
    if (text && !read_plan(text)) {
        fprintf(stderr, "fault layer: MHA_FAULT is \"%s\": it must be CALL N CODE once|ever|late\n",
                text);
        abort();
    }
    report_path = getenv("MHA_FAULT_REPORT");
    if (report_path) {
        atexit(report);
    }
}
