/*
 * Fused attention for one tile of rows: the walk over the packed keys and values of their kv head.
 *
 * A block of KB keys is scored, its weights are found by the online softmax, and its values are
 * added to the outputs. fused.cl tells the idea.
 *
 * -D names: as common/tile.h.
 */
#ifndef MHA_FUSED_H
#define MHA_FUSED_H

#include "common/online.h"

/* Of one kv head, from its first key tile on. */
struct mha_packed {
    MHA_PACKED const float *key, *value; /* [tiles][DK][KT] and [tiles][KT][DVP] */
    MHA_PACKED const int *special;       /* [tiles], 1 where a value is NaN or infinite */
};

/* Rows [row, row + MQ) of head (b, h), over one split's share of the keys. */
MHA_BODY MHA_WIDE void mha_fused_rows(const struct mha_params *p, mha_i64 b, mha_i64 h, mha_i64 row,
                                      mha_i64 split, struct mha_packed packed,
                                      __global const void *query, __global const uchar *mask,
                                      __global const void *bias, __global const void *key_lengths,
                                      __global const float *slopes, __global const float *sinks,
                                      __global void *output, __global float *lse,
                                      __global float *workspace)
{
    struct mha_rows rows;
    mha_floatv q_vectors[MQ * DKP / VEC];
    const float *q = (const float *)q_vectors;
    mha_floatv w_vectors[MQ * KB / VEC];
    float *w = (float *)w_vectors;
    mha_floatv bias_vectors[MQ * NV];
    float *bias_rows = (float *)bias_vectors;
    struct mha_outputs o;
    uint bits[TB * MQ];
    uint shown[TB];

    /* Hidden keys' biases are added too, to scores that are then hidden. */
    for (int v = 0; v < MQ * NV; ++v) {
        bias_vectors[v] = 0.0f;
    }
    mha_rows_begin(p, &rows, b, h, row, MQ, key_lengths, slopes);
    mha_load_queries(p, query, b, h, row, q_vectors);
    o.begun = 0;

    const struct mha_range range = mha_tile_range(p, &rows, split);
    for (mha_i64 tile = range.first; tile < range.last; tile += TB) {
        const int tiles = range.last - tile < TB ? (int)(range.last - tile) : TB;
        int any = 0;
        for (int t = 0; t < tiles; ++t) {
            const mha_i64 key = (tile + t) * KT;
            const struct mha_tile_bits seen =
                mha_tile_bits(p, &rows, key, mask, bias, bits + t * MQ, bias_rows);
            shown[t] = seen.any;
            if (seen.any != 0) {
                mha_score_tile(q, packed.key + (tile + t) * (mha_i64)(DK * KT), w + t * KT, KB);
                if (!p->plain || seen.all != MHA_ALL_BITS) {
                    mha_tile_scores(p, &rows, key, bits + t * MQ, bias_rows, w + t * KT);
                }
                any = 1;
            } else {
                mha_tile_hidden(w + t * KT);
            }
        }
        for (int t = tiles; t * NV % MHA_WEIGHTS_GROUP != 0; ++t) {
            mha_tile_hidden(w + t * KT);
        }
        if (!any) {
            continue;
        }
        mha_block_softmax(p, &rows, tile * KT, tiles, shown, w, &o);
        mha_value_block(w, packed.value + tile * (mha_i64)(KT * DVP), packed.special + tile, tiles,
                        shown, bits, &o);
    }
    if (!o.begun) {
        mha_outputs_begin(&o);
    }
    mha_rows_end(p, &rows, &o, split, sinks, output, lse, workspace);
}

#endif
