/*
 * The descriptors of merge, rotary embedding and cache update: plan and enqueue.
 *
 * Input: which of them, facts of the device, patches of the descriptor, buffers.
 */
#include <string.h>

#include "cl/plan.h"
#include "fuzz/descs.h"
#include "fuzz/fake_cl.h"

/* Needs of a valid descriptor; at most FUZZ_NEEDS_MAX. */
struct needs {
    struct fuzz_need list[FUZZ_NEEDS_MAX];
    size_t count;
};

static void add(struct needs *needs, size_t at, bool wanted, fuzz_wide span, size_t element)
{
    needs->list[needs->count++] = (struct fuzz_need){at, wanted, span, element};
}

/* ---- merge -------------------------------------------------------------------------------- */

static gpu_mha_status plan_merge(gpu_mha_context *context, const void *desc, gpu_mha_plan **plan)
{
    return gpu_mha_merge_plan_create(context, desc, plan);
}

static gpu_mha_status enqueue_merge(const struct fuzz_run *run, cl_event *event)
{
    return gpu_mha_merge_enqueue(run->plan, run->queue, run->buffers, 0, NULL, event);
}

#define AT(member) offsetof(gpu_mha_merge_buffers, member)
static void need_merge(const void *desc, struct needs *needs)
{
    const gpu_mha_merge_desc *d = desc;
    const int64_t lengths[4] = {d->B, d->H, d->NQ, d->DV};
    const fuzz_wide rows = (fuzz_wide)d->B * d->H * d->NQ;
    add(needs, AT(a), true, fuzz_span(&d->a, lengths), fuzz_type_bytes(d->a.type));
    add(needs, AT(lse_a), true, rows, 4);
    add(needs, AT(b), true, fuzz_span(&d->b, lengths), fuzz_type_bytes(d->b.type));
    add(needs, AT(lse_b), true, rows, 4);
    add(needs, AT(output), true, fuzz_span(&d->output, lengths), fuzz_type_bytes(d->output.type));
    add(needs, AT(lse), true, rows, 4);
}
#undef AT

/* ---- rotary embedding --------------------------------------------------------------------- */

static gpu_mha_status plan_rotary(gpu_mha_context *context, const void *desc, gpu_mha_plan **plan)
{
    return gpu_mha_rotary_plan_create(context, desc, plan);
}

static gpu_mha_status enqueue_rotary(const struct fuzz_run *run, cl_event *event)
{
    return gpu_mha_rotary_enqueue(run->plan, run->queue, run->buffers, 0, NULL, event);
}

#define AT(member) offsetof(gpu_mha_rotary_buffers, member)
static void need_rotary(const void *desc, struct needs *needs)
{
    const gpu_mha_rotary_desc *d = desc;
    const int64_t lengths[4] = {d->B, d->H, d->N, d->D};
    const fuzz_wide tokens = (fuzz_wide)d->B * d->N, pairs = (d->R == 0 ? d->D : d->R) / 2;
    const fuzz_wide angles = tokens > 0 ? (d->positions != 0 ? d->P : tokens) * pairs : 0;
    const size_t cache = fuzz_type_bytes(d->cache_type);
    add(needs, AT(input), true, fuzz_span(&d->input, lengths), fuzz_type_bytes(d->input.type));
    add(needs, AT(cos), true, angles, cache);
    add(needs, AT(sin), true, angles, cache);
    add(needs, AT(positions), d->positions != 0, tokens, fuzz_index_bytes(d->positions));
    add(needs, AT(output), true, fuzz_span(&d->output, lengths), fuzz_type_bytes(d->output.type));
}
#undef AT

/* ---- cache update ------------------------------------------------------------------------- */

static gpu_mha_status plan_cache(gpu_mha_context *context, const void *desc, gpu_mha_plan **plan)
{
    return gpu_mha_cache_plan_create(context, desc, plan);
}

static gpu_mha_status enqueue_cache(const struct fuzz_run *run, cl_event *event)
{
    return gpu_mha_cache_enqueue(run->plan, run->queue, run->buffers, 0, NULL, event);
}

#define AT(member) offsetof(gpu_mha_cache_buffers, member)
static void need_cache(const void *desc, struct needs *needs)
{
    const gpu_mha_cache_desc *d = desc;
    const int64_t update[4] = {d->B, d->H, d->N, d->D}, cache[4] = {d->B, d->H, d->NC, d->D};
    const fuzz_wide any = d->B > 0 && d->N > 0;
    add(needs, AT(update), true, any * fuzz_span(&d->update, update),
        fuzz_type_bytes(d->update.type));
    add(needs, AT(indices), d->indices != 0, any * d->B, fuzz_index_bytes(d->indices));
    add(needs, AT(cache), true, any * fuzz_span(&d->cache, cache), fuzz_type_bytes(d->cache.type));
}
#undef AT

