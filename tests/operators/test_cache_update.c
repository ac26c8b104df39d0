/*
 * test_cache_update.c - gpu_mha_cache_update and its plan, against the float64 reference.
 */
#include "operator_fixture.h"

enum { B = 3, H = 2, N = 5, NC = 13, D = 19, CACHE_COUNT = B * H * NC * D };

struct update {
    gpu_mha_cache_desc desc;
    double *rows, *want;
    struct tensor update, cache;
    struct integers indices;
};

/* `given` are the indices in the buffer; `want` is the cache as it was: the caller changes it. */
static void update_open(struct update *u, uint64_t seed, int circular, gpu_mha_index_type indices,
                        const int64_t *given, const enum storage_type types[2],
                        const enum layout_kind kinds[2])
{
    struct rng rng;
    rng_seed(&rng, seed);
    *u = (struct update){.desc = {.B = B, .H = H, .D = D, .N = N, .NC = NC, .circular = circular}};
    u->rows = alloc_doubles(B * H * N * D);
    u->want = alloc_doubles(CACHE_COUNT);
    fill_normal_as(&rng, types[0], u->rows, B * H * N * D, 0, 3);
    fill_normal_as(&rng, types[1], u->want, CACHE_COUNT, 100, 3);
    u->update = tensor_new("update", layout_make(kinds[0], B, H, N, D, 5), types[0], u->rows);
    u->cache = tensor_new("cache", layout_make(kinds[1], B, H, NC, D, 23), types[1], u->want);
    u->indices = integers_new(indices, given, B, 7);
    u->desc.indices = indices;
    u->desc.update = tensor_describe(&u->update, kinds[0]);
    u->desc.cache = tensor_describe(&u->cache, kinds[1]);
    /* The reference copies rows: let them be what the cache's type makes of them. */
    storage_round_array(types[1], u->rows, B * H * N * D);
}

static void update_close(struct update *u)
{
    tensor_free(&u->update);
    tensor_free(&u->cache);
    integers_free(&u->indices);
    free(u->rows);
    free(u->want);
}

static void update_run(struct update *u, enum way way)
{
    if (way == WAY_HOST) {
        gpu_mha_cache_arrays arrays = {.update = tensor_host(&u->update),
                                       .indices = integers_host(&u->indices),
                                       .cache = tensor_host(&u->cache)};
        ok(gpu_mha_cache_update(context, &u->desc, &arrays));
        return;
    }
    struct run run = run_begin(way);
    gpu_mha_plan *plan;
    ok(gpu_mha_cache_plan_create(context, &u->desc, &plan));
    ck_assert_uint_eq(gpu_mha_plan_workspace_bytes(plan), 0);
    run_send_tensor(&run, &u->update);
    run_send_tensor(&run, &u->cache);
    run_send_integers(&run, &u->indices);
    gpu_mha_cache_buffers buffers = {.update = tensor_buffer(&u->update),
                                     .indices = integers_buffer(&u->indices),
                                     .cache = tensor_buffer(&u->cache)};
    ok(gpu_mha_cache_enqueue(plan, run.queue, &buffers, run.written_count, run.written, &run.done));
    gpu_mha_plan_release(plan);
    run_finish(&run);
    run_fetch(&run, &u->update, 0);
    run_fetch(&run, &u->cache, 1);
}

/* ---- against the reference ---- */

/* _i: linear or circular, the kind of indices, the types of update and cache. */
START_TEST(updates_as_the_reference_does)
{
    static const int64_t given[2][B] = {{NC - N, 0, 3}, {NC - 1, 4, NC - 3}};
    const gpu_mha_index_type indices = (gpu_mha_index_type)(_i / 2 % 3);
    const int circular = _i % 2;
    const enum storage_type types[2] = {_i / 6 % 3, _i / 18};
    const enum layout_kind kinds[2] = {_i % 4, (_i / 3 + 2) % 4};
    const int64_t *meant = indices == GPU_MHA_INDEX_NONE ? NULL : given[circular];
    for (enum way way = 0; way < WAY_COUNT; way++) {
        struct update u;
        update_open(&u, 100 + (uint64_t)_i, circular, indices, given[circular], types, kinds);
        ck_assert_int_eq(ref_cache_update(B, H, NC, N, D, circular, meant, u.rows, u.want), 0);
        update_run(&u, way);
        tensor_expect(&u.cache, u.want, NULL);
        update_close(&u);
    }
}
END_TEST

