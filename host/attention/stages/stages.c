/* The table of stages, and the one way to build and to launch a row of it. */
#include "attention/stages/stages.h"

static int64_t key_tiles(const struct mha_attention *a)
{
    const gpu_mha_desc *d = &a->problem.desc;
    return mha_size_mul(mha_size_mul(d->B, d->HKV), a->variant.tiles);
}

static int64_t rows(const struct mha_attention *a)
{
    return mha_problem_lse_count(&a->problem);
}

static int64_t row_tiles(const struct mha_attention *a)
{
    const gpu_mha_desc *d = &a->problem.desc;
    return mha_size_mul(mha_size_mul(d->B, d->H),
                        mha_size_ceil_div(d->NQ, a->variant.shape.tile.MQ));
}

static int64_t row_tiles_by_split(const struct mha_attention *a)
{
    return mha_size_mul(row_tiles(a), a->variant.splits);
}

static int64_t groups_by_split(const struct mha_attention *a)
{
    const gpu_mha_desc *d = &a->problem.desc;
    return mha_size_mul(mha_size_mul(d->B, d->HKV), a->variant.splits);
}

static int64_t score_blocks(const struct mha_attention *a)
{
    return mha_size_mul(row_tiles(a),
                        mha_size_ceil_div(a->variant.tiles, a->variant.shape.tile.TB));
}

static int64_t averaged_weights(const struct mha_attention *a)
{
    return mha_problem_weights_count(&a->problem);
}

