/*
 * Which keys a query sees. Masks select: geometry (causal, window, key length) leaves one range of
 * keys per row, the boolean mask and a bias of -inf take keys out of it. The answer for one key
 * tile is a word of KT bits, so that whole tiles can be skipped and a hidden key's numbers never
 * enter the arithmetic.
 *
 * -D names: KT (keys per tile, at most 32).
 */
#ifndef MHA_VISIBLE_H
#define MHA_VISIBLE_H

#include "common/types.h"

#if !defined(KT)
#error "KT must be defined"
#endif

#define MHA_ALL_BITS (0xffffffffu >> (32 - KT))

/* Keys of batch entry b that exist: its key length, never more than NT. */
MHA_INLINE mha_i64 mha_key_length(const struct mha_params *p, __global const void *key_lengths,
                                  mha_i64 b)
{
    mha_i64 length = p->NT;
    if (p->key_lengths_type != MHA_INDEX_NONE) {
        length = mha_load_index(key_lengths, p->key_lengths_type, p->key_lengths_offset + b);
        length = length < 0 ? 0 : length > p->NT ? p->NT : length;
    }
    return length;
}

/* 1 if scores are asked for that every key has, hidden or not: then none may be left out. */
MHA_INLINE int mha_wants_every_key(const struct mha_params *p)
{
    return p->scores == MHA_SCORES_RAW || p->scores == MHA_SCORES_CAPPED;
}

/* Query i stands at key position i + offset. */
MHA_INLINE mha_i64 mha_offset(const struct mha_params *p, mha_i64 length)
{
    return p->offset_kind == MHA_OFFSET_TOP_LEFT       ? 0
           : p->offset_kind == MHA_OFFSET_BOTTOM_RIGHT ? length - p->NQ
                                                       : p->offset;
}

/* Keys [first, last); first == last if none. */
struct mha_range {
    mha_i64 first, last;
};

/*
 * From the first key that geometry leaves to query i to the last one that it leaves to query j.
 * With i <= j that is every key that a query from i to j sees; the other way round, those that all
 * of them see.
 */
MHA_INLINE struct mha_range mha_rows_range(const struct mha_params *p, mha_i64 length, mha_i64 i,
                                           mha_i64 j)
{
    struct mha_range range = {0, length};
    if (!p->causal && p->window_left == MHA_UNBOUNDED && p->window_right == MHA_UNBOUNDED) {
        return range;
    }
    const mha_i64 offset = mha_offset(p, length);
    mha_i64 right = p->causal ? 0 : p->window_right;
    right = right < p->window_right ? right : p->window_right;
    range.first = i + offset - p->window_left;
    range.last = j + offset + right + 1;
    range.first = range.first < 0 ? 0 : range.first;
    range.last = range.last > length ? length : range.last;
    if (range.last <= range.first) {
        range.first = 0;
        range.last = 0;
    }
    return range;
}

/* The keys that geometry leaves to query i. */
MHA_INLINE struct mha_range mha_row_range(const struct mha_params *p, mha_i64 length, mha_i64 i)
{
    return mha_rows_range(p, length, i, i);
}

/* The tiles of `keys` keys that hold a key of the range, within the share of one split. */
MHA_INLINE struct mha_range mha_split_tiles(const struct mha_params *p, struct mha_range range,
                                            int keys, mha_i64 split)
{
    const mha_i64 share = (p->tiles + p->splits - 1) / p->splits;
    struct mha_range tiles;
    tiles.first = max(range.first / keys, split * share);
    tiles.last = min((range.last + keys - 1) / keys, (split + 1) * share);
    return tiles;
}

/* Bits of the keys [tile_key, tile_key + KT) that lie in the range. */
MHA_INLINE uint mha_range_bits(struct mha_range range, mha_i64 tile_key)
{
    mha_i64 from = range.first - tile_key;
    mha_i64 to = range.last - tile_key;
    if (from >= KT || to <= 0) {
        return 0;
    }
    uint low = from <= 0 ? 0xffffffffu : 0xffffffffu << (uint)from;
    uint high = to >= KT ? MHA_ALL_BITS : MHA_ALL_BITS >> (uint)(KT - to);
    return low & high;
}

/* The masks' element (b, h, i, 0). */
struct mha_mask_rows {
    mha_i64 mask, bias;
};

MHA_INLINE struct mha_mask_rows mha_mask_rows_of(const struct mha_params *p, mha_i64 b, mha_i64 h,
                                                 mha_i64 i)
{
    struct mha_mask_rows rows;
    rows.mask = p->mask.offset + b * p->mask.stride_b + h * p->mask.stride_h + i * p->mask.stride_q;
    rows.bias = p->bias.offset + b * p->bias.stride_b + h * p->bias.stride_h + i * p->bias.stride_q;
    return rows;
}

/*
 * The visible keys of one row in one tile. Where there is a bias, the biases of the visible keys
 * are left in `bias` (KT floats, others untouched).
 */
MHA_INLINE uint mha_visible_bits(const struct mha_params *p, struct mha_range range,
                                 mha_i64 tile_key, struct mha_mask_rows rows,
                                 __global const uchar *mask, __global const void *bias_data,
                                 float *bias)
{
    uint bits = mha_range_bits(range, tile_key);
    if (p->has_mask && bits != 0) {
        for (int c = 0; c < KT; ++c) {
            uint bit = 1u << c;
            if ((bits & bit) && mask[rows.mask + (tile_key + c) * p->mask.stride_k] == 0) {
                bits &= ~bit;
            }
        }
    }
    if (p->bias_type != 0 && bits != 0) {
        for (int c = 0; c < KT; ++c) {
            uint bit = 1u << c;
            if (bits & bit) {
                float value = mha_load(bias_data, p->bias_type - 1,
                                       rows.bias + (tile_key + c) * p->bias.stride_k);
                bias[c] = value;
                bits &= value == -INFINITY ? ~bit : 0xffffffffu;
            }
        }
    }
    return bits;
}

#endif