/* Where the definition, applied to any number, puts row n; -1: nowhere. */
static int64_t row_of(int circular, int64_t index, int64_t n)
{
    if (circular) {
        int64_t first = index % NC;
        return ((first < 0 ? first + NC : first) + n) % NC;
    }
    return index >= -n && index < NC - n ? index + n : -1;
}

/* What only the device knows: rows that would fall outside are left out. _i: as below. */
START_TEST(indices_on_the_device_never_leave_the_cache)
{
    static const int64_t outside[4][B] = {{-2, NC - 2, NC},
                                          {-N, NC - N + 1, -1},
                                          {INT32_MIN, INT32_MAX, -NC},
                                          {INT64_MIN, INT64_MAX, INT64_MIN + 1}};
    const int64_t *given = outside[_i / 2];
    const int circular = _i % 2;
    const gpu_mha_index_type indices = _i / 2 == 3 ? GPU_MHA_I64 : GPU_MHA_I32;
    const enum storage_type types[2] = {STORAGE_F32, STORAGE_BF16};
    const enum layout_kind kinds[2] = {LAYOUT_BNHD, LAYOUT_PADDED};
    for (enum way way = WAY_IN_ORDER; way <= WAY_OUT_OF_ORDER; way++) {
        struct update u;
        update_open(&u, 200 + (uint64_t)_i, circular, indices, given, types, kinds);
        for (int64_t row = 0; row < B * H * N; row++) {
            int64_t to = row_of(circular, given[row / N / H], row % N);
            if (to >= 0) {
                memcpy(u.want + (row / N * NC + to) * D, u.rows + row * D, D * sizeof(double));
            }
        }
        update_run(&u, way);
        tensor_expect(&u.cache, u.want, NULL);
        update_close(&u);
    }
}
END_TEST

/* Update and cache of one type: every bit comes through, those of NaN and subnormals too. */
START_TEST(rows_are_copied_bit_for_bit)
{
    const uint32_t f32[4] = {0x7fc01234, 0x00000001, 0x80000000, 0xff812345};
    const uint16_t f16[4] = {0x7e12, 0x0001, 0x8000, 0xfc01};
    uint32_t cache32[12] = {0};
    uint16_t cache16[12] = {0};
    const int32_t index = 1;
    gpu_mha_cache_desc desc = {.B = 1, .H = 1, .D = 4, .N = 1, .NC = 3, .indices = GPU_MHA_I32};
    gpu_mha_cache_arrays arrays = {.update = f32, .indices = &index, .cache = cache32};
    ok(gpu_mha_cache_update(context, &desc, &arrays));
    for (gpu_mha_type type = GPU_MHA_F16; type <= GPU_MHA_BF16; type++) {
        desc.update.type = desc.cache.type = type;
        memset(cache16, 0, sizeof cache16);
        arrays.update = f16;
        arrays.cache = cache16;
        ok(gpu_mha_cache_update(context, &desc, &arrays));
        for (int n = 0; n < 12; n++) {
            ASSERT_HEX_EQ(cache16[n], n / 4 == 1 ? f16[n % 4] : 0);
            ASSERT_HEX_EQ(cache32[n], n / 4 == 1 ? f32[n % 4] : 0);
        }
    }
}
END_TEST

/* One row to every head of every batch: update strides of 0. */
START_TEST(an_update_may_broadcast)
{
    const float row[2] = {3, 4};
    const int64_t indices[2] = {1, 0};
    const float want[12] = {-1, -1, 3, 4, -1, -1, 3, 4, -1, -1, -1, -1};
    float cache[12];
    for (int n = 0; n < 12; n++) {
        cache[n] = -1;
    }
    gpu_mha_cache_desc desc = {.B = 2,
                               .H = 1,
                               .D = 2,
                               .N = 1,
                               .NC = 3,
                               .indices = GPU_MHA_I64,
                               .update.layout = GPU_MHA_STRIDED};
    gpu_mha_cache_arrays arrays = {.update = row, .indices = indices, .cache = cache};
    ok(gpu_mha_cache_update(context, &desc, &arrays));
    for (int n = 0; n < 12; n++) {
        ASSERT_DOUBLE_SAME((double)cache[n], (double)want[n]);
    }
}
END_TEST

