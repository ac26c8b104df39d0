/* The shapes of one attention measured: gpu_mha_tune(). */
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "attention/choice.h"
#include "attention/tune_buffers.h"
#include "cl/contest.h"

struct job {
    gpu_mha_context *context;
    const struct mha_problem *problem;
    struct mha_shape shapes[MHA_CONTEST_MAX];
    struct mha_attention *made[MHA_CONTEST_MAX];
    struct mha_tune_buffers buffers;
};

static gpu_mha_status run(void *state, int index, cl_command_queue queue, uint64_t turn,
                          cl_event *event)
{
    struct job *job = state;
    gpu_mha_buffers buffers = mha_tune_buffers_of(&job->buffers, turn);
    if (job->made[index]->workspace_bytes == 0) {
        buffers.workspace.mem = NULL;
    }
    struct mha_chain chain;
    mha_chain_begin(&chain, queue, 0, NULL);
    const gpu_mha_status status = mha_attention_launch(job->made[index], &buffers, &chain);
    return mha_chain_end(&chain, status, event);
}

/* A built kernel may need more than the device has, and then another shape runs in its place. */
static gpu_mha_status check_shape(const struct job *job, int index)
{
    char wanted[MHA_SHAPE_TEXT], runs[MHA_SHAPE_TEXT];
    const struct mha_shape *shape = &job->made[index]->variant.shape;
    mha_shape_text(&job->shapes[index], wanted, sizeof wanted);
    mha_shape_text(shape, runs, sizeof runs);
    /* The tile kernels lower their rows to those of the problem, under the same name. */
    const int has_tile = shape->path == MHA_PATH_FUSED || shape->path == MHA_PATH_HEADS ||
                         shape->path == MHA_PATH_DECODE;
    MHA_RETURN_IF(
        shape->path != job->shapes[index].path || (!has_tile && strcmp(wanted, runs) != 0),
        GPU_MHA_UNSUPPORTED, "the device runs \"%s\" in the place of \"%s\"", runs, wanted);
    return GPU_MHA_OK;
}

static gpu_mha_status prepare(void *state, int index, cl_command_queue queue, int *agrees)
{
    struct job *job = state;
    struct mha_attention **made = &job->made[index];
    if (index == 0) {
        MHA_TRY(mha_tune_buffers_make(job->context, queue, job->problem, &job->buffers));
    }
    MHA_TRY(mha_attention_create(job->context, &job->problem->desc, &job->shapes[index], made));
    if (index == 0) {
        /* What runs by default is the default, whatever stands in the table. */
        job->shapes[0] = (*made)->variant.shape;
    }
    MHA_TRY(check_shape(job, index));
    MHA_TRY(mha_tune_buffers_reserve(job->context, &job->buffers, (*made)->workspace_bytes));
    MHA_TRY(mha_tune_buffers_clear(&job->buffers, queue));
    cl_event done = NULL;
    MHA_TRY(run(job, index, queue, 0, &done));
    MHA_TRY(mha_contest_settle(queue, done, "an attention"));
    return mha_tune_buffers_compare(&job->buffers, queue, index == 0, agrees);
}

static gpu_mha_status check_problem(const struct mha_problem *p)
{
    const char *tile = getenv("GPU_MHA_TILE");
    MHA_INVALID_IF(p->empty_output, "%s is 0: there is nothing to measure",
                   p->desc.B == 0 ? "B" : "NQ");
    MHA_INVALID_IF(p->NT == 0, "NP + NK is 0: there is nothing to measure");
    MHA_INVALID_IF(tile != NULL && tile[0] != '\0',
                   "GPU_MHA_TILE is \"%.64s\": it overrides what is measured, so it must not be "
                   "set",
                   tile);
    MHA_RETURN_IF(mha_shape_is_staged(p), GPU_MHA_UNSUPPORTED,
                  "weights, scores and GPU_MHA_STAGED leave no choice of shape: there is nothing "
                  "to tune");
    return GPU_MHA_OK;
}

static gpu_mha_status tune(struct job *job, const gpu_mha_tune_options *options,
                           gpu_mha_tune_result *result)
{
    gpu_mha_context *context = job->context;
    struct mha_contest contest = {.job = job, .prepare = prepare, .run = run};
    struct mha_variant variant;
    int winner = 0;
    /* Says what is over a limit of the kernels. */
    MHA_TRY(mha_variant_choose(job->problem, &context->device, NULL, &variant));
    MHA_RETURN_IF(
        variant.shape.path == MHA_PATH_STAGED, GPU_MHA_UNSUPPORTED,
        "gpu-mha doctor found none of the fused kernels ok on %s: there is nothing to tune",
        context->device.name);
    mha_shape_key(job->problem, contest.kind, sizeof contest.kind);
    mha_choice_key(job->problem, &context->device, contest.key);
    contest.count =
        mha_shape_candidates(job->problem, &context->device, job->shapes, MHA_CONTEST_MAX);
    for (int c = 0; c < contest.count; ++c) {
        mha_shape_text(&job->shapes[c], contest.entrants[c].text, sizeof contest.entrants[c].text);
    }
    MHA_TRY(mha_contest_hold(&contest, context, options, &winner));
    mha_contest_finish(&contest, context, options, winner, result);
    return GPU_MHA_OK;
}

gpu_mha_status gpu_mha_tune(gpu_mha_context *context, const gpu_mha_desc *desc,
                            const gpu_mha_tune_options *options, gpu_mha_tune_result *result)
{
    struct mha_problem problem;
    gpu_mha_tune_options o;
    MHA_TRY(mha_problem_read(desc, &problem));
    MHA_TRY(check_problem(&problem));
    MHA_TRY(mha_contest_options(options, &o));
    if (result != NULL) {
        MHA_TRY(mha_contest_check_size("result", result->struct_size, sizeof *result));
    }
    MHA_TRY(mha_context_resolve(context, &context));
    struct job job = {.context = context, .problem = &problem};
    const gpu_mha_status status = tune(&job, &o, result);
    for (int c = 0; c < MHA_CONTEST_MAX; ++c) {
        mha_attention_destroy(job.made[c]);
    }
    mha_tune_buffers_release(&job.buffers);
    return status;
}
