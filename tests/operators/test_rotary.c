/*
 * test_rotary.c - gpu_mha_rotary and its plan, against the float64 reference.
 */
#include "operator_fixture.h"

enum { B = 2, H = 3, N = 11, D = 26, P = 17, COUNT = B * H * N * D };

struct rotary {
    gpu_mha_rotary_desc desc;
    double *x, *cosines, *sines, *want, *bound;
    struct tensor input, cos, sin, output;
    struct integers positions;
};

struct shape {
    int64_t R; /* as in the descriptor */
    int interleaved;
    gpu_mha_index_type positions;
};

static const struct shape shapes[] = {
    {0, 0, GPU_MHA_INDEX_NONE}, {0, 1, GPU_MHA_I32},        {18, 0, GPU_MHA_I64},
    {20, 1, GPU_MHA_I64},       {2, 0, GPU_MHA_INDEX_NONE}, {26, 1, GPU_MHA_INDEX_NONE},
};
#define SHAPE_COUNT ((int)(sizeof shapes / sizeof *shapes))

/* Any factors do: a rotation by cos and sin that belong together would hide an exchange. */
static void draw(struct rotary *r, uint64_t seed, enum storage_type x, enum storage_type cache,
                 int64_t angles)
{
    struct rng rng;
    rng_seed(&rng, seed);
    r->x = alloc_doubles(COUNT);
    r->cosines = alloc_doubles(angles);
    r->sines = alloc_doubles(angles);
    r->want = alloc_doubles(COUNT);
    r->bound = alloc_doubles(COUNT);
    fill_normal_as(&rng, x, r->x, COUNT, 0.5, 2);
    fill_normal_as(&rng, cache, r->cosines, angles, 0, 1);
    fill_normal_as(&rng, cache, r->sines, angles, 0.25, 1);
}

static void solve(struct rotary *r, const struct shape *shape, const int64_t *positions,
                  enum storage_type output)
{
    const int64_t R = shape->R ? shape->R : D;
    struct ref_rotary reference = {.B = B,
                                   .H = H,
                                   .N = N,
                                   .D = D,
                                   .R = R,
                                   .max_pos = P,
                                   .interleaved = shape->interleaved,
                                   .positions = positions,
                                   .cos = r->cosines,
                                   .sin = r->sines,
                                   .u_out = storage_unit_roundoff(output),
                                   .out_subnormal = storage_smallest_subnormal(output)};
    ck_assert_int_eq(ref_rotary(&reference, r->x, NULL, r->want, r->bound), 0);
    /* What is copied is exact, after its conversion. */
    for (int64_t n = 0; n < COUNT; n++) {
        if (n % D >= R) {
            r->want[n] = storage_round(output, r->want[n]);
        }
    }
}

/* `given` are the positions in the buffer, `meant` those that the reference takes for them. */
static void rotary_open(struct rotary *r, uint64_t seed, const struct shape *shape,
                        const enum storage_type types[3], const enum layout_kind kinds[2],
                        const int64_t *given, const int64_t *meant)
{
    const int has_positions = shape->positions != GPU_MHA_INDEX_NONE;
    const int64_t angles = (has_positions ? P : B * N) * (shape->R ? shape->R : D) / 2;
    *r = (struct rotary){.desc = {.B = B, .H = H, .N = N, .D = D, .R = shape->R}};
    draw(r, seed, types[0], types[1], angles);
    solve(r, shape, has_positions ? meant : NULL, types[2]);
    r->input = tensor_new("input", layout_make(kinds[0], B, H, N, D, 5), types[0], r->x);
    r->cos = flat_new("cos", angles, 3, types[1], r->cosines);
    r->sin = flat_new("sin", angles, 14, types[1], r->sines);
    r->positions = integers_new(shape->positions, given, B * N, 9);
    r->output = tensor_new("output", layout_make(kinds[1], B, H, N, D, 23), types[2], NULL);
    r->desc.interleaved = shape->interleaved;
    r->desc.positions = shape->positions;
    r->desc.P = has_positions ? P : 0;
    r->desc.cache_type = (gpu_mha_type)types[1];
    r->desc.input = tensor_describe(&r->input, kinds[0]);
    r->desc.output = tensor_describe(&r->output, kinds[1]);
}

