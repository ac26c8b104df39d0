/*
 * gpu-mha doctor tries one kind of attention kernel: problems, the float64 reference, and the run.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "doctor.h"

/* ---- reference ----------------------------------------------------------------------------- */

/* One row of scores; -INFINITY where the key is hidden. `a` is the conditioning of each. */
static void score_row(const struct mha_doctor_problem *problem, int64_t b, int64_t i,
                      const double *query, const double *key, double *scores, double *a)
{
    const gpu_mha_desc *d = &problem->desc;
    const double scale = d->has_scale ? (double)d->scale : 1.0 / sqrt((double)d->DK);
    const int64_t length = d->key_lengths ? problem->lengths[b] : d->NK;
    const int64_t offset = d->offset_kind == GPU_MHA_BOTTOM_RIGHT ? length - d->NQ : 0;

    for (int64_t j = 0; j < d->NK; j++) {
        const bool hidden = j >= length || (d->causal && j > i + offset) ||
                            (problem->mask && !problem->mask[i * d->NK + j]);
        double dot = 0, size = 0;
        for (int64_t c = 0; c < d->DK; c++) {
            const double product = query[c] * key[j * d->DK + c];
            dot += product;
            size += fabs(product);
        }
        dot *= scale;
        scores[j] = hidden           ? -INFINITY
                    : d->softcap > 0 ? (double)d->softcap * tanh(dot / (double)d->softcap)
                                     : dot;
        a[j] = fabs(scale) * size;
    }
}

/* Turns scores into weights; returns the LSE. */
static double soften(double *scores, int64_t count)
{
    double largest = -INFINITY, sum = 0;

    for (int64_t j = 0; j < count; j++) {
        largest = fmax(largest, scores[j]);
    }
    for (int64_t j = 0; j < count; j++) {
        scores[j] = largest == -INFINITY ? 0 : exp(scores[j] - largest);
        sum += scores[j];
    }
    for (int64_t j = 0; j < count && sum > 0; j++) {
        scores[j] /= sum;
    }
    return sum > 0 ? largest + log(sum) : -INFINITY;
}

/* One output row, with the bound of the public header. */
static void weigh_row(const gpu_mha_desc *d, const double *weights, const double *a,
                      const double *value, struct mha_doctor_output *output, size_t first)
{
    double spread = 0;

    for (int64_t j = 0; j < d->NK; j++) {
        spread += 4 * weights[j] * a[j];
    }
    for (int64_t c = 0; c < d->DV; c++) {
        double sum = 0, size = 0, own = 0;
        for (int64_t j = 0; j < d->NK; j++) {
            const double v = value[j * d->DV + c];
            sum += weights[j] * v;
            size += weights[j] * fabs(v);
            own += weights[j] * (8 + 4 * a[j]) * fabs(v);
        }
        mha_doctor_want(output, first + (size_t)c, sum, 0x1p-24 * (own + spread * size));
    }
}

void mha_doctor_reference(const struct mha_doctor_problem *problem, const double *query,
                          const double *key, const double *value, struct mha_doctor_output *output,
                          struct mha_doctor_output *lse)
{
    const gpu_mha_desc *d = &problem->desc;
    double *scores = malloc(2 * (size_t)d->NK * sizeof *scores);
    double *const a = scores + d->NK;

    for (int64_t row = 0; scores && row < d->B * d->H * d->NQ; row++) {
        const int64_t b = row / (d->H * d->NQ), h = row / d->NQ % d->H, i = row % d->NQ;
        const int64_t head = b * d->HKV + h / (d->H / d->HKV);
        double sum = 0;
        score_row(problem, b, i, query + row * d->DK, key + head * d->NK * d->DK, scores, a);
        const double row_lse = soften(scores, d->NK);
        for (int64_t j = 0; j < d->NK; j++) {
            sum += scores[j] * a[j];
        }
        weigh_row(d, scores, a, value + head * d->NK * d->DV, output, (size_t)(row * d->DV));
        if (lse) {
            mha_doctor_want(lse, (size_t)row, row_lse,
                            isinf(row_lse) ? 0 : 0x1p-24 * (8 + fabs(row_lse) + 4 * sum));
        }
    }
    /* Without memory every wanted value stays 0 within 0, which nothing keeps. */
    free(scores);
}

