/*
 * attention.c - reference attention: one row at a time, two passes, float64; and its error bounds.
 *
 * The bounds, with u = 2^-24 (f32), w[j] the weights and one score's conditioning
 *   a[j]  = |scale| * sum_d |q[d]*k[j][d]| + |bias[j]| + |ALiBi[j]|
 *   ds[j] = u*4*a[j] + the error that q_error and k_error bring   (the error of score j)
 * Output: |o - o64| <= u_out*|o64| + half the smallest subnormal
 *                      + sum_j w[j]*(8u + ds[j])*|v[j]| + (sum_j w[j]*ds[j]) * sum_j w[j]*|v[j]|
 * A weight below 2^-126 of the row's largest may be 0: then w[j]*|v[j]| is added to the first.
 * LSE:    |lse - lse64| <= u*(8 + |lse64|) + sum_j w[j]*ds[j]
 *
 * Weight: w[j] = e[j]/l with e[j] = exp(s[j] - max), l = sum e. An error ds[j] changes e[j] by
 * the factor 1 + ds[j], and l by 1 + sum_j w[j]*ds[j], since dl/l = sum_j (e[j]/l)*ds[j]. exp, the
 * subtraction, the sum and the division add what the 8u of the output formula stands for. Hence
 *   |w - w64| <= w[j]*(8u + ds[j]) + w[j] * sum_j w[j]*ds[j]
 * and sum_j of that times |v[j]| is the output formula again. Added to it: the rounding to the
 * type of the weights, and 2^-126, because OpenCL lets a device flush an f32 subnormal to 0.
 * Dropout multiplies the weight and its bound by 1/(1-p), or both by 0.
 *
 * Scores: raw  4u*a without the bias' part;
 *         capped  + 16u*|capped|: tanh 5 ulp, division 2.5 ulp, one product, an ulp being up to
 *                 2u; x*tanh'(x) <= tanh(x), so errors before the tanh are never amplified;
 *         masked  ds[j], the a of which holds the bias, + 16u*|capped| when capped.
 */
#include "reference.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#define F32_SUBNORMAL 0x1p-149
#define F32_SMALLEST_NORMAL 0x1p-126

/* One row's scratch, (NK) each, and its sums. */
struct row {
    double *raw, *capped, *masked;
    double *softmax, *weights;
    double *raw_error; /* of the raw score */
    double *ds;        /* of the masked score */
    unsigned char *visible;
    int64_t visible_count;
    double lse;
    double sum;     /* of exp(s - max), the sink's included */
    double mean_ds; /* sum_j w[j]*ds[j] */
};

double ref_default_scale(int64_t DK)
{
    return 1.0 / sqrt((double)DK);
}

static int64_t offset_of(const struct ref_problem *p, int64_t b)
{
    return p->offset ? p->offset[b] : 0;
}

static int64_t matrix_index(const struct ref_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return ((b * p->H + h) * p->NQ + i) * p->NK + j;
}

int ref_visible(const struct ref_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int64_t ahead = j - i - offset_of(p, b); /* positions from the diagonal to the right */

    if (p->key_lengths && j >= p->key_lengths[b]) {
        return 0;
    }
    if (p->causal && ahead > 0) {
        return 0;
    }
    if (p->has_window && p->window_left >= 0 && -ahead > p->window_left) {
        return 0;
    }
    if (p->has_window && p->window_right >= 0 && ahead > p->window_right) {
        return 0;
    }
    if (p->mask && !p->mask[matrix_index(p, b, h, i, j)]) {
        return 0;
    }
    if (p->bias) {
        double bias = p->bias[matrix_index(p, b, h, i, j)];
        if (isinf(bias) && bias < 0) {
            return 0;
        }
    }
    return 1;
}

/* Raw and capped score of key j, and the error of the raw one. */
static void score_key(const struct ref_problem *p, int64_t b, int64_t h, int64_t i, int64_t j,
                      struct row *row)
{
    int64_t kv = b * p->HKV + h / (p->H / p->HKV);
    int64_t at_q = ((b * p->H + h) * p->NQ + i) * p->DK;
    int64_t at_k = (kv * p->NK + j) * p->DK;
    double dot = 0, size = 0, carried = 0;

