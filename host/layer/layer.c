/* Layer descriptor -> layer ready to run, and the run. */
#include "layer/layer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "attention/workspace.h"
#include "cl/region.h"
#include "common/convert_params.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Takes `count` floats; every part begins where a sub-buffer may. */
static int64_t carve_part(struct mha_carver *carver, const struct mha_layer *layer, int64_t count)
{
    const int64_t at = mha_carve(carver, count);
    carver->bytes = mha_size_round_up(carver->bytes, layer->align_bytes);
    return at;
}

/*
 * The maps' parts and the attention's workspace are never in use at the same time, so they lie in
 * the same place.
 */
static gpu_mha_status carve(struct mha_layer *layer, const struct mha_device *device)
{
    const struct mha_linear *maps = layer->problem.maps;
    struct mha_layer_parts *parts = &layer->parts;
    int64_t input = 0, weight = 0, scratch = 0;
    for (int m = 0; m < MHA_MAPS; ++m) {
        const struct mha_linear *map = &maps[m];
        if (map->input_type != GPU_MHA_F32) {
            input = larger(input, mha_size_mul(map->M, map->K));
        }
        if (layer->problem.desc.weight_type != GPU_MHA_F32) {
            weight = larger(weight, mha_size_mul(map->N, map->K));
        }
        scratch = larger(scratch, (int64_t)(layer->gemms[m].scratch_bytes / sizeof(float)));
    }
    const struct mha_linear *out = &maps[MHA_MAP_OUT];
    struct mha_carver carver = {0};
    parts->query =
        carve_part(&carver, layer, mha_size_mul(maps[MHA_MAP_QUERY].M, maps[MHA_MAP_QUERY].N));
    parts->key = carve_part(&carver, layer, mha_size_mul(maps[MHA_MAP_KEY].M, maps[MHA_MAP_KEY].N));
    parts->value =
        carve_part(&carver, layer, mha_size_mul(maps[MHA_MAP_VALUE].M, maps[MHA_MAP_VALUE].N));
    parts->attended = carve_part(&carver, layer, mha_size_mul(out->M, out->K));
    struct mha_carver inside = carver;
    parts->input = carve_part(&carver, layer, input);
    parts->weight = carve_part(&carver, layer, weight);
    parts->scratch = carve_part(&carver, layer, scratch);
    parts->product = carve_part(&carver, layer,
                                out->output_type != GPU_MHA_F32 ? mha_size_mul(out->M, out->N) : 0);
    parts->attention =
        carve_part(&inside, layer, (int64_t)(layer->attention->workspace_bytes / sizeof(float)));
    /* The caller's workspace begins at a multiple of MHA_WORKSPACE_ALIGN only. */
    const int64_t bytes =
        mha_size_add(larger(carver.bytes, inside.bytes), layer->align_bytes - MHA_WORKSPACE_ALIGN);
    MHA_RETURN_IF(
        !mha_size_fits(bytes) || (cl_ulong)bytes > device->max_alloc_bytes, GPU_MHA_UNSUPPORTED,
        "the workspace of the layer is %" PRId64 " bytes: the device allocates at most %" PRIu64,
        bytes, (uint64_t)device->max_alloc_bytes);
    layer->workspace_bytes = (size_t)bytes;
    return GPU_MHA_OK;
}

static gpu_mha_status prepare(struct mha_layer *layer, gpu_mha_context *context, int warm)
{
    const struct mha_layer_problem *p = &layer->problem;
    MHA_TRY(mha_attention_create(context, &p->attention.desc, &layer->attention));
    if (p->attention.empty_output) {
        return GPU_MHA_OK;
    }
    layer->align_bytes = larger((int64_t)context->device.base_align_bytes, MHA_WORKSPACE_ALIGN);
    for (int m = 0; m < MHA_MAPS; ++m) {
        const struct mha_linear *map = &p->maps[m];
        const struct mha_gemm_shape shape = {map->M, map->N, map->K, map->K, map->K, map->N};
        MHA_TRY(mha_gemm_prepare(context, &shape, &layer->gemms[m]));
        if (warm) {
            MHA_TRY(mha_gemm_warm(context, &layer->gemms[m]));
        }
    }
    MHA_TRY(carve(layer, &context->device));
    struct mha_options none = {{0}};
    return mha_kernel_create(context->programs, &context->device, "convert.cl", "convert_rows",
                             &none, layer->attention->variant.tile.local, &layer->convert);
}

gpu_mha_status mha_layer_create(gpu_mha_context *context, const gpu_mha_layer_desc *desc, int warm,
                                struct mha_layer **layer)
{
    struct mha_layer *made = calloc(1, sizeof *made);
    MHA_RETURN_IF(made == NULL, GPU_MHA_HOST_MEMORY, "no memory for a layer");
    gpu_mha_status status = mha_layer_read(desc, &made->problem);
    if (status == GPU_MHA_OK) {
        status = prepare(made, context, warm);
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
         d->bias.type == GPU_MHA_MASK_F32 ? 4 : 2, MHA_READ},
        {"key_lengths", b->key_lengths, d->key_lengths != GPU_MHA_INDEX_NONE, any * d->B,
         d->key_lengths == GPU_MHA_I32 ? 4 : 8, MHA_READ},
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
    MHA_TRY(mha_gemm_launch(&layer->gemms[which], chain, input, weight, product, scratch));
    if (!converts && !map->has_bias) {
        return GPU_MHA_OK;
    }
    return convert(layer, chain, map->M, map->N, product, GPU_MHA_F32, output, map->output_type,
                   bias, map->has_bias ? (int)weight_type + 1 : 0);
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
