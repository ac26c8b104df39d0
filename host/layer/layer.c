/* Layer descriptor -> layer ready to run, and the run. */
#include "layer/layer.h"

#include <stdio.h>
#include <stdlib.h>

#include "cl/verdicts.h"
#include "common/convert_params.h"

/* Whether the product itself adds the bias; if not, a conversion behind it does. */
static int product_adds_bias(const struct mha_layer *layer, int map)
{
    return layer->problem.maps[map].has_bias && layer->problem.desc.weight_type == GPU_MHA_F32 &&
           layer->gemms[map].kind != NULL && layer->gemms[map].kind->adds_bias;
}

static int needs_conversion(const struct mha_layer *layer)
{
    int needs = layer->problem.desc.weight_type != GPU_MHA_F32;
    for (int m = 0; m < MHA_MAPS; ++m) {
        const struct mha_linear *map = &layer->problem.maps[m];
        needs |= map->input_type != GPU_MHA_F32 || map->output_type != GPU_MHA_F32 ||
                 (map->has_bias && !product_adds_bias(layer, m));
    }
    return needs;
}

static unsigned types_of(const struct mha_layer_problem *p)
{
    unsigned types = MHA_TYPE_BIT(p->desc.weight_type);
    for (int m = 0; m < MHA_MAPS; ++m) {
        types |= MHA_TYPE_BIT(p->maps[m].input_type) | MHA_TYPE_BIT(p->maps[m].output_type);
    }
    return types;
}

static gpu_mha_status prepare(struct mha_layer *layer, gpu_mha_context *context)
{
    const struct mha_layer_problem *p = &layer->problem;
    const unsigned types = types_of(p);
    MHA_TRY(mha_verdict_check(&context->device, MHA_VARIANT_LAYER, types));
    MHA_TRY(mha_attention_create(context, &p->attention.desc, NULL, &layer->attention));
    if (p->attention.empty_output) {
        return GPU_MHA_OK;
    }
    for (int m = 0; m < MHA_MAPS; ++m) {
        const struct mha_linear *map = &p->maps[m];
        const struct mha_gemm_shape shape = {map->M, map->N, map->K, map->K, map->K, map->N};
        MHA_TRY(mha_gemm_prepare(context, &shape, &layer->gemms[m]));
    }
    MHA_TRY(mha_layer_carve(layer, &context->device));
    if (!needs_conversion(layer)) {
        return GPU_MHA_OK;
    }
    struct mha_options none = {{0}};
    return mha_kernel_create(context->programs, &context->device, "convert.cl", "convert_rows",
                             &none, layer->attention->variant.shape.tile.local, &layer->convert);
}

gpu_mha_status mha_layer_create(gpu_mha_context *context, const gpu_mha_layer_desc *desc,
                                struct mha_layer **layer)
{
    struct mha_layer *made = calloc(1, sizeof *made);
    MHA_RETURN_IF(made == NULL, GPU_MHA_HOST_MEMORY, "no memory for a layer");
    gpu_mha_status status = mha_layer_read(desc, &made->problem);
    if (status == GPU_MHA_OK) {
        status = prepare(made, context);
    }
    if (status != GPU_MHA_OK) {
        mha_layer_destroy(made);
        return status;
    }
    *layer = made;
    return GPU_MHA_OK;
}

void mha_layer_destroy(struct mha_layer *layer)
{
    if (layer == NULL) {
        return;
    }
    mha_kernel_destroy(&layer->convert);
    for (int m = 0; m < MHA_MAPS; ++m) {
        mha_gemm_destroy(&layer->gemms[m]);
    }
    mha_attention_destroy(layer->attention);
    free(layer);
}

void mha_layer_text(const struct mha_layer *layer, char *text, size_t size)
{
    char inside[128];
    mha_attention_text(layer->attention, inside, sizeof inside);
    if (layer->problem.attention.empty_output) {
        snprintf(text, size, "%s", inside);
    } else {
        snprintf(text, size, "products %s, %s", layer->gemms[MHA_MAP_OUT].kind->name, inside);
    }
}

/* The workspace of one run. */
struct space {
    cl_mem mem;
    uint64_t first; /* float at which the parts begin */
};

static gpu_mha_buffer part(const struct space *space, int64_t at)
{
    return (gpu_mha_buffer){space->mem, space->first + (uint64_t)at};
}

/* to (rows, columns) = from + bias; bias_type is a type + 1, 0 for none. */
static gpu_mha_status convert(struct mha_layer *layer, struct mha_chain *chain, int64_t rows,
                              int64_t columns, gpu_mha_buffer from, gpu_mha_type from_type,
                              gpu_mha_buffer to, gpu_mha_type to_type, gpu_mha_buffer bias,
                              int bias_type)
{
    const struct mha_convert_params p = {.rows = rows,
                                         .columns = columns,
                                         .from_offset = (mha_i64)from.offset,
                                         .to_offset = (mha_i64)to.offset,
                                         .bias_offset = (mha_i64)bias.offset,
                                         .from_type = from_type,
                                         .to_type = to_type,
                                         .bias_type = bias_type};
    /* A kernel wants a buffer in every place. */
    const cl_mem bias_mem = bias_type != 0 ? bias.mem : from.mem;
    const struct mha_arg args[] = {MHA_ARG(p), MHA_ARG(from.mem), MHA_ARG(bias_mem),
                                   MHA_ARG(to.mem)};
    const int64_t items = mha_size_mul(rows, mha_size_ceil_div(columns, MHA_CONVERT_RUN));
    return mha_chain_launch(chain, &layer->convert, (size_t)items, args, 4);
}

