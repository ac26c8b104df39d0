/*
 * shrink.c - see shrink.h.
 */
#include "shrink.h"

#include "draw.h"

#include <string.h>

/* A trial may have to build kernels. */
#define TRIALS_MAX 400

/* ---- steps: each makes the spec simpler, or leaves it as it is ---- */

typedef void (*step_fn)(struct attention_spec *s);

static void drop_layouts(struct attention_spec *s)
{
    s->query = s->key = s->value = s->past_key = s->past_value = s->output = ATTENTION_BHND;
}

static void drop_output_layout(struct attention_spec *s)
{
    s->output = ATTENTION_BHND;
}

static void drop_past_layouts(struct attention_spec *s)
{
    s->past_key = s->past_value = ATTENTION_BHND;
}

static void drop_query_layout(struct attention_spec *s)
{
    s->query = s->query == ATTENTION_QKV ? s->query : ATTENTION_BHND;
}

static void drop_key_layout(struct attention_spec *s)
{
    s->key = s->key == ATTENTION_QKV ? s->key : ATTENTION_BHND;
}

static void drop_value_layout(struct attention_spec *s)
{
    s->value = s->value == ATTENTION_QKV ? s->value : ATTENTION_BHND;
}

static void drop_past(struct attention_spec *s)
{
    s->desc.NP = 0;
    s->desc.past_key = s->desc.past_value = (gpu_mha_tensor){GPU_MHA_F32};
    s->past_key = s->past_value = ATTENTION_BHND;
}

static void drop_mask(struct attention_spec *s)
{
    s->desc.mask.type = GPU_MHA_MASK_NONE;
    s->mask = (struct attention_mask){0, 0, 0};
}

static void drop_bias(struct attention_spec *s)
{
    s->desc.bias.type = GPU_MHA_MASK_NONE;
    s->bias = (struct attention_mask){0, 0, 0};
    s->lowest_bias = s->magnitude.bias = 0;
}

static void drop_mask_strides(struct attention_spec *s)
{
    s->mask.strided = s->bias.strided = 0;
}

static void full_masks(struct attention_spec *s)
{
    s->mask.full = s->desc.mask.type ? 0xF : 0;
    s->bias.full = s->desc.bias.type ? 0xF : 0;
}

static void plain_bias(struct attention_spec *s)
{
    s->lowest_bias = s->magnitude.bias = s->bias.hidden = 0;
    s->desc.bias.type = s->desc.bias.type ? GPU_MHA_MASK_F32 : GPU_MHA_MASK_NONE;
}

static void drop_lengths(struct attention_spec *s)
{
    s->desc.key_lengths = GPU_MHA_INDEX_NONE;
    s->any_length = 0;
}

static void drop_causal(struct attention_spec *s)
{
    s->desc.causal = 0;
}

static void drop_window(struct attention_spec *s)
{
    s->desc.has_window = 0;
    s->desc.window_left = s->desc.window_right = 0;
}

static void drop_offset(struct attention_spec *s)
{
    s->desc.offset_kind = GPU_MHA_TOP_LEFT;
    s->desc.offset = 0;
}

static void drop_alibi(struct attention_spec *s)
{
    s->desc.alibi = GPU_MHA_ALIBI_NONE;
}

static void drop_sinks(struct attention_spec *s)
{
    s->desc.sinks = 0;
}

static void drop_dropout(struct attention_spec *s)
{
    s->desc.dropout = 0;
    s->desc.dropout_seed = 0;
}

static void drop_scale(struct attention_spec *s)
{
    s->desc.has_scale = 0;
    s->desc.scale = 0;
}

static void drop_softcap(struct attention_spec *s)
{
    s->desc.softcap = 0;
}

static void drop_lse(struct attention_spec *s)
{
    s->desc.lse = 0;
}

static void drop_weights(struct attention_spec *s)
{
    s->desc.weights = GPU_MHA_WEIGHTS_NONE;
}

static void drop_scores(struct attention_spec *s)
{
    s->desc.scores = GPU_MHA_SCORES_NONE;
}

static void drop_types(struct attention_spec *s)
{
    gpu_mha_desc *d = &s->desc;

    d->query.type = d->key.type = d->value.type = d->output.type = GPU_MHA_F32;
    d->past_key.type = d->past_value.type = GPU_MHA_F32;
}

static void drop_output_type(struct attention_spec *s)
{
    s->desc.output.type = GPU_MHA_F32;
}

static void drop_query_type(struct attention_spec *s)
{
    s->desc.query.type = GPU_MHA_F32;
}

static void drop_value_type(struct attention_spec *s)
{
    s->desc.value.type = s->desc.past_value.type = GPU_MHA_F32;
}

static void drop_key_type(struct attention_spec *s)
{
    s->desc.key.type = s->desc.past_key.type = GPU_MHA_F32;
}

static void drop_fill(struct attention_spec *s)
{
    s->fill = ATTENTION_NORMAL;
}

