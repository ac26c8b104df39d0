/*
 * operators.c - reference of the operators around attention: merge of partial results, rotary
 * embedding, cache update, linear map, ALiBi slopes, head split, merge and average.
 */
#include "reference.h"

#include <math.h>
#include <string.h>

#define F32_SUBNORMAL 0x1p-149

/* What storing `x` adds to its error; u_out = 0 stands for f32. */
static double storing(double x, double u_out, double out_subnormal)
{
    if (u_out <= 0) {
        return REF_U32 * fabs(x) + F32_SUBNORMAL / 2;
    }
    return u_out * fabs(x) + out_subnormal / 2;
}

static int is_empty(double lse)
{
    return isinf(lse) && lse < 0;
}

/* One row of which a part is empty: the other part comes through as it is. */
static void keep_row(int64_t DV, const double *only, double *o, double *bound_o)
{
    for (int64_t d = 0; d < DV; d++) {
        o[d] = only ? only[d] : 0;
        if (bound_o) {
            bound_o[d] = 0;
        }
    }
}

/*
 * One row. Two parts are attention over two keys, whose scores are lse1 and lse2 and whose values
 * are o1 and o2, so the bounds are those of attention with a[j] = |lse[j]|.
 */
static double merge_row(const struct ref_merge *m, int64_t n, double *o, double *lse,
                        double *bound_o)
{
    const double *o1 = m->o1 + n * m->DV, *o2 = m->o2 + n * m->DV;
    double largest = fmax(m->lse1[n], m->lse2[n]);
    double e1 = exp(m->lse1[n] - largest), e2 = exp(m->lse2[n] - largest);
    double w1 = e1 / (e1 + e2), w2 = e2 / (e1 + e2);
    double ds1 = REF_U32 * 4 * fabs(m->lse1[n]), ds2 = REF_U32 * 4 * fabs(m->lse2[n]);
    double mean_ds = w1 * ds1 + w2 * ds2;

    *lse = largest + log(e1 + e2);
    for (int64_t d = 0; d < m->DV; d++) {
        double v1 = w1 * fabs(o1[d]), v2 = w2 * fabs(o2[d]);
        o[d] = w1 * o1[d] + w2 * o2[d];
        if (bound_o) {
            bound_o[d] = storing(o[d], m->u_out, m->out_subnormal) + v1 * (8 * REF_U32 + ds1) +
                         v2 * (8 * REF_U32 + ds2) + mean_ds * (v1 + v2);
        }
    }
    return REF_U32 * (8 + fabs(*lse)) + mean_ds;
}

void ref_merge(const struct ref_merge *m, double *o, double *lse, double *bound_o,
               double *bound_lse)
{
    for (int64_t n = 0; n < m->rows; n++) {
        int64_t at = n * m->DV;
        double *bound_row = bound_o ? bound_o + at : NULL;
        double error = 0;

        if (is_empty(m->lse1[n])) {
            keep_row(m->DV, is_empty(m->lse2[n]) ? NULL : m->o2 + at, o + at, bound_row);
            lse[n] = m->lse2[n];
        } else if (is_empty(m->lse2[n])) {
            keep_row(m->DV, m->o1 + at, o + at, bound_row);
            lse[n] = m->lse1[n];
        } else {
            error = merge_row(m, n, o + at, lse + n, bound_row);
        }
        if (bound_lse) {
            bound_lse[n] = error;
        }
    }
}

/* Turns the pair (x[at1], x[at2]) by the angle whose cosine and sine are given. */
static void turn_pair(const struct ref_rotary *r, const double *x, const double *x_error,
                      int64_t at1, int64_t at2, double cosine, double sine, double *y,
                      double *bound)
{
    y[at1] = cosine * x[at1] - sine * x[at2];
    y[at2] = sine * x[at1] + cosine * x[at2];
    if (!bound) {
        return;
    }

    /* Two products and a sum, one rounding each, doubled for coefficients kept in f32. */
    double c = fabs(cosine), s = fabs(sine);
    bound[at1] = storing(y[at1], r->u_out, r->out_subnormal) +
                 4 * REF_U32 * (c * fabs(x[at1]) + s * fabs(x[at2]));
    bound[at2] = storing(y[at2], r->u_out, r->out_subnormal) +
                 4 * REF_U32 * (s * fabs(x[at1]) + c * fabs(x[at2]));
    if (x_error) {
        bound[at1] += c * x_error[at1] + s * x_error[at2];
        bound[at2] += s * x_error[at1] + c * x_error[at2];
    }
}

