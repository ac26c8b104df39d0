/* Which implementation makes the products on a device. */
#include <string.h>

#include "blas/gemm.h"
#include "cl/verdicts.h"
#include "core/log.h"

static const struct mha_gemm_kind *const kinds[MHA_GEMM_KINDS] = {&mha_gemm_tile,
                                                                  &mha_gemm_clblast};

/*
 * CLBlast is written for GPUs; on a CPU device (PoCL) its untuned kernels reach a few per cent of
 * what the register tile does.
 */
static int default_for(const struct mha_device *device)
{
    return device->type & CL_DEVICE_TYPE_CPU ? 0 : 1;
}

const struct mha_gemm_kind *mha_gemm_candidate_of(const struct mha_device *device, int index)
{
    return kinds[(default_for(device) + index) % MHA_GEMM_KINDS];
}

static gpu_mha_verdict to_avoid(const struct mha_device *device, const struct mha_gemm_kind *kind)
{
    return mha_verdict_to_avoid(device, kind->variant, 0);
}

const struct mha_gemm_kind *mha_gemm_candidate(const struct mha_device *device, int index,
                                               int *sound)
{
    const struct mha_gemm_kind *list[MHA_GEMM_KINDS];
    int count = 0;
    for (int k = 0; k < MHA_GEMM_KINDS; k++) {
        const struct mha_gemm_kind *kind = mha_gemm_candidate_of(device, k);
        if (to_avoid(device, kind) == GPU_MHA_VERDICT_NONE) {
            list[count++] = kind;
        }
    }
    if (sound != NULL) {
        *sound = count;
    }
    for (int k = 0; k < MHA_GEMM_KINDS; k++) {
        const struct mha_gemm_kind *kind = mha_gemm_candidate_of(device, k);
        if (to_avoid(device, kind) != GPU_MHA_VERDICT_NONE) {
            list[count++] = kind;
        }
    }
    return list[index];
}

static const struct mha_gemm_kind *take_default(const struct mha_device *device)
{
    const struct mha_gemm_kind *usual = mha_gemm_candidate_of(device, 0);
    const struct mha_gemm_kind *taken = mha_gemm_candidate(device, 0, NULL);
    if (taken != usual) {
        mha_log(MHA_LOG_INFO,
                "avoid \"%s\": gpu-mha doctor found it %s, it must be ok; take \"%s\"",
                usual->variant, gpu_mha_verdict_text(to_avoid(device, usual)), taken->variant);
    }
    return taken;
}

const struct mha_gemm_kind *mha_gemm_kind_for(gpu_mha_context *context,
                                              struct mha_tuned_entry *entry)
{
    const struct mha_gemm_kind *measured = NULL;
    if (mha_tuned_get(context->tuned, MHA_GEMM_KEY, entry)) {
        for (int k = 0; k < MHA_GEMM_KINDS; k++) {
            if (strcmp(kinds[k]->name, entry->value) == 0) {
                measured = kinds[k];
            }
        }
        if (measured == NULL) {
            mha_tuned_reject(context->tuned, entry, GPU_MHA_INVALID,
                             "it is neither tile nor CLBlast");
        }
    }
    if (measured != NULL && to_avoid(&context->device, measured) == GPU_MHA_VERDICT_NONE) {
        return measured;
    }
    entry->key[0] = '\0';
    return take_default(&context->device);
}
