/*
 * Products through CLBlast (written for 1.5.3).
 *
 * - Its caches of programs and parameters race between threads: one lock for the whole process
 *   stands around every call.
 * - It takes no wait list. What comes before is ordered by a barrier where the queue does not do
 *   it; what comes after waits for the event, which CLBlast gives to its last command, and for what
 *   came before, whose failure CLBlast's event would not carry on.
 * - It counts elements in 32 bits from the begin of a buffer, and its scratch buffer has no offset:
 *   it is given windows, and rows beyond its counters go into a launch of their own.
 * - Its kernels have the work-groups and the local memory of the devices they were tuned on, and
 *   ask for them when they are launched: whether a device runs them is tried before, which also
 *   compiles them, for seconds.
 */
#include <clblast_c.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "blas/gemm.h"
#include "blas/window.h"
#include "cl/verdicts.h"
#include "core/log.h"

static pthread_mutex_t clblast_lock = PTHREAD_MUTEX_INITIALIZER;

/* A, W, C and the scratch, as CLBlast gets them. */
struct operands {
    struct mha_window a, w, c, scratch;
};

static void close_operands(struct operands *o)
{
    mha_window_close(&o->a);
    mha_window_close(&o->w);
    mha_window_close(&o->c);
    mha_window_close(&o->scratch);
}

/*
 * Bytes of scratch for `s`; 0 means that CLBlast's direct kernel takes it. The offsets of 1 stand
 * for buffers of which CLBlast must make copies: the most that any offset needs.
 */
static gpu_mha_status scratch_bytes(cl_command_queue queue, const struct mha_gemm_shape *s,
                                    size_t *bytes)
{
    pthread_mutex_lock(&clblast_lock);
    const CLBlastStatusCode code =
        CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes,
                                   (size_t)s->M, (size_t)s->N, (size_t)s->K, 1, (size_t)s->a_stride,
                                   1, (size_t)s->w_stride, 1, (size_t)s->c_stride, &queue, bytes);
    pthread_mutex_unlock(&clblast_lock);
    return code == CLBlastSuccess ? GPU_MHA_OK
                                  : mha_error_blas((int)code, "CLBlastSGemmTempBufferSize");
}

static gpu_mha_status multiply(cl_command_queue queue, const struct mha_gemm_shape *s,
                               const struct operands *o, cl_event *event)
{
    pthread_mutex_lock(&clblast_lock);
    const CLBlastStatusCode code = CLBlastSgemmWithTempBuffer(
        CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes, (size_t)s->M, (size_t)s->N,
        (size_t)s->K, 1.0f, o->a.mem, o->a.offset, (size_t)s->a_stride, o->w.mem, o->w.offset,
        (size_t)s->w_stride, 0.0f, o->c.mem, o->c.offset, (size_t)s->c_stride, &queue, event,
        o->scratch.mem);
    pthread_mutex_unlock(&clblast_lock);
    return code == CLBlastSuccess ? GPU_MHA_OK
                                  : mha_error_blas((int)code, "CLBlastSgemmWithTempBuffer");
}

static int64_t a_span(const struct mha_gemm_shape *s)
{
    return (s->M - 1) * s->a_stride + s->K;
}

static int64_t w_span(const struct mha_gemm_shape *s)
{
    return (s->N - 1) * s->w_stride + s->K;
}

static int64_t c_span(const struct mha_gemm_shape *s)
{
    return (s->M - 1) * s->c_stride + s->N;
}

/* ---- what the device runs ----------------------------------------------------------------- */

/* A product of ones, whose elements must be K. */
struct trial {
    struct mha_gemm_shape shape;
    size_t scratch_bytes;
    cl_command_queue queue;
    float *ones, *result;
    struct operands operands; /* whole buffers */
    cl_event event;
};

/* A buffer of its own, filled with the floats of `from` unless that is NULL. */
static gpu_mha_status make_operand(gpu_mha_context *context, size_t bytes, float *from,
                                   struct mha_window *window)
{
    const cl_mem_flags copy = from != NULL ? CL_MEM_COPY_HOST_PTR : 0;
    cl_int code = CL_SUCCESS;
    window->mem = clCreateBuffer(context->cl, CL_MEM_READ_WRITE | copy, bytes, from, &code);
    MHA_TRY_CL(code, "clCreateBuffer", "%zu bytes to try CLBlast", bytes);
    return GPU_MHA_OK;
}