int ref_rotary(const struct ref_rotary *r, const double *x, const double *x_error, double *y,
               double *bound)
{
    int64_t R = r->R == 0 ? r->D : r->R;

    if (R < 0 || R % 2 != 0 || R > r->D) {
        return -1;
    }
    for (int64_t n = 0; r->positions && n < r->B * r->N; n++) {
        if (r->positions[n] < 0 || r->positions[n] >= r->max_pos) {
            return -1;
        }
    }

    for (int64_t row = 0; row < r->B * r->H * r->N; row++) {
        int64_t b = row / r->N / r->H, n = row % r->N, at = row * r->D;
        int64_t token = b * r->N + n;
        int64_t angles = (r->positions ? r->positions[token] : token) * (R / 2);

        for (int64_t m = 0; m < R / 2; m++) {
            int64_t d1 = r->interleaved ? 2 * m : m;
            int64_t d2 = r->interleaved ? 2 * m + 1 : m + R / 2;
            turn_pair(r, x, x_error, at + d1, at + d2, r->cos[angles + m], r->sin[angles + m], y,
                      bound);
        }
        for (int64_t d = R; d < r->D; d++) {
            y[at + d] = x[at + d];
            if (bound) {
                bound[at + d] = x_error ? x_error[at + d] : 0;
            }
        }
    }
    return 0;
}

int ref_cache_update(int64_t B, int64_t H, int64_t NMAX, int64_t N, int64_t D, int circular,
                     const int64_t *write_index, const double *update, double *cache)
{
    for (int64_t b = 0; b < B; b++) {
        int64_t start = write_index ? write_index[b] : 0;
        if (N > NMAX || start < 0 || (!circular && start > NMAX - N) ||
            (circular && start >= NMAX && N > 0)) {
            return -1;
        }
    }
    for (int64_t row = 0; row < B * H * N; row++) {
        int64_t bh = row / N, n = row % N;
        int64_t start = write_index ? write_index[bh / H] : 0;
        memcpy(cache + (bh * NMAX + (start + n) % NMAX) * D, update + row * D,
               (size_t)D * sizeof(double));
    }
    return 0;
}

/*
 * The bound of a dot product of K terms: 4u for the last steps, and sqrt(K)*u because K rounding
 * errors of independent sign grow like the root of K (Higham & Mary, 2019), each relative to a
 * partial sum that is at most sum |x*w| + |bias|.
 */
void ref_linear(const struct ref_linear *l, double *y, double *bound)
{
    double growth = REF_U32 * (4 + sqrt((double)l->K));

    for (int64_t m = 0; m < l->M; m++) {
        for (int64_t n = 0; n < l->N; n++) {
            double sum = l->bias ? l->bias[n] : 0;
            double size = fabs(sum), carried = 0;
            for (int64_t k = 0; k < l->K; k++) {
                double x = l->x[m * l->K + k], w = l->weight[n * l->K + k];
                sum += x * w;
                size += fabs(x * w);
                if (l->x_error) {
                    carried += l->x_error[m * l->K + k] * fabs(w);
                }
            }
            y[m * l->N + n] = sum;
            if (bound) {
                bound[m * l->N + n] =
                    storing(sum, l->u_out, l->out_subnormal) + growth * size + carried;
            }
        }
    }
}

/*
 * With n the largest power of two not above H: the first n slopes are 2^(-8/n * m), m = 1..n;
 * the others are every second slope of 2n heads: 2^(-4/n * m), m = 1, 3, 5, ...
 */
void ref_alibi_slopes(int64_t H, double *slopes)
{
    int64_t n = 1;

    while (n <= H / 2) {
        n *= 2;
    }
    for (int64_t h = 0; h < H; h++) {
        if (h < n) {
            slopes[h] = exp2(-8.0 * (double)(h + 1) / (double)n);
        } else {
            slopes[h] = exp2(-4.0 * (double)(2 * (h - n) + 1) / (double)n);
        }
    }
}

void ref_head_average(int64_t B, int64_t H, int64_t NQ, int64_t NK, const double *weights,
                      double *mean)
{
    int64_t matrix = NQ * NK;

    for (int64_t n = 0; n < B * matrix; n++) {
        double sum = 0;
        for (int64_t h = 0; h < H; h++) {
            sum += weights[(n / matrix * H + h) * matrix + n % matrix];
        }
        mean[n] = sum / (double)H;
    }
}

void ref_split_heads(int64_t B, int64_t N, int64_t H, int64_t D, const double *x, double *y)
{
    for (int64_t b = 0; b < B; b++) {
        for (int64_t n = 0; n < N; n++) {
            for (int64_t h = 0; h < H; h++) {
                memcpy(y + ((b * H + h) * N + n) * D, x + ((b * N + n) * H + h) * D,
                       (size_t)D * sizeof(double));
            }
        }
    }
}

void ref_merge_heads(int64_t B, int64_t H, int64_t N, int64_t D, const double *x, double *y)
{
    /* The same exchange of two axes, seen from the other side. */
    ref_split_heads(B, H, N, D, x, y);
}