    for (int64_t d = 0; d < p->DK; d++) {
        double q = p->q[at_q + d], k = p->k[at_k + d];
        double dq = p->q_error ? p->q_error[at_q + d] : 0;
        double dk = p->k_error ? p->k_error[at_k + d] : 0;
        dot += q * k;
        size += fabs(q * k);
        if (p->q_error || p->k_error) {
            carried += dq * fabs(k) + fabs(q) * dk + dq * dk;
        }
    }
    row->raw[j] = p->scale * dot;
    row->capped[j] = p->softcap > 0 ? p->softcap * tanh(row->raw[j] / p->softcap) : row->raw[j];
    /* An infinite score is infinite in any precision; a soft cap makes a finite one of it. */
    row->raw_error[j] =
        isinf(row->raw[j]) ? 0 : REF_U32 * 4 * fabs(p->scale) * size + fabs(p->scale) * carried;
}

/* First pass: scores, who is visible, and the largest logit (the sink is one). */
static double score_row(const struct ref_problem *p, int64_t b, int64_t h, int64_t i,
                        struct row *row)
{
    double largest = p->sinks ? p->sinks[h] : -INFINITY;

    row->visible_count = 0;
    for (int64_t j = 0; j < p->NK; j++) {
        row->visible[j] = (unsigned char)ref_visible(p, b, h, i, j);
        if (!row->visible[j] && !p->want_matrices) {
            continue;
        }
        score_key(p, b, h, i, j, row);
        row->masked[j] = -INFINITY;
        if (!row->visible[j]) {
            continue;
        }

        double bias = p->bias ? p->bias[matrix_index(p, b, h, i, j)] : 0;
        double distance = fabs((double)(i + offset_of(p, b) - j));
        double alibi = p->slopes ? -p->slopes[h] * distance : 0;
        row->visible_count++;
        row->masked[j] = row->capped[j] + bias + alibi;
        row->ds[j] = row->raw_error[j] + REF_U32 * 4 * (fabs(bias) + fabs(alibi));
        if (isinf(row->raw[j]) && p->softcap > 0) {
            row->ds[j] += REF_U32 * 4 * p->softcap; /* it goes on as a score of that size */
        }
        largest = fmax(largest, row->masked[j]); /* a NaN shows up in the sum */
    }
    return largest;
}

/* Second pass: softmax, dropout, LSE. */
static void softmax_row(const struct ref_problem *p, int64_t b, int64_t h, int64_t i,
                        double largest, struct row *row)
{
    double sum = 0;

    /* Visible scores that are all -inf: exp(-inf) = 0 each, so 0/0 in the weights, ln 0 as LSE. */
    if (isinf(largest) && largest < 0) {
        largest = 0;
    }
    for (int64_t j = 0; j < p->NK; j++) {
        row->softmax[j] = row->visible[j] ? exp(row->masked[j] - largest) : 0;
        sum += row->softmax[j];
    }
    if (row->visible_count == 0) {
        row->lse = p->sinks ? p->sinks[h] : -INFINITY;
    } else {
        if (p->sinks) {
            sum += exp(p->sinks[h] - largest);
        }
        row->lse = largest + log(sum);
    }

    row->sum = sum;
    row->mean_ds = 0;
    for (int64_t j = 0; j < p->NK; j++) {
        row->weights[j] = 0;
        if (!row->visible[j]) {
            continue;
        }
        row->softmax[j] /= sum;
        if (p->dropout.p <= 0) {
            row->weights[j] = row->softmax[j];
        } else if (ref_dropout_keep(p->dropout, b * p->H + h, i, j)) {
            row->weights[j] = row->softmax[j] / (1 - p->dropout.p);
        } else {
            row->weights[j] = row->softmax[j] * 0; /* a NaN stays one */
        }
        /* A weight of exactly 0 has no error, and its conditioning may be infinite. */
        if (row->softmax[j] != 0) {
            row->mean_ds += row->softmax[j] * row->ds[j];
        }
    }
}

