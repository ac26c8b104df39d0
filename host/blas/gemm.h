/*
 * Matrix products for linear maps: C (M, N) = A (M, K) * W (N, K)^T in single precision. Prepared
 * once for its shape, launched any number of times from any thread.
 *
 * Behind it stands one of several implementations (struct mha_gemm_kind), chosen by device
 * and measurement (choose.c).
 */
#ifndef MHA_BLAS_GEMM_H
#define MHA_BLAS_GEMM_H

#include "cl/context.h"
#include "cl/tuned.h"
#include "core/size.h"

struct mha_gemm_shape {
    int64_t M, N, K;
    int64_t a_stride, w_stride, c_stride; /* elements from a row to the next: >= K, K and N */
};

struct mha_gemm;

struct mha_gemm_kind {
    const char *name;    /* for the plan's text and the tuning file */
    const char *variant; /* as gpu-mha doctor knows it */
    int adds_bias;       /* launch takes a bias */
    gpu_mha_status (*prepare)(gpu_mha_context *context, struct mha_gemm *gemm);
    gpu_mha_status (*launch)(struct mha_gemm *gemm, struct mha_chain *chain, gpu_mha_buffer a,
                             gpu_mha_buffer w, gpu_mha_buffer bias, gpu_mha_buffer c,
                             gpu_mha_buffer scratch);
};

struct mha_gemm {
    const struct mha_gemm_kind *kind; /* NULL if M or N is 0: nothing is launched */
    struct mha_gemm_shape shape;
    int64_t rows;         /* of A and C in one launch; what does not fit its counters is split */
    size_t align_bytes;   /* of the device: where a sub-buffer may begin */
    size_t scratch_bytes; /* that a launch needs */

    /* Of the tile implementation. */
    int thin;                            /* W is not packed: there is one kernel, `product` */
    int64_t column_tiles, product_items; /* work-items of the two kernels */
    int block_rows, block_columns;       /* tiles of a work-item of the second */
    struct mha_kernel pack, product;
};

/*
 * M and N may be 0, K is at least 1. GPU_MHA_UNSUPPORTED: too large for every implementation. One
 * that does not run on the device gives way to the other. Compiles all that a launch needs, which
 * may take seconds.
 */
gpu_mha_status mha_gemm_prepare(gpu_mha_context *context, const struct mha_gemm_shape *shape,
                                struct mha_gemm *gemm);

/*
 * The same as if nothing had been measured: the first implementation that the device runs, of those
 * that are not to be avoided.
 */
gpu_mha_status mha_gemm_prepare_default(gpu_mha_context *context,
                                        const struct mha_gemm_shape *shape, struct mha_gemm *gemm);

/* The same with one certain implementation. */
gpu_mha_status mha_gemm_prepare_with(const struct mha_gemm_kind *kind, gpu_mha_context *context,
                                     const struct mha_gemm_shape *shape, struct mha_gemm *gemm);

/* The key of products in the tuning file; the value is the name of an implementation. */
#define MHA_GEMM_KEY "product"
enum { MHA_GEMM_KINDS = 2 };

/* The implementations by number, 0 the one that is taken on a device of which nothing is known. */
const struct mha_gemm_kind *mha_gemm_candidate_of(const struct mha_device *device, int index);

/*
 * The same, those in front that gpu-mha doctor did not find to fail there: *sound of them. What is
 * taken without measurement is 0, if *sound is not 0.
 */
const struct mha_gemm_kind *mha_gemm_candidate(const struct mha_device *device, int index,
                                               int *sound);

/*
 * The implementation that mha_gemm_prepare takes: the measured one, with its *entry, or the
 * default, and entry->key is "". Where all are to be avoided it is one of them.
 */
const struct mha_gemm_kind *mha_gemm_kind_for(gpu_mha_context *context,
                                              struct mha_tuned_entry *entry);

void mha_gemm_destroy(struct mha_gemm *gemm); /* NULL-safe, also for a zeroed struct */

/*
 * Puts the product on the chain. `bias` (N) is added to every row of C; without one, and wherever
 * the kind does not add it, bias.mem is NULL. Offsets count elements, `scratch.offset` counts bytes
 * and is a multiple of align_bytes. C and scratch overlap nothing. On an out-of-order queue a
 * barrier may be put in front. A NaN or an infinity in a row of A reaches that row of C alone.
 */
gpu_mha_status mha_gemm_launch(struct mha_gemm *gemm, struct mha_chain *chain, gpu_mha_buffer a,
                               gpu_mha_buffer w, gpu_mha_buffer bias, gpu_mha_buffer c,
                               gpu_mha_buffer scratch);

/* The implementations. */
extern const struct mha_gemm_kind mha_gemm_clblast;
extern const struct mha_gemm_kind mha_gemm_tile;

#endif