const struct mha_stage mha_stage_pack_key = {"pack.cl",
                                             "pack_key",
                                             key_tiles,
                                             0,
                                             {MHA_STAGE_PARAMS, MHA_STAGE_KEY, MHA_STAGE_PAST_KEY,
                                              MHA_STAGE_KEY_LENGTHS, MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_pack_value = {"pack.cl",
                                               "pack_value",
                                               key_tiles,
                                               0,
                                               {MHA_STAGE_PARAMS, MHA_STAGE_VALUE,
                                                MHA_STAGE_PAST_VALUE, MHA_STAGE_KEY_LENGTHS,
                                                MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_fused = {
    "fused.cl",
    "fused",
    row_tiles_by_split,
    0,
    {MHA_STAGE_PARAMS, MHA_STAGE_QUERY, MHA_STAGE_MASK, MHA_STAGE_BIAS, MHA_STAGE_KEY_LENGTHS,
     MHA_STAGE_SLOPES, MHA_STAGE_SINKS, MHA_STAGE_OUTPUT, MHA_STAGE_LSE, MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_decode = {
    "decode.cl",
    "decode",
    groups_by_split,
    1,
    {MHA_STAGE_PARAMS, MHA_STAGE_QUERY, MHA_STAGE_KEY, MHA_STAGE_VALUE, MHA_STAGE_PAST_KEY,
     MHA_STAGE_PAST_VALUE, MHA_STAGE_MASK, MHA_STAGE_BIAS, MHA_STAGE_KEY_LENGTHS, MHA_STAGE_SLOPES,
     MHA_STAGE_SINKS, MHA_STAGE_OUTPUT, MHA_STAGE_LSE, MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_merge_splits = {
    "merge.cl",
    "merge_splits",
    rows,
    0,
    {MHA_STAGE_PARAMS, MHA_STAGE_SINKS, MHA_STAGE_OUTPUT, MHA_STAGE_LSE, MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_scores = {
    "scores.cl",
    "scores",
    score_blocks,
    0,
    {MHA_STAGE_PARAMS, MHA_STAGE_QUERY, MHA_STAGE_KEY_LENGTHS, MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_softmax = {
    "softmax.cl",
    "softmax",
    rows,
    0,
    {MHA_STAGE_PARAMS, MHA_STAGE_MASK, MHA_STAGE_BIAS, MHA_STAGE_KEY_LENGTHS, MHA_STAGE_SLOPES,
     MHA_STAGE_SINKS, MHA_STAGE_LSE, MHA_STAGE_WEIGHTS, MHA_STAGE_SCORES, MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_weighted_sum = {"weighted_sum.cl",
                                                 "weighted_sum",
                                                 row_tiles,
                                                 0,
                                                 {MHA_STAGE_PARAMS, MHA_STAGE_MASK, MHA_STAGE_BIAS,
                                                  MHA_STAGE_KEY_LENGTHS, MHA_STAGE_OUTPUT,
                                                  MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_average_heads = {
    "average_heads.cl",
    "average_heads",
    averaged_weights,
    0,
    {MHA_STAGE_PARAMS, MHA_STAGE_WEIGHTS, MHA_STAGE_WORKSPACE}};

gpu_mha_status mha_stage_prepare(struct mha_attention *a, gpu_mha_context *context,
                                 const struct mha_stage *stage)
{
    const struct mha_variant *v = &a->variant;
    const int64_t items = stage->items(a);
    MHA_RETURN_IF(!mha_size_fits(items), GPU_MHA_UNSUPPORTED,
                  "%s needs more work-items than this machine can address", stage->kernel);
    struct mha_options options = {{0}};
    mha_tile_options(&options, &v->shape.tile, a->problem.desc.DK, a->problem.desc.DV);
    if (stage->typed) {
        mha_options_int(&options, "KEY_TYPE", a->problem.key.type);
        mha_options_int(&options, "VALUE_TYPE", a->problem.value.type);
    }
    const int index = a->stage_count;
    const gpu_mha_status status =
        mha_kernel_create(context->programs, &context->device, stage->file, stage->kernel, &options,
                          v->shape.tile.local, &a->kernels[index]);
    mha_options_free(&options);
    if (status == GPU_MHA_OK) {
        a->stages[index] = stage;
        a->items[index] = (size_t)items;
        a->stage_count = index + 1;
    }
    return status;
}

static cl_mem buffer_of(const gpu_mha_buffers *b, enum mha_stage_arg arg)
{
    switch (arg) {
    case MHA_STAGE_QUERY:
        return b->query.mem;
    case MHA_STAGE_KEY:
        return b->key.mem;
    case MHA_STAGE_VALUE:
        return b->value.mem;
    case MHA_STAGE_PAST_KEY:
        return b->past_key.mem;
    case MHA_STAGE_PAST_VALUE:
        return b->past_value.mem;
    case MHA_STAGE_MASK:
        return b->mask.mem;
    case MHA_STAGE_BIAS:
        return b->bias.mem;
    case MHA_STAGE_KEY_LENGTHS:
        return b->key_lengths.mem;
    case MHA_STAGE_SLOPES:
        return b->alibi_slopes.mem;
    case MHA_STAGE_SINKS:
        return b->sinks.mem;
    case MHA_STAGE_OUTPUT:
        return b->output.mem;
    case MHA_STAGE_LSE:
        return b->lse.mem;
    case MHA_STAGE_WEIGHTS:
        return b->weights.mem;
    case MHA_STAGE_SCORES:
        return b->scores.mem;
    case MHA_STAGE_WORKSPACE:
        return b->workspace.mem;
    default:
        return NULL;
    }
}

gpu_mha_status mha_stage_launch(struct mha_attention *a, int index, const struct mha_params *params,
                                const gpu_mha_buffers *buffers, struct mha_chain *chain)
{
    const struct mha_stage *stage = a->stages[index];
    cl_mem memory[MHA_STAGE_ARGS_MAX];
    struct mha_arg args[MHA_STAGE_ARGS_MAX];
    cl_uint count = 0;
    for (; count < MHA_STAGE_ARGS_MAX && stage->args[count] != MHA_STAGE_END; ++count) {
        if (stage->args[count] == MHA_STAGE_PARAMS) {
            args[count] = MHA_ARG(*params);
            continue;
        }
        memory[count] = buffer_of(buffers, stage->args[count]);
        if (memory[count] == NULL) {
            memory[count] = a->slopes;
        }
        args[count] = MHA_ARG(memory[count]);
    }
    return mha_chain_launch(chain, &a->kernels[index], a->items[index], args, count);
}
