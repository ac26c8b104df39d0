/*
 * operator_fixture.h - what the tests of the small operators share: a context with two queues,
 * tensors in guarded buffers, and the three ways to run an operator.
 */
#ifndef MHA_TESTS_OPERATOR_FIXTURE_H
#define MHA_TESTS_OPERATOR_FIXTURE_H

#include <gpu_mha/gpu_mha.h>

#include "harness/assertions.h"
#include "harness/compare.h"
#include "harness/layouts.h"
#include "harness/queue.h"
#include "harness/storage.h"
#include "reference/reference.h"

#include <stdlib.h>
#include <string.h>

enum way { WAY_HOST, WAY_IN_ORDER, WAY_OUT_OF_ORDER };
#define WAY_COUNT 3

static gpu_mha_context *context;
static cl_command_queue queues[WAY_COUNT];

static inline void ok(gpu_mha_status status)
{
    ck_assert_msg(status == GPU_MHA_OK, "%s", gpu_mha_last_error());
}

/* Checked: a driver in use does not survive the fork in front of a test. */
static inline void open_context(void)
{
    setenv("GPU_MHA_LOG", "off", 1);
    ok(gpu_mha_context_create(NULL, &context));
    for (int way = WAY_IN_ORDER; way <= WAY_OUT_OF_ORDER; way++) {
        queues[way] = queue_make(context, way == WAY_OUT_OF_ORDER);
    }
}

static inline void close_context(void)
{
    for (int way = WAY_IN_ORDER; way <= WAY_OUT_OF_ORDER; way++) {
        clReleaseCommandQueue(queues[way]);
    }
    gpu_mha_context_release(context);
    context = NULL;
}

/* ---- tensors ---- */

/* Elements behind the tensor; in front of it are as many as its offset. */
#define TENSOR_TAIL 11

/* A tensor in a block of memory, poison in the gaps and round it. `role` is for messages. */
struct tensor {
    const char *role;
    struct layout layout;
    enum storage_type type;
    enum poison poison;
    int64_t elements; /* of the whole block */
    unsigned char *block;
    cl_mem mem;
};

/* `dense` NULL: an output, filled with 0xFF like everything round it. */
static inline struct tensor tensor_new(const char *role, struct layout layout,
                                       enum storage_type type, const double *dense)
{
    struct tensor t = {.role = role, .layout = layout, .type = type};
    t.poison = dense ? POISON_NAN : POISON_FF;
    t.elements = (layout.span > layout.offset ? layout.span : layout.offset) + TENSOR_TAIL;
    t.block = layout_new(&layout, type, t.elements, t.poison, dense);
    ck_assert_ptr_nonnull(t.block);
    return t;
}

static inline struct tensor flat_new(const char *role, int64_t count, int64_t offset,
                                     enum storage_type type, const double *dense)
{
    return tensor_new(role, layout_make(LAYOUT_BHND, 1, 1, 1, count, offset), type, dense);
}

static inline size_t tensor_bytes(const struct tensor *t)
{
    return (size_t)t->elements * storage_size(t->type);
}

static inline void *tensor_host(const struct tensor *t)
{
    return t->block + (size_t)t->layout.offset * storage_size(t->type);
}

static inline gpu_mha_buffer tensor_buffer(const struct tensor *t)
{
    return (gpu_mha_buffer){t->mem, (uint64_t)t->layout.offset};
}

/* Strided in the descriptor, unless packed. */
static inline gpu_mha_tensor tensor_describe(const struct tensor *t, enum layout_kind kind)
{
    gpu_mha_tensor d = {.type = (gpu_mha_type)t->type};
    if (kind == LAYOUT_BNHD) {
        d.layout = GPU_MHA_BNHD;
    }
    if (kind == LAYOUT_PADDED || kind == LAYOUT_PADDED_BNHD) {
        d.layout = GPU_MHA_STRIDED;
        d.stride_b = t->layout.stride_b;
        d.stride_h = t->layout.stride_h;
        d.stride_n = t->layout.stride_n;
    }
    return d;
}

/* Every element within its bound (NULL: equal), everything round them untouched. */
static inline void tensor_expect(const struct tensor *t, const double *want, const double *bound)
{
    const struct layout *l = &t->layout;
    const int64_t dims[4] = {l->B, l->H, l->N, l->D};
    double *got = alloc_doubles(layout_count(l));
    layout_gather(l, t->type, t->block, got);
    if (bound) {
        ASSERT_ARRAYS(t->role, 4, dims, got, want, bound);
    } else {
        ASSERT_ELEMENTS(t->role, 4, dims, got, want, NULL);
    }
    int64_t gap = layout_first_changed_gap(l, t->type, t->block, t->elements, t->poison);
    ck_assert_msg(gap == -1, "%s: element %lld outside of the tensor was changed", t->role,
                  (long long)gap);
    free(got);
}

static inline void tensor_free(struct tensor *t)
{
    if (t->mem) {
        clReleaseMemObject(t->mem);
    }
    free(t->block);
    *t = (struct tensor){0};
}

/* ---- integers ---- */

/* Positions or indices as int32_t or int64_t, with numbers round them that no cache reaches. */
struct integers {
    gpu_mha_index_type type;
    int64_t count, offset;
    unsigned char *block;
    cl_mem mem;
};