static void rotary_close(struct rotary *r)
{
    tensor_free(&r->input);
    tensor_free(&r->cos);
    tensor_free(&r->sin);
    tensor_free(&r->output);
    integers_free(&r->positions);
    free(r->x);
    free(r->cosines);
    free(r->sines);
    free(r->want);
    free(r->bound);
}

/* `output` is the rotary's own, or its input for in place. */
static void rotary_run(struct rotary *r, enum way way, struct tensor *output)
{
    struct tensor *tensors[] = {&r->input, &r->cos, &r->sin, &r->output};
    if (way == WAY_HOST) {
        gpu_mha_rotary_arrays arrays = {.input = tensor_host(&r->input),
                                        .cos = tensor_host(&r->cos),
                                        .sin = tensor_host(&r->sin),
                                        .positions = integers_host(&r->positions),
                                        .output = tensor_host(output)};
        ok(gpu_mha_rotary(context, &r->desc, &arrays));
        return;
    }
    struct run run = run_begin(way);
    gpu_mha_plan *plan;
    ok(gpu_mha_rotary_plan_create(context, &r->desc, &plan));
    ck_assert_uint_eq(gpu_mha_plan_workspace_bytes(plan), 0);
    for (size_t i = 0; i < 4; i++) {
        run_send_tensor(&run, tensors[i]);
    }
    run_send_integers(&run, &r->positions);
    gpu_mha_rotary_buffers buffers = {.input = tensor_buffer(&r->input),
                                      .cos = tensor_buffer(&r->cos),
                                      .sin = tensor_buffer(&r->sin),
                                      .positions = integers_buffer(&r->positions),
                                      .output = tensor_buffer(output)};
    ok(gpu_mha_rotary_enqueue(plan, run.queue, &buffers, run.written_count, run.written,
                              &run.done));
    gpu_mha_plan_release(plan);
    run_finish(&run);
    for (size_t i = 0; i < 4; i++) {
        run_fetch(&run, tensors[i], tensors[i] == output);
    }
}

/* All over the table, both ends included, no two batches alike. */
static void draw_positions(int64_t *positions)
{
    for (int64_t n = 0; n < B * N; n++) {
        positions[n] = (n * 7 + n / N) % P;
    }
    positions[3] = P - 1;
    positions[N + 2] = 0;
}

/* ---- against the reference ---- */

/* _i: every shape with every type of input and output; cos and sin take the types in turn. */
START_TEST(rotates_as_the_reference_does)
{
    const enum storage_type types[3] = {_i % 3, (_i / 9 + _i) % 3, _i / 3 % 3};
    const enum layout_kind kinds[2] = {_i % 4, (_i / 2 + 1) % 4};
    int64_t positions[B * N];
    draw_positions(positions);
    for (enum way way = 0; way < WAY_COUNT; way++) {
        struct rotary r;
        rotary_open(&r, 100 + (uint64_t)_i, &shapes[_i / 9], types, kinds, positions, positions);
        rotary_run(&r, way, &r.output);
        tensor_expect(&r.output, r.want, r.bound);
        rotary_close(&r);
    }
}
END_TEST

/* _i: a shape and a layout. */
START_TEST(rotates_in_place)
{
    const enum storage_type type = (enum storage_type)(_i % 3);
    const enum storage_type types[3] = {type, STORAGE_F32, type};
    const enum layout_kind kinds[2] = {_i % 4, _i % 4};
    int64_t positions[B * N];
    draw_positions(positions);
    for (enum way way = 0; way < WAY_COUNT; way++) {
        struct rotary r;
        rotary_open(&r, 200 + (uint64_t)_i, &shapes[_i / 4], types, kinds, positions, positions);
        rotary_run(&r, way, &r.input);
        tensor_expect(&r.input, r.want, r.bound);
        rotary_close(&r);
    }
}
END_TEST

