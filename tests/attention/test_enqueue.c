/*
 * test_enqueue.c - gpu_mha_enqueue on the caller's queues: wait lists, events, several runs in
 * flight, and everything about buffers, queues and plans that must be refused.
 */
#include "harness/assertions.h"
#include "harness/probe.h"
#include "harness/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, H = 2, NQ = 3, NK = 4, DK = 5, DV = 3, OUTPUTS = B * H * NQ * DV };

static const gpu_mha_desc valid = {
    .B = B, .H = H, .HKV = H, .NQ = NQ, .NK = NK, .DK = DK, .DV = DV};

/* Every field that a run can have. */
enum field {
    QUERY,
    KEY,
    VALUE,
    PAST_KEY,
    PAST_VALUE,
    MASK,
    BIAS,
    KEY_LENGTHS,
    SLOPES,
    SINKS,
    OUTPUT,
    LSE,
    WEIGHTS,
    SCORES,
    WORKSPACE,
    FIELDS
};

static const char *const names[FIELDS] = {"query",        "key",    "value",    "past_key",
                                          "past_value",   "mask",   "bias",     "key_lengths",
                                          "alibi_slopes", "sinks",  "output",   "lse",
                                          "weights",      "scores", "workspace"};

static gpu_mha_buffer *field_of(gpu_mha_buffers *b, int field)
{
    gpu_mha_buffer *const fields[FIELDS] = {
        &b->query,  &b->key,  &b->value,       &b->past_key,     &b->past_value,
        &b->mask,   &b->bias, &b->key_lengths, &b->alibi_slopes, &b->sinks,
        &b->output, &b->lse,  &b->weights,     &b->scores,       &b->workspace};
    return fields[field];
}

static gpu_mha_desc full_desc(void)
{
    gpu_mha_desc desc = valid;
    desc.NP = 2;
    desc.mask.type = GPU_MHA_MASK_BOOL;
    desc.bias.type = GPU_MHA_MASK_F16;
    desc.key_lengths = GPU_MHA_I64;
    desc.alibi = GPU_MHA_ALIBI_SLOPES;
    desc.sinks = desc.lse = 1;
    desc.weights = GPU_MHA_WEIGHTS_AVERAGED;
    desc.scores = GPU_MHA_SCORES_MASKED;
    desc.output.type = GPU_MHA_BF16;
    desc.key.type = GPU_MHA_F16;
    return desc;
}

/* Elements and bytes of one, for full_desc: by the public header. */
static const struct {
    size_t elements, bytes;
} sizes[FIELDS] = {{B * H * NQ * DK, 4},
                   {B * H * NK * DK, 2},
                   {B * H * NK * DV, 4},
                   {B * H * 2 * DK, 4},
                   {B * H * 2 * DV, 4},
                   {B * H * NQ * 6, 1},
                   {B * H * NQ * 6, 2},
                   {B, 8},
                   {H, 4},
                   {H, 4},
                   {OUTPUTS, 2},
                   {B * H * NQ, 4},
                   {B * NQ * 6, 4},
                   {B * H * NQ * 6, 4},
                   {0, 1}};

