/*
 * Fused attention for many short sequences: a work-item owns a kv head, packs its keys and values
 * for itself and walks over all rows of all query heads that read them. What is packed stays in the
 * work-item's cache, and nothing but the inputs is read from memory.
 *
 * ND-range: one work-item per (b, kv head). No local memory, no barriers.
 *
 * -D names: as common/tile.h; HEAD_KEYS, keys that there is room for, a multiple of KT: NT at
 * least.
 */
#define MHA_PACKED __private

#include "common/fused.h"
#include "common/pack.h"
#include "common/prefetch.h"

#if !defined(HEAD_KEYS)
#error "HEAD_KEYS must be defined"
#endif

/*
 * Asks for part `part` of `parts` of what the next kv head will read, since its work-item most
 * likely follows on the same core.
 */
MHA_INLINE void mha_prefetch_head(const struct mha_params *p, mha_i64 head, mha_i64 part,
                                  mha_i64 parts, __global const void *query,
                                  __global const void *key, __global const void *value,
                                  __global const void *past_key, __global const void *past_value,
                                  __global const void *key_lengths, __global const void *output)
{
    if (head >= p->B * p->HKV) {
        return;
    }
    const mha_i64 g = head % p->HKV, b = head / p->HKV;
    const mha_i64 length = mha_key_length(p, key_lengths, b);
    for (mha_i64 j = part * length / parts; j < (part + 1) * length / parts; ++j) {
        const struct mha_source k = mha_source_of(p->NP, past_key, p->past_key, p->past_key_type,
                                                  key, p->key, p->key_type, b, g, j);
        const struct mha_source v =
            mha_source_of(p->NP, past_value, p->past_value, p->past_value_type, value, p->value,
                          p->value_type, b, g, j);
        mha_prefetch_row(k.data, k.type, k.at, DK);
        mha_prefetch_row(v.data, v.type, v.at, DV);
    }
    const mha_i64 group = p->H / p->HKV, rows = group * p->NQ;
    for (mha_i64 x = part * rows / parts; x < (part + 1) * rows / parts; ++x) {
        const mha_i64 h = g * group + x / p->NQ, i = x % p->NQ;
        mha_prefetch_row(query, p->query_type, mha_row(p->query, b, h, i), DK);
        mha_prefetch_row(output, p->output_type, mha_row(p->output, b, h, i), DV);
    }
}

__kernel MHA_WIDE void heads(const struct mha_params p, __global const void *query,
                             __global const void *key, __global const void *value,
                             __global const void *past_key, __global const void *past_value,
                             __global const uchar *mask, __global const void *bias,
                             __global const void *key_lengths, __global const float *slopes,
                             __global const float *sinks, __global void *output,
                             __global float *lse, __global float *workspace)
{
    const mha_i64 item = (mha_i64)get_global_id(0);
    if (item >= p.B * p.HKV) {
        return;
    }
    const mha_i64 g = item % p.HKV, b = item / p.HKV;

    mha_floatv keys[HEAD_KEYS * DK / VEC], values[HEAD_KEYS * DVV];
    int special[HEAD_KEYS / KT];
    const mha_i64 length = mha_key_length(&p, key_lengths, b);
    for (mha_i64 tile = 0; tile * KT < length; ++tile) {
        const mha_i64 count = length - tile * KT;
        mha_pack_key_tile(&p, key, past_key, b, g, tile, count, (float *)keys + tile * (DK * KT));
        special[tile] = mha_pack_value_tile(&p, value, past_value, b, g, tile, count,
                                            (float *)values + tile * (KT * DVP));
    }
    const struct mha_packed packed = {(const float *)keys, (const float *)values, special};

    const mha_i64 group = p.H / p.HKV;
    const mha_i64 row_tiles = (p.NQ + MQ - 1) / MQ;
    for (mha_i64 x = 0; x < group * row_tiles; ++x) {
        mha_prefetch_head(&p, item + 1, x, group * row_tiles, query, key, value, past_key,
                          past_value, key_lengths, output);
        mha_fused_rows(&p, b, g * group + x / row_tiles, x % row_tiles * MQ, 0, packed, query, mask,
                       bias, key_lengths, slopes, sinks, output, lse, workspace);
    }
}
