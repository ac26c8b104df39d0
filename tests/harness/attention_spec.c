/*
 * attention_spec.c - a spec of attention_data.h with everything in it, and one as text.
 */
#include "attention_data.h"

#include <stdio.h>

void attention_spec_everything(struct attention_spec *spec, int64_t NP, int64_t left)
{
    spec->desc.NP = NP;
    spec->desc.key_lengths = GPU_MHA_I32;
    spec->desc.causal = 1;
    spec->desc.offset_kind = GPU_MHA_BOTTOM_RIGHT;
    spec->desc.has_window = 1;
    spec->desc.window_left = left;
    spec->desc.window_right = -1;
    spec->desc.mask.type = GPU_MHA_MASK_BOOL;
    spec->mask = (struct attention_mask){0xD, 1, 0.3};
    spec->desc.bias.type = GPU_MHA_MASK_F16;
    spec->bias = (struct attention_mask){0xC, 0, 0.1};
    spec->desc.alibi = GPU_MHA_ALIBI_SLOPES;
    spec->desc.sinks = 1;
    spec->desc.softcap = 2.0f;
    spec->desc.dropout = 0.25f;
    spec->desc.dropout_seed = 8;
}

struct text {
    char *at;
    size_t left;
};

static void add(struct text *text, const char *name, double value)
{
    int written;

    if (value == 0) {
        return;
    }
    written = snprintf(text->at, text->left, " .%s = %.17g,", name, value);
    if (written > 0 && (size_t)written < text->left) {
        text->at += written;
        text->left -= (size_t)written;
    }
}

#define ADD(text, of, field) add(text, #field, (double)(of)->field)

void attention_spec_text(const struct attention_spec *spec, char *text, size_t size)
{
    struct text t = {text, size};
    text[0] = '\0';
    ADD(&t, spec, desc.B), ADD(&t, spec, desc.H), ADD(&t, spec, desc.HKV);
    ADD(&t, spec, desc.NQ), ADD(&t, spec, desc.NK), ADD(&t, spec, desc.NP);
    ADD(&t, spec, desc.DK), ADD(&t, spec, desc.DV);
    ADD(&t, spec, desc.query.type), ADD(&t, spec, desc.key.type);
    ADD(&t, spec, desc.value.type);
    ADD(&t, spec, desc.past_key.type), ADD(&t, spec, desc.past_value.type);
    ADD(&t, spec, desc.output.type);
    ADD(&t, spec, desc.has_scale), ADD(&t, spec, desc.scale), ADD(&t, spec, desc.softcap);
    ADD(&t, spec, desc.mask.type), ADD(&t, spec, desc.bias.type), ADD(&t, spec, desc.key_lengths);
    ADD(&t, spec, desc.causal), ADD(&t, spec, desc.offset_kind), ADD(&t, spec, desc.offset);
    ADD(&t, spec, desc.has_window), ADD(&t, spec, desc.window_left);
    ADD(&t, spec, desc.window_right), ADD(&t, spec, desc.alibi), ADD(&t, spec, desc.sinks);
    ADD(&t, spec, desc.dropout), ADD(&t, spec, desc.dropout_seed), ADD(&t, spec, desc.lse);
    ADD(&t, spec, desc.weights), ADD(&t, spec, desc.scores), ADD(&t, spec, desc.method);
    ADD(&t, spec, query), ADD(&t, spec, key), ADD(&t, spec, value), ADD(&t, spec, past_key);
    ADD(&t, spec, past_value), ADD(&t, spec, output);
    ADD(&t, spec, mask.full), ADD(&t, spec, mask.strided), ADD(&t, spec, mask.hidden);
    ADD(&t, spec, bias.full), ADD(&t, spec, bias.strided), ADD(&t, spec, bias.hidden);
    ADD(&t, spec, lowest_bias);
    ADD(&t, spec, magnitude.query), ADD(&t, spec, magnitude.key);
    ADD(&t, spec, magnitude.value), ADD(&t, spec, magnitude.bias), ADD(&t, spec, any_length);
    ADD(&t, spec, fill), ADD(&t, spec, seed), ADD(&t, spec, seed_batch);
    ADD(&t, spec, out_of_order), ADD(&t, spec, host_call);
    if (spec->tile) {
        snprintf(t.at, t.left, " .tile = \"%s\"", spec->tile);
    }
}
