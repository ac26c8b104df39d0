/*
 * Staged attention, third stage: O = W V from the weights in the workspace. A row's value sum takes
 * only the keys it sees: a weight of 0 times a NaN would not be 0.
 *
 * ND-range: one work-item per (b, h, tile of MQ rows). No local memory.
 *
 * -D names: as common/tile.h.
 */
#include "common/tile.h"

__kernel MHA_WIDE void weighted_sum(const struct mha_params p, __global const uchar *mask,
                                    __global const void *bias, __global const void *key_lengths,
                                    __global void *output, __global const float *workspace)
{
    const mha_i64 item = (mha_i64)get_global_id(0);
    const mha_i64 row_tiles = (p.NQ + MQ - 1) / MQ;
    if (item >= p.B * p.H * row_tiles) {
        return;
    }
    const mha_i64 row = item % row_tiles * MQ;
    const mha_i64 h = item / row_tiles % p.H;
    const mha_i64 b = item / row_tiles / p.H;
    const mha_i64 length = mha_key_length(&p, key_lengths, b);
    const mha_i64 head = (b * p.HKV + h / (p.H / p.HKV)) * p.tiles;

    mha_floatv w_vectors[MQ * KB / VEC];
    float *w = (float *)w_vectors;
    struct mha_outputs o;
    uint bits[TB * MQ];
    uint shown[TB];
    mha_outputs_begin(&o);
    for (mha_i64 tile = 0; tile < p.tiles; tile += TB) {
        const int tiles = p.tiles - tile < TB ? (int)(p.tiles - tile) : TB;
        for (int t = 0; t < tiles; ++t) {
            shown[t] = 0;
            for (int r = 0; r < MQ; ++r) {
                float row_bias[KT];
                __global const float *from = workspace + p.score_rows +
                                             ((b * p.H + h) * p.NQ + row + r) * p.score_pitch +
                                             (tile + t) * KT;
                uint seen = 0;
                if (row + r < p.NQ) {
                    seen =
                        mha_visible_bits(&p, mha_row_range(&p, length, row + r), (tile + t) * KT,
                                         mha_mask_rows_of(&p, b, h, row + r), mask, bias, row_bias);
                }
                bits[t * MQ + r] = seen;
                shown[t] |= seen;
                for (int n = 0; n < NV; ++n) {
                    MHA_PRIVATEV(w + r * KB + t * KT + n * VEC) =
                        seen != 0 ? MHA_LOADV(from + n * VEC) : (mha_floatv)(0.0f);
                }
            }
        }
        mha_value_block(w, workspace + p.packed_value + (head + tile) * (mha_i64)(KT * DVP),
                        (__global const int *)(workspace + p.value_special) + head + tile, tiles,
                        shown, bits, &o);
    }
    for (int r = 0; r < MQ && row + r < p.NQ; ++r) {
        mha_store_row(output, p.output_type, mha_row(p.output, b, h, row + r), o.total + r * DVV,
                      1.0f, 1.0f);
    }
}