START_TEST(empty_problems_succeed)
{
    gpu_mha_cache_desc desc = {.B = _i == 0 ? 0 : B,
                               .H = H,
                               .D = D,
                               .N = _i == 0 ? N : 0,
                               .NC = _i == 2 ? 0 : NC,
                               .indices = GPU_MHA_I32};
    gpu_mha_cache_arrays arrays = {0};
    gpu_mha_cache_buffers buffers = {0};
    gpu_mha_plan *plan;
    cl_event event = NULL;
    if (_i == 2) {
        desc.B = desc.H = (int64_t)1 << 40; /* no rows of any number of heads */
    }
    ok(gpu_mha_cache_update(context, &desc, &arrays));
    ok(gpu_mha_cache_plan_create(context, &desc, &plan));
    ok(gpu_mha_cache_enqueue(plan, queues[WAY_OUT_OF_ORDER], &buffers, 0, NULL, &event));
    ck_assert_int_eq(clWaitForEvents(1, &event), CL_SUCCESS);
    clReleaseEvent(event);
    gpu_mha_plan_release(plan);
}
END_TEST

/* ---- refusals ---- */

START_TEST(wrong_descriptors_are_refused)
{
    const gpu_mha_cache_desc right = {.B = B, .H = H, .D = D, .N = N, .NC = NC};
    struct {
        const char *field, *words;
        gpu_mha_cache_desc desc;
    } cases[] = {
        {"B is -1", "at least 0", right},
        {"H is 0", "at least 1", right},
        {"D is 0", "at least 1", right},
        {"N is -3", "at least 0", right},
        {"NC is -13", "at least 0", right},
        {"N is 14", "at most NC, which is 13", right},
        {"N is 5", "at most NC, which is 0", right},
        {"circular is 2", "0 or 1", right},
        {"indices is -1", "GPU_MHA_I64", right},
        {"update.type is 4", "GPU_MHA_F32", right},
        {"update.stride_b is -5", "negative", right},
        {"cache.stride_h is 0", "must not overlap", right},
        {"cache spans", "address", right},
        {"gpu_mha_cache_desc.struct_size is 1", "sizeof(gpu_mha_cache_desc)", right},
    };
    cases[0].desc.B = -1;
    cases[1].desc.H = 0;
    cases[2].desc.D = 0;
    cases[3].desc.N = -3;
    cases[4].desc.NC = -13;
    cases[5].desc.N = 14;
    cases[6].desc.NC = 0;
    cases[7].desc.circular = 2;
    cases[8].desc.indices = (gpu_mha_index_type)-1;
    cases[9].desc.update.type = (gpu_mha_type)4;
    cases[10].desc.update.layout = GPU_MHA_STRIDED;
    cases[10].desc.update.stride_b = -5;
    cases[11].desc.cache.layout = GPU_MHA_STRIDED;
    cases[11].desc.cache.stride_n = D;
    cases[11].desc.cache.stride_b = NC * D;
    cases[12].desc.NC = cases[12].desc.D = (int64_t)1 << 40;
    cases[13].desc.struct_size = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpu_mha_cache_arrays arrays = {0};
        gpu_mha_plan *plan = (gpu_mha_plan *)&arrays;
        EXPECT_REFUSED(gpu_mha_cache_update(context, &cases[i].desc, &arrays), cases[i].field,
                       cases[i].words);
        EXPECT_REFUSED(gpu_mha_cache_plan_create(context, &cases[i].desc, &plan), cases[i].field,
                       cases[i].words);
        ck_assert_ptr_null(plan);
    }
}
END_TEST

/* What the host knows is refused, before anything is written. _i: the width of the indices. */
START_TEST(indices_on_the_host_are_checked)
{
    static const struct {
        int circular;
        int64_t at, index;
        const char *field, *words;
    } cases[] = {{0, 0, -1, "indices[0] is -1", "from 0 to NC - N, which is 8"},
                 {0, 2, NC - N + 1, "indices[2] is 9", "from 0 to NC - N, which is 8"},
                 {1, 1, -2, "indices[1] is -2", "from 0 to NC - 1, which is 12"},
                 {1, 2, NC, "indices[2] is 13", "from 0 to NC - 1, which is 12"}};
    const gpu_mha_index_type type = _i ? GPU_MHA_I64 : GPU_MHA_I32;
    const enum storage_type types[2] = {STORAGE_F16, STORAGE_F32};
    const enum layout_kind kinds[2] = {LAYOUT_BHND, LAYOUT_PADDED_BNHD};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t given[B] = {0, 0, 0};
        given[cases[i].at] = cases[i].index;
        struct update u;
        update_open(&u, 300, cases[i].circular, type, given, types, kinds);
        gpu_mha_cache_arrays arrays = {.update = tensor_host(&u.update),
                                       .indices = integers_host(&u.indices),
                                       .cache = tensor_host(&u.cache)};
        EXPECT_REFUSED(gpu_mha_cache_update(context, &u.desc, &arrays), cases[i].field,
                       cases[i].words);
        tensor_expect(&u.cache, u.want, NULL);
        update_close(&u);
    }
}
END_TEST