/* What only the device knows is clamped. */
START_TEST(positions_on_the_device_are_clamped)
{
    const gpu_mha_index_type type = _i ? GPU_MHA_I64 : GPU_MHA_I32;
    const struct shape shape = {.R = 18, .interleaved = 1, .positions = type};
    const enum storage_type types[3] = {STORAGE_F32, STORAGE_F16, STORAGE_BF16};
    const enum layout_kind kinds[2] = {LAYOUT_BNHD, LAYOUT_PADDED};
    int64_t given[B * N], meant[B * N];
    draw_positions(given);
    draw_positions(meant);
    given[0] = -1, meant[0] = 0;
    given[1] = P, meant[1] = P - 1;
    given[N] = _i ? INT64_MIN : INT32_MIN, meant[N] = 0;
    given[2 * N - 1] = _i ? INT64_MAX : INT32_MAX, meant[2 * N - 1] = P - 1;
    for (enum way way = WAY_IN_ORDER; way <= WAY_OUT_OF_ORDER; way++) {
        struct rotary r;
        rotary_open(&r, 300, &shape, types, kinds, given, meant);
        rotary_run(&r, way, &r.output);
        tensor_expect(&r.output, r.want, r.bound);
        rotary_close(&r);
    }
}
END_TEST

/* Input and output of one type: what is not turned comes through bit for bit, NaN and all. */
START_TEST(the_rest_is_copied_bit_for_bit)
{
    uint32_t x[6] = {0x3f800000, 0x40000000, 0x7fc01234, 0x00000001, 0x80000000, 0xff800000};
    uint32_t y[6] = {0};
    const float cosine = 0, sine = 1;
    gpu_mha_rotary_desc desc = {.B = 1, .H = 1, .N = 1, .D = 6, .R = 2};
    gpu_mha_rotary_arrays arrays = {.input = x, .cos = &cosine, .sin = &sine, .output = y};
    ok(gpu_mha_rotary(context, &desc, &arrays));
    ASSERT_HEX_EQ(y[0], 0xc0000000); /* (1, 2) by a right angle: (-2, 1) */
    ASSERT_HEX_EQ(y[1], 0x3f800000);
    for (int d = 2; d < 6; d++) {
        ASSERT_HEX_EQ(y[d], x[d]);
    }
}
END_TEST

/* One head's row for all: input strides of 0. */
START_TEST(an_input_may_broadcast)
{
    const float x[2] = {3, 4}, cosines[2] = {0, 1}, sines[2] = {1, 0};
    const float want[8] = {-4, 3, 3, 4, -4, 3, 3, 4};
    float y[8] = {0};
    gpu_mha_rotary_desc desc = {.B = 1, .H = 2, .N = 2, .D = 2, .input.layout = GPU_MHA_STRIDED};
    gpu_mha_rotary_arrays arrays = {.input = x, .cos = cosines, .sin = sines, .output = y};
    ok(gpu_mha_rotary(context, &desc, &arrays));
    for (int n = 0; n < 8; n++) {
        ASSERT_DOUBLE_SAME((double)y[n], (double)want[n]);
    }
}
END_TEST

START_TEST(empty_problems_succeed)
{
    gpu_mha_rotary_desc desc = {.B = _i ? B : 0, .H = H, .N = _i ? 0 : N, .D = D};
    gpu_mha_rotary_arrays arrays = {0};
    gpu_mha_rotary_buffers buffers = {0};
    gpu_mha_plan *plan;
    cl_event event = NULL;
    desc.positions = GPU_MHA_I32;
    desc.P = _i ? P : 0;
    if (_i == 2) {
        desc.B = desc.H = desc.P = (int64_t)1 << 40; /* no rows of any number of heads */
    }
    ok(gpu_mha_rotary(context, &desc, &arrays));
    ok(gpu_mha_rotary_plan_create(context, &desc, &plan));
    ok(gpu_mha_rotary_enqueue(plan, queues[WAY_IN_ORDER], &buffers, 0, NULL, &event));
    ck_assert_int_eq(clWaitForEvents(1, &event), CL_SUCCESS);
    clReleaseEvent(event);
    gpu_mha_plan_release(plan);
}
END_TEST

