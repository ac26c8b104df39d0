/*
 * test_determinism.c - the same inputs give the same bits: again, at another batch position, on
 * another queue, from other threads, and while other work runs on the same context.
 */
#include "harness/attention_run.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fused, staged, and fused with the keys split. */
static struct attention_spec problem(int kind)
{
    struct attention_spec spec = {.desc = {.B = 2,
                                           .H = 6,
                                           .HKV = 3,
                                           .NQ = 29,
                                           .NK = 75,
                                           .NP = 6,
                                           .DK = 8,
                                           .DV = 5,
                                           .lse = 1,
                                           .causal = 1,
                                           .offset_kind = GPU_MHA_BOTTOM_RIGHT,
                                           .softcap = 4.0f,
                                           .dropout = 0.1f,
                                           .dropout_seed = 3,
                                           .method = GPU_MHA_FUSED},
                                  .key = ATTENTION_PADDED,
                                  .output = ATTENTION_BNHD,
                                  .seed = 17};

    spec.desc.mask.type = GPU_MHA_MASK_BOOL;
    spec.mask = (struct attention_mask){0xF, 0, 0.3};
    if (kind == 1) {
        spec.desc.method = GPU_MHA_STAGED;
        spec.desc.weights = GPU_MHA_WEIGHTS_AVERAGED;
        spec.desc.scores = GPU_MHA_SCORES_MASKED;
    }
    if (kind == 2) {
        spec.desc.B = spec.desc.H = spec.desc.HKV = 1;
        spec.desc.NQ = 1;
        spec.desc.NK = 4096;
    }
    return spec;
}

static void run(gpu_mha_context *context, const struct attention_data *data,
                struct attention_launch launch, struct attention_outputs *outputs)
{
    char error[ATTENTION_ERROR_SIZE];

    ck_assert_msg(attention_run(context, data, launch, outputs, error) == 0, "%s", error);
}

static void assert_same(const struct attention_outputs *a, const struct attention_outputs *b)
{
    const char *differs = attention_outputs_differ(a, b);

    ck_assert_msg(differs == NULL, "%s differs", differs);
}

START_TEST(again_and_on_other_queues)
{
    struct attention_spec spec = problem(_i);
    cl_command_queue in_order = attention_queue(attention_context, 0);
    cl_command_queue out_of_order = attention_queue(attention_context, 1);
    const struct attention_launch launches[] = {
        {.queue = in_order, .poison = POISON_NAN},
        {.queue = in_order, .poison = POISON_1000},
        {.queue = out_of_order, .out_of_order = 1},
        {.queue = NULL},
        {.out_of_order = 1},
        {.host_call = 1},
        {.host_call = 1},
    };
    struct attention_outputs first, other;
    struct attention_data data;

    attention_data_make(&spec, &data);
    run(attention_context, &data, launches[0], &first);
    ck_assert_msg((strstr(first.plan, "split") != NULL) == (_i == 2), "the plan is \"%s\"",
                  first.plan);
    for (size_t n = 1; n < sizeof(launches) / sizeof(launches[0]); n++) {
        run(attention_context, &data, launches[n], &other);
        assert_same(&first, &other);
        attention_outputs_free(&other);
    }
    attention_outputs_free(&first);
    attention_data_free(&data);
    clReleaseCommandQueue(out_of_order);
    clReleaseCommandQueue(in_order);
}
END_TEST

START_TEST(in_another_context)
{
    struct attention_spec spec = problem(_i);
    struct attention_outputs first, other;
    struct attention_data data;
    gpu_mha_context *context = NULL;

    attention_data_make(&spec, &data);
    run(attention_context, &data, (struct attention_launch){.poison = POISON_NAN}, &first);
    ck_assert_int_eq(gpu_mha_context_create(NULL, &context), GPU_MHA_OK);
    run(context, &data, (struct attention_launch){.poison = POISON_NAN}, &other);
    assert_same(&first, &other);
    attention_outputs_free(&other);
    attention_outputs_free(&first);
    attention_data_free(&data);
    gpu_mha_context_release(context);
}
END_TEST

/*
 * Inputs are drawn per batch entry, so entry b of one problem is entry b - shift of another. The
 * mask is the same for all; without dropout, whose draws belong to the place.
 */