static void drop_magnitudes(struct attention_spec *s)
{
    s->magnitude.query = s->magnitude.key = s->magnitude.value = s->magnitude.bias = 0;
}

static void drop_queue(struct attention_spec *s)
{
    s->out_of_order = 0;
    s->host_call = 0;
    s->seed_batch = 0;
}

static void drop_tile(struct attention_spec *s)
{
    s->tile = NULL;
}

static void drop_groups(struct attention_spec *s)
{
    s->desc.H = s->desc.HKV;
}

static const step_fn drops[] = {
    drop_layouts,     drop_past,         drop_mask,          drop_bias,         drop_lengths,
    drop_causal,      drop_window,       drop_offset,        drop_alibi,        drop_sinks,
    drop_dropout,     drop_scale,        drop_softcap,       drop_lse,          drop_weights,
    drop_scores,      drop_types,        drop_fill,          drop_magnitudes,   drop_queue,
    drop_tile,        drop_groups,       drop_output_layout, drop_past_layouts, drop_query_layout,
    drop_key_layout,  drop_value_layout, drop_mask_strides,  full_masks,        plain_bias,
    drop_output_type, drop_query_type,   drop_value_type,    drop_key_type,
};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- trying them ---- */

struct shrinking {
    gpu_mha_context *context;
    struct attention_spec best;
    struct attention_verdict verdict;
    int trials;
};

/* Keeps the candidate if it still fails; 1 if so. */
static int keep_if_it_fails(struct shrinking *s, const struct attention_spec *candidate)
{
    struct attention_verdict verdict;

    if (memcmp(candidate, &s->best, sizeof(*candidate)) == 0 || !random_spec_is_valid(candidate) ||
        s->trials >= TRIALS_MAX) {
        return 0;
    }
    s->trials++;
    verdict = attention_try(s->context, candidate, 1);
    if (verdict.fault != s->verdict.fault) {
        return 0;
    }
    s->best = *candidate;
    s->verdict = verdict;
    return 1;
}

static int drop_features(struct shrinking *s)
{
    int dropped = 0;

    for (int n = 0; n < COUNT(drops); n++) {
        struct attention_spec candidate = s->best;
        drops[n](&candidate);
        dropped += keep_if_it_fails(s, &candidate);
    }
    return dropped;
}

/* Interleaved tensors have one length. */
static void follow(struct attention_spec *spec, int64_t *size)
{
    if (spec->query == ATTENTION_QKV) {
        spec->desc.NQ = spec->desc.NK = *size;
    }
}

/* 1, half, one less, as long as any of it fails. `size` names a field of the candidate. */
static int shrink_size(struct shrinking *s, struct attention_spec *candidate, int64_t *size,
                       int64_t group)
{
    const int is_length = size == &candidate->desc.NQ || size == &candidate->desc.NK;
    int shrunk = 0, more = 1;

    while (more) {
        more = 0;
        for (int way = 0; way < 4 && !more; way++) {
            *candidate = s->best;
            int64_t now = *size / group;
            int64_t next = way == 0   ? (size == &candidate->desc.NP ? 0 : 1)
                           : way == 1 ? now / 2
                           : way == 2 ? now - now / 8 - 1
                                      : now - 1;
            if (next < 0 || next >= now || (next == 0 && size != &candidate->desc.NP)) {
                continue;
            }
            *size = next * group;
            if (is_length) {
                follow(candidate, size);
            }
            more = keep_if_it_fails(s, candidate);
        }
        shrunk += more;
    }
    return shrunk;
}

static int shrink_sizes(struct shrinking *s)
{
    struct attention_spec c = s->best;
    int shrunk = shrink_size(s, &c, &c.desc.B, 1);
    const int64_t group = s->best.desc.H / s->best.desc.HKV;

    /* As many heads of both kinds as there are groups, and then smaller groups. */
    for (int64_t HKV = 1; HKV < s->best.desc.HKV; HKV++) {
        c = s->best;
        c.desc.HKV = HKV;
        c.desc.H = HKV * group;
        if (keep_if_it_fails(s, &c)) {
            shrunk++;
            break;
        }
    }
    shrunk += shrink_size(s, &c, &c.desc.H, s->best.desc.HKV);
    shrunk += shrink_size(s, &c, &c.desc.NQ, 1);
    shrunk += shrink_size(s, &c, &c.desc.NP, 1);
    shrunk += shrink_size(s, &c, &c.desc.NK, 1);
    shrunk += shrink_size(s, &c, &c.desc.DK, 1);
    shrunk += shrink_size(s, &c, &c.desc.DV, 1);
    return shrunk;
}

struct attention_spec shrink(gpu_mha_context *context, const struct attention_spec *spec,
                             struct attention_verdict *verdict)
{
    struct shrinking s = {.context = context, .best = *spec, .verdict = *verdict};

    while (drop_features(&s) + shrink_sizes(&s) > 0) {
    }
    *verdict = s.verdict;
    return s.best;
}
