/*
 * What the demo computed, and the ways to show it.
 */
#ifndef MHA_CLI_DEMO_H
#define MHA_CLI_DEMO_H

#include "command.h"
#include "demo_data.h"

/* Timed runs after the first, which builds kernels; odd, for a median. */
#define MHA_DEMO_REPEATS 5

struct mha_demo {
    struct mha_demo_data data;
    float *weights; /* (B, H, N, N) */
    float *output;  /* (B, N, E) */
    char device[256];
    double first_ms, median_ms;
    double weights_error, weights_bound, output_error, output_bound;
    int64_t b, query, length; /* the sentence looked at, the token asked about, its tokens */
    int64_t wanted;           /* the token it should find */
};

/* True if the device's numbers are as near to the model's as they must be. */
bool mha_demo_is_right(const struct mha_demo *demo);

/* `plot` is the path of the heat map. */
void mha_demo_print_text(const struct mha_demo *demo, const char *plot);
enum mha_exit mha_demo_print_json(const struct mha_demo *demo, const char *plot);

/* Draws the heat map of the sentence looked at, without its padding. */
bool mha_demo_draw(const struct mha_demo *demo, const char *path, char *error, size_t error_size);

#endif
