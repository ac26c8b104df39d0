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

/* Tiles of query rows that reach across the heads of a group. */
static int64_t grouped_row_tiles(const struct mha_attention *a)
{
    const gpu_mha_desc *d = &a->problem.desc;
    const int64_t rows_of_group = mha_size_mul(d->H / d->HKV, a->variant.row_pitch);
    return mha_size_mul(groups_by_split(a),
                        mha_size_ceil_div(rows_of_group, mha_shape_rows(&a->variant.shape)));
}

static int64_t shared_items(const struct mha_attention *a)
{
    const struct mha_shared *s = &a->variant.shape.shared;
    return mha_size_mul(grouped_row_tiles(a), (int64_t)s->LR * s->LC);
}

static int64_t rows_items(const struct mha_attention *a)
{
    return mha_size_mul(grouped_row_tiles(a),
                        mha_size_ceil_div(a->problem.desc.DV, a->variant.shape.rows.NC));
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
                                             MHA_STAGE_PLAIN,
                                             {MHA_STAGE_PARAMS, MHA_STAGE_KEY, MHA_STAGE_PAST_KEY,
                                              MHA_STAGE_KEY_LENGTHS, MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_pack_value = {"pack.cl",
                                               "pack_value",
                                               key_tiles,
                                               MHA_STAGE_PLAIN,
                                               {MHA_STAGE_PARAMS, MHA_STAGE_VALUE,
                                                MHA_STAGE_PAST_VALUE, MHA_STAGE_KEY_LENGTHS,
                                                MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_fused = {
    "fused.cl",
    "fused",
    row_tiles_by_split,
    MHA_STAGE_PLAIN,
    {MHA_STAGE_PARAMS, MHA_STAGE_QUERY, MHA_STAGE_MASK, MHA_STAGE_BIAS, MHA_STAGE_KEY_LENGTHS,
     MHA_STAGE_SLOPES, MHA_STAGE_SINKS, MHA_STAGE_OUTPUT, MHA_STAGE_LSE, MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_heads = {
    "heads.cl",
    "heads",
    groups_by_split,
    MHA_STAGE_HEADS,
    {MHA_STAGE_PARAMS, MHA_STAGE_QUERY, MHA_STAGE_KEY, MHA_STAGE_VALUE, MHA_STAGE_PAST_KEY,
     MHA_STAGE_PAST_VALUE, MHA_STAGE_MASK, MHA_STAGE_BIAS, MHA_STAGE_KEY_LENGTHS, MHA_STAGE_SLOPES,
     MHA_STAGE_SINKS, MHA_STAGE_OUTPUT, MHA_STAGE_LSE, MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_decode = {
    "decode.cl",
    "decode",
    groups_by_split,
    MHA_STAGE_TYPED,
    {MHA_STAGE_PARAMS, MHA_STAGE_QUERY, MHA_STAGE_KEY, MHA_STAGE_VALUE, MHA_STAGE_PAST_KEY,
     MHA_STAGE_PAST_VALUE, MHA_STAGE_MASK, MHA_STAGE_BIAS, MHA_STAGE_KEY_LENGTHS, MHA_STAGE_SLOPES,
     MHA_STAGE_SINKS, MHA_STAGE_OUTPUT, MHA_STAGE_LSE, MHA_STAGE_WORKSPACE}};

#define FROM_WHERE_THEY_LIE                                                                        \
    {                                                                                              \
        MHA_STAGE_PARAMS, MHA_STAGE_QUERY, MHA_STAGE_KEY, MHA_STAGE_VALUE, MHA_STAGE_PAST_KEY,     \
            MHA_STAGE_PAST_VALUE, MHA_STAGE_MASK, MHA_STAGE_BIAS, MHA_STAGE_KEY_LENGTHS,           \
            MHA_STAGE_SLOPES, MHA_STAGE_SINKS, MHA_STAGE_OUTPUT, MHA_STAGE_LSE,                    \
            MHA_STAGE_WORKSPACE                                                                    \
    }

const struct mha_stage mha_stage_shared = {"shared.cl", "shared", shared_items, 0,
                                           FROM_WHERE_THEY_LIE};

const struct mha_stage mha_stage_rows = {"rows.cl", "rows", rows_items, 0, FROM_WHERE_THEY_LIE};

const struct mha_stage mha_stage_merge_splits = {
    "merge.cl",
    "merge_splits",
    rows,
    MHA_STAGE_PLAIN,
    {MHA_STAGE_PARAMS, MHA_STAGE_SINKS, MHA_STAGE_OUTPUT, MHA_STAGE_LSE, MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_scores = {
    "scores.cl",
    "scores",
    score_blocks,
    MHA_STAGE_PLAIN,
    {MHA_STAGE_PARAMS, MHA_STAGE_QUERY, MHA_STAGE_KEY_LENGTHS, MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_softmax = {
    "softmax.cl",
    "softmax",
    rows,
    MHA_STAGE_PLAIN,
    {MHA_STAGE_PARAMS, MHA_STAGE_MASK, MHA_STAGE_BIAS, MHA_STAGE_KEY_LENGTHS, MHA_STAGE_SLOPES,
     MHA_STAGE_SINKS, MHA_STAGE_LSE, MHA_STAGE_WEIGHTS, MHA_STAGE_SCORES, MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_weighted_sum = {"weighted_sum.cl",
                                                 "weighted_sum",
                                                 row_tiles,
                                                 MHA_STAGE_PLAIN,
                                                 {MHA_STAGE_PARAMS, MHA_STAGE_MASK, MHA_STAGE_BIAS,
                                                  MHA_STAGE_KEY_LENGTHS, MHA_STAGE_OUTPUT,
                                                  MHA_STAGE_WORKSPACE}};

const struct mha_stage mha_stage_average_heads = {
    "average_heads.cl",
    "average_heads",
    averaged_weights,
    MHA_STAGE_PLAIN,
    {MHA_STAGE_PARAMS, MHA_STAGE_WEIGHTS, MHA_STAGE_WORKSPACE}};

/* Work-items of a group of rows.cl; shared.cl has its own. */
#define ROWS_LOCAL 64

/* The storage of keys or values as a build knows it: 3 where past and new ones differ. */
static int64_t built_type(const struct mha_attention *a, const struct mha_tensor *new_one,
                          const struct mha_tensor *past)
{
    return a->problem.desc.NP > 0 && new_one->type != past->type ? 3 : (int64_t)new_one->type;
}

/* -D names of kernels/common/lane.h, shared.cl and rows.cl. */
static void lane_options(struct mha_options *options, const struct mha_attention *a)
{
    const struct mha_problem *p = &a->problem;
    const struct mha_shared *s = &a->variant.shape.shared;
    const struct mha_rows_tile *r = &a->variant.shape.rows;
    const int is_shared = a->variant.shape.path == MHA_PATH_SHARED;
    mha_options_int(options, "MQ", is_shared ? s->MQ : r->MQ);
    mha_options_int(options, "NK", is_shared ? s->NK : r->NK);
    if (is_shared) {
        mha_options_int(options, "LR", s->LR);
        mha_options_int(options, "LC", s->LC);
        mha_options_int(options, "DC", s->DC);
        mha_options_int(options, "KC", s->KC);
        mha_options_flag(options, "QUERY_LOCAL", s->query);
        mha_options_flag(options, "SUB_GROUP", s->sub_group);
    } else {
        mha_options_int(options, "NC", r->NC);
        mha_options_int(options, "KEY_TYPE", built_type(a, &p->key, &p->past_key));
        mha_options_int(options, "VALUE_TYPE", built_type(a, &p->value, &p->past_value));
    }
    mha_options_int(options, "DK", p->desc.DK);
    mha_options_int(options, "DV", p->desc.DV);
}

/* Kernels that stand in the program of the one they run with are built with it. */
static const char *file_of(const struct mha_attention *a, const struct mha_stage *stage)
{
    const enum mha_path path = a->variant.shape.path;
    const int merges = stage == &mha_stage_merge_splits;
    const int packs = stage == &mha_stage_pack_key || stage == &mha_stage_pack_value;
    return path == MHA_PATH_FUSED && (merges || packs) ? mha_stage_fused.file
           : path == MHA_PATH_DECODE && merges         ? mha_stage_decode.file
                                                       : stage->file;
}

gpu_mha_status mha_stage_prepare(struct mha_attention *a, gpu_mha_context *context,
                                 const struct mha_stage *stage)
{
    const struct mha_variant *v = &a->variant;
    const int64_t items = stage->items(a);
    MHA_RETURN_IF(!mha_size_fits(items), GPU_MHA_UNSUPPORTED,
                  "%s needs more work-items than this machine can address", stage->kernel);
    const char *file = file_of(a, stage);
    struct mha_options options = {{0}};
    size_t local = v->shape.tile.local;
    if (stage == &mha_stage_shared || stage == &mha_stage_rows) {
        lane_options(&options, a);
        local = ROWS_LOCAL;
    } else {
        mha_tile_options(&options, &v->shape.tile, a->problem.desc.DK, a->problem.desc.DV);
    }
    if (stage->build == MHA_STAGE_HEADS) {
        mha_options_int(&options, "HEAD_KEYS", mha_shape_head_keys(a->problem.NT));
    }
    if (stage->build == MHA_STAGE_TYPED || file == mha_stage_decode.file) {
        mha_options_int(&options, "KEY_TYPE", a->problem.key.type);
        mha_options_int(&options, "VALUE_TYPE", a->problem.value.type);
    }
    const int index = a->stage_count;
    const gpu_mha_status status =
        mha_kernel_create(context->programs, &context->device, file, stage->kernel, &options, local,
                          &a->kernels[index]);
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
