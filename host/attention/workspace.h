/* Carves one workspace into parts. The size query and the run use the same carving. */
#ifndef MHA_ATTENTION_WORKSPACE_H
#define MHA_ATTENTION_WORKSPACE_H

#include "core/size.h"

/* Every part begins at a multiple of this many bytes, as the workspace itself does. */
#define MHA_WORKSPACE_ALIGN 128

struct mha_carver {
    int64_t bytes; /* carved so far; INT64_MAX when it became too large */
};

/* Takes `count` floats (or ints). Returns the part's first float, counted from the workspace. */
static inline int64_t mha_carve(struct mha_carver *carver, int64_t count)
{
    const int64_t at = carver->bytes;
    carver->bytes = mha_size_add(
        at, mha_size_round_up(mha_size_mul(count, (int64_t)sizeof(float)), MHA_WORKSPACE_ALIGN));
    return at / (int64_t)sizeof(float);
}

#endif
