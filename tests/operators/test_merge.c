/*
 * test_merge.c - gpu_mha_merge and its plan, against the float64 reference. What they refuse is in
 * test_merge_refuses.c.
 */
#include "operator_fixture.h"

/* All lengths, offsets and strides of a test differ. */
enum { B = 2, H = 3, NQ = 11, DV = 19, ROWS = B * H * NQ };

struct merge {
    gpu_mha_merge_desc desc;
    double *a, *b, *lse_a, *lse_b;
    struct tensor ta, tb, tlse_a, tlse_b, output, lse;
    double *want, *bound, *want_lse, *bound_lse;
};

/* Side a is empty in rows 1, 5, 9, ..., b in 2, 6, ..., both in 3, 7, ...: garbage is there. */
static void draw(struct merge *m, uint64_t seed, const enum storage_type types[3])
{
    struct rng rng;
    rng_seed(&rng, seed);
    m->a = alloc_doubles(ROWS * DV);
    m->b = alloc_doubles(ROWS * DV);
    m->lse_a = alloc_doubles(ROWS);
    m->lse_b = alloc_doubles(ROWS);
    fill_normal_as(&rng, types[0], m->a, ROWS * DV, 0.25, 2);
    fill_normal_as(&rng, types[1], m->b, ROWS * DV, -0.5, 3);
    fill_normal_as(&rng, STORAGE_F32, m->lse_a, ROWS, 3, 4);
    fill_normal_as(&rng, STORAGE_F32, m->lse_b, ROWS, 2, 5);
    for (int row = 0; row < ROWS; row++) {
        if (row % 4 == 1 || row % 4 == 3) {
            m->lse_a[row] = (double)-INFINITY;
            fill_constant(m->a + row * DV, DV, (double)NAN);
        }
        if (row % 4 == 2 || row % 4 == 3) {
            m->lse_b[row] = (double)-INFINITY;
            fill_constant(m->b + row * DV, DV, row % 8 == 2 ? 1000 : (double)INFINITY);
        }
    }
}

static void solve(struct merge *m, enum storage_type output)
{
    m->want = alloc_doubles(ROWS * DV);
    m->bound = alloc_doubles(ROWS * DV);
    m->want_lse = alloc_doubles(ROWS);
    m->bound_lse = alloc_doubles(ROWS);
    struct ref_merge reference = {.rows = ROWS,
                                  .DV = DV,
                                  .o1 = m->a,
                                  .o2 = m->b,
                                  .lse1 = m->lse_a,
                                  .lse2 = m->lse_b,
                                  .u_out = storage_unit_roundoff(output),
                                  .out_subnormal = storage_smallest_subnormal(output)};
    ref_merge(&reference, m->want, m->want_lse, m->bound, m->bound_lse);
    /* A row that comes through is exact, after its conversion. */
    for (int row = 0; row < ROWS; row++) {
        if (row % 4 != 0) {
            storage_round_array(output, m->want + row * DV, DV);
        }
    }
}

/* Types and layouts are those of a, b and output. */
static void merge_open(struct merge *m, uint64_t seed, const enum storage_type types[3],
                       const enum layout_kind kinds[3])
{
    *m = (struct merge){.desc = {.B = B, .H = H, .NQ = NQ, .DV = DV}};
    draw(m, seed, types);
    solve(m, types[2]);
    m->ta = tensor_new("a", layout_make(kinds[0], B, H, NQ, DV, 5), types[0], m->a);
    m->tb = tensor_new("b", layout_make(kinds[1], B, H, NQ, DV, 17), types[1], m->b);
    m->tlse_a = flat_new("lse_a", ROWS, 3, STORAGE_F32, m->lse_a);
    m->tlse_b = flat_new("lse_b", ROWS, 10, STORAGE_F32, m->lse_b);
    m->output = tensor_new("output", layout_make(kinds[2], B, H, NQ, DV, 29), types[2], NULL);
    m->lse = flat_new("lse", ROWS, 7, STORAGE_F32, NULL);
    m->desc.a = tensor_describe(&m->ta, kinds[0]);
    m->desc.b = tensor_describe(&m->tb, kinds[1]);
    m->desc.output = tensor_describe(&m->output, kinds[2]);
}

static void merge_close(struct merge *m)
{
    struct tensor *tensors[] = {&m->ta, &m->tb, &m->tlse_a, &m->tlse_b, &m->output, &m->lse};
    double *doubles[] = {m->a,    m->b,     m->lse_a,    m->lse_b,
                         m->want, m->bound, m->want_lse, m->bound_lse};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        tensor_free(tensors[i]);
    }
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        free(doubles[i]);
    }
}

