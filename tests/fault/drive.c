/* The loops, and what must hold after each act. */
#include "drive.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "layer.h"

struct account account_take(void)
{
    struct account account = {.blocks = heap_live()};
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        account.objects[kind] = fault_layer_live((enum fault_kind)kind);
    }
    return account;
}

/* The log of a failed build lives as long as the error. */
static void forget_build_log(void)
{
    heap_arm(0, 0);
    gpu_mha_desc_check(NULL);
    heap_disarm();
}

void account_compare(const struct account *before)
{
    forget_build_log();
    const struct account after = account_take();
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        if (after.objects[kind] != before->objects[kind]) {
            complain("%d %s are alive, before there were %d", after.objects[kind],
                     fault_kind_name((enum fault_kind)kind), before->objects[kind]);
        }
    }
    if (after.blocks != before->blocks) {
        complain("%d blocks of memory are alive, before there were %d", after.blocks,
                 before->blocks);
    }
    if (fault_layer_misuse()[0]) {
        complain("%s", fault_layer_misuse());
        fault_layer_forget_misuse();
    }
}

/* ---- one act ---- */

struct answer {
    gpu_mha_status status;
    gpu_mha_error error;
    cl_int finished; /* of the event, where there is one */
    int failed;      /* calls or allocations that were made to */
};

/* Acts in which something failed. */
static int failures;

static int is_fresh(const struct scenario *s)
{
    return (s->flags & SCENARIO_FRESH) != 0;
}

/* Armed by the caller. */
static struct answer act(const struct scenario *s)
{
    struct answer answer = {.finished = CL_SUCCESS};
    answer.status = s->act();
    fault_layer_disarm();
    heap_disarm();
    answer.failed = fault_layer_failed() + heap_failed();
    answer.error = gpu_mha_last_error_info();
    if (answer.status == GPU_MHA_OK && s->finish) {
        answer.finished = s->finish();
    }
    s->check(answer.status == GPU_MHA_OK && answer.finished == CL_SUCCESS);
    return answer;
}

/* On the same objects, with nothing in its way. */
static void act_again(const struct scenario *s)
{
    s->clear();
    fault_layer_arm(FAULT_clFinish, 0, CL_SUCCESS, FAULT_ONCE);
    heap_arm(0, 0);
    const struct answer again = act(s);
    if (again.status != GPU_MHA_OK || again.finished != CL_SUCCESS) {
        complain("the next call gives %s (%s), its event %d", gpu_mha_status_name(again.status),
                 again.error.message, (int)again.finished);
    }
}

/* The whole of a first act is armed by `arm`; `judge` looks at its answer. */
struct trial {
    enum fault_call call;
    int nth;
    cl_int code;
    enum fault_mode mode;
    int of_heap;
};

static void arm(const struct trial *t)
{
    fault_layer_arm(t->call, t->of_heap ? 0 : t->nth, t->code, t->mode);
    heap_arm(t->of_heap ? t->nth : 0, t->mode == FAULT_EVER);
}

/* Returns how often something failed. */
static int try_once(const struct scenario *s, const struct trial *t,
                    void (*judge)(const struct scenario *, const struct trial *,
                                  const struct answer *))
{
    const struct account before = account_take();
    if (is_fresh(s)) {
        s->open();
    }
    s->clear();
    arm(t);
    const struct answer answer = act(s);
    failures += answer.failed > 0;
    if (answer.failed) {
        judge(s, t, &answer);
        act_again(s);
    } else if (answer.status != GPU_MHA_OK || answer.finished != CL_SUCCESS) {
        complain("nothing failed, and still it gives %s: %s", gpu_mha_status_name(answer.status),
                 answer.error.message);
    }
    if (is_fresh(s)) {
        s->close();
    }
    account_compare(&before);
    return answer.failed;
}

/* Runs `body` between the open and the close of a scenario that has one of each. */
static void within(const struct scenario *s, void (*body)(const struct scenario *))
{
    size_t devices;
    must(gpu_mha_device_count(&devices)); /* the first call: the loader takes its layers */
    ck_assert_msg(fault_layer_is_in(),
                  "the loader has not taken the layer: it needs OPENCL_LAYERS");
    trying("%s: without a failure", s->name);
    const struct account before = account_take();
    if (!is_fresh(s)) {
        s->open();
        act_again(s);
    }
    body(s);
    if (!is_fresh(s)) {
        s->close();
    }
    trying("%s: at the end", s->name);
    if (!(s->flags & (SCENARIO_CLBLAST | SCENARIO_KEEPS))) {
        account_compare(&before);
    }
    printf("%s: %d failures\n", s->name, failures);
    fflush(stdout);
    no_complaints();
}

