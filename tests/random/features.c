/*
 * features.c - see features.h.
 */
#include "features.h"

#include <stdio.h>
#include <string.h>

struct subject {
    const struct attention_spec *spec;
    const gpu_mha_desc *d;
    const char *plan;
};

static int runs(const struct subject *s, const char *kernel)
{
    return strncmp(s->plan, kernel, strlen(kernel)) == 0;
}

static int has_type(const gpu_mha_desc *d, gpu_mha_type type)
{
    return d->query.type == type || d->key.type == type || d->value.type == type ||
           d->output.type == type;
}

static int has_layout(const struct attention_spec *s, enum attention_layout layout)
{
    return s->query == layout || s->key == layout || s->value == layout || s->output == layout ||
           s->past_key == layout || s->past_value == layout;
}

static int has_mixed_types(const gpu_mha_desc *d)
{
    return d->query.type != d->key.type || d->key.type != d->value.type ||
           d->value.type != d->output.type;
}

static int broadcasts(const struct attention_spec *s)
{
    return has_layout(s, ATTENTION_ONE_BATCH) || has_layout(s, ATTENTION_ONE_HEAD) ||
           has_layout(s, ATTENTION_ONE_ROW);
}

static int is_small_mask(const struct subject *s)
{
    return (s->d->mask.type && s->spec->mask.full != 0xF) ||
           (s->d->bias.type && s->spec->bias.full != 0xF);
}

/* Whether the offset is of any consequence. */
static int is_diagonal(const gpu_mha_desc *d)
{
    return d->causal || d->has_window || d->alibi != GPU_MHA_ALIBI_NONE;
}

