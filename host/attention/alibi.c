/*
 * ALiBi slopes. For H a power of two: slope h is 2^(-8 (h + 1) / H). For another H: those of the
 * power of two P below it, then every other one of 2P (Press et al. 2022 and its reference code).
 */
#include <inttypes.h>
#include <math.h>

#include "core/tensor.h"

gpu_mha_status gpu_mha_alibi_slopes(int64_t H, float *slopes)
{
    MHA_TRY(mha_length_check("H", H, 1));
    MHA_INVALID_IF(slopes == NULL, "slopes is NULL: room for %" PRId64 " values is needed", H);
    int64_t power = 1;
    while (power * 2 <= H) {
        power *= 2;
    }
    for (int64_t h = 0; h < H; ++h) {
        const double exponent = h < power ? (double)(h + 1) / (double)power
                                          : (double)(2 * (h - power) + 1) / (double)(2 * power);
        slopes[h] = (float)exp2(-8.0 * exponent);
    }
    return GPU_MHA_OK;
}
