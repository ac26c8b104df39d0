/* Overlap of strided tensors, from their strides alone: a check per call, not per row. */
#include "cl/overlap.h"

#define OUTER_AXES 3

gpu_mha_status mha_footprint_find(const char *name, gpu_mha_buffer buffer,
                                  const struct mha_view *view, struct mha_footprint *footprint)
{
    cl_mem whole = NULL;
    size_t origin = 0;
    MHA_TRY_CL(clGetMemObjectInfo(buffer.mem, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole,
                                  (void *)&whole, NULL),
               "clGetMemObjectInfo", "asking for the buffer around %s", name);
    MHA_TRY_CL(clGetMemObjectInfo(buffer.mem, CL_MEM_OFFSET, sizeof origin, &origin, NULL),
               "clGetMemObjectInfo", "asking for the origin of %s", name);
    if (whole == NULL) {
        whole = buffer.mem;
        origin = 0;
    }
    *footprint = (struct mha_footprint){
        .memory = whole,
        .first_byte = origin + buffer.offset * view->element_bytes,
        .view = *view,
    };
    return GPU_MHA_OK;
}

int mha_footprint_same(const struct mha_footprint *a, const struct mha_footprint *b)
{
    if (a->memory != b->memory || a->first_byte != b->first_byte ||
        a->view.element_bytes != b->view.element_bytes) {
        return 0;
    }
    for (int axis = 0; axis < 4; ++axis) {
        if (a->view.length[axis] != b->view.length[axis] ||
            (a->view.length[axis] > 1 && a->view.stride[axis] != b->view.stride[axis])) {
            return 0;
        }
    }
    return 1;
}

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/*
 * A tensor seen as pieces of `extent` bytes that begin at multiples of `step` from its first byte
 * (step 0: one piece). The more of its inner axes are taken into the piece, the longer the piece
 * and the larger the step: 4 ways to see one tensor, each covering all of its bytes.
 */
struct pieces {
    int64_t extent[OUTER_AXES + 1], step[OUTER_AXES + 1];
};

static struct pieces pieces_of(const struct mha_view *view)
{
    const int64_t bytes = (int64_t)view->element_bytes;
    int64_t reach[OUTER_AXES], stride[OUTER_AXES];
    for (int axis = 0; axis < OUTER_AXES; ++axis) {
        int64_t s = view->length[axis] > 1 ? view->stride[axis] * bytes : 0;
        int64_t r = (view->length[axis] - 1) * s;
        /* Sorted by stride: the axis in hand sinks to its place. */
        int at = axis;
        for (; at > 0 && stride[at - 1] > s; --at) {
            stride[at] = stride[at - 1];
            reach[at] = reach[at - 1];
        }
        stride[at] = s;
        reach[at] = r;
    }
    struct pieces p = {{0}, {0}};
    p.extent[0] = view->length[3] * bytes;
    for (int taken = 0; taken < OUTER_AXES; ++taken) {
        p.extent[taken + 1] = p.extent[taken] + reach[taken];
    }
    for (int taken = OUTER_AXES - 1; taken >= 0; --taken) {
        p.step[taken] = greatest_common_divisor(stride[taken], p.step[taken + 1]);
    }
    return p;
}

/* Pieces [0, a_extent) and [distance, distance + b_extent), both repeated every `step` bytes. */
static int pieces_apart(int64_t a_extent, int64_t b_extent, int64_t distance, int64_t step)
{
    if (step == 0) {
        return distance >= 0 ? distance >= a_extent : -distance >= b_extent;
    }
    const int64_t rest = (distance % step + step) % step;
    return a_extent <= rest && b_extent <= step - rest;
}

int mha_footprint_apart(const struct mha_footprint *a, const struct mha_footprint *b)
{
    if (a->memory != b->memory) {
        return 1;
    }
    const struct pieces of_a = pieces_of(&a->view), of_b = pieces_of(&b->view);
    const int64_t distance = (int64_t)(b->first_byte - a->first_byte);
    for (int i = 0; i <= OUTER_AXES; ++i) {
        for (int j = 0; j <= OUTER_AXES; ++j) {
            const int64_t step = greatest_common_divisor(of_a.step[i], of_b.step[j]);
            if (pieces_apart(of_a.extent[i], of_b.extent[j], distance, step)) {
                return 1;
            }
        }
    }
    return 0;
}