/* ---- problems ------------------------------------------------------------------------------ */

/*
 * The first problem of a kind has everything: masks, lengths, causal, soft cap, grouped heads. The
 * second, in single precision alone, is plain, with wider heads or with keys enough to be split.
 */
static gpu_mha_desc problem_of(const gpu_mha_variant_info *variant, int second)
{
    gpu_mha_desc desc = {.struct_size = sizeof desc, .lse = 1, .method = variant->method};
    const bool decode = !strncmp(variant->name, "decode ", 7);
    const bool heads = !strncmp(variant->name, "heads ", 6);

    desc.B = second ? 1 : 2;
    desc.H = second ? 2 : 4;
    desc.HKV = second ? 1 : 2;
    desc.NQ = decode ? 3 - second : second ? 5 : 37;
    desc.NK = second ? 1500 : 150;
    desc.DK = second && !decode ? 128 : 64;
    desc.DV = second ? 96 : 64;
    if (heads && second) {
        desc.B = 3;
        desc.H = desc.HKV = 4;
        desc.NQ = desc.NK = 23;
        desc.DK = 40;
        desc.DV = 32;
    }
    if (!second) {
        desc.causal = 1;
        desc.offset_kind = GPU_MHA_BOTTOM_RIGHT;
        desc.key_lengths = GPU_MHA_I32;
        desc.softcap = 30;
        desc.mask = (gpu_mha_mask){.type = GPU_MHA_MASK_BOOL, .shape = {1, 1, desc.NQ, desc.NK}};
    }
    return desc;
}

static bool make_mask(const gpu_mha_desc *desc, uint8_t **mask)
{
    *mask = malloc((size_t)(desc->NQ * desc->NK));
    for (int64_t at = 0; *mask && at < desc->NQ * desc->NK; at++) {
        (*mask)[at] = (7 * (at / desc->NK) + 3 * (at % desc->NK)) % 11 != 0;
    }
    return *mask != NULL;
}

static void log_nothing(void *user, const char *level, const char *line)
{
    (void)user;
    (void)level;
    (void)line;
}

/* Makes the other attention variants ones to avoid, or as they were in `before`. */
static void set_others(gpu_mha_context *context, const char *name, bool avoid,
                       gpu_mha_variant_info *before, size_t count)
{
    gpu_mha_set_log(log_nothing, NULL); /* that this is kept nowhere */
    for (size_t i = 0; i < count; i++) {
        if (before[i].tile[0] && strcmp(before[i].name, name) != 0) {
            gpu_mha_verdict_set(context, before[i].name, GPU_MHA_F32,
                                avoid ? GPU_MHA_VERDICT_WRONG : before[i].verdicts[GPU_MHA_F32],
                                NULL);
        }
    }
    gpu_mha_set_log(NULL, NULL);
}

/*
 * Another variant ran. Where one does not build or prepare, the library takes the next; with
 * nothing else to take it says what failed.
 */
static void find_failure(gpu_mha_context *context, const char *name, const gpu_mha_desc *desc,
                         struct mha_doctor_finding *finding)
{
    gpu_mha_plan *plan = NULL;
    gpu_mha_variant_info *before = NULL;
    size_t count = 0;

    if (!gpu_mha_variant_count(context, &count)) {
        before = calloc(count, sizeof *before);
    }
    for (size_t i = 0; before && i < count; i++) {
        before[i].struct_size = sizeof before[i];
        if (gpu_mha_variant_get(context, i, &before[i])) {
            count = i;
        }
    }
    if (before) {
        set_others(context, name, true, before, count);
        const gpu_mha_status status = gpu_mha_plan_create(context, desc, &plan);
        if (status != GPU_MHA_UNSUPPORTED) {
            mha_doctor_called(status, finding);
        }
        gpu_mha_plan_release(plan);
        set_others(context, name, false, before, count);
    }
    free(before);
}

