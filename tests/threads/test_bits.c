/*
 * test_bits.c - eight threads get the bits that one gets alone: with blocking calls and on one plan
 * of each kind, whatever queues and contexts they share.
 */
#include "crew.h"
#include "drawn.h"
#include "harness/assertions.h"
#include "harness/queue.h"

#include <stdlib.h>

/* A sanitizer makes everything some ten times slower, and looks at every call. */
#ifdef __SANITIZE_THREAD__
enum { CALLS = 40, RUNS = 12 };
#else
enum { CALLS = 1000, RUNS = 120 };
#endif
enum { THREADS = 8, SIZES = 20, PLANS = 3 }; /* more sizes than a context keeps ready */

static gpu_mha_context *context;

#define ASSERT_OK(call) ck_assert_msg((call) == GPU_MHA_OK, "%s", gpu_mha_last_error())

static void open_context(void)
{
    ASSERT_OK(gpu_mha_context_create(NULL, &context));
}

static void close_context(void)
{
    gpu_mha_context_release(context);
}

static void make(struct drawn *d, const gpu_mha_desc *desc, unsigned seed)
{
    ck_assert_msg(drawn_make(d, context, desc, seed) == 0, "%s", d->text);
}

/* ---- blocking calls, of 7 and of 1000 keys in turns, every third of another size ---- */

enum whose { SHARED, OWN, DEFAULT, WHOSE };

struct calls {
    enum whose whose;
    struct drawn sizes[SIZES];
};

static void call_often(struct crew_member *me)
{
    const struct calls *calls = me->user;
    gpu_mha_context *mine = calls->whose == SHARED ? context : NULL;
    if (calls->whose == OWN && gpu_mha_context_create(NULL, &mine) != GPU_MHA_OK) {
        crew_complain(me, "no context: %s", gpu_mha_last_error());
        return;
    }
    for (int n = 0; n < CALLS && !me->complaint[0]; n++) {
        const int size = n % 3 ? (n + me->number) % 2 : (n / 3 + me->number) % SIZES;
        const char *complaint = drawn_call(&calls->sizes[size], mine);
        if (complaint) {
            crew_complain(me, "thread %d, call %d: %s", me->number, n, complaint);
        }
    }
    if (calls->whose == OWN) {
        gpu_mha_context_release(mine);
    }
}

START_TEST(blocking_calls)
{
    struct calls calls = {.whose = (enum whose)_i};
    for (int s = 0; s < SIZES; s++) {
        const gpu_mha_desc desc = {
            .B = 1, .H = 2, .HKV = 1, .NQ = 2 + s / 2, .NK = s % 2 ? 1000 : 7, .DK = 16, .DV = 8};
        make(&calls.sizes[s], &desc, (unsigned)s);
    }
    const char *complaint = crew_run(THREADS, call_often, 0, NULL, &calls);
    ck_assert_msg(complaint == NULL, "%s", complaint);
    for (int s = 0; s < SIZES; s++) {
        drawn_free(&calls.sizes[s]);
    }
}
END_TEST

/* ---- one plan of each kind ---- */

enum queues { SHARED_QUEUE, SHARED_OUT_OF_ORDER, OWN_QUEUE, SHARED_AND_OWN, QUEUES };

struct plans {
    enum queues queues;
    struct drawn problems[PLANS];
    gpu_mha_plan *plans[PLANS];
    cl_command_queue shared;
};

static cl_command_queue own_queue(struct crew_member *me)
{
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = clCreateCommandQueue(gpu_mha_context_cl(context),
                                                  gpu_mha_context_device(context), 0, &code);
    if (!queue) {
        crew_complain(me, "no queue: %d", (int)code);
    }
    return queue;
}

static void enqueue_often(struct crew_member *me)
{
    const struct plans *p = me->user;
    struct drawn_buffers buffers[PLANS] = {{.all = {NULL}}};
    cl_command_queue own = own_queue(me);
    for (int k = 0; k < PLANS; k++) {
        if (drawn_open(&buffers[k], &p->problems[k], gpu_mha_context_cl(context), p->plans[k])) {
            crew_complain(me, "no buffers");
        }
    }
    for (int n = 0; n < RUNS && !me->complaint[0]; n++) {
        const int k = (n + me->number) % PLANS;
        const int shares = p->queues <= SHARED_OUT_OF_ORDER ||
                           (p->queues == SHARED_AND_OWN && n % 2 == me->number % 2);
        const char *complaint =
            drawn_enqueue(&p->problems[k], &buffers[k], p->plans[k], shares ? p->shared : own);
        if (complaint) {
            crew_complain(me, "thread %d, run %d of plan %d: %s", me->number, n, k, complaint);
        }
    }
    for (int k = 0; k < PLANS; k++) {
        drawn_close(&buffers[k]);
    }
    if (own) {
        clReleaseCommandQueue(own);
    }
}

/* Fused; staged; one query over so many keys that they are split. */
static gpu_mha_desc describe(int plan)
{
    gpu_mha_desc desc = {
        .B = 2, .H = 4, .HKV = 2, .NQ = 17, .NK = 65, .DK = 24, .DV = 20, .causal = 1};
    desc.method = plan == 1 ? GPU_MHA_STAGED : GPU_MHA_FUSED;
    if (plan == 2) {
        desc.B = desc.H = desc.HKV = desc.NQ = 1;
        desc.causal = 0;
        desc.NK = 4096;
    }
    return desc;
}

START_TEST(one_plan_of_each_kind)
{
    struct plans p = {.queues = (enum queues)_i};
    for (int k = 0; k < PLANS; k++) {
        const gpu_mha_desc desc = describe(k);
        make(&p.problems[k], &desc, 3 + (unsigned)k);
        ASSERT_OK(gpu_mha_plan_create(context, &desc, &p.plans[k]));
    }
    ck_assert_uint_gt(gpu_mha_plan_workspace_bytes(p.plans[2]), 0); /* it is split */
    p.shared = queue_make(context, p.queues == SHARED_OUT_OF_ORDER);
    const char *complaint = crew_run(THREADS, enqueue_often, 0, NULL, &p);
    ck_assert_msg(complaint == NULL, "%s", complaint);
    clReleaseCommandQueue(p.shared);
    for (int k = 0; k < PLANS; k++) {
        gpu_mha_plan_release(p.plans[k]);
        drawn_free(&p.problems[k]);
    }
}
END_TEST

int main(void)
{
    setenv("GPU_MHA_LOG", "off", 1);
    Suite *suite = suite_create("bits");
    TCase *calls = tcase_create("calls"), *plans = tcase_create("plans");
    tcase_set_timeout(calls, 300);
    tcase_set_timeout(plans, 300);
    tcase_add_checked_fixture(calls, open_context, close_context);
    tcase_add_checked_fixture(plans, open_context, close_context);
    tcase_add_loop_test(calls, blocking_calls, 0, WHOSE);
    tcase_add_loop_test(plans, one_plan_of_each_kind, 0, QUEUES);
    suite_add_tcase(suite, calls);
    suite_add_tcase(suite, plans);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
