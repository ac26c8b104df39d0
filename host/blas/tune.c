/* The products measured: gpu_mha_tune_product(). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas/gemm.h"
#include "cl/contest.h"
#include "cl/random_fill.h"
#include "cl/verdicts.h"

#define LENGTH_MAX ((int64_t)1 << 20)

struct job {
    gpu_mha_context *context;
    struct mha_gemm_shape shape;
    int sound; /* how many candidates are not to be avoided */
    int first; /* the candidate that is entrant 0: the default, as far as the device runs it */
    struct mha_gemm gemms[MHA_GEMM_KINDS];
    struct mha_random *random;
    cl_mem a, w, c, scratch;
    size_t scratch_bytes;
    double tolerance;
    float *expected, *found; /* (M, N) */
};

static gpu_mha_status make_buffer(struct job *job, size_t bytes, const char *name, cl_mem *mem)
{
    cl_int code = CL_SUCCESS;
    *mem = clCreateBuffer(job->context->cl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    MHA_TRY_CL(code, "clCreateBuffer", "%zu bytes for the %s of a product", bytes, name);
    return GPU_MHA_OK;
}

static gpu_mha_status make_inputs(struct job *job, cl_command_queue queue)
{
    const struct mha_gemm_shape *s = &job->shape;
    const size_t f32 = sizeof(float);
    const int64_t most = s->M * s->K + s->N * s->K + s->M * s->N; /* each at most 2^40 */
    MHA_RETURN_IF(!mha_size_fits(mha_size_mul(most, (int64_t)f32)), GPU_MHA_UNSUPPORTED,
                  "a product of (%" PRId64 ", %" PRId64 ") and (%" PRId64 ", %" PRId64
                  ") is more than this machine can address",
                  s->M, s->K, s->K, s->N);
    MHA_TRY(make_buffer(job, (size_t)(s->M * s->K) * f32, "input", &job->a));
    MHA_TRY(make_buffer(job, (size_t)(s->N * s->K) * f32, "weight", &job->w));
    MHA_TRY(make_buffer(job, (size_t)(s->M * s->N) * f32, "result", &job->c));
    MHA_TRY(mha_random_create(&job->random));
    MHA_TRY(mha_random_fill(job->random, queue, job->a, GPU_MHA_F32, s->M * s->K));
    MHA_TRY(mha_random_fill(job->random, queue, job->w, GPU_MHA_F32, s->N * s->K));
    /* Two sums of K products, in whatever order, of rows within this norm. */
    const double norm = mha_random_norm(job->random, s->K);
    job->tolerance = 2 * ldexp((double)s->K + 8, -24) * norm * norm;
    job->expected = malloc((size_t)(s->M * s->N) * f32);
    job->found = malloc((size_t)(s->M * s->N) * f32);
    MHA_RETURN_IF(job->expected == NULL || job->found == NULL, GPU_MHA_HOST_MEMORY,
                  "no memory for two results of a product, %" PRId64 " floats each", s->M * s->N);
    return GPU_MHA_OK;
}

/* Between runs: whoever uses the old one has ended. */
static gpu_mha_status reserve_scratch(struct job *job, size_t bytes)
{
    if (bytes <= job->scratch_bytes) {
        return GPU_MHA_OK;
    }
    if (job->scratch != NULL) {
        clReleaseMemObject(job->scratch);
        job->scratch = NULL;
        job->scratch_bytes = 0;
    }
    MHA_TRY(make_buffer(job, bytes, "scratch", &job->scratch));
    job->scratch_bytes = bytes;
    return GPU_MHA_OK;
}

static gpu_mha_status run(void *state, int index, cl_command_queue queue, uint64_t turn,
                          cl_event *event)
{
    struct job *job = state;
    struct mha_gemm *gemm = &job->gemms[index];
    struct mha_chain chain;
    (void)turn; /* a product of this size is bound by its arithmetic */
    mha_chain_begin(&chain, queue, 0, NULL);
    const gpu_mha_buffer none = {NULL, 0}, scratch = {job->scratch, 0};
    const gpu_mha_status status = mha_gemm_launch(
        gemm, &chain, (gpu_mha_buffer){job->a, 0}, (gpu_mha_buffer){job->w, 0}, none,
        (gpu_mha_buffer){job->c, 0}, gemm->scratch_bytes > 0 ? scratch : none);
    return mha_chain_end(&chain, status, event);
}

static const struct mha_gemm_kind *kind_of(const struct job *job, int entrant)
{
    return mha_gemm_candidate(&job->context->device, (job->first + entrant) % job->sound, NULL);
}

static gpu_mha_status find_first(struct job *job)
{
    struct mha_gemm gemm;
    MHA_TRY(mha_gemm_prepare_default(job->context, &job->shape, &gemm));
    while (job->first < job->sound - 1 && kind_of(job, 0) != gemm.kind) {
        job->first++;
    }
    mha_gemm_destroy(&gemm);
    return GPU_MHA_OK;
}

static gpu_mha_status prepare(void *state, int index, cl_command_queue queue, int *agrees)
{
    struct job *job = state;
    const struct mha_gemm_shape *s = &job->shape;
    struct mha_gemm *gemm = &job->gemms[index];
    const size_t count = (size_t)(s->M * s->N);
    if (index == 0) {
        MHA_TRY(make_inputs(job, queue));
    }
    MHA_TRY(mha_gemm_prepare_with(kind_of(job, index), job->context, s, gemm));
    MHA_TRY(reserve_scratch(job, gemm->scratch_bytes));
    const cl_uint nan_bits = 0x7fc00000u;
    MHA_TRY_CL(clEnqueueFillBuffer(queue, job->c, &nan_bits, sizeof nan_bits, 0,
                                   count * sizeof(float), 0, NULL, NULL),
               "clEnqueueFillBuffer", "the result of a product");
    cl_event done = NULL;
    MHA_TRY(run(job, index, queue, 0, &done));
    MHA_TRY(mha_contest_settle(queue, done, "a product"));
    float *result = index == 0 ? job->expected : job->found;
    MHA_TRY_CL(clEnqueueReadBuffer(queue, job->c, CL_TRUE, 0, count * sizeof(float), result, 0,
                                   NULL, NULL),
               "clEnqueueReadBuffer", "the result of a product");
    *agrees = 1;
    for (size_t i = 0; i < count && *agrees; i++) {
        /* A NaN agrees with nothing. */
        *agrees = fabs((double)result[i] - (double)job->expected[i]) <= job->tolerance;
    }
    return GPU_MHA_OK;
}

static void release(struct job *job)
{
    const cl_mem buffers[] = {job->a, job->w, job->c, job->scratch};
    for (size_t b = 0; b < sizeof buffers / sizeof buffers[0]; b++) {
        if (buffers[b] != NULL) {
            clReleaseMemObject(buffers[b]);
        }
    }
    for (int k = 0; k < MHA_GEMM_KINDS; k++) {
        mha_gemm_destroy(&job->gemms[k]);
    }
    mha_random_destroy(job->random);
    free(job->expected);
    free(job->found);
}

static gpu_mha_status check_arguments(int64_t M, int64_t N, int64_t K)
{
    const struct {
        const char *name;
        int64_t value;
    } lengths[] = {{"M", M}, {"N", N}, {"K", K}};
    for (int i = 0; i < 3; i++) {
        MHA_INVALID_IF(lengths[i].value < 1 || lengths[i].value > LENGTH_MAX,
                       "%s is %" PRId64 ": it must be from 1 to 2^20", lengths[i].name,
                       lengths[i].value);
    }
    const char *tile = getenv("GPU_MHA_TILE");
    MHA_INVALID_IF(
        tile != NULL && tile[0] != '\0',
        "GPU_MHA_TILE is \"%.64s\": it overrides what is measured, so it must not be set", tile);
    return GPU_MHA_OK;
}

gpu_mha_status gpu_mha_tune_product(gpu_mha_context *context, int64_t M, int64_t N, int64_t K,
                                    const gpu_mha_tune_options *options,
                                    gpu_mha_tune_result *result)
{
    gpu_mha_tune_options o;
    MHA_TRY(check_arguments(M, N, K));
    MHA_TRY(mha_contest_options(options, &o));
    if (result != NULL) {
        MHA_TRY(mha_contest_check_size("result", result->struct_size, sizeof *result));
    }
    MHA_TRY(mha_context_resolve(context, &context));

    struct job job = {.context = context, .shape = {M, N, K, K, K, N}};
    const struct mha_gemm_kind *usual = mha_gemm_candidate(&context->device, 0, &job.sound);
    MHA_TRY(mha_verdict_check(&context->device, usual->variant, 0));
    MHA_TRY(find_first(&job));
    struct mha_contest contest = {.kind = MHA_GEMM_KEY,
                                  .key = MHA_GEMM_KEY,
                                  .count = job.sound,
                                  .job = &job,
                                  .prepare = prepare,
                                  .run = run};
    for (int k = 0; k < job.sound; k++) {
        snprintf(contest.entrants[k].text, sizeof contest.entrants[k].text, "%s",
                 kind_of(&job, k)->name);
    }
    int winner = 0;
    const gpu_mha_status status = mha_contest_hold(&contest, context, &o, &winner);
    if (status == GPU_MHA_OK) {
        mha_contest_finish(&contest, context, &o, winner, result);
    }
    release(&job);
    return status;
}
