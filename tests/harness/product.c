/* Matrix products for tests; see product.h. */
#include "harness/product.h"

#include "cl/tile.h"
#include "harness/assertions.h"
#include "harness/queue.h"
#include "reference/reference.h"

#include <stdlib.h>
#include <string.h>

gpu_mha_context *product_context;
cl_command_queue product_ordered, product_unordered;

void product_open(void)
{
    ASSERT_OK(gpu_mha_context_create(NULL, &product_context));
    product_ordered = queue_make(product_context, 0);
    product_unordered = queue_make(product_context, 1);
}

void product_close(void)
{
    clReleaseCommandQueue(product_ordered);
    clReleaseCommandQueue(product_unordered);
    gpu_mha_context_release(product_context);
}

void matrix_make(struct matrix *m, int64_t rows, int64_t columns, int64_t stride, int64_t offset)
{
    *m = (struct matrix){rows, columns, stride, offset, offset + rows * stride + 5,
                         NULL, NULL,    NULL};
    m->dense = alloc_doubles(rows * columns);
    m->host = malloc((size_t)m->span * sizeof(float));
    ck_assert_ptr_nonnull(m->host);
    storage_poison(STORAGE_F32, m->host, m->span, POISON_NAN);
}

void matrix_fill(struct matrix *m, struct rng *rng)
{
    fill_normal_as(rng, STORAGE_F32, m->dense, m->rows * m->columns, 0, 1);
    for (int64_t r = 0; r < m->rows; ++r) {
        storage_pack(STORAGE_F32, m->host + m->offset + r * m->stride, m->dense + r * m->columns,
                     m->columns);
    }
}

