/* Which kernels a problem runs on a device, and in which shape. */
#ifndef MHA_ATTENTION_VARIANT_H
#define MHA_ATTENTION_VARIANT_H

#include "attention/problem.h"
#include "cl/tile.h"

enum mha_path {
    MHA_PATH_FUSED,
    MHA_PATH_HEADS,  /* fused, for many short sequences: a work-item packs for its own head */
    MHA_PATH_DECODE, /* fused, for few queries: keys and values are not packed */
    MHA_PATH_STAGED
};

struct mha_variant {
    enum mha_path path;
    struct mha_tile tile;
    int KT;  /* keys per tile: VEC * NV */
    int DVP; /* DV rounded up to whole vectors */
    int64_t tiles;
    int64_t splits;
    int head_keys; /* with MHA_PATH_HEADS: keys that a work-item has room for */
};

/* Chooses from the problem and the device. GPU_MHA_UNSUPPORTED if nothing fits. */
gpu_mha_status mha_variant_choose(const struct mha_problem *problem,
                                  const struct mha_device *device, struct mha_variant *variant);

#endif
