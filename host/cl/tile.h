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
 * "fused MQ,VEC,NV,TB", also with "heads" or without a word; "decode VEC", also "0,VEC,NV,TB",
 * gives MQ 0. `name` opens the sentence of a refusal. Leaves `local` 0.
 */
gpu_mha_status mha_tile_parse(const char *name, const char *text, struct mha_tile *tile);

/* The tuning table's tile for a device. */
struct mha_tile mha_tile_of(const struct mha_device *device);

/*
 * The tile of a matrix product with `rows` rows: from the tuning table, or the environment variable
 * GPU_MHA_TILE; MQ is lowered where there are fewer rows.
 */
gpu_mha_status mha_tile_for_product(const struct mha_device *device, int64_t rows,
                                    struct mha_tile *tile);

/*
 * A tile that is given, for `rows` query rows of which each keeps `row_floats` floats in private
 * memory: MQ is lowered where there are fewer rows, or where they would not fit, and `local` filled
 * in.
 */
void mha_tile_fit(const struct mha_device *device, int64_t rows, int64_t row_floats,
                  struct mha_tile *tile);

/* The decode kernel's tile with the given VEC; 0 where that kernel is not the one to take. */
int mha_tile_fit_decode(const struct mha_device *device, int64_t rows, int64_t row_floats,
                        struct mha_tile *tile);

/* -D names of kernels/common/tile.h. */
void mha_tile_options(struct mha_options *options, const struct mha_tile *tile, int64_t DK,
                      int64_t DV);

#endif
