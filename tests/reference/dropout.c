/*
 * dropout.c - the random numbers of dropout: Philox4x32-10, from the paper of Salmon et al. (2011).
 */
#include "reference.h"

#include <math.h>

#define ROUNDS 10
#define MULTIPLIER_0 0xD2511F53u
#define MULTIPLIER_1 0xCD9E8D57u
#define WEYL_0 0x9E3779B9u /* the golden ratio */
#define WEYL_1 0xBB67AE85u /* sqrt(3) - 1 */

void ref_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t product_0 = (uint64_t)MULTIPLIER_0 * c0;
        uint64_t product_1 = (uint64_t)MULTIPLIER_1 * c2;
        c0 = (uint32_t)(product_1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)product_1;
        c2 = (uint32_t)(product_0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)product_0;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

int ref_dropout_keep(struct ref_dropout dropout, int64_t bh, int64_t i, int64_t j)
{
    uint32_t key[2] = {(uint32_t)dropout.seed, (uint32_t)(dropout.seed >> 32)};
    uint32_t counter[4] = {(uint32_t)(j / 4), (uint32_t)i, (uint32_t)bh,
                           (uint32_t)((uint64_t)bh >> 32)};
    uint32_t out[4];

    ref_philox4x32_10(counter, key, out);
    return out[j % 4] >= (uint32_t)floor(dropout.p * 0x1p32);
}
