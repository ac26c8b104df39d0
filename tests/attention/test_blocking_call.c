/*
 * test_blocking_call.c - gpu_mha(): the default context, kept plans, what it reads and writes,
 * fork.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "harness/assertions.h"
#include "harness/probe.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The mean of the values 1 .. NK, computed for NQ queries. */
struct mean {
    int64_t NQ, NK;
    float query[8 * 5], key[64 * 5], value[64 * 3], output[8 * 3];
};

static void call_mean(gpu_mha_context *context, struct mean *m, int64_t NQ, int64_t NK)
{
    gpu_mha_desc desc = {.B = 1, .H = 1, .HKV = 1, .NQ = NQ, .NK = NK, .DK = 5, .DV = 3};
    gpu_mha_arrays arrays = {
        .query = m->query, .key = m->key, .value = m->value, .output = m->output};
    for (int64_t n = 0; n < NK * 3; n++) {
        m->value[n] = (float)(n / 3 + 1);
    }
    memset(m->output, 0xFF, sizeof m->output);
    ck_assert_msg(gpu_mha(context, &desc, &arrays) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    for (int64_t n = 0; n < NQ * 3; n++) {
        ASSERT_DOUBLE_NEAR(m->output[n], (double)(NK + 1) / 2, 1e-4);
    }
}

START_TEST(without_a_context_the_library_makes_one)
{
    static struct mean m;
    for (int64_t n = 1; n < 9; n++) {
        call_mean(NULL, &m, n, 7 * n);
    }
    gpu_mha_plan *plan = NULL;
    gpu_mha_desc desc = {.B = 1, .H = 1, .HKV = 1, .NQ = 1, .NK = 1, .DK = 5, .DV = 3};
    ck_assert_int_eq(gpu_mha_plan_create(NULL, &desc, &plan), GPU_MHA_OK);
    gpu_mha_plan_release(plan);
}
END_TEST

static void *call_often(void *memory)
{
    struct mean *m = memory;
    for (int64_t n = 0; n < 40; n++) {
        call_mean(NULL, m, n % 8 + 1, n * 13 % 64 + 1);
    }
    return NULL;
}

START_TEST(threads_share_the_default_context)
{
    static struct mean means[6];
    pthread_t threads[6];
    for (int n = 0; n < 6; n++) {
        ck_assert_int_eq(pthread_create(&threads[n], NULL, call_often, &means[n]), 0);
    }
    for (int n = 0; n < 6; n++) {
        ck_assert_int_eq(pthread_join(threads[n], NULL), 0);
    }
}
END_TEST

/* More descriptors than a context keeps plans for, forwards and back. */
START_TEST(kept_plans_make_room_for_others)
{
    static struct mean m;
    for (int round = 0; round < 2; round++) {
        for (int64_t NK = 1; NK <= 40; NK++) {
            call_mean(probe_context(), &m, 3, NK);
        }
        for (int64_t NK = 40; NK >= 1; NK--) {
            call_mean(probe_context(), &m, 3, NK);
        }
    }
}
END_TEST

/* Descriptors that differ in one optional field are not taken for each other. */
START_TEST(kept_plans_are_told_apart)
{
    const float query[10] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0}, key[15] = {0};
    const float value[9] = {1, 1, 1, 2, 2, 2, 6, 6, 6};
    float output[6];
    gpu_mha_desc desc = {.B = 1, .H = 1, .HKV = 1, .NQ = 2, .NK = 3, .DK = 5, .DV = 3};
    gpu_mha_arrays arrays = {.query = query, .key = key, .value = value, .output = output};
    for (int n = 0; n < 24; n++) {
        desc.causal = n % 2;
        desc.offset_kind = n / 2 % 3 == 0 ? GPU_MHA_OFFSET : GPU_MHA_TOP_LEFT;
        desc.offset = n / 2 % 3 == 0 ? 1 : 0;
        desc.has_window = n / 2 % 3 == 2;
        desc.window_right = 0;
        ck_assert_int_eq(gpu_mha(probe_context(), &desc, &arrays), GPU_MHA_OK);
        /* Row 0 sees keys up to 0, 1 or 2. */
        const double want = !desc.causal && !desc.has_window ? 3 : desc.offset ? 1.5 : 1;
        ASSERT_DOUBLE_NEAR(output[0], want, 1e-5);
    }
}
END_TEST

