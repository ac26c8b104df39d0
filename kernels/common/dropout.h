/*
 * Dropout by counter (Philox4x32-10: Salmon et al. 2011, "Parallel random numbers: as easy as
 * 1, 2, 3"): the draw of a weight depends on its place and the seed alone, so every kernel, split
 * and tile shape drops the same ones.
 */
#ifndef MHA_DROPOUT_H
#define MHA_DROPOUT_H

#include "common/types.h"

MHA_INLINE uint4 mha_philox(uint4 counter, uint2 key)
{
    for (int round = 0; round < 10; ++round) {
        const uint high0 = mul_hi(0xD2511F53u, counter.x);
        const uint low0 = 0xD2511F53u * counter.x;
        const uint high1 = mul_hi(0xCD9E8D57u, counter.z);
        const uint low1 = 0xCD9E8D57u * counter.z;
        counter = (uint4)(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
        key += (uint2)(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}

/*
 * Drops or scales w[0 .. count) of row i, whose first key is `key`, a multiple of 4, as is count.
 * `head` is b * H + h. A NaN stays one, since the sum it is divided by is NaN in other kernels.
 */
MHA_INLINE void mha_drop_weights(const struct mha_params *p, mha_i64 head, mha_i64 i, mha_i64 key,
                                 int count, float *w)
{
    const uint2 seed = (uint2)((uint)p->dropout_seed, (uint)(p->dropout_seed >> 32));
    for (int c = 0; c < count; c += 4) {
        const uint4 counter =
            (uint4)((uint)((key + c) / 4), (uint)i, (uint)head, (uint)((mha_u64)head >> 32));
        const uint4 draw = mha_philox(counter, seed);
        w[c + 0] *= draw.x >= p->dropout_threshold ? p->dropout_scale : 0.0f;
        w[c + 1] *= draw.y >= p->dropout_threshold ? p->dropout_scale : 0.0f;
        w[c + 2] *= draw.z >= p->dropout_threshold ? p->dropout_scale : 0.0f;
        w[c + 3] *= draw.w >= p->dropout_threshold ? p->dropout_scale : 0.0f;
    }
}

#endif
