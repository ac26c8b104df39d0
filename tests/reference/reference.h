/*
 * reference.h - multi-head attention in float64, the yardstick of every numeric test.
 *
 * Written from the definition alone: two passes over each row, no tiles, no tricks, no header and
 * no code shared with the library. Arrays are dense and row-major in the order of their
 * dimension letters; (B,H,NQ,DV) means element (b,h,i,d) sits at ((b*H + h)*NQ + i)*DV + d.
 * Inputs are the values as rounded to their storage type: round first, then call.
 *
 * B batch, H query heads, HKV key/value heads, NQ query length, NK key length (past keys
 * included), DK head size of q and k, DV head size of v, E model width.
 */
#ifndef MHA_TESTS_REFERENCE_H
#define MHA_TESTS_REFERENCE_H

#include <stdint.h>

/* Unit round-off of f32, in which the library computes: every bound is a multiple of it. */
#define REF_U32 0x1p-24

/* Inverted dropout on the weights; p = 0 switches it off. ref_dropout_keep says which are kept. */
struct ref_dropout {
    double p; /* probability of dropping, 0 <= p < 1 */
    uint64_t seed;
};

/*
 * One attention problem. Zero-initialise, then fill in: every optional field is off when zero,
 * except `scale`, which is literal (0 means that all raw scores are 0; see ref_default_scale).
 */
struct ref_problem {
    int64_t B, H, HKV, NQ, NK, DK, DV;
    const double *q; /* (B,H,NQ,DK) */
    const double *k; /* (B,HKV,NK,DK) */
    const double *v; /* (B,HKV,NK,DV) */
    double scale;
    double softcap; /* 0 = off */

    const uint8_t *mask;        /* (B,H,NQ,NK), nonzero = attend; NULL = all */
    const double *bias;         /* (B,H,NQ,NK), added to the score, -inf hides; NULL = none */
    const int64_t *key_lengths; /* (B): keys at and past it are hidden; NULL = NK */
    int causal;                 /* key j is visible to query i iff j <= i + offset[b] */
    int has_window;             /* visible iff i+offset-left <= j <= i+offset+right */
    int64_t window_left;        /* -1 = unbounded */
    int64_t window_right;       /* -1 = unbounded */
    const int64_t *offset;      /* (B): the diagonal's offset, already resolved; NULL = 0 */
    const double *slopes;       /* (H): ALiBi, adds -slope * |i + offset - j|; NULL = none */
    const double *sinks;        /* (H): one extra logit per head that has no value; NULL = none */
    struct ref_dropout dropout;

    /* What the bounds need to know. Zero u_out or u_aux = f32 with its smallest subnormal. */
    double u_out;         /* unit round-off of the output's type */
    double out_subnormal; /* smallest subnormal of the output's type */
    double u_aux;         /* the same two of the type of the weights and scores */
    double aux_subnormal;

    /* How far the library's q, k, v may be from the values above: q, k and v that are themselves
     * results (of a linear map, a rotation). Shapes as q, k, v; NULL = exact. */
    const double *q_error;
    const double *k_error;
    const double *v_error;

    int want_matrices; /* fill the (B,H,NQ,NK) arrays of the result; else they stay NULL */
};

/* Owned by the result: ref_result_free. An array without elements still is a valid pointer. */
struct ref_result {
    double *o;        /* (B,H,NQ,DV) */
    double *lse;      /* (B,H,NQ) */
    int64_t *visible; /* (B,H,NQ): number of keys that no mask hides */
    double *bound_o;  /* (B,H,NQ,DV): largest allowed |o - got| */
    double *bound_lse;

    /* (B,H,NQ,NK), only with want_matrices. A hidden key's raw and capped score are what
     * arithmetic makes of its (possibly garbage) key; masked it is -inf, and its weight is 0. */
    double *raw;
    double *capped;
    double *masked;
    double *softmax; /* before dropout */
    double *weights; /* after dropout: what multiplies v */
    double *bound_raw;
    double *bound_capped;
    double *bound_masked;
    double *bound_softmax;
    double *bound_weights;
};

/* 1/sqrt(DK): the scale when a caller gives none. */
double ref_default_scale(int64_t DK);

/*
 * Solves `p`. Returns 0, or -1 when memory runs out or the problem makes no sense (a negative
 * size, H % HKV != 0); `r` is then empty and free to pass to ref_result_free.
 *
 * A row without visible keys: o = 0, weights 0, lse = -inf, or the sink where there is one.
 * A visible NaN or Inf comes out as float64 arithmetic says, with exp(s - max) / sum: a row in
 * which the largest visible score (or sink) is +inf gives NaN, for o and for lse. One in which all
 * visible scores are -inf (and so is the sink) gives o = NaN (0/0) and lse = -inf (ln 0).
 */
int ref_attention(const struct ref_problem *p, struct ref_result *r);

void ref_result_free(struct ref_result *r);

/* Whether sizes, heads, window and dropout of `p` make sense; no array is looked at. */
int ref_is_sane(const struct ref_problem *p);

/* Whether key j is visible to query i of head h in batch b. */
int ref_visible(const struct ref_problem *p, int64_t b, int64_t h, int64_t i, int64_t j);

/*
 * Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
 */