/* ---- the three ---------------------------------------------------------------------------- */

static const struct operation {
    const struct fuzz_struct *type;
    gpu_mha_status (*plan)(gpu_mha_context *context, const void *desc, gpu_mha_plan **plan);
    gpu_mha_status (*enqueue)(const struct fuzz_run *run, cl_event *event);
    void (*need)(const void *desc, struct needs *needs);
    const char *buffer_names;
} operations[] = {
    {&fuzz_merge, plan_merge, enqueue_merge, need_merge, "a lse_a b lse_b output lse"},
    {&fuzz_rotary, plan_rotary, enqueue_rotary, need_rotary, "input cos sin positions output"},
    {&fuzz_cache, plan_cache, enqueue_cache, need_cache, "update indices cache"},
};

union desc {
    size_t struct_size;
    gpu_mha_merge_desc merge;
    gpu_mha_rotary_desc rotary;
    gpu_mha_cache_desc cache;
};

static union desc small_desc(size_t which)
{
    union desc desc;
    memset(&desc, 0, sizeof desc);
    if (which == 0) {
        desc.merge = (gpu_mha_merge_desc){.B = 2, .H = 3, .NQ = 4, .DV = 5};
    } else if (which == 1) {
        desc.rotary = (gpu_mha_rotary_desc){.B = 2, .H = 3, .N = 4, .D = 6};
    } else {
        desc.cache = (gpu_mha_cache_desc){.B = 2, .H = 3, .D = 5, .N = 2, .NC = 7};
    }
    return desc;
}

static void try_operation(struct fuzz_bytes *bytes, const struct operation *operation,
                          const void *exact, const union desc *desc, bool must_do)
{
    gpu_mha_context *context = NULL;
    gpu_mha_plan *plan = NULL;
    char why[1100];
    const gpu_mha_status made = gpu_mha_context_create(NULL, &context);
    if (made != GPU_MHA_OK) {
        fuzz_check_sentence(made, "selector");
        return;
    }
    const gpu_mha_status status = operation->plan(context, exact, &plan);
    snprintf(why, sizeof why, "%s", gpu_mha_last_error());
    FUZZ_ASSERT((status == GPU_MHA_OK) == (plan != NULL));
    FUZZ_ASSERT(plan != NULL || !must_do);
    if (status != GPU_MHA_OK) {
        gpu_mha_plan *second = NULL;
        fuzz_check_sentence(status, operation->type->names);
        FUZZ_ASSERT(status == GPU_MHA_INVALID || status == GPU_MHA_UNSUPPORTED ||
                    fake_refusals() > 0);
        FUZZ_ASSERT(operation->plan(context, exact, &second) == status ||
                    status != GPU_MHA_INVALID);
        FUZZ_ASSERT(strcmp(why, gpu_mha_last_error()) == 0 || status != GPU_MHA_INVALID);
        gpu_mha_plan_release(second);
    } else {
        uint64_t buffers[2 * FUZZ_NEEDS_MAX + 1] = {0}; /* struct_size 0, and buffers */
        struct needs needs = {.count = 0};
        operation->need(desc, &needs);
        FUZZ_ASSERT(gpu_mha_plan_workspace_bytes(plan) == 0);
        const struct fuzz_run run = {.plan = plan,
                                     .cl = gpu_mha_context_cl(context),
                                     .queue = fake_queue(gpu_mha_context_cl(context)),
                                     .buffers = buffers,
                                     .needs = needs.list,
                                     .need_count = needs.count,
                                     .enqueue = operation->enqueue,
                                     .names = operation->buffer_names};
        fuzz_run_buffers(bytes, &run);
        clReleaseCommandQueue(run.queue);
        gpu_mha_plan_release(plan);
    }
    gpu_mha_context_release(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    const uint8_t first = fuzz_byte(&bytes);
    const size_t which = first % 3;
    const struct operation *operation = &operations[which];
    const struct fake_facts facts = first & 64 ? fake_facts_read(&bytes) : fake_cpu;
    union desc desc = small_desc(which);
    fuzz_settle();
    fake_devices(&facts, 1, 1);
    fuzz_patch(&bytes, operation->type, &desc);
    void *exact = fuzz_exact(operation->type, &desc, first >> 7);
    try_operation(&bytes, operation, exact, &desc, size == 0);
    free(exact);
    FUZZ_ASSERT(fake_live() == 0);
    return 0;
}