START_TEST(wrong_arrays_are_refused)
{
    float row[2] = {0}, cache[6];
    const int32_t index = 0;
    gpu_mha_cache_desc desc = {.B = 1, .H = 1, .D = 2, .N = 1, .NC = 3};
    gpu_mha_cache_arrays arrays = {.update = row, .indices = &index, .cache = cache};
    EXPECT_REFUSED(gpu_mha_cache_update(context, &desc, &arrays), "indices is given",
                   "does not ask for it");
    desc.indices = GPU_MHA_I32;
    gpu_mha_cache_arrays wrong[3] = {arrays, arrays, arrays};
    static const char *const names[3] = {"update is NULL", "indices is NULL", "cache is NULL"};
    wrong[0].update = NULL;
    wrong[1].indices = NULL;
    wrong[2].cache = NULL;
    for (int i = 0; i < 3; i++) {
        EXPECT_REFUSED(gpu_mha_cache_update(context, &desc, &wrong[i]), names[i], "asks for it");
    }
    EXPECT_REFUSED(gpu_mha_cache_update(context, &desc, NULL), "arrays is NULL", "needed");
    EXPECT_REFUSED(gpu_mha_cache_update(context, NULL, &arrays), "desc is NULL", "needed");
    EXPECT_REFUSED(gpu_mha_cache_plan_create(context, &desc, NULL), "plan is NULL", "needed");
}
END_TEST

/* B 2, H 1, N 2, NC 3, D 4, f32, in one buffer: 16 elements of update, 24 of cache, 2 indices. */
START_TEST(overlapping_buffers_are_refused)
{
    const gpu_mha_cache_desc desc = {
        .B = 2, .H = 1, .D = 4, .N = 2, .NC = 3, .indices = GPU_MHA_I32};
    static const struct {
        uint64_t update, indices, cache;
        const char *field, *words;
    } cases[] = {{0, 40, 16, NULL, NULL},
                 {0, 40, 15, "cache overlaps update", "apart from it"},
                 {23, 40, 0, "cache overlaps update", "apart from it"},
                 {24, 40, 0, NULL, NULL},
                 {0, 39, 16, "cache overlaps indices", "apart from it"},
                 {0, 15, 16, "cache overlaps indices", "apart from it"},
                 {0, 41, 16, "indices holds 168 bytes", "2 elements"},
                 {0, 40, 19, "cache holds 168 bytes", "24 elements"}};
    cl_command_queue queue = queues[WAY_IN_ORDER];
    const cl_int zeros[42] = {0};
    cl_int code;
    cl_mem mem =
        clCreateBuffer(gpu_mha_context_cl(context), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                       sizeof zeros, (void *)(uintptr_t)zeros, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    gpu_mha_plan *plan;
    ok(gpu_mha_cache_plan_create(context, &desc, &plan));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpu_mha_cache_buffers b = {.update = {mem, cases[i].update},
                                   .indices = {mem, cases[i].indices},
                                   .cache = {mem, cases[i].cache}};
        if (cases[i].field) {
            EXPECT_REFUSED(gpu_mha_cache_enqueue(plan, queue, &b, 0, NULL, NULL), cases[i].field,
                           cases[i].words);
        } else {
            ok(gpu_mha_cache_enqueue(plan, queue, &b, 0, NULL, NULL));
        }
    }
    clFinish(queue);
    gpu_mha_plan_release(plan);
    clReleaseMemObject(mem);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache_update");
    TCase *tcase = tcase_create("cache_update");
    tcase_add_checked_fixture(tcase, open_context, close_context);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, updates_as_the_reference_does, 0, 54);
    tcase_add_loop_test(tcase, indices_on_the_device_never_leave_the_cache, 0, 8);
    tcase_add_test(tcase, rows_are_copied_bit_for_bit);
    tcase_add_test(tcase, an_update_may_broadcast);
    tcase_add_loop_test(tcase, empty_problems_succeed, 0, 3);
    tcase_add_test(tcase, wrong_descriptors_are_refused);
    tcase_add_loop_test(tcase, indices_on_the_host_are_checked, 0, 2);
    tcase_add_test(tcase, wrong_arrays_are_refused);
    tcase_add_test(tcase, overlapping_buffers_are_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
