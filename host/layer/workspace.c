/* The layout of a layer's workspace. */
#include "attention/workspace.h"

#include <inttypes.h>

#include "layer/layer.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Takes `count` floats; every part begins where a sub-buffer may. */
static int64_t carve_part(struct mha_carver *carver, const struct mha_layer *layer, int64_t count)
{
    const int64_t at = mha_carve(carver, count);
    carver->bytes = mha_size_round_up(carver->bytes, layer->align_bytes);
    return at;
}

/* The largest that any map needs of what they share, one after the other. */
static struct mha_layer_parts shared_counts(const struct mha_layer *layer)
{
    const struct mha_linear *maps = layer->problem.maps;
    struct mha_layer_parts most = {0};
    for (int m = 0; m < MHA_MAPS; ++m) {
        const struct mha_linear *map = &maps[m];
        if (map->input_type != GPU_MHA_F32) {
            most.input = larger(most.input, mha_size_mul(map->M, map->K));
        }
        if (layer->problem.desc.weight_type != GPU_MHA_F32) {
            most.weight = larger(most.weight, mha_size_mul(map->N, map->K));
        }
        if (map->output_type != GPU_MHA_F32) {
            most.product = larger(most.product, mha_size_mul(map->M, map->N));
        }
        const int64_t scratch = (int64_t)(layer->gemms[m].scratch_bytes / sizeof(float));
        most.scratch = larger(most.scratch, scratch);
    }
    return most;
}

/*
 * The maps' parts and the attention's workspace are never in use at the same time, so they lie in
 * the same place.
 */
gpu_mha_status mha_layer_carve(struct mha_layer *layer, const struct mha_device *device)
{
    const struct mha_linear *q = &layer->problem.maps[MHA_MAP_QUERY];
    const struct mha_linear *k = &layer->problem.maps[MHA_MAP_KEY];
    const struct mha_linear *v = &layer->problem.maps[MHA_MAP_VALUE];
    const struct mha_linear *out = &layer->problem.maps[MHA_MAP_OUT];
    const struct mha_layer_parts most = shared_counts(layer);
    struct mha_layer_parts *parts = &layer->parts;
    struct mha_carver carver = {0};
    layer->align_bytes = larger((int64_t)device->base_align_bytes, MHA_WORKSPACE_ALIGN);
    parts->query = carve_part(&carver, layer, mha_size_mul(q->M, q->N));
    parts->key = carve_part(&carver, layer, mha_size_mul(k->M, k->N));
    parts->value = carve_part(&carver, layer, mha_size_mul(v->M, v->N));
    parts->attended = carve_part(&carver, layer, mha_size_mul(out->M, out->K));
    struct mha_carver inside = carver;
    parts->input = carve_part(&carver, layer, most.input);
    parts->weight = carve_part(&carver, layer, most.weight);
    parts->scratch = carve_part(&carver, layer, most.scratch);
    parts->product = carve_part(&carver, layer, most.product);
    parts->attention =
        carve_part(&inside, layer, (int64_t)(layer->attention->workspace_bytes / sizeof(float)));
    /* The caller's workspace begins at a multiple of MHA_WORKSPACE_ALIGN only. */
    const int64_t bytes =
        mha_size_add(larger(carver.bytes, inside.bytes), layer->align_bytes - MHA_WORKSPACE_ALIGN);
    MHA_RETURN_IF(
        !mha_size_fits(bytes) || (cl_ulong)bytes > device->max_alloc_bytes, GPU_MHA_UNSUPPORTED,
        "the workspace of the layer is %" PRId64 " bytes: the device allocates at most %" PRIu64,
        bytes, (uint64_t)device->max_alloc_bytes);
    layer->workspace_bytes = (size_t)bytes;
    return GPU_MHA_OK;
}
