/*
 * known_run.h - every operation of the library on a small problem whose result is one number.
 *
 * Keys that weigh the same and values that are all `value` give `value`; so do a merge of equal
 * halves, a rotation by 0, rows copied into a cache, and a layer whose weights take means. For
 * tests about threads and lifetimes, where the number tells whose run a result belongs to.
 * Nothing here uses Check, so programs and threads of any kind may call it.
 */
#ifndef MHA_TESTS_KNOWN_RUN_H
#define MHA_TESTS_KNOWN_RUN_H

#include <gpu_mha/gpu_mha.h>

enum known_kind {
    KNOWN_FUSED,
    KNOWN_STAGED,
    KNOWN_SPLIT, /* one query over many keys: two kernels, with a workspace between them */
    KNOWN_ALIBI, /* slopes of the plan's own */
    KNOWN_MERGE,
    KNOWN_ROTARY,
    KNOWN_CACHE,
    KNOWN_LAYER, /* products, conversions and attention: some ten commands */
    KNOWN_KINDS
};

const char *known_name(enum known_kind kind);

gpu_mha_status known_plan(gpu_mha_context *context, enum known_kind kind, gpu_mha_plan **plan);

#define KNOWN_BUFFERS_MAX 16
#define KNOWN_OUTPUT_MAX 128

/* The device's buffers of one run. */
struct known_run {
    enum known_kind kind;
    float value;
    cl_mem buffers[KNOWN_BUFFERS_MAX]; /* owned */
    int buffer_count;
    int input;  /* the buffer that holds `value`, of input_count floats */
    int output; /* the buffer of the output */
    size_t input_count, output_count;
    union {
        gpu_mha_buffers attention;
        gpu_mha_merge_buffers merge;
        gpu_mha_rotary_buffers rotary;
        gpu_mha_cache_buffers cache;
        gpu_mha_layer_buffers layer;
    } fields;
};

/* Buffers in `cl`, the output full of NaN. Returns 0, or -1 when a buffer cannot be made. */
int known_open(struct known_run *run, cl_context cl, const gpu_mha_plan *plan, enum known_kind kind,
               float value);
void known_close(struct known_run *run); /* releases what is left */

/* The enqueue of its kind. */
gpu_mha_status known_enqueue(gpu_mha_plan *plan, const struct known_run *run,
                             cl_command_queue queue, cl_uint wait_count, const cl_event *wait,
                             cl_event *event);

/* The blocking call of its kind; `output` has room for KNOWN_OUTPUT_MAX. */
gpu_mha_status known_call(gpu_mha_context *context, enum known_kind kind, float value,
                          float *output);

/* How many elements the output of a kind has. */
size_t known_output_count(enum known_kind kind);

/* 1 if every element is `value` to rounding; 0 else, and a NaN is never right. */
int known_right(enum known_kind kind, const float *output, float value);

/* 1 if every element still is the NaN that known_open put there. */
int known_untouched(enum known_kind kind, const float *output);

#endif
