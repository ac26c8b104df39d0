/*
 * The mean of the weights over heads, (B, NQ, NT), from the score rows of the workspace.
 *
 * ND-range: one work-item per (b, i, key). No local memory. -D names: none.
 */
#include "common/types.h"

__kernel void average_heads(const struct mha_params p, __global float *weights,
                            __global const float *workspace)
{
    const mha_i64 item = (mha_i64)get_global_id(0);
    if (item >= p.B * p.NQ * p.NT) {
        return;
    }
    const mha_i64 j = item % p.NT;
    const mha_i64 i = item / p.NT % p.NQ;
    const mha_i64 b = item / p.NT / p.NQ;
    float sum = 0.0f;
    for (mha_i64 h = 0; h < p.H; ++h) {
        sum += workspace[p.score_rows + ((b * p.H + h) * p.NQ + i) * p.score_pitch + j];
    }
    weights[p.weights_offset + item] = sum / (float)p.H;
}