/* The next N. */
static int next_n(const struct scenario *s, int n)
{
    return s->flags & SCENARIO_SPARSE && !getenv("MHA_FAULT_ALL") ? 2 * n : n + 1;
}

/* ---- calls ---- */

int drive_may_fail_unseen(enum fault_call call, enum fault_mode mode)
{
    switch (call) {
    case FAULT_clGetPlatformInfo:
    case FAULT_clGetDeviceInfo:
    case FAULT_clGetProgramInfo:
    case FAULT_clGetProgramBuildInfo:
    case FAULT_clCreateProgramWithBinary:
    case FAULT_clReleaseDevice:
    case FAULT_clReleaseContext:
    case FAULT_clReleaseCommandQueue:
    case FAULT_clReleaseMemObject:
    case FAULT_clReleaseProgram:
    case FAULT_clReleaseKernel:
    case FAULT_clReleaseEvent:
        return 1;
    case FAULT_clBuildProgram: /* a binary, and then the source */
        return mode == FAULT_ONCE && fault_layer_calls(FAULT_clCreateProgramWithBinary) > 0;
    case FAULT_clGetDeviceIDs: /* a platform that does not answer is left out of the list */
        return 1;
    default:
        return 0;
    }
}

static gpu_mha_status status_of(const struct trial *t)
{
    switch (t->code) {
    case CL_OUT_OF_HOST_MEMORY:
        return GPU_MHA_HOST_MEMORY;
    case CL_OUT_OF_RESOURCES:
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
        return GPU_MHA_DEVICE_MEMORY;
    case CL_INVALID_BUFFER_SIZE:
        return GPU_MHA_UNSUPPORTED;
    default:
        return t->call == FAULT_clBuildProgram ? GPU_MHA_BUILD : GPU_MHA_OPENCL;
    }
}

static int is_of_clblast(const struct scenario *s, const gpu_mha_error *error)
{
    return (s->flags & SCENARIO_CLBLAST) && strncmp(error->cl_call, "CLBlast", 7) == 0;
}

static void judge_call(const struct scenario *s, const struct trial *t, const struct answer *a)
{
    const gpu_mha_error *error = &a->error;
    if (a->status == GPU_MHA_OK) {
        if (!(s->flags & SCENARIO_GIVES_WAY) && !drive_may_fail_unseen(t->call, t->mode)) {
            complain("it succeeds");
        }
        return;
    }
    gpu_mha_status want = status_of(t);
    const int of_clblast = is_of_clblast(s, error);
    if (of_clblast && (want == GPU_MHA_OPENCL || want == GPU_MHA_BUILD)) {
        want = GPU_MHA_BLAS;
    }
    /* Without an answer a device is not there, and its index is none. */
    const int asks = t->call == FAULT_clGetDeviceIDs || t->call == FAULT_clGetDeviceInfo;
    if (asks && want != GPU_MHA_HOST_MEMORY &&
        (a->status == GPU_MHA_NO_DEVICE || a->status == GPU_MHA_INVALID)) {
        want = a->status;
    }
    /* A buffer whose size CLBlast cannot ask for is a wrong matrix to it, with a code of its own.
     */
    const int own_code = of_clblast && t->call == FAULT_clGetMemObjectInfo &&
                         error->cl_code <= -1020 && error->cl_code >= -1022;
    if (own_code) {
        want = GPU_MHA_BLAS;
    }
    if (error->cl_code != t->code && !own_code) {
        complain("the code is %d: %s", (int)error->cl_code, error->message);
    }
    if (a->status != want || error->status != a->status) {
        complain("it gives %s and tells %s (%s), want %s", gpu_mha_status_name(a->status),
                 gpu_mha_status_name(error->status), error->message, gpu_mha_status_name(want));
    }
    if (!of_clblast && strcmp(error->cl_call, fault_call_name(t->call)) != 0) {
        complain("the call is \"%s\": %s", error->cl_call, error->message);
    }
    if (!strstr(error->message, error->cl_call) || !error->message[0]) {
        complain("the sentence is \"%s\"", error->message);
    }
    const int has_log =
        !of_clblast && t->call == FAULT_clBuildProgram && t->code == CL_BUILD_PROGRAM_FAILURE;
    if (strcmp(error->build_log, has_log ? FAULT_BUILD_LOG : "") != 0 &&
        !(s->flags & SCENARIO_GIVES_WAY)) {
        complain("the build log is \"%s\"", error->build_log);
    }
}