START_TEST(at_another_batch_position)
{
    struct attention_spec spec = problem(_i);
    struct attention_outputs whole, alone;
    struct attention_data data;

    spec.desc.dropout = 0;
    spec.mask.full = 0xE;
    spec.desc.B = 4;
    if (_i == 2) {
        spec.desc.B = 2; /* still few enough to be split, into as many parts */
    }
    for (int64_t shift = 1; shift < spec.desc.B; shift++) {
        struct attention_spec part = spec;
        part.seed_batch = shift;
        attention_data_make(&spec, &data);
        run(attention_context, &data, (struct attention_launch){.poison = POISON_NAN}, &whole);
        attention_data_free(&data);
        attention_data_make(&part, &data);
        run(attention_context, &data, (struct attention_launch){.poison = POISON_NAN}, &alone);
        for (int a = ARRAY_OUTPUT; a < ARRAY_COUNT; a++) {
            size_t entry = whole.bytes[a] / (size_t)spec.desc.B;
            size_t shared = (size_t)(spec.desc.B - shift) * entry;
            ck_assert_msg(shared == 0 || memcmp((char *)whole.arrays[a] + (size_t)shift * entry,
                                                alone.arrays[a], shared) == 0,
                          "%s differs at batch position %d", attention_array_name(a), (int)shift);
        }
        attention_outputs_free(&alone);
        attention_outputs_free(&whole);
        attention_data_free(&data);
    }
}
END_TEST

/* ---- threads ---- */

#define THREADS 6
#define ROUNDS 8

struct worker {
    pthread_t thread;
    int number;
    const struct attention_data *data;        /* of each kind */
    const struct attention_outputs *expected; /* of each kind */
    cl_command_queue queue;                   /* shared */
    char error[ATTENTION_ERROR_SIZE];
};

static void *work(void *argument)
{
    struct worker *w = argument;

    for (int round = 0; round < ROUNDS && w->error[0] == '\0'; round++) {
        int kind = (w->number + round) % 3;
        struct attention_launch launch = {.poison = POISON_NAN,
                                          .host_call = round % 3 == 1,
                                          .queue = round % 2 ? w->queue : NULL};
        struct attention_outputs got;
        if (launch.queue == NULL && !launch.host_call) {
            launch.out_of_order = round % 4 == 2;
        }
        if (attention_run(attention_context, &w->data[kind], launch, &got, w->error) != 0) {
            break;
        }
        const char *differs = attention_outputs_differ(&got, &w->expected[kind]);
        if (differs) {
            snprintf(w->error, sizeof(w->error), "%s differs in thread %d, round %d", differs,
                     w->number, round);
        }
        attention_outputs_free(&got);
    }
    return NULL;
}

START_TEST(from_many_threads_at_once)
{
    struct worker workers[THREADS] = {{0}};
    struct attention_outputs expected[3];
    struct attention_data data[3];
    cl_command_queue queue = attention_queue(attention_context, 0);

    for (int kind = 0; kind < 3; kind++) {
        struct attention_spec spec = problem(kind);
        attention_data_make(&spec, &data[kind]);
        run(attention_context, &data[kind], (struct attention_launch){.poison = POISON_1000},
            &expected[kind]);
    }
    for (int n = 0; n < THREADS; n++) {
        workers[n].number = n;
        workers[n].data = data;
        workers[n].expected = expected;
        workers[n].queue = queue;
        ck_assert_int_eq(pthread_create(&workers[n].thread, NULL, work, &workers[n]), 0);
    }
    for (int n = 0; n < THREADS; n++) {
        pthread_join(workers[n].thread, NULL);
    }
    for (int n = 0; n < THREADS; n++) {
        ck_assert_msg(workers[n].error[0] == '\0', "%s", workers[n].error);
    }
    for (int kind = 0; kind < 3; kind++) {
        attention_outputs_free(&expected[kind]);
        attention_data_free(&data[kind]);
    }
    clReleaseCommandQueue(queue);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("determinism");
    TCase *tcase = tcase_create("determinism");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, attention_open, attention_close);
    tcase_add_loop_test(tcase, again_and_on_other_queues, 0, 3);
    tcase_add_loop_test(tcase, in_another_context, 0, 3);
    tcase_add_loop_test(tcase, at_another_batch_position, 0, 3);
    tcase_add_test(tcase, from_many_threads_at_once);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
