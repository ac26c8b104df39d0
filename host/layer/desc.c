/* Layer descriptor -> problem: validation and defaults. Needs no device. */
#include <inttypes.h>

#include "layer/layer.h"

/* The four tensors whose type the caller gives; the layer lays them out itself. */
static gpu_mha_status check_tensors(const gpu_mha_desc *d)
{
    const struct {
        const char *name, *type_name;
        const gpu_mha_tensor *tensor;
    } tensors[] = {{"query", "attention.query.type", &d->query},
                   {"key", "attention.key.type", &d->key},
                   {"value", "attention.value.type", &d->value},
                   {"output", "attention.output.type", &d->output}};
    for (size_t t = 0; t < sizeof tensors / sizeof tensors[0]; ++t) {
        const gpu_mha_tensor *given = tensors[t].tensor;
        MHA_TRY(mha_type_check(tensors[t].type_name, given->type));
        MHA_INVALID_IF((int)given->layout != 0,
                       "attention.%s.layout is %d: a layer's inputs and output are packed, so it "
                       "must be 0",
                       tensors[t].name, (int)given->layout);
        const struct {
            const char *axis;
            int64_t stride;
        } strides[] = {{"b", given->stride_b}, {"h", given->stride_h}, {"n", given->stride_n}};
        for (size_t s = 0; s < 3; ++s) {
            MHA_INVALID_IF(strides[s].stride != 0,
                           "attention.%s.stride_%s is %" PRId64
                           ": a layer's inputs and output are packed, so it must be 0",
                           tensors[t].name, strides[s].axis, strides[s].stride);
        }
    }
    return GPU_MHA_OK;
}

/* The attention inside: as the caller describes it, on tensors that the layer makes. */
static gpu_mha_status read_attention(const gpu_mha_desc *given, struct mha_layer_problem *p)
{
    gpu_mha_desc *d = &p->attention_desc;
    MHA_INVALID_IF(given == NULL, "attention is NULL: the descriptor of the attention is needed");
    MHA_TRY(mha_struct_read(d, sizeof *d, given, given->struct_size, sizeof(gpu_mha_desc),
                            "gpu_mha_desc"));
    d->struct_size = sizeof *d;
    MHA_INVALID_IF(d->NP != 0,
                   "attention.NP is %" PRId64 ": a layer has no past keys, so it must be 0", d->NP);
    MHA_TRY(check_tensors(d));
    gpu_mha_desc inner = *d;
    inner.query = inner.key = inner.value = inner.output =
        (gpu_mha_tensor){.type = GPU_MHA_F32, .layout = GPU_MHA_BNHD};
    return mha_problem_read(&inner, &p->attention);
}

static gpu_mha_status check_fields(const gpu_mha_layer_desc *d)
{
    MHA_TRY(mha_length_check("EQ", d->EQ, 1));
    MHA_TRY(mha_length_check("EK", d->EK, 1));
    MHA_TRY(mha_length_check("EV", d->EV, 1));
    MHA_TRY(mha_length_check("EO", d->EO, 1));
    MHA_TRY(mha_type_check("weight_type", d->weight_type));
    MHA_TRY(mha_flag_check("packed_qkv", d->packed_qkv));
    MHA_TRY(mha_flag_check("bias_q", d->bias_q));
    MHA_TRY(mha_flag_check("bias_k", d->bias_k));
    MHA_TRY(mha_flag_check("bias_v", d->bias_v));
    MHA_TRY(mha_flag_check("bias_out", d->bias_out));
    if (d->packed_qkv) {
        MHA_INVALID_IF(d->EK != d->EQ,
                       "EK is %" PRId64 ": with packed_qkv it must equal EQ, which is %" PRId64,
                       d->EK, d->EQ);
        MHA_INVALID_IF(d->EV != d->EQ,
                       "EV is %" PRId64 ": with packed_qkv it must equal EQ, which is %" PRId64,
                       d->EV, d->EQ);
        MHA_INVALID_IF(d->bias_k != d->bias_q,
                       "bias_k is %d: with packed_qkv it must equal bias_q, which is %d", d->bias_k,
                       d->bias_q);
        MHA_INVALID_IF(d->bias_v != d->bias_q,
                       "bias_v is %d: with packed_qkv it must equal bias_q, which is %d", d->bias_v,
                       d->bias_q);
    }
    return GPU_MHA_OK;
}

