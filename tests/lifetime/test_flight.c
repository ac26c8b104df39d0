/*
 * test_flight.c - what may happen between an enqueue and its end.
 *
 * Each run waits for a user event, so whatever a test does before it sets the event is done while
 * the run is in flight for certain.
 */
#include "cl/context.h"
#include "harness/assertions.h"
#include "harness/known_run.h"
#include "harness/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { IN_ORDER, OUT_OF_ORDER, PROFILING, QUEUES };

/* With products of CLBlast, which the default device need not take: the last kind once more. */
enum { LAYER_BY_CLBLAST = KNOWN_KINDS, KINDS };

struct flight {
    enum known_kind kind;
    gpu_mha_context *context;
    gpu_mha_plan *plan;
    cl_command_queue queue;
    struct known_run run;
    cl_event gate, done;
};

/* NULL where the device has no such queues. */
static cl_command_queue new_queue(gpu_mha_context *context, int queue)
{
    static const cl_command_queue_properties properties[QUEUES] = {
        0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE};
    cl_command_queue_properties has = 0;
    cl_int code = clGetDeviceInfo(gpu_mha_context_device(context), CL_DEVICE_QUEUE_PROPERTIES,
                                  sizeof has, &has, NULL);
    ck_assert_int_eq(code, CL_SUCCESS);
    if ((properties[queue] & ~has) != 0) {
        return NULL;
    }
    cl_command_queue made = clCreateCommandQueue(
        gpu_mha_context_cl(context), gpu_mha_context_device(context), properties[queue], &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    return made;
}

static cl_event new_gate(gpu_mha_context *context)
{
    cl_int code = CL_SUCCESS;
    cl_event gate = clCreateUserEvent(gpu_mha_context_cl(context), &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    return gate;
}

#define ASSERT_OK(call) ck_assert_msg((call) == GPU_MHA_OK, "%s", gpu_mha_last_error())

static gpu_mha_context *new_context(int kind)
{
    gpu_mha_context *context = NULL;
    ASSERT_OK(gpu_mha_context_create(NULL, &context));
    if (kind == LAYER_BY_CLBLAST) {
        context->device.type = CL_DEVICE_TYPE_ACCELERATOR;
    }
    return context;
}

static enum known_kind known_kind(int kind)
{
    return kind == LAYER_BY_CLBLAST ? KNOWN_LAYER : (enum known_kind)kind;
}

/* A plan of its kind and a run's buffers, in a context of their own. 0: there is no such queue. */
static int prepare(struct flight *f, int kind, int queue, float value)
{
    *f = (struct flight){.kind = known_kind(kind), .context = new_context(kind)};
    ASSERT_OK(known_plan(f->context, f->kind, &f->plan));
    f->queue = new_queue(f->context, queue);
    if (!f->queue) {
        printf("skipped: the device has no queues of kind %d\n", queue);
        return 0;
    }
    f->gate = new_gate(f->context);
    ck_assert_int_eq(known_open(&f->run, gpu_mha_context_cl(f->context), f->plan, f->kind, value),
                     0);
    return 1;
}

static void enqueue(struct flight *f)
{
    ASSERT_OK(known_enqueue(f->plan, &f->run, f->queue, 1, &f->gate, &f->done));
    ck_assert_ptr_nonnull(f->done);
}

static cl_event enqueue_read(cl_command_queue queue, const struct known_run *run, cl_event after,
                             float *output)
{
    cl_event read = NULL;
    ck_assert_int_eq(clEnqueueReadBuffer(queue, run->buffers[run->output], CL_FALSE, 0,
                                         run->output_count * sizeof *output, output, after ? 1 : 0,
                                         after ? &after : NULL, &read),
                     CL_SUCCESS);
    ck_assert_int_eq(clFlush(queue), CL_SUCCESS);
    return read;
}

/* With the queue's ordinary means; the queue works. */
static void read_now(cl_command_queue queue, const struct known_run *run, float *output)
{
    ck_assert_int_eq(clEnqueueReadBuffer(queue, run->buffers[run->output], CL_TRUE, 0,
                                         run->output_count * sizeof *output, output, 0, NULL, NULL),
                     CL_SUCCESS);
}

static void release(struct flight *f)
{
    clReleaseEvent(f->gate);
    if (f->done) {
        clReleaseEvent(f->done);
    }
    known_close(&f->run);
    clReleaseCommandQueue(f->queue);
    gpu_mha_plan_release(f->plan);
    gpu_mha_context_release(f->context);
}

static cl_uint references_of(cl_context cl)
{
    cl_uint count = 0;
    ck_assert_int_eq(clGetContextInfo(cl, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, NULL),
                     CL_SUCCESS);
    return count;
}

/* ---- released too early, as far as the caller can ---- */

/* The reading alone is the caller's; everything else has been given back when it begins. */
START_TEST(everything_is_released_in_flight)
{
    struct flight f;
    float output[KNOWN_OUTPUT_MAX];
    const float value = 1.5f + (float)_i;
    if (!prepare(&f, _i / QUEUES, _i % QUEUES, value)) {
        return;
    }
    cl_context cl = gpu_mha_context_cl(f.context);
    ck_assert_int_eq(clRetainContext(cl), CL_SUCCESS);
    enqueue(&f);
    cl_event read = enqueue_read(f.queue, &f.run, f.done, output);
    ck_assert_int_gt(event_state(f.done), CL_COMPLETE);
    clReleaseEvent(f.done);
    gpu_mha_plan_release(f.plan);
    gpu_mha_context_release(f.context);
    known_close(&f.run);
    clReleaseCommandQueue(f.queue);
    ck_assert_int_gt(event_state(read), CL_COMPLETE);
    ck_assert_int_eq(clSetUserEventStatus(f.gate, CL_COMPLETE), CL_SUCCESS);
    ck_assert_int_eq(clWaitForEvents(1, &read), CL_SUCCESS);
    ck_assert_msg(known_right(f.kind, output, value), "%s gives %g and so on, want %g",
                  known_name(f.kind), (double)output[0], (double)value);
    clReleaseEvent(read);
    clReleaseEvent(f.gate);
    clReleaseContext(cl);
}
END_TEST

/* The context's last reference is the plan's, and goes while the blocking calls' queue was used. */
START_TEST(a_plan_holds_its_context)
{
    struct flight f;
    float output[KNOWN_OUTPUT_MAX];
    if (!prepare(&f, _i, IN_ORDER, 3)) {
        return;
    }
    ASSERT_OK(known_call(f.context, f.kind, 5, output));
    ck_assert(known_right(f.kind, output, 5));
    ck_assert_int_eq(gpu_mha_context_retain(f.context), GPU_MHA_OK);
    gpu_mha_context_release(f.context);
    gpu_mha_context_release(f.context);
    enqueue(&f);
    ck_assert_int_eq(clSetUserEventStatus(f.gate, CL_COMPLETE), CL_SUCCESS);
    read_now(f.queue, &f.run, output);
    ck_assert(known_right(f.kind, output, 3));
    ck_assert_int_eq(gpu_mha_plan_retain(f.plan), GPU_MHA_OK);
    gpu_mha_plan_release(f.plan);
    f.context = NULL; /* the plan's alone */
    release(&f);
}
END_TEST

/* ---- events that fail ---- */

/*
 * PoCL 3.1 aborts the process when a command fails whose event nobody holds any more, as is right
 * to do with the events between the commands of a run. Tried in a child, without the library.
 */
static void two_commands_fail(void)
{
    cl_int code = CL_SUCCESS;
    gpu_mha_context *context = new_context(0); /* on the device that the tests take */
    cl_context cl = gpu_mha_context_cl(context);
    cl_command_queue queue = new_queue(context, IN_ORDER);
    cl_event gate = new_gate(context), done = NULL;
    const cl_int zero = 0;
    cl_mem mem = clCreateBuffer(cl, CL_MEM_READ_WRITE, 64, NULL, &code);
    cl_int failed = clEnqueueFillBuffer(queue, mem, &zero, sizeof zero, 0, 64, 1, &gate, &done);
    clReleaseEvent(done);
    failed |= clEnqueueFillBuffer(queue, mem, &zero, sizeof zero, 0, 64, 0, NULL, &done);
    clFlush(queue);
    clSetUserEventStatus(gate, -77);
    clWaitForEvents(1, &done);
    _exit(failed ? 1 : 0);
}

static int survives; /* main() finds out, each test is a child of it */

static int survives_failed_commands(void)
{
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        two_commands_fail();
    }
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Kinds that are one command are tried everywhere. */
static int can_fail(int kind)
{
    static const int many[KINDS] = {
        [KNOWN_STAGED] = 1, [KNOWN_SPLIT] = 1, [KNOWN_LAYER] = 1, [LAYER_BY_CLBLAST] = 1};
    if (many[kind] && !survives) {
        printf("skipped: %s, since the driver dies of failed commands\n",
               kind == LAYER_BY_CLBLAST ? "layer by CLBlast" : known_name((enum known_kind)kind));
        return 0;
    }
    return 1;
}

/* `count` events, of which the last fails. */
static void fail_gate(struct flight *f, cl_uint count)
{
    cl_event gates[2] = {new_gate(f->context), f->gate};
    cl_event *wait = count == 2 ? gates : &f->gate;
    ASSERT_OK(known_enqueue(f->plan, &f->run, f->queue, count, wait, &f->done));
    ck_assert_int_eq(clFlush(f->queue), CL_SUCCESS);
    ck_assert_int_eq(clSetUserEventStatus(gates[0], CL_COMPLETE), CL_SUCCESS);
    ck_assert_int_gt(event_state(f->done), CL_COMPLETE);
    ck_assert_int_eq(clSetUserEventStatus(f->gate, -77), CL_SUCCESS);
    ck_assert_int_ne(clWaitForEvents(1, &f->done), CL_SUCCESS);
    ck_assert_int_lt(event_state(f->done), 0);
    clReleaseEvent(gates[0]);
}

/*
 * The run's event says that it did not take place; queue, plan and buffers serve the next call.
 * CLBlast, which takes no wait list, has computed something by then.
 */
START_TEST(a_failed_event_fails_the_run)
{
    struct flight f;
    float output[KNOWN_OUTPUT_MAX];
    if (!can_fail(_i / QUEUES)) {
        return;
    }
    if (!prepare(&f, _i / QUEUES, _i % QUEUES, 7)) {
        return;
    }
    fail_gate(&f, 1 + (cl_uint)_i % 2);
    read_now(f.queue, &f.run, output);
    ck_assert_msg(_i / QUEUES == LAYER_BY_CLBLAST || known_untouched(f.kind, output),
                  "%s ran: %g and so on", known_name(f.kind), (double)output[0]);

    clReleaseEvent(f.done);
    ASSERT_OK(known_enqueue(f.plan, &f.run, f.queue, 0, NULL, &f.done));
    ck_assert_int_eq(clWaitForEvents(1, &f.done), CL_SUCCESS);
    read_now(f.queue, &f.run, output);
    ck_assert(known_right(f.kind, output, 7));
    ASSERT_OK(known_call(f.context, f.kind, 9, output));
    ck_assert(known_right(f.kind, output, 9));
    release(&f);
}
END_TEST

/* An event that has failed before the call: some drivers would wait for it for ever. */
START_TEST(an_event_that_failed_before_is_refused)
{
    struct flight f;
    float output[KNOWN_OUTPUT_MAX];
    if (!prepare(&f, _i, IN_ORDER, 7)) {
        return;
    }
    ck_assert_int_eq(clSetUserEventStatus(f.gate, -77), CL_SUCCESS);
    f.done = f.gate;
    ck_assert_int_eq(known_enqueue(f.plan, &f.run, f.queue, 1, &f.gate, &f.done), GPU_MHA_OPENCL);
    ck_assert_ptr_null(f.done);
    const gpu_mha_error error = gpu_mha_last_error_info();
    ck_assert_int_eq(error.cl_code, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    ck_assert_str_eq(error.message,
                     "clGetEventInfo failed: CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST (-14): "
                     "wait[0] has ended with -77");
    ASSERT_OK(known_enqueue(f.plan, &f.run, f.queue, 0, NULL, &f.done));
    ck_assert_int_eq(clWaitForEvents(1, &f.done), CL_SUCCESS);
    read_now(f.queue, &f.run, output);
    ck_assert(known_right(f.kind, output, 7));
    release(&f);
}
END_TEST

/*
 * A driver's thread may let go of a command a moment after it has told of its end: commands that
 * go through give it the time for that.
 */
static cl_uint settled_references(const struct flight *f, cl_uint wanted)
{
    cl_context cl = gpu_mha_context_cl(f->context);
    float first;
    for (int n = 0; n < 1000 && references_of(cl) != wanted; n++) {
        ck_assert_int_eq(clEnqueueReadBuffer(f->queue, f->run.buffers[0], CL_TRUE, 0, sizeof first,
                                             &first, 0, NULL, NULL),
                         CL_SUCCESS);
    }
    return references_of(cl);
}

/* Fifty runs that fail leave the references where they were. */
START_TEST(failed_runs_leave_nothing)
{
    struct flight f;
    if (!can_fail(_i)) {
        return;
    }
    if (!prepare(&f, _i, IN_ORDER, 7)) {
        return;
    }
    cl_context cl = gpu_mha_context_cl(f.context);
    cl_uint before = 0;
    for (int n = 0; n < 50; n++) {
        fail_gate(&f, 1);
        clReleaseEvent(f.done);
        clReleaseEvent(f.gate);
        ck_assert_int_eq(clFinish(f.queue), CL_SUCCESS);
        f.gate = new_gate(f.context);
        before = n == 4 ? references_of(cl) : before;
    }
    ck_assert_uint_eq(settled_references(&f, before), before);
    f.done = NULL;
    release(&f);
}
END_TEST

/* ---- order ---- */

/*
 * A run's output is the input of the next, which is put on the queue at once: nothing but events
 * orders them. Every run begins with an input that is wrong.
 */
START_TEST(runs_depend_on_runs)
{
    enum { RUNS = 5 };
    struct flight f;
    struct known_run runs[RUNS];
    cl_event done[RUNS], copied[RUNS];
    float output[KNOWN_OUTPUT_MAX], fill = 11, wrong = -1;
    if (!prepare(&f, _i, OUT_OF_ORDER, 11)) {
        return;
    }
    cl_context cl = gpu_mha_context_cl(f.context);
    for (int n = 0; n < RUNS; n++) {
        ck_assert_int_eq(known_open(&runs[n], cl, f.plan, f.kind, 11), 0);
        const size_t in = runs[n].input_count * sizeof fill;
        const size_t out = runs[n].output_count * sizeof fill;
        cl_mem to = runs[n].buffers[runs[n].input];
        cl_event filled = NULL;
        ck_assert_int_eq(
            clEnqueueFillBuffer(f.queue, to, &wrong, sizeof wrong, 0, in, 0, NULL, NULL),
            CL_SUCCESS);
        ck_assert_int_eq(clEnqueueBarrierWithWaitList(f.queue, 0, NULL, NULL), CL_SUCCESS);
        ck_assert_int_eq(clEnqueueFillBuffer(f.queue, to, &fill, sizeof fill, 0, in, 1,
                                             n == 0 ? &f.gate : &done[n - 1],
                                             n == 0 ? &copied[n] : &filled),
                         CL_SUCCESS);
        if (n > 0) {
            /* Part of the input is the run's before; the fill alone would give 11 as well. */
            cl_mem from = runs[n - 1].buffers[runs[n - 1].output];
            ck_assert_int_eq(clEnqueueCopyBuffer(f.queue, from, to, 0, 0, in < out ? in : out, 1,
                                                 &filled, &copied[n]),
                             CL_SUCCESS);
            clReleaseEvent(filled);
        }
        ASSERT_OK(known_enqueue(f.plan, &runs[n], f.queue, 1, &copied[n], &done[n]));
        clReleaseEvent(copied[n]);
    }
    const struct known_run *last = &runs[RUNS - 1];
    cl_event read = enqueue_read(f.queue, last, done[RUNS - 1], output);
    ck_assert_int_eq(clSetUserEventStatus(f.gate, CL_COMPLETE), CL_SUCCESS);
    ck_assert_int_eq(clWaitForEvents(1, &read), CL_SUCCESS);
    ck_assert_msg(known_right(f.kind, output, 11), "%s gives %g and so on", known_name(f.kind),
                  (double)output[0]);
    clReleaseEvent(read);
    for (int n = 0; n < RUNS; n++) {
        clReleaseEvent(done[n]);
        known_close(&runs[n]);
    }
    release(&f);
}
END_TEST

START_TEST(a_profiling_queue_tells_the_time)
{
    struct flight f;
    cl_ulong times[4] = {0};
    static const cl_profiling_info names[] = {CL_PROFILING_COMMAND_QUEUED,
                                              CL_PROFILING_COMMAND_SUBMIT,
                                              CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END};
    if (!prepare(&f, _i, PROFILING, 7)) {
        return;
    }
    enqueue(&f);
    ck_assert_int_eq(clSetUserEventStatus(f.gate, CL_COMPLETE), CL_SUCCESS);
    ck_assert_int_eq(clWaitForEvents(1, &f.done), CL_SUCCESS);
    for (int t = 0; t < 4; t++) {
        ck_assert_int_eq(
            clGetEventProfilingInfo(f.done, names[t], sizeof times[t], &times[t], NULL),
            CL_SUCCESS);
        ck_assert_uint_gt(times[t], 0);
        ck_assert(t == 0 || times[t] >= times[t - 1]);
    }
    release(&f);
}
END_TEST

/* ---- strangers ---- */

static void expect_refused(struct flight *f, cl_command_queue queue, cl_uint count,
                           const cl_event *wait, const char *words)
{
    f->done = f->gate;
    ck_assert_int_eq(known_enqueue(f->plan, &f->run, queue, count, wait, &f->done),
                     GPU_MHA_INVALID);
    ck_assert_ptr_null(f->done);
    ck_assert_str_eq(gpu_mha_last_error(), words);
}

START_TEST(queues_and_events_of_another_context_are_refused)
{
    struct flight f, other;
    float output[KNOWN_OUTPUT_MAX];
    if (!prepare(&f, _i, IN_ORDER, 3)) {
        return;
    }
    if (!prepare(&other, KNOWN_MERGE, IN_ORDER, 4)) {
        return;
    }
    const cl_event mixed[] = {f.gate, other.gate};
    expect_refused(&f, other.queue, 0, NULL, "queue is of another OpenCL context than the plan's");
    expect_refused(&f, f.queue, 2, mixed, "wait[1] is of another OpenCL context than the plan's");
    expect_refused(&f, NULL, 0, NULL, "queue is NULL: a command queue is needed");
    ck_assert_int_eq(clFinish(f.queue), CL_SUCCESS);
    ck_assert_int_eq(clFinish(other.queue), CL_SUCCESS);
    read_now(f.queue, &f.run, output);
    ck_assert(known_untouched(f.kind, output));
    ASSERT_OK(known_enqueue(f.plan, &f.run, f.queue, 0, NULL, NULL));
    read_now(f.queue, &f.run, output);
    ck_assert(known_right(f.kind, output, 3));
    release(&other);
    release(&f);
}
END_TEST

int main(void)
{
    setenv("GPU_MHA_LOG", "off", 1);
    survives = survives_failed_commands();
    Suite *suite = suite_create("flight");
    TCase *released = tcase_create("released"), *failed = tcase_create("failed");
    TCase *order = tcase_create("order"), *strangers = tcase_create("strangers");
    TCase *const all[] = {released, failed, order, strangers};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        tcase_set_timeout(all[i], 60);
        suite_add_tcase(suite, all[i]);
    }
    tcase_add_loop_test(released, everything_is_released_in_flight, 0, KINDS * QUEUES);
    tcase_add_loop_test(released, a_plan_holds_its_context, 0, KINDS);
    tcase_add_loop_test(failed, a_failed_event_fails_the_run, 0, KINDS * QUEUES);
    tcase_add_loop_test(failed, an_event_that_failed_before_is_refused, 0, KINDS);
    tcase_add_loop_test(failed, failed_runs_leave_nothing, 0, KINDS);
    tcase_add_loop_test(order, runs_depend_on_runs, 0, KINDS);
    tcase_add_loop_test(order, a_profiling_queue_tells_the_time, 0, KINDS);
    tcase_add_loop_test(strangers, queues_and_events_of_another_context_are_refused, 0, KINDS);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
