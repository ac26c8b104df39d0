/*
 * Packs keys and values for the tile: one contiguous run per key tile, as float, past and new keys
 * joined, zeros where there is no key.
 *   key    [DK][KT]   element (d, key)
 *   value  [KT][DVP]  element (key, d), zeros for d >= DV
 *
 * -D names: as common/tile.h.
 */
#ifndef MHA_PACK_H
#define MHA_PACK_H

#include "common/source.h"
#include "common/transpose.h"

#if defined(__clang__)
#define MHA_STORE_PACKED(value, pointer) (*(MHA_PACKED mha_floatv_unaligned *)(pointer) = (value))
#else
#define MHA_STORE_PACKED(value, pointer) mha_vstore(value, 0, pointer)
#endif

MHA_INLINE mha_i64 mha_packed_keys(const struct mha_params *p, __global const void *key_lengths,
                                   mha_i64 b)
{
    return mha_wants_every_key(p) ? p->NT : mha_key_length(p, key_lengths, b);
}

/* Elements [d, d + VEC) of a row, 0 behind the last. */
MHA_INLINE MHA_WIDE mha_floatv mha_source_vector(struct mha_source from, int d, int D)
{
    return d + VEC <= D ? mha_load_vector(from.data, from.type, from.at + d, VEC)
                        : mha_load_vector(from.data, from.type, from.at + d, D % VEC);
}

/* Key tile `tile` of kv head h, of which `count` keys exist. */
MHA_BODY MHA_WIDE void mha_pack_key_tile(const struct mha_params *p, __global const void *key,
                                         __global const void *past_key, mha_i64 b, mha_i64 h,
                                         mha_i64 tile, mha_i64 count, MHA_PACKED float *to)
{
    for (int first = 0; first < KT; first += VEC) {
        struct mha_source from[VEC];
        for (int c = 0; c < VEC; ++c) {
            const mha_i64 j = tile * KT + first + c;
            if (first + c < count) {
                from[c] = mha_source_of(p->NP, past_key, p->past_key, p->past_key_type, key, p->key,
                                        p->key_type, b, h, j);
            }
        }
        for (int d = 0; d < DK; d += VEC) {
            mha_floatv v[VEC];
            for (int c = 0; c < VEC; ++c) {
                v[c] = 0.0f;
                if (first + c < count) {
                    v[c] = mha_source_vector(from[c], d, DK);
                }
            }
            mha_transpose(v);
            for (int x = 0; x < VEC && d + x < DK; ++x) {
                MHA_STORE_PACKED(v[x], to + (d + x) * KT + first);
            }
        }
    }
}

/* Value tile `tile`, of which `count` keys exist; 1 if a value is NaN or infinite. */
MHA_BODY MHA_WIDE int mha_pack_value_tile(const struct mha_params *p, __global const void *value,
                                          __global const void *past_value, mha_i64 b, mha_i64 h,
                                          mha_i64 tile, mha_i64 count, MHA_PACKED float *to)
{
    mha_intv special = 0;
    for (int c = 0; c < KT; ++c) {
        if (c >= count) {
            for (int d = 0; d < DVP; d += VEC) {
                MHA_STORE_PACKED((mha_floatv)(0.0f), to + c * DVP + d);
            }
            continue;
        }
        const struct mha_source from =
            mha_source_of(p->NP, past_value, p->past_value, p->past_value_type, value, p->value,
                          p->value_type, b, h, tile * KT + c);
        for (int d = 0; d < DVP; d += VEC) {
            const mha_floatv x = mha_source_vector(from, d, DV);
            special |= (mha_as_intv(x) & 0x7f800000) == 0x7f800000;
            MHA_STORE_PACKED(x, to + c * DVP + d);
        }
    }
    return any(special);
}

#endif