/* Runs with `output` and `lse` for results: the merge's own, or a side for in place. */
static void merge_run(struct merge *m, enum way way, struct tensor *output, struct tensor *lse)
{
    struct tensor *tensors[] = {&m->ta, &m->tb, &m->tlse_a, &m->tlse_b, &m->output, &m->lse};
    const size_t count = sizeof tensors / sizeof *tensors;
    if (way == WAY_HOST) {
        gpu_mha_merge_arrays arrays = {.a = tensor_host(&m->ta),
                                       .lse_a = tensor_host(&m->tlse_a),
                                       .b = tensor_host(&m->tb),
                                       .lse_b = tensor_host(&m->tlse_b),
                                       .output = tensor_host(output),
                                       .lse = tensor_host(lse)};
        ok(gpu_mha_merge(context, &m->desc, &arrays));
        return;
    }
    struct run run = run_begin(way);
    gpu_mha_plan *plan;
    ok(gpu_mha_merge_plan_create(context, &m->desc, &plan));
    ck_assert_uint_eq(gpu_mha_plan_workspace_bytes(plan), 0);
    for (size_t i = 0; i < count; i++) {
        run_send_tensor(&run, tensors[i]);
    }
    gpu_mha_merge_buffers buffers = {.a = tensor_buffer(&m->ta),
                                     .lse_a = tensor_buffer(&m->tlse_a),
                                     .b = tensor_buffer(&m->tb),
                                     .lse_b = tensor_buffer(&m->tlse_b),
                                     .output = tensor_buffer(output),
                                     .lse = tensor_buffer(lse)};
    ok(gpu_mha_merge_enqueue(plan, run.queue, &buffers, run.written_count, run.written, &run.done));
    gpu_mha_plan_release(plan);
    run_finish(&run);
    for (size_t i = 0; i < count; i++) {
        run_fetch(&run, tensors[i], tensors[i] == output || tensors[i] == lse);
    }
}

static void expect_merged(struct merge *m, struct tensor *output, struct tensor *lse)
{
    tensor_expect(output, m->want, m->bound);
    tensor_expect(lse, m->want_lse, m->bound_lse);
}

/* ---- against the reference ---- */

/* _i: every mix of types, each with other layouts, every way. */
START_TEST(merges_as_the_reference_does)
{
    const enum storage_type types[3] = {_i % 3, _i / 3 % 3, _i / 9};
    const enum layout_kind kinds[3] = {_i % 4, (_i + 1 + _i / 4) % 4, (_i / 3 + 2) % 4};
    for (enum way way = 0; way < WAY_COUNT; way++) {
        struct merge m;
        merge_open(&m, 100 + (uint64_t)_i, types, kinds);
        merge_run(&m, way, &m.output, &m.lse);
        expect_merged(&m, &m.output, &m.lse);
        merge_close(&m);
    }
}
END_TEST

/* _i: a side for the output, a side for the LSE, a layout. */
START_TEST(merges_in_place)
{
    for (enum way way = 0; way < WAY_COUNT; way++) {
        const enum storage_type type = (enum storage_type)(_i % 3);
        const enum storage_type types[3] = {type, type, type};
        const enum layout_kind kind = (enum layout_kind)(_i / 4);
        const enum layout_kind kinds[3] = {kind, kind, kind};
        struct merge m;
        merge_open(&m, 200 + (uint64_t)_i, types, kinds);
        struct tensor *output = _i & 1 ? &m.tb : &m.ta;
        struct tensor *lse = _i & 2 ? &m.tlse_b : &m.tlse_a;
        merge_run(&m, way, output, lse);
        expect_merged(&m, output, lse);
        merge_close(&m);
    }
}
END_TEST

START_TEST(far_apart_parts_do_not_overflow)
{
    const enum storage_type types[3] = {STORAGE_F32, STORAGE_F32, STORAGE_F32};
    const enum layout_kind kinds[3] = {LAYOUT_BHND, LAYOUT_BNHD, LAYOUT_PADDED};
    struct merge m;
    merge_open(&m, 300, types, kinds);
    for (int row = 0; row < ROWS; row += 4) {
        const double far[4] = {-400, 500, 3e4, -3e4};
        m.lse_a[row] += far[row / 4 % 4];
    }
    storage_round_array(STORAGE_F32, m.lse_a, ROWS);
    layout_scatter(&m.tlse_a.layout, STORAGE_F32, m.tlse_a.block, m.lse_a);
    free(m.want), free(m.bound), free(m.want_lse), free(m.bound_lse);
    solve(&m, STORAGE_F32);
    merge_run(&m, WAY_HOST, &m.output, &m.lse);
    expect_merged(&m, &m.output, &m.lse);
    merge_close(&m);
}
END_TEST

/* ---- the identity ---- */

/* Zeros of both signs, subnormals, NaN with a payload, infinities, by type; then LSEs. */
static const uint32_t patterns_32[8] = {0x80000000, 0x00000001, 0x807fffff, 0x7fc01234,
                                        0xff800000, 0x7f7fffff, 0x3f800001, 0x00000000};
