/* What the kernel cache_update needs to know; shared by host and device as params.h is. */
#ifndef MHA_CACHE_PARAMS_H
#define MHA_CACHE_PARAMS_H

#include "common/params.h"

/* Elements of a row that one work-item copies. */
#define MHA_CACHE_CHUNK 16

struct mha_cache_params {
    mha_i64 B, H, N, D;
    mha_i64 NC;
    mha_i64 chunks; /* per row */
    struct mha_tensor_params update, cache;
    mha_i64 indices_offset;
    mha_i32 update_type, cache_type;
    mha_i32 indices_type;
    mha_i32 circular;
};

#endif
