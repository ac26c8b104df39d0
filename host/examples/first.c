/* A first use: eight heads, causal, on the best device there is. Means of ones: it prints 1. */
#include <gpu_mha/gpu_mha.h>
#include <stdio.h>
static float q[8 * 128 * 64], k[8 * 128 * 64], v[8 * 128 * 64], o[8 * 128 * 64];
int main(void)
{
    for (int i = 0; i < 8 * 128 * 64; i++) {
        v[i] = 1;
    }
    gpu_mha_desc desc = {
        .B = 1, .H = 8, .HKV = 8, .NQ = 128, .NK = 128, .DK = 64, .DV = 64, .causal = 1};
    gpu_mha_arrays arrays = {.query = q, .key = k, .value = v, .output = o};
    if (gpu_mha(NULL, &desc, &arrays)) {
        return puts(gpu_mha_last_error()), 1;
    }
    printf("%g\n", o[0]); /* a mean of ones: 1 */
}
