/*
 * gpu-mha doctor tries the small operators: merge, rotary embedding, cache update.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

/* ---- merge --------------------------------------------------------------------------------- */

enum {
    MERGE_B = 2,
    MERGE_H = 3,
    MERGE_NQ = 5,
    MERGE_DV = 24,
    MERGE_ROWS = MERGE_B * MERGE_H * MERGE_NQ
};

static void merge_reference(const double *a, const double *lse_a, const double *b,
                            const double *lse_b, struct mha_doctor_output *output,
                            struct mha_doctor_output *lse)
{
    for (size_t row = 0; row < MERGE_ROWS; row++) {
        const double largest = fmax(lse_a[row], lse_b[row]);
        const double sum = largest + log(exp(lse_a[row] - largest) + exp(lse_b[row] - largest));
        const double of_a = exp(lse_a[row] - sum), of_b = exp(lse_b[row] - sum);
        /* Rounding of a difference of the LSEs, which are at most 1 in magnitude, and of exp. */
        const double slack = 0x1p-24 * 16;
        for (size_t c = 0; c < MERGE_DV; c++) {
            const size_t at = row * MERGE_DV + c;
            mha_doctor_want(output, at, of_a * a[at] + of_b * b[at],
                            slack * (of_a * fabs(a[at]) + of_b * fabs(b[at])));
        }
        mha_doctor_want(lse, row, sum, slack);
    }
}

void mha_doctor_try_merge(gpu_mha_context *context, gpu_mha_type type,
                          struct mha_doctor_finding *finding)
{
    struct mha_doctor_array a, lse_a, b, lse_b;
    struct mha_doctor_output output, lse;
    const size_t count = (size_t)MERGE_ROWS * MERGE_DV;
    const gpu_mha_merge_desc desc = {.struct_size = sizeof desc,
                                     .B = MERGE_B,
                                     .H = MERGE_H,
                                     .NQ = MERGE_NQ,
                                     .DV = MERGE_DV,
                                     .a.type = type,
                                     .b.type = type,
                                     .output.type = type};

    bool made = mha_doctor_random(&a, type, count, 1);
    made = mha_doctor_random(&lse_a, GPU_MHA_F32, MERGE_ROWS, 2) && made;
    made = mha_doctor_random(&b, type, count, 3) && made;
    made = mha_doctor_random(&lse_b, GPU_MHA_F32, MERGE_ROWS, 4) && made;
    made = mha_doctor_output_make(&output, type, count) && made;
    made = mha_doctor_output_make(&lse, GPU_MHA_F32, MERGE_ROWS) && made;
    const gpu_mha_merge_arrays arrays = {.struct_size = sizeof arrays,
                                         .a = a.data,
                                         .lse_a = lse_a.data,
                                         .b = b.data,
                                         .lse_b = lse_b.data,
                                         .output = output.data,
                                         .lse = lse.data};
    if (!made) {
        mha_doctor_no_memory(finding);
    } else if (mha_doctor_called(gpu_mha_merge(context, &desc, &arrays), finding)) {
        merge_reference(a.values, lse_a.values, b.values, lse_b.values, &output, &lse);
        mha_doctor_judge(&output, finding);
        mha_doctor_judge(&lse, finding);
    }
    mha_doctor_free(&a);
    mha_doctor_free(&lse_a);
    mha_doctor_free(&b);
    mha_doctor_free(&lse_b);
    mha_doctor_output_free(&output);
    mha_doctor_output_free(&lse);
}

/* ---- rotary embedding ---------------------------------------------------------------------- */

enum {
    ROTARY_B = 2,
    ROTARY_H = 3,
    ROTARY_N = 7,
    ROTARY_D = 40,
    ROTARY_R = 24,
    ROTARY_PAIRS = ROTARY_R / 2
};

static void rotary_reference(const double *input, const double *cosine, const double *sine,
                             struct mha_doctor_output *output)
{
    const size_t rows = (size_t)ROTARY_B * ROTARY_H * ROTARY_N;

    for (size_t row = 0; row < rows; row++) {
        const double *x = input + row * ROTARY_D;
        const size_t token = row / (ROTARY_H * ROTARY_N) * ROTARY_N + row % ROTARY_N;
        const size_t first = row * ROTARY_D;
        for (size_t r = 0; r < ROTARY_PAIRS; r++) {
            const double c = cosine[token * ROTARY_PAIRS + r], s = sine[token * ROTARY_PAIRS + r];
            const double x1 = x[r], x2 = x[r + ROTARY_PAIRS];
            const double slack = 0x1p-24 * 4 * (fabs(x1) + fabs(x2));
            mha_doctor_want(output, first + r, c * x1 - s * x2, slack);
            mha_doctor_want(output, first + r + ROTARY_PAIRS, s * x1 + c * x2, slack);
        }
        for (size_t d = ROTARY_R; d < ROTARY_D; d++) {
            mha_doctor_want(output, first + d, x[d], 0);
        }
    }
}

