/*
 * drawn.h - random attention whose every bit is known from a run alone, which is held to the
 * float64 reference. Nothing here uses Check.
 */
#ifndef MHA_TESTS_THREADS_DRAWN_H
#define MHA_TESTS_THREADS_DRAWN_H

#include <gpu_mha/gpu_mha.h>

struct drawn {
    gpu_mha_desc desc; /* packed float tensors */
    size_t query_count, key_count, value_count, output_count;
    float *query, *key, *value; /* owned, as the next */
    float *alone;               /* the output */
    char text[256];             /* what is wrong, where a function returns -1 */
};

/* Draws the inputs, computes alone and judges. Returns 0 or -1; free with drawn_free in any case.
 */
int drawn_make(struct drawn *d, gpu_mha_context *context, const gpu_mha_desc *desc, unsigned seed);
void drawn_free(struct drawn *d);

/* A blocking call; NULL if it gives the same bits, or a sentence. From any thread. */
const char *drawn_call(const struct drawn *d, gpu_mha_context *context);

/* The buffers of one run at a time. */
struct drawn_buffers {
    gpu_mha_buffers fields;
    cl_mem all[5]; /* owned */
};

int drawn_open(struct drawn_buffers *b, const struct drawn *d, cl_context cl,
               const gpu_mha_plan *plan);
void drawn_close(struct drawn_buffers *b);

/* Enqueues on the queue and reads the output back; NULL if the bits are the same. */
const char *drawn_enqueue(const struct drawn *d, const struct drawn_buffers *b, gpu_mha_plan *plan,
                          cl_command_queue queue);

#endif
