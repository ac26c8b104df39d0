/* A program that knows the installed library alone: one attention call, as in the README. */
#include <gpu_mha/gpu_mha.h>

#include <stdio.h>
#include <string.h>

static float q[2 * 3 * 4], k[2 * 5 * 4], v[2 * 5 * 4], o[2 * 3 * 4];

int main(void)
{
    /* All queries are 0: every key weighs the same, and the output is the mean of the values. */
    for (int i = 0; i < 2 * 5 * 4; i++)
        v[i] = (float)(i / 4 % 5);

    gpu_mha_desc desc = {.B = 1, .H = 2, .HKV = 2, .NQ = 3, .NK = 5, .DK = 4, .DV = 4};
    gpu_mha_arrays arrays = {.query = q, .key = k, .value = v, .output = o};
    if (gpu_mha(NULL, &desc, &arrays) != GPU_MHA_OK) {
        fprintf(stderr, "gpu_mha: %s\n", gpu_mha_last_error());
        return 1;
    }
    for (int i = 0; i < 2 * 3 * 4; i++) {
        if (o[i] < 1.9999f || o[i] > 2.0001f) {
            fprintf(stderr, "output[%d] is %g, not 2\n", i, o[i]);
            return 1;
        }
    }
    if (strcmp(gpu_mha_version(), GPU_MHA_VERSION_STRING) != 0) {
        fprintf(stderr, "header %s, library %s\n", GPU_MHA_VERSION_STRING, gpu_mha_version());
        return 1;
    }
    printf("%s\n", gpu_mha_version());
    return 0;
}