/* o and its bound, (DV) each; `spread` is scratch (DV) for sum_j w[j]*|v[j]|. */
static void output_row(const struct ref_problem *p, int64_t b, int64_t h, const struct row *row,
                       double *spread, double *o, double *bound)
{
    int64_t kv = b * p->HKV + h / (p->H / p->HKV);

    for (int64_t d = 0; d < p->DV; d++) {
        o[d] = bound[d] = spread[d] = 0;
    }
    if (row->visible_count == 0) {
        return;
    }

    for (int64_t j = 0; j < p->NK; j++) {
        int64_t at_v = (kv * p->NK + j) * p->DV;
        double w = row->weights[j];
        /* A rounded exponent may lie on either side of the edge. */
        int counts_as_0 = row->softmax[j] * row->sum < 2 * F32_SMALLEST_NORMAL;
        if (!row->visible[j]) {
            continue;
        }
        for (int64_t d = 0; d < p->DV; d++) {
            o[d] += w * p->v[at_v + d];
        }
        if (w == 0) {
            continue;
        }
        for (int64_t d = 0; d < p->DV; d++) {
            spread[d] += w * fabs(p->v[at_v + d]);
            bound[d] += w * (8 * REF_U32 + row->ds[j]) * fabs(p->v[at_v + d]);
            if (p->v_error) {
                bound[d] += w * p->v_error[at_v + d];
            }
            if (counts_as_0) {
                bound[d] += w * fabs(p->v[at_v + d]);
            }
        }
    }
    for (int64_t d = 0; d < p->DV; d++) {
        bound[d] += row->mean_ds * spread[d];
        bound[d] += p->u_out * fabs(o[d]) + p->out_subnormal / 2;
    }
}

/* Copies one row's scratch into the (B,H,NQ,NK) arrays and adds the bounds. */
static void matrix_row(const struct ref_problem *p, int64_t bh, int64_t i, const struct row *row,
                       struct ref_result *r)
{
    double half = p->aux_subnormal / 2;

    for (int64_t j = 0; j < p->NK; j++) {
        int64_t at = (bh * p->NQ + i) * p->NK + j;
        double w = row->softmax[j];
        double capping = p->softcap > 0 ? 16 * REF_U32 * fabs(row->capped[j]) : 0;

        r->raw[at] = row->raw[j];
        r->capped[at] = row->capped[j];
        r->masked[at] = row->masked[j];
        r->softmax[at] = w;
        r->weights[at] = row->weights[j];

        r->bound_raw[at] = row->raw_error[j] + p->u_aux * fabs(row->raw[j]) + half;
        r->bound_capped[at] = row->raw_error[j] + capping + p->u_aux * fabs(row->capped[j]) + half;
        if (!row->visible[j]) {
            continue; /* -inf, 0 and 0 exactly */
        }
        r->bound_masked[at] = row->ds[j] + capping + p->u_aux * fabs(row->masked[j]) + half;
        r->bound_softmax[at] = F32_SMALLEST_NORMAL + p->u_aux * w + half;
        if (w != 0) {
            r->bound_softmax[at] += w * (8 * REF_U32 + row->ds[j] + row->mean_ds);
        }
        if (p->dropout.p <= 0) {
            r->bound_weights[at] = r->bound_softmax[at];
        } else if (ref_dropout_keep(p->dropout, bh, i, j)) {
            r->bound_weights[at] = r->bound_softmax[at] / (1 - p->dropout.p);
        }
    }
}

int ref_is_sane(const struct ref_problem *p)
{
    if (p->B < 0 || p->NQ < 0 || p->NK < 0 || p->H < 1 || p->HKV < 1 || p->DK < 1 || p->DV < 1) {
        return 0;
    }
    if (p->H % p->HKV != 0 || p->window_left < -1 || p->window_right < -1) {
        return 0;
    }
    return p->dropout.p >= 0 && p->dropout.p < 1;
}

/* a*b*c*d doubles (at least one), or NULL when that is too many. */
static double *alloc4(int64_t a, int64_t b, int64_t c, int64_t d)
{
    int64_t dims[4] = {a, b, c, d};
    size_t count = 1;

    for (int n = 0; n < 4; n++) {
        if (dims[n] == 0) {
            return calloc(1, sizeof(double));
        }
    }
    for (int n = 0; n < 4; n++) {
        if ((uint64_t)dims[n] > SIZE_MAX / sizeof(double) / count) {
            return NULL;
        }
        count *= (size_t)dims[n];
    }
    return calloc(count, sizeof(double));
}

