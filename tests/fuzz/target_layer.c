/*
 * gpu_mha_layer_desc: plan and enqueue, on a device of the input's making.
 *
 * Input: facts of the device, patches of the attention inside, patches of the layer, buffers.
 */
#include <string.h>

#include "cl/plan.h"
#include "fuzz/descs.h"
#include "fuzz/fake_cl.h"
#include "layer/layer.h"

static const char buffer_names[] =
    "query_input key_input value_input weight_q weight_k weight_v weight_out bias_q bias_k bias_v "
    "bias_out mask bias key_lengths alibi_slopes sinks output lse weights scores workspace";

#define AT(member) offsetof(gpu_mha_layer_buffers, member)

static gpu_mha_status enqueue(const struct fuzz_run *run, cl_event *event)
{
    return gpu_mha_layer_enqueue(run->plan, run->queue, run->buffers, 0, NULL, event);
}

static void run_plan(struct fuzz_bytes *bytes, gpu_mha_plan *plan, const gpu_mha_layer_desc *l,
                     const gpu_mha_desc *d)
{
    const fuzz_wide any = d->B > 0 && d->NQ > 0;
    const fuzz_wide queries = any * d->B * d->NQ, keys = any * d->B * d->NK;
    const fuzz_wide q = (fuzz_wide)d->H * d->DK, k = (fuzz_wide)d->HKV * d->DK;
    const fuzz_wide v = (fuzz_wide)d->HKV * d->DV, o = (fuzz_wide)d->H * d->DV;
    const fuzz_wide first = any * (l->packed_qkv ? q + k + v : q);
    const fuzz_wide rows = queries * d->H;
    const int64_t full[4] = {d->B, d->H, d->NQ, d->NK};
    const size_t weight = fuzz_type_bytes(l->weight_type);
    const bool apart = !l->packed_qkv, averaged = d->weights == GPU_MHA_WEIGHTS_AVERAGED;
    const struct fuzz_need needs[] = {
        {AT(query_input), true, queries * l->EQ, fuzz_type_bytes(d->query.type)},
        {AT(key_input), true, keys * l->EK, fuzz_type_bytes(d->key.type)},
        {AT(value_input), true, keys * l->EV, fuzz_type_bytes(d->value.type)},
        {AT(weight_q), true, first * l->EQ, weight},
        {AT(weight_k), apart, any * k * l->EK, weight},
        {AT(weight_v), apart, any * v * l->EV, weight},
        {AT(weight_out), true, any * o * l->EO, weight},
        {AT(bias_q), l->bias_q != 0, first, weight},
        {AT(bias_k), apart && l->bias_k, any * k, weight},
        {AT(bias_v), apart && l->bias_v, any * v, weight},
        {AT(bias_out), l->bias_out != 0, any * l->EO, weight},
        {AT(mask), d->mask.type != 0, any * fuzz_mask_span(&d->mask, full), 1},
        {AT(bias), d->bias.type != 0, any * fuzz_mask_span(&d->bias, full),
         d->bias.type == GPU_MHA_MASK_F32 ? 4 : 2},
        {AT(key_lengths), d->key_lengths != 0, any * d->B, fuzz_index_bytes(d->key_lengths)},
        {AT(alibi_slopes), d->alibi == GPU_MHA_ALIBI_SLOPES, any * d->H, 4},
        {AT(sinks), d->sinks != 0, any * d->H, 4},
        {AT(output), true, queries * l->EO, fuzz_type_bytes(d->output.type)},
        {AT(lse), d->lse != 0, rows, 4},
        {AT(weights), d->weights != 0, (averaged ? queries : rows) * d->NK, 4},
        {AT(scores), d->scores != 0, rows * d->NK, 4},
        {AT(workspace), true, (fuzz_wide)gpu_mha_plan_workspace_bytes(plan), 1},
    };
    gpu_mha_layer_buffers buffers = {.struct_size = sizeof buffers};
    const cl_context cl = plan->context->cl;
    const struct fuzz_run run = {.plan = plan,
                                 .cl = cl,
                                 .queue = fake_queue(cl),
                                 .buffers = &buffers,
                                 .needs = needs,
                                 .need_count = sizeof needs / sizeof *needs,
                                 .enqueue = enqueue,
                                 .names = buffer_names};
    fuzz_run_buffers(bytes, &run);
    clReleaseCommandQueue(run.queue);
}

static void try_layer(struct fuzz_bytes *bytes, const gpu_mha_layer_desc *desc, bool must_do)
{
    gpu_mha_context *context = NULL;
    gpu_mha_plan *plan = NULL, *second = NULL;
    char why[1100];
    const gpu_mha_status made = gpu_mha_context_create(NULL, &context);
    if (made != GPU_MHA_OK) {
        fuzz_check_sentence(made, "selector");
        return;
    }
    const gpu_mha_status status = gpu_mha_layer_plan_create(context, desc, &plan);
    snprintf(why, sizeof why, "%s", gpu_mha_last_error());
    FUZZ_ASSERT((status == GPU_MHA_OK) == (plan != NULL));
    FUZZ_ASSERT(plan != NULL || !must_do);
    if (status != GPU_MHA_OK) {
        fuzz_check_sentence(status, fuzz_layer.names);
        FUZZ_ASSERT(status == GPU_MHA_INVALID || status == GPU_MHA_UNSUPPORTED ||
                    fake_refusals() > 0);
    }
    if (fake_refusals() == 0) {
        FUZZ_ASSERT(gpu_mha_layer_plan_create(context, desc, &second) == status);
        FUZZ_ASSERT(status == GPU_MHA_OK || strcmp(why, gpu_mha_last_error()) == 0);
        FUZZ_ASSERT(gpu_mha_plan_workspace_bytes(plan) == gpu_mha_plan_workspace_bytes(second));
        gpu_mha_plan_release(second);
    }
    if (plan != NULL) {
        const struct mha_layer *layer = plan->state;
        FUZZ_ASSERT(gpu_mha_plan_workspace_bytes(plan) <= context->device.max_alloc_bytes);
        run_plan(bytes, plan, &layer->problem.desc, &layer->problem.attention_desc);
        gpu_mha_plan_release(plan);
    }
    gpu_mha_context_release(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    const uint8_t first = fuzz_byte(&bytes);
    struct fake_facts facts = first & 1 ? fake_facts_read(&bytes) : fake_cpu;
    gpu_mha_desc inside = fuzz_small_attention();
    gpu_mha_layer_desc layer = {
        .struct_size = sizeof layer, .EQ = 12, .EK = 12, .EV = 12, .EO = 10};
    fuzz_settle();
    fuzz_patch(&bytes, &fuzz_attention, &inside);
    fuzz_patch(&bytes, &fuzz_layer, &layer);
    /* Where a device takes them, so many slopes are worked out, which takes minutes. */
    if (inside.alibi == GPU_MHA_ALIBI_AUTO && inside.H > 1 << 20) {
        facts.max_alloc_bytes = 1 << 20;
    }
    fake_devices(&facts, 1, 1);
    gpu_mha_desc *attention = first & 2 ? NULL : fuzz_exact(&fuzz_attention, &inside, first >> 7);
    layer.attention = attention;
    gpu_mha_layer_desc *desc = fuzz_exact(&fuzz_layer, &layer, first >> 7);
    try_layer(&bytes, desc, size == 0);
    free(desc);
    free(attention);
    FUZZ_ASSERT(fake_live() == 0);
    return 0;
}
