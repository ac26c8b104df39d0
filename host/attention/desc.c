/* Descriptor -> problem: validation and defaults. Needs no device. */
#include <inttypes.h>
#include <math.h>

#include "attention/problem.h"
#include "common/params.h"

static gpu_mha_status check_sizes(const gpu_mha_desc *d)
{
    MHA_TRY(mha_length_check("B", d->B, 0));
    MHA_TRY(mha_length_check("H", d->H, 1));
    MHA_TRY(mha_length_check("HKV", d->HKV, 1));
    MHA_TRY(mha_length_check("NQ", d->NQ, 0));
    MHA_TRY(mha_length_check("NK", d->NK, 0));
    MHA_TRY(mha_length_check("NP", d->NP, 0));
    MHA_TRY(mha_length_check("DK", d->DK, 1));
    MHA_TRY(mha_length_check("DV", d->DV, 1));
    MHA_TRY(mha_length_check("NP + NK", d->NP + d->NK, 0));
    MHA_INVALID_IF(d->H % d->HKV != 0,
                   "H is %" PRId64 ": it must be a multiple of HKV, which is %" PRId64, d->H,
                   d->HKV);
    return GPU_MHA_OK;
}

static gpu_mha_status check_scores(const gpu_mha_desc *d)
{
    MHA_TRY(mha_flag_check("has_scale", d->has_scale));
    MHA_INVALID_IF(!d->has_scale && d->scale != 0.0f,
                   "scale is %g: it is read only with has_scale = 1, so it must be 0",
                   (double)d->scale);
    MHA_INVALID_IF(!isfinite(d->scale), "scale is %g: it must be finite", (double)d->scale);
    MHA_INVALID_IF(!(d->softcap >= 0.0f) || isinf(d->softcap),
                   "softcap is %g: it must be 0 (none) or positive and finite", (double)d->softcap);
    MHA_TRY(mha_flag_check("sinks", d->sinks));
    MHA_INVALID_IF(!(d->dropout >= 0.0f && d->dropout < 1.0f),
                   "dropout is %g: it must be at least 0 and below 1", (double)d->dropout);
    const int alibi = (int)d->alibi;
    MHA_INVALID_IF(alibi < GPU_MHA_ALIBI_NONE || alibi > GPU_MHA_ALIBI_SLOPES,
                   "alibi is %d: it must be GPU_MHA_ALIBI_NONE, _AUTO or _SLOPES", alibi);
    return GPU_MHA_OK;
}

static gpu_mha_status check_geometry(const gpu_mha_desc *d)
{
    const int kind = (int)d->offset_kind;
    MHA_TRY(mha_flag_check("causal", d->causal));
    MHA_TRY(mha_flag_check("has_window", d->has_window));
    MHA_INVALID_IF(kind < GPU_MHA_TOP_LEFT || kind > GPU_MHA_OFFSET,
                   "offset_kind is %d: it must be GPU_MHA_TOP_LEFT, _BOTTOM_RIGHT or _OFFSET",
                   kind);
    MHA_INVALID_IF(kind != GPU_MHA_OFFSET && d->offset != 0,
                   "offset is %" PRId64
                   ": it is read only with offset_kind = GPU_MHA_OFFSET, so it must be 0",
                   d->offset);
    MHA_INVALID_IF(d->offset > MHA_LENGTH_MAX || d->offset < -MHA_LENGTH_MAX,
                   "offset is %" PRId64 ": it must be from -2^40 to 2^40", d->offset);
    const struct {
        const char *name;
        int64_t value;
    } sides[2] = {{"window_left", d->window_left}, {"window_right", d->window_right}};
    for (int s = 0; s < 2; ++s) {
        MHA_INVALID_IF(!d->has_window && sides[s].value != 0,
                       "%s is %" PRId64 ": it is read only with has_window = 1, so it must be 0",
                       sides[s].name, sides[s].value);
        MHA_INVALID_IF(sides[s].value < -1,
                       "%s is %" PRId64 ": it must be at least 0, or -1 for unbounded",
                       sides[s].name, sides[s].value);
    }
    return mha_index_type_check("key_lengths", d->key_lengths);
}

