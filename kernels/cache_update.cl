/*
 * Cache update: row n of an update goes to row index + n of a cache, modulo its capacity if the
 * cache is circular. Rows that would leave the cache are left out.
 *
 * ND-range: one work-item per (b, h, n, chunk); a chunk is MHA_CACHE_CHUNK elements of the row.
 * N <= NC, so no two rows go to the same place. No local memory, no -D names.
 *
 *   update   (B, H, N, D)
 *   indices  (B), or absent: 0
 *   cache    (B, H, NC, D)
 */
#include "common/cache_params.h"
#include "common/copy.h"

/* Where row n goes, -1 for nowhere. The host could not look at the index: any value may come. */
MHA_INLINE mha_i64 mha_cache_row(const struct mha_cache_params *p, __global const void *indices,
                                 mha_i64 b, mha_i64 n)
{
    mha_i64 index = 0;
    if (p->indices_type != MHA_INDEX_NONE) {
        index = mha_load_index(indices, p->indices_type, p->indices_offset + b);
    }
    if (p->circular) {
        index %= p->NC;
        return ((index < 0 ? index + p->NC : index) + n) % p->NC;
    }
    /* Compared before it is added: the sum could overflow. */
    return index < -n || index >= p->NC - n ? -1 : index + n;
}

__kernel void cache_update(const struct mha_cache_params p, __global const void *update,
                           __global const void *indices, __global void *cache)
{
    const mha_i64 item = (mha_i64)get_global_id(0);
    if (item >= p.B * p.H * p.N * p.chunks) {
        return;
    }
    const mha_i64 row = item / p.chunks;
    const mha_i64 b = row / p.N / p.H, h = row / p.N % p.H, n = row % p.N;
    const mha_i64 cache_row = mha_cache_row(&p, indices, b, n);
    if (cache_row < 0) {
        return;
    }
    const mha_i64 from = mha_row(p.update, b, h, n);
    const mha_i64 to = mha_row(p.cache, b, h, cache_row);
    const mha_i64 first = item % p.chunks * MHA_CACHE_CHUNK;
    const mha_i64 end = min(first + MHA_CACHE_CHUNK, p.D);
    for (mha_i64 d = first; d < end; ++d) {
        mha_copy(cache, p.cache_type, to + d, update, p.update_type, from + d);
    }
}
