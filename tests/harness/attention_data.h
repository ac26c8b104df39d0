/*
 * attention_data.h - one attention problem as a test describes it, with its inputs and what must
 * come out.
 *
 * A spec is short; from it come the inputs in their storage types and layouts, the same inputs as
 * dense doubles for the reference, and for every element of every buffer whether the library may
 * look at it. What it may not look at can be poisoned, and then nothing of the result may change.
 */
#ifndef MHA_TESTS_ATTENTION_DATA_H
#define MHA_TESTS_ATTENTION_DATA_H

#include "layouts.h"
#include "reference/reference.h"

#include <gpu_mha/gpu_mha.h>

enum attention_layout {
    ATTENTION_BHND,
    ATTENTION_BNHD,
    ATTENTION_PADDED,
    ATTENTION_PADDED_BNHD,
    ATTENTION_ONE_BATCH, /* BHND of one batch entry, stride_b = 0; for inputs, as the next two */
    ATTENTION_ONE_HEAD,
    ATTENTION_ONE_ROW,
    ATTENTION_QKV /* query, key and value interleaved in one buffer; all three must say so */
};

/* What query, key and value hold; scores below stand for q . k times the scale. */
enum attention_fill {
    ATTENTION_NORMAL,   /* N(0, 1) */
    ATTENTION_POSITIVE, /* values in [0.5, 1.5), small scores: errors of long sums add up */
    ATTENTION_GROWING,  /* scores that grow from key to key: the running maximum always moves */
    ATTENTION_LARGE,    /* scores of some hundred of either sign */
    ATTENTION_UNIFORM,  /* query 0, value j + 1: output = mean of j + 1 over the visible keys */
    ATTENTION_TAIL,     /* only the last coordinate of query, key and value is not 0 */
    ATTENTION_SPECIAL   /* N(0, 1), and here and there a NaN or an infinity */
};

/* The contents of desc.mask or desc.bias. */
struct attention_mask {
    unsigned full; /* bit a: axis a of (B, H, NQ, NT) has its full size, else it broadcasts */
    int strided;   /* with gaps in every axis */
    double hidden; /* share of hidden elements: 0, or a bias of -inf */
};

/* Factors of what the fill draws; 0 stands for 1. */
struct attention_magnitude {
    double query, key, value, bias;
};

/* Where desc has layouts, strides and mask shapes, they are filled in from the fields below it. */
struct attention_spec {
    gpu_mha_desc desc;
    enum attention_layout query, key, value, past_key, past_value, output;
    struct attention_mask mask, bias;
    enum attention_fill fill;
    struct attention_magnitude magnitude;
    double lowest_bias; /* share of the bias that is its type's lowest number: it hides nothing */
    int any_length;     /* key lengths: all of 0 .. NT; else the upper half, and 0 in entry 2 */
    uint64_t seed;
    int64_t seed_batch; /* number that the inputs of batch entry 0 are drawn for */
    const char *tile;   /* GPU_MHA_TILE of the run; NULL: the tuning table's */
    int out_of_order;   /* queue of the run */
    int host_call;      /* gpu_mha() as well: same bits */
};

/*
 * Sets a past, lengths, masks of every kind, with a window `left` keys wide, and all that is done
 * to scores, for problems of few keys.
 */
void attention_spec_everything(struct attention_spec *spec, int64_t NP, int64_t left);

/* The spec as a C initialiser, so that a failure can be pasted into a test. */
void attention_spec_text(const struct attention_spec *spec, char *text, size_t size);

enum attention_array {
    ARRAY_QUERY,
    ARRAY_KEY,
    ARRAY_VALUE,
    ARRAY_PAST_KEY,
    ARRAY_PAST_VALUE,
    ARRAY_MASK,
    ARRAY_BIAS,
    ARRAY_KEY_LENGTHS,
    ARRAY_SLOPES,
    ARRAY_SINKS,
    ARRAY_INPUTS, /* inputs stand before, outputs behind */
    ARRAY_OUTPUT = ARRAY_INPUTS,
    ARRAY_LSE,
    ARRAY_WEIGHTS,
    ARRAY_SCORES,
    ARRAY_COUNT
};

const char *attention_array_name(enum attention_array array);

/* One buffer, larger than its tensor on both sides. Output: every byte is CANARY_BYTE. */
struct attention_image {
    int wanted;
    enum attention_array shares; /* the array whose buffer this is; itself but for QKV */
    int is_float;
    enum storage_type type; /* if is_float */
    size_t element_bytes;
    int64_t elements;
    struct layout layout; /* of a tensor; a flat array is (1, 1, 1, D) */
    unsigned char *bytes;
    unsigned char *used; /* per element: the result depends on it; NULL for outputs */
};

struct attention_data {
    struct attention_spec spec;
    gpu_mha_desc desc; /* complete */
    int64_t NT;
    struct attention_image images[ARRAY_COUNT];

    /* Dense inputs and what the reference makes of them. */
    double *q, *k, *v, *bias, *slopes, *sinks;
    uint8_t *mask;
    int64_t *key_lengths, *offset;
    struct ref_problem problem;
    struct ref_result want;
};

/* Ends the test run when memory is out. Free with attention_data_free. */
void attention_data_make(const struct attention_spec *spec, struct attention_data *data);
void attention_data_free(struct attention_data *data);

/* What the reference wants of the scores, at the stage that the problem asks for; NULL for none. */
struct attention_wanted {
    const double *values, *bound;
};

struct attention_wanted attention_want_scores(const struct attention_data *data);

/* The bytes of one image, in malloc'd memory, poison of this kind in every element not used. */
unsigned char *attention_data_poisoned(const struct attention_image *image, enum poison kind);

/* calloc of at least one byte; ends the test run when memory is out. */
void *attention_alloc(int64_t count, size_t element_bytes);

#endif
