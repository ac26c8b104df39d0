/*
 * layer_run.h - a random layer problem: drawn, run both ways, compared with the float64 reference.
 */
#ifndef MHA_TESTS_LAYER_RUN_H
#define MHA_TESTS_LAYER_RUN_H

#include "reference/reference.h"

#include <gpu_mha/gpu_mha.h>

#include <stddef.h>

/* Every array of a layer, in the order of gpu_mha_layer_arrays. */
enum layer_array {
    LAYER_QUERY_INPUT,
    LAYER_KEY_INPUT,
    LAYER_VALUE_INPUT,
    LAYER_WEIGHT_Q,
    LAYER_WEIGHT_K,
    LAYER_WEIGHT_V,
    LAYER_WEIGHT_OUT,
    LAYER_BIAS_Q,
    LAYER_BIAS_K,
    LAYER_BIAS_V,
    LAYER_BIAS_OUT,
    LAYER_MASK,
    LAYER_BIAS,
    LAYER_KEY_LENGTHS,
    LAYER_SLOPES,
    LAYER_SINKS,
    LAYER_OUTPUT, /* inputs stand before, outputs from here on */
    LAYER_LSE,
    LAYER_WEIGHTS,
    LAYER_SCORES,
    LAYER_ARRAYS
};

const char *layer_array_name(enum layer_array array);

struct layer_data {
    gpu_mha_desc attention;
    gpu_mha_layer_desc desc; /* points to `attention`: not to be copied */
    struct {
        void *host; /* NULL: the descriptor does not ask for it */
        size_t count, element_bytes;
    } arrays[LAYER_ARRAYS];

    /* The same inputs as the reference gets them: dense doubles, rounded to the storage types. */
    double *inputs[3];              /* query, key, value */
    double *weights[4], *biases[4]; /* of q, k, v and out; a bias may be NULL */
    double *bias, *slopes, *sinks;
    uint8_t *mask;
    int64_t *key_lengths, *offset;
};

/*
 * Draws what `desc` asks for. Masks are full-size, key lengths go from 0 (batch entry 0) to NK.
 * Ends the test run when memory is out. Free with layer_data_free.
 */
void layer_data_make(struct layer_data *data, const gpu_mha_layer_desc *desc, uint64_t seed);
void layer_data_free(struct layer_data *data);

/* Replaces an element of one of the three inputs, for the library and for the reference. */
void layer_data_set(struct layer_data *data, enum layer_array input, int64_t index, double value);

/* gpu_mha_layer(). Canaries stand around the outputs. */
gpu_mha_status layer_run_host(gpu_mha_context *context, struct layer_data *data);

/*
 * gpu_mha_layer_enqueue() on a queue of its own, of a plan whose descriptors are gone by then.
 * Every array lies in a buffer of its own at an offset of its own, between bytes of 0xFF that must
 * stay as they are; the query input arrives by a command that runs only after the call has
 * returned.
 */
gpu_mha_status layer_run_device(gpu_mha_context *context, struct layer_data *data,
                                cl_command_queue_properties properties);

/* Output, LSE, weights and scores of the latest run against the reference; fails the test. */
void layer_check(const struct layer_data *data);

#endif
