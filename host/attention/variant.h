/* Which kernels a problem runs on a device, and in which shape. */
#ifndef MHA_ATTENTION_VARIANT_H
#define MHA_ATTENTION_VARIANT_H

#include "attention/problem.h"
#include "cl/device.h"

/* The register tile of kernels/common/tile.h. */
struct mha_tile {
    int MQ, VEC, NV, TB;
};

struct mha_variant {
    gpu_mha_method method; /* FUSED or STAGED */
    struct mha_tile tile;
    int KT;  /* keys per tile: VEC * NV */
    int DVP; /* DV rounded up to whole vectors */
    int64_t tiles;
    int64_t splits;
    size_t local;
};

/*
 * Chooses from the problem, the device and the tuning table. The environment variable GPU_MHA_TILE,
 * "MQ,VEC,NV,TB", replaces the table's tile. GPU_MHA_UNSUPPORTED if nothing fits.
 */
gpu_mha_status mha_variant_choose(const struct mha_problem *problem,
                                  const struct mha_device *device, struct mha_variant *variant);

#endif
