/*
 * probe.h - attention problems whose results follow from arithmetic, run in every way.
 *
 * Uniform probe: Q = 0 and V[j][*] = j + 1. Every visible key weighs the same, so the output is the
 * mean of j + 1 over the visible keys, LSE = ln(their number), and 0 can only mean an empty row.
 * Tail probe: only the last coordinate of q, k and v is not zero, so that a kernel which drops the
 * end of a row sees nothing.
 *
 * probe_run() runs a problem with both methods, storage types, host arrays and buffers, in-order
 * and out-of-order queues, twice each. Around every array and in the gaps of its strides lies NaN,
 * then 1000; in every cell that must not be read NaN, 1000, then an infinity. Outputs and workspace
 * begin as bytes of 0xFF, and what lies around them must stay so. All runs of a method and type
 * must give the same bits.
 */
#ifndef MHA_TESTS_PROBE_H
#define MHA_TESTS_PROBE_H

#include "storage.h"

#include <gpu_mha/gpu_mha.h>

#include <stdint.h>

enum probe_types { PROBE_F32 = 1, PROBE_F16 = 2, PROBE_BF16 = 4 };

struct probe {
    /* Types and method are set by probe_run; a method that is not AUTO is kept. */
    gpu_mha_desc desc;

    /* Dense, (B, heads, N, D); owned. */
    double *query, *key, *value, *past_key, *past_value;
    /* As the cells lie in the caller's array; owned, NULL if absent. */
    unsigned char *mask;
    double *bias;
    int64_t mask_cells, bias_cells;
    int64_t *key_lengths;
    float *slopes, *sinks;

    unsigned types;    /* probe_types; 0: f32 and f16 */
    int only_enqueue;  /* not through gpu_mha() */
    int once;          /* a single run for each method and type, for large problems */
    double score_peak; /* the largest |scale| sum_d |q k| + |bias|: what the bounds need */
    double value_peak; /* the largest |v| of a visible key; 0: NT */

    /* What must come out; owned. Arrays that stay NULL are not compared. */
    double *want_output;  /* (B, H, NQ, DV) */
    double *want_lse;     /* (B, H, NQ) */
    double *want_weights; /* as desc.weights */
    double *want_scores;  /* (B, H, NQ, NT) */

    /* What came out of the latest run. */
    double *output, *lse, *weights, *scores;
};

/* The uniform probe of a descriptor's sizes, LSE asked for. Masks come afterwards. */
void probe_init(struct probe *p, const gpu_mha_desc *desc);
void probe_free(struct probe *p);

/* Sets desc.mask (all cells 1) or desc.bias (all cells 0), packed, aligned to the right. */
void probe_give_mask(struct probe *p, gpu_mha_mask_type type, int rank, const int64_t *shape);

void probe_give_lengths(struct probe *p, gpu_mha_index_type type, const int64_t *lengths);

/* The element (b, heads, n, d) of dense arrays. */
double *probe_key_row(struct probe *p, int64_t b, int64_t h, int64_t j);   /* over past and new */
double *probe_value_row(struct probe *p, int64_t b, int64_t h, int64_t j); /* over past and new */

/* Whether query i of (b, h) sees key j, from the words of the public header. */
int probe_visible(const struct probe *p, int64_t b, int64_t h, int64_t i, int64_t j);

/* The cell of desc.mask or desc.bias that (b, h, i, j) reads. */
int64_t probe_cell(const struct probe *p, const gpu_mha_mask *mask, const int64_t index[4]);

/* Whether geometry and boolean mask show the key: where they hide it, its bias must not be read. */
int probe_bias_is_read(const struct probe *p, const int64_t index[4]);

/* Expects for each row (b, h, i) one value in all of its elements; lse may be NULL. */
void probe_want_rows(struct probe *p, const double *rows, const double *lse);

/* Small integers that differ by batch entry, head, key and element, exact in every type. */
void probe_spread_values(struct probe *p);

/*
 * Expects what Q = 0 gives: a visible key weighs exp(bias - slope * distance), the sink exp(sink).
 * The biases must be exact in their type. Without any of these: the mean, and ln(count).
 */
void probe_want_uniform(struct probe *p);

/* Makes it the tail probe, last coordinates `query`, `keys`[j] and j + 1; expects what follows. */
void probe_make_tail(struct probe *p, double query, const double *keys);

/* Runs, compares; ends the test at the first thing wrong. */
void probe_run(struct probe *p);

/* The context of all probes; made with the first. GPU_MHA_TILE has a context for each value. */
gpu_mha_context *probe_context(void);

/* A queue of a context; in-order or out-of-order. Ends the test if there is none. */
cl_command_queue probe_queue(gpu_mha_context *context, int out_of_order);

/* main() of a test program: no fork, since a driver does not survive it. */
struct Suite;
int probe_main(struct Suite *suite);

#endif
