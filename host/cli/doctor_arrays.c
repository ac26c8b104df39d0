/*
 * Arrays for gpu-mha doctor: random inputs, outputs with what is wanted of them, and the verdict on
 * them; see doctor.h.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "doctor.h"
#include "npy.h"

static const enum mha_npy_type npy_types[MHA_DOCTOR_TYPES] = {
    [GPU_MHA_F32] = MHA_NPY_F32, [GPU_MHA_F16] = MHA_NPY_F16, [GPU_MHA_BF16] = MHA_NPY_BF16};

static struct mha_npy as_npy(gpu_mha_type type, void *data, size_t count)
{
    struct mha_npy array = {.type = npy_types[type], .rank = 1, .count = count, .data = data};
    array.shape[0] = (int64_t)count;
    array.bytes = count * mha_npy_item_size(array.type);
    return array;
}

bool mha_doctor_random(struct mha_doctor_array *array, gpu_mha_type type, size_t count,
                       uint32_t seed)
{
    float *drawn = malloc(count * sizeof *drawn);
    uint32_t state = seed * 2654435761u + 1;

    *array = (struct mha_doctor_array){.count = count};
    for (size_t i = 0; drawn && i < count; i++) {
        state = state * 1664525u + 1013904223u;
        drawn[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
    }
    struct mha_npy from = as_npy(GPU_MHA_F32, drawn, count);
    if (drawn) {
        array->data = type == GPU_MHA_F16    ? (void *)mha_npy_to_f16(&from)
                      : type == GPU_MHA_BF16 ? (void *)mha_npy_to_bf16(&from)
                                             : (void *)mha_npy_to_f32(&from);
    }
    free(drawn);
    if (array->data) {
        const struct mha_npy stored = as_npy(type, array->data, count);
        array->values = mha_npy_to_f64(&stored);
    }
    return array->values != NULL;
}

void mha_doctor_free(struct mha_doctor_array *array)
{
    free(array->data);
    free(array->values);
    *array = (struct mha_doctor_array){0};
}

bool mha_doctor_output_make(struct mha_doctor_output *output, gpu_mha_type type, size_t count)
{
    const size_t bytes = count * mha_npy_item_size(npy_types[type]);
    *output = (struct mha_doctor_output){.count = count,
                                         .type = type,
                                         .data = malloc(bytes),
                                         .values = calloc(count, sizeof(double)),
                                         .bounds = calloc(count, sizeof(double))};
    if (output->data) {
        memset(output->data, 0xff, bytes); /* a NaN in every type */
    }
    return output->data && output->values && output->bounds;
}

void mha_doctor_output_free(struct mha_doctor_output *output)
{
    free(output->data);
    free(output->values);
    free(output->bounds);
    *output = (struct mha_doctor_output){0};
}

void mha_doctor_want(struct mha_doctor_output *output, size_t at, double value, double slack)
{
    const struct mha_rounding rounding = mha_rounding_of(npy_types[output->type]);

    output->values[at] = value;
    /* Of slack 0 only the very number is right. */
    output->bounds[at] =
        slack > 0 ? slack + rounding.unit * fabs(value) + rounding.smallest / 2 : 0;
}

void mha_doctor_judge(const struct mha_doctor_output *output, struct mha_doctor_finding *finding)
{
    const struct mha_npy stored = as_npy(output->type, output->data, output->count);
    double *got = mha_npy_to_f64(&stored);

    if (!got) {
        mha_doctor_no_memory(finding);
        return;
    }
    if (finding->verdict == GPU_MHA_VERDICT_NONE) {
        finding->verdict = GPU_MHA_VERDICT_OK;
        finding->error = finding->bound = 0;
    }
    for (size_t i = 0; i < output->count; i++) {
        const double bound = output->bounds[i];
        const double error = mha_error_of(output->values[i], got[i]);
        if (!(error <= bound)) {
            finding->verdict = GPU_MHA_VERDICT_WRONG;
        }
        if (mha_share_of_bound(error, bound) >=
            mha_share_of_bound(finding->error, finding->bound)) {
            finding->error = error;
            finding->bound = bound;
        }
    }
    free(got);
}

bool mha_doctor_called(gpu_mha_status status, struct mha_doctor_finding *finding)
{
    if (status == GPU_MHA_OK) {
        return true;
    }
    finding->verdict =
        status == GPU_MHA_UNSUPPORTED ? GPU_MHA_VERDICT_REFUSED : GPU_MHA_VERDICT_FAILED;
    snprintf(finding->sentence, sizeof finding->sentence, "%s", gpu_mha_last_error());
    return false;
}

void mha_doctor_no_memory(struct mha_doctor_finding *finding)
{
    /* Nobody's fault but this machine's: nothing is known of the variant. */
    finding->verdict = GPU_MHA_VERDICT_NONE;
    snprintf(finding->sentence, sizeof finding->sentence, "no memory to try it");
}
