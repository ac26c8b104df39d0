/*
 * test_beside.c - eight threads at work on one context and one plan of each kind while everything
 * else goes on beside them: contexts, plans and devices come and go, what was measured is looked
 * up, verdicts are set, others fail.
 */
#include "crew.h"
#include "harness/assertions.h"
#include "harness/known_run.h"
#include "harness/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 16, PASSES = 3 };
#else
enum { ROUNDS = 96, PASSES = 20 };
#endif
enum { THREADS = 8, BESIDE = 5 };

static gpu_mha_context *context;
static gpu_mha_plan *plans[KNOWN_KINDS];
static cl_command_queue shared;

#define ASSERT_OK(call) ck_assert_msg((call) == GPU_MHA_OK, "%s", gpu_mha_last_error())

static atomic_int lines[2]; /* of the log: two who listen in turns */

static void count_line(void *user, const char *level, const char *line)
{
    atomic_fetch_add((atomic_int *)user, level[0] && line[0] ? 1 : 0);
}

static void open_all(void)
{
    gpu_mha_set_log(count_line, &lines[0]);
    ASSERT_OK(gpu_mha_context_create(NULL, &context));
    for (int k = 0; k < KNOWN_KINDS; k++) {
        ASSERT_OK(known_plan(context, (enum known_kind)k, &plans[k]));
    }
    shared = queue_make(context, 0);
}

static void close_all(void)
{
    clReleaseCommandQueue(shared);
    for (int k = 0; k < KNOWN_KINDS; k++) {
        gpu_mha_plan_release(plans[k]);
    }
    gpu_mha_context_release(context);
}

/* ---- at work ---- */

/* A number that no other thread or round has. */
static float value_of(const struct crew_member *me, int round)
{
    return 1.0f + (float)me->number + (float)round / 128.0f;
}

static void expect(struct crew_member *me, enum known_kind kind, gpu_mha_status status,
                   const float *output, float value, const char *how)
{
    if (status != GPU_MHA_OK) {
        crew_complain(me, "thread %d, %s, %s: %s", me->number, known_name(kind), how,
                      gpu_mha_last_error());
    } else if (!known_right(kind, output, value)) {
        crew_complain(me, "thread %d, %s, %s: it gives %g and so on, want %g", me->number,
                      known_name(kind), how, (double)output[0], (double)value);
    }
}

static void run_plan(struct crew_member *me, enum known_kind kind, cl_command_queue queue,
                     float value)
{
    struct known_run run;
    float output[KNOWN_OUTPUT_MAX] = {0};
    cl_event done = NULL;
    if (known_open(&run, gpu_mha_context_cl(context), plans[kind], kind, value) != 0) {
        crew_complain(me, "no buffers");
        return;
    }
    const gpu_mha_status status = known_enqueue(plans[kind], &run, queue, 0, NULL, &done);
    if (status == GPU_MHA_OK && clEnqueueReadBuffer(queue, run.buffers[run.output], CL_TRUE, 0,
                                                    run.output_count * sizeof *output, output, 1,
                                                    &done, NULL) != CL_SUCCESS) {
        crew_complain(me, "the output cannot be read");
    }
    expect(me, kind, status, output, value, queue == shared ? "shared queue" : "own queue");
    if (done) {
        clReleaseEvent(done);
    }
    known_close(&run);
}

static void call(struct crew_member *me, gpu_mha_context *on, enum known_kind kind, float value)
{
    float output[KNOWN_OUTPUT_MAX] = {0};
    const gpu_mha_status status = known_call(on, kind, value, output);
    expect(me, kind, status, output, value, on ? "blocking" : "on the default context");
}

static void work(struct crew_member *me)
{
    cl_int code = CL_SUCCESS;
    cl_command_queue own = clCreateCommandQueue(gpu_mha_context_cl(context),
                                                gpu_mha_context_device(context), 0, &code);
    if (!own) {
        crew_complain(me, "no queue: %d", (int)code);
        return;
    }
    for (int round = 0; round < ROUNDS && !me->complaint[0]; round++) {
        const enum known_kind kind = (enum known_kind)((round + me->number) % KNOWN_KINDS);
        const float value = value_of(me, round);
        switch ((round / KNOWN_KINDS + me->number) % 4) {
        case 0:
            run_plan(me, kind, shared, value);
            break;
        case 1:
            run_plan(me, kind, own, value);
            break;
        case 2:
            call(me, context, kind, value);
            break;
        default:
            call(me, NULL, kind, value);
        }
    }
    clReleaseCommandQueue(own);
}

/* ---- beside them ---- */

