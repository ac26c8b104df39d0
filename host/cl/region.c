/* Checks of the caller's device buffers before anything is launched. */
#include "cl/region.h"

#include <inttypes.h>

#include "cl/overlap.h"

static gpu_mha_status check_one(const struct mha_region *r, cl_context cl)
{
    MHA_INVALID_IF(!r->wanted && r->buffer.mem != NULL,
                   "%s is given: the descriptor does not ask for it, so it must be NULL", r->name);
    if (!r->wanted || r->span == 0) {
        return GPU_MHA_OK;
    }
    MHA_INVALID_IF(r->buffer.mem == NULL, "%s is NULL: the descriptor asks for it", r->name);
    cl_context owner = NULL;
    size_t size = 0;
    MHA_TRY_CL(
        clGetMemObjectInfo(r->buffer.mem, CL_MEM_CONTEXT, sizeof owner, (void *)&owner, NULL),
        "clGetMemObjectInfo", "asking for the context of %s", r->name);
    MHA_INVALID_IF(owner != cl, "%s is of another OpenCL context than the plan's", r->name);
    MHA_TRY_CL(clGetMemObjectInfo(r->buffer.mem, CL_MEM_SIZE, sizeof size, &size, NULL),
               "clGetMemObjectInfo", "asking for the size of %s", r->name);
    const uint64_t room = size / r->element_bytes;
    MHA_INVALID_IF(r->element_bytes == 1 &&
                       (r->buffer.offset > room || (uint64_t)r->span > room - r->buffer.offset),
                   "%s holds %zu bytes: with offset %" PRIu64 " it must hold %" PRId64
                   " bytes behind the offset",
                   r->name, size, r->buffer.offset, r->span);
    MHA_INVALID_IF(r->buffer.offset > room || (uint64_t)r->span > room - r->buffer.offset,
                   "%s holds %zu bytes: with offset %" PRIu64 " it must hold %" PRId64
                   " elements of %zu bytes behind the offset",
                   r->name, size, r->buffer.offset, r->span, r->element_bytes);
    return GPU_MHA_OK;
}

/* Bytes [first, last) of an allocation; a sub-buffer counts in the buffer it is of. */
struct range {
    cl_mem memory;
    uint64_t first, last;
};

static gpu_mha_status range_of(const struct mha_region *r, struct range *range)
{
    *range = (struct range){NULL, 0, 0};
    if (!r->wanted || r->span == 0) {
        return GPU_MHA_OK;
    }
    const struct mha_view view = mha_view_flat(r->span, r->element_bytes);
    struct mha_footprint footprint;
    MHA_TRY(mha_footprint_find(r->name, r->buffer, &view, &footprint));
    *range = (struct range){footprint.memory, footprint.first_byte,
                            footprint.first_byte + (uint64_t)r->span * r->element_bytes};
    return GPU_MHA_OK;
}

static int overlap(const struct range *a, const struct range *b)
{
    return a->memory != NULL && a->memory == b->memory && a->first < b->last && b->first < a->last;
}

/* No operation has more. */
#define REGIONS_MAX 32

gpu_mha_status mha_regions_check(const struct mha_region *regions, int count, cl_context cl)
{
    for (int i = 0; i < count; ++i) {
        MHA_TRY(check_one(&regions[i], cl));
    }
    struct range ranges[REGIONS_MAX];
    MHA_INVALID_IF(count > REGIONS_MAX, "%d buffers: at most %d can be checked", count,
                   REGIONS_MAX);
    for (int i = 0; i < count; ++i) {
        MHA_TRY(range_of(&regions[i], &ranges[i]));
    }
    for (int i = 0; i < count; ++i) {
        for (int j = 0; regions[i].use == MHA_EXCLUSIVE && j < count; ++j) {
            MHA_INVALID_IF(i != j && overlap(&ranges[i], &ranges[j]),
                           "%s overlaps %s: its range must be its own", regions[i].name,
                           regions[j].name);
        }
    }
    return GPU_MHA_OK;
}
