/*
 * split.c - see split.h.
 */
#include "split.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 5

/* ---- parts ---- */

/* Columns first .. first + count - 1 of (rows, NT, inner). */
static void *columns(const void *from, int64_t rows, int64_t NT, int64_t first, int64_t count,
                     size_t inner_bytes)
{
    unsigned char *to;

    if (!from) {
        return NULL;
    }
    to = attention_alloc(rows * count, inner_bytes);
    for (int64_t r = 0; r < rows; r++) {
        memcpy(to + (size_t)(r * count) * inner_bytes,
               (const unsigned char *)from + (size_t)(r * NT + first) * inner_bytes,
               (size_t)count * inner_bytes);
    }
    return to;
}

static int64_t clamp(int64_t n, int64_t low, int64_t high)
{
    return n < low ? low : n > high ? high : n;
}

/* Keys first .. first + count - 1; the sinks belong to one part. */
static struct dense part_of(const struct dense *whole, int64_t first, int64_t count, int with_sinks)
{
    const gpu_mha_desc *d = &whole->desc;
    const int64_t matrix = d->B * d->H * d->NQ, NT = whole->NT;
    struct dense part = dense_copy(whole);

    free(part.k);
    free(part.v);
    free(part.mask);
    free(part.bias);
    part.k = columns(whole->k, d->B * d->HKV, NT, first, count, (size_t)d->DK * sizeof(double));
    part.v = columns(whole->v, d->B * d->HKV, NT, first, count, (size_t)d->DV * sizeof(double));
    part.mask = columns(whole->mask, matrix, NT, first, count, 1);
    part.bias = columns(whole->bias, matrix, NT, first, count, sizeof(double));
    for (int64_t b = 0; part.key_lengths && b < d->B; b++) {
        part.key_lengths[b] = clamp(part.key_lengths[b] - first, 0, count);
    }
    if (!with_sinks) {
        free(part.sinks);
        part.sinks = NULL;
    }
    part.desc.offset = dense_offset(whole, 0) - first;
    part.desc.offset_kind = GPU_MHA_OFFSET;
    part.desc.NP = clamp(d->NP - first, 0, count);
    part.desc.NK = count - part.desc.NP;
    part.desc.output.type = GPU_MHA_F32;
    part.NT = count;
    return part;
}

/* ---- merging ---- */

static void *floats_of(const double *values, int64_t count, enum storage_type type)
{
    void *packed = attention_alloc(count, storage_size(type));

    storage_pack(type, packed, values, count);
    return packed;
}

/* Bounds of what merging gives: those of the merge, and what the parts' own errors make of it. */
static void carry_bounds(const struct dense_result *a, const struct dense_result *b,
                         const double *lse, struct dense_result *to)
{
    for (int64_t r = 0; r < to->rows; r++) {
        const int only_a = isinf(b->lse[r]) && b->lse[r] < 0,
                  only_b = isinf(a->lse[r]) && a->lse[r] < 0;
        const double off = a->bound_lse[r] + b->bound_lse[r];
        const double share_a = only_b ? 0 : only_a ? 1 : exp(a->lse[r] - lse[r]);
        const double share_b = only_a ? 0 : only_b ? 1 : exp(b->lse[r] - lse[r]);
        to->bound_lse[r] += only_a   ? a->bound_lse[r]
                            : only_b ? b->bound_lse[r]
                                     : fmax(a->bound_lse[r], b->bound_lse[r]);
        for (int64_t at = r * to->DV; at < (r + 1) * to->DV; at++) {
            double carried = 0;
            if (share_a > 0) {
                carried += share_a * exp(off) * a->bound_o[at];
            }
            if (share_b > 0) {
                carried += share_b * exp(off) * b->bound_o[at];
            }
            if (share_a > 0 && share_b > 0) { /* shares that are off by this change the mean */
                carried += share_a * share_b * expm1(off) * fabs(a->o[at] - b->o[at]);
            }
            to->bound_o[at] += carried;
        }
    }
}

/* The sides' rows, where the other side is empty, must have come through to the bit. */
static int identity_holds(const struct dense_result *a, const struct dense_result *b,
                          const struct dense_result *merged)
{
    for (int64_t r = 0; r < merged->rows; r++) {
        const int no_a = isinf(a->lse[r]) && a->lse[r] < 0,
                  no_b = isinf(b->lse[r]) && b->lse[r] < 0;
        const struct dense_result *other = no_a ? b : a;
        const size_t bytes = (size_t)merged->DV * sizeof(double);
        if (no_a != no_b &&
            (memcmp(&merged->lse[r], &other->lse[r], sizeof(double)) != 0 ||
             memcmp(merged->o + r * merged->DV, other->o + r * merged->DV, bytes) != 0)) {
            printf("row %" PRId64 " changed when an empty part was merged\n", r);
            return 0;
        }
    }
    return 1;
}