static int alloc_result(const struct ref_problem *p, struct ref_result *r)
{
    double **matrices[] = {&r->raw,           &r->capped,       &r->masked,       &r->softmax,
                           &r->weights,       &r->bound_raw,    &r->bound_capped, &r->bound_masked,
                           &r->bound_softmax, &r->bound_weights};

    r->o = alloc4(p->B, p->H, p->NQ, p->DV);
    r->bound_o = alloc4(p->B, p->H, p->NQ, p->DV);
    r->lse = alloc4(p->B, p->H, p->NQ, 1);
    r->bound_lse = alloc4(p->B, p->H, p->NQ, 1);
    /* Checked by the array above, which has as many elements of the same size. */
    r->visible = r->lse ? calloc((size_t)(p->B * p->H * p->NQ) + 1, sizeof(int64_t)) : NULL;
    if (!r->o || !r->bound_o || !r->lse || !r->bound_lse || !r->visible) {
        return -1;
    }
    for (size_t n = 0; p->want_matrices && n < sizeof(matrices) / sizeof(matrices[0]); n++) {
        *matrices[n] = alloc4(p->B, p->H, p->NQ, p->NK);
        if (!*matrices[n]) {
            return -1;
        }
    }
    return 0;
}

void ref_result_free(struct ref_result *r)
{
    free(r->o);
    free(r->lse);
    free(r->visible);
    free(r->bound_o);
    free(r->bound_lse);
    free(r->raw);
    free(r->capped);
    free(r->masked);
    free(r->softmax);
    free(r->weights);
    free(r->bound_raw);
    free(r->bound_capped);
    free(r->bound_masked);
    free(r->bound_softmax);
    free(r->bound_weights);
    *r = (struct ref_result){0};
}

static void solve_rows(const struct ref_problem *p, struct row *row, double *spread,
                       struct ref_result *r)
{
    for (int64_t n = 0; n < p->B * p->H * p->NQ; n++) {
        int64_t b = n / p->NQ / p->H, h = n / p->NQ % p->H, i = n % p->NQ;
        double largest = score_row(p, b, h, i, row);

        softmax_row(p, b, h, i, largest, row);
        output_row(p, b, h, row, spread, r->o + n * p->DV, r->bound_o + n * p->DV);
        r->lse[n] = row->lse;
        r->visible[n] = row->visible_count;
        r->bound_lse[n] = isinf(row->lse) ? 0 : REF_U32 * (8 + fabs(row->lse)) + row->mean_ds;
        if (p->want_matrices) {
            matrix_row(p, n / p->NQ, i, row, r);
        }
    }
}

int ref_attention(const struct ref_problem *problem, struct ref_result *r)
{
    struct ref_problem p = *problem;
    struct row row = {0};
    double *scratch = NULL, *spread = NULL;
    int status = -1;

    *r = (struct ref_result){0};
    if (!ref_is_sane(&p)) {
        goto cleanup;
    }
    if (p.u_out <= 0) {
        p.u_out = REF_U32;
        p.out_subnormal = F32_SUBNORMAL;
    }
    if (p.u_aux <= 0) {
        p.u_aux = REF_U32;
        p.aux_subnormal = F32_SUBNORMAL;
    }

    scratch = alloc4(7, p.NK, 1, 1);
    spread = alloc4(p.DV, 1, 1, 1);
    row.visible = calloc((size_t)p.NK + 1, 1);
    if (!scratch || !spread || !row.visible || alloc_result(&p, r) != 0) {
        goto cleanup;
    }
    row.raw = scratch;
    row.capped = scratch + p.NK;
    row.masked = scratch + 2 * p.NK;
    row.softmax = scratch + 3 * p.NK;
    row.weights = scratch + 4 * p.NK;
    row.raw_error = scratch + 5 * p.NK;
    row.ds = scratch + 6 * p.NK;
    solve_rows(&p, &row, spread, r);
    status = 0;

cleanup:
    if (status != 0) {
        ref_result_free(r);
    }
    free(row.visible);
    free(spread);
    free(scratch);
    return status;
}