void mha_doctor_try_rotary(gpu_mha_context *context, gpu_mha_type type,
                           struct mha_doctor_finding *finding)
{
    struct mha_doctor_array input, cosine, sine;
    struct mha_doctor_output output;
    const size_t count = (size_t)ROTARY_B * ROTARY_H * ROTARY_N * ROTARY_D;
    const size_t angles = (size_t)ROTARY_B * ROTARY_N * ROTARY_PAIRS;
    const gpu_mha_rotary_desc desc = {.struct_size = sizeof desc,
                                      .B = ROTARY_B,
                                      .H = ROTARY_H,
                                      .N = ROTARY_N,
                                      .D = ROTARY_D,
                                      .R = ROTARY_R,
                                      .cache_type = type,
                                      .input.type = type,
                                      .output.type = type};

    /* The kernel takes any two numbers for an angle's. */
    bool made = mha_doctor_random(&input, type, count, 1);
    made = mha_doctor_random(&cosine, type, angles, 2) && made;
    made = mha_doctor_random(&sine, type, angles, 3) && made;
    made = mha_doctor_output_make(&output, type, count) && made;
    const gpu_mha_rotary_arrays arrays = {.struct_size = sizeof arrays,
                                          .input = input.data,
                                          .cos = cosine.data,
                                          .sin = sine.data,
                                          .output = output.data};
    if (!made) {
        mha_doctor_no_memory(finding);
    } else if (mha_doctor_called(gpu_mha_rotary(context, &desc, &arrays), finding)) {
        rotary_reference(input.values, cosine.values, sine.values, &output);
        mha_doctor_judge(&output, finding);
    }
    mha_doctor_free(&input);
    mha_doctor_free(&cosine);
    mha_doctor_free(&sine);
    mha_doctor_output_free(&output);
}

/* ---- cache update -------------------------------------------------------------------------- */

enum { CACHE_B = 2, CACHE_H = 3, CACHE_D = 40, CACHE_N = 5, CACHE_NC = 9 };

void mha_doctor_try_cache_update(gpu_mha_context *context, gpu_mha_type type,
                                 struct mha_doctor_finding *finding)
{
    static const int32_t index[CACHE_B] = {7, 2};
    struct mha_doctor_array update, old;
    struct mha_doctor_output cache;
    const size_t heads = (size_t)CACHE_B * CACHE_H;
    const gpu_mha_cache_desc desc = {.struct_size = sizeof desc,
                                     .B = CACHE_B,
                                     .H = CACHE_H,
                                     .D = CACHE_D,
                                     .N = CACHE_N,
                                     .NC = CACHE_NC,
                                     .circular = 1,
                                     .indices = GPU_MHA_I32,
                                     .update.type = type,
                                     .cache.type = type};

    bool made = mha_doctor_random(&update, type, heads * CACHE_N * CACHE_D, 1);
    made = mha_doctor_random(&old, type, heads * CACHE_NC * CACHE_D, 2) && made;
    made = mha_doctor_output_make(&cache, type, heads * CACHE_NC * CACHE_D) && made;
    const gpu_mha_cache_arrays arrays = {
        .struct_size = sizeof arrays, .update = update.data, .indices = index, .cache = cache.data};
    if (!made) {
        mha_doctor_no_memory(finding);
        goto cleanup;
    }
    memcpy(cache.data, old.data, old.count * (type == GPU_MHA_F32 ? 4 : 2));
    if (mha_doctor_called(gpu_mha_cache_update(context, &desc, &arrays), finding)) {
        for (size_t at = 0; at < old.count; at++) {
            mha_doctor_want(&cache, at, old.values[at], 0);
        }
        for (size_t at = 0; at < update.count; at++) {
            const size_t row = at / CACHE_D, head = row / CACHE_N;
            const size_t to = ((size_t)index[head / CACHE_H] + row % CACHE_N) % CACHE_NC;
            mha_doctor_want(&cache, (head * CACHE_NC + to) * CACHE_D + at % CACHE_D,
                            update.values[at], 0);
        }
        mha_doctor_judge(&cache, finding);
    }

cleanup:
    mha_doctor_free(&update);
    mha_doctor_free(&old);
    mha_doctor_output_free(&cache);
}
