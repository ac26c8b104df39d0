/*
 * Staged attention, first stage: the scaled products S = scale * Q K^T of every row with every key,
 * to the workspace. Key tiles that geometry hides from all rows of the tile are skipped, unless raw
 * or capped scores, which every key has, are asked for.
 *
 * ND-range: one work-item per (b, h, tile of MQ rows, block of TB key tiles). No local memory.
 *   out: score rows [B*H*NQ][score_pitch], keys from NT on are 0.
 *
 * -D names: as common/tile.h.
 */
#include "common/tile.h"

__kernel MHA_WIDE void scores(const struct mha_params p, __global const void *query,
                              __global const void *key_lengths, __global float *workspace)
{
    const mha_i64 item = (mha_i64)get_global_id(0);
    const mha_i64 row_tiles = (p.NQ + MQ - 1) / MQ;
    const mha_i64 blocks = (p.tiles + TB - 1) / TB;
    if (item >= p.B * p.H * row_tiles * blocks) {
        return;
    }
    const mha_i64 first_tile = item % blocks * TB;
    const mha_i64 row = item / blocks % row_tiles * MQ;
    const mha_i64 h = item / blocks / row_tiles % p.H;
    const mha_i64 b = item / blocks / row_tiles / p.H;
    const mha_i64 last_tile = min(first_tile + TB, p.tiles);
    const int every_key = mha_wants_every_key(&p);
    const mha_i64 length = mha_key_length(&p, key_lengths, b);

    mha_floatv q_vectors[MQ * DKP / VEC];
    const float *q = (const float *)q_vectors;
    mha_load_queries(&p, query, b, h, row, q_vectors);
    const mha_i64 head = (b * p.HKV + h / (p.H / p.HKV)) * p.tiles;
    for (mha_i64 tile = first_tile; tile < last_tile; ++tile) {
        int wanted = every_key;
        for (int r = 0; r < MQ && row + r < p.NQ; ++r) {
            wanted |= mha_range_bits(mha_row_range(&p, length, row + r), tile * KT) != 0;
        }
        if (!wanted) {
            continue;
        }
        mha_floatv s[MQ * NV];
        mha_score_tile(q, workspace + p.packed_key + (head + tile) * (mha_i64)(DK * KT), (float *)s,
                       KT);
        for (int r = 0; r < MQ && row + r < p.NQ; ++r) {
            __global float *to = workspace + p.score_rows +
                                 ((b * p.H + h) * p.NQ + row + r) * p.score_pitch + tile * KT;
            for (int n = 0; n < NV; ++n) {
                MHA_STOREV(s[r * NV + n] * p.scale, to + n * VEC);
            }
        }
    }
}
