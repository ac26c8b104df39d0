/*
 * test_guard_pages.c - every array ends at a page without access, then begins behind one.
 *
 * A device that works on the host's memory (CL_MEM_USE_HOST_PTR on a CPU) crashes at the first
 * element too far, and so does the blocking call, which reads and writes the arrays itself.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "harness/assertions.h"
#include "harness/canary.h"
#include "harness/probe.h"
#include "harness/storage.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
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
    ARRAYS
};

struct shape {
    gpu_mha_type type;
    gpu_mha_mask_type bias;
    int64_t B, H, HKV, NQ, NP, NK, DK, DV;
    int all; /* mask, bias, lengths, ALiBi, sinks */
    gpu_mha_layout layout;
};

static const struct shape shapes[] = {
    {GPU_MHA_F32, GPU_MHA_MASK_F32, 2, 2, 1, 3, 2, 5, 5, 3, 1, GPU_MHA_BHND},
    {GPU_MHA_F16, GPU_MHA_MASK_F16, 1, 4, 2, 13, 0, 33, 5, 3, 1, GPU_MHA_BNHD},
    {GPU_MHA_BF16, GPU_MHA_MASK_BF16, 3, 2, 2, 5, 31, 2, 5, 3, 1, GPU_MHA_BNHD},
    {GPU_MHA_F32, GPU_MHA_MASK_NONE, 1, 1, 1, 1, 0, 700, 5, 3, 0, GPU_MHA_BHND},
    {GPU_MHA_F16, GPU_MHA_MASK_NONE, 2, 3, 3, 7, 0, 64, 63, 63, 0, GPU_MHA_BHND},
    {GPU_MHA_BF16, GPU_MHA_MASK_NONE, 1, 2, 1, 12, 1, 31, 5, 3, 0, GPU_MHA_BHND},
};
#define SHAPE_COUNT ((int)(sizeof shapes / sizeof shapes[0]))

struct guarded {
    gpu_mha_desc desc;
    struct guard memory[ARRAYS];
    cl_mem mem[ARRAYS];
};

static gpu_mha_desc desc_of(const struct shape *s, gpu_mha_method method)
{
    const gpu_mha_tensor t = {.type = s->type, .layout = s->layout};
    gpu_mha_desc d = {.B = s->B,
                      .H = s->H,
                      .HKV = s->HKV,
                      .NQ = s->NQ,
                      .NK = s->NK,
                      .NP = s->NP,
                      .DK = s->DK,
                      .DV = s->DV,
                      .query = t,
                      .key = t,
                      .value = t,
                      .past_key = t,
                      .past_value = t,
                      .output = t,
                      .lse = 1,
                      .method = method,
                      .causal = 1,
                      .offset_kind = GPU_MHA_BOTTOM_RIGHT};
    if (s->all) {
        d.mask.type = GPU_MHA_MASK_BOOL;
        d.bias.type = s->bias;
        d.key_lengths = s->type == GPU_MHA_F16 ? GPU_MHA_I64 : GPU_MHA_I32;
        d.alibi = GPU_MHA_ALIBI_SLOPES;
        d.sinks = 1;
    }
    if (method == GPU_MHA_STAGED) {
        d.weights = s->all ? GPU_MHA_WEIGHTS_PER_HEAD : GPU_MHA_WEIGHTS_AVERAGED;
        d.scores = s->all ? GPU_MHA_SCORES_RAW : GPU_MHA_SCORES_MASKED;
    }
    return d;
}

/* What each array must hold, by the public header. */
static void sizes_of(const gpu_mha_desc *d, size_t workspace, size_t bytes[ARRAYS])
{
    const size_t e = d->query.type == GPU_MHA_F32 ? 4 : 2;
    const size_t B = (size_t)d->B, H = (size_t)d->H, HKV = (size_t)d->HKV, NQ = (size_t)d->NQ;
    const size_t NK = (size_t)d->NK, NP = (size_t)d->NP, DK = (size_t)d->DK, DV = (size_t)d->DV;
    const size_t NT = NP + NK;
    memset(bytes, 0, ARRAYS * sizeof *bytes);
    bytes[QUERY] = B * H * NQ * DK * e;
    bytes[KEY] = B * HKV * NK * DK * e;
    bytes[VALUE] = B * HKV * NK * DV * e;
    bytes[PAST_KEY] = B * HKV * NP * DK * e;
    bytes[PAST_VALUE] = B * HKV * NP * DV * e;
    bytes[MASK] = d->mask.type ? B * H * NQ * NT : 0;
    bytes[BIAS] = d->bias.type ? B * H * NQ * NT * (d->bias.type == GPU_MHA_MASK_F32 ? 4 : 2) : 0;
    bytes[KEY_LENGTHS] = d->key_lengths ? B * (d->key_lengths == GPU_MHA_I32 ? 4 : 8) : 0;
    bytes[SLOPES] = d->alibi ? H * 4 : 0;
    bytes[SINKS] = d->sinks ? H * 4 : 0;
    bytes[OUTPUT] = B * H * NQ * DV * e;
    bytes[LSE] = B * H * NQ * 4;
    bytes[WEIGHTS] =
        d->weights ? B * (d->weights == GPU_MHA_WEIGHTS_PER_HEAD ? H : 1) * NQ * NT * 4 : 0;
    bytes[SCORES] = d->scores ? B * H * NQ * NT * 4 : 0;
    bytes[WORKSPACE] = workspace;
}

