/*
 * layer.c - reference of a whole attention layer, errors carried from step to step.
 */
#include "reference.h"

#include <stdlib.h>

/* A step's values and the bound of their error; one allocation each. */
struct step {
    double *value;
    double *error;
};

static int step_alloc(struct step *s, int64_t count)
{
    s->value = calloc((size_t)count + 1, sizeof(double));
    s->error = calloc((size_t)count + 1, sizeof(double));
    return s->value && s->error ? 0 : -1;
}

static void step_free(struct step *s)
{
    free(s->value);
    free(s->error);
    *s = (struct step){0};
}

/* x (B,N,E) -> heads (B,heads,N,D) by a weight (heads*D,E). */
static int project(const struct ref_layer *l, int64_t N, int64_t heads, int64_t D, int64_t E,
                   const double *x, const double *weight, const double *bias, struct step *out)
{
    struct step flat = {0};
    struct ref_linear map = {.M = l->attention.B * N,
                             .N = heads * D,
                             .K = E,
                             .x = x,
                             .weight = weight,
                             .bias = bias,
                             .u_out = l->u_mid,
                             .out_subnormal = l->mid_subnormal};
    int status = -1;

    if (step_alloc(&flat, map.M * map.N) != 0 || step_alloc(out, map.M * map.N) != 0) {
        goto cleanup;
    }
    ref_linear(&map, flat.value, flat.error);
    ref_split_heads(l->attention.B, N, heads, D, flat.value, out->value);
    ref_split_heads(l->attention.B, N, heads, D, flat.error, out->error);
    status = 0;

cleanup:
    step_free(&flat);
    return status;
}

/* Attention's output (B,H,NQ,DV) -> y (B,NQ,EOUT). */
static int map_out(const struct ref_layer *l, struct ref_layer_result *r)
{
    const struct ref_problem *p = &l->attention;
    int64_t rows = p->B * p->NQ, width = p->H * p->DV;
    struct step joined = {0}, mapped = {0};
    int status = -1;

    if (step_alloc(&joined, rows * width) != 0) {
        goto cleanup;
    }
    ref_merge_heads(p->B, p->H, p->NQ, p->DV, r->attention.o, joined.value);
    ref_merge_heads(p->B, p->H, p->NQ, p->DV, r->attention.bound_o, joined.error);
    if (l->wo) {
        struct ref_linear map = {.M = rows,
                                 .N = l->EOUT,
                                 .K = width,
                                 .x = joined.value,
                                 .x_error = joined.error,
                                 .weight = l->wo,
                                 .bias = l->bo,
                                 .u_out = l->u_out,
                                 .out_subnormal = l->out_subnormal};
        if (step_alloc(&mapped, rows * l->EOUT) != 0) {
            goto cleanup;
        }
        ref_linear(&map, mapped.value, mapped.error);
        r->y = mapped.value;
        r->bound_y = mapped.error;
        mapped = (struct step){0};
    } else {
        r->y = joined.value;
        r->bound_y = joined.error;
        joined = (struct step){0};
    }
    status = 0;

cleanup:
    step_free(&mapped);
    step_free(&joined);
    return status;
}

int ref_layer(const struct ref_layer *l, struct ref_layer_result *r)
{
    struct ref_problem p = l->attention;
    struct step q = {0}, k = {0}, v = {0};
    int status = -1;

    *r = (struct ref_layer_result){0};
    if (!ref_is_sane(&p) || l->EQ < 1 || l->EK < 1 || l->EV < 1 || (l->wo && l->EOUT < 1)) {
        goto cleanup;
    }
    if (project(l, p.NQ, p.H, p.DK, l->EQ, l->xq, l->wq, l->bq, &q) != 0 ||
        project(l, p.NK, p.HKV, p.DK, l->EK, l->xk, l->wk, l->bk, &k) != 0 ||
        project(l, p.NK, p.HKV, p.DV, l->EV, l->xv, l->wv, l->bv, &v) != 0) {
        goto cleanup;
    }
    p.q = q.value;
    p.k = k.value;
    p.v = v.value;
    p.q_error = q.error;
    p.k_error = k.error;
    p.v_error = v.error;
    /* Without an output map attention's output is the layer's. */
    p.u_out = l->wo ? l->u_mid : l->u_out;
    p.out_subnormal = l->wo ? l->mid_subnormal : l->out_subnormal;
    if (ref_attention(&p, &r->attention) != 0 || map_out(l, r) != 0) {
        goto cleanup;
    }
    status = 0;

cleanup:
    if (status != 0) {
        ref_layer_result_free(r);
    }
    step_free(&v);
    step_free(&k);
    step_free(&q);
    return status;
}

void ref_layer_result_free(struct ref_layer_result *r)
{
    free(r->y);
    free(r->bound_y);
    ref_result_free(&r->attention);
    *r = (struct ref_layer_result){0};
}