/*
 * Whether failure `way` of `ways`, a code and a mode, is tried at N. The first call has its turn
 * with each; MHA_FAULT_ALL, if set, gives it to all.
 */
static int is_tried(const struct scenario *s, int n, int way, int ways)
{
    const int slow = s->flags & (SCENARIO_CLBLAST | SCENARIO_FRESH);
    const int thin = s->flags & SCENARIO_SPARSE || (slow && n > 1);
    return !thin || way == n % ways || getenv("MHA_FAULT_ALL");
}

static void drive_call(const struct scenario *s, enum fault_call call)
{
    int count = 0, failed = 1;
    const cl_int *codes = fault_call_codes(call, &count);
    for (int n = 1; failed; n = next_n(s, n)) {
        for (int c = 0; c < count && failed; c++) {
            for (int mode = FAULT_ONCE; mode <= FAULT_EVER && failed; mode++) {
                if (!is_tried(s, n, 2 * c + mode, 2 * count)) {
                    continue;
                }
                const struct trial t = {
                    .call = call, .nth = n, .code = codes[c], .mode = (enum fault_mode)mode};
                trying("%s: %s number %d gives %d %s", s->name, fault_call_name(call), n,
                       (int)t.code, mode == FAULT_EVER ? "for ever" : "once");
                failed = try_once(s, &t, judge_call);
            }
        }
    }
}

static void drive_calls_of(const struct scenario *s)
{
    for (int call = 0; call < FAULT_CALL_COUNT; call++) {
        drive_call(s, (enum fault_call)call);
    }
}

void drive_calls(const struct scenario *s)
{
    within(s, drive_calls_of);
}

/* ---- events ---- */

static void judge_late(const struct scenario *s, const struct trial *t, const struct answer *a)
{
    (void)t;
    if (a->status == GPU_MHA_OK && a->finished == CL_SUCCESS && !(s->flags & SCENARIO_GIVES_WAY)) {
        complain("nobody is told");
    }
    if (a->status != GPU_MHA_OK &&
        (a->error.status != a->status || !a->error.cl_call[0] || a->error.cl_code == CL_SUCCESS)) {
        complain("the error is %s: %s", gpu_mha_status_name(a->error.status), a->error.message);
    }
}

static void drive_late_of(const struct scenario *s)
{
    static const enum fault_call commands[] = {
        FAULT_clEnqueueNDRangeKernel, FAULT_clEnqueueMarkerWithWaitList,
        FAULT_clEnqueueBarrierWithWaitList, FAULT_clEnqueueFillBuffer, FAULT_clEnqueueCopyBuffer};
    for (size_t c = 0; c < sizeof commands / sizeof commands[0]; c++) {
        int failed = 1;
        for (int n = 1; failed; n = next_n(s, n)) {
            const struct trial t = {
                .call = commands[c], .nth = n, .code = CL_OUT_OF_RESOURCES, .mode = FAULT_LATE};
            trying("%s: %s number %d fails late", s->name, fault_call_name(t.call), n);
            failed = try_once(s, &t, judge_late);
        }
    }
}

void drive_late(const struct scenario *s)
{
    within(s, drive_late_of);
}

/* ---- allocations ---- */

static void judge_heap(const struct scenario *s, const struct trial *t, const struct answer *a)
{
    (void)s;
    (void)t;
    /* What only helps (a file, a log, a binary) is done without; the result was looked at. */
    if (a->status == GPU_MHA_OK) {
        return;
    }
    if (a->status != GPU_MHA_HOST_MEMORY || a->error.status != a->status || !a->error.message[0]) {
        complain("it gives %s and tells %s: %s", gpu_mha_status_name(a->status),
                 gpu_mha_status_name(a->error.status), a->error.message);
    }
}

static void drive_heap_of(const struct scenario *s)
{
    int failed = 1;
    for (int n = 1; failed; n = next_n(s, n)) {
        for (int mode = FAULT_ONCE; mode <= FAULT_EVER && failed; mode++) {
            const struct trial t = {
                .call = FAULT_clFinish, .nth = n, .mode = (enum fault_mode)mode, .of_heap = 1};
            trying("%s: allocation %d fails %s", s->name, n,
                   mode == FAULT_EVER ? "and all after it" : "alone");
            failed = try_once(s, &t, judge_heap);
        }
    }
}

void drive_heap(const struct scenario *s)
{
    within(s, drive_heap_of);
}
