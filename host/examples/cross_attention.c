/*
 * Cross-attention of an encoder-decoder model, as one layer: the decoder's states ask, the
 * encoder's outputs answer. The two have different widths and lengths, and the sources of the batch
 * have different lengths too.
 *
 * Two things must hold, and are checked: every target token spreads a weight of 1 over its own
 * source, and what lies in the padding behind a source cannot change a bit of the result. The
 * second is tried with NaN in all of the padding.
 */
#include <gpu_mha/gpu_mha.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, TARGET = 5, SOURCE = 9, H = 4, D = 16, DECODER = 64, ENCODER = 48 };

static const int32_t source_length[B] = {9, 6};

static float decoder[B][TARGET][DECODER], encoder[B][SOURCE][ENCODER];

/* Weights are (out, in), as torch.nn.Linear stores them. */
static float weight_q[H * D][DECODER], weight_k[H * D][ENCODER], weight_v[H * D][ENCODER];
static float weight_out[DECODER][H * D], bias_out[DECODER];

static float output[B][TARGET][DECODER], again[B][TARGET][DECODER];
static float weights[B][H][TARGET][SOURCE];

static void fill(float *x, size_t count, float size)
{
    static uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = size * ((float)(state >> 8) / 8388608.0f - 1.0f);
    }
}

static gpu_mha_status run(float *result)
{
    const gpu_mha_desc attention = {
        .struct_size = sizeof attention,
        .B = B,
        .H = H,
        .HKV = H,
        .NQ = TARGET,
        .NK = SOURCE,
        .DK = D,
        .DV = D,
        .key_lengths = GPU_MHA_I32,
        .weights = GPU_MHA_WEIGHTS_PER_HEAD,
    };
    const gpu_mha_layer_desc desc = {
        .struct_size = sizeof desc,
        .attention = &attention,
        .EQ = DECODER,
        .EK = ENCODER,
        .EV = ENCODER,
        .EO = DECODER,
        .bias_out = 1,
    };
    const gpu_mha_layer_arrays arrays = {
        .struct_size = sizeof arrays,
        .query_input = decoder,
        .key_input = encoder,
        .value_input = encoder,
        .weight_q = weight_q,
        .weight_k = weight_k,
        .weight_v = weight_v,
        .weight_out = weight_out,
        .bias_out = bias_out,
        .key_lengths = source_length,
        .output = result,
        .weights = weights[0][0][0],
    };
    return gpu_mha_layer(NULL, &desc, &arrays);
}

/* The largest |sum - 1| over rows; infinite if a key of the padding has a weight. */
static double worst_row_sum(void)
{
    double worst = 0.0;
    for (int row = 0; row < B * H * TARGET; row++) {
        const int b = row / (H * TARGET);
        const float *w = weights[0][0][0] + row * SOURCE;
        double sum = 0.0;
        for (int j = 0; j < SOURCE; j++) {
            if (j >= source_length[b] && w[j] != 0.0f) {
                return INFINITY;
            }
            sum += w[j];
        }
        worst = fmax(worst, fabs(sum - 1.0));
    }
    return worst;
}

static void spoil_padding(void)
{
    for (int b = 0; b < B; b++) {
        for (int j = source_length[b]; j < SOURCE; j++) {
            for (int x = 0; x < ENCODER; x++) {
                encoder[b][j][x] = NAN;
            }
        }
    }
}

int main(void)
{
    fill(decoder[0][0], sizeof decoder / sizeof(float), 1.0f);
    fill(encoder[0][0], sizeof encoder / sizeof(float), 1.0f);
    fill(weight_q[0], sizeof weight_q / sizeof(float), 0.2f);
    fill(weight_k[0], sizeof weight_k / sizeof(float), 0.2f);
    fill(weight_v[0], sizeof weight_v / sizeof(float), 0.2f);
    fill(weight_out[0], sizeof weight_out / sizeof(float), 0.2f);
    fill(bias_out, sizeof bias_out / sizeof(float), 1.0f);

    if (run(output[0][0])) {
        fprintf(stderr, "cross_attention: %s\n", gpu_mha_last_error());
        return EXIT_FAILURE;
    }
    const double error = worst_row_sum();
    spoil_padding();
    if (run(again[0][0])) {
        fprintf(stderr, "cross_attention: with NaN in the padding: %s\n", gpu_mha_last_error());
        return EXIT_FAILURE;
    }
    const int same = memcmp(output, again, sizeof output) == 0;
    const int right = error < 1e-5 && same;
    printf("cross_attention: weights sum to 1 within %.1e, padding %s: %s\n", error,
           same ? "has no effect" : "CHANGES the output", right ? "right" : "WRONG");
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
