/* Entries of the tuning file as shapes; and what a plan would take, for those who ask. */
#include "attention/choice.h"

#include <stdio.h>
#include <string.h>

#include "attention/variant.h"
#include "blas/gemm.h"
#include "cl/contest.h"
#include "cl/verdicts.h"

_Static_assert(MHA_SHAPE_TEXT <= MHA_TUNED_WORD, "a shape is one word of the tuning file");

void mha_choice_key(const struct mha_problem *problem, const struct mha_device *device,
                    char key[MHA_TUNED_WORD])
{
    struct mha_shape shape;
    /* What was measured stays what it was when verdicts change. */
    const struct mha_device untried = mha_device_untried(device);
    char kind[MHA_SHAPE_TEXT], text[MHA_SHAPE_TEXT];
    mha_shape_key(problem, kind, sizeof kind);
    mha_shape_default(problem, &untried, &shape);
    mha_shape_text(&shape, text, sizeof text);
    snprintf(key, MHA_TUNED_WORD, "%.32s, %.29s", kind, text);
}

int mha_choice_tuned(gpu_mha_context *context, const struct mha_problem *problem,
                     struct mha_shape *shape, struct mha_tuned_entry *entry)
{
    char key[MHA_TUNED_WORD];
    if (mha_shape_is_staged(problem)) {
        return 0;
    }
    mha_choice_key(problem, &context->device, key);
    if (!mha_tuned_get(context->tuned, key, entry)) {
        return 0;
    }
    mha_error_attempt();
    const gpu_mha_status status = mha_shape_parse("it", entry->value, shape);
    const char *why = mha_error_attempt_end();
    if (status != GPU_MHA_OK) {
        mha_tuned_reject(context->tuned, entry, status, why);
        return 0;
    }
    return 1;
}

static void choose_product(gpu_mha_context *context, gpu_mha_choice *choice)
{
    struct mha_tuned_entry entry;
    const struct mha_gemm_kind *kind = mha_gemm_kind_for(context, &entry);
    snprintf(choice->kind, sizeof choice->kind, "%s", MHA_GEMM_KEY);
    snprintf(choice->text, sizeof choice->text, "%s", kind->name);
    if (entry.key[0] != '\0') {
        choice->source = GPU_MHA_CHOICE_TUNED;
        choice->median_ms = (double)entry.nanoseconds * 1e-6;
    } else if (kind != mha_gemm_candidate_of(&context->device, 0)) {
        choice->source = GPU_MHA_CHOICE_AVOIDING;
    }
}

/* 1 if the library would take something else than it does but for the verdicts of gpu-mha doctor.
 */
static int is_avoiding(const struct mha_problem *problem, const struct mha_device *device)
{
    struct mha_shape usual;
    const struct mha_device untried = mha_device_untried(device);
    mha_shape_default(problem, &untried, &usual);
    return mha_shape_to_avoid(problem, device, &usual) != GPU_MHA_VERDICT_NONE;
}

static gpu_mha_status choose_shape(gpu_mha_context *context, const struct mha_problem *problem,
                                   gpu_mha_choice *choice)
{
    struct mha_variant variant;
    struct mha_tuned_entry entry;
    struct mha_shape tuned, given;
    char reason[160];
    const struct mha_device *device = &context->device;
    int is_given = 0;
    MHA_TRY(mha_shape_from_environment(&given, &is_given));
    const int is_tuned = mha_choice_tuned(context, problem, &tuned, &entry);
    MHA_TRY(mha_variant_choose(problem, device, is_tuned ? &tuned : NULL, &variant));
    if (mha_shape_is_staged(problem)) {
        snprintf(choice->kind, sizeof choice->kind, "staged");
        snprintf(choice->text, sizeof choice->text, "staged");
        return GPU_MHA_OK;
    }
    mha_shape_key(problem, choice->kind, sizeof choice->kind);
    mha_shape_text(&variant.shape, choice->text, sizeof choice->text);
    if (variant.shape.path == MHA_PATH_STAGED) { /* none of the fused kernels is left */
        snprintf(choice->text, sizeof choice->text, "staged");
        choice->source = GPU_MHA_CHOICE_AVOIDING;
        return GPU_MHA_OK;
    }
    /* A decode kernel's shape that does not fit still gives its vectors to the fused one. */
    if (is_given && (mha_shape_fits(problem, device, &given, reason, sizeof reason) ||
                     given.path == MHA_PATH_DECODE)) {
        choice->source = GPU_MHA_CHOICE_ENVIRONMENT;
    } else if (is_tuned && mha_shape_fits(problem, device, &tuned, reason, sizeof reason) &&
               mha_shape_to_avoid(problem, device, &tuned) == GPU_MHA_VERDICT_NONE) {
        choice->source = GPU_MHA_CHOICE_TUNED;
        choice->median_ms = (double)entry.nanoseconds * 1e-6;
    } else if (is_avoiding(problem, device)) {
        choice->source = GPU_MHA_CHOICE_AVOIDING;
    }
    return GPU_MHA_OK;
}

gpu_mha_status gpu_mha_choice_get(gpu_mha_context *context, const gpu_mha_desc *desc,
                                  gpu_mha_choice *choice)
{
    struct mha_problem problem;
    MHA_INVALID_IF(choice == NULL, "choice is NULL, must point to a gpu_mha_choice");
    MHA_TRY(mha_contest_check_size("choice", choice->struct_size, sizeof *choice));
    if (desc != NULL) {
        MHA_TRY(mha_problem_read(desc, &problem));
    }
    MHA_TRY(mha_context_resolve(context, &context));
    gpu_mha_choice found = {.struct_size = choice->struct_size};
    if (desc == NULL) {
        choose_product(context, &found);
    } else {
        MHA_TRY(choose_shape(context, &problem, &found));
    }
    *choice = found;
    return GPU_MHA_OK;
}

const char *gpu_mha_tuning_file(const gpu_mha_context *context)
{
    const char *path = context != NULL ? mha_tuned_path(context->tuned) : NULL;
    return path != NULL ? path : "";
}
