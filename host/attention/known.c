/* The variants of the library on a device, by number: what gpu-mha doctor walks through. */
#include <stdio.h>
#include <string.h>

#include "attention/shape.h"
#include "blas/gemm.h"
#include "cl/contest.h"
#include "cl/verdicts.h"

/* More than the tables have for any device. */
enum { SHAPES_MAX = 96 };

/* What is no attention. The layer is made of all before it, so it stands last. */
static const struct {
    const char *name;
    unsigned types;
} others[] = {
    {MHA_VARIANT_MERGE, MHA_TYPE_BITS},
    {MHA_VARIANT_ROTARY, MHA_TYPE_BITS},
    {MHA_VARIANT_CACHE_UPDATE, MHA_TYPE_BITS},
    {MHA_VARIANT_TILE, MHA_TYPE_BIT(GPU_MHA_F32)},
    {MHA_VARIANT_THIN, MHA_TYPE_BIT(GPU_MHA_F32)},
    {MHA_VARIANT_CLBLAST, MHA_TYPE_BIT(GPU_MHA_F32)},
    {MHA_VARIANT_LAYER, MHA_TYPE_BITS},
};
enum { OTHERS = sizeof others / sizeof others[0] };

gpu_mha_status gpu_mha_variant_count(gpu_mha_context *context, size_t *count)
{
    struct mha_shape shapes[SHAPES_MAX];
    MHA_INVALID_IF(count == NULL, "count is NULL, must point to a size_t");
    *count = 0;
    MHA_TRY(mha_context_resolve(context, &context));
    *count = (size_t)mha_shape_known(&context->device, shapes, SHAPES_MAX) + OTHERS;
    return GPU_MHA_OK;
}

/* How a caller asks for a shape: GPU_MHA_TILE, and for the staged kernels the method as well. */
static void describe_shape(const struct mha_shape *shape, gpu_mha_variant_info *info)
{
    struct mha_shape asked = *shape;
    info->types = MHA_TYPE_BITS;
    mha_shape_name(shape, info->name, sizeof info->name);
    if (shape->path == MHA_PATH_STAGED) {
        asked.path = MHA_PATH_FUSED; /* GPU_MHA_TILE knows the tile, the descriptor the method */
        info->method = GPU_MHA_STAGED;
    } else {
        info->method = GPU_MHA_FUSED;
    }
    mha_shape_text(&asked, info->tile, sizeof info->tile);
}

gpu_mha_status gpu_mha_variant_get(gpu_mha_context *context, size_t index,
                                   gpu_mha_variant_info *info)
{
    struct mha_shape shapes[SHAPES_MAX];
    MHA_INVALID_IF(info == NULL, "info is NULL, must point to a gpu_mha_variant_info");
    MHA_TRY(mha_contest_check_size("info", info->struct_size, sizeof *info));
    MHA_TRY(mha_context_resolve(context, &context));
    const size_t shape_count = (size_t)mha_shape_known(&context->device, shapes, SHAPES_MAX);
    MHA_INVALID_IF(index >= shape_count + OTHERS,
                   "index is %zu, must be less than the %zu variants", index, shape_count + OTHERS);
    gpu_mha_variant_info found = {.struct_size = info->struct_size};
    if (index < shape_count) {
        describe_shape(&shapes[index], &found);
    } else {
        found.types = others[index - shape_count].types;
        snprintf(found.name, sizeof found.name, "%s", others[index - shape_count].name);
    }
    for (int type = 0; type < 3; ++type) {
        found.verdicts[type] = mha_verdict_of(&context->device, found.name, (gpu_mha_type)type);
    }
    *info = found;
    return GPU_MHA_OK;
}