/* One array may serve as several inputs, and inputs may lie in memory that is read-only. */
START_TEST(inputs_are_only_read)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    float *input = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(input, MAP_FAILED);
    for (int n = 0; n < 100; n++) {
        input[n] = 2;
    }
    ck_assert_int_eq(mprotect(input, page, PROT_READ), 0);
    float output[4 * 3];
    gpu_mha_desc desc = {.B = 2,
                         .H = 2,
                         .HKV = 1,
                         .NQ = 1,
                         .NK = 4,
                         .DK = 5,
                         .DV = 3,
                         .NP = 2,
                         .alibi = GPU_MHA_ALIBI_SLOPES,
                         .key = {0, GPU_MHA_STRIDED, 3, 0, 2},
                         .value = {0, GPU_MHA_STRIDED, 30, 0, 7}};
    gpu_mha_arrays arrays = {.query = input,
                             .key = input,
                             .value = input,
                             .past_key = input,
                             .past_value = input,
                             .alibi_slopes = input,
                             .output = output};
    ck_assert_msg(gpu_mha(probe_context(), &desc, &arrays) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    for (int n = 0; n < 12; n++) {
        ASSERT_DOUBLE_NEAR(output[n], 2, 1e-5);
    }
    ck_assert_int_eq(munmap(input, page), 0);
}
END_TEST

/* An array without elements may be NULL; where nothing is computed, no output is needed. */
START_TEST(arrays_without_elements_may_be_null)
{
    float query[2 * 5] = {0}, output[2 * 3], lse[2];
    memset(output, 0xFF, sizeof output);
    gpu_mha_desc desc = {.B = 1,
                         .H = 1,
                         .HKV = 1,
                         .NQ = 2,
                         .NK = 0,
                         .DK = 5,
                         .DV = 3,
                         .lse = 1,
                         .mask.type = GPU_MHA_MASK_BOOL,
                         .bias.type = GPU_MHA_MASK_F32,
                         .weights = GPU_MHA_WEIGHTS_PER_HEAD,
                         .scores = GPU_MHA_SCORES_RAW};
    gpu_mha_arrays arrays = {.query = query, .output = output, .lse = lse};
    ck_assert_msg(gpu_mha(probe_context(), &desc, &arrays) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    for (int n = 0; n < 6; n++) {
        ASSERT_DOUBLE_SAME(output[n], 0);
    }
    ASSERT_DOUBLE_SAME(lse[0], -INFINITY);
    ASSERT_DOUBLE_SAME(lse[1], -INFINITY);

    desc.B = 0;
    ck_assert_int_eq(gpu_mha(probe_context(), &desc, &(gpu_mha_arrays){0}), GPU_MHA_OK);
    desc = (gpu_mha_desc){.B = 1, .H = 1, .HKV = 1, .NQ = 0, .NK = 2, .DK = 5, .DV = 3};
    arrays = (gpu_mha_arrays){.key = query, .value = query};
    ck_assert_msg(gpu_mha(probe_context(), &desc, &arrays) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
}
END_TEST

/* In a child every use of the parent's context is refused, before any OpenCL call. */
START_TEST(a_forked_child_is_refused)
{
    static struct mean m;
    call_mean(NULL, &m, 1, 3);
    gpu_mha_plan *plan = NULL;
    gpu_mha_desc desc = {.B = 1, .H = 1, .HKV = 1, .NQ = 1, .NK = 3, .DK = 5, .DV = 3};
    gpu_mha_arrays arrays = {.query = m.query, .key = m.key, .value = m.value, .output = m.output};
    ck_assert_int_eq(gpu_mha_plan_create(probe_context(), &desc, &plan), GPU_MHA_OK);
    cl_command_queue queue = probe_queue(probe_context(), 0);
    pid_t child = fork();
    if (child == 0) {
        gpu_mha_plan *other = NULL;
        cl_event event = NULL;
        int right = gpu_mha(NULL, &desc, &arrays) == GPU_MHA_FORKED;
        right &= gpu_mha(probe_context(), &desc, &arrays) == GPU_MHA_FORKED;
        right &= gpu_mha_plan_create(probe_context(), &desc, &other) == GPU_MHA_FORKED && !other;
        right &=
            gpu_mha_enqueue(plan, queue, &(gpu_mha_buffers){0}, 0, NULL, &event) == GPU_MHA_FORKED;
        right &= strstr(gpu_mha_last_error(), "fork") != NULL;
        gpu_mha_plan_release(plan);
        _exit(right ? 0 : 1);
    }
    ck_assert_int_gt(child, 0);
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ends with %#x", status);
    gpu_mha_plan_release(plan);
    call_mean(NULL, &m, 1, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("blocking call");
    TCase *calls = tcase_create("calls");
    tcase_add_test(calls, without_a_context_the_library_makes_one);
    tcase_add_test(calls, threads_share_the_default_context);
    tcase_add_test(calls, kept_plans_make_room_for_others);
    tcase_add_test(calls, kept_plans_are_told_apart);
    tcase_add_test(calls, inputs_are_only_read);
    tcase_add_test(calls, arrays_without_elements_may_be_null);
    tcase_add_test(calls, a_forked_child_is_refused);
    suite_add_tcase(suite, calls);
    return probe_main(suite);
}