/* One line for each: its name, and when a problem has it. */
#define FEATURES(X)                                                                                \
    X("kernel fused", runs(s, "fused"))                                                            \
    X("kernel heads", runs(s, "heads"))                                                            \
    X("kernel decode", runs(s, "decode"))                                                          \
    X("kernel shared", runs(s, "shared"))                                                          \
    X("kernel rows", runs(s, "rows"))                                                              \
    X("kernel staged", runs(s, "staged"))                                                          \
    X("nothing to compute", runs(s, "nothing"))                                                    \
    X("the library's own choice", !s->spec->tile)                                                  \
    X("keys split", strstr(s->plan, "split") != NULL)                                              \
    X("no key", s->d->NP + s->d->NK == 0)                                                          \
    X("one query", s->d->NQ == 1)                                                                  \
    X("grouped heads", s->d->H != s->d->HKV)                                                       \
    X("DK != DV", s->d->DK != s->d->DV)                                                            \
    X("past", s->d->NP > 0)                                                                        \
    X("f32", has_type(s->d, GPU_MHA_F32))                                                          \
    X("f16", has_type(s->d, GPU_MHA_F16))                                                          \
    X("bf16", has_type(s->d, GPU_MHA_BF16))                                                        \
    X("f16 of query", s->d->query.type == GPU_MHA_F16)                                             \
    X("bf16 of query", s->d->query.type == GPU_MHA_BF16)                                           \
    X("f16 of key", s->d->key.type == GPU_MHA_F16)                                                 \
    X("bf16 of key", s->d->key.type == GPU_MHA_BF16)                                               \
    X("f16 of value", s->d->value.type == GPU_MHA_F16)                                             \
    X("bf16 of value", s->d->value.type == GPU_MHA_BF16)                                           \
    X("f16 of output", s->d->output.type == GPU_MHA_F16)                                           \
    X("bf16 of output", s->d->output.type == GPU_MHA_BF16)                                         \
    X("mixed types", has_mixed_types(s->d))                                                        \
    X("padded",                                                                                    \
      has_layout(s->spec, ATTENTION_PADDED) || has_layout(s->spec, ATTENTION_PADDED_BNHD))         \
    X("packed BNHD", has_layout(s->spec, ATTENTION_BNHD))                                          \
    X("one batch for all", has_layout(s->spec, ATTENTION_ONE_BATCH))                               \
    X("one head for all", has_layout(s->spec, ATTENTION_ONE_HEAD))                                 \
    X("one row for all", has_layout(s->spec, ATTENTION_ONE_ROW))                                   \
    X("broadcast inputs", broadcasts(s->spec))                                                     \
    X("interleaved QKV", has_layout(s->spec, ATTENTION_QKV))                                       \
    X("scale", s->d->has_scale)                                                                    \
    X("negative scale", s->d->scale < 0)                                                           \
    X("softcap", s->d->softcap > 0)                                                                \
    X("mask", s->d->mask.type != 0)                                                                \
    X("bias", s->d->bias.type != 0)                                                                \
    X("f32 bias", s->d->bias.type == GPU_MHA_MASK_F32)                                             \
    X("f16 bias", s->d->bias.type == GPU_MHA_MASK_F16)                                             \
    X("bf16 bias", s->d->bias.type == GPU_MHA_MASK_BF16)                                           \
    X("mask and bias", s->d->mask.type && s->d->bias.type)                                         \
    X("broadcast mask", is_small_mask(s))                                                          \
    X("strided mask",                                                                              \
      (s->d->mask.type && s->spec->mask.strided) || (s->d->bias.type && s->spec->bias.strided))    \
    X("lowest bias", s->spec->lowest_bias > 0)                                                     \
    X("key lengths", s->d->key_lengths != 0)                                                       \
    X("key lengths i32", s->d->key_lengths == GPU_MHA_I32)                                         \
    X("key lengths i64", s->d->key_lengths == GPU_MHA_I64)                                         \
    X("causal", s->d->causal)                                                                      \
    X("causal in a window", s->d->causal && s->d->has_window)                                      \
    X("top left", is_diagonal(s->d) && s->d->offset_kind == GPU_MHA_TOP_LEFT)                      \
    X("bottom right", is_diagonal(s->d) && s->d->offset_kind == GPU_MHA_BOTTOM_RIGHT)              \
    X("offset", is_diagonal(s->d) && s->d->offset_kind == GPU_MHA_OFFSET)                          \
    X("offset beyond 32 bits", s->d->offset > INT32_MAX || s->d->offset < INT32_MIN)               \
    X("window", s->d->has_window)                                                                  \
    X("window open to the left", s->d->has_window && s->d->window_left == -1)                      \
    X("window open to the right", s->d->has_window && s->d->window_right == -1)                    \
    X("alibi", s->d->alibi != 0)                                                                   \
    X("alibi's own slopes", s->d->alibi == GPU_MHA_ALIBI_AUTO)                                     \
    X("alibi's given slopes", s->d->alibi == GPU_MHA_ALIBI_SLOPES)                                 \
    X("sinks", s->d->sinks)                                                                        \
    X("dropout", s->d->dropout > 0)                                                                \
    X("dropped weights", s->d->dropout > 0 && s->d->weights != 0)                                  \
    X("lse", s->d->lse)                                                                            \
    X("weights", s->d->weights == GPU_MHA_WEIGHTS_PER_HEAD)                                        \
    X("mean weights", s->d->weights == GPU_MHA_WEIGHTS_AVERAGED)                                   \
    X("scores", s->d->scores != 0)                                                                 \
    X("raw scores", s->d->scores == GPU_MHA_SCORES_RAW)                                            \
    X("capped scores", s->d->scores == GPU_MHA_SCORES_CAPPED)                                      \
    X("masked scores", s->d->scores == GPU_MHA_SCORES_MASKED)                                      \
    X("softmax scores", s->d->scores == GPU_MHA_SCORES_SOFTMAX)                                    \
    X("NaN and infinities", s->spec->fill == ATTENTION_SPECIAL)                                    \
    X("large scores", s->spec->fill == ATTENTION_LARGE)                                            \
    X("far from 1", s->spec->magnitude.query > 0 || s->spec->magnitude.value > 0)                  \
    X("out of order", s->spec->out_of_order)                                                       \
    X("gpu_mha()", s->spec->host_call)

#define NAME(name, condition) name,
#define TEST(name, condition) (condition) != 0,

static const char *const names[] = {FEATURES(NAME)};

#define FEATURE_COUNT (sizeof(names) / sizeof(names[0]))

static long counts[FEATURE_COUNT];

void features_count(const struct attention_spec *spec, const char *plan)
{
    const struct subject subject = {spec, &spec->desc, plan}, *s = &subject;
    const int has[FEATURE_COUNT] = {FEATURES(TEST)};

    for (size_t f = 0; f < FEATURE_COUNT; f++) {
        counts[f] += has[f];
    }
}

void features_print(void)
{
    int column = 0;

    for (size_t f = 0; f < FEATURE_COUNT; f++) {
        column += printf("%s%s %ld", column == 0 ? "" : ", ", names[f], counts[f]);
        if (column > 80 || f + 1 == FEATURE_COUNT) {
            printf("\n");
            column = 0;
        }
    }
}

int features_missing(void)
{
    int missing = 0;

    for (size_t f = 0; f < FEATURE_COUNT; f++) {
        if (counts[f] == 0) {
            printf("%s \"%s\"", missing ? "," : "never tried:", names[f]);
            missing = 1;
        }
    }
    if (missing) {
        printf("\n");
    }
    return missing;
}