static void describe_maps(struct mha_layer_problem *p)
{
    const gpu_mha_layer_desc *d = &p->desc;
    const gpu_mha_desc *a = &p->attention_desc;
    const int64_t queries = mha_size_mul(a->B, a->NQ), keys = mha_size_mul(a->B, a->NK);
    const int64_t q = mha_size_mul(a->H, a->DK), k = mha_size_mul(a->HKV, a->DK);
    const int64_t v = mha_size_mul(a->HKV, a->DV);
    struct mha_linear *maps = p->maps;
    maps[MHA_MAP_QUERY] = (struct mha_linear){.input_name = "query_input",
                                              .weight_name = "weight_q",
                                              .bias_name = "bias_q",
                                              .M = queries,
                                              .N = q,
                                              .K = d->EQ,
                                              .input_type = a->query.type,
                                              .has_bias = d->bias_q,
                                              .weight_rows = q};
    maps[MHA_MAP_KEY] = (struct mha_linear){.input_name = "key_input",
                                            .weight_name = "weight_k",
                                            .bias_name = "bias_k",
                                            .M = keys,
                                            .N = k,
                                            .K = d->EK,
                                            .input_type = a->key.type,
                                            .has_bias = d->bias_k,
                                            .weight_rows = k};
    maps[MHA_MAP_VALUE] = (struct mha_linear){.input_name = "value_input",
                                              .weight_name = "weight_v",
                                              .bias_name = "bias_v",
                                              .M = keys,
                                              .N = v,
                                              .K = d->EV,
                                              .input_type = a->value.type,
                                              .has_bias = d->bias_v,
                                              .weight_rows = v};
    maps[MHA_MAP_OUT] = (struct mha_linear){.weight_name = "weight_out",
                                            .bias_name = "bias_out",
                                            .M = queries,
                                            .N = d->EO,
                                            .K = mha_size_mul(a->H, a->DV),
                                            .output_type = a->output.type,
                                            .has_bias = d->bias_out,
                                            .weight_rows = d->EO};
    if (d->packed_qkv) {
        maps[MHA_MAP_QUERY].weight_rows = mha_size_add(q, mha_size_add(k, v));
        maps[MHA_MAP_KEY].first_row = q;
        maps[MHA_MAP_KEY].weight_rows = 0;
        maps[MHA_MAP_VALUE].first_row = mha_size_add(q, k);
        maps[MHA_MAP_VALUE].weight_rows = 0;
    }
}

static gpu_mha_status check_spans(const struct mha_layer_problem *p)
{
    for (int m = 0; m < MHA_MAPS; ++m) {
        const struct mha_linear *map = &p->maps[m];
        const int64_t bytes = (int64_t)sizeof(float);
        MHA_INVALID_IF(map->input_name != NULL &&
                           !mha_size_fits(mha_size_mul(mha_size_mul(map->M, map->K), bytes)),
                       "%s spans more than this machine can address: its lengths are too large",
                       map->input_name);
        MHA_INVALID_IF(!mha_size_fits(mha_size_mul(mha_size_mul(map->weight_rows, map->K), bytes)),
                       "%s spans more than this machine can address: its lengths are too large",
                       map->weight_name);
        MHA_INVALID_IF(!mha_size_fits(mha_size_mul(mha_size_mul(map->M, map->N), bytes)),
                       "%s spans more than this machine can address: its lengths are too large",
                       m == MHA_MAP_OUT ? "output" : "a product of the layer");
    }
    return GPU_MHA_OK;
}

gpu_mha_status mha_layer_read(const gpu_mha_layer_desc *desc, struct mha_layer_problem *problem)
{
    MHA_INVALID_IF(desc == NULL, "desc is NULL: a descriptor is needed");
    struct mha_layer_problem p = {0};
    MHA_TRY(mha_struct_read(&p.desc, sizeof p.desc, desc, desc->struct_size,
                            sizeof(gpu_mha_layer_desc), "gpu_mha_layer_desc"));
    p.desc.struct_size = sizeof p.desc;
    p.desc.attention = NULL;
    MHA_TRY(read_attention(desc->attention, &p));
    MHA_TRY(check_fields(&p.desc));
    describe_maps(&p);
    MHA_TRY(check_spans(&p));
    *problem = p;
    return GPU_MHA_OK;
}
