/*
 * gpu_mha_desc: check, plan, choice and enqueue, on a device of the input's making.
 *
 * Input: facts of the device, GPU_MHA_TILE, patches of the descriptor, buffers.
 */
#include <string.h>

#include "attention/attention.h"
#include "cl/context.h"
#include "cl/plan.h"
#include "fuzz/descs.h"
#include "fuzz/fake_cl.h"

static const char buffer_names[] = "query key value past_key past_value mask bias key_lengths "
                                   "alibi_slopes sinks output lse weights scores workspace";

static void choose_tile(struct fuzz_bytes *bytes)
{
    static const char *const tiles[] = {"",
                                        "fused 12,16,2,8",
                                        "1,4,1,1",
                                        "decode 8",
                                        "rows 1,8,16",
                                        "heads 12,16,1,16",
                                        "shared 2,4,2,4,16,4,0,0",
                                        "32,16,2,64",
                                        "shared 16,16,4,8,32,4,1,1",
                                        "rows 4,16,64",
                                        "nonsense"};
    fuzz_environment("GPU_MHA_TILE", tiles[fuzz_byte(bytes) % (sizeof tiles / sizeof *tiles)]);
}

/* What the plan takes as its workspace must have room for what it will put there. */
static void check_plan(const gpu_mha_plan *plan, const gpu_mha_desc *desc)
{
    const struct mha_attention *a = plan->state;
    const struct mha_params *k = &a->params;
    const fuzz_wide bytes = gpu_mha_plan_workspace_bytes(plan);
    const fuzz_wide rows = (fuzz_wide)desc->B * desc->H * desc->NQ;
    const fuzz_wide key_tiles = (fuzz_wide)desc->B * desc->HKV * a->variant.tiles;
    const int64_t KT = a->variant.KT;
    FUZZ_ASSERT(bytes <= (fuzz_wide)plan->context->device.max_alloc_bytes);
    FUZZ_ASSERT(strlen(gpu_mha_plan_text(plan)) > 0);
    if (rows == 0) {
        FUZZ_ASSERT(bytes == 0);
        return;
    }
    FUZZ_ASSERT(KT > 0 && a->variant.tiles * KT >= a->problem.NT && a->variant.splits >= 1);
    if (a->variant.shape.path == MHA_PATH_STAGED) {
        FUZZ_ASSERT((k->score_rows + rows * k->score_pitch) * 4 <= bytes);
        FUZZ_ASSERT(k->score_pitch >= a->problem.NT);
    }
    if (a->variant.shape.path == MHA_PATH_STAGED || a->variant.shape.path == MHA_PATH_FUSED) {
        FUZZ_ASSERT((k->packed_key + key_tiles * KT * desc->DK) * 4 <= bytes);
        FUZZ_ASSERT((k->packed_value + key_tiles * KT * desc->DV) * 4 <= bytes);
        FUZZ_ASSERT((k->value_special + key_tiles) * 4 <= bytes);
    }
    if (a->variant.splits > 1) {
        FUZZ_ASSERT((k->partial_output + rows * a->variant.splits * desc->DV) * 4 <= bytes);
        FUZZ_ASSERT((k->partial_lse + rows * a->variant.splits) * 4 <= bytes);
    }
}

static gpu_mha_status enqueue(const struct fuzz_run *run, cl_event *event)
{
    return gpu_mha_enqueue(run->plan, run->queue, run->buffers, 0, NULL, event);
}

#define AT(member) offsetof(gpu_mha_buffers, member)

static void run_plan(struct fuzz_bytes *bytes, gpu_mha_plan *plan, const gpu_mha_desc *d)
{
    const int64_t NT = d->NP + d->NK;
    const fuzz_wide any = d->B > 0 && d->NQ > 0;
    const fuzz_wide rows = any * d->B * d->H * d->NQ;
    const int64_t q[4] = {d->B, d->H, d->NQ, d->DK}, o[4] = {d->B, d->H, d->NQ, d->DV};
    const int64_t k[4] = {d->B, d->HKV, d->NK, d->DK}, v[4] = {d->B, d->HKV, d->NK, d->DV};
    const int64_t pk[4] = {d->B, d->HKV, d->NP, d->DK}, pv[4] = {d->B, d->HKV, d->NP, d->DV};
    const int64_t full[4] = {d->B, d->H, d->NQ, NT};
    const size_t bias = d->bias.type == GPU_MHA_MASK_F32 ? 4 : 2;
    const bool averaged = d->weights == GPU_MHA_WEIGHTS_AVERAGED;
    const struct fuzz_need needs[] = {
        {AT(query), true, any * fuzz_span(&d->query, q), fuzz_type_bytes(d->query.type)},
        {AT(key), true, any * fuzz_span(&d->key, k), fuzz_type_bytes(d->key.type)},
        {AT(value), true, any * fuzz_span(&d->value, v), fuzz_type_bytes(d->value.type)},
        {AT(past_key), d->NP > 0, any * fuzz_span(&d->past_key, pk),
         fuzz_type_bytes(d->past_key.type)},
        {AT(past_value), d->NP > 0, any * fuzz_span(&d->past_value, pv),
         fuzz_type_bytes(d->past_value.type)},
        {AT(mask), d->mask.type != 0, any * fuzz_mask_span(&d->mask, full), 1},
        {AT(bias), d->bias.type != 0, any * fuzz_mask_span(&d->bias, full), bias},
        {AT(key_lengths), d->key_lengths != 0, any * d->B, fuzz_index_bytes(d->key_lengths)},
        {AT(alibi_slopes), d->alibi == GPU_MHA_ALIBI_SLOPES, any * d->H, 4},
        {AT(sinks), d->sinks != 0, any * d->H, 4},
        {AT(output), true, fuzz_span(&d->output, o), fuzz_type_bytes(d->output.type)},
        {AT(lse), d->lse != 0, rows, 4},
        {AT(weights), d->weights != 0, averaged ? (fuzz_wide)d->B * d->NQ * NT : rows * NT, 4},
        {AT(scores), d->scores != 0, rows * NT, 4},
        {AT(workspace), true, (fuzz_wide)gpu_mha_plan_workspace_bytes(plan), 1},
    };
    gpu_mha_buffers buffers = {.struct_size = sizeof buffers};
    const cl_context cl = plan->context->cl;
    const struct fuzz_run run = {plan,     cl,          fake_queue(cl),
                                 &buffers, needs,       sizeof needs / sizeof *needs,
                                 enqueue,  buffer_names};
    fuzz_run_buffers(bytes, &run);
    clReleaseCommandQueue(run.queue);
}

