/*
 * The demo's data: one attention layer of a pretrained sentence encoder, its input for some
 * sentences, and what the model itself made of it. tests/data/minilm is such a folder.
 */
#ifndef MHA_CLI_DEMO_DATA_H
#define MHA_CLI_DEMO_DATA_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "npy.h"

/* X(file stem, element type): one .npy file each, of the shape in the comment. */
#define MHA_DEMO_ARRAYS(X)                                                                         \
    X(layer_input, F32)      /* (B, N, E) */                                                       \
    X(key_mask, BOOL)        /* (B, N), true for a token, false for padding */                     \
    X(w_q, F32)              /* (E, E) */                                                          \
    X(w_k, F32)              /* (E, E) */                                                          \
    X(w_v, F32)              /* (E, E) */                                                          \
    X(w_out, F32)            /* (E, E) */                                                          \
    X(b_q, F32)              /* (E) */                                                             \
    X(b_k, F32)              /* (E) */                                                             \
    X(b_v, F32)              /* (E) */                                                             \
    X(b_out, F32)            /* (E) */                                                             \
    X(expected_weights, F32) /* (B, H, N, N) */                                                    \
    X(expected_output, F32)  /* (B, N, E) */

struct mha_demo_data {
    json_t *document; /* owns all strings */
    const char *model, *query_token, *wanted_token;
    const json_t *sentences; /* B strings */
    const json_t *tokens;    /* B arrays of N strings */
    int64_t B, H, N, E;      /* a head has E / H elements */
    int64_t layer, layers;
#define MHA_DEMO_FIELD(name, type) struct mha_npy name;
    MHA_DEMO_ARRAYS(MHA_DEMO_FIELD)
#undef MHA_DEMO_FIELD
};

/*
 * Reads and checks a folder. On failure `error` has one sentence. To be freed either way.
 */
bool mha_demo_data_read(const char *folder, struct mha_demo_data *data, char *error,
                        size_t error_size);
void mha_demo_data_free(struct mha_demo_data *data);

/* Token `n` of sentence `b`. */
const char *mha_demo_token(const struct mha_demo_data *data, int64_t b, int64_t n);

/* The tokens of sentence `b` without the padding behind them. */
int64_t mha_demo_length(const struct mha_demo_data *data, int64_t b);

/* Finds a token among the first tokens of a sentence; -1 if it is not there. */
int64_t mha_demo_find(const struct mha_demo_data *data, int64_t b, const char *token);

#endif