static cl_mem new_buffer(size_t bytes, const void *from)
{
    cl_int code = CL_SUCCESS;
    cl_mem mem = clCreateBuffer(gpu_mha_context_cl(probe_context()),
                                CL_MEM_READ_WRITE | (from ? CL_MEM_COPY_HOST_PTR : 0), bytes,
                                (void *)(uintptr_t)from, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    return mem;
}

/* Some plans need none. */
static cl_mem new_workspace(const gpu_mha_plan *plan)
{
    const size_t bytes = gpu_mha_plan_workspace_bytes(plan);
    return bytes > 0 ? new_buffer(bytes, NULL) : NULL;
}

static gpu_mha_plan *new_plan(const gpu_mha_desc *desc)
{
    gpu_mha_plan *plan = NULL;
    ck_assert_msg(gpu_mha_plan_create(probe_context(), desc, &plan) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    return plan;
}

/* ---- runs that work ---- */

/* A run whose output is `value` everywhere: Q = 0 and V constant. */
struct run {
    gpu_mha_buffers buffers;
};

static void open_run(struct run *r, const gpu_mha_plan *plan, float value)
{
    const float zeros[B * H * NK * DK] = {0};
    float values[B * H * NK * DV], junk[OUTPUTS];
    for (int n = 0; n < B * H * NK * DV; n++) {
        values[n] = value;
    }
    memset(junk, 0xFF, sizeof junk);
    *r = (struct run){{.query = {new_buffer(B * H * NQ * DK * 4, zeros), 0},
                       .key = {new_buffer(sizeof zeros, zeros), 0},
                       .value = {new_buffer(sizeof values, values), 0},
                       .output = {new_buffer(sizeof junk, junk), 0},
                       .workspace = {new_workspace(plan), 0}}};
}

static void close_run(struct run *r)
{
    for (int field = 0; field < FIELDS; field++) {
        cl_mem mem = field_of(&r->buffers, field)->mem;
        if (mem) {
            clReleaseMemObject(mem);
        }
    }
}

static void read_output(const struct run *r, cl_command_queue queue, cl_event after, float *output)
{
    ck_assert_int_eq(clEnqueueReadBuffer(queue, r->buffers.output.mem, CL_TRUE, 0,
                                         OUTPUTS * sizeof *output, output, after ? 1 : 0,
                                         after ? &after : NULL, NULL),
                     CL_SUCCESS);
}

static void expect_output(const struct run *r, cl_command_queue queue, cl_event after, float value)
{
    float output[OUTPUTS];
    read_output(r, queue, after, output);
    for (int n = 0; n < OUTPUTS; n++) {
        if (output[n] != value) {
            ck_abort_msg("output[%d] is %g, want %g", n, (double)output[n], (double)value);
        }
    }
}

/* Bit 0: out-of-order queue. Bit 1: staged. */
static gpu_mha_desc desc_of(int bits)
{
    gpu_mha_desc desc = valid;
    desc.method = bits & 2 ? GPU_MHA_STAGED : GPU_MHA_FUSED;
    return desc;
}

START_TEST(work_waits_for_its_events)
{
    const gpu_mha_desc desc = desc_of(_i);
    cl_command_queue queue = probe_queue(probe_context(), _i & 1);
    gpu_mha_plan *plan = new_plan(&desc);
    struct run r;
    open_run(&r, plan, 3);
    cl_int code = CL_SUCCESS;
    cl_event waits[2] = {clCreateUserEvent(gpu_mha_context_cl(probe_context()), &code),
                         clCreateUserEvent(gpu_mha_context_cl(probe_context()), &code)};
    cl_event done = NULL;
    ck_assert_msg(gpu_mha_enqueue(plan, queue, &r.buffers, 2, waits, &done) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    ck_assert_ptr_nonnull(done);
    ck_assert_int_eq(clFlush(queue), CL_SUCCESS);
    /* The plan may go, and the caller's references to the wait events too. */
    gpu_mha_plan_release(plan);
    ck_assert_int_eq(clSetUserEventStatus(waits[0], CL_COMPLETE), CL_SUCCESS);
    ck_assert_int_gt(event_state(done), CL_COMPLETE);
    ck_assert_int_eq(clSetUserEventStatus(waits[1], CL_COMPLETE), CL_SUCCESS);
    clReleaseEvent(waits[0]);
    clReleaseEvent(waits[1]);
    ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
    ck_assert_int_eq(event_state(done), CL_COMPLETE);
    expect_output(&r, queue, NULL, 3);
    clReleaseEvent(done);
    close_run(&r);
}
END_TEST

/* The values are written by a command that the run waits for; nothing but events orders them. */
START_TEST(inputs_may_come_from_commands_in_flight)
{
    const gpu_mha_desc desc = desc_of(_i);
    cl_command_queue queue = probe_queue(probe_context(), _i & 1);
    gpu_mha_plan *plan = new_plan(&desc);
    struct run r;
    open_run(&r, plan, -1);
    float values[B * H * NK * DV];
    for (int n = 0; n < B * H * NK * DV; n++) {
        values[n] = 11;
    }
    cl_int code = CL_SUCCESS;
    cl_event gate = clCreateUserEvent(gpu_mha_context_cl(probe_context()), &code), written, done;
    ck_assert_int_eq(clEnqueueWriteBuffer(queue, r.buffers.value.mem, CL_FALSE, 0, sizeof values,
                                          values, 1, &gate, &written),
                     CL_SUCCESS);
    ck_assert_int_eq(gpu_mha_enqueue(plan, queue, &r.buffers, 1, &written, &done), GPU_MHA_OK);
    ck_assert_int_eq(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    expect_output(&r, queue, done, 11);
    clReleaseEvent(gate);
    clReleaseEvent(written);
    clReleaseEvent(done);
    gpu_mha_plan_release(plan);
    close_run(&r);
}
END_TEST

START_TEST(no_event_is_needed)
{
    const gpu_mha_desc desc = desc_of(_i);
    cl_command_queue queue = probe_queue(probe_context(), _i & 1);
    gpu_mha_plan *plan = new_plan(&desc);
    struct run r;
    open_run(&r, plan, 4);
    ck_assert_int_eq(gpu_mha_enqueue(plan, queue, &r.buffers, 0, NULL, NULL), GPU_MHA_OK);
    ck_assert_int_eq(clFinish(queue), CL_SUCCESS);
    expect_output(&r, queue, NULL, 4);
    gpu_mha_plan_release(plan);
    close_run(&r);
}
END_TEST

/* Runs of one plan, each with a workspace of its own, held back by one gate. */
START_TEST(several_runs_of_a_plan_are_in_flight)
{
    enum { RUNS = 8 };
    const gpu_mha_desc desc = desc_of(_i);
    cl_command_queue queue = probe_queue(probe_context(), _i & 1);
    gpu_mha_plan *plan = new_plan(&desc);
    struct run runs[RUNS];
    cl_event done[RUNS];
    cl_int code = CL_SUCCESS;
    cl_event gate = clCreateUserEvent(gpu_mha_context_cl(probe_context()), &code);
    for (int n = 0; n < RUNS; n++) {
        open_run(&runs[n], plan, (float)n + 1);
        ck_assert_int_eq(gpu_mha_enqueue(plan, queue, &runs[n].buffers, 1, &gate, &done[n]),
                         GPU_MHA_OK);
    }
    gpu_mha_plan_release(plan);
    ck_assert_int_eq(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    clReleaseEvent(gate);
    for (int n = 0; n < RUNS; n++) {
        expect_output(&runs[n], queue, done[n], (float)n + 1);
        clReleaseEvent(done[n]);
        close_run(&runs[n]);
    }
}
END_TEST

/* Without work the event still is one, and completes after the events it waits for. */
START_TEST(a_run_without_work_gives_an_event)
{
    gpu_mha_desc desc = valid;
    if (_i & 2) {
        desc.B = 0;
    } else {
        desc.NQ = 0;
    }
    cl_command_queue queue = probe_queue(probe_context(), _i & 1);
    gpu_mha_plan *plan = new_plan(&desc);
    ck_assert_uint_eq(gpu_mha_plan_workspace_bytes(plan), 0);
    cl_int code = CL_SUCCESS;
    cl_event gate = clCreateUserEvent(gpu_mha_context_cl(probe_context()), &code), done = NULL;
    const gpu_mha_buffers none = {0};
    ck_assert_msg(gpu_mha_enqueue(plan, queue, &none, 1, &gate, &done) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    ck_assert_ptr_nonnull(done);
    ck_assert_int_gt(event_state(done), CL_COMPLETE);
    ck_assert_int_eq(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
    clReleaseEvent(gate);
    clReleaseEvent(done);
    ck_assert_int_eq(gpu_mha_enqueue(plan, queue, &none, 0, NULL, NULL), GPU_MHA_OK);
    gpu_mha_plan_release(plan);
}
END_TEST

/* ---- runs that are refused ---- */

struct full {
    gpu_mha_plan *plan;
    cl_command_queue queue;
    gpu_mha_buffers buffers;
    size_t bytes[FIELDS];
};

#define OFFSET 3

/* Every buffer just large enough behind an offset; outputs hold 0xFF. */
static void open_full(struct full *f)
{
    const gpu_mha_desc desc = full_desc();
    *f = (struct full){.plan = new_plan(&desc), .queue = probe_queue(probe_context(), 0)};
    for (int field = 0; field < FIELDS; field++) {
        const int is_workspace = field == WORKSPACE;
        gpu_mha_buffer *buffer = field_of(&f->buffers, field);
        buffer->offset = is_workspace ? 256 : OFFSET;
        f->bytes[field] = is_workspace ? 256 + gpu_mha_plan_workspace_bytes(f->plan)
                                       : (sizes[field].elements + OFFSET) * sizes[field].bytes;
        void *bytes = malloc(f->bytes[field]);
        ck_assert_ptr_nonnull(bytes);
        memset(bytes, field >= OUTPUT ? 0xFF : 0, f->bytes[field]);
        buffer->mem = new_buffer(f->bytes[field], bytes);
        free(bytes);
    }
}

static void close_full(struct full *f)
{
    for (int field = 0; field < FIELDS; field++) {
        clReleaseMemObject(field_of(&f->buffers, field)->mem);
    }
    gpu_mha_plan_release(f->plan);
}

/* Refused with `words`, *event NULL, outputs as they were; and the unchanged run then works. */
static void expect_refused(struct full *f, const gpu_mha_buffers *changed, const char *words)
{
    unsigned char bytes[4096];
    cl_event event = (cl_event)(void *)f;
    const gpu_mha_status status = gpu_mha_enqueue(f->plan, f->queue, changed, 0, NULL, &event);
    ck_assert_msg(status == GPU_MHA_INVALID, "%s: %s", words, gpu_mha_status_name(status));
    ck_assert_ptr_null(event);
    ck_assert_msg(strncmp(gpu_mha_last_error(), words, strlen(words)) == 0,
                  "the message is \"%s\", want \"%s...\"", gpu_mha_last_error(), words);
    ck_assert_int_eq(clFinish(f->queue), CL_SUCCESS);
    for (int field = OUTPUT; field < WORKSPACE; field++) {
        ck_assert_int_eq(clEnqueueReadBuffer(f->queue, field_of(&f->buffers, field)->mem, CL_TRUE,
                                             0, f->bytes[field], bytes, 0, NULL, NULL),
                         CL_SUCCESS);
        for (size_t n = 0; n < f->bytes[field]; n++) {
            if (bytes[n] != 0xFF) {
                ck_abort_msg("%s: a refused run wrote to %s", words, names[field]);
            }
        }
    }
}

static void expect_works(struct full *f)
{
    cl_event event = NULL;
    ck_assert_msg(gpu_mha_enqueue(f->plan, f->queue, &f->buffers, 0, NULL, &event) == GPU_MHA_OK,
                  "%s", gpu_mha_last_error());
    ck_assert_int_eq(clWaitForEvents(1, &event), CL_SUCCESS);
    clReleaseEvent(event);
}

START_TEST(a_buffer_one_element_too_small_is_refused)
{
    struct full f;
    char words[80];
    open_full(&f);
    gpu_mha_buffers changed = f.buffers;
    snprintf(words, sizeof words, "%s holds %zu bytes: ", names[_i], f.bytes[_i]);
    field_of(&changed, _i)->offset += _i == WORKSPACE ? 128 : 1;
    expect_refused(&f, &changed, words);
    field_of(&changed, _i)->offset = _i == WORKSPACE ? UINT64_MAX - 127 : UINT64_MAX;
    expect_refused(&f, &changed, words);

    changed = f.buffers;
    const size_t less = f.bytes[_i] - (_i == WORKSPACE ? 1 : sizes[_i].bytes);
    field_of(&changed, _i)->mem = new_buffer(less, NULL);
    snprintf(words, sizeof words, "%s holds %zu bytes: ", names[_i], less);
    expect_refused(&f, &changed, words);
    clReleaseMemObject(field_of(&changed, _i)->mem);
    expect_works(&f);
    close_full(&f);
}
END_TEST

START_TEST(a_missing_buffer_is_refused)
{
    struct full f;
    char words[80];
    open_full(&f);
    gpu_mha_buffers changed = f.buffers;
    field_of(&changed, _i)->mem = NULL;
    snprintf(words, sizeof words, "%s is NULL: ", names[_i]);
    expect_refused(&f, &changed, words);
    expect_works(&f);
    close_full(&f);
}
END_TEST

START_TEST(a_buffer_not_asked_for_is_refused)
{
    if (_i < PAST_KEY || _i == OUTPUT || _i == WORKSPACE) {
        return;
    }
    struct full f;
    char words[80];
    open_full(&f);
    gpu_mha_plan *plan = new_plan(&valid);
    struct run r;
    open_run(&r, plan, 1);
    gpu_mha_buffers changed = r.buffers;
    *field_of(&changed, _i) = *field_of(&f.buffers, _i);
    snprintf(words, sizeof words, "%s is given: ", names[_i]);
    ck_assert_int_eq(gpu_mha_enqueue(plan, f.queue, &changed, 0, NULL, NULL), GPU_MHA_INVALID);
    ck_assert_msg(strncmp(gpu_mha_last_error(), words, strlen(words)) == 0, "%s",
                  gpu_mha_last_error());
    close_run(&r);
    gpu_mha_plan_release(plan);
    close_full(&f);
}
END_TEST

START_TEST(overlapping_outputs_are_refused)
{
    static const struct {
        int field, other;
        uint64_t offset;
    } overlaps[] = {{LSE, SCORES, 0},         {LSE, OUTPUT, 0},          {LSE, WEIGHTS, 1},
                    {LSE, SINKS, 0},          {LSE, QUERY, 5},           {WEIGHTS, SCORES, 20},
                    {WEIGHTS, VALUE, 0},      {SCORES, WORKSPACE, 64},   {LSE, WORKSPACE, 64},
                    {OUTPUT, WORKSPACE, 128}, {WEIGHTS, WORKSPACE, 100}, {OUTPUT, QUERY, 5},
                    {OUTPUT, KEY, 0},         {OUTPUT, VALUE, 7},        {OUTPUT, SINKS, 0}};
    struct full f;
    char words[80];
    open_full(&f);
    const int field = overlaps[_i].field, other = overlaps[_i].other;
    cl_mem large = new_buffer(1 << 20, NULL);
    gpu_mha_buffers changed = f.buffers;
    *field_of(&changed, field) = (gpu_mha_buffer){large, overlaps[_i].offset};
    field_of(&changed, other)->mem = large;
    gpu_mha_status status = gpu_mha_enqueue(f.plan, f.queue, &changed, 0, NULL, NULL);
    ck_assert_int_eq(status, GPU_MHA_INVALID);
    snprintf(words, sizeof words, "%s overlaps %s: ", names[field], names[other]);
    const int first = strncmp(gpu_mha_last_error(), words, strlen(words)) == 0;
    snprintf(words, sizeof words, "%s overlaps %s: ", names[other], names[field]);
    ck_assert_msg(first || strncmp(gpu_mha_last_error(), words, strlen(words)) == 0, "%s",
                  gpu_mha_last_error());
    expect_works(&f);
    clReleaseMemObject(large);
    close_full(&f);
}
END_TEST

/* One buffer for everything, side by side: no overlap. */
START_TEST(neighbours_in_one_buffer_are_no_overlap)
{
    struct full f;
    open_full(&f);
    gpu_mha_buffers changed = f.buffers;
    const size_t bytes = 16384 + gpu_mha_plan_workspace_bytes(f.plan);
    void *zeros = calloc(bytes, 1);
    ck_assert_ptr_nonnull(zeros);
    cl_mem large = new_buffer(bytes, zeros);
    free(zeros);
    size_t at = 0;
    for (int field = 0; field < FIELDS; field++) {
        const size_t unit = field == WORKSPACE ? 128 : sizes[field].bytes;
        at = (at + unit - 1) / unit * unit;
        *field_of(&changed, field) = (gpu_mha_buffer){large, at / (field == WORKSPACE ? 1 : unit)};
        at += sizes[field].elements * sizes[field].bytes;
    }
    cl_event done = NULL;
    ck_assert_msg(gpu_mha_enqueue(f.plan, f.queue, &changed, 0, NULL, &done) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
    clReleaseEvent(done);
    clReleaseMemObject(large);
    close_full(&f);
}
END_TEST

/* A sub-buffer lies where it lies in the buffer it is of. */
START_TEST(a_sub_buffer_overlaps_its_buffer)
{
    struct full f;
    open_full(&f);
    cl_int code = CL_SUCCESS;
    cl_mem large = new_buffer(1 << 20, NULL);
    const cl_buffer_region region = {4096, 1 << 16};
    cl_mem part =
        clCreateSubBuffer(large, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    gpu_mha_buffers changed = f.buffers;
    changed.lse = (gpu_mha_buffer){part, 0};
    changed.query = (gpu_mha_buffer){large, region.origin / sizes[QUERY].bytes};
    expect_refused(&f, &changed, "lse overlaps query: ");
    changed.query = f.buffers.query;
    changed.output = (gpu_mha_buffer){part, 0};
    changed.lse = f.buffers.lse;
    changed.value = (gpu_mha_buffer){large, region.origin / sizes[VALUE].bytes};
    expect_refused(&f, &changed, "output overlaps value: ");
    changed.value = (gpu_mha_buffer){large, (region.origin + region.size) / sizes[VALUE].bytes};
    ck_assert_msg(gpu_mha_enqueue(f.plan, f.queue, &changed, 0, NULL, NULL) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    ck_assert_int_eq(clFinish(f.queue), CL_SUCCESS);
    clReleaseMemObject(part);
    clReleaseMemObject(large);
    close_full(&f);
}
END_TEST

START_TEST(a_workspace_offset_that_is_not_aligned_is_refused)
{
    struct full f;
    open_full(&f);
    gpu_mha_buffers changed = f.buffers;
    changed.workspace.offset = 64;
    expect_refused(&f, &changed, "workspace.offset is 64: it must be a multiple of 128");
    changed.workspace.offset = 127;
    expect_refused(&f, &changed, "workspace.offset is 127: ");
    changed.workspace.offset = 128;
    ck_assert_int_eq(gpu_mha_enqueue(f.plan, f.queue, &changed, 0, NULL, NULL), GPU_MHA_OK);
    changed = f.buffers;
    changed.struct_size = sizeof changed - 1;
    expect_works(&f);
    ck_assert_int_eq(gpu_mha_enqueue(f.plan, f.queue, &changed, 0, NULL, NULL), GPU_MHA_INVALID);
    close_full(&f);
}
END_TEST

static void expect_call_refused(gpu_mha_plan *plan, cl_command_queue queue,
                                const gpu_mha_buffers *buffers, cl_uint count, const cl_event *wait,
                                const char *words)
{
    cl_event event = (cl_event)(void *)names;
    const gpu_mha_status status = gpu_mha_enqueue(plan, queue, buffers, count, wait, &event);
    ck_assert_int_ne(status, GPU_MHA_OK);
    ck_assert_ptr_null(event);
    ck_assert_msg(strncmp(gpu_mha_last_error(), words, strlen(words)) == 0,
                  "the message is \"%s\", want \"%s...\"", gpu_mha_last_error(), words);
}

START_TEST(wrong_plans_queues_and_events_are_refused)
{
    struct full f;
    open_full(&f);
    expect_call_refused(NULL, f.queue, &f.buffers, 0, NULL, "plan is NULL");
    expect_call_refused(f.plan, NULL, &f.buffers, 0, NULL, "queue is NULL");
    expect_call_refused(f.plan, f.queue, NULL, 0, NULL, "buffers is NULL");
    expect_call_refused(f.plan, f.queue, &f.buffers, 1, NULL, "wait is NULL and wait_count is 1");
    const cl_event no_event = NULL;
    expect_call_refused(f.plan, f.queue, &f.buffers, 1, &no_event, "wait[0] is NULL");

    gpu_mha_context *other = NULL;
    ck_assert_int_eq(gpu_mha_context_create(NULL, &other), GPU_MHA_OK);
    cl_int code = CL_SUCCESS;
    cl_command_queue strange =
        clCreateCommandQueue(gpu_mha_context_cl(other), gpu_mha_context_device(other), 0, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    expect_call_refused(f.plan, strange, &f.buffers, 0, NULL, "queue is of another OpenCL context");
    cl_mem foreign =
        clCreateBuffer(gpu_mha_context_cl(other), CL_MEM_READ_WRITE, 4096, NULL, &code);
    for (int field = 0; field < FIELDS; field++) {
        char words[80];
        gpu_mha_buffers changed = f.buffers;
        field_of(&changed, field)->mem = foreign;
        snprintf(words, sizeof words, "%s is of another OpenCL context", names[field]);
        expect_refused(&f, &changed, words);
    }
    cl_event event = clCreateUserEvent(gpu_mha_context_cl(other), &code);
    expect_call_refused(f.plan, f.queue, &f.buffers, 1, &event,
                        "wait[0] is of another OpenCL context");
    clReleaseEvent(event);

    gpu_mha_plan *merge = NULL;
    ck_assert_int_eq(
        gpu_mha_merge_plan_create(probe_context(),
                                  &(gpu_mha_merge_desc){.B = 1, .H = 1, .NQ = 1, .DV = 3}, &merge),
        GPU_MHA_OK);
    expect_call_refused(merge, f.queue, &f.buffers, 0, NULL, "plan is a merge plan");
    gpu_mha_plan_release(merge);
    clReleaseMemObject(foreign);
    clReleaseCommandQueue(strange);
    gpu_mha_context_release(other);
    expect_works(&f);
    close_full(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("enqueue");
    TCase *runs = tcase_create("runs"), *refused = tcase_create("refused");
    tcase_add_loop_test(runs, work_waits_for_its_events, 0, 4);
    tcase_add_loop_test(runs, inputs_may_come_from_commands_in_flight, 0, 4);
    tcase_add_loop_test(runs, no_event_is_needed, 0, 4);
    tcase_add_loop_test(runs, several_runs_of_a_plan_are_in_flight, 0, 4);
    tcase_add_loop_test(runs, a_run_without_work_gives_an_event, 0, 4);
    tcase_add_loop_test(refused, a_buffer_one_element_too_small_is_refused, 0, FIELDS);
    tcase_add_loop_test(refused, a_missing_buffer_is_refused, 0, FIELDS);
    tcase_add_loop_test(refused, a_buffer_not_asked_for_is_refused, 0, FIELDS);
    tcase_add_loop_test(refused, overlapping_outputs_are_refused, 0, 15);
    tcase_add_test(refused, neighbours_in_one_buffer_are_no_overlap);
    tcase_add_test(refused, a_sub_buffer_overlaps_its_buffer);
    tcase_add_test(refused, a_workspace_offset_that_is_not_aligned_is_refused);
    tcase_add_test(refused, wrong_plans_queues_and_events_are_refused);
    suite_add_tcase(suite, runs);
    suite_add_tcase(suite, refused);
    return probe_main(suite);
}