/* ---- refusals ---- */

START_TEST(wrong_descriptors_are_refused)
{
    const gpu_mha_rotary_desc right = {.B = B, .H = H, .N = N, .D = D};
    struct {
        const char *field, *words;
        gpu_mha_rotary_desc desc;
    } cases[] = {
        {"B is -1", "at least 0", right},
        {"H is 0", "at least 1", right},
        {"N is -3", "at least 0", right},
        {"D is 0", "at least 1", right},
        {"R is 7", "even", right},
        {"R is 28", "at most D, which is 26", right},
        {"R is -2", "at least 0", right},
        {"R is 0, which stands for D, and D is 25", "even", right},
        {"interleaved is 2", "0 or 1", right},
        {"positions is 3", "GPU_MHA_I64", right},
        {"P is 17", "only with positions", right},
        {"P is 0", "at least 1", right},
        {"cache_type is 5", "GPU_MHA_BF16", right},
        {"input.layout is 3", "GPU_MHA_STRIDED", right},
        {"output.stride_b is 0", "must not overlap", right},
        {"cos spans", "address", right},
        {"gpu_mha_rotary_desc.struct_size is 3", "sizeof(gpu_mha_rotary_desc)", right},
    };
    cases[0].desc.B = -1;
    cases[1].desc.H = 0;
    cases[2].desc.N = -3;
    cases[3].desc.D = 0;
    cases[4].desc.R = 7;
    cases[5].desc.R = 28;
    cases[6].desc.R = -2;
    cases[7].desc.D = 25;
    cases[8].desc.interleaved = 2;
    cases[9].desc.positions = (gpu_mha_index_type)3;
    cases[10].desc.P = 17;
    cases[11].desc.positions = GPU_MHA_I32;
    cases[12].desc.cache_type = (gpu_mha_type)5;
    cases[13].desc.input.layout = (gpu_mha_layout)3;
    cases[14].desc.output.layout = GPU_MHA_STRIDED;
    cases[15].desc.D = cases[15].desc.P = (int64_t)1 << 40;
    cases[15].desc.B = cases[15].desc.H = cases[15].desc.N = 1;
    cases[15].desc.positions = GPU_MHA_I64;
    cases[16].desc.struct_size = 3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpu_mha_rotary_arrays arrays = {0};
        gpu_mha_plan *plan = (gpu_mha_plan *)&arrays;
        EXPECT_REFUSED(gpu_mha_rotary(context, &cases[i].desc, &arrays), cases[i].field,
                       cases[i].words);
        EXPECT_REFUSED(gpu_mha_rotary_plan_create(context, &cases[i].desc, &plan), cases[i].field,
                       cases[i].words);
        ck_assert_ptr_null(plan);
    }
}
END_TEST

/* What the host knows is refused, before anything is written. _i: the width of the positions. */
START_TEST(positions_on_the_host_are_checked)
{
    static const struct {
        int64_t at, position;
        const char *field;
    } cases[] = {{0, -1, "positions[0][0] is -1"},
                 {N + 4, P, "positions[1][4] is 17"},
                 {2 * N - 1, INT32_MAX, "positions[1][10] is 2147483647"}};
    const gpu_mha_index_type type = _i ? GPU_MHA_I64 : GPU_MHA_I32;
    const struct shape shape = {.positions = type};
    const enum storage_type types[3] = {STORAGE_F32, STORAGE_F32, STORAGE_F32};
    const enum layout_kind kinds[2] = {LAYOUT_BHND, LAYOUT_BHND};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t given[B * N], meant[B * N];
        draw_positions(given);
        draw_positions(meant);
        given[cases[i].at] = cases[i].position;
        struct rotary r;
        rotary_open(&r, 400, &shape, types, kinds, given, meant);
        gpu_mha_rotary_arrays arrays = {.input = tensor_host(&r.input),
                                        .cos = tensor_host(&r.cos),
                                        .sin = tensor_host(&r.sin),
                                        .positions = integers_host(&r.positions),
                                        .output = tensor_host(&r.output)};
        EXPECT_REFUSED(gpu_mha_rotary(context, &r.desc, &arrays), cases[i].field,
                       "from 0 to P - 1, which is 16");
        for (int64_t n = 0; n < r.output.elements; n++) {
            ck_assert(storage_is_poison(STORAGE_F32, r.output.block, n, POISON_FF));
        }
        rotary_close(&r);
    }
}
END_TEST