static gpu_mha_status check_outputs(const gpu_mha_desc *d)
{
    const int weights = (int)d->weights, scores = (int)d->scores, method = (int)d->method;
    MHA_TRY(mha_flag_check("lse", d->lse));
    MHA_INVALID_IF(weights < GPU_MHA_WEIGHTS_NONE || weights > GPU_MHA_WEIGHTS_AVERAGED,
                   "weights is %d: it must be GPU_MHA_WEIGHTS_NONE, _PER_HEAD or _AVERAGED",
                   weights);
    MHA_INVALID_IF(scores < GPU_MHA_SCORES_NONE || scores > GPU_MHA_SCORES_SOFTMAX,
                   "scores is %d: it must be GPU_MHA_SCORES_NONE, _RAW, _CAPPED, _MASKED or "
                   "_SOFTMAX",
                   scores);
    MHA_INVALID_IF(method < GPU_MHA_AUTO || method > GPU_MHA_STAGED,
                   "method is %d: it must be GPU_MHA_AUTO, GPU_MHA_FUSED or GPU_MHA_STAGED",
                   method);
    MHA_INVALID_IF(method == GPU_MHA_FUSED && (weights != 0 || scores != 0),
                   "method is GPU_MHA_FUSED: it gives no %s, so use GPU_MHA_AUTO or GPU_MHA_STAGED",
                   weights != 0 ? "weights" : "scores");
    return GPU_MHA_OK;
}

static gpu_mha_status read_mask(const char *name, const gpu_mha_mask *given, int is_bool,
                                const int64_t full[4], struct mha_mask *mask)
{
    const int type = (int)given->type;
    *mask = (struct mha_mask){.name = name, .type = given->type};
    MHA_INVALID_IF(is_bool && type != GPU_MHA_MASK_NONE && type != GPU_MHA_MASK_BOOL,
                   "%s.type is %d: it must be GPU_MHA_MASK_NONE or GPU_MHA_MASK_BOOL", name, type);
    MHA_INVALID_IF(!is_bool && (type == GPU_MHA_MASK_BOOL || type < 0 || type > GPU_MHA_MASK_BF16),
                   "%s.type is %d: it must be GPU_MHA_MASK_NONE, _F32, _F16 or _BF16", name, type);
    MHA_TRY(mha_flag_check(is_bool ? "mask.strided" : "bias.strided", given->strided));
    static const char *const axes[4] = {"B", "H", "NQ", "NP + NK"};
    int64_t packed = 1, last = 0;
    int empty = 0;
    for (int a = 3; a >= 0; --a) {
        const int64_t length = given->shape[a] == 0 ? full[a] : given->shape[a];
        MHA_INVALID_IF(type == GPU_MHA_MASK_NONE && (given->shape[a] != 0 || given->stride[a] != 0),
                       "%s.%s[%d] is set: without a mask type it must be 0", name,
                       given->shape[a] != 0 ? "shape" : "stride", a);
        MHA_INVALID_IF(length != full[a] && length != 1,
                       "%s.shape[%d] is %" PRId64 ": it must be %s, which is %" PRId64 ", or 1",
                       name, a, given->shape[a], axes[a], full[a]);
        MHA_INVALID_IF(given->stride[a] < 0,
                       "%s.stride[%d] is %" PRId64 ": it must not be negative", name, a,
                       given->stride[a]);
        MHA_INVALID_IF(!given->strided && given->stride[a] != 0,
                       "%s.stride[%d] is %" PRId64 ": it must be 0 unless strided is 1", name, a,
                       given->stride[a]);
        const int64_t stride = given->strided ? given->stride[a] : packed;
        mask->stride[a] = length == 1 ? 0 : stride;
        last = mha_size_add(last, mha_size_mul(length > 0 ? length - 1 : 0, mask->stride[a]));
        packed = mha_size_mul(packed, length);
        empty |= length == 0 || full[a] == 0;
    }
    mask->span = type == GPU_MHA_MASK_NONE || empty ? 0 : mha_size_add(last, 1);
    MHA_INVALID_IF(!mha_size_fits(mha_size_mul(mask->span, 4)),
                   "%s spans more than this machine can address: its lengths and strides are too "
                   "large",
                   name);
    return GPU_MHA_OK;
}

static gpu_mha_status read_tensors(struct mha_problem *p)
{
    const gpu_mha_desc *d = &p->desc;
    MHA_TRY(mha_tensor_read("query", &d->query, MHA_INPUT, d->B, d->H, d->NQ, d->DK, &p->query));
    MHA_TRY(mha_tensor_read("key", &d->key, MHA_INPUT, d->B, d->HKV, d->NK, d->DK, &p->key));
    MHA_TRY(mha_tensor_read("value", &d->value, MHA_INPUT, d->B, d->HKV, d->NK, d->DV, &p->value));
    MHA_TRY(mha_tensor_read("past_key", &d->past_key, MHA_INPUT, d->B, d->HKV, d->NP, d->DK,
                            &p->past_key));
    MHA_TRY(mha_tensor_read("past_value", &d->past_value, MHA_INPUT, d->B, d->HKV, d->NP, d->DV,
                            &p->past_value));
    MHA_TRY(
        mha_tensor_read("output", &d->output, MHA_OUTPUT, d->B, d->H, d->NQ, d->DV, &p->output));
    const int64_t full[4] = {d->B, d->H, d->NQ, p->NT};
    MHA_TRY(read_mask("mask", &d->mask, 1, full, &p->mask));
    MHA_TRY(read_mask("bias", &d->bias, 0, full, &p->bias));
    const int64_t rows = mha_problem_lse_count(p);
    MHA_INVALID_IF(!mha_size_fits(mha_size_mul(rows, 4)),
                   "B * H * NQ is too large: it must fit this machine's addresses");
    if (d->weights != GPU_MHA_WEIGHTS_NONE || d->scores != GPU_MHA_SCORES_NONE) {
        MHA_INVALID_IF(!mha_size_fits(mha_size_mul(mha_problem_scores_count(p), 4)),
                       "B * H * NQ * (NP + NK) is too large for weights or scores: it must fit "
                       "this machine's addresses");
    }
    return GPU_MHA_OK;
}

