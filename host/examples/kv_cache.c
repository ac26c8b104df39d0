/*
 * Generating with a key/value cache: prompts of different length first, then one token at a time
 * for all sequences at once.
 *
 * The cache has room for CAPACITY rows per sequence. Each step puts the new keys and values behind
 * the rows that are there (gpu_mha_cache_update), and lets the new queries attend to the cache. Key
 * lengths hide the rows that are not filled yet, and bottom-right causal places the new queries at
 * the end of each sequence, whatever its length.
 *
 * At the end every output is compared with attention over the whole sequence in one call. For
 * clarity all arrays lie on the host; gpu_mha_cache_enqueue and gpu_mha_enqueue do the same with a
 * cache that stays on the device.
 */
#include <gpu_mha/gpu_mha.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two sequences; four query heads share two key/value heads; at most LONGEST new rows at once. */
enum { B = 2, H = 4, HKV = 2, D = 32, TOKENS = 12, CAPACITY = 16, LONGEST = 7 };

static const int32_t prompt[B] = {7, 4};

/* What the model's projections would give for every token, (B, TOKENS, heads, D). */
static float query[B][TOKENS][H][D], key[B][TOKENS][HKV][D], value[B][TOKENS][HKV][D];

/* (B, HKV, CAPACITY, D) */
static float key_cache[B][HKV][CAPACITY][D], value_cache[B][HKV][CAPACITY][D];
static int32_t length[B];

/* Collected from the steps, and from one call over everything, (B, TOKENS, H, D). */
static float stepwise[B][TOKENS][H][D], whole[B][TOKENS][H][D];

static void fill(float *x, size_t count)
{
    static uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
}

/* Puts `count` new rows behind those that the caches of [first, first + entries) hold. */
static gpu_mha_status append(int first, int entries, int count, const float *keys,
                             const float *values)
{
    const gpu_mha_cache_desc desc = {
        .struct_size = sizeof desc,
        .B = entries,
        .H = HKV,
        .D = D,
        .N = count,
        .NC = CAPACITY,
        .indices = GPU_MHA_I32,
        .update = {.layout = GPU_MHA_BNHD},
    };
    const gpu_mha_cache_arrays into_keys = {.struct_size = sizeof into_keys,
                                            .update = keys,
                                            .indices = &length[first],
                                            .cache = key_cache[first]};
    const gpu_mha_cache_arrays into_values = {.struct_size = sizeof into_values,
                                              .update = values,
                                              .indices = &length[first],
                                              .cache = value_cache[first]};
    const gpu_mha_status status = gpu_mha_cache_update(NULL, &desc, &into_keys);
    return status ? status : gpu_mha_cache_update(NULL, &desc, &into_values);
}

/* `count` queries per sequence over the filled part of their caches. */
static gpu_mha_status attend(int first, int entries, int count, const float *queries, float *output)
{
    const gpu_mha_desc desc = {
        .struct_size = sizeof desc,
        .B = entries,
        .H = H,
        .HKV = HKV,
        .NQ = count,
        .NK = CAPACITY,
        .DK = D,
        .DV = D,
        .query = {.layout = GPU_MHA_BNHD},
        .output = {.layout = GPU_MHA_BNHD},
        .key_lengths = GPU_MHA_I32,
        .causal = 1,
        .offset_kind = GPU_MHA_BOTTOM_RIGHT,
    };
    const gpu_mha_arrays arrays = {
        .struct_size = sizeof arrays,
        .query = queries,
        .key = key_cache[first],
        .value = value_cache[first],
        .key_lengths = &length[first],
        .output = output,
    };
    return gpu_mha(NULL, &desc, &arrays);
}

/* Feeds the next `count` tokens of sequences [first, first + entries). */
static gpu_mha_status step(int first, int entries, int count)
{
    static float q[B * LONGEST * H * D], o[B * LONGEST * H * D];
    static float k[B * LONGEST * HKV * D], v[B * LONGEST * HKV * D];
    const size_t q_row = sizeof query[0][0], kv_row = sizeof key[0][0];
    gpu_mha_status status;

    for (int e = 0; e < entries; e++) {
        const int b = first + e, at = length[b];
        memcpy(q + e * count * H * D, query[b][at], (size_t)count * q_row);
        memcpy(k + e * count * HKV * D, key[b][at], (size_t)count * kv_row);
        memcpy(v + e * count * HKV * D, value[b][at], (size_t)count * kv_row);
    }
    status = append(first, entries, count, k, v);
    if (status) {
        return status;
    }
    for (int e = 0; e < entries; e++) {
        length[first + e] += count;
    }
    status = attend(first, entries, count, q, o);
    for (int e = 0; e < entries; e++) {
        const int b = first + e;
        memcpy(stepwise[b][length[b] - count], o + e * count * H * D, (size_t)count * q_row);
    }
    return status;
}

/* Each prompt in one call of its own, then token by token together until one sequence is full. */
static gpu_mha_status generate(void)
{
    gpu_mha_status status = GPU_MHA_OK;
    for (int b = 0; b < B && !status; b++) {
        status = step(b, 1, prompt[b]);
    }
    while (!status && length[0] < TOKENS) {
        status = step(0, B, 1);
    }
    return status;
}

static gpu_mha_status recompute(void)
{
    const gpu_mha_tensor packed = {.layout = GPU_MHA_BNHD};
    const gpu_mha_desc desc = {
        .struct_size = sizeof desc,
        .B = B,
        .H = H,
        .HKV = HKV,
        .NQ = TOKENS,
        .NK = TOKENS,
        .DK = D,
        .DV = D,
        .query = packed,
        .key = packed,
        .value = packed,
        .output = packed,
        .causal = 1,
    };
    const gpu_mha_arrays arrays = {
        .struct_size = sizeof arrays, .query = query, .key = key, .value = value, .output = whole};
    return gpu_mha(NULL, &desc, &arrays);
}

int main(void)
{
    double largest = 0.0;

    fill(query[0][0][0], sizeof query / sizeof(float));
    fill(key[0][0][0], sizeof key / sizeof(float));
    fill(value[0][0][0], sizeof value / sizeof(float));
    if (generate() || recompute()) {
        fprintf(stderr, "kv_cache: %s\n", gpu_mha_last_error());
        return EXIT_FAILURE;
    }
    for (int b = 0; b < B; b++) {
        const float *got = stepwise[b][0][0], *want = whole[b][0][0];
        for (int x = 0; x < length[b] * H * D; x++) {
            largest = fmax(largest, fabs((double)got[x] - want[x]));
        }
    }
    const int right = largest < 1e-5;
    printf("kv_cache: %d and %d tokens, largest difference from one call %.1e: %s\n",
           (int)length[0], (int)length[1], largest, right ? "right" : "WRONG");
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