static inline size_t integer_size(gpu_mha_index_type type)
{
    return type == GPU_MHA_I32 ? sizeof(int32_t) : sizeof(int64_t);
}

static inline size_t integers_bytes(const struct integers *n)
{
    return (size_t)(n->offset + n->count + TENSOR_TAIL) * integer_size(n->type);
}

static inline struct integers integers_new(gpu_mha_index_type type, const int64_t *values,
                                           int64_t count, int64_t offset)
{
    struct integers n = {.type = type, .count = count, .offset = offset};
    if (type == GPU_MHA_INDEX_NONE) {
        return n;
    }
    n.block = malloc(integers_bytes(&n));
    ck_assert_ptr_nonnull(n.block);
    memset(n.block, 0x71, integers_bytes(&n));
    for (int64_t i = 0; i < count; i++) {
        int32_t narrow = (int32_t)values[i];
        void *at = n.block + (size_t)(offset + i) * integer_size(type);
        if (type == GPU_MHA_I32) {
            memcpy(at, &narrow, sizeof narrow);
        } else {
            memcpy(at, &values[i], sizeof values[i]);
        }
    }
    return n;
}

static inline void *integers_host(const struct integers *n)
{
    return n->block ? n->block + (size_t)n->offset * integer_size(n->type) : NULL;
}

static inline gpu_mha_buffer integers_buffer(const struct integers *n)
{
    return (gpu_mha_buffer){n->mem, n->mem ? (uint64_t)n->offset : 0};
}

static inline void integers_free(struct integers *n)
{
    if (n->mem) {
        clReleaseMemObject(n->mem);
    }
    free(n->block);
    *n = (struct integers){0};
}

/* ---- runs on a queue ---- */

/*
 * One run. The inputs are written by commands that stand behind a closed gate, so that an operator
 * that does not wait for them computes on zeros.
 */
struct run {
    cl_command_queue queue;
    cl_event gate;
    cl_event written[8];
    cl_uint written_count;
    cl_event done;
};

static inline struct run run_begin(enum way way)
{
    struct run run = {.queue = queues[way]};
    cl_int code;
    run.gate = clCreateUserEvent(gpu_mha_context_cl(context), &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    return run;
}

static inline cl_mem run_send(struct run *run, const void *block, size_t bytes)
{
    cl_int code;
    void *zeros = calloc(bytes, 1);
    ck_assert_ptr_nonnull(zeros);
    cl_mem mem = clCreateBuffer(gpu_mha_context_cl(context),
                                CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, zeros, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    free(zeros);
    code = clEnqueueWriteBuffer(run->queue, mem, CL_FALSE, 0, bytes, block, 1, &run->gate,
                                &run->written[run->written_count++]);
    ck_assert_int_eq(code, CL_SUCCESS);
    return mem;
}

static inline void run_send_tensor(struct run *run, struct tensor *t)
{
    t->mem = run_send(run, t->block, tensor_bytes(t));
}

static inline void run_send_integers(struct run *run, struct integers *n)
{
    if (n->block) {
        n->mem = run_send(run, n->block, integers_bytes(n));
    }
}

/* Opens the gate and waits for `done`, which the enqueue has filled in. */
static inline void run_finish(struct run *run)
{
    ck_assert_ptr_nonnull(run->done);
    ck_assert_int_eq(clSetUserEventStatus(run->gate, CL_COMPLETE), CL_SUCCESS);
    ck_assert_int_eq(clWaitForEvents(1, &run->done), CL_SUCCESS);
    clReleaseEvent(run->done);
    clReleaseEvent(run->gate);
    for (cl_uint i = 0; i < run->written_count; i++) {
        clReleaseEvent(run->written[i]);
    }
}

/* Reads a tensor's whole block back, an output's; an input must come back as it went. */
static inline void run_fetch(struct run *run, struct tensor *t, int is_output)
{
    unsigned char *block = malloc(tensor_bytes(t));
    ck_assert_ptr_nonnull(block);
    ck_assert_int_eq(
        clEnqueueReadBuffer(run->queue, t->mem, CL_TRUE, 0, tensor_bytes(t), block, 0, NULL, NULL),
        CL_SUCCESS);
    if (is_output) {
        memcpy(t->block, block, tensor_bytes(t));
    } else {
        ck_assert_msg(compare_bytes(block, t->block, (int64_t)tensor_bytes(t)) == -1,
                      "%s, an input, was changed", t->role);
    }
    free(block);
}

/* ---- refusals ---- */

/* The call is refused, and the sentence begins with the field and has the words of the rule. */
#define EXPECT_REFUSED(call, field, words)                                                         \
    do {                                                                                           \
        gpu_mha_status status_ = (call);                                                           \
        const char *text_ = gpu_mha_last_error();                                                  \
        ck_assert_msg(status_ == GPU_MHA_INVALID, "%s gives %s, want GPU_MHA_INVALID", #call,      \
                      gpu_mha_status_name(status_));                                               \
        ck_assert_msg(strncmp(text_, (field), strlen(field)) == 0 && strstr(text_, (words)),       \
                      "\"%s\" does not begin with \"%s\" and say \"%s\"", text_, (field),          \
                      (words));                                                                    \
    } while (0)

#endif
