/*
 * gpu-mha doctor tries the layer, and through it the implementations of its products.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

enum { E = 48, H = 4, HKV = 2, DK = 16, DV = 12, EO = 40 };
enum { X, WQ, WK, WV, WO, BQ, BK, BV, BO, ARRAYS };

/*
 * How far the output may be off, in units of its largest element, beside the rounding to its type.
 * The sums are of at most 48 products of numbers up to 1, three of them one after the other.
 */
#define LAYER_BOUND 0x1p-18

/* (B, heads, N, D) = x (B, N, E) w^T + b, rows h * D + d of w; NULL: out of memory. */
static double *project(const double *x, const double *w, const double *bias, int64_t B, int64_t N,
                       int64_t heads, int64_t D)
{
    double *result = malloc((size_t)(B * heads * N * D) * sizeof *result);

    for (int64_t at = 0; result && at < B * heads * N * D; at++) {
        const int64_t d = at % D, n = at / D % N, h = at / (D * N) % heads,
                      b = at / (D * N * heads);
        const double *row = w + (h * D + d) * E, *token = x + (b * N + n) * E;
        result[at] = bias[h * D + d];
        for (int64_t e = 0; e < E; e++) {
            result[at] += token[e] * row[e];
        }
    }
    return result;
}

/* Fills in what is wanted; false: out of memory. */
static bool reference(const struct mha_doctor_array arrays[ARRAYS], int64_t B, int64_t N,
                      const gpu_mha_desc *desc, struct mha_doctor_output *output)
{
    const double *x = arrays[X].values;
    double *query = project(x, arrays[WQ].values, arrays[BQ].values, B, N, H, DK);
    double *key = project(x, arrays[WK].values, arrays[BK].values, B, N, HKV, DK);
    double *value = project(x, arrays[WV].values, arrays[BV].values, B, N, HKV, DV);
    struct mha_doctor_output attended;
    bool made = mha_doctor_output_make(&attended, GPU_MHA_F32, (size_t)(B * H * N * DV));
    double largest = 0;

    made = made && query && key && value;
    if (made) {
        const struct mha_doctor_problem problem = {*desc, NULL, NULL};
        mha_doctor_reference(&problem, query, key, value, &attended, NULL);
        for (int64_t at = 0; at < B * N * EO; at++) {
            const int64_t e = at % EO, n = at / EO % N, b = at / (EO * N);
            double sum = arrays[BO].values[e];
            for (int64_t c = 0; c < H * DV; c++) {
                sum += arrays[WO].values[e * H * DV + c] *
                       attended.values[((b * H + c / DV) * N + n) * DV + c % DV];
            }
            output->values[at] = sum;
            largest = fmax(largest, fabs(sum));
        }
        for (size_t at = 0; at < output->count; at++) {
            mha_doctor_want(output, at, output->values[at], LAYER_BOUND * largest);
        }
    }
    mha_doctor_output_free(&attended);
    free(query);
    free(key);
    free(value);
    return made;
}

/* The plan alone tells what would make the products. */
static void run(gpu_mha_context *context, const gpu_mha_layer_desc *desc,
                const gpu_mha_layer_arrays *arrays, const char *products,
                struct mha_doctor_finding *finding)
{
    gpu_mha_plan *plan = NULL;
    char wanted[64];

    if (!mha_doctor_called(gpu_mha_layer_plan_create(context, desc, &plan), finding)) {
        return;
    }
    snprintf(wanted, sizeof wanted, "products %s,", products ? products : "");
    if (products && strncmp(gpu_mha_plan_text(plan), wanted, strlen(wanted)) != 0) {
        finding->verdict = GPU_MHA_VERDICT_REFUSED;
        snprintf(finding->sentence, sizeof finding->sentence,
                 "it does not make these products: \"%s\" ran in its place",
                 gpu_mha_plan_text(plan));
    }
    gpu_mha_plan_release(plan);
    if (finding->verdict == GPU_MHA_VERDICT_NONE) {
        mha_doctor_called(gpu_mha_layer(context, desc, arrays), finding);
    }
}

void mha_doctor_try_layer(gpu_mha_context *context, gpu_mha_type type, int64_t B, int64_t N,
                          const char *products, struct mha_doctor_finding *finding)
{
    const size_t counts[ARRAYS] = {
        [X] = (size_t)(B * N * E), [WQ] = H * DK * E,  [WK] = HKV * DK * E,
        [WV] = HKV * DV * E,       [WO] = EO * H * DV, [BQ] = H * DK,
        [BK] = HKV * DK,           [BV] = HKV * DV,    [BO] = EO};
    struct mha_doctor_array a[ARRAYS];
    struct mha_doctor_output output;
    gpu_mha_desc inside = {.struct_size = sizeof inside,
                           .B = B,
                           .H = H,
                           .HKV = HKV,
                           .NQ = N,
                           .NK = N,
                           .DK = DK,
                           .DV = DV,
                           .causal = 1};
    const gpu_mha_layer_desc desc = {.struct_size = sizeof desc,
                                     .attention = &inside,
                                     .EQ = E,
                                     .EK = E,
                                     .EV = E,
                                     .EO = EO,
                                     .weight_type = type,
                                     .bias_q = 1,
                                     .bias_k = 1,
                                     .bias_v = 1,
                                     .bias_out = 1};

    inside.query.type = inside.key.type = inside.value.type = inside.output.type = type;
    bool made = mha_doctor_output_make(&output, type, (size_t)(B * N * EO));
    for (int i = 0; i < ARRAYS; i++) {
        made = mha_doctor_random(&a[i], type, counts[i], (uint32_t)i + 1) && made;
    }
    const gpu_mha_layer_arrays arrays = {.struct_size = sizeof arrays,
                                         .query_input = a[X].data,
                                         .key_input = a[X].data,
                                         .value_input = a[X].data,
                                         .weight_q = a[WQ].data,
                                         .weight_k = a[WK].data,
                                         .weight_v = a[WV].data,
                                         .weight_out = a[WO].data,
                                         .bias_q = a[BQ].data,
                                         .bias_k = a[BK].data,
                                         .bias_v = a[BV].data,
                                         .bias_out = a[BO].data,
                                         .output = output.data};
    if (made) {
        run(context, &desc, &arrays, products, finding);
    }
    if (!made ||
        (finding->verdict == GPU_MHA_VERDICT_NONE && !reference(a, B, N, &inside, &output))) {
        mha_doctor_no_memory(finding);
    } else if (finding->verdict == GPU_MHA_VERDICT_NONE) {
        mha_doctor_judge(&output, finding);
    }
    for (int i = 0; i < ARRAYS; i++) {
        mha_doctor_free(&a[i]);
    }
    mha_doctor_output_free(&output);
}