static void need(struct crew_member *me, gpu_mha_status status, const char *what)
{
    if (status != GPU_MHA_OK) {
        crew_complain(me, "%s: %s", what, gpu_mha_last_error());
    }
}

/* A context of its own or around the shared one's, used once. */
static void contexts_come_and_go(struct crew_member *me, int n)
{
    gpu_mha_context *other = NULL;
    if (n % 2 == 0) {
        need(me, gpu_mha_context_create(NULL, &other), "a context");
    } else {
        need(me,
             gpu_mha_context_wrap(gpu_mha_context_cl(context), gpu_mha_context_device(context),
                                  &other),
             "a wrapped context");
    }
    if (other) {
        call(me, other, (enum known_kind)(n % KNOWN_KINDS), 2);
        gpu_mha_context_release(other);
    }
}

static void plans_come_and_go(struct crew_member *me, int n)
{
    const enum known_kind kind = (enum known_kind)(n % KNOWN_KINDS);
    gpu_mha_plan *plan = NULL;
    need(me, known_plan(context, kind, &plan), "a plan");
    need(me, gpu_mha_plan_retain(plans[kind]), "a plan retained");
    need(me, gpu_mha_context_retain(context), "a context retained");
    gpu_mha_plan_release(plans[kind]);
    gpu_mha_plan_release(plan);
    gpu_mha_context_release(context);
}

static void devices_are_listed(struct crew_member *me, int n)
{
    size_t count = 0;
    gpu_mha_device_info info = {0};
    gpu_mha_variant_info variant = {0};
    need(me, gpu_mha_device_count(&count), "a list of devices");
    need(me, gpu_mha_device_get((size_t)n % count, &info), "a device");
    need(me, gpu_mha_variant_count(context, &count), "a list of variants");
    need(me, gpu_mha_variant_get(context, (size_t)n % count, &variant), "a variant");
}

/* Verdicts that change nothing: what is ok is not avoided. Setting one drops what calls keep. */
static void choices_are_looked_up(struct crew_member *me, int n)
{
    const gpu_mha_desc desc = {
        .B = 1, .H = 2, .HKV = 1, .NQ = 1 + n % 64, .NK = 64, .DK = 8, .DV = 8};
    gpu_mha_choice choice = {0};
    gpu_mha_verdict verdict = GPU_MHA_VERDICT_NONE;
    need(me, gpu_mha_choice_get(context, n % 2 ? &desc : NULL, &choice), "a choice");
    need(me, gpu_mha_verdict_set(context, "merge", (gpu_mha_type)(n % 3), GPU_MHA_VERDICT_OK, NULL),
         "a verdict set");
    need(me, gpu_mha_verdict_get(context, "merge", GPU_MHA_F32, &verdict), "a verdict");
    if (n % 5 == 0) {
        need(me, gpu_mha_verdict_forget(context), "verdicts forgotten");
    }
}

static void calls_are_refused(struct crew_member *me, int n)
{
    gpu_mha_plan *plan = NULL;
    char words[32];
    const gpu_mha_desc bad = {.B = -1 - n, .H = 1, .HKV = 1, .NQ = 1, .NK = 1, .DK = 1, .DV = 1};
    gpu_mha_set_log(count_line, &lines[n % 2]);
    snprintf(words, sizeof words, "B is %d: ", -1 - n);
    if (gpu_mha_plan_create(context, &bad, &plan) != GPU_MHA_INVALID ||
        strstr(gpu_mha_last_error(), words) == NULL) {
        crew_complain(me, "want \"%s\", the error is: %s", words, gpu_mha_last_error());
    }
}

static void beside(struct crew_member *me)
{
    static void (*const acts[BESIDE])(struct crew_member *, int) = {
        contexts_come_and_go, plans_come_and_go, devices_are_listed, choices_are_looked_up,
        calls_are_refused};
    for (int n = 0; atomic_load(me->workers_left) > 0 && !me->complaint[0]; n++) {
        acts[me->number - THREADS](me, n);
    }
}

START_TEST(everything_goes_on_beside)
{
    const char *complaint = crew_run(THREADS, work, BESIDE, beside, NULL);
    ck_assert_msg(complaint == NULL, "%s", complaint);
}
END_TEST

/* ---- errors ---- */

enum { ERRORS = 200 };

