/* Checks of the caller's buffers for an attention, before anything is launched. */
#include <inttypes.h>

#include "attention/attention.h"
#include "attention/workspace.h"
#include "cl/overlap.h"
#include "cl/region.h"

/* Inputs that may be of any layout lie first in the list of regions. */
#define TENSORS 5
#define INPUTS 10

/*
 * The output may be interleaved with an input, but share no element. `regions` are the inputs as
 * mha_attention_check lists them, the output behind them.
 */
static gpu_mha_status check_output(const struct mha_problem *p, const gpu_mha_buffers *b,
                                   const struct mha_region *regions)
{
    const struct mha_tensor *tensors[TENSORS] = {&p->query, &p->key, &p->value, &p->past_key,
                                                 &p->past_value};
    const struct mha_view view = mha_view_of_tensor(&p->output);
    struct mha_footprint output;
    MHA_TRY(mha_footprint_find("output", b->output, &view, &output));
    for (int i = 0; i < INPUTS; ++i) {
        const struct mha_region *r = &regions[i];
        if (!r->wanted || r->span == 0) {
            continue;
        }
        const struct mha_view other =
            i < TENSORS ? mha_view_of_tensor(tensors[i]) : mha_view_flat(r->span, r->element_bytes);
        struct mha_footprint input;
        MHA_TRY(mha_footprint_find(r->name, r->buffer, &other, &input));
        MHA_INVALID_IF(!mha_footprint_apart(&output, &input),
                       "output overlaps %s: it must lie apart from every input", r->name);
    }
    return GPU_MHA_OK;
}

gpu_mha_status mha_attention_check(const struct mha_attention *a, const gpu_mha_buffers *b,
                                   cl_context cl)
{
    const struct mha_problem *p = &a->problem;
    const gpu_mha_desc *d = &p->desc;
    const int any = !p->empty_output;
    const int64_t lengths = d->key_lengths != GPU_MHA_INDEX_NONE ? d->B : 0;
    /* A problem without output reads nothing, so its inputs may be absent. */
    const struct mha_region regions[] = {
        {"query", b->query, 1, any ? p->query.span : 0, mha_type_bytes(p->query.type), MHA_READ},
        {"key", b->key, 1, any ? p->key.span : 0, mha_type_bytes(p->key.type), MHA_READ},
        {"value", b->value, 1, any ? p->value.span : 0, mha_type_bytes(p->value.type), MHA_READ},
        {"past_key", b->past_key, d->NP > 0, any ? p->past_key.span : 0,
         mha_type_bytes(p->past_key.type), MHA_READ},
        {"past_value", b->past_value, d->NP > 0, any ? p->past_value.span : 0,
         mha_type_bytes(p->past_value.type), MHA_READ},
        {"mask", b->mask, d->mask.type != GPU_MHA_MASK_NONE, any ? p->mask.span : 0, 1, MHA_READ},
        {"bias", b->bias, d->bias.type != GPU_MHA_MASK_NONE, any ? p->bias.span : 0,
         mha_mask_bytes(d->bias.type), MHA_READ},
        {"key_lengths", b->key_lengths, d->key_lengths != GPU_MHA_INDEX_NONE, any ? lengths : 0,
         mha_index_bytes(d->key_lengths == GPU_MHA_I32 ? GPU_MHA_I32 : GPU_MHA_I64), MHA_READ},
        {"alibi_slopes", b->alibi_slopes, d->alibi == GPU_MHA_ALIBI_SLOPES, any ? d->H : 0, 4,
         MHA_READ},
        {"sinks", b->sinks, d->sinks, any ? d->H : 0, 4, MHA_READ},
        {"output", b->output, 1, p->output.span, mha_type_bytes(p->output.type), MHA_WRITE},
        {"lse", b->lse, d->lse, d->lse ? mha_problem_lse_count(p) : 0, 4, MHA_EXCLUSIVE},
        {"weights", b->weights, d->weights != GPU_MHA_WEIGHTS_NONE, mha_problem_weights_count(p), 4,
         MHA_EXCLUSIVE},
        {"scores", b->scores, d->scores != GPU_MHA_SCORES_NONE,
         d->scores != GPU_MHA_SCORES_NONE ? mha_problem_scores_count(p) : 0, 4, MHA_EXCLUSIVE},
        {"workspace", b->workspace, 1, (int64_t)a->workspace_bytes, 1, MHA_EXCLUSIVE},
    };
    MHA_INVALID_IF(b->workspace.offset % MHA_WORKSPACE_ALIGN != 0,
                   "workspace.offset is %" PRIu64 ": it must be a multiple of %d bytes",
                   b->workspace.offset, MHA_WORKSPACE_ALIGN);
    MHA_TRY(mha_regions_check(regions, (int)(sizeof regions / sizeof regions[0]), cl));
    return any ? check_output(p, b, regions) : GPU_MHA_OK;
}
