/*
 * Rotary embedding: turns the pairs of a row by the angles of its position, copies the rest.
 *
 * ND-range: one work-item per (b, h, n, chunk); a chunk is MHA_ROTARY_CHUNK pairs or copied
 * elements of the row. A work-item owns both elements of its pairs and reads them before it writes,
 * so that the output may be the input. No local memory, no -D names.
 *
 *   input, output        (B, H, N, D)
 *   cosines, sines       (P, R/2) with positions (B, N), else (B, N, R/2)
 */
#include "common/copy.h"
#include "common/rotary_params.h"

/* Row of cosines and sines. The host could not look at the positions: none leaves the table. */
MHA_INLINE mha_i64 mha_angle_row(const struct mha_rotary_params *p, __global const void *positions,
                                 mha_i64 token)
{
    if (p->positions_type == MHA_INDEX_NONE) {
        return token;
    }
    const mha_i64 position =
        mha_load_index(positions, p->positions_type, p->positions_offset + token);
    return clamp(position, (mha_i64)0, p->P - 1);
}

__kernel void rotary(const struct mha_rotary_params p, __global const void *input,
                     __global const void *cosines, __global const void *sines,
                     __global const void *positions, __global void *output)
{
    const mha_i64 item = (mha_i64)get_global_id(0);
    if (item >= p.B * p.H * p.N * p.chunks) {
        return;
    }
    const mha_i64 row = item / p.chunks;
    const mha_i64 b = row / p.N / p.H, h = row / p.N % p.H, n = row % p.N;
    const mha_i64 from = mha_row(p.input, b, h, n);
    const mha_i64 to = mha_row(p.output, b, h, n);
    const mha_i64 angles = mha_angle_row(&p, positions, b * p.N + n) * p.pairs;

    /* The row's pairs come first, behind them the elements that are copied. */
    const mha_i64 first = item % p.chunks * MHA_ROTARY_CHUNK;
    const mha_i64 end = min(first + MHA_ROTARY_CHUNK, p.D - p.pairs);
    const mha_i64 end_of_pairs = min(end, p.pairs);
    mha_i64 r = first;
    for (; r < end_of_pairs; ++r) {
        const mha_i64 d1 = p.interleaved ? 2 * r : r;
        const mha_i64 d2 = p.interleaved ? 2 * r + 1 : r + p.pairs;
        const float cosine = mha_load(cosines, p.cache_type, p.cos_offset + angles + r);
        const float sine = mha_load(sines, p.cache_type, p.sin_offset + angles + r);
        const float x1 = mha_load(input, p.input_type, from + d1);
        const float x2 = mha_load(input, p.input_type, from + d2);
        mha_store(output, p.output_type, to + d1, cosine * x1 - sine * x2);
        mha_store(output, p.output_type, to + d2, sine * x1 + cosine * x2);
    }
    for (; r < end; ++r) {
        const mha_i64 d = r + p.pairs;
        mha_copy(output, p.output_type, to + d, input, p.input_type, from + d);
    }
}
