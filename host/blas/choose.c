/* Which implementation makes the products on a device. */
#include <string.h>

#include "blas/gemm.h"

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

const struct mha_gemm_kind *mha_gemm_candidate(const struct mha_device *device, int index)
{
    return kinds[(default_for(device) + index) % MHA_GEMM_KINDS];
}

const struct mha_gemm_kind *mha_gemm_kind_for(gpu_mha_context *context,
                                              struct mha_tuned_entry *entry)
{
    if (mha_tuned_get(context->tuned, MHA_GEMM_KEY, entry)) {
        for (int k = 0; k < MHA_GEMM_KINDS; k++) {
            if (strcmp(kinds[k]->name, entry->value) == 0) {
                return kinds[k];
            }
        }
        mha_tuned_reject(context->tuned, entry, GPU_MHA_INVALID, "it is neither tile nor CLBlast");
    }
    entry->key[0] = '\0';
    return mha_gemm_candidate(&context->device, 0);
}