START_TEST(wrong_arrays_are_refused)
{
    float x[2] = {0}, y[2], cosine = 1, sine = 0;
    const int32_t position = 0;
    gpu_mha_rotary_desc desc = {.B = 1, .H = 1, .N = 1, .D = 2};
    gpu_mha_rotary_arrays arrays = {
        .input = x, .cos = &cosine, .sin = &sine, .positions = &position, .output = y};
    EXPECT_REFUSED(gpu_mha_rotary(context, &desc, &arrays), "positions is given",
                   "does not ask for it");
    desc.positions = GPU_MHA_I32;
    desc.P = 1;
    ok(gpu_mha_rotary(context, &desc, &arrays));
    gpu_mha_rotary_arrays wrong[5] = {arrays, arrays, arrays, arrays, arrays};
    static const char *const names[5] = {"input is NULL", "cos is NULL", "sin is NULL",
                                         "positions is NULL", "output is NULL"};
    wrong[0].input = NULL;
    wrong[1].cos = NULL;
    wrong[2].sin = NULL;
    wrong[3].positions = NULL;
    wrong[4].output = NULL;
    for (int i = 0; i < 5; i++) {
        EXPECT_REFUSED(gpu_mha_rotary(context, &desc, &wrong[i]), names[i], "asks for it");
    }
    EXPECT_REFUSED(gpu_mha_rotary(context, &desc, NULL), "arrays is NULL", "needed");
    EXPECT_REFUSED(gpu_mha_rotary(context, NULL, &arrays), "desc is NULL", "needed");
    EXPECT_REFUSED(gpu_mha_rotary_plan_create(context, &desc, NULL), "plan is NULL", "needed");
}
END_TEST

