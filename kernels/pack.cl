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
#include "common/tile.h"

/* Element (b, h, j, 0) of past or new keys or values. */
struct mha_source {
    __global const void *data;
    mha_i64 row;
    mha_i32 type;
};

MHA_INLINE struct mha_source mha_source_of(mha_i64 NP, __global const void *past,
                                           struct mha_tensor_params past_tensor, mha_i32 past_type,
                                           __global const void *data,
                                           struct mha_tensor_params tensor, mha_i32 type, mha_i64 b,
                                           mha_i64 h, mha_i64 j)
{
    struct mha_source source;
    if (j < NP) {
        source.data = past;
        source.row = mha_row(past_tensor, b, h, j);
        source.type = past_type;
    } else {
        source.data = data;
        source.row = mha_row(tensor, b, h, j - NP);
        source.type = type;
    }
    return source;
}

MHA_INLINE mha_i64 mha_packed_keys(const struct mha_params *p, __global const void *key_lengths,
                                   mha_i64 b)
{
    return mha_wants_every_key(p) ? p->NT : mha_key_length(p, key_lengths, b);
}

/*
 * Rows to columns, VEC by VEC: log2 VEC rounds, each interleaving the first half of the vectors
 * with the second.
 */
MHA_INLINE MHA_WIDE void mha_transpose(mha_floatv *v)
{
#pragma unroll
    for (int round = 1; round < VEC; round *= 2) {
        mha_floatv zipped[VEC];
#pragma unroll
        for (int x = 0; x < VEC / 2; ++x) {
            zipped[2 * x].even = v[x].lo;
            zipped[2 * x].odd = v[x + VEC / 2].lo;
            zipped[2 * x + 1].even = v[x].hi;
            zipped[2 * x + 1].odd = v[x + VEC / 2].hi;
        }
#pragma unroll
        for (int x = 0; x < VEC; ++x) {
            v[x] = zipped[x];
        }
    }
}

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
    const mha_i64 count = mha_packed_keys(&p, key_lengths, b) - tile * KT;
    __global float *to = workspace + p.packed_key + item * (mha_i64)(DK * KT);
    for (int first = 0; first < KT; first += VEC) {
        struct mha_source from[VEC];
        for (int c = 0; c < VEC; ++c) {
            const mha_i64 j = tile * KT + first + c;
            if (first + c < count) {
                from[c] = mha_source_of(p.NP, past_key, p.past_key, p.past_key_type, key, p.key,
                                        p.key_type, b, h, j);
            }
        }
        for (int d = 0; d < DK; d += VEC) {
            mha_floatv v[VEC];
            for (int c = 0; c < VEC; ++c) {
                v[c] = 0.0f;
                if (first + c < count && d + VEC <= DK) {
                    v[c] = mha_load_vector(from[c].data, from[c].type, from[c].row + d, VEC);
                } else if (first + c < count) {
                    v[c] = mha_load_vector(from[c].data, from[c].type, from[c].row + d, DK % VEC);
                }
            }
            mha_transpose(v);
            for (int x = 0; x < VEC && d + x < DK; ++x) {
                MHA_STOREV(v[x], to + (d + x) * KT + first);
            }
        }
    }
}

__kernel void pack_value(const struct mha_params p, __global const void *value,
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
    const mha_i64 count = mha_key_length(&p, key_lengths, b) - tile * KT;
    __global float *to = workspace + p.packed_value + item * (mha_i64)(KT * DVP);
    int special = 0;
    for (int c = 0; c < KT; ++c) {
        int filled = 0;
        if (c < count) {
            const struct mha_source from =
                mha_source_of(p.NP, past_value, p.past_value, p.past_value_type, value, p.value,
                              p.value_type, b, h, tile * KT + c);
            for (int d = 0; d < DV; ++d) {
                const float x = mha_load(from.data, from.type, from.row + d);
                to[c * DVP + d] = x;
                special |= (as_uint(x) & 0x7f800000u) == 0x7f800000u;
            }
            filled = DV;
        }
        for (int d = filled; d < DVP; ++d) {
            to[c * DVP + d] = 0.0f;
        }
    }
    ((__global int *)(workspace + p.value_special))[item] = special;
}
