/*
 * Packs keys and values for the tile kernels: one contiguous run per key tile, as float, past and
 * new keys joined, zeros where there is no key. Cost O(NT * (DK + DV)), paid once per key/value
 * head, however many queries and query heads read it.
 *
 * ND-range: one work-item per (b, kv head, key tile). No local memory.
 *   packed key    [B][HKV][tiles][DK][KT]   element (d, key)
 *   packed value  [B][HKV][tiles][KT][DVP]  element (key, d), zeros for d >= DV
 *   value special [B][HKV][tiles]           1 where a value of the tile is NaN or infinite
 * Keys from the key length on are not read, unless the raw or capped scores of all keys are asked
 * for.
 *
 * -D names: as common/tile.h.
 */
#include "common/pack.h"

__kernel MHA_WIDE void pack_key(const struct mha_params p, __global const void *key,
                                __global const void *past_key, __global const void *key_lengths,
                                __global float *workspace)
{
    const mha_i64 item = (mha_i64)get_global_id(0);
    if (item >= p.B * p.HKV * p.tiles) {
        return;
    }
    const mha_i64 tile = item % p.tiles;
    const mha_i64 h = item / p.tiles % p.HKV;
    const mha_i64 b = item / p.tiles / p.HKV;
    mha_pack_key_tile(&p, key, past_key, b, h, tile,
                      mha_packed_keys(&p, key_lengths, b) - tile * KT,
                      workspace + p.packed_key + item * (mha_i64)(DK * KT));
}

__kernel MHA_WIDE void pack_value(const struct mha_params p, __global const void *value,
                                  __global const void *past_value, __global const void *key_lengths,
                                  __global float *workspace)
{
    const mha_i64 item = (mha_i64)get_global_id(0);
    if (item >= p.B * p.HKV * p.tiles) {
        return;
    }
    const mha_i64 tile = item % p.tiles;
    const mha_i64 h = item / p.tiles % p.HKV;
    const mha_i64 b = item / p.tiles / p.HKV;
    ((__global int *)(workspace + p.value_special))[item] = mha_pack_value_tile(
        &p, value, past_value, b, h, tile, mha_key_length(&p, key_lengths, b) - tile * KT,
        workspace + p.packed_value + item * (mha_i64)(KT * DVP));
}
