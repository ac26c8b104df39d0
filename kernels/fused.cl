/*
 * Fused attention with the online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867; Dao et
 * al. 2022, arXiv:2205.14135): scores never leave the work-item, so memory does not grow with NQ *
 * NT.
 *
 * A work-item owns MQ query rows of one head and walks over the keys in blocks of KB. Per row it
 * keeps the largest score so far m, the sum l of exp(s - m), and the output o = sum exp(s - m) v.
 * When a block raises m, what was summed before is worth exp(m_old - m_new) of itself: l and o are
 * scaled once, and the block is added. At the end o / l is the output and m + ln l the LSE.
 * Each exponential is a power of two: see mha_block_softmax.
 *
 * Key tiles outside every row's range are never visited; tiles that a mask hides from all rows are
 * skipped before their scores are computed.
 *
 * ND-range: one work-item per (b, h, tile of MQ rows, split). No local memory, no barriers.
 * With splits > 1 the keys are divided among work-items; each leaves its normalised output and LSE
 * in the workspace, and merge.cl joins them.
 *
 * -D names: as common/tile.h.
 */
#include "common/fused.h"

/* The kernels that run before and after: one program is built faster than three. */
#include "merge.cl"
#include "pack.cl"

__kernel MHA_WIDE void fused(const struct mha_params p, __global const void *query,
                             __global const uchar *mask, __global const void *bias,
                             __global const void *key_lengths, __global const float *slopes,
                             __global const float *sinks, __global void *output,
                             __global float *lse, __global float *workspace)
{
    const mha_i64 item = (mha_i64)get_global_id(0);
    const mha_i64 row_tiles = (p.NQ + MQ - 1) / MQ;
    if (item >= p.B * p.H * row_tiles * p.splits) {
        return;
    }
    const mha_i64 split = item % p.splits;
    const mha_i64 row = item / p.splits % row_tiles * MQ;
    const mha_i64 h = item / p.splits / row_tiles % p.H;
    const mha_i64 b = item / p.splits / row_tiles / p.H;

    const mha_i64 head = (b * p.HKV + h / (p.H / p.HKV)) * p.tiles;
    const struct mha_packed packed = {
        workspace + p.packed_key + head * (mha_i64)(DK * KT),
        workspace + p.packed_value + head * (mha_i64)(KT * DVP),
        (__global const int *)(workspace + p.value_special) + head,
    };
    mha_fused_rows(&p, b, h, row, split, packed, query, mask, bias, key_lengths, slopes, sinks,
                   output, lse, workspace);
}