void ref_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/*
 * Whether dropout keeps weight (b,h,i,j): word j % 4 of Philox with
 *   key     = (low 32 bits of seed, high 32 bits of seed)
 *   counter = (low 32 bits of j/4, low 32 bits of i, low 32, high 32 bits of b*H + h)
 * is at least floor(p * 2^32). A kept weight is then divided by 1 - p.
 */
int ref_dropout_keep(struct ref_dropout dropout, int64_t bh, int64_t i, int64_t j);

/*
 * Merges two partial results over disjoint keys into o (rows,DV) and lse (rows). lse = -inf marks
 * a part without keys, whose o is not read. Bounds may be NULL; a row of which one part is empty
 * must come out exactly, so its bounds are 0. The outputs may not overlap the inputs.
 */
struct ref_merge {
    int64_t rows, DV;
    const double *o1, *o2;       /* (rows,DV) */
    const double *lse1, *lse2;   /* (rows) */
    double u_out, out_subnormal; /* type of o; zero u_out = f32 */
};
void ref_merge(const struct ref_merge *m, double *o, double *lse, double *bound_o,
               double *bound_lse);

/*
 * Rotary embedding as the ONNX operator RotaryEmbedding has it. x, y and bound are (B,H,N,D); the
 * first R of the D coordinates turn (R even, 0 = D), the rest are copied.
 *   interleaved = 0: coordinate d pairs with d + R/2;  1: coordinate 2d pairs with 2d + 1.
 *   positions (B,N) given: cos and sin are (max_pos, R/2), row positions[b][n] is used.
 *   positions NULL: cos and sin are (B,N,R/2).
 * x_error (NULL = exact) is carried into bound; bound may be NULL. Returns -1 when R is odd or
 * larger than D, or a position lies outside the table.
 */
struct ref_rotary {
    int64_t B, H, N, D, R;
    int64_t max_pos;
    int interleaved;
    const int64_t *positions;
    const double *cos;
    const double *sin;
    double u_out, out_subnormal;
};
int ref_rotary(const struct ref_rotary *r, const double *x, const double *x_error, double *y,
               double *bound);

/*
 * Cache update as the ONNX operator TensorScatter has it: cache (B,H,NMAX,D) is changed in place,
 * update (B,H,N,D) goes to positions write_index[b] + n (NULL = 0), modulo NMAX when circular.
 * Returns -1, with nothing written, when N > NMAX, or a linear update or any index leaves the
 * cache.
 */
int ref_cache_update(int64_t B, int64_t H, int64_t NMAX, int64_t N, int64_t D, int circular,
                     const int64_t *write_index, const double *update, double *cache);

/*
 * y = x W^T + bias: x (M,K), W (N,K), bias (N) or NULL, y and bound (M,N). x_error (M,K; NULL =
 * exact) is carried into bound; bound may be NULL. Zero u_out = f32.
 */
struct ref_linear {
    int64_t M, N, K;
    const double *x;
    const double *x_error;
    const double *weight;
    const double *bias;
    double u_out, out_subnormal;
};
void ref_linear(const struct ref_linear *l, double *y, double *bound);

/* ALiBi slopes (H) by the rule of Press et al., head counts that are no power of two included. */
void ref_alibi_slopes(int64_t H, double *slopes);

/* Mean over heads: weights (B,H,NQ,NK) -> mean (B,NQ,NK). Works on bounds as well. */
void ref_head_average(int64_t B, int64_t H, int64_t NQ, int64_t NK, const double *weights,
                      double *mean);

/* (B,N,H,D) -> (B,H,N,D), and back. */
void ref_split_heads(int64_t B, int64_t N, int64_t H, int64_t D, const double *x, double *y);
void ref_merge_heads(int64_t B, int64_t H, int64_t N, int64_t D, const double *x, double *y);

/*
 * A whole layer: q, k, v projected, heads split, attention, heads merged, output map.
 * Self-attention passes one sequence three times, cross-attention two.
 */
struct ref_layer {
    /* Shapes, masks, scale and dropout; q, k, v, their errors and u_out are set by ref_layer. */
    struct ref_problem attention;
    int64_t EQ, EK, EV, EOUT; /* widths of the inputs and of the output */
    const double *xq;         /* (B,NQ,EQ) */
    const double *xk;         /* (B,NK,EK) */
    const double *xv;         /* (B,NK,EV) */
    const double *wq, *bq;    /* (H*DK,EQ), (H*DK); a bias may be NULL */
    const double *wk, *bk;    /* (HKV*DK,EK), (HKV*DK) */
    const double *wv, *bv;    /* (HKV*DV,EV), (HKV*DV) */
    const double *wo, *bo;    /* (EOUT,H*DV), (EOUT); wo NULL = no output map */
    double u_mid;             /* type of the values between the steps; 0 = f32 */
    double mid_subnormal;
    double u_out; /* type of y; 0 = f32 */
    double out_subnormal;
};

struct ref_layer_result {
    double *y; /* (B,NQ,EOUT), or (B,NQ,H*DV) without an output map */
    double *bound_y;
    struct ref_result attention;
};

/* Returns 0, or -1 as ref_attention does. */
int ref_layer(const struct ref_layer *l, struct ref_layer_result *r);

void ref_layer_result_free(struct ref_layer_result *r);

#endif
