/*
 * product.h - matrix products through host/blas/gemm.h, against sums in float64.
 */
#ifndef MHA_TESTS_PRODUCT_H
#define MHA_TESTS_PRODUCT_H

#include "blas/gemm.h"
#include "harness/storage.h"

/* Checked: a driver in use does not survive the fork in front of a test. */
void product_open(void);
void product_close(void);
extern gpu_mha_context *product_context;
extern cl_command_queue product_ordered, product_unordered;

#define ASSERT_OK(call) ck_assert_msg((call) == GPU_MHA_OK, "%s", gpu_mha_last_error())

/* One operand: a matrix with gaps, at an offset in a buffer full of NaN. */
struct matrix {
    int64_t rows, columns, stride, offset, span;
    double *dense;
    float *host; /* the whole buffer as it must look in front of the product */
    cl_mem mem;
};

void matrix_make(struct matrix *m, int64_t rows, int64_t columns, int64_t stride, int64_t offset);
void matrix_fill(struct matrix *m, struct rng *rng);
void matrix_upload(struct matrix *m);
void matrix_free(struct matrix *m);

void product_prepare(struct mha_gemm *gemm, const struct mha_gemm_kind *kind,
                     const struct matrix *a, const struct matrix *w, const struct matrix *c);

/*
 * Runs the product on `queue` and reads C back: its elements to c->dense, and everything else of
 * the buffer must be as it was. `bias` may be NULL. What A holds arrives by a command that has not
 * run yet when the product is put on the queue: a launch that does not wait would multiply NaN.
 */
void product_run(struct mha_gemm *gemm, cl_command_queue queue, struct matrix *a, struct matrix *w,
                 struct matrix *bias, struct matrix *c);

/* Every element of C, within the reference's bound. */
void product_check(const struct matrix *a, const struct matrix *w, const struct matrix *bias,
                   const struct matrix *c);

/*
 * A product of random matrices, all strides and offsets different: prepared, run and checked. With
 * `split` > 0 CLBlast puts so many rows into a launch. `block`, if not NULL, is how many tiles of
 * rows and of columns a work-item of the tile kernel owns.
 */
struct product_shape {
    int64_t M, N, K, split;
    int has_bias;
};

void product_try(const struct product_shape *shape, const struct mha_gemm_kind *kind,
                 cl_command_queue queue, const int *block, uint64_t seed);

#endif
