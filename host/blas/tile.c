/*
 * Products by the register tile of the attention kernels (kernels/gemm.cl). W is packed into the
 * scratch, unless there are so few rows that each element of W is wanted once.
 */
#include "cl/tile.h"

#include <inttypes.h>

#include "blas/gemm.h"
#include "cl/verdicts.h"
#include "common/gemm_params.h"
#include "core/log.h"

/* What it costs to copy a tile's rows, and to read packed columns that were not read just before,
 * in percent of the product of a tile. */
#define COPY_COST 60
#define COLUMN_COST 2

/* Columns of a block at most: a part of K of them stays in a core's cache. */
#define COLUMN_TILES_MAX 24

/*
 * How many tiles a work-item owns. Many make the copy of rows and the reading of columns cheap; few
 * keep all cores busy to the end. The pair with the earliest end is taken.
 */
static void choose_block(struct mha_gemm *gemm, int64_t row_tiles, int64_t cores)
{
    int64_t best = INT64_MAX;
    for (int rows = 1; rows <= MHA_GEMM_ROW_TILES; ++rows) {
        for (int columns = 1; columns <= COLUMN_TILES_MAX && rows * columns <= MHA_GEMM_TILES;
             ++columns) {
            const int64_t items = mha_size_mul(mha_size_ceil_div(row_tiles, rows),
                                               mha_size_ceil_div(gemm->column_tiles, columns));
            const int64_t one =
                (int64_t)rows * columns * 100 + rows * COPY_COST + columns * COLUMN_COST;
            const int64_t end = mha_size_mul(mha_size_ceil_div(items, cores), one);
            if (end < best) {
                best = end;
                gemm->block_rows = rows;
                gemm->block_columns = columns;
                gemm->product_items = items;
            }
        }
    }
}

/* The kernels of gemm.cl for a tile. */
static gpu_mha_status build(gpu_mha_context *context, const struct mha_tile *tile,
                            struct mha_gemm *gemm)
{
    struct mha_options options = {{0}};
    mha_tile_options(&options, tile, 1, 1);
    gpu_mha_status status = GPU_MHA_OK;
    if (gemm->thin) {
        status = mha_kernel_create(context->programs, &context->device, "gemm.cl", "gemm_thin",
                                   &options, tile->local, &gemm->product);
    } else {
        status = mha_kernel_create(context->programs, &context->device, "gemm.cl", "gemm_pack",
                                   &options, tile->local, &gemm->pack);
        if (status == GPU_MHA_OK) {
            status = mha_kernel_create(context->programs, &context->device, "gemm.cl",
                                       "gemm_product", &options, tile->local, &gemm->product);
        }
    }
    mha_options_free(&options);
    return status;
}

static gpu_mha_status prepare(gpu_mha_context *context, struct mha_gemm *gemm)
{
    const struct mha_gemm_shape *s = &gemm->shape;
    struct mha_tile tile;
    MHA_TRY(mha_tile_for_product(&context->device, s->M, &tile));
    /* The other kernel takes any number of rows. */
    gemm->thin = s->M <= tile.MQ && mha_verdict_to_avoid(&context->device, MHA_VARIANT_THIN, 0) ==
                                        GPU_MHA_VERDICT_NONE;
    if (gemm->thin) {
        gemm->product_items = mha_size_ceil_div(s->N, tile.VEC);
        return build(context, &tile, gemm);
    }
    const int64_t KT = (int64_t)tile.VEC * tile.NV;
    gemm->column_tiles = mha_size_ceil_div(s->N, KT);
    choose_block(gemm, mha_size_ceil_div(s->M, tile.MQ),
                 mha_size_mul(context->device.compute_units, (int64_t)tile.local));
    mha_log(MHA_LOG_DEBUG,
            "take %" PRId64 " blocks of %d x %d tiles of %dx%" PRId64 " for a product of %" PRId64
            " x %" PRId64 " x %" PRId64,
            gemm->product_items, gemm->block_rows, gemm->block_columns, tile.MQ, KT, s->M, s->N,
            s->K);
    const int64_t packed = mha_size_mul(mha_size_mul(gemm->column_tiles, KT), s->K);
    const int64_t bytes = mha_size_mul(packed, (int64_t)sizeof(float));
    MHA_RETURN_IF(!mha_size_fits(bytes) || !mha_size_fits(gemm->product_items), GPU_MHA_UNSUPPORTED,
                  "a product is more than this machine can address");
    gemm->scratch_bytes = (size_t)bytes;
    return build(context, &tile, gemm);
}

static gpu_mha_status launch(struct mha_gemm *gemm, struct mha_chain *chain, gpu_mha_buffer a,
                             gpu_mha_buffer w, gpu_mha_buffer bias, gpu_mha_buffer c,
                             gpu_mha_buffer scratch)
{
    const struct mha_gemm_shape *s = &gemm->shape;
    const struct mha_gemm_params p = {.M = s->M,
                                      .N = s->N,
                                      .K = s->K,
                                      .a_offset = (mha_i64)a.offset,
                                      .w_offset = (mha_i64)w.offset,
                                      .c_offset = (mha_i64)c.offset,
                                      .bias_offset = (mha_i64)bias.offset,
                                      .packed_w = (mha_i64)(scratch.offset / sizeof(float)),
                                      .a_stride = s->a_stride,
                                      .w_stride = s->w_stride,
                                      .c_stride = s->c_stride,
                                      .row_tiles = gemm->block_rows,
                                      .column_tiles = gemm->block_columns,
                                      .has_bias = bias.mem != NULL};
    /* A kernel wants a buffer in every place. */
    const cl_mem bias_mem = bias.mem != NULL ? bias.mem : w.mem;
    const size_t items = (size_t)gemm->product_items;
    if (gemm->thin) {
        const struct mha_arg args[] = {MHA_ARG(p), MHA_ARG(a.mem), MHA_ARG(w.mem), MHA_ARG(c.mem),
                                       MHA_ARG(bias_mem)};
        return mha_chain_launch(chain, &gemm->product, items, args, 5);
    }
    const struct mha_arg pack[] = {MHA_ARG(p), MHA_ARG(w.mem), MHA_ARG(scratch.mem)};
    MHA_TRY(mha_chain_launch(chain, &gemm->pack, (size_t)gemm->column_tiles, pack, 3));
    const struct mha_arg product[] = {MHA_ARG(p), MHA_ARG(a.mem), MHA_ARG(c.mem),
                                      MHA_ARG(scratch.mem), MHA_ARG(bias_mem)};
    return mha_chain_launch(chain, &gemm->product, items, product, 5);
}

const struct mha_gemm_kind mha_gemm_tile = {"tile", MHA_VARIANT_TILE, 1, prepare, launch};
