/* ONNX TensorScatter (opset 24) through gpu_mha_cache_update; see verify_operator.h. */
#include "verify_operator.h"

#include <string.h>

enum { PAST_CACHE, UPDATE, WRITE_INDICES };
enum { PRESENT_CACHE };

static const struct mha_operator_item attributes[] = {
    {"axis", 24, false},
    {"mode", 24, false},
    {NULL, 0, false},
};
static const struct mha_operator_item inputs[] = {
    {"past_cache", 24, true},
    {"update", 24, true},
    {"write_indices", 24, false},
    {NULL, 0, false},
};
static const struct mha_operator_item outputs[] = {
    {"present_cache", 24, true},
    {NULL, 0, false},
};

/* The product of shape[first .. last - 1]. */
static bool product(struct mha_case *record, const int64_t *shape, int first, int last,
                    int64_t *result)
{
    *result = 1;
    for (int axis = first; axis < last; axis++) {
        if (shape[axis] != 0 && *result > INT64_MAX / shape[axis]) {
            return mha_case_fail(record, "past_cache has more elements than can be counted");
        }
        *result *= shape[axis];
    }
    return true;
}

/*
 * The library's cache is (B, H, NC, D). The standard's has any axes before and behind the one that
 * is written along: those between batch and it are our heads, those behind it our row.
 */
static bool describe(struct mha_case *record, gpu_mha_cache_desc *desc)
{
    const struct mha_npy *cache = &record->inputs[PAST_CACHE].npy;
    const struct mha_case_array *update = &record->inputs[UPDATE];
    const struct mha_case_array *indices = &record->inputs[WRITE_INDICES];
    const char *mode = "linear";
    int64_t axis = -2;
    int64_t shape[MHA_NPY_MAX_RANK];

    if (cache->rank < 2) {
        return mha_case_fail(record, "past_cache has %d axes, it must have at least 2",
                             cache->rank);
    }
    if (!mha_case_int(record, "axis", -cache->rank, cache->rank - 1, &axis) ||
        !mha_case_string(record, "mode", &mode)) {
        return false;
    }
    if (axis < 0) {
        axis += cache->rank;
    }
    if (axis == 0) {
        return mha_case_fail(record, "axis names the batch, it must name another axis");
    }
    if (strcmp(mode, "linear") != 0 && strcmp(mode, "circular") != 0) {
        return mha_case_fail(record, "mode is \"%s\", it must be linear or circular", mode);
    }

    memcpy(shape, cache->shape, sizeof shape);
    if (update->npy.rank == cache->rank) {
        shape[axis] = update->npy.shape[axis];
    }
    desc->circular = strcmp(mode, "circular") == 0;
    desc->B = cache->shape[0];
    desc->N = shape[axis];
    desc->NC = cache->shape[axis];
    desc->indices = indices->name ? GPU_MHA_I64 : GPU_MHA_INDEX_NONE;
    if (!mha_array_expect(record, update, cache->type, cache->rank, shape) ||
        (indices->name && !mha_array_expect(record, indices, MHA_NPY_I64, 1, cache->shape)) ||
        !mha_input_type(record, update, &desc->update.type) ||
        !product(record, cache->shape, 1, (int)axis, &desc->H) ||
        !product(record, cache->shape, (int)axis + 1, cache->rank, &desc->D)) {
        return false;
    }
    desc->cache.type = desc->update.type;
    return true;
}

static bool compute(struct mha_case *record, const struct mha_verify_settings *settings,
                    struct mha_computed *computed)
{
    const struct mha_npy *cache = &record->inputs[PAST_CACHE].npy;
    gpu_mha_cache_desc desc = {.struct_size = sizeof desc};

    if (!describe(record, &desc) || !mha_computed_make(record, computed, PRESENT_CACHE, cache->type,
                                                       cache->rank, cache->shape)) {
        return false;
    }
    computed[PRESENT_CACHE].exact = true;
    memcpy(computed[PRESENT_CACHE].npy.data, cache->data, cache->bytes);

    gpu_mha_cache_arrays arrays = {
        .struct_size = sizeof arrays,
        .update = record->inputs[UPDATE].npy.data,
        .indices = record->inputs[WRITE_INDICES].npy.data,
        .cache = computed[PRESENT_CACHE].npy.data,
    };
    return mha_library_ok(record, gpu_mha_cache_update(settings->context, &desc, &arrays));
}

const struct mha_operator mha_operator_tensor_scatter = {
    "TensorScatter", 24, attributes, inputs, outputs, compute,
};