/* gpu_mha_merge() of two results in f32; 0, or -1. */
static int merge_on_device(gpu_mha_context *context, const gpu_mha_desc *d,
                           const struct dense_result *a, const struct dense_result *b,
                           gpu_mha_type type, struct dense_result *to)
{
    const int64_t elements = to->rows * to->DV;
    gpu_mha_merge_desc desc = {.B = d->B, .H = d->H, .NQ = d->NQ, .DV = d->DV, .output.type = type};
    void *inputs[] = {
        floats_of(a->o, elements, STORAGE_F32), floats_of(a->lse, to->rows, STORAGE_F32),
        floats_of(b->o, elements, STORAGE_F32), floats_of(b->lse, to->rows, STORAGE_F32)};
    void *output = attention_alloc(elements, storage_size((enum storage_type)type));
    float *lse = attention_alloc(to->rows, sizeof(float));
    gpu_mha_merge_arrays arrays = {.a = inputs[0],
                                   .lse_a = inputs[1],
                                   .b = inputs[2],
                                   .lse_b = inputs[3],
                                   .output = output,
                                   .lse = lse};
    int status = gpu_mha_merge(context, &desc, &arrays) == GPU_MHA_OK ? 0 : -1;

    if (status != 0) {
        printf("gpu_mha_merge: %s\n", gpu_mha_last_error());
    }
    storage_unpack((enum storage_type)type, to->o, output, elements);
    storage_unpack(STORAGE_F32, to->lse, lse, to->rows);
    for (int n = 0; n < 4; n++) {
        free(inputs[n]);
    }
    free(output);
    free(lse);
    return status;
}

/* *a becomes the merged one, in `type`; *b is freed. 0, or -1. */
static int merge_into(gpu_mha_context *context, const gpu_mha_desc *d, struct dense_result *a,
                      struct dense_result *b, gpu_mha_type type)
{
    const int64_t elements = a->rows * a->DV;
    struct dense_result merged = {.rows = a->rows,
                                  .DV = a->DV,
                                  .o = alloc_doubles(elements),
                                  .bound_o = alloc_doubles(elements),
                                  .lse = alloc_doubles(a->rows),
                                  .bound_lse = alloc_doubles(a->rows)};
    struct ref_merge reference = {.rows = a->rows,
                                  .DV = a->DV,
                                  .o1 = a->o,
                                  .o2 = b->o,
                                  .lse1 = a->lse,
                                  .lse2 = b->lse,
                                  .u_out = storage_unit_roundoff((enum storage_type)type),
                                  .out_subnormal =
                                      storage_smallest_subnormal((enum storage_type)type)};
    double *o = alloc_doubles(elements), *lse = alloc_doubles(a->rows);

    ref_merge(&reference, o, lse, merged.bound_o, merged.bound_lse);
    carry_bounds(a, b, lse, &merged);
    if (type != GPU_MHA_F32) { /* rows that come through are stored in the other type, too */
        for (int64_t n = 0; n < elements; n++) {
            merged.bound_o[n] += reference.u_out * fabs(o[n]) + reference.out_subnormal;
        }
    }
    int status = merge_on_device(context, d, a, b, type, &merged);
    if (status == 0 && type == GPU_MHA_F32 && !identity_holds(a, b, &merged)) {
        status = -1;
    }
    free(lse);
    free(o);
    dense_result_free(a);
    dense_result_free(b);
    *a = merged;
    return status;
}

/* ---- both ---- */

/* Where parts begin; parts may be empty, at the ends as well. */
static int draw_cuts(struct rng *rng, int64_t NT, int64_t cuts[PARTS_MAX + 1])
{
    int parts = 2 + (int)rng_below(rng, PARTS_MAX - 1);

    cuts[0] = 0;
    cuts[parts] = NT;
    for (int n = 1; n < parts; n++) {
        int64_t cut = rng_below(rng, NT + 1);
        int at = n;
        while (at > 1 && cuts[at - 1] > cut) {
            cuts[at] = cuts[at - 1];
            at--;
        }
        cuts[at] = cut;
    }
    return parts;
}

static int run_part(gpu_mha_context *context, const struct dense *whole, const int64_t cut[2],
                    int with_sinks, struct dense_result *result)
{
    struct dense part = part_of(whole, cut[0], cut[1] - cut[0], with_sinks);
    gpu_mha_plan *plan = NULL;
    int status = dense_run(context, &part, &plan, result);

    gpu_mha_plan_release(plan);
    dense_free(&part);
    return status;
}

int split_and_merge(gpu_mha_context *context, struct rng *rng, const struct dense *whole,
                    struct dense_result *result)
{
    struct dense_result results[PARTS_MAX] = {{0}};
    int64_t cuts[PARTS_MAX + 1];
    int left = draw_cuts(rng, whole->NT, cuts), status = 0;

    for (int n = 0; n < left && status == 0; n++) {
        status = run_part(context, whole, cuts + n, n == 0, &results[n]);
    }
    for (; left > 1 && status == 0; left--) { /* any two become one, the last fills the gap */
        const int64_t a = rng_below(rng, left - 1), b = a + 1 + rng_below(rng, left - 1 - a);
        status = merge_into(context, &whole->desc, &results[a], &results[b],
                            left == 2 ? whole->desc.output.type : GPU_MHA_F32);
        results[b] = results[left - 1];
        results[left - 1] = (struct dense_result){0};
    }
    *result = results[0];
    for (int n = status == 0 ? 1 : 0; n < PARTS_MAX; n++) {
        dense_result_free(&results[n]);
    }
    return status;
}
