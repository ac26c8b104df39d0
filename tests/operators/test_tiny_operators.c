/*
 * test_tiny_operators.c - every kernel of the small operators on shapes that a simulator can bear:
 * this program is run under Oclgrind too. Expected values are arithmetic.
 *
 * Integers through f32, f16 and bf16: every result is exact.
 */
#include "operator_fixture.h"

/* The type of the inputs; the output's is the next one. */
static gpu_mha_type next(int type)
{
    return (gpu_mha_type)((type + 1) % STORAGE_TYPE_COUNT);
}

/* Elements first, first + 1, ... of `type`. */
static void count_up(gpu_mha_type type, void *array, int64_t count, int first)
{
    for (int64_t n = 0; n < count; n++) {
        storage_store((enum storage_type)type, array, n, (double)(first + n));
    }
}

static double element(gpu_mha_type type, const void *array, int64_t n)
{
    return storage_load((enum storage_type)type, array, n);
}

/* Rows: equal LSEs, side a empty, side b empty, both empty. */
START_TEST(merge)
{
    enum { ROWS = 4, DV = 3 };
    float a[ROWS * DV], b[ROWS * DV], output[ROWS * DV], lse[ROWS];
    const float none = -INFINITY;
    const float lse_a[ROWS] = {2, none, 1, none}, lse_b[ROWS] = {2, 5, none, none};
    const gpu_mha_type type = (gpu_mha_type)_i;
    gpu_mha_merge_desc desc = {
        .B = 1, .H = 2, .NQ = 2, .DV = DV, .a.type = type, .b.type = type, .output.type = next(_i)};
    gpu_mha_merge_arrays arrays = {
        .a = a, .lse_a = lse_a, .b = b, .lse_b = lse_b, .output = output, .lse = lse};
    count_up(type, a, ROWS * DV, 1);
    count_up(type, b, ROWS * DV, 21);
    ok(gpu_mha_merge(context, &desc, &arrays));
    for (int n = 0; n < ROWS * DV; n++) {
        const double want[ROWS] = {n + 11, n + 21, n + 1, 0};
        ASSERT_DOUBLE_SAME(element(desc.output.type, output, n), want[n / DV]);
    }
    ASSERT_DOUBLE_NEAR((double)lse[0], 2 + log(2), 1e-6);
    ASSERT_DOUBLE_SAME((double)lse[1], 5);
    ASSERT_DOUBLE_SAME((double)lse[2], 1);
    ASSERT_DOUBLE_SAME((double)lse[3], (double)none);
}
END_TEST

/* Right angles everywhere: (x1, x2) -> (-x2, x1). Longer than one chunk, with a rest to copy. */
START_TEST(rotary)
{
    enum { H = 2, N = 2, D = 21, R = 20, P = 3 };
    float x[H * N * D], y[H * N * D], cosines[P * R / 2], sines[P * R / 2];
    const int64_t positions[N] = {2, 0};
    const gpu_mha_type type = (gpu_mha_type)_i;
    gpu_mha_rotary_desc desc = {.B = 1,
                                .H = H,
                                .N = N,
                                .D = D,
                                .R = R,
                                .P = P,
                                .interleaved = _i == 1,
                                .positions = GPU_MHA_I64,
                                .cache_type = type,
                                .input.type = type,
                                .output.type = next(_i)};
    gpu_mha_rotary_arrays arrays = {
        .input = x, .cos = cosines, .sin = sines, .positions = positions, .output = y};
    count_up(type, x, H * N * D, 1);
    for (int n = 0; n < P * R / 2; n++) {
        storage_store((enum storage_type)type, cosines, n, 0);
        storage_store((enum storage_type)type, sines, n, 1);
    }
    ok(gpu_mha_rotary(context, &desc, &arrays));
    for (int n = 0; n < H * N * D; n++) {
        const int d = n % D, step = desc.interleaved ? 1 : R / 2;
        const int is_first = desc.interleaved ? d % 2 == 0 : d < R / 2;
        const double want = d >= R ? n + 1 : is_first ? -(n + 1 + step) : n + 1 - step;
        ASSERT_DOUBLE_SAME(element(desc.output.type, y, n), want);
    }
}
END_TEST

/* On a queue: the indices are then the kernel's business. _i: linear or circular. */
START_TEST(cache_update)
{
    enum { B = 2, N = 2, NC = 3, D = 18, ROWS = B * N };
    float update[ROWS * D], cache[B * NC * D];
    const int32_t indices[B] = {2, -1};
    /* Row of the update that lies in a row of the cache; -1: untouched. */
    const int from[2][B * NC] = {{-1, -1, 0, 3, -1, -1}, {1, -1, 0, 3, -1, 2}};
    gpu_mha_cache_desc desc = {
        .B = B, .H = 1, .D = D, .N = N, .NC = NC, .circular = _i, .indices = GPU_MHA_I32};
    struct run run = run_begin(WAY_IN_ORDER);
    gpu_mha_plan *plan;
    count_up(GPU_MHA_F32, update, ROWS * D, 1);
    for (int n = 0; n < B * NC * D; n++) {
        cache[n] = -5;
    }
    cl_mem mems[3] = {run_send(&run, update, sizeof update),
                      run_send(&run, indices, sizeof indices), run_send(&run, cache, sizeof cache)};
    gpu_mha_cache_buffers buffers = {
        .update.mem = mems[0], .indices.mem = mems[1], .cache.mem = mems[2]};
    ok(gpu_mha_cache_plan_create(context, &desc, &plan));
    ok(gpu_mha_cache_enqueue(plan, run.queue, &buffers, run.written_count, run.written, &run.done));
    gpu_mha_plan_release(plan);
    run_finish(&run);
    ck_assert_int_eq(
        clEnqueueReadBuffer(run.queue, mems[2], CL_TRUE, 0, sizeof cache, cache, 0, NULL, NULL),
        CL_SUCCESS);
    for (int n = 0; n < B * NC * D; n++) {
        const int row = from[_i][n / D];
        ASSERT_DOUBLE_SAME((double)cache[n], row < 0 ? -5 : row * D + n % D + 1);
    }
    for (int i = 0; i < 3; i++) {
        clReleaseMemObject(mems[i]);
    }
}
END_TEST

/* The blocking call of the same, with a conversion. */
START_TEST(cache_update_on_the_host)
{
    enum { N = 2, NC = 3, D = 18 };
    float update[N * D], cache[NC * D];
    const gpu_mha_type type = (gpu_mha_type)_i;
    gpu_mha_cache_desc desc = {
        .B = 1, .H = 1, .D = D, .N = N, .NC = NC, .update.type = type, .cache.type = next(_i)};
    gpu_mha_cache_arrays arrays = {.update = update, .cache = cache};
    count_up(type, update, N * D, 1);
    count_up(desc.cache.type, cache, NC * D, 101);
    ok(gpu_mha_cache_update(context, &desc, &arrays));
    for (int n = 0; n < NC * D; n++) {
        ASSERT_DOUBLE_SAME(element(desc.cache.type, cache, n), n < N * D ? n + 1 : n + 101);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tiny_operators");
    TCase *tcase = tcase_create("tiny_operators");
    tcase_add_checked_fixture(tcase, open_context, close_context);
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, merge, 0, STORAGE_TYPE_COUNT);
    tcase_add_loop_test(tcase, rotary, 0, STORAGE_TYPE_COUNT);
    tcase_add_loop_test(tcase, cache_update, 0, 2);
    tcase_add_loop_test(tcase, cache_update_on_the_host, 0, STORAGE_TYPE_COUNT);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
