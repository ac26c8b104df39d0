/* What the caller's buffers must hold, and that they do not overlap. */
#include <inttypes.h>

#include "attention/workspace.h"
#include "cl/region.h"
#include "layer/layer.h"

gpu_mha_status mha_layer_check(const struct mha_layer *layer, const gpu_mha_layer_buffers *b,
                               cl_context cl)
{
    const struct mha_layer_problem *lp = &layer->problem;
    const struct mha_problem *p = &lp->attention;
    const gpu_mha_desc *d = &p->desc;
    const struct mha_linear *q = &lp->maps[MHA_MAP_QUERY], *k = &lp->maps[MHA_MAP_KEY];
    const struct mha_linear *v = &lp->maps[MHA_MAP_VALUE], *o = &lp->maps[MHA_MAP_OUT];
    const int any = !p->empty_output;
    const int separate = !lp->desc.packed_qkv;
    const size_t weight = mha_type_bytes(lp->desc.weight_type);
    /* A layer without output reads nothing, so its inputs may be absent. */
    const struct mha_region regions[] = {
        {"query_input", b->query_input, 1, any * q->M * q->K, mha_type_bytes(q->input_type),
         MHA_READ},
        {"key_input", b->key_input, 1, any * k->M * k->K, mha_type_bytes(k->input_type), MHA_READ},
        {"value_input", b->value_input, 1, any * v->M * v->K, mha_type_bytes(v->input_type),
         MHA_READ},
        {"weight_q", b->weight_q, 1, any * q->weight_rows * q->K, weight, MHA_READ},
        {"weight_k", b->weight_k, separate, any * k->weight_rows * k->K, weight, MHA_READ},
        {"weight_v", b->weight_v, separate, any * v->weight_rows * v->K, weight, MHA_READ},
        {"weight_out", b->weight_out, 1, any * o->weight_rows * o->K, weight, MHA_READ},
        {"bias_q", b->bias_q, q->has_bias, any * q->weight_rows, weight, MHA_READ},
        {"bias_k", b->bias_k, separate && k->has_bias, any * k->weight_rows, weight, MHA_READ},
        {"bias_v", b->bias_v, separate && v->has_bias, any * v->weight_rows, weight, MHA_READ},
        {"bias_out", b->bias_out, o->has_bias, any * o->weight_rows, weight, MHA_READ},
        {"mask", b->mask, d->mask.type != GPU_MHA_MASK_NONE, any * p->mask.span, 1, MHA_READ},
        {"bias", b->bias, d->bias.type != GPU_MHA_MASK_NONE, any * p->bias.span,
         mha_mask_bytes(d->bias.type), MHA_READ},
        {"key_lengths", b->key_lengths, d->key_lengths != GPU_MHA_INDEX_NONE, any * d->B,
         mha_index_bytes(d->key_lengths), MHA_READ},
        {"alibi_slopes", b->alibi_slopes, d->alibi == GPU_MHA_ALIBI_SLOPES, any * d->H, 4,
         MHA_READ},
        {"sinks", b->sinks, d->sinks, any * d->H, 4, MHA_READ},
        {"output", b->output, 1, any * o->M * o->N, mha_type_bytes(o->output_type), MHA_EXCLUSIVE},
        {"lse", b->lse, d->lse, d->lse ? mha_problem_lse_count(p) : 0, 4, MHA_EXCLUSIVE},
        {"weights", b->weights, d->weights != GPU_MHA_WEIGHTS_NONE, mha_problem_weights_count(p), 4,
         MHA_EXCLUSIVE},
        {"scores", b->scores, d->scores != GPU_MHA_SCORES_NONE,
         d->scores != GPU_MHA_SCORES_NONE ? mha_problem_scores_count(p) : 0, 4, MHA_EXCLUSIVE},
        {"workspace", b->workspace, 1, (int64_t)layer->workspace_bytes, 1, MHA_EXCLUSIVE},
    };
    MHA_INVALID_IF(b->workspace.offset % MHA_WORKSPACE_ALIGN != 0,
                   "workspace.offset is %" PRIu64 ": it must be a multiple of %d bytes",
                   b->workspace.offset, MHA_WORKSPACE_ALIGN);
    return mha_regions_check(regions, (int)(sizeof regions / sizeof regions[0]), cl);
}