/* One map: what is not single precision is converted before the product and behind it. */
static gpu_mha_status launch_map(struct mha_layer *layer, enum mha_layer_map which,
                                 const struct space *space, struct mha_chain *chain,
                                 gpu_mha_buffer input, gpu_mha_buffer weight, gpu_mha_buffer bias,
                                 gpu_mha_buffer output)
{
    const struct mha_linear *map = &layer->problem.maps[which];
    const gpu_mha_type weight_type = layer->problem.desc.weight_type;
    const gpu_mha_buffer none = {NULL, 0};
    if (map->M == 0) {
        return GPU_MHA_OK;
    }
    weight.offset += (uint64_t)(map->first_row * map->K);
    bias.offset += (uint64_t)map->first_row;
    if (map->input_type != GPU_MHA_F32) {
        const gpu_mha_buffer to = part(space, layer->parts.input);
        MHA_TRY(convert(layer, chain, 1, map->M * map->K, input, map->input_type, to, GPU_MHA_F32,
                        none, 0));
        input = to;
    }
    if (weight_type != GPU_MHA_F32) {
        const gpu_mha_buffer to = part(space, layer->parts.weight);
        MHA_TRY(convert(layer, chain, 1, map->N * map->K, weight, weight_type, to, GPU_MHA_F32,
                        none, 0));
        weight = to;
    }
    const int converts = map->output_type != GPU_MHA_F32;
    const gpu_mha_buffer product = converts ? part(space, layer->parts.product) : output;
    gpu_mha_buffer scratch = part(space, layer->parts.scratch);
    scratch.offset *= sizeof(float);
    const int inside = product_adds_bias(layer, which);
    const int behind = map->has_bias && !inside;
    MHA_TRY(mha_gemm_launch(&layer->gemms[which], chain, input, weight, inside ? bias : none,
                            product, scratch));
    if (!converts && !behind) {
        return GPU_MHA_OK;
    }
    return convert(layer, chain, map->M, map->N, product, GPU_MHA_F32, output, map->output_type,
                   bias, behind ? (int)weight_type + 1 : 0);
}

static gpu_mha_status launch_attention(struct mha_layer *layer, const gpu_mha_layer_buffers *b,
                                       const struct space *space, struct mha_chain *chain)
{
    gpu_mha_buffer workspace = part(space, layer->parts.attention);
    workspace.offset *= sizeof(float);
    const gpu_mha_buffers inside = {.query = part(space, layer->parts.query),
                                    .key = part(space, layer->parts.key),
                                    .value = part(space, layer->parts.value),
                                    .mask = b->mask,
                                    .bias = b->bias,
                                    .key_lengths = b->key_lengths,
                                    .alibi_slopes = b->alibi_slopes,
                                    .sinks = b->sinks,
                                    .output = part(space, layer->parts.attended),
                                    .lse = b->lse,
                                    .weights = b->weights,
                                    .scores = b->scores,
                                    .workspace = workspace};
    return mha_attention_launch(layer->attention, &inside, chain);
}

gpu_mha_status mha_layer_launch(struct mha_layer *layer, const gpu_mha_layer_buffers *b,
                                struct mha_chain *chain)
{
    if (layer->problem.attention.empty_output) {
        return GPU_MHA_OK;
    }
    const int packed = layer->problem.desc.packed_qkv;
    const int64_t first = mha_size_round_up((int64_t)b->workspace.offset, layer->align_bytes);
    const struct space space = {b->workspace.mem, (uint64_t)first / sizeof(float)};
    const struct mha_layer_parts *at = &layer->parts;
    MHA_TRY(launch_map(layer, MHA_MAP_QUERY, &space, chain, b->query_input, b->weight_q, b->bias_q,
                       part(&space, at->query)));
    MHA_TRY(launch_map(layer, MHA_MAP_KEY, &space, chain, b->key_input,
                       packed ? b->weight_q : b->weight_k, packed ? b->bias_q : b->bias_k,
                       part(&space, at->key)));
    MHA_TRY(launch_map(layer, MHA_MAP_VALUE, &space, chain, b->value_input,
                       packed ? b->weight_q : b->weight_v, packed ? b->bias_q : b->bias_v,
                       part(&space, at->value)));
    MHA_TRY(launch_attention(layer, b, &space, chain));
    return launch_map(layer, MHA_MAP_OUT, &space, chain, part(&space, at->attended), b->weight_out,
                      b->bias_out, b->output);
}