/* B 1, H 2, N 2, D 4, f32, everything in one buffer: 16 elements a tensor, 4 of cos and sin. */
START_TEST(overlapping_buffers_are_refused)
{
    const gpu_mha_rotary_desc desc = {.B = 1, .H = 2, .N = 2, .D = 4};
    gpu_mha_rotary_desc narrow = desc;
    narrow.output.type = GPU_MHA_F16;
    static const struct {
        uint64_t output;
        const char *field;
    } cases[] = {{0, NULL},
                 {16, NULL},
                 {15, "output overlaps input"},
                 {17, "output overlaps cos"},
                 {23, "output overlaps cos"},
                 {37, "output overlaps sin"},
                 {40, NULL}};
    cl_command_queue queue = queues[WAY_IN_ORDER];
    cl_int code;
    cl_mem mem =
        clCreateBuffer(gpu_mha_context_cl(context), CL_MEM_READ_WRITE, 56 * 4, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    gpu_mha_plan *plan, *narrow_plan;
    ok(gpu_mha_rotary_plan_create(context, &desc, &plan));
    ok(gpu_mha_rotary_plan_create(context, &narrow, &narrow_plan));
    gpu_mha_rotary_buffers b = {.input = {mem, 0}, .cos = {mem, 32}, .sin = {mem, 36}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        b.output = (gpu_mha_buffer){mem, cases[i].output};
        if (cases[i].field) {
            EXPECT_REFUSED(gpu_mha_rotary_enqueue(plan, queue, &b, 0, NULL, NULL), cases[i].field,
                           "apart from it");
        } else {
            ok(gpu_mha_rotary_enqueue(plan, queue, &b, 0, NULL, NULL));
        }
    }
    b.output.offset = 41;
    EXPECT_REFUSED(gpu_mha_rotary_enqueue(plan, queue, &b, 0, NULL, NULL), "output holds 224",
                   "offset 41");
    b.output.offset = 0;
    EXPECT_REFUSED(gpu_mha_rotary_enqueue(narrow_plan, queue, &b, 0, NULL, NULL),
                   "output overlaps input", "element size");
    b.positions = (gpu_mha_buffer){mem, 0};
    EXPECT_REFUSED(gpu_mha_rotary_enqueue(plan, queue, &b, 0, NULL, NULL), "positions is given",
                   "does not ask for it");
    clFinish(queue);
    gpu_mha_plan_release(plan);
    gpu_mha_plan_release(narrow_plan);
    clReleaseMemObject(mem);
}
END_TEST

/* Query and key of one interleaved product, each turned in place; the value beside them is kept. */
START_TEST(interleaved_tensors_turn_in_place)
{
    enum { HKV = 1, DV = 5, ROW = H * D + HKV * D + HKV * DV, TOTAL = B * N * ROW };
    struct layout q, k, v;
    layout_make_qkv(B, N, H, HKV, D, DV, 0, &q, &k, &v);
    float *data = calloc(TOTAL, sizeof *data), *cosines = calloc(B * N * D / 2, sizeof *cosines);
    float *sines = calloc(B * N * D / 2, sizeof *sines);
    ck_assert(data && cosines && sines);
    for (int n = 0; n < TOTAL; n++) {
        data[n] = (float)(n + 1);
    }
    for (int n = 0; n < B * N * D / 2; n++) {
        sines[n] = 1; /* right angles: (x1, x2) -> (-x2, x1) */
    }
    const struct layout *turned[2] = {&q, &k};
    for (int t = 0; t < 2; t++) {
        const struct layout *l = turned[t];
        gpu_mha_rotary_desc desc = {.B = B, .H = l->H, .N = N, .D = D, .interleaved = 1};
        desc.input =
            (gpu_mha_tensor){GPU_MHA_F32, GPU_MHA_STRIDED, l->stride_b, l->stride_h, l->stride_n};
        desc.output = desc.input;
        gpu_mha_rotary_arrays arrays = {
            .input = data + l->offset, .cos = cosines, .sin = sines, .output = data + l->offset};
        ok(gpu_mha_rotary(context, &desc, &arrays));
    }
    for (int n = 0; n < TOTAL; n++) {
        const int column = n % ROW, is_value = column >= (H + HKV) * D;
        const int want = is_value ? n + 1 : column % 2 ? n : -(n + 2);
        ASSERT_DOUBLE_SAME((double)data[n], (double)want);
    }
    free(data);
    free(cosines);
    free(sines);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rotary");
    TCase *tcase = tcase_create("rotary");
    tcase_add_checked_fixture(tcase, open_context, close_context);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, rotates_as_the_reference_does, 0, 9 * SHAPE_COUNT);
    tcase_add_loop_test(tcase, rotates_in_place, 0, 4 * SHAPE_COUNT);
    tcase_add_loop_test(tcase, positions_on_the_device_are_clamped, 0, 2);
    tcase_add_test(tcase, the_rest_is_copied_bit_for_bit);
    tcase_add_test(tcase, an_input_may_broadcast);
    tcase_add_loop_test(tcase, empty_problems_succeed, 0, 3);
    tcase_add_test(tcase, wrong_descriptors_are_refused);
    tcase_add_loop_test(tcase, positions_on_the_host_are_checked, 0, 2);
    tcase_add_test(tcase, wrong_arrays_are_refused);
    tcase_add_test(tcase, overlapping_buffers_are_refused);
    tcase_add_test(tcase, interleaved_tensors_turn_in_place);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