static gpu_mha_status run_trial(struct trial *t, gpu_mha_context *context)
{
    const struct mha_gemm_shape *s = &t->shape;
    const int64_t size = s->M; /* of all three lengths */
    const size_t bytes = (size_t)(size * size) * sizeof(float);
    t->ones = malloc(bytes);
    t->result = malloc(bytes);
    MHA_RETURN_IF(t->ones == NULL || t->result == NULL, GPU_MHA_HOST_MEMORY,
                  "no memory to try CLBlast");
    for (int64_t i = 0; i < size * size; ++i) {
        t->ones[i] = 1.0f;
    }
    MHA_TRY(make_operand(context, bytes, t->ones, &t->operands.a));
    MHA_TRY(make_operand(context, bytes, t->ones, &t->operands.w));
    MHA_TRY(make_operand(context, bytes, t->ones, &t->operands.c));
    if (t->scratch_bytes > 0) {
        MHA_TRY(make_operand(context, t->scratch_bytes, NULL, &t->operands.scratch));
    }
    MHA_TRY(multiply(t->queue, s, &t->operands, &t->event));
    MHA_TRY_CL(clEnqueueReadBuffer(t->queue, t->operands.c.mem, CL_TRUE, 0, bytes, t->result, 1,
                                   &t->event, NULL),
               "clEnqueueReadBuffer", "a product of CLBlast");
    for (int64_t i = 0; i < size * size; ++i) {
        MHA_RETURN_IF(t->result[i] != (float)size, GPU_MHA_BLAS,
                      "a product of CLBlast has the element %g, which must be %" PRId64,
                      (double)t->result[i], size);
    }
    return GPU_MHA_OK;
}

static gpu_mha_status try_size(gpu_mha_context *context, int64_t size, size_t scratch)
{
    struct trial t = {.shape = {size, size, size, size, size, size}, .scratch_bytes = scratch};
    cl_int code = CL_SUCCESS;
    t.queue = clCreateCommandQueue(context->cl, context->device.id, 0, &code);
    MHA_TRY_CL(code, "clCreateCommandQueue", "trying CLBlast");
    const gpu_mha_status status = run_trial(&t, context);
    if (t.event != NULL) {
        clReleaseEvent(t.event);
    }
    clFinish(t.queue); /* before what a failed run may still read is gone */
    close_operands(&t.operands);
    clReleaseCommandQueue(t.queue);
    free(t.ones);
    free(t.result);
    return status;
}

/*
 * The kernels for small products, or those for large ones: the smallest of these, once with lengths
 * that fill tiles and once with lengths that do not, which takes other kernels for the copies.
 */
static gpu_mha_status try_kernels(gpu_mha_context *context, int large)
{
    enum { LARGEST = 4096 };
    if (!large) {
        return try_size(context, 3, 0);
    }
    for (int64_t size = 64; size <= LARGEST; size *= 2) {
        const int64_t lengths[2] = {size, size + 1};
        size_t bytes[2] = {0, 0};
        for (int n = 0; n < 2; ++n) {
            const int64_t e = lengths[n];
            const struct mha_gemm_shape s = {e, e, e, e, e, e};
            MHA_TRY(scratch_bytes(context->queue, &s, &bytes[n]));
        }
        if (bytes[0] > 0 && bytes[1] > 0) {
            MHA_TRY(try_size(context, lengths[0], bytes[0]));
            return try_size(context, lengths[1], bytes[1]);
        }
    }
    return GPU_MHA_OK;
}

/*
 * Whether a failure says that the device is none for CLBlast's kernels: too large for it, or more
 * than its compiler takes. What else fails may not fail the next time.
 */
static int is_for_good(gpu_mha_status status, cl_int code)
{
    switch (code) {
    case CL_SUCCESS: /* an element that is wrong */
        return status == GPU_MHA_BLAS;
    case CL_COMPILER_NOT_AVAILABLE:
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_INVALID_WORK_GROUP_SIZE:
    case CL_INVALID_WORK_ITEM_SIZE:
    case CLBlastInvalidLocalMemUsage:
        return 1;
    default:
        return 0;
    }
}

/* Bits of context->clblast, the second of each pair for large products. */
enum { RUNS = 1, FAILS = 4 };

/* GPU_MHA_UNSUPPORTED if CLBlast's kernels do not run on the device. Tried once per context. */
static gpu_mha_status check_runs(gpu_mha_context *context, int large)
{
    const int known = atomic_load(&context->clblast) >> large;
    if (known & RUNS) {
        return GPU_MHA_OK;
    }
    if (!(known & FAILS)) {
        mha_error_attempt();
        const gpu_mha_status status = try_kernels(context, large);
        if (status != GPU_MHA_OK && !is_for_good(status, mha_error_attempt_code())) {
            return mha_error_attempt_failed();
        }
        const char *why = mha_error_attempt_end();
        atomic_fetch_or(&context->clblast, (status == GPU_MHA_OK ? RUNS : FAILS) << large);
        if (status == GPU_MHA_OK) {
            return GPU_MHA_OK;
        }
        mha_log(MHA_LOG_WARN, "leave out CLBlast for %s products: %s", large ? "large" : "small",
                why);
    }
    return mha_error_set(GPU_MHA_UNSUPPORTED, "CLBlast does not run on the device %s",
                         context->device.name);
}

