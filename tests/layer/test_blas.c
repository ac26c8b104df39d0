/*
 * test_blas.c - matrix products behind host/blas/gemm.h, against sums in float64.
 */
#include "blas/gemm.h"
#include "blas/window.h"
#include "harness/assertions.h"
#include "harness/storage.h"
#include "reference/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gpu_mha_context *context;
static cl_command_queue ordered, unordered;

/* Checked: a driver in use does not survive the fork in front of a test. */
static void open_context(void)
{
    ck_assert_msg(gpu_mha_context_create(NULL, &context) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    cl_int code = CL_SUCCESS;
    ordered = clCreateCommandQueue(context->cl, context->device.id, 0, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    unordered = clCreateCommandQueue(context->cl, context->device.id,
                                     CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
}

static void close_context(void)
{
    clReleaseCommandQueue(ordered);
    clReleaseCommandQueue(unordered);
    gpu_mha_context_release(context);
}

#define ASSERT_OK(call) ck_assert_msg((call) == GPU_MHA_OK, "%s", gpu_mha_last_error())

/* Tests run with every implementation, whatever this device's own is. */
static const struct mha_gemm_kind *const kinds[] = {&mha_gemm_clblast, &mha_gemm_tile};
#define KINDS 2

/* One operand: a matrix with gaps, at an offset in a buffer full of NaN. */
struct matrix {
    int64_t rows, columns, stride, offset, span;
    double *dense;
    float *host; /* the whole buffer as it must look in front of the product */
    cl_mem mem;
};

static void matrix_make(struct matrix *m, int64_t rows, int64_t columns, int64_t stride,
                        int64_t offset)
{
    *m = (struct matrix){rows, columns, stride, offset, offset + rows * stride + 5,
                         NULL, NULL,    NULL};
    m->dense = alloc_doubles(rows * columns);
    m->host = malloc((size_t)m->span * sizeof(float));
    ck_assert_ptr_nonnull(m->host);
    storage_poison(STORAGE_F32, m->host, m->span, POISON_NAN);
}

static void matrix_fill(struct matrix *m, struct rng *rng)
{
    fill_normal_as(rng, STORAGE_F32, m->dense, m->rows * m->columns, 0, 1);
    for (int64_t r = 0; r < m->rows; ++r) {
        storage_pack(STORAGE_F32, m->host + m->offset + r * m->stride, m->dense + r * m->columns,
                     m->columns);
    }
}

static void matrix_upload(struct matrix *m)
{
    cl_int code = CL_SUCCESS;
    m->mem = clCreateBuffer(context->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                            (size_t)m->span * sizeof(float), m->host, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
}

/* Reads a result back: the elements to dense, everything else must be as it was. */
static void matrix_download(struct matrix *m, cl_command_queue queue)
{
    float *got = malloc((size_t)m->span * sizeof(float));
    ck_assert_ptr_nonnull(got);
    ck_assert_int_eq(clEnqueueReadBuffer(queue, m->mem, CL_TRUE, 0, (size_t)m->span * sizeof(float),
                                         got, 0, NULL, NULL),
                     CL_SUCCESS);
    for (int64_t x = 0; x < m->span; ++x) {
        const int64_t at = x - m->offset;
        if (at >= 0 && at / m->stride < m->rows && at % m->stride < m->columns) {
            m->dense[at / m->stride * m->columns + at % m->stride] = (double)got[x];
        } else {
            ck_assert_msg(storage_is_poison(STORAGE_F32, got, x, POISON_NAN),
                          "element %" PRId64 " outside of the matrix was written", x);
        }
    }
    free(got);
}

static void matrix_free(struct matrix *m)
{
    if (m->mem != NULL) {
        clReleaseMemObject(m->mem);
    }
    free(m->dense);
    free(m->host);
}

static gpu_mha_buffer at(const struct matrix *m)
{
    return (gpu_mha_buffer){m->mem, (uint64_t)m->offset};
}

/*
 * Runs the product on `queue`. What A holds arrives by a command that has not run yet when the
 * product is put on the queue: a launch that does not wait would multiply NaN.
 */
static void multiply(struct mha_gemm *gemm, cl_command_queue queue, struct matrix *a,
                     struct matrix *w, struct matrix *c)
{
    cl_int code = CL_SUCCESS;
    const size_t scratch_bytes = gemm->scratch_bytes + 8 * gemm->align_bytes;
    cl_mem scratch = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, scratch_bytes, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    cl_mem source = a->mem;
    float *nan = malloc((size_t)a->span * sizeof(float));
    ck_assert_ptr_nonnull(nan);
    storage_poison(STORAGE_F32, nan, a->span, POISON_NAN);
    a->mem = clCreateBuffer(context->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                            (size_t)a->span * sizeof(float), nan, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    cl_event gate = clCreateUserEvent(context->cl, &code), copied = NULL, done = NULL;
    ck_assert_int_eq(code, CL_SUCCESS);
    ck_assert_int_eq(clEnqueueCopyBuffer(queue, source, a->mem, 0, 0,
                                         (size_t)a->span * sizeof(float), 1, &gate, &copied),
                     CL_SUCCESS);

    const gpu_mha_buffer none = {NULL, 0};
    struct mha_chain chain;
    mha_chain_begin(&chain, queue, 1, &copied);
    const gpu_mha_status status = mha_gemm_launch(gemm, &chain, at(a), at(w), none, at(c),
                                                  (gpu_mha_buffer){scratch, 3 * gemm->align_bytes});
    ASSERT_OK(mha_chain_end(&chain, status, &done));
    clSetUserEventStatus(gate, CL_COMPLETE);
    ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);

    matrix_download(c, queue);
    clReleaseEvent(gate);
    clReleaseEvent(copied);
    clReleaseEvent(done);
    clReleaseMemObject(scratch);
    clReleaseMemObject(source);
    free(nan);
}

static void prepare(struct mha_gemm *gemm, const struct mha_gemm_kind *kind, const struct matrix *a,
                    const struct matrix *w, const struct matrix *c)
{
    const struct mha_gemm_shape shape = {a->rows,   w->rows,   a->columns,
                                         a->stride, w->stride, c->stride};
    ASSERT_OK(mha_gemm_prepare_with(kind, context, &shape, gemm));
    ASSERT_OK(mha_gemm_warm(context, gemm));
}

static void check(const struct matrix *a, const struct matrix *w, const struct matrix *c)
{
    double *want = alloc_doubles(c->rows * c->columns),
           *bound = alloc_doubles(c->rows * c->columns);
    const struct ref_linear map = {
        .M = a->rows, .N = w->rows, .K = a->columns, .x = a->dense, .weight = w->dense};
    ref_linear(&map, want, bound);
    const int64_t dims[] = {c->rows, c->columns};
    ASSERT_ARRAYS("product", 2, dims, c->dense, want, bound);
    free(want);
    free(bound);
}

static const struct {
    int64_t M, N, K, split; /* split: rows per launch of CLBlast, 0 = as prepared */
} shapes[] = {
    {1, 1, 1, 0},      {7, 5, 3, 0},  {1, 70, 33, 0},  {66, 1, 17, 0}, {64, 32, 96, 0},
    {130, 61, 200, 0}, {13, 9, 5, 4}, {12, 11, 19, 3}, {5, 3, 7, 1},
};

static void try_shape(int index, const struct mha_gemm_kind *kind, cl_command_queue queue)
{
    struct rng rng;
    rng_seed(&rng, 100 + (uint64_t)index);
    struct matrix a, w, c;
    matrix_make(&a, shapes[index].M, shapes[index].K, shapes[index].K + 3, 41);
    matrix_make(&w, shapes[index].N, shapes[index].K, shapes[index].K + 1, 7);
    matrix_make(&c, shapes[index].M, shapes[index].N, shapes[index].N + 2, 101);
    matrix_fill(&a, &rng);
    matrix_fill(&w, &rng);
    matrix_upload(&a);
    matrix_upload(&w);
    matrix_upload(&c);
    struct mha_gemm gemm;
    prepare(&gemm, kind, &a, &w, &c);
    if (shapes[index].split > 0) {
        gemm.rows = shapes[index].split;
    }
    multiply(&gemm, queue, &a, &w, &c);
    check(&a, &w, &c);
    mha_gemm_destroy(&gemm);
    matrix_free(&a);
    matrix_free(&w);
    matrix_free(&c);
}

START_TEST(products_on_an_in_order_queue)
{
    try_shape(_i / KINDS, kinds[_i % KINDS], ordered);
}
END_TEST

START_TEST(products_on_an_out_of_order_queue)
{
    try_shape(_i / KINDS, kinds[_i % KINDS], unordered);
}
END_TEST

/* Beyond some size CLBlast pads and copies, and needs scratch. */
START_TEST(a_large_product_keeps_to_its_scratch_and_nan_to_its_row)
{
    struct matrix a, w, c;
    struct mha_gemm gemm = {.scratch_bytes = 0};
    int64_t size = 509;
    for (; size < 4096; size += 512) {
        const struct mha_gemm_shape shape = {size, size - 2, size + 2, size + 2, size + 2, size};
        ASSERT_OK(mha_gemm_prepare_with(&mha_gemm_clblast, context, &shape, &gemm));
        if (gemm.scratch_bytes > 0) {
            break;
        }
    }
    if (gemm.scratch_bytes == 0) {
        printf("skipped: CLBlast needs no scratch on this device\n");
        return;
    }
    struct rng rng;
    rng_seed(&rng, 77);
    matrix_make(&a, size, size + 2, size + 2, 33);
    matrix_make(&w, size - 2, size + 2, size + 2, 3);
    matrix_make(&c, size, size - 2, size, 65);
    matrix_fill(&a, &rng);
    matrix_fill(&w, &rng);
    const int64_t lost = 200;
    storage_poison(STORAGE_F32, a.host + a.offset + lost * a.stride, a.columns, POISON_NAN);
    matrix_upload(&a);
    matrix_upload(&w);
    matrix_upload(&c);
    prepare(&gemm, kinds[_i], &a, &w, &c);
    multiply(&gemm, unordered, &a, &w, &c);
    for (int64_t m = 0; m < c.rows; ++m) {
        for (int64_t n = 0; n < c.columns; ++n) {
            ck_assert_msg(!isnan(c.dense[m * c.columns + n]) == (m != lost),
                          "element (%" PRId64 ", %" PRId64 ") is %g", m, n,
                          c.dense[m * c.columns + n]);
        }
    }
    /* Every element in float64 would take a minute. */
    for (int x = 0; x < 4000; ++x) {
        const int64_t m = rng_below(&rng, c.rows), n = rng_below(&rng, c.columns);
        double want, bound;
        const struct ref_linear map = {.M = 1,
                                       .N = 1,
                                       .K = a.columns,
                                       .x = a.dense + m * a.columns,
                                       .weight = w.dense + n * w.columns};
        ref_linear(&map, &want, &bound);
        if (m != lost) {
            ASSERT_DOUBLE_NEAR(c.dense[m * c.columns + n], want, bound);
        }
    }
    mha_gemm_destroy(&gemm);
    matrix_free(&a);
    matrix_free(&w);
    matrix_free(&c);
}
END_TEST

START_TEST(an_empty_product_launches_nothing)
{
    const struct mha_gemm_shape empty[] = {{0, 3, 4, 4, 4, 3}, {3, 0, 4, 4, 4, 1}};
    const gpu_mha_buffer none = {NULL, 0};
    struct mha_gemm gemm;
    struct mha_chain chain;
    ASSERT_OK(mha_gemm_prepare(context, &empty[_i], &gemm));
    ASSERT_OK(mha_gemm_warm(context, &gemm));
    ck_assert_uint_eq(gemm.scratch_bytes, 0);
    mha_chain_begin(&chain, ordered, 0, NULL);
    ASSERT_OK(mha_gemm_launch(&gemm, &chain, none, none, none, none, none));
    ck_assert_ptr_null(chain.last);
}
END_TEST

START_TEST(what_cannot_be_counted_is_unsupported)
{
    const int64_t huge = INT64_C(1) << 40, wide = INT64_C(1) << 17;
    const struct {
        struct mha_gemm_shape shape;
        const char *message;
    } cases[] = {
        {{2, wide, wide, wide, wide, wide}, "a weight of (131072, 131072) is too large"},
        {{huge, huge, huge, huge, huge, huge}, "is more than this machine can address"},
    };
    struct mha_gemm gemm;
    ck_assert_int_eq(mha_gemm_prepare_with(&mha_gemm_clblast, context, &cases[_i].shape, &gemm),
                     GPU_MHA_UNSUPPORTED);
    ck_assert_msg(strstr(gpu_mha_last_error(), cases[_i].message) != NULL, "%s",
                  gpu_mha_last_error());
}
END_TEST

/* 2^34 elements of A, more than one launch can count: as many rows go into one as it can. */
START_TEST(many_rows_are_split)
{
    const struct mha_gemm_shape shape = {INT64_C(1) << 24, 1000, 1024, 1024, 1024, 1000};
    struct mha_gemm gemm;
    ASSERT_OK(mha_gemm_prepare_with(&mha_gemm_clblast, context, &shape, &gemm));
    const int64_t scratch = (int64_t)(gemm.scratch_bytes / sizeof(float));
    const int64_t most = scratch > gemm.rows * shape.K ? scratch : gemm.rows * shape.K;
    ck_assert(most <= INT32_MAX);
    ck_assert(most > INT32_MAX / 3);
}
END_TEST

START_TEST(a_window_opens_in_a_part_of_a_part)
{
    const size_t align = context->device.base_align_bytes;
    const cl_buffer_region half = {align * 2, align * 6};
    float values[4];
    cl_int code = CL_SUCCESS;
    cl_mem whole = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, align * 8, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    cl_mem part = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    for (size_t x = 0; x < align * 2; ++x) { /* align * 8 / sizeof(float) */
        const float value = (float)x;
        clEnqueueWriteBuffer(ordered, whole, CL_TRUE, x * sizeof value, sizeof value, &value, 0,
                             NULL, NULL);
    }
    const size_t floats = align / sizeof(float);
    struct mha_window window;
    ASSERT_OK(mha_window_open((gpu_mha_buffer){part, floats + 5}, 4, align, "part", &window));
    ck_assert_uint_eq(window.offset, 5 % floats);
    ck_assert_int_eq(clEnqueueReadBuffer(ordered, window.mem, CL_TRUE,
                                         window.offset * sizeof(float), sizeof values, values, 0,
                                         NULL, NULL),
                     CL_SUCCESS);
    for (size_t x = 0; x < 4; ++x) {
        ck_assert_float_eq(values[x], (float)(floats * 3 + 5 + x));
    }
    mha_window_close(&window);
    mha_window_close(&window);
    ck_assert_int_ne(mha_window_open((gpu_mha_buffer){part, floats * 7}, 4, align, "part", &window),
                     GPU_MHA_OK);
    ck_assert_ptr_null(window.mem);
    clReleaseMemObject(part);
    clReleaseMemObject(whole);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("blas");
    TCase *tests = tcase_create("blas");
    tcase_set_timeout(tests, 250);
    tcase_add_checked_fixture(tests, open_context, close_context);
    const int shape_count = (int)(sizeof shapes / sizeof shapes[0]);
    tcase_add_loop_test(tests, products_on_an_in_order_queue, 0, shape_count * KINDS);
    tcase_add_loop_test(tests, products_on_an_out_of_order_queue, 0, shape_count * KINDS);
    tcase_add_loop_test(tests, a_large_product_keeps_to_its_scratch_and_nan_to_its_row, 0, KINDS);
    tcase_add_loop_test(tests, an_empty_product_launches_nothing, 0, 2);
    tcase_add_loop_test(tests, what_cannot_be_counted_is_unsupported, 0, 2);
    tcase_add_test(tests, many_rows_are_split);
    tcase_add_test(tests, a_window_opens_in_a_part_of_a_part);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
