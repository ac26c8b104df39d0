/*
 * Products by the register tile of the attention kernels (kernels/gemm.cl): W is packed into the
 * scratch, rows of A are read where they lie.
 */
#include "cl/tile.h"
#include "blas/gemm.h"
#include "common/gemm_params.h"

static gpu_mha_status prepare(gpu_mha_context *context, struct mha_gemm *gemm)
{
    const struct mha_gemm_shape *s = &gemm->shape;
    struct mha_tile tile;
    MHA_TRY(mha_tile_choose(&context->device, s->M, 0, &tile));
    /* The last tile begins MQ rows before the end. */
    while (tile.MQ > s->M) {
        tile.MQ = tile.MQ / 2;
    }
    const int64_t KT = (int64_t)tile.VEC * tile.NV;
    gemm->column_tiles = mha_size_ceil_div(s->N, KT);
    gemm->product_tiles = mha_size_mul(gemm->column_tiles, mha_size_ceil_div(s->M, tile.MQ));
    const int64_t packed = mha_size_mul(mha_size_mul(gemm->column_tiles, KT), s->K);
    const int64_t bytes = mha_size_mul(packed, (int64_t)sizeof(float));
    MHA_RETURN_IF(!mha_size_fits(bytes) || !mha_size_fits(gemm->product_tiles), GPU_MHA_UNSUPPORTED,
                  "a product is more than this machine can address");
    gemm->scratch_bytes = (size_t)bytes;

    struct mha_options options = {{0}};
    mha_tile_options(&options, &tile, 1, 1);
    mha_options_int(&options, "A_STRIDE", s->a_stride);
    gpu_mha_status status = mha_kernel_create(context->programs, &context->device, "gemm.cl",
                                              "gemm_pack", &options, tile.local, &gemm->pack);
    if (status == GPU_MHA_OK) {
        status = mha_kernel_create(context->programs, &context->device, "gemm.cl", "gemm_product",
                                   &options, tile.local, &gemm->product);
    }
    mha_options_free(&options);
    return status;
}

/* The kernels are built when they are prepared. */
static gpu_mha_status warm(gpu_mha_context *context)
{
    (void)context;
    return GPU_MHA_OK;
}

static gpu_mha_status launch(struct mha_gemm *gemm, struct mha_chain *chain, gpu_mha_buffer a,
                             gpu_mha_buffer w, gpu_mha_buffer c, gpu_mha_buffer scratch)
{
    const struct mha_gemm_shape *s = &gemm->shape;
    const struct mha_gemm_params p = {.M = s->M,
                                      .N = s->N,
                                      .K = s->K,
                                      .a_offset = (mha_i64)a.offset,
                                      .w_offset = (mha_i64)w.offset,
                                      .c_offset = (mha_i64)c.offset,
                                      .packed_w = (mha_i64)(scratch.offset / sizeof(float)),
                                      .w_stride = s->w_stride,
                                      .c_stride = s->c_stride};
    const struct mha_arg pack[] = {MHA_ARG(p), MHA_ARG(w.mem), MHA_ARG(scratch.mem)};
    MHA_TRY(mha_chain_launch(chain, &gemm->pack, (size_t)gemm->column_tiles, pack, 3));
    const struct mha_arg product[] = {MHA_ARG(p), MHA_ARG(a.mem), MHA_ARG(c.mem),
                                      MHA_ARG(scratch.mem)};
    return mha_chain_launch(chain, &gemm->product, (size_t)gemm->product_tiles, product, 4);
}

const struct mha_gemm_kind mha_gemm_tile = {"tile", prepare, warm, launch};