/* Halves the rows of a launch until CLBlast can count all of its elements. */
static gpu_mha_status prepare(gpu_mha_context *context, struct mha_gemm *gemm)
{
    struct mha_gemm_shape s = gemm->shape;
    const int64_t in_front = (int64_t)(gemm->align_bytes / sizeof(float));
    /* Strides of a single row are free: CLBlast pads to a tile, and counts rows of it. */
    const int64_t tile = 1024;
    for (int fits = 0; !fits;) {
        fits = a_span(&s) <= INT32_MAX - in_front && w_span(&s) <= INT32_MAX - in_front &&
               c_span(&s) <= INT32_MAX - in_front && s.K <= INT32_MAX - tile &&
               s.a_stride <= INT32_MAX && s.w_stride <= INT32_MAX && s.c_stride <= INT32_MAX;
        if (fits) {
            MHA_TRY(scratch_bytes(context->queue, &s, &gemm->scratch_bytes));
            fits = gemm->scratch_bytes / sizeof(float) <= INT32_MAX;
        }
        MHA_RETURN_IF(!fits && s.M == 1, GPU_MHA_UNSUPPORTED,
                      "a weight of (%" PRId64 ", %" PRId64
                      ") is too large: CLBlast counts at most 2^31 - 1 elements",
                      s.N, s.K);
        gemm->rows = s.M;
        s.M = mha_size_ceil_div(s.M, 2);
    }
    return check_runs(context, gemm->scratch_bytes > 0);
}

/*
 * In an in-order queue only the caller's wait list must be made to hold; in an out-of-order one
 * also the command before.
 */
static gpu_mha_status order(struct mha_chain *chain)
{
    cl_event barrier = NULL;
    cl_command_queue_properties properties = 0;
    MHA_TRY_CL(clGetCommandQueueInfo(chain->queue, CL_QUEUE_PROPERTIES, sizeof properties,
                                     &properties, NULL),
               "clGetCommandQueueInfo", "asking for the properties of queue");
    const int ordered =
        chain->last != NULL && !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    if (ordered || mha_chain_wait_count(chain) == 0) {
        return GPU_MHA_OK;
    }
    MHA_TRY_CL(clEnqueueBarrierWithWaitList(chain->queue, mha_chain_wait_count(chain),
                                            mha_chain_wait_list(chain), &barrier),
               "clEnqueueBarrierWithWaitList", "in front of a product");
    mha_chain_push(chain, barrier);
    return GPU_MHA_OK;
}

static gpu_mha_status launch_rows(const struct mha_gemm *gemm, int64_t rows,
                                  struct mha_chain *chain, gpu_mha_buffer a, gpu_mha_buffer w,
                                  gpu_mha_buffer c, gpu_mha_buffer scratch)
{
    struct mha_gemm_shape s = gemm->shape;
    s.M = rows;
    struct operands o = {{0}, {0}, {0}, {0}};
    cl_event event = NULL;
    const gpu_mha_buffer scratch_floats = {scratch.mem, scratch.offset / sizeof(float)};
    const int64_t scratch_count = (int64_t)(gemm->scratch_bytes / sizeof(float));
    gpu_mha_status status = mha_window_open(a, a_span(&s), gemm->align_bytes, "the input", &o.a);
    if (status == GPU_MHA_OK) {
        status = mha_window_open(w, w_span(&s), gemm->align_bytes, "the weight", &o.w);
    }
    if (status == GPU_MHA_OK) {
        status = mha_window_open(c, c_span(&s), gemm->align_bytes, "the product", &o.c);
    }
    if (status == GPU_MHA_OK && scratch_count > 0) {
        status = mha_window_open(scratch_floats, scratch_count, gemm->align_bytes, "the scratch",
                                 &o.scratch);
    }
    if (status == GPU_MHA_OK) {
        status = order(chain);
    }
    if (status == GPU_MHA_OK) {
        status = multiply(chain->queue, &s, &o, &event);
    }
    if (status == GPU_MHA_OK) {
        status = mha_chain_join(chain, event);
    }
    close_operands(&o);
    return status;
}

static gpu_mha_status launch(struct mha_gemm *gemm, struct mha_chain *chain, gpu_mha_buffer a,
                             gpu_mha_buffer w, gpu_mha_buffer bias, gpu_mha_buffer c,
                             gpu_mha_buffer scratch)
{
    (void)bias; /* always none: see adds_bias */
    const struct mha_gemm_shape *s = &gemm->shape;
    for (int64_t first = 0; first < s->M; first += gemm->rows) {
        const int64_t rows = s->M - first < gemm->rows ? s->M - first : gemm->rows;
        MHA_TRY(launch_rows(gemm, rows, chain, a, w, c, scratch));
        a.offset += (uint64_t)(rows * s->a_stride);
        c.offset += (uint64_t)(rows * s->c_stride);
    }
    return GPU_MHA_OK;
}

const struct mha_gemm_kind mha_gemm_clblast = {"CLBlast", MHA_VARIANT_CLBLAST, 0, prepare, launch};