gpu_mha_status mha_problem_read(const gpu_mha_desc *desc, struct mha_problem *problem)
{
    MHA_INVALID_IF(desc == NULL, "desc is NULL: a descriptor is needed");
    struct mha_problem p = {0};
    MHA_TRY(mha_struct_read(&p.desc, sizeof p.desc, desc, desc->struct_size, sizeof(gpu_mha_desc),
                            "gpu_mha_desc"));
    p.desc.struct_size = sizeof p.desc;
    const gpu_mha_desc *d = &p.desc;
    MHA_TRY(check_sizes(d));
    MHA_TRY(check_scores(d));
    MHA_TRY(check_geometry(d));
    MHA_TRY(check_outputs(d));
    p.NT = d->NP + d->NK;
    p.scale = d->has_scale ? d->scale : (float)(1.0 / sqrt((double)d->DK));
    const int64_t open = MHA_UNBOUNDED;
    p.window_left =
        d->has_window && d->window_left >= 0 && d->window_left < open ? d->window_left : open;
    p.window_right =
        d->has_window && d->window_right >= 0 && d->window_right < open ? d->window_right : open;
    p.dropout_threshold = (uint32_t)floor((double)d->dropout * 4294967296.0);
    p.empty_output = d->B == 0 || d->NQ == 0;
    MHA_TRY(read_tensors(&p));
    *problem = p;
    return GPU_MHA_OK;
}

int64_t mha_problem_lse_count(const struct mha_problem *p)
{
    return mha_size_mul(mha_size_mul(p->desc.B, p->desc.H), p->desc.NQ);
}

int64_t mha_problem_scores_count(const struct mha_problem *p)
{
    return mha_size_mul(mha_problem_lse_count(p), p->NT);
}

int64_t mha_problem_weights_count(const struct mha_problem *p)
{
    const int64_t per_entry = mha_size_mul(p->desc.NQ, p->NT);
    switch (p->desc.weights) {
    case GPU_MHA_WEIGHTS_PER_HEAD:
        return mha_problem_scores_count(p);
    case GPU_MHA_WEIGHTS_AVERAGED:
        return mha_size_mul(p->desc.B, per_entry);
    default:
        return 0;
    }
}

gpu_mha_status gpu_mha_desc_check(const gpu_mha_desc *desc)
{
    struct mha_problem problem;
    return mha_problem_read(desc, &problem);
}

gpu_mha_status gpu_mha_mask_broadcast(gpu_mha_desc *desc, gpu_mha_mask_type type, int rank,
                                      const int64_t *shape)
{
    MHA_INVALID_IF(desc == NULL, "desc is NULL: a descriptor is needed");
    MHA_INVALID_IF(rank < 0 || rank > 4, "rank is %d: it must be from 0 to 4", rank);
    MHA_INVALID_IF(rank > 0 && shape == NULL, "shape is NULL: %d lengths are needed", rank);
    const int kind = (int)type;
    MHA_INVALID_IF(kind <= GPU_MHA_MASK_NONE || kind > GPU_MHA_MASK_BF16,
                   "type is %d: it must be GPU_MHA_MASK_BOOL, _F32, _F16 or _BF16", kind);
    MHA_TRY(check_sizes(desc));
    static const char *const axes[4] = {"B", "H", "NQ", "NP + NK"};
    const int64_t full[4] = {desc->B, desc->H, desc->NQ, desc->NP + desc->NK};
    gpu_mha_mask mask = {.type = type, .shape = {1, 1, 1, 1}};
    for (int a = 0; a < rank; ++a) {
        const int axis = 4 - rank + a;
        MHA_INVALID_IF(shape[a] != 1 && shape[a] != full[axis],
                       "shape[%d] is %" PRId64 ": it must be %s, which is %" PRId64 ", or 1", a,
                       shape[a], axes[axis], full[axis]);
        mask.shape[axis] = shape[a];
    }
    *(type == GPU_MHA_MASK_BOOL ? &desc->mask : &desc->bias) = mask;
    return GPU_MHA_OK;
}
