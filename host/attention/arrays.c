/* Masks, key lengths, slopes and sinks to the device; LSE, weights and scores back. */
#include "attention/arrays.h"

#include <inttypes.h>

static struct mha_view view_of_mask(const struct mha_problem *p, const struct mha_mask *m)
{
    const gpu_mha_desc *d = &p->desc;
    return (struct mha_view){{d->B, d->H, d->NQ, p->NT},
                             {m->stride[0], m->stride[1], m->stride[2], m->stride[3]},
                             mha_mask_bytes(m->type)};
}

void mha_arrays_list(const struct mha_problem *p, const gpu_mha_arrays *given,
                     struct mha_transfer inputs[MHA_ARRAY_INPUTS],
                     struct mha_transfer outputs[MHA_ARRAY_OUTPUTS])
{
    const gpu_mha_desc *d = &p->desc;
    const size_t f32 = sizeof(float);
    inputs[MHA_ARRAY_MASK] = mha_transfer_in("mask", d->mask.type != GPU_MHA_MASK_NONE, given->mask,
                                             view_of_mask(p, &p->mask));
    inputs[MHA_ARRAY_BIAS] = mha_transfer_in("bias", d->bias.type != GPU_MHA_MASK_NONE, given->bias,
                                             view_of_mask(p, &p->bias));
    inputs[MHA_ARRAY_KEY_LENGTHS] =
        mha_transfer_in("key_lengths", d->key_lengths != GPU_MHA_INDEX_NONE, given->key_lengths,
                        mha_view_flat(d->B, mha_index_bytes(d->key_lengths)));
    inputs[MHA_ARRAY_SLOPES] = mha_transfer_in("alibi_slopes", d->alibi == GPU_MHA_ALIBI_SLOPES,
                                               given->alibi_slopes, mha_view_flat(d->H, f32));
    inputs[MHA_ARRAY_SINKS] =
        mha_transfer_in("sinks", d->sinks, given->sinks, mha_view_flat(d->H, f32));
    outputs[MHA_ARRAY_LSE] =
        mha_transfer_out("lse", d->lse, given->lse, mha_view_flat(mha_problem_lse_count(p), f32));
    outputs[MHA_ARRAY_WEIGHTS] =
        mha_transfer_out("weights", d->weights != GPU_MHA_WEIGHTS_NONE, given->weights,
                         mha_view_flat(mha_problem_weights_count(p), f32));
    outputs[MHA_ARRAY_SCORES] =
        mha_transfer_out("scores", d->scores != GPU_MHA_SCORES_NONE, given->scores,
                         mha_view_flat(mha_problem_scores_count(p), f32));
}

gpu_mha_status mha_arrays_check_key_lengths(const struct mha_problem *p, const void *key_lengths)
{
    const gpu_mha_index_type type = p->desc.key_lengths;
    /* Without batch entries the array may be absent. */
    for (int64_t b = 0; type != GPU_MHA_INDEX_NONE && b < p->desc.B; ++b) {
        const int64_t length = type == GPU_MHA_I32 ? ((const int32_t *)key_lengths)[b]
                                                   : ((const int64_t *)key_lengths)[b];
        MHA_INVALID_IF(length < 0 || length > p->NT,
                       "key_lengths[%" PRId64 "] is %" PRId64
                       ": it must be from 0 to NP + NK, which is %" PRId64,
                       b, length, p->NT);
    }
    return GPU_MHA_OK;
}

gpu_mha_mask mha_arrays_device_mask(const struct mha_transfer *transfer, gpu_mha_mask_type type)
{
    gpu_mha_mask mask = {.type = type};
    for (int a = 0; a < 4 && type != GPU_MHA_MASK_NONE; ++a) {
        mask.strided = 1;
        /* An axis of stride 0 broadcasts on the device, whatever its length is here. */
        mask.shape[a] = transfer->device.stride[a] == 0 ? 1 : transfer->device.length[a];
        mask.stride[a] = transfer->device.stride[a];
    }
    return mask;
}
