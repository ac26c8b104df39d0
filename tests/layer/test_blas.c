/*
 * test_blas.c - matrix products behind host/blas/gemm.h, against sums in float64.
 */
#include "blas/window.h"
#include "harness/assertions.h"
#include "harness/product.h"
#include "reference/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tests run with every implementation, whatever this device's own is. */
static const struct mha_gemm_kind *const kinds[] = {&mha_gemm_clblast, &mha_gemm_tile};
#define KINDS 2

/*
 * split: rows per launch of CLBlast, 0 = as prepared. Beside small ones: tiles of rows and columns
 * that are full, one more and one less; K that is a multiple of what is worked on at a time (256,
 * 512, 1024, 2048), one more and one less; blocks of columns that do not divide.
 */
static const struct product_shape shapes[] = {
    {1, 1, 1, 0, 1},     {7, 5, 3, 0, 0},      {1, 70, 33, 0, 1},   {66, 1, 17, 0, 1},
    {64, 32, 96, 0, 0},  {130, 61, 200, 0, 1}, {13, 9, 5, 4, 1},    {12, 11, 19, 3, 0},
    {5, 3, 7, 1, 1},     {13, 33, 256, 0, 0},  {24, 64, 257, 0, 1}, {25, 31, 1024, 0, 0},
    {12, 17, 512, 0, 0}, {11, 16, 1025, 0, 1}, {4, 15, 2048, 0, 1}, {1, 18, 2063, 0, 0},
    {3, 32, 2049, 0, 0}, {99, 805, 20, 0, 1},  {400, 33, 16, 0, 0},
};

START_TEST(products_on_an_in_order_queue)
{
    product_try(&shapes[_i / KINDS], kinds[_i % KINDS], product_ordered, NULL, 100 + (uint64_t)_i);
}
END_TEST

START_TEST(products_on_an_out_of_order_queue)
{
    product_try(&shapes[_i / KINDS], kinds[_i % KINDS], product_unordered, NULL,
                200 + (uint64_t)_i);
}
END_TEST

/* The tiles of CPUs with other vectors, and odd ones. */
START_TEST(products_of_every_tile)
{
    static const char *const tiles[] = {"12,16,2,8", "6,8,2,16", "6,4,2,32", "1,4,2,2", "5,16,1,3"};
    ck_assert_int_eq(setenv("GPU_MHA_TILE", tiles[_i], 1), 0);
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; ++s) {
        product_try(&shapes[s], &mha_gemm_tile, product_ordered, NULL, 300 + s);
    }
}
END_TEST

/* Blocks that divide neither rows nor columns, and the largest ones. */
START_TEST(products_of_every_block)
{
    static const int columns[] = {1, 2, 3, 5, 12};
    ck_assert_int_eq(setenv("GPU_MHA_TILE", "6,8,2,16", 1), 0);
    for (int rows = 1; rows <= 4; ++rows) {
        for (size_t c = 0; c < sizeof columns / sizeof columns[0]; ++c) {
            const struct product_shape shape = {40, 165, 19, 0, 1};
            const int block[] = {rows, columns[c]};
            product_try(&shape, &mha_gemm_tile, product_ordered, block, 500 + c);
        }
    }
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
        ASSERT_OK(mha_gemm_prepare_with(&mha_gemm_clblast, product_context, &shape, &gemm));
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
    product_prepare(&gemm, kinds[_i], &a, &w, &c);
    product_run(&gemm, product_unordered, &a, &w, NULL, &c);
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
    ASSERT_OK(mha_gemm_prepare(product_context, &empty[_i], &gemm));
    ck_assert_uint_eq(gemm.scratch_bytes, 0);
    mha_chain_begin(&chain, product_ordered, 0, NULL);
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
    ck_assert_int_eq(
        mha_gemm_prepare_with(&mha_gemm_clblast, product_context, &cases[_i].shape, &gemm),
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
    ASSERT_OK(mha_gemm_prepare_with(&mha_gemm_clblast, product_context, &shape, &gemm));
    const int64_t scratch = (int64_t)(gemm.scratch_bytes / sizeof(float));
    const int64_t most = scratch > gemm.rows * shape.K ? scratch : gemm.rows * shape.K;
    ck_assert(most <= INT32_MAX);
    ck_assert(most > INT32_MAX / 3);
}
END_TEST

START_TEST(a_window_opens_in_a_part_of_a_part)
{
    const size_t align = product_context->device.base_align_bytes;
    const cl_buffer_region half = {align * 2, align * 6};
    float values[4];
    cl_int code = CL_SUCCESS;
    cl_mem whole = clCreateBuffer(product_context->cl, CL_MEM_READ_WRITE, align * 8, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    cl_mem part = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    for (size_t x = 0; x < align * 2; ++x) { /* align * 8 / sizeof(float) */
        const float value = (float)x;
        clEnqueueWriteBuffer(product_ordered, whole, CL_TRUE, x * sizeof value, sizeof value,
                             &value, 0, NULL, NULL);
    }
    const size_t floats = align / sizeof(float);
    struct mha_window window;
    ASSERT_OK(mha_window_open((gpu_mha_buffer){part, floats + 5}, 4, align, "part", &window));
    ck_assert_uint_eq(window.offset, 5 % floats);
    ck_assert_int_eq(clEnqueueReadBuffer(product_ordered, window.mem, CL_TRUE,
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
    tcase_add_checked_fixture(tests, product_open, product_close);
    const int shape_count = (int)(sizeof shapes / sizeof shapes[0]);
    tcase_add_loop_test(tests, products_on_an_in_order_queue, 0, shape_count * KINDS);
    tcase_add_loop_test(tests, products_on_an_out_of_order_queue, 0, shape_count * KINDS);
    tcase_add_loop_test(tests, products_of_every_tile, 0, 5);
    tcase_add_test(tests, products_of_every_block);
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