static const uint16_t patterns_f16[8] = {0x8000, 0x0001, 0x83ff, 0x7e12,
                                         0xfc00, 0x7bff, 0x3c01, 0x0000};
static const uint16_t patterns_bf16[8] = {0x8000, 0x0001, 0x807f, 0x7fd2,
                                          0xff80, 0x7f7f, 0x3f81, 0x0000};

static void expect_identity(gpu_mha_type type, const void *pattern, size_t bytes, int empty_a,
                            int in_place)
{
    const float minus_infinity = -INFINITY;
    const uint32_t lses[3] = {0x80000000, 0x7fc04321, 0x42c80000}; /* -0, NaN, 100 */
    for (int l = 0; l < 3; l++) {
        unsigned char zero[32] = {0}, side[32], got[32];
        float lse, got_lse;
        memcpy(side, pattern, bytes);
        memcpy(&lse, &lses[l], sizeof lse);
        memset(got, 0xFF, sizeof got);
        gpu_mha_merge_desc desc = {
            .B = 1, .H = 1, .NQ = 1, .DV = 8, .a.type = type, .b.type = type, .output.type = type};
        gpu_mha_merge_arrays arrays = {.a = empty_a ? zero : side,
                                       .lse_a = empty_a ? &minus_infinity : &lse,
                                       .b = empty_a ? side : zero,
                                       .lse_b = empty_a ? &lse : &minus_infinity,
                                       .output = in_place ? side : got,
                                       .lse = in_place ? &lse : &got_lse};
        ok(gpu_mha_merge(context, &desc, &arrays));
        ck_assert_int_eq(compare_bytes(arrays.output, pattern, (int64_t)bytes), -1);
        ck_assert_int_eq(compare_bytes(arrays.lse, &lses[l], sizeof lse), -1);
    }
}

START_TEST(identity_is_bit_exact)
{
    for (int n = 0; n < 4; n++) {
        expect_identity(GPU_MHA_F32, patterns_32, sizeof patterns_32, n & 1, n & 2);
        expect_identity(GPU_MHA_F16, patterns_f16, sizeof patterns_f16, n & 1, n & 2);
        expect_identity(GPU_MHA_BF16, patterns_bf16, sizeof patterns_bf16, n & 1, n & 2);
    }
}
END_TEST

/* Whatever lies in the outputs of two empty parts. */
START_TEST(two_empty_parts_make_an_empty_one)
{
    const float empty[2] = {-INFINITY, -INFINITY};
    float a[2] = {0, NAN}, b[2] = {INFINITY, 0}, output[2] = {7, 7}, lse[2] = {7, 7};
    gpu_mha_merge_desc desc = {.B = 1, .H = 1, .NQ = 2, .DV = 1};
    gpu_mha_merge_arrays arrays = {
        .a = a, .lse_a = empty, .b = b, .lse_b = empty, .output = output, .lse = lse};
    ok(gpu_mha_merge(context, &desc, &arrays));
    for (int n = 0; n < 2; n++) {
        ASSERT_DOUBLE_SAME((double)output[n], 0);
        ASSERT_DOUBLE_SAME((double)lse[n], (double)-INFINITY);
    }
}
END_TEST

/* ---- nothing to do ---- */

START_TEST(empty_problems_succeed)
{
    gpu_mha_merge_desc desc = {.B = _i ? B : 0, .H = H, .NQ = _i ? 0 : NQ, .DV = DV};
    if (_i == 2) {
        desc.B = desc.H = (int64_t)1 << 40; /* no rows of any number of heads */
    }
    gpu_mha_merge_arrays arrays = {0};
    gpu_mha_merge_buffers buffers = {0};
    gpu_mha_plan *plan;
    cl_event event = NULL;
    ok(gpu_mha_merge(context, &desc, &arrays));
    ok(gpu_mha_merge_plan_create(context, &desc, &plan));
    ok(gpu_mha_merge_enqueue(plan, queues[WAY_OUT_OF_ORDER], &buffers, 0, NULL, &event));
    ck_assert_ptr_nonnull(event);
    ck_assert_int_eq(clWaitForEvents(1, &event), CL_SUCCESS);
    clReleaseEvent(event);
    gpu_mha_plan_release(plan);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("merge");
    TCase *tcase = tcase_create("merge");
    tcase_add_checked_fixture(tcase, open_context, close_context);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, merges_as_the_reference_does, 0, 27);
    tcase_add_loop_test(tcase, merges_in_place, 0, 16);
    tcase_add_test(tcase, far_apart_parts_do_not_overflow);
    tcase_add_test(tcase, identity_is_bit_exact);
    tcase_add_test(tcase, two_empty_parts_make_an_empty_one);
    tcase_add_loop_test(tcase, empty_problems_succeed, 0, 3);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