static void fill(struct guarded *g, int which, enum storage_type type, double value)
{
    void *data = g->memory[which].data;
    const size_t count = g->memory[which].size_bytes / storage_size(type);
    for (size_t n = 0; n < count; n++) {
        storage_store(type, data, (int64_t)n, value);
    }
}

/* Q = 0, so the output is the mean of V = 1: 1 but for the sink, which is small. */
static void open_guards(struct guarded *g, enum guard_side side, size_t workspace)
{
    const gpu_mha_desc *d = &g->desc;
    const enum storage_type type = (enum storage_type)d->query.type;
    size_t bytes[ARRAYS];
    sizes_of(d, workspace, bytes);
    for (int a = 0; a < ARRAYS; a++) {
        ck_assert_int_eq(guard_alloc(&g->memory[a], bytes[a], side), 0);
    }
    fill(g, KEY, type, 3);
    fill(g, PAST_KEY, type, 2);
    fill(g, VALUE, type, 1);
    fill(g, PAST_VALUE, type, 1);
    memset(g->memory[MASK].data, 1, bytes[MASK]);
    fill(g, SINKS, STORAGE_F32, -100);
    for (int64_t b = 0; b < d->B && d->key_lengths; b++) {
        if (d->key_lengths == GPU_MHA_I32) {
            ((int32_t *)g->memory[KEY_LENGTHS].data)[b] = (int32_t)(d->NP + d->NK);
        } else {
            ((int64_t *)g->memory[KEY_LENGTHS].data)[b] = d->NP + d->NK;
        }
    }
}

static void check_output(struct guarded *g, const char *text)
{
    const enum storage_type type = (enum storage_type)g->desc.output.type;
    const int64_t count = g->desc.B * g->desc.H * g->desc.NQ * g->desc.DV;
    for (int64_t n = 0; n < count; n++) {
        const double got = storage_load(type, g->memory[OUTPUT].data, n);
        if (!(fabs(got - 1) < 1e-2)) {
            ck_abort_msg("%s: output[%" PRId64 "] is %g, want 1", text, n, got);
        }
    }
    memset(g->memory[OUTPUT].data, 0xFF, g->memory[OUTPUT].size_bytes);
}

static void close_guards(struct guarded *g)
{
    for (int a = 0; a < ARRAYS; a++) {
        if (g->mem[a]) {
            clReleaseMemObject(g->mem[a]);
        }
        guard_free(&g->memory[a]);
    }
}

static void *array(const struct guarded *g, int which)
{
    return g->memory[which].size_bytes > 0 ? g->memory[which].data : NULL;
}

