/*
 * probe_run.c - probes run in every way there is, and compared.
 */
#include "probe.h"

#include "assertions.h"
#include "layouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define U32 0x1p-24

/* Elements in front of and behind every array. Odd, so that nothing is aligned by accident. */
#define MARGIN_FRONT 37
#define MARGIN_BEHIND 41

#define ASSERT_OK(call) ck_assert_msg((call) == GPU_MHA_OK, "%s: %s", #call, gpu_mha_last_error())

static int64_t keys(const struct probe *p)
{
    return p->desc.NP + p->desc.NK;
}

static int64_t rows(const struct probe *p)
{
    return p->desc.B * p->desc.H * p->desc.NQ;
}

static void *alloc(int64_t count, size_t size)
{
    void *memory = calloc((size_t)(count > 0 ? count : 1), size);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

/* ---- one array of a run ---- */

/* Storage with margins. Inputs hold poison around their elements, outputs 0xFF everywhere. */
struct array {
    const char *name;
    struct layout layout;
    enum storage_type type;
    int64_t elements;
    void *storage;
    cl_mem mem;
};

static struct layout layout_of(const gpu_mha_tensor *t, int64_t B, int64_t H, int64_t N, int64_t D)
{
    enum layout_kind kind = t->layout == GPU_MHA_BNHD ? LAYOUT_BNHD : LAYOUT_BHND;
    struct layout l = layout_make(kind, B, H, N, D, MARGIN_FRONT);
    if (t->layout == GPU_MHA_STRIDED) {
        l.stride_b = t->stride_b;
        l.stride_h = t->stride_h;
        l.stride_n = t->stride_n;
        l.span = layout_count(&l) ? layout_index(&l, B - 1, H - 1, N - 1, D - 1) + 1 : 0;
    }
    return l;
}

static void make_array(struct array *a, const char *name, struct layout l, enum storage_type type,
                       enum poison poison, const double *dense)
{
    a->name = name;
    a->layout = l;
    a->type = type;
    a->elements = (l.span ? l.span : l.offset) + MARGIN_BEHIND;
    a->storage = layout_new(&l, type, a->elements, poison, dense);
    ck_assert_ptr_nonnull(a->storage);
}

static void make_flat(struct array *a, const char *name, int64_t count, enum poison poison,
                      const double *dense)
{
    make_array(a, name, layout_make(LAYOUT_BHND, 1, 1, 1, count, MARGIN_FRONT), STORAGE_F32, poison,
               dense);
}

static void *data_of(const struct array *a)
{
    return a->storage ? (char *)a->storage + a->layout.offset * (int64_t)storage_size(a->type)
                      : NULL;
}

static size_t bytes_of(const struct array *a)
{
    return (size_t)a->elements * storage_size(a->type);
}

/* ---- one run ---- */

enum way { WAY_HOST, WAY_IN_ORDER, WAY_OUT_OF_ORDER, WAY_COUNT };

enum {
    QUERY,
    KEY,
    VALUE,
    PAST_KEY,
    PAST_VALUE,
    BIAS,
    SLOPES,
    SINKS,
    OUTPUT,
    LSE,
    WEIGHTS,
    SCORES,
    ARRAYS
};

struct run {
    struct probe *probe;
    gpu_mha_desc desc;
    gpu_mha_plan *plan;
    enum storage_type type;
    enum poison poison; /* around the arrays and in gaps */
    double junk;        /* in hidden cells */
    enum way way;
    char text[160];
    struct array arrays[ARRAYS];
    unsigned char *mask; /* mask_cells and margins */
    cl_mem mask_mem, lengths_mem, workspace;
    void *lengths; /* as desc.key_lengths has it */
    size_t workspace_bytes;
};

static const gpu_mha_type types[] = {GPU_MHA_F32, GPU_MHA_F16, GPU_MHA_BF16};

/* Rows of keys that no query sees are poison: a copy of `dense` that has them. */
static double *with_hidden_rows(const struct run *r, const double *dense, int64_t N, int64_t first,
                                int64_t D, int is_key)
{
    const struct probe *p = r->probe;
    const gpu_mha_desc *d = &p->desc;
    const int all =
        is_key && (d->scores == GPU_MHA_SCORES_RAW || d->scores == GPU_MHA_SCORES_CAPPED);
    double *copy = alloc_doubles(d->B * d->HKV * N * D);
    memcpy(copy, dense, (size_t)(d->B * d->HKV * N * D) * sizeof *copy);
    for (int64_t n = 0; n < d->B * d->HKV * N && !all; n++) {
        int64_t head = n / N, b = head / d->HKV, group = d->H / d->HKV, seen = 0;
        for (int64_t x = 0; x < group * d->NQ && !seen; x++) {
            seen = probe_visible(p, b, head % d->HKV * group + x / d->NQ, x % d->NQ, first + n % N);
        }
        if (!seen) {
            fill_constant(copy + n * D, D, r->junk);
        }
    }
    return copy;
}

/* Cells of the bias that no row may look at are poison. */
static double *with_hidden_cells(const struct run *r)
{
    const struct probe *p = r->probe;
    const gpu_mha_desc *d = &p->desc;
    double *copy = alloc_doubles(p->bias_cells);
    fill_constant(copy, p->bias_cells, r->junk);
    for (int64_t n = 0; n < rows(p) * keys(p); n++) {
        int64_t row = n / keys(p);
        const int64_t index[4] = {row / d->NQ / d->H, row / d->NQ % d->H, row % d->NQ, n % keys(p)};
        int64_t cell = probe_cell(p, &d->bias, index);
        if (probe_bias_is_read(p, index)) {
            copy[cell] = p->bias[cell];
        }
    }
    return copy;
}

static void make_keys(struct run *r, int which, const char *name, const gpu_mha_tensor *t,
                      const double *dense, int64_t N, int64_t first, int64_t D)
{
    double *filled = with_hidden_rows(r, dense, N, first, D, which == KEY || which == PAST_KEY);
    make_array(&r->arrays[which], name, layout_of(t, r->desc.B, r->desc.HKV, N, D), r->type,
               r->poison, filled);
    free(filled);
}

static double *widened(const float *values, int64_t count)
{
    double *wide = alloc_doubles(count);
    for (int64_t n = 0; n < count; n++) {
        wide[n] = values[n];
    }
    return wide;
}

static void make_floats(struct run *r, int which, const char *name, const float *values)
{
    if (!values) {
        return;
    }
    double *wide = widened(values, r->desc.H);
    make_flat(&r->arrays[which], name, r->desc.H, r->poison, wide);
    free(wide);
}

static void make_inputs(struct run *r)
{
    struct probe *p = r->probe;
    const gpu_mha_desc *d = &r->desc;
    make_array(&r->arrays[QUERY], "query", layout_of(&d->query, d->B, d->H, d->NQ, d->DK), r->type,
               r->poison, p->query);
    make_keys(r, KEY, "key", &d->key, p->key, d->NK, d->NP, d->DK);
    make_keys(r, VALUE, "value", &d->value, p->value, d->NK, d->NP, d->DV);
    if (d->NP > 0) {
        make_keys(r, PAST_KEY, "past_key", &d->past_key, p->past_key, d->NP, 0, d->DK);
        make_keys(r, PAST_VALUE, "past_value", &d->past_value, p->past_value, d->NP, 0, d->DV);
    }
    make_floats(r, SLOPES, "alibi_slopes", p->slopes);
    make_floats(r, SINKS, "sinks", p->sinks);
    if (p->bias) {
        const enum storage_type type = (enum storage_type)(d->bias.type - GPU_MHA_MASK_F32);
        double *cells = with_hidden_cells(r);
        make_array(&r->arrays[BIAS], "bias",
                   layout_make(LAYOUT_BHND, 1, 1, 1, p->bias_cells, MARGIN_FRONT), type, r->poison,
                   cells);
        free(cells);
    }
    if (p->mask) {
        /* Around the mask everything would attend. */
        r->mask = alloc(p->mask_cells + MARGIN_FRONT + MARGIN_BEHIND, 1);
        memset(r->mask, 1, (size_t)(p->mask_cells + MARGIN_FRONT + MARGIN_BEHIND));
        memcpy(r->mask + MARGIN_FRONT, p->mask, (size_t)p->mask_cells);
    }
    if (p->key_lengths) {
        r->lengths = alloc(d->B, sizeof(int64_t));
        for (int64_t b = 0; b < d->B; b++) {
            if (d->key_lengths == GPU_MHA_I32) {
                ((int32_t *)r->lengths)[b] = (int32_t)p->key_lengths[b];
            } else {
                ((int64_t *)r->lengths)[b] = p->key_lengths[b];
            }
        }
    }
}

static int64_t weights_count(const gpu_mha_desc *d)
{
    return d->B * (d->weights == GPU_MHA_WEIGHTS_PER_HEAD ? d->H : 1) * d->NQ * (d->NP + d->NK);
}

static void make_outputs(struct run *r)
{
    const gpu_mha_desc *d = &r->desc;
    make_array(&r->arrays[OUTPUT], "output", layout_of(&d->output, d->B, d->H, d->NQ, d->DV),
               r->type, POISON_FF, NULL);
    if (d->lse) {
        make_flat(&r->arrays[LSE], "lse", rows(r->probe), POISON_FF, NULL);
    }
    if (d->weights) {
        make_flat(&r->arrays[WEIGHTS], "weights", weights_count(d), POISON_FF, NULL);
    }
    if (d->scores) {
        make_flat(&r->arrays[SCORES], "scores", rows(r->probe) * keys(r->probe), POISON_FF, NULL);
    }
}

static void run_on_host(struct run *r)
{
    const struct array *a = r->arrays;
    const gpu_mha_arrays arrays = {
        .query = data_of(&a[QUERY]),
        .key = data_of(&a[KEY]),
        .value = data_of(&a[VALUE]),
        .past_key = data_of(&a[PAST_KEY]),
        .past_value = data_of(&a[PAST_VALUE]),
        .mask = r->mask ? r->mask + MARGIN_FRONT : NULL,
        .bias = data_of(&a[BIAS]),
        .key_lengths = r->lengths,
        .alibi_slopes = data_of(&a[SLOPES]),
        .sinks = data_of(&a[SINKS]),
        .output = data_of(&a[OUTPUT]),
        .lse = data_of(&a[LSE]),
        .weights = data_of(&a[WEIGHTS]),
        .scores = data_of(&a[SCORES]),
    };
    gpu_mha_status status = gpu_mha(probe_context(), &r->desc, &arrays);
    ck_assert_msg(status == GPU_MHA_OK, "%s: %s", r->text, gpu_mha_last_error());
}

static cl_mem upload(void *bytes, size_t size)
{
    cl_int code = CL_SUCCESS;
    cl_mem mem = clCreateBuffer(gpu_mha_context_cl(probe_context()),
                                CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, bytes, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    return mem;
}

static void make_buffers(struct run *r, size_t workspace_bytes)
{
    for (int a = 0; a < ARRAYS; a++) {
        if (r->arrays[a].storage) {
            r->arrays[a].mem = upload(r->arrays[a].storage, bytes_of(&r->arrays[a]));
        }
    }
    if (r->mask) {
        r->mask_mem =
            upload(r->mask, (size_t)(r->probe->mask_cells + MARGIN_FRONT + MARGIN_BEHIND));
    }
    if (r->lengths) {
        r->lengths_mem = upload(r->lengths, (size_t)r->desc.B * sizeof(int64_t));
    }
    r->workspace_bytes = workspace_bytes + 256;
    unsigned char *junk = alloc((int64_t)r->workspace_bytes, 1);
    memset(junk, 0xFF, r->workspace_bytes);
    r->workspace = upload(junk, r->workspace_bytes);
    free(junk);
}

static gpu_mha_buffer buffer_of(const struct array *a)
{
    return (gpu_mha_buffer){a->mem, a->mem ? (uint64_t)a->layout.offset : 0};
}

static void download(struct run *r, cl_command_queue queue)
{
    for (int a = OUTPUT; a < ARRAYS; a++) {
        const struct array *array = &r->arrays[a];
        if (array->mem) {
            ck_assert_int_eq(clEnqueueReadBuffer(queue, array->mem, CL_TRUE, 0, bytes_of(array),
                                                 array->storage, 0, NULL, NULL),
                             CL_SUCCESS);
        }
    }
    unsigned char *bytes = alloc((int64_t)r->workspace_bytes, 1);
    ck_assert_int_eq(clEnqueueReadBuffer(queue, r->workspace, CL_TRUE, 0, r->workspace_bytes, bytes,
                                         0, NULL, NULL),
                     CL_SUCCESS);
    for (size_t n = 0; n < r->workspace_bytes; n++) {
        int outside = n < 128 || n >= r->workspace_bytes - 128;
        if (outside && bytes[n] != 0xFF) {
            ck_abort_msg("%s: byte %zu around the workspace changed", r->text, n);
        }
    }
    free(bytes);
}

static void release_buffers(struct run *r)
{
    const cl_mem others[] = {r->mask_mem, r->lengths_mem, r->workspace};
    for (int a = 0; a < ARRAYS; a++) {
        if (r->arrays[a].mem) {
            clReleaseMemObject(r->arrays[a].mem);
        }
    }
    for (size_t n = 0; n < sizeof others / sizeof others[0]; n++) {
        if (others[n]) {
            clReleaseMemObject(others[n]);
        }
    }
}

static void run_on_queue(struct run *r)
{
    cl_command_queue queue = probe_queue(probe_context(), r->way == WAY_OUT_OF_ORDER);
    make_buffers(r, gpu_mha_plan_workspace_bytes(r->plan));
    const struct array *a = r->arrays;
    const gpu_mha_buffers buffers = {
        .query = buffer_of(&a[QUERY]),
        .key = buffer_of(&a[KEY]),
        .value = buffer_of(&a[VALUE]),
        .past_key = buffer_of(&a[PAST_KEY]),
        .past_value = buffer_of(&a[PAST_VALUE]),
        .mask = {r->mask_mem, r->mask_mem ? MARGIN_FRONT : 0},
        .bias = buffer_of(&a[BIAS]),
        .key_lengths = {r->lengths_mem, 0},
        .alibi_slopes = buffer_of(&a[SLOPES]),
        .sinks = buffer_of(&a[SINKS]),
        .output = buffer_of(&a[OUTPUT]),
        .lse = buffer_of(&a[LSE]),
        .weights = buffer_of(&a[WEIGHTS]),
        .scores = buffer_of(&a[SCORES]),
        .workspace = {r->workspace, 128},
    };
    cl_event done = NULL;
    gpu_mha_status status = gpu_mha_enqueue(r->plan, queue, &buffers, 0, NULL, &done);
    ck_assert_msg(status == GPU_MHA_OK, "%s: %s", r->text, gpu_mha_last_error());
    ck_assert_ptr_nonnull(done);
    ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
    clReleaseEvent(done);
    download(r, queue);
    release_buffers(r);
}

/* ---- comparing ---- */

static double *gather(const struct run *r, int which)
{
    const struct array *a = &r->arrays[which];
    if (!a->storage) {
        return NULL;
    }
    int64_t gap = layout_first_changed_gap(&a->layout, a->type, a->storage, a->elements, POISON_FF);
    ck_assert_msg(gap == -1, "%s: %s: element %" PRId64 " outside of it was written", r->text,
                  a->name, gap - a->layout.offset);
    double *dense = alloc_doubles(layout_count(&a->layout));
    layout_gather(&a->layout, a->type, a->storage, dense);
    return dense;
}

/* Assertions are only called for what is wrong: Check writes to a file at each one. */
static void compare(const struct run *r, const char *name, const double *got, const double *want,
                    int64_t count, double relative, double absolute)
{
    for (int64_t n = 0; want && n < count; n++) {
        double bound = relative * fabs(want[n]) + absolute;
        int same = got[n] == want[n] || (isnan(got[n]) && isnan(want[n]));
        if (!same && !(fabs(got[n] - want[n]) <= bound)) {
            ck_abort_msg("%s: %s[%" PRId64 "] is %.9g, want %.9g within %.3g", r->text, name, n,
                         got[n], want[n], bound);
        }
    }
}

/* The bounds of the public header with every term at its largest. */
static void check(const struct run *r)
{
    const struct probe *p = r->probe;
    const double a = p->score_peak, v = p->value_peak > 0 ? p->value_peak : (double)keys(p);
    const double u = storage_unit_roundoff(r->type), tiny = storage_smallest_subnormal(r->type) / 2;
    compare(r, "output", p->output, p->want_output, rows(p) * r->desc.DV, u,
            U32 * (8 + 8 * a) * v + tiny);
    compare(r, "lse", p->lse, p->want_lse, rows(p), U32, U32 * (8 + 4 * a));
    compare(r, "weights", p->weights, p->want_weights, weights_count(&r->desc), U32,
            U32 * (8 + 8 * a));
    compare(r, "scores", p->scores, p->want_scores, rows(p) * keys(p), U32, U32 * (8 + 8 * a));
}

static void run_once(struct run *r)
{
    struct probe *p = r->probe;
    double **const results[] = {&p->output, &p->lse, &p->weights, &p->scores};
    make_inputs(r);
    make_outputs(r);
    if (r->way == WAY_HOST) {
        run_on_host(r);
    } else {
        run_on_queue(r);
    }
    for (int n = 0; n < 4; n++) {
        free(*results[n]);
        *results[n] = gather(r, OUTPUT + n);
    }
    for (int a = 0; a < OUTPUT; a++) {
        free(r->arrays[a].storage);
    }
    free(r->mask);
    free(r->lengths);
    check(r);
}

/* The outputs of `r` must be those of `first`, which the first call keeps. */
static void same_bits(struct run *r, struct array first[4])
{
    for (int n = 0; n < 4; n++) {
        struct array *got = &r->arrays[OUTPUT + n];
        if (!got->storage) {
            continue;
        }
        if (!first[n].storage) {
            first[n] = *got;
            continue;
        }
        int64_t where = compare_bytes(got->storage, first[n].storage, (int64_t)bytes_of(got));
        ck_assert_msg(where < 0, "%s: %s: byte %" PRId64 " differs from the first run", r->text,
                      got->name, where);
        free(got->storage);
    }
}

static void set_types(gpu_mha_desc *d, gpu_mha_type type)
{
    gpu_mha_tensor *const tensors[] = {&d->query,    &d->key,        &d->value,
                                       &d->past_key, &d->past_value, &d->output};
    for (size_t n = 0; n < sizeof tensors / sizeof tensors[0]; n++) {
        tensors[n]->type = type;
    }
}

static void run_all_ways(struct probe *p, gpu_mha_method method, enum storage_type type)
{
    static const char *const ways[] = {"host arrays", "in-order queue", "out-of-order queue"};
    static const double junk[] = {NAN, 1000, INFINITY};
    const char *tile = getenv("GPU_MHA_TILE");
    struct array first[4] = {{0}};
    gpu_mha_desc desc = p->desc;
    desc.method = method;
    set_types(&desc, types[type]);
    gpu_mha_plan *plan = NULL;
    ASSERT_OK(gpu_mha_plan_create(probe_context(), &desc, &plan));
    for (int n = 0; n < WAY_COUNT * 6; n++) {
        struct run r = {.probe = p,
                        .desc = desc,
                        .plan = plan,
                        .type = type,
                        .way = (enum way)(n / 6),
                        .poison = n / 2 % 3 == 1 ? POISON_1000 : POISON_NAN,
                        .junk = junk[n / 2 % 3]};
        if ((r.way == WAY_HOST && p->only_enqueue) || (p->once && n > 0)) {
            continue;
        }
        snprintf(r.text, sizeof r.text, "%s, %s, %s, %g hidden, run %d, tile %s",
                 method == GPU_MHA_FUSED ? "fused" : "staged", storage_name(type), ways[r.way],
                 r.junk, n % 2 + 1, tile ? tile : "of the table");
        run_once(&r);
        same_bits(&r, first);
    }
    gpu_mha_plan_release(plan);
    for (int n = 0; n < 4; n++) {
        free(first[n].storage);
    }
}

void probe_run(struct probe *p)
{
    const unsigned wanted = p->types ? p->types : PROBE_F32 | PROBE_F16;
    const int matrices = p->desc.weights || p->desc.scores;
    for (int type = 0; type < STORAGE_TYPE_COUNT; type++) {
        if (!(wanted & (1u << type))) {
            continue;
        }
        if (p->desc.method != GPU_MHA_STAGED && !matrices) {
            run_all_ways(p, GPU_MHA_FUSED, (enum storage_type)type);
        }
        if (p->desc.method != GPU_MHA_FUSED) {
            run_all_ways(p, GPU_MHA_STAGED, (enum storage_type)type);
        }
    }
}
