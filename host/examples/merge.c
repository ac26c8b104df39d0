/*
 * Keys in two parts, computed apart and merged exactly by their log-sum-exp (LSE): what a long
 * sequence on two devices needs, or a prompt that many requests share.
 *
 * Causal attention keeps its meaning through `offset`: key j of the second part is key
 * j + FIRST of the whole, so query i stands at position i - FIRST there. The first queries see
 * nothing of the second part; their partial result is (0, -inf), which changes nothing.
 */
#include <gpu_mha/gpu_mha.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { H = 4, N = 50, FIRST = 20, D = 24 };

static float query[H][N][D], key[H][N][D], value[H][N][D];

struct result {
    float output[H][N][D], lse[H][N];
};

static struct result whole, first, second, merged;

static void fill(float *x, size_t count)
{
    static uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 4194304.0f - 2.0f;
    }
}

/* All queries over the keys [from, to). */
static gpu_mha_status attend(int from, int to, struct result *result)
{
    const gpu_mha_tensor part = {
        .layout = GPU_MHA_STRIDED, .stride_b = H * N * D, .stride_h = N * D, .stride_n = D};
    const gpu_mha_desc desc = {
        .struct_size = sizeof desc,
        .B = 1,
        .H = H,
        .HKV = H,
        .NQ = N,
        .NK = to - from,
        .DK = D,
        .DV = D,
        .key = part,
        .value = part,
        .causal = 1,
        .offset_kind = GPU_MHA_OFFSET,
        .offset = -from,
        .lse = 1,
    };
    const gpu_mha_arrays arrays = {
        .struct_size = sizeof arrays,
        .query = query,
        .key = key[0][from],
        .value = value[0][from],
        .output = result->output,
        .lse = result->lse[0],
    };
    return gpu_mha(NULL, &desc, &arrays);
}

static gpu_mha_status merge(const struct result *a, const struct result *b, struct result *result)
{
    const gpu_mha_merge_desc desc = {.struct_size = sizeof desc, .B = 1, .H = H, .NQ = N, .DV = D};
    const gpu_mha_merge_arrays arrays = {
        .struct_size = sizeof arrays,
        .a = a->output,
        .lse_a = a->lse[0],
        .b = b->output,
        .lse_b = b->lse[0],
        .output = result->output,
        .lse = result->lse[0],
    };
    return gpu_mha_merge(NULL, &desc, &arrays);
}

static double largest_difference(const float *x, const float *y, int count)
{
    double largest = 0.0;
    for (int i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)x[i] - y[i]));
    }
    return largest;
}

int main(void)
{
    fill(query[0][0], sizeof query / sizeof(float));
    fill(key[0][0], sizeof key / sizeof(float));
    fill(value[0][0], sizeof value / sizeof(float));
    if (attend(0, N, &whole) || attend(0, FIRST, &first) || attend(FIRST, N, &second) ||
        merge(&first, &second, &merged)) {
        fprintf(stderr, "merge: %s\n", gpu_mha_last_error());
        return EXIT_FAILURE;
    }
    const double output = largest_difference(merged.output[0][0], whole.output[0][0], H * N * D);
    const double lse = largest_difference(merged.lse[0], whole.lse[0], H * N);
    const int right = output < 1e-5 && lse < 1e-5;
    printf("merge: largest difference from all keys at once: output %.1e, LSE %.1e: %s\n", output,
           lse, right ? "right" : "WRONG");
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