static void call_on_host(struct guarded *g)
{
    const gpu_mha_arrays arrays = {.query = array(g, QUERY),
                                   .key = array(g, KEY),
                                   .value = array(g, VALUE),
                                   .past_key = array(g, PAST_KEY),
                                   .past_value = array(g, PAST_VALUE),
                                   .mask = array(g, MASK),
                                   .bias = array(g, BIAS),
                                   .key_lengths = array(g, KEY_LENGTHS),
                                   .alibi_slopes = array(g, SLOPES),
                                   .sinks = array(g, SINKS),
                                   .output = array(g, OUTPUT),
                                   .lse = array(g, LSE),
                                   .weights = array(g, WEIGHTS),
                                   .scores = array(g, SCORES)};
    ck_assert_msg(gpu_mha(probe_context(), &g->desc, &arrays) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    check_output(g, "host arrays");
}

static gpu_mha_buffer buffer(struct guarded *g, int which)
{
    cl_int code = CL_SUCCESS;
    if (g->memory[which].size_bytes == 0) {
        return (gpu_mha_buffer){NULL, 0};
    }
    g->mem[which] =
        clCreateBuffer(gpu_mha_context_cl(probe_context()), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                       g->memory[which].size_bytes, g->memory[which].data, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    return (gpu_mha_buffer){g->mem[which], 0};
}

static void call_on_buffers(struct guarded *g, gpu_mha_plan *plan)
{
    cl_command_queue queue = probe_queue(probe_context(), 0);
    const gpu_mha_buffers buffers = {.query = buffer(g, QUERY),
                                     .key = buffer(g, KEY),
                                     .value = buffer(g, VALUE),
                                     .past_key = buffer(g, PAST_KEY),
                                     .past_value = buffer(g, PAST_VALUE),
                                     .mask = buffer(g, MASK),
                                     .bias = buffer(g, BIAS),
                                     .key_lengths = buffer(g, KEY_LENGTHS),
                                     .alibi_slopes = buffer(g, SLOPES),
                                     .sinks = buffer(g, SINKS),
                                     .output = buffer(g, OUTPUT),
                                     .lse = buffer(g, LSE),
                                     .weights = buffer(g, WEIGHTS),
                                     .scores = buffer(g, SCORES),
                                     .workspace = buffer(g, WORKSPACE)};
    ck_assert_msg(gpu_mha_enqueue(plan, queue, &buffers, 0, NULL, NULL) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    cl_int code = CL_SUCCESS;
    void *mapped = clEnqueueMapBuffer(queue, g->mem[OUTPUT], CL_TRUE, CL_MAP_READ, 0,
                                      g->memory[OUTPUT].size_bytes, 0, NULL, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    check_output(g, "buffers");
    clEnqueueUnmapMemObject(queue, g->mem[OUTPUT], mapped, 0, NULL, NULL);
    clFinish(queue);
}

START_TEST(nothing_beyond_an_array_is_touched)
{
    const struct shape *s = &shapes[_i / 4];
    struct guarded g = {.desc = desc_of(s, _i % 2 ? GPU_MHA_STAGED : GPU_MHA_FUSED)};
    gpu_mha_plan *plan = NULL;
    ck_assert_msg(gpu_mha_plan_create(probe_context(), &g.desc, &plan) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    open_guards(&g, _i / 2 % 2 ? GUARD_BEHIND : GUARD_BEFORE, gpu_mha_plan_workspace_bytes(plan));
    call_on_host(&g);
    call_on_buffers(&g, plan);
    gpu_mha_plan_release(plan);
    close_guards(&g);
}
END_TEST

/* The blocking call reads and writes rows alone: between two batch entries lies a forbidden page.
 */
START_TEST(the_blocking_call_stays_out_of_gaps)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *map = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    ck_assert_int_eq(mprotect(map + page, page, PROT_NONE), 0);
    float *low = (float *)(void *)(map + page) - 6, *high = (float *)(void *)(map + 2 * page);
    const int64_t stride = high - low;
    const float q[10] = {0}, k[20] = {0};
    float output[6];
    for (int n = 0; n < 6; n++) {
        low[n] = 2;
        high[n] = 5;
    }
    gpu_mha_desc d = {.B = 2,
                      .H = 1,
                      .HKV = 1,
                      .NQ = 1,
                      .NK = 2,
                      .DK = 5,
                      .DV = 3,
                      .value = {0, GPU_MHA_STRIDED, stride, 0, 3}};
    gpu_mha_arrays arrays = {.query = q, .key = k, .value = low, .output = output};
    ck_assert_msg(gpu_mha(probe_context(), &d, &arrays) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    for (int n = 0; n < 6; n++) {
        ASSERT_DOUBLE_SAME(output[n], n < 3 ? 2 : 5);
    }

    d.output = d.value;
    d.value = (gpu_mha_tensor){0};
    float values[12];
    for (int n = 0; n < 12; n++) {
        values[n] = n < 6 ? 7 : 9;
    }
    arrays.value = values;
    arrays.output = low;
    ck_assert_msg(gpu_mha(probe_context(), &d, &arrays) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    for (int n = 0; n < 6; n++) {
        ASSERT_DOUBLE_SAME(low[n], n < 3 ? 7 : 2);
        ASSERT_DOUBLE_SAME(high[n], n < 3 ? 9 : 5);
    }
    ck_assert_int_eq(munmap(map, 3 * page), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("guard pages");
    TCase *pages = tcase_create("guard pages");
    tcase_add_loop_test(pages, nothing_beyond_an_array_is_touched, 0, 4 * SHAPE_COUNT);
    tcase_add_test(pages, the_blocking_call_stays_out_of_gaps);
    suite_add_tcase(suite, pages);
    return probe_main(suite);
}
