/* ONNX Attention (opsets 23 to 25) through gpu_mha; see verify_operator.h. */
#include "verify_attention.h"

#include <stdlib.h>
#include <string.h>

static const struct mha_operator_item attributes[] = {
    {"is_causal", 23, false},
    {"kv_num_heads", 23, false},
    {"q_num_heads", 23, false},
    {"qk_matmul_output_mode", 23, false},
    {"scale", 23, false},
    {"softcap", 23, false},
    {"softmax_precision", 23, false},
    {"left_window_size", 25, false},
    {"right_window_size", 25, false},
    {NULL, 0, false},
};
static const struct mha_operator_item inputs[] = {
    {"Q", 23, true},
    {"K", 23, true},
    {"V", 23, true},
    {"attn_mask", 23, false},
    {"past_key", 23, false},
    {"past_value", 23, false},
    {"nonpad_kv_seqlen", 24, false},
    {NULL, 0, false},
};
static const struct mha_operator_item outputs[] = {
    {"Y", 23, true},
    {"present_key", 23, false},
    {"present_value", 23, false},
    {"qk_matmul_output", 23, false},
    {NULL, 0, false},
};

/* Writes `update` to the rows of the cache that start at `row`, on the device. */
static bool write_rows(struct mha_case *record, const struct mha_verify_settings *settings,
                       gpu_mha_cache_desc *desc, int64_t row, gpu_mha_cache_arrays *arrays)
{
    int64_t *indices = malloc(desc->B ? (size_t)desc->B * sizeof *indices : 1);
    if (!indices) {
        return mha_case_fail(record, "out of memory for write indices");
    }
    for (int64_t b = 0; b < desc->B; b++) {
        indices[b] = row;
    }
    desc->indices = GPU_MHA_I64;
    arrays->indices = indices;
    gpu_mha_status status = gpu_mha_cache_update(settings->context, desc, arrays);
    free(indices);
    return mha_library_ok(record, status);
}

/* The concatenation of past and new keys (which = 0) or values (which = 1): two cache updates. */
static bool make_present(struct mha_case *record, const struct mha_verify_settings *settings,
                         const gpu_mha_desc *desc, int which, struct mha_computed *computed)
{
    const struct mha_npy *added = &record->inputs[K + which].npy;
    const int slot = PRESENT_KEY + which;
    const int64_t NT = desc->NP + desc->NK;
    const int64_t shape[4] = {desc->B, desc->HKV, NT, which ? desc->DV : desc->DK};
    gpu_mha_cache_desc update = {
        .struct_size = sizeof update, .B = desc->B, .H = desc->HKV, .D = shape[3], .NC = NT};
    gpu_mha_cache_arrays arrays = {.struct_size = sizeof arrays};

    if (!record->outputs[slot].name) {
        return true;
    }
    if (!mha_computed_make(record, computed, slot, added->type, 4, shape)) {
        return false;
    }
    computed[slot].exact = true;
    arrays.cache = computed[slot].npy.data;
    update.cache.type = update.update.type = which ? desc->value.type : desc->key.type;
    update.N = desc->NP;
    arrays.update = record->inputs[PAST_KEY + which].npy.data;
    if (desc->NP > 0 && !write_rows(record, settings, &update, 0, &arrays)) {
        return false;
    }
    update.N = desc->NK;
    update.update = which ? desc->value : desc->key;
    arrays.update = added->data;
    return write_rows(record, settings, &update, desc->NP, &arrays);
}

/* The library's scores are float; the standard's have the type of Q. */
static bool store_scores(struct mha_case *record, float *scores, struct mha_npy *to)
{
    struct mha_npy from = *to;
    uint16_t *rounded;

    from.type = MHA_NPY_F32;
    from.bytes = from.count * sizeof(float);
    from.data = scores;
    if (to->type == MHA_NPY_F32) {
        memcpy(to->data, scores, to->bytes);
        return true;
    }
    rounded = to->type == MHA_NPY_F16 ? mha_npy_to_f16(&from) : mha_npy_to_bf16(&from);
    if (!rounded) {
        return mha_case_fail(record, "out of memory for qk_matmul_output");
    }
    memcpy(to->data, rounded, to->bytes);
    free(rounded);
    return true;
}

/*
 * The fused kernels keep no scores. When they are to be verified on a case that records scores,
 * the scores come from a second run, so that Y is still theirs.
 */
static bool run(struct mha_case *record, const struct mha_verify_settings *settings,
                struct mha_attention_problem *problem, struct mha_npy *scores)
{
    gpu_mha_desc *desc = &problem->desc;
    gpu_mha_arrays *arrays = &problem->arrays;
    bool fused = settings->method == GPU_MHA_FUSED;

    desc->method = settings->method;
    if (fused || problem->scores == GPU_MHA_SCORES_NONE) {
        if (!mha_library_ok(record, gpu_mha(settings->context, desc, arrays))) {
            return false;
        }
        if (problem->scores == GPU_MHA_SCORES_NONE) {
            return true;
        }
    }

    size_t output_bytes = record->outputs[Y].npy.bytes;
    void *unused = malloc(output_bytes ? output_bytes : 1);
    float *buffer = scores->count <= SIZE_MAX / sizeof *buffer
                        ? calloc(scores->count ? scores->count : 1, sizeof *buffer)
                        : NULL;
    bool ok = unused && buffer;
    if (!ok) {
        mha_case_fail(record, "out of memory for qk_matmul_output");
        goto cleanup;
    }
    desc->scores = problem->scores;
    arrays->scores = buffer;
    if (fused) {
        desc->method = GPU_MHA_STAGED;
        arrays->output = unused;
    }
    ok = mha_library_ok(record, gpu_mha(settings->context, desc, arrays)) &&
         store_scores(record, buffer, scores);
cleanup:
    free(unused);
    free(buffer);
    return ok;
}

static bool make_outputs(struct mha_case *record, const gpu_mha_desc *desc,
                         struct mha_computed *computed)
{
    const enum mha_npy_type type = record->inputs[Q].npy.type;
    const int64_t scores[4] = {desc->B, desc->H, desc->NQ, desc->NP + desc->NK};
    const int64_t rank4[4] = {desc->B, desc->H, desc->NQ, desc->DV};
    int64_t rank3[3] = {desc->B, desc->NQ, 0};

    if (!mha_computed_make(record, computed, QK_MATMUL_OUTPUT, type, 4, scores)) {
        return false;
    }
    if (record->inputs[Q].npy.rank == 4) {
        return mha_computed_make(record, computed, Y, type, 4, rank4);
    }
    if (desc->DV > INT64_MAX / desc->H) {
        return mha_case_fail(record, "Y is wider than can be counted");
    }
    rank3[2] = desc->H * desc->DV;
    return mha_computed_make(record, computed, Y, type, 3, rank3);
}

static bool compute(struct mha_case *record, const struct mha_verify_settings *settings,
                    struct mha_computed *computed)
{
    struct mha_attention_problem problem;

    bool ok = mha_attention_problem_read(record, &problem) &&
              make_outputs(record, &problem.desc, computed);
    if (ok) {
        problem.arrays.output = computed[Y].npy.data;
        ok = run(record, settings, &problem, &computed[QK_MATMUL_OUTPUT].npy) &&
             make_present(record, settings, &problem.desc, 0, computed) &&
             make_present(record, settings, &problem.desc, 1, computed);
    }
    mha_attention_problem_free(&problem);
    return ok;
}

const struct mha_operator mha_operator_attention = {
    "Attention", 23, attributes, inputs, outputs, compute,
};
