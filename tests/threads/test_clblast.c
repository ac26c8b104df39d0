/*
 * test_clblast.c - the caches of CLBlast 1.5 race between threads, so at most one thread of the
 * process may be in it, whatever context or plan it works for.
 *
 * Every call of the library into CLBlast comes through here and stays a while, so that another one
 * that was let in would be seen.
 */
#include "cl/context.h"
#include "crew.h"
#include "harness/assertions.h"
#include "harness/known_run.h"
#include "harness/queue.h"

#include <clblast_c.h>
#include <sched.h>
#include <stdlib.h>

#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 2 };
#else
enum { ROUNDS = 8 };
#endif
enum { THREADS = 8, CONTEXTS = 3, STAY = 3 };

#define ASSERT_OK(call) ck_assert_msg((call) == GPU_MHA_OK, "%s", gpu_mha_last_error())

static atomic_int inside, most_inside, calls;

static void enter(void)
{
    const int now = atomic_fetch_add(&inside, 1) + 1;
    int most = atomic_load(&most_inside);
    atomic_fetch_add(&calls, 1);
    while (now > most && !atomic_compare_exchange_weak(&most_inside, &most, now)) {
    }
    for (int n = 0; n < STAY; n++) {
        sched_yield();
    }
}

static void leave(void)
{
    atomic_fetch_sub(&inside, 1);
}

#define SGEMM_PARAMETERS                                                                           \
    CLBlastLayout, CLBlastTranspose, CLBlastTranspose, size_t, size_t, size_t, float, cl_mem,      \
        size_t, size_t, cl_mem, size_t, size_t, float, cl_mem, size_t, size_t, cl_command_queue *, \
        cl_event *, cl_mem
CLBlastStatusCode __real_CLBlastSgemmWithTempBuffer(SGEMM_PARAMETERS);
CLBlastStatusCode __wrap_CLBlastSgemmWithTempBuffer(SGEMM_PARAMETERS);

CLBlastStatusCode __wrap_CLBlastSgemmWithTempBuffer(
    CLBlastLayout layout, CLBlastTranspose ta, CLBlastTranspose tb, size_t m, size_t n, size_t k,
    float alpha, cl_mem a, size_t ao, size_t as, cl_mem b, size_t bo, size_t bs, float beta,
    cl_mem c, size_t co, size_t cs, cl_command_queue *queue, cl_event *event, cl_mem scratch)
{
    enter();
    const CLBlastStatusCode code =
        __real_CLBlastSgemmWithTempBuffer(layout, ta, tb, m, n, k, alpha, a, ao, as, b, bo, bs,
                                          beta, c, co, cs, queue, event, scratch);
    leave();
    return code;
}

#define SIZE_PARAMETERS                                                                            \
    CLBlastLayout, CLBlastTranspose, CLBlastTranspose, size_t, size_t, size_t, size_t, size_t,     \
        size_t, size_t, size_t, size_t, cl_command_queue *, size_t *
CLBlastStatusCode __real_CLBlastSGemmTempBufferSize(SIZE_PARAMETERS);
CLBlastStatusCode __wrap_CLBlastSGemmTempBufferSize(SIZE_PARAMETERS);

CLBlastStatusCode __wrap_CLBlastSGemmTempBufferSize(CLBlastLayout layout, CLBlastTranspose ta,
                                                    CLBlastTranspose tb, size_t m, size_t n,
                                                    size_t k, size_t ao, size_t as, size_t bo,
                                                    size_t bs, size_t co, size_t cs,
                                                    cl_command_queue *queue, size_t *bytes)
{
    enter();
    const CLBlastStatusCode code = __real_CLBlastSGemmTempBufferSize(
        layout, ta, tb, m, n, k, ao, as, bo, bs, co, cs, queue, bytes);
    leave();
    return code;
}

/* ---- layers ---- */

struct place {
    gpu_mha_context *context;
    gpu_mha_plan *plan;
    cl_command_queue queue;
};

static void run_plan(struct crew_member *me, const struct place *at, float value)
{
    struct known_run run;
    float output[KNOWN_OUTPUT_MAX] = {0};
    cl_event done = NULL;
    if (known_open(&run, gpu_mha_context_cl(at->context), at->plan, KNOWN_LAYER, value) != 0) {
        crew_complain(me, "no buffers");
        return;
    }
    if (known_enqueue(at->plan, &run, at->queue, 0, NULL, &done) != GPU_MHA_OK) {
        crew_complain(me, "thread %d: %s", me->number, gpu_mha_last_error());
    } else {
        clEnqueueReadBuffer(at->queue, run.buffers[run.output], CL_TRUE, 0,
                            run.output_count * sizeof *output, output, 1, &done, NULL);
        clReleaseEvent(done);
        if (!known_right(KNOWN_LAYER, output, value)) {
            crew_complain(me, "thread %d: a plan gives %g, want %g", me->number, (double)output[0],
                          (double)value);
        }
    }
    known_close(&run);
}

/* Plans, enqueues and blocking calls, in one context and in the next. */
static void work(struct crew_member *me)
{
    const struct place *places = me->user;
    for (int n = 0; n < ROUNDS && !me->complaint[0]; n++) {
        const struct place *at = &places[(me->number + n) % CONTEXTS];
        const float value = 1 + (float)me->number + (float)n / 16;
        float output[KNOWN_OUTPUT_MAX] = {0};
        gpu_mha_plan *plan = NULL;
        run_plan(me, at, value);
        if (known_call(at->context, KNOWN_LAYER, value, output) != GPU_MHA_OK ||
            !known_right(KNOWN_LAYER, output, value)) {
            crew_complain(me, "thread %d: a call gives %g, want %g (%s)", me->number,
                          (double)output[0], (double)value, gpu_mha_last_error());
        }
        if (known_plan(at->context, KNOWN_LAYER, &plan) != GPU_MHA_OK) {
            crew_complain(me, "thread %d: no plan: %s", me->number, gpu_mha_last_error());
        }
        gpu_mha_plan_release(plan);
    }
}

START_TEST(one_thread_at_a_time_is_in_clblast)
{
    struct place places[CONTEXTS];
    for (int c = 0; c < CONTEXTS; c++) {
        ASSERT_OK(gpu_mha_context_create(NULL, &places[c].context));
        places[c].context->device.type = CL_DEVICE_TYPE_ACCELERATOR; /* which takes CLBlast */
        ASSERT_OK(known_plan(places[c].context, KNOWN_LAYER, &places[c].plan));
        places[c].queue = queue_make(places[c].context, c % 2);
    }
    const int before = atomic_load(&calls);
    const char *complaint = crew_run(THREADS, work, 0, NULL, places);
    ck_assert_msg(complaint == NULL, "%s", complaint);
    ck_assert_int_ge(atomic_load(&calls) - before, THREADS * ROUNDS);
    ck_assert_int_eq(atomic_load(&most_inside), 1);
    for (int c = 0; c < CONTEXTS; c++) {
        clReleaseCommandQueue(places[c].queue);
        gpu_mha_plan_release(places[c].plan);
        gpu_mha_context_release(places[c].context);
    }
}
END_TEST

int main(void)
{
    setenv("GPU_MHA_LOG", "off", 1);
    Suite *suite = suite_create("clblast");
    TCase *tcase = tcase_create("clblast");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, one_thread_at_a_time_is_in_clblast);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
