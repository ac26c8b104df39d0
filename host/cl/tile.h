/*
 * The register tile of kernels/common/tile.h: its shape on a device, and its definitions for a
 * build. Attention and products use the same one.
 */
#ifndef MHA_CL_TILE_H
#define MHA_CL_TILE_H

#include "cl/device.h"
#include "cl/options.h"

struct mha_tile {
    int MQ, VEC, NV, TB;
    size_t local; /* work-items per group */
};

/*
 * The tile for `rows` query rows, each of which keeps `row_floats` floats in private memory. From
 * the tuning table, or the environment variable GPU_MHA_TILE, "MQ,VEC,NV,TB"; then MQ is lowered
 * where there are fewer rows, or where they would not fit.
 */
gpu_mha_status mha_tile_choose(const struct mha_device *device, int64_t rows, int64_t row_floats,
                               struct mha_tile *tile);

/*
 * The tile of kernels/decode.cl for `rows` rows, or *fits = 0 where that kernel is not the one to
 * take: on a GPU, with many rows, or when GPU_MHA_TILE names a tile. With MQ 0 GPU_MHA_TILE asks
 * for the decode kernel, of its VEC.
 */
gpu_mha_status mha_tile_choose_decode(const struct mha_device *device, int64_t rows,
                                      int64_t row_floats, struct mha_tile *tile, int *fits);

/* -D names of kernels/common/tile.h. */
void mha_tile_options(struct mha_options *options, const struct mha_tile *tile, int64_t DK,
                      int64_t DV);

#endif