/* Runs it through a plan, which alone tells what ran, and the blocking call. */
static void run(gpu_mha_context *context, const gpu_mha_variant_info *variant,
                const gpu_mha_desc *desc, const gpu_mha_arrays *arrays,
                struct mha_doctor_finding *finding)
{
    gpu_mha_plan *plan = NULL;

    if (!mha_doctor_called(gpu_mha_plan_create(context, desc, &plan), finding)) {
        return;
    }
    if (strcmp(gpu_mha_plan_variant(plan), variant->name) != 0) {
        finding->verdict = GPU_MHA_VERDICT_REFUSED;
        snprintf(finding->sentence, sizeof finding->sentence,
                 "it does not fit the device: \"%s\" ran in its place", gpu_mha_plan_variant(plan));
        find_failure(context, variant->name, desc, finding);
    }
    gpu_mha_plan_release(plan);
    if (finding->verdict == GPU_MHA_VERDICT_NONE) {
        mha_doctor_called(gpu_mha(context, desc, arrays), finding);
    }
}

static void try_problem(gpu_mha_context *context, const gpu_mha_variant_info *variant,
                        gpu_mha_type type, int second, struct mha_doctor_finding *finding)
{
    static const int32_t lengths[] = {150, 97};
    gpu_mha_desc desc = problem_of(variant, second);
    struct mha_doctor_array query, key, value;
    struct mha_doctor_output output, lse;
    uint8_t *mask = NULL;
    const size_t rows = (size_t)(desc.B * desc.H * desc.NQ);
    const size_t keys = (size_t)(desc.B * desc.HKV * desc.NK);

    desc.query.type = desc.key.type = desc.value.type = desc.output.type = type;
    bool made = mha_doctor_random(&query, type, rows * (size_t)desc.DK, 1);
    made = mha_doctor_random(&key, type, keys * (size_t)desc.DK, 2) && made;
    made = mha_doctor_random(&value, type, keys * (size_t)desc.DV, 3) && made;
    made = mha_doctor_output_make(&output, type, rows * (size_t)desc.DV) && made;
    made = mha_doctor_output_make(&lse, GPU_MHA_F32, rows) && made;
    made = (second || make_mask(&desc, &mask)) && made;
    if (!made) {
        mha_doctor_no_memory(finding);
        goto cleanup;
    }
    const gpu_mha_arrays arrays = {.struct_size = sizeof arrays,
                                   .query = query.data,
                                   .key = key.data,
                                   .value = value.data,
                                   .mask = mask,
                                   .key_lengths = second ? NULL : lengths,
                                   .output = output.data,
                                   .lse = lse.data};
    run(context, variant, &desc, &arrays, finding);
    if (finding->verdict == GPU_MHA_VERDICT_NONE) {
        const struct mha_doctor_problem problem = {desc, lengths, mask};
        mha_doctor_reference(&problem, query.values, key.values, value.values, &output, &lse);
        mha_doctor_judge(&output, finding);
        mha_doctor_judge(&lse, finding);
    }

cleanup:
    mha_doctor_free(&query);
    mha_doctor_free(&key);
    mha_doctor_free(&value);
    mha_doctor_output_free(&output);
    mha_doctor_output_free(&lse);
    free(mask);
}

void mha_doctor_try_attention(gpu_mha_context *context, const gpu_mha_variant_info *variant,
                              gpu_mha_type type, struct mha_doctor_finding *finding)
{
    struct mha_doctor_finding second = {.verdict = GPU_MHA_VERDICT_NONE};

    setenv("GPU_MHA_TILE", variant->tile, 1);
    try_problem(context, variant, type, 0, finding);
    if (type != GPU_MHA_F32 || finding->verdict != GPU_MHA_VERDICT_OK) {
        return;
    }
    try_problem(context, variant, type, 1, &second);
    /* A device with room for the first alone has the variant all the same. */
    if (second.verdict == GPU_MHA_VERDICT_REFUSED || second.verdict == GPU_MHA_VERDICT_NONE) {
        return;
    }
    if (second.verdict != GPU_MHA_VERDICT_OK ||
        mha_share_of_bound(second.error, second.bound) >
            mha_share_of_bound(finding->error, finding->bound)) {
        *finding = second;
    }
}