/* With the same answer twice, or the plan. */
static gpu_mha_plan *make_plan(gpu_mha_context *context, const gpu_mha_desc *desc,
                               gpu_mha_status checked, const char *why)
{
    gpu_mha_plan *first = NULL, *second = NULL;
    char message[2][1100];
    const gpu_mha_status status = gpu_mha_plan_create(context, desc, &first);
    snprintf(message[0], sizeof message[0], "%s", gpu_mha_last_error());
    FUZZ_ASSERT((status == GPU_MHA_OK) == (first != NULL));
    if (checked != GPU_MHA_OK) {
        FUZZ_ASSERT(status == checked && strcmp(message[0], why) == 0);
        return NULL;
    }
    /* The builds that fail are numbered, so the second plan may meet others. */
    const bool is_sound = fake_refusals() == 0;
    if (status != GPU_MHA_OK) {
        fuzz_check_sentence(status, fuzz_attention.names);
        FUZZ_ASSERT(!is_sound || status == GPU_MHA_UNSUPPORTED ||
                    (status == GPU_MHA_INVALID && strcmp(getenv("GPU_MHA_TILE"), "nonsense") == 0));
    }
    const gpu_mha_status again = gpu_mha_plan_create(context, desc, &second);
    if (is_sound) {
        FUZZ_ASSERT(again == status);
        FUZZ_ASSERT(again == GPU_MHA_OK || strcmp(message[0], gpu_mha_last_error()) == 0);
    }
    if (is_sound && status == GPU_MHA_OK) {
        FUZZ_ASSERT(gpu_mha_plan_workspace_bytes(first) == gpu_mha_plan_workspace_bytes(second));
        FUZZ_ASSERT(strcmp(gpu_mha_plan_text(first), gpu_mha_plan_text(second)) == 0);
    }
    gpu_mha_plan_release(second);
    return first;
}

static void try_context(struct fuzz_bytes *bytes, const gpu_mha_desc *desc, gpu_mha_status checked,
                        bool must_do)
{
    char why[1100];
    gpu_mha_context *context = NULL;
    gpu_mha_choice choice = {.struct_size = sizeof choice};
    snprintf(why, sizeof why, "%s", checked != GPU_MHA_OK ? gpu_mha_last_error() : "");
    const gpu_mha_status made = gpu_mha_context_create(NULL, &context);
    FUZZ_ASSERT((made == GPU_MHA_OK) == (context != NULL));
    if (made != GPU_MHA_OK) {
        fuzz_check_sentence(made, "selector");
        return;
    }
    const gpu_mha_status chosen = gpu_mha_choice_get(context, desc, &choice);
    FUZZ_ASSERT(checked == GPU_MHA_OK || chosen == checked);
    FUZZ_ASSERT(chosen != GPU_MHA_OK || (choice.kind[0] != '\0' && choice.text[0] != '\0'));
    gpu_mha_plan *plan = make_plan(context, desc, checked, why);
    FUZZ_ASSERT(plan != NULL || !must_do);
    if (plan != NULL) {
        const struct mha_attention *attention = plan->state;
        check_plan(plan, &attention->problem.desc);
        run_plan(bytes, plan, &attention->problem.desc);
        gpu_mha_plan_release(plan);
    }
    gpu_mha_context_release(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    gpu_mha_desc patched = fuzz_small_attention();
    const uint8_t first = fuzz_byte(&bytes);
    fuzz_settle();
    struct fake_facts facts = fake_cpu;
    if (first & 1) {
        facts = fake_facts_read(&bytes);
    }
    fake_devices(&facts, 1, 1);
    choose_tile(&bytes);
    fuzz_patch(&bytes, &fuzz_attention, &patched);
    /* Where a device takes them, so many slopes are worked out, which takes minutes. */
    if (patched.alibi == GPU_MHA_ALIBI_AUTO && patched.H > 1 << 20) {
        facts.max_alloc_bytes = 1 << 20;
        fake_devices(&facts, 1, 1);
    }
    gpu_mha_desc *desc = fuzz_exact(&fuzz_attention, &patched, first >> 7);

    char why[1100];
    const gpu_mha_status checked = gpu_mha_desc_check(desc);
    snprintf(why, sizeof why, "%s", gpu_mha_last_error());
    if (checked != GPU_MHA_OK) {
        FUZZ_ASSERT(checked == GPU_MHA_INVALID);
        fuzz_check_sentence(checked, fuzz_attention.names);
    }
    FUZZ_ASSERT(gpu_mha_desc_check(desc) == checked);
    FUZZ_ASSERT(checked == GPU_MHA_OK || strcmp(why, gpu_mha_last_error()) == 0);
    /* Without patches nothing is wrong: else the targets would only ever see refusals. */
    try_context(&bytes, desc, checked, size == 0);
    free(desc);
    FUZZ_ASSERT(fake_live() == 0);
    return 0;
}
