/* Which kernels a problem runs on a device, and in which shape. */
#ifndef MHA_ATTENTION_VARIANT_H
#define MHA_ATTENTION_VARIANT_H

#include "attention/problem.h"
#include "cl/tile.h"

struct mha_variant {
    gpu_mha_method method; /* FUSED or STAGED */
    struct mha_tile tile;
    int KT;  /* keys per tile: VEC * NV */
    int DVP; /* DV rounded up to whole vectors */
    int64_t tiles;
    int64_t splits;
};

/* Chooses from the problem and the device. GPU_MHA_UNSUPPORTED if nothing fits. */
gpu_mha_status mha_variant_choose(const struct mha_problem *problem,
                                  const struct mha_device *device, struct mha_variant *variant);

#endif