void matrix_upload(struct matrix *m)
{
    cl_int code = CL_SUCCESS;
    m->mem = clCreateBuffer(product_context->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
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

void matrix_free(struct matrix *m)
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

/* Scratch full of ones, of which a product may change no more than it said. */
static cl_mem make_scratch(size_t bytes, size_t around)
{
    const size_t size = bytes + 2 * around;
    cl_int code = CL_SUCCESS;
    void *ones = malloc(size);
    ck_assert_ptr_nonnull(ones);
    memset(ones, 0xff, size);
    cl_mem scratch = clCreateBuffer(product_context->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                    size, ones, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    free(ones);
    return scratch;
}

static void check_scratch(cl_mem scratch, size_t bytes, size_t around)
{
    unsigned char *got = malloc(bytes + 2 * around);
    ck_assert_ptr_nonnull(got);
    ck_assert_int_eq(clEnqueueReadBuffer(product_ordered, scratch, CL_TRUE, 0, bytes + 2 * around,
                                         got, 0, NULL, NULL),
                     CL_SUCCESS);
    for (size_t x = 0; x < around; ++x) {
        ck_assert_msg(got[x] == 0xff && got[around + bytes + x] == 0xff,
                      "byte %zu beside the scratch was written", x);
    }
    free(got);
}

/* A buffer like `m`, still full of NaN, and a copy of m's to it that waits for `gate`. */
static cl_mem copy_later(const struct matrix *m, cl_command_queue queue, cl_event gate,
                         cl_event *copied)
{
    const size_t bytes = (size_t)m->span * sizeof(float);
    cl_int code = CL_SUCCESS;
    float *nan = malloc(bytes);
    ck_assert_ptr_nonnull(nan);
    storage_poison(STORAGE_F32, nan, m->span, POISON_NAN);
    cl_mem mem = clCreateBuffer(product_context->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                bytes, nan, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    ck_assert_int_eq(clEnqueueCopyBuffer(queue, m->mem, mem, 0, 0, bytes, 1, &gate, copied),
                     CL_SUCCESS);
    free(nan);
    return mem;
}

void product_run(struct mha_gemm *gemm, cl_command_queue queue, struct matrix *a, struct matrix *w,
                 struct matrix *bias, struct matrix *c)
{
    const size_t around = 3 * gemm->align_bytes;
    cl_int code = CL_SUCCESS;
    cl_mem scratch = make_scratch(gemm->scratch_bytes, around);
    cl_event gate = clCreateUserEvent(product_context->cl, &code), copied = NULL, done = NULL;
    ck_assert_int_eq(code, CL_SUCCESS);
    cl_mem late = copy_later(a, queue, gate, &copied);
    const gpu_mha_buffer late_a = {late, (uint64_t)a->offset};
    const gpu_mha_buffer none = {NULL, 0};

    struct mha_chain chain;
    mha_chain_begin(&chain, queue, 1, &copied);
    const gpu_mha_status status =
        mha_gemm_launch(gemm, &chain, late_a, at(w), bias != NULL ? at(bias) : none, at(c),
                        (gpu_mha_buffer){scratch, around});
    ASSERT_OK(mha_chain_end(&chain, status, &done));
    clSetUserEventStatus(gate, CL_COMPLETE);
    ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);

    matrix_download(c, queue);
    check_scratch(scratch, gemm->scratch_bytes, around);
    clReleaseEvent(gate);
    clReleaseEvent(copied);
    clReleaseEvent(done);
    clReleaseMemObject(scratch);
    clReleaseMemObject(late);
}

void product_prepare(struct mha_gemm *gemm, const struct mha_gemm_kind *kind,
                     const struct matrix *a, const struct matrix *w, const struct matrix *c)
{
    const struct mha_gemm_shape shape = {a->rows,   w->rows,   a->columns,
                                         a->stride, w->stride, c->stride};
    ASSERT_OK(mha_gemm_prepare_with(kind, product_context, &shape, gemm));
}

void product_check(const struct matrix *a, const struct matrix *w, const struct matrix *bias,
                   const struct matrix *c)
{
    double *want = alloc_doubles(c->rows * c->columns),
           *bound = alloc_doubles(c->rows * c->columns);
    const struct ref_linear map = {.M = a->rows,
                                   .N = w->rows,
                                   .K = a->columns,
                                   .x = a->dense,
                                   .weight = w->dense,
                                   .bias = bias != NULL ? bias->dense : NULL};
    ref_linear(&map, want, bound);
    const int64_t dims[] = {c->rows, c->columns};
    ASSERT_ARRAYS("product", 2, dims, c->dense, want, bound);
    free(want);
    free(bound);
}

/* As the launch on a device with another number of cores may be. */
static void set_block(struct mha_gemm *gemm, const int *block)
{
    struct mha_tile tile;
    ASSERT_OK(mha_tile_for_product(&product_context->device, gemm->shape.M, &tile));
    gemm->block_rows = block[0];
    gemm->block_columns = block[1];
    gemm->product_items =
        mha_size_mul(mha_size_ceil_div(gemm->shape.M, (int64_t)tile.MQ * block[0]),
                     mha_size_ceil_div(gemm->column_tiles, block[1]));
}

void product_try(const struct product_shape *shape, const struct mha_gemm_kind *kind,
                 cl_command_queue queue, const int *block, uint64_t seed)
{
    struct rng rng;
    struct matrix a, w, bias, c;
    struct mha_gemm gemm;
    rng_seed(&rng, seed);
    matrix_make(&a, shape->M, shape->K, shape->K + 3, 41);
    matrix_make(&w, shape->N, shape->K, shape->K + 1, 7);
    matrix_make(&bias, 1, shape->N, shape->N + 4, 19);
    matrix_make(&c, shape->M, shape->N, shape->N + 2, 101);
    matrix_fill(&a, &rng);
    matrix_fill(&w, &rng);
    matrix_fill(&bias, &rng);
    matrix_upload(&a);
    matrix_upload(&w);
    matrix_upload(&bias);
    matrix_upload(&c);
    product_prepare(&gemm, kind, &a, &w, &c);
    if (shape->split > 0) {
        gemm.rows = shape->split;
    }
    if (block != NULL) {
        set_block(&gemm, block);
    }
    struct matrix *added = shape->has_bias && kind->adds_bias ? &bias : NULL;
    product_run(&gemm, queue, &a, &w, added, &c);
    product_check(&a, &w, added, &c);
    mha_gemm_destroy(&gemm);
    matrix_free(&a);
    matrix_free(&w);
    matrix_free(&bias);
    matrix_free(&c);
}
