/*
 * What gpu-mha doctor found of the library's variants on a device, and what follows: one that gave
 * wrong numbers, failed, crashed or hung there is not chosen any more. Each storage type has a
 * verdict of its own, and what fails in single precision counts as failed in every type.
 */
#ifndef MHA_CL_VERDICTS_H
#define MHA_CL_VERDICTS_H

#include "cl/device.h"

/* Variants that are known by a word; those of attention by their shape (mha_shape_name). */
#define MHA_VARIANT_MERGE "merge"
#define MHA_VARIANT_ROTARY "rotary"
#define MHA_VARIANT_CACHE_UPDATE "cache_update"
#define MHA_VARIANT_TILE "product tile"
#define MHA_VARIANT_THIN "product thin"
#define MHA_VARIANT_CLBLAST "product CLBlast"
#define MHA_VARIANT_LAYER "layer"

/* A set of storage types. */
#define MHA_TYPE_BIT(type) (1u << (unsigned)(type))
#define MHA_TYPE_BITS                                                                              \
    (MHA_TYPE_BIT(GPU_MHA_F32) | MHA_TYPE_BIT(GPU_MHA_F16) | MHA_TYPE_BIT(GPU_MHA_BF16))

/* The device as if nobody had tried it: for what the library would choose then. */
static inline struct mha_device mha_device_untried(const struct mha_device *device)
{
    struct mha_device untried = *device;
    untried.verdicts = NULL;
    return untried;
}

/* The verdict; GPU_MHA_VERDICT_NONE if there is none. From any thread. */
gpu_mha_verdict mha_verdict_of(const struct mha_device *device, const char *name,
                               gpu_mha_type type);

/* The worst of single precision and `types`, if it is one to avoid; else GPU_MHA_VERDICT_NONE. */
gpu_mha_verdict mha_verdict_to_avoid(const struct mha_device *device, const char *name,
                                     unsigned types);

/*
 * For what has no other variant: GPU_MHA_UNSUPPORTED with a sentence that names gpu-mha doctor if
 * it is to be avoided.
 */
gpu_mha_status mha_verdict_check(const struct mha_device *device, const char *name, unsigned types);

#endif
