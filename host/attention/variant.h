/* Which kernels a problem runs on a device, in which shape, and over how many parts of the keys. */
#ifndef MHA_ATTENTION_VARIANT_H
#define MHA_ATTENTION_VARIANT_H

#include "attention/shape.h"

struct mha_variant {
    struct mha_shape shape;
    int KT;  /* keys per tile */
    int DVP; /* DV rounded up to whole vectors of the tile kernels */
    int64_t tiles;
    int64_t splits;
    int64_t row_pitch; /* mha_shape_row_pitch; of shared and rows */
};

/*
 * Chooses from, in this order, GPU_MHA_TILE, `wanted` (or NULL), and the tuning table; a shape of
 * the first two that does not fit the problem is left out with a log line. What gpu-mha doctor
 * found to fail is taken from GPU_MHA_TILE alone; where none of the fused kernels is left,
 * GPU_MHA_AUTO runs the staged ones. GPU_MHA_UNSUPPORTED if nothing fits.
 */
gpu_mha_status mha_variant_choose(const struct mha_problem *problem,
                                  const struct mha_device *device, const struct mha_shape *wanted,
                                  struct mha_variant *variant);

/* The same with a shape that has been found to fit: tiles and splits. */
void mha_variant_of(const struct mha_problem *problem, const struct mha_device *device,
                    const struct mha_shape *shape, struct mha_variant *variant);

#endif