/* Each thread its own sentence, also when a success came between, and another's error. */
static void fail_often(struct crew_member *me)
{
    for (int n = 0; n < ERRORS && !me->complaint[0]; n++) {
        float output[KNOWN_OUTPUT_MAX];
        calls_are_refused(me, me->number * ERRORS + n);
        if (n % 8 == 0) {
            call(me, context, (enum known_kind)me->number, 3);
        } else if (n % 8 == 1 && known_call(context, KNOWN_MERGE, 3, output) != GPU_MHA_OK) {
            crew_complain(me, "a merge: %s", gpu_mha_last_error());
        }
        const gpu_mha_error error = gpu_mha_last_error_info();
        char words[32];
        snprintf(words, sizeof words, "B is %d: ", -1 - (me->number * ERRORS + n));
        if (error.status != GPU_MHA_INVALID || !strstr(error.message, words) ||
            error.build_log[0] || error.cl_code != CL_SUCCESS) {
            crew_complain(me, "want \"%s\", later the error is: %s", words, error.message);
        }
    }
}

START_TEST(errors_are_per_thread)
{
    const char *complaint = crew_run(THREADS, fail_often, 0, NULL, NULL);
    ck_assert_msg(complaint == NULL, "%s", complaint);
    ck_assert_int_gt(atomic_load(&lines[0]) + atomic_load(&lines[1]), THREADS * ERRORS);
    ck_assert_str_eq(gpu_mha_last_error(), ""); /* this thread has made none */
}
END_TEST

/* ---- the last to leave ---- */

struct inheritance {
    gpu_mha_context *context;
    gpu_mha_plan *plan;
    enum known_kind kind;
};

/* Each has a reference; who releases the last destroys, while others are still in theirs. */
static void use_and_release(struct crew_member *me)
{
    const struct inheritance *mine = me->user;
    call(me, mine->context, mine->kind, value_of(me, 0));
    gpu_mha_plan_release(mine->plan);
    gpu_mha_context_release(mine->context);
}

START_TEST(whoever_is_last_destroys)
{
    for (int n = 0; n < PASSES; n++) {
        struct inheritance all = {.kind = (enum known_kind)(n % KNOWN_KINDS)};
        ASSERT_OK(gpu_mha_context_create(NULL, &all.context));
        ASSERT_OK(known_plan(all.context, all.kind, &all.plan));
        for (int t = 1; t < THREADS; t++) {
            ASSERT_OK(gpu_mha_plan_retain(all.plan));
            ASSERT_OK(gpu_mha_context_retain(all.context));
        }
        const char *complaint = crew_run(THREADS, use_and_release, 0, NULL, &all);
        ck_assert_msg(complaint == NULL, "%s", complaint);
    }
}
END_TEST

/* ---- builds ---- */

cl_int __real_clBuildProgram(cl_program, cl_uint, const cl_device_id *, const char *,
                             void(CL_CALLBACK *)(cl_program, void *), void *);
cl_int __wrap_clBuildProgram(cl_program, cl_uint, const cl_device_id *, const char *,
                             void(CL_CALLBACK *)(cl_program, void *), void *);

static atomic_int builds;

cl_int __wrap_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                             const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                             void *user)
{
    atomic_fetch_add(&builds, 1);
    return __real_clBuildProgram(program, count, devices, options, notify, user);
}

static void plan_every_kind(struct crew_member *me)
{
    gpu_mha_plan *made[KNOWN_KINDS] = {NULL};
    for (int k = 0; k < KNOWN_KINDS; k++) {
        need(me, known_plan(me->user, (enum known_kind)k, &made[k]), "a plan");
        call(me, me->user, (enum known_kind)k, value_of(me, k));
    }
    for (int k = 0; k < KNOWN_KINDS; k++) {
        gpu_mha_plan_release(made[k]);
    }
}

static int builds_of(int threads)
{
    gpu_mha_context *fresh = NULL;
    ASSERT_OK(gpu_mha_context_create(NULL, &fresh));
    atomic_store(&builds, 0);
    const char *complaint = crew_run(threads, plan_every_kind, 0, NULL, fresh);
    ck_assert_msg(complaint == NULL, "%s", complaint);
    gpu_mha_context_release(fresh);
    return atomic_load(&builds);
}

START_TEST(a_program_is_built_once_for_all)
{
    const int alone = builds_of(1);
    ck_assert_int_gt(alone, 0);
    ck_assert_int_eq(builds_of(THREADS), alone);
}
END_TEST

int main(void)
{
    setenv("GPU_MHA_LOG", "debug", 1);
    Suite *suite = suite_create("beside");
    TCase *tcase = tcase_create("beside");
    tcase_set_timeout(tcase, 300);
    tcase_add_checked_fixture(tcase, open_all, close_all);
    tcase_add_test(tcase, everything_goes_on_beside);
    tcase_add_test(tcase, errors_are_per_thread);
    tcase_add_test(tcase, whoever_is_last_destroys);
    tcase_add_test(tcase, a_program_is_built_once_for_all);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
