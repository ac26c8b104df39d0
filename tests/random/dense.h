/*
 * dense.h - an attention problem as dense doubles, which a test can permute, pad, cut and join, run
 * through a plan and bound by the reference.
 */
#ifndef MHA_TESTS_RANDOM_DENSE_H
#define MHA_TESTS_RANDOM_DENSE_H

#include "harness/attention_data.h"

/*
 * Every number is one of its storage type. Masks have their full size; slopes are the caller's. All
 * arrays are malloc'd and owned.
 */
struct dense {
    gpu_mha_desc desc; /* tensors give only their types; past and new ones have one type */
    int64_t NT;
    double *q, *k, *v; /* (B,H,NQ,DK), (B,HKV,NT,DK), (B,HKV,NT,DV) */
    uint8_t *mask;     /* (B,H,NQ,NT); NULL: none, as the rest below */
    double *bias;      /* (B,H,NQ,NT) */
    int64_t *key_lengths;
    double *slopes, *sinks; /* (H) */

    /* How it lies in the device's buffers. */
    enum layout_kind query, key, value, output;
    int64_t shift; /* elements in front of every array, more than there are anyhow */
};

/* Output and LSE of one run, and how far each may be from exact arithmetic. */
struct dense_result {
    int64_t rows, DV;
    double *o, *bound_o;     /* (rows,DV) */
    double *lse, *bound_lse; /* (rows) */
};

/* Ends the program when memory is out, as everything here. `spec` must not ask for ALiBi's own
 * slopes. */
struct dense dense_make(const struct attention_spec *spec);
struct dense dense_copy(const struct dense *from);
void dense_free(struct dense *d);

/* Replaces an array by one of `count` zeros, and returns the old one for the caller to free. */
double *dense_replace(double **array, int64_t count);

/* Position of query 0 among the keys. */
int64_t dense_offset(const struct dense *d, int64_t b);

/* Whether key j is visible to query i of head h. */
int dense_visible(const struct dense *d, int64_t b, int64_t h, int64_t i, int64_t j);

/*
 * Runs the problem. *plan NULL: makes a plan, which the caller releases; else that one. Returns 0,
 * or -1 with a sentence on stdout.
 */
int dense_run(gpu_mha_context *context, const struct dense *d, gpu_mha_plan **plan,
              struct dense_result *result);
void dense_result_free(struct dense_result *result);

#endif
