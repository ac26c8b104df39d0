/* What all implementations of the product share: the size of a shape, and the empty product. */
#include "blas/gemm.h"

#include <inttypes.h>

#include "cl/verdicts.h"
#include "core/log.h"

static int64_t span(int64_t rows, int64_t stride, int64_t columns)
{
    return rows == 0 ? 0 : mha_size_add(mha_size_mul(rows - 1, stride), columns);
}

/* One implementation is not for the product, for the reason `why`, and the other is avoided. */
static gpu_mha_status refuse_both(const struct mha_device *device, const char *why,
                                  const struct mha_gemm_kind *other)
{
    const gpu_mha_verdict verdict = mha_verdict_to_avoid(device, other->variant, 0);
    return mha_error_set(GPU_MHA_UNSUPPORTED,
                         "%s; \"%s\", which would be taken instead, must be ok: gpu-mha doctor "
                         "found it %s",
                         why, other->variant, gpu_mha_verdict_text(verdict));
}

gpu_mha_status mha_gemm_prepare_default(gpu_mha_context *context,
                                        const struct mha_gemm_shape *shape, struct mha_gemm *gemm)
{
    int sound = 0;
    const struct mha_gemm_kind *kind = mha_gemm_candidate(&context->device, 0, &sound);
    MHA_TRY(mha_verdict_check(&context->device, kind->variant, 0));
    mha_error_attempt();
    const gpu_mha_status status = mha_gemm_prepare_with(kind, context, shape, gemm);
    if (status != GPU_MHA_UNSUPPORTED) {
        return status == GPU_MHA_OK ? (mha_error_attempt_end(), status)
                                    : mha_error_attempt_failed();
    }
    const struct mha_gemm_kind *other = mha_gemm_candidate(&context->device, 1, NULL);
    if (sound < 2) {
        return refuse_both(&context->device, mha_error_attempt_end(), other);
    }
    mha_log(MHA_LOG_INFO, "replace %s by %s: %s", kind->name, other->name, mha_error_attempt_end());
    return mha_gemm_prepare_with(other, context, shape, gemm);
}

gpu_mha_status mha_gemm_prepare(gpu_mha_context *context, const struct mha_gemm_shape *shape,
                                struct mha_gemm *gemm)
{
    struct mha_tuned_entry entry;
    const struct mha_gemm_kind *kind = mha_gemm_kind_for(context, &entry);
    if (entry.key[0] == '\0') {
        return mha_gemm_prepare_default(context, shape, gemm);
    }
    /* A measured one is never the reason for a failure: the default gets its turn. */
    mha_error_attempt();
    const gpu_mha_status status = mha_gemm_prepare_with(kind, context, shape, gemm);
    const char *why = mha_error_attempt_end();
    if (status != GPU_MHA_OK) {
        MHA_TRY(mha_gemm_prepare_default(context, shape, gemm));
        mha_tuned_reject(context->tuned, &entry, status, why);
    }
    return GPU_MHA_OK;
}

gpu_mha_status mha_gemm_prepare_with(const struct mha_gemm_kind *kind, gpu_mha_context *context,
                                     const struct mha_gemm_shape *shape, struct mha_gemm *gemm)
{
    const struct mha_gemm_shape *s = shape;
    *gemm = (struct mha_gemm){.shape = *s, .align_bytes = context->device.base_align_bytes};
    if (s->M == 0 || s->N == 0) {
        return GPU_MHA_OK;
    }
    const int64_t largest =
        mha_size_add(span(s->M, s->a_stride, s->K),
                     mha_size_add(span(s->N, s->w_stride, s->K), span(s->M, s->c_stride, s->N)));
    MHA_RETURN_IF(!mha_size_fits(mha_size_mul(largest, (int64_t)sizeof(float))),
                  GPU_MHA_UNSUPPORTED,
                  "a product of (%" PRId64 ", %" PRId64 ") and (%" PRId64 ", %" PRId64
                  ") is more than this machine can address",
                  s->M, s->K, s->K, s->N);
    gemm->kind = kind;
    gemm->rows = s->M;
    const gpu_mha_status status = kind->prepare(context, gemm);
    if (status != GPU_MHA_OK) {
        mha_gemm_destroy(gemm);
    }
    return status;
}

gpu_mha_status mha_gemm_launch(struct mha_gemm *gemm, struct mha_chain *chain, gpu_mha_buffer a,
                               gpu_mha_buffer w, gpu_mha_buffer bias, gpu_mha_buffer c,
                               gpu_mha_buffer scratch)
{
    return gemm->kind == NULL ? GPU_MHA_OK
                              : gemm->kind->launch(gemm, chain, a, w, bias, c, scratch);
}

void mha_gemm_destroy(struct mha_gemm *gemm)
{
    if (gemm != NULL) {
        mha_kernel_destroy(&gemm->pack);
        mha_kernel_destroy(&gemm->product);
    }
}
