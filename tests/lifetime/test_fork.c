/*
 * test_fork.c - in a child of a process that has used OpenCL every function that would touch it
 * is refused at once, whatever the threads of the parent were doing.
 *
 * A child has an alarm: one that hangs is killed by it. It leaves by _exit, since a driver's exit
 * handlers would wait for threads that it does not have.
 */
#include "harness/assertions.h"
#include "harness/known_run.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static gpu_mha_context *context;
static gpu_mha_plan *plans[KNOWN_KINDS];
static struct known_run runs[KNOWN_KINDS];
static cl_command_queue queue;

#define ASSERT_OK(call) ck_assert_msg((call) == GPU_MHA_OK, "%s", gpu_mha_last_error())

static void open_all(void)
{
    cl_int code = CL_SUCCESS;
    ASSERT_OK(gpu_mha_context_create(NULL, &context));
    cl_context cl = gpu_mha_context_cl(context);
    queue = clCreateCommandQueue(cl, gpu_mha_context_device(context), 0, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    for (int k = 0; k < KNOWN_KINDS; k++) {
        ASSERT_OK(known_plan(context, (enum known_kind)k, &plans[k]));
        ck_assert_int_eq(known_open(&runs[k], cl, plans[k], (enum known_kind)k, 3), 0);
    }
}

static void close_all(void)
{
    for (int k = 0; k < KNOWN_KINDS; k++) {
        known_close(&runs[k]);
        gpu_mha_plan_release(plans[k]);
    }
    clReleaseCommandQueue(queue);
    gpu_mha_context_release(context);
}

/* ---- in the child ---- */

static const gpu_mha_desc desc = {.B = 1, .H = 1, .HKV = 1, .NQ = 2, .NK = 2, .DK = 4, .DV = 4};

static gpu_mha_status call_about_variants(gpu_mha_context *of, int number)
{
    size_t count = 0;
    gpu_mha_variant_info info = {0};
    gpu_mha_verdict verdict = GPU_MHA_VERDICT_NONE;
    switch (number) {
    case 0:
        return gpu_mha_variant_count(of, &count);
    case 1:
        return gpu_mha_variant_get(of, 0, &info);
    case 2:
        return gpu_mha_verdict_get(of, "merge", GPU_MHA_F32, &verdict);
    case 3:
        return gpu_mha_verdict_set(of, "merge", GPU_MHA_F32, GPU_MHA_VERDICT_OK, NULL);
    default:
        return gpu_mha_verdict_forget(of);
    }
}

/* Every function but those that take a kind of operation; both contexts where one is taken. */
static gpu_mha_status call_other(int number)
{
    gpu_mha_context *made = NULL;
    gpu_mha_device_info info = {0};
    gpu_mha_choice choice = {0};
    size_t count;
    switch (number) {
    case 0:
        return gpu_mha_device_count(&count);
    case 1:
        return gpu_mha_device_get(0, &info);
    case 2:
        return gpu_mha_context_create(NULL, &made);
    case 3:
        return gpu_mha_context_wrap(gpu_mha_context_cl(context), gpu_mha_context_device(context),
                                    &made);
    case 4:
        return gpu_mha_context_retain(context);
    case 5:
        return gpu_mha_plan_retain(plans[0]);
    case 6:
    case 7:
        return gpu_mha_tune(number == 6 ? context : NULL, &desc, NULL, NULL);
    case 8:
    case 9:
        return gpu_mha_tune_product(number == 8 ? context : NULL, 4, 4, 4, NULL, NULL);
    case 10:
    case 11:
        return gpu_mha_choice_get(number == 10 ? context : NULL, &desc, &choice);
    case 12:
        return gpu_mha_choice_get(context, NULL, &choice);
    default:
        return call_about_variants(number % 2 ? context : NULL, (number - 13) / 2);
    }
}

enum { OTHERS = 23, WAYS = 5, CALLS = OTHERS + WAYS * KNOWN_KINDS };

static gpu_mha_status call_known(enum known_kind kind, int way)
{
    float output[KNOWN_OUTPUT_MAX];
    gpu_mha_plan *plan = NULL;
    cl_event event = NULL;
    switch (way) {
    case 0:
        return known_call(context, kind, 3, output);
    case 1:
        return known_call(NULL, kind, 3, output);
    case 2:
        return known_plan(context, kind, &plan);
    case 3:
        return known_plan(NULL, kind, &plan);
    default:
        return known_enqueue(plans[kind], &runs[kind], queue, 0, NULL, &event);
    }
}

static gpu_mha_status call(int number)
{
    return number < OTHERS
               ? call_other(number)
               : call_known((enum known_kind)((number - OTHERS) / WAYS), (number - OTHERS) % WAYS);
}

/* 0, or the number of the first call that is not refused as it should be, counted from 1. */
static int first_not_refused(void)
{
    char words[64];
    snprintf(words, sizeof words, "this is process %ld after a fork()", (long)getpid());
    for (int n = 0; n < CALLS; n++) {
        if (call(n) != GPU_MHA_FORKED || strstr(gpu_mha_last_error(), words) == NULL) {
            fprintf(stderr, "call %d: %s\n", n, gpu_mha_last_error());
            return n + 1;
        }
    }
    return 0;
}

/* What needs no driver works, and releasing does no harm. */
static void child(void)
{
    alarm(60);
    int wrong = first_not_refused();
    if (gpu_mha_plan_workspace_bytes(plans[KNOWN_STAGED]) == 0 ||
        gpu_mha_plan_text(plans[0])[0] == '\0' || gpu_mha_desc_check(&desc) != GPU_MHA_OK ||
        gpu_mha_tuning_file(context) == NULL || gpu_mha_verdict_file(context) == NULL) {
        wrong = 101;
    }
    for (int k = 0; k < KNOWN_KINDS; k++) {
        gpu_mha_plan_release(plans[k]);
    }
    gpu_mha_context_release(context);
    _exit(wrong);
}

static void fork_and_check(void)
{
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        child();
    }
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(!WIFSIGNALED(status), "the child was ended by signal %d%s", WTERMSIG(status),
                  WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    ck_assert_msg(WEXITSTATUS(status) == 0, "in the child call %d is not refused",
                  WEXITSTATUS(status) - 1);
}

/* ---- in the parent ---- */

START_TEST(every_call_is_refused_in_a_child)
{
    float output[KNOWN_OUTPUT_MAX];
    open_all();
    fork_and_check();
    /* And the parent goes on. */
    for (int k = 0; k < KNOWN_KINDS; k++) {
        ASSERT_OK(known_enqueue(plans[k], &runs[k], queue, 0, NULL, NULL));
        ASSERT_OK(known_call(context, (enum known_kind)k, 4, output));
        ck_assert(known_right((enum known_kind)k, output, 4));
    }
    ck_assert_int_eq(clFinish(queue), CL_SUCCESS);
    close_all();
}
END_TEST

/* Not even a context was made: the driver has its threads all the same. */
START_TEST(listing_devices_is_use_of_opencl)
{
    size_t count = 0;
    ck_assert_int_eq(gpu_mha_device_count(&count), GPU_MHA_OK);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        float output[KNOWN_OUTPUT_MAX];
        alarm(60);
        _exit(known_call(NULL, KNOWN_FUSED, 3, output) == GPU_MHA_FORKED ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* What needs no driver is no use of it. */
START_TEST(a_child_may_be_the_first_user)
{
    ck_assert_int_eq(gpu_mha_desc_check(&desc), GPU_MHA_OK);
    ck_assert_str_ne(gpu_mha_version(), "");
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        float output[KNOWN_OUTPUT_MAX];
        alarm(60);
        const int wrong = known_call(NULL, KNOWN_FUSED, 3, output) != GPU_MHA_OK ||
                          !known_right(KNOWN_FUSED, output, 3);
        _exit(wrong);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* ---- while threads of the parent hold every lock there is ---- */

static atomic_int stop;
static atomic_int lines;

/* Holds the lock of the log most of the time. */
static void slow_sink(void *user, const char *level, const char *line)
{
    volatile size_t sum = 0;
    (void)user;
    (void)level;
    for (int n = 0; n < 200; n++) {
        sum += strlen(line);
    }
    atomic_fetch_add(&lines, 1);
}

static void *log_often(void *unused)
{
    while (!atomic_load(&stop)) {
        gpu_mha_desc_check(NULL);
    }
    return unused;
}

static void *call_often(void *unused)
{
    float output[KNOWN_OUTPUT_MAX];
    for (int n = 0; !atomic_load(&stop); n++) {
        const enum known_kind kind = (enum known_kind)(n % KNOWN_KINDS);
        if (known_call(context, kind, 5, output) != GPU_MHA_OK || !known_right(kind, output, 5)) {
            return "a call in the parent went wrong";
        }
    }
    return unused;
}

static void *plan_often(void *unused)
{
    for (int n = 0; !atomic_load(&stop); n++) {
        gpu_mha_plan *plan = NULL;
        if (known_plan(context, (enum known_kind)(n % KNOWN_KINDS), &plan) != GPU_MHA_OK) {
            return "a plan in the parent could not be made";
        }
        gpu_mha_plan_release(plan);
    }
    return unused;
}

START_TEST(no_lock_of_the_parent_holds_up_a_child)
{
    enum { THREADS = 4, FORKS = 25 };
    static void *(*const work[THREADS])(void *) = {log_often, call_often, plan_often, log_often};
    pthread_t threads[THREADS];
    setenv("GPU_MHA_LOG", "debug", 1);
    gpu_mha_set_log(slow_sink, NULL);
    open_all();
    for (int t = 0; t < THREADS; t++) {
        ck_assert_int_eq(pthread_create(&threads[t], NULL, work[t], NULL), 0);
    }
    for (int n = 0; n < FORKS; n++) {
        const int before = atomic_load(&lines);
        fork_and_check();
        while (atomic_load(&lines) == before) {
        }
    }
    atomic_store(&stop, 1);
    for (int t = 0; t < THREADS; t++) {
        void *failed = NULL;
        ck_assert_int_eq(pthread_join(threads[t], &failed), 0);
        ck_assert_msg(failed == NULL, "%s", (const char *)failed);
    }
    close_all();
}
END_TEST

static atomic_int first_call_began, first_call_ended;

static void *call_first(void *unused)
{
    float output[KNOWN_OUTPUT_MAX];
    atomic_store(&first_call_began, 1);
    const gpu_mha_status status = known_call(NULL, KNOWN_FUSED, 3, output);
    atomic_store(&first_call_ended, 1);
    return status == GPU_MHA_OK ? unused : "the first call failed";
}

/*
 * In the midst of a thread's first call, which makes the default context under a lock: a child is
 * refused or, where the thread has not come to OpenCL yet, is a first user itself.
 */
START_TEST(the_first_call_of_a_thread_does_not_hold_up_a_child)
{
    pthread_t thread;
    int refused = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, call_first, NULL), 0);
    while (!atomic_load(&first_call_began)) {
    }
    while (!atomic_load(&first_call_ended)) {
        const pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            alarm(60);
            size_t count;
            const gpu_mha_status status = gpu_mha_device_count(&count);
            const gpu_mha_status again = known_plan(NULL, KNOWN_MERGE, &plans[0]);
            _exit(status == GPU_MHA_FORKED && again == GPU_MHA_FORKED ? 0
                  : status == GPU_MHA_OK && again == GPU_MHA_OK       ? 1
                                                                      : 2);
        }
        int status = -1;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) < 2, "the child ended with 0x%x",
                      status);
        refused += WEXITSTATUS(status) == 0;
    }
    void *failed = NULL;
    ck_assert_int_eq(pthread_join(thread, &failed), 0);
    ck_assert_ptr_null(failed);
    ck_assert_int_gt(refused, 0);
}
END_TEST

int main(void)
{
    setenv("GPU_MHA_LOG", "off", 1);
    Suite *suite = suite_create("fork");
    TCase *forked = tcase_create("fork");
    tcase_set_timeout(forked, 120);
    tcase_add_test(forked, every_call_is_refused_in_a_child);
    tcase_add_test(forked, listing_devices_is_use_of_opencl);
    tcase_add_test(forked, a_child_may_be_the_first_user);
    tcase_add_test(forked, no_lock_of_the_parent_holds_up_a_child);
    tcase_add_test(forked, the_first_call_of_a_thread_does_not_hold_up_a_child);
    suite_add_tcase(suite, forked);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
