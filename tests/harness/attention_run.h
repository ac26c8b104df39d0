/*
 * attention_run.h - problems of attention_data.h through the library, judged by the reference.
 */
#ifndef MHA_TESTS_ATTENTION_RUN_H
#define MHA_TESTS_ATTENTION_RUN_H

#include "attention_data.h"

#define ATTENTION_ERROR_SIZE 256

/* The outputs of one run without gaps, as the device wrote them; NULL where there is none. */
struct attention_outputs {
    void *arrays[ARRAY_COUNT]; /* from ARRAY_OUTPUT on */
    size_t bytes[ARRAY_COUNT];
    enum storage_type types[ARRAY_COUNT];
    char plan[64]; /* what the plan says of itself */
};

/* What can differ between runs of one problem without a bit of the outputs changing. */
struct attention_launch {
    enum poison poison;     /* in what must not be read, and in the workspace */
    cl_command_queue queue; /* NULL: one of its own */
    int out_of_order;       /* of its own: out-of-order, uploads in the wait list */
    int host_call;          /* gpu_mha() instead of a plan */
};

/*
 * One run. Returns 0, or -1 and a sentence in `error`, of ATTENTION_ERROR_SIZE bytes: the library
 * failed, or a byte outside the outputs changed. May be called from several threads at once.
 */
int attention_run(gpu_mha_context *context, const struct attention_data *data,
                  struct attention_launch launch, struct attention_outputs *outputs, char *error);

void attention_outputs_free(struct attention_outputs *outputs);

/*
 * The first array in which the outputs differ in a bit, or NULL. Any NaN equals any other: which of
 * two operands gives its bits to a NaN is left to the instruction.
 */
const char *attention_outputs_differ(const struct attention_outputs *a,
                                     const struct attention_outputs *b);

/* Sets GPU_MHA_TILE; NULL unsets it. Where GPU_MHA_TEST_TILE is set, that is the tile of every run.
 */
void attention_use_tile(const char *tile);

/* How often a test runs that loops over `count` tiles: once where GPU_MHA_TEST_TILE is set. */
int attention_tile_count(int count);

/* How a problem went. */
enum attention_fault {
    ATTENTION_RIGHT,
    ATTENTION_FAILED,    /* the library refused or failed, or wrote where it must not */
    ATTENTION_WRONG,     /* an element misses its bound */
    ATTENTION_OTHER_BITS /* outputs depend on what must not be read, or on the way of the call */
};

struct attention_verdict {
    enum attention_fault fault;
    enum attention_array array; /* that is wrong */
    double worst;               /* the largest error, in bounds */
    char plan[64];              /* what the plan says of itself */
    char text[1024];            /* of a fault */
};

/*
 * The whole check of one problem: outputs within their bounds, same bits with other poison in what
 * must not be read, same bits through gpu_mha() if the spec says so, every other byte untouched.
 * `elements_only`: no statistics of the errors, which need problems that were chosen for them.
 */
struct attention_verdict attention_try(gpu_mha_context *context, const struct attention_spec *spec,
                                       int elements_only);

/*
 * attention_try on attention_context; fails the Check test that runs, spec printed. The plan's
 * text goes to `plan` (64 bytes) if not NULL.
 */
void attention_check(const struct attention_spec *spec, char *plan);

/*
 * A checked fixture: a context on the default device for one test, and at its end the number of
 * problems that attention_check has solved in the test, on stdout.
 */
extern gpu_mha_context *attention_context;
void attention_open(void);
void attention_close(void);

/* A queue of the context; ends the test if there is none. */
cl_command_queue attention_queue(gpu_mha_context *context, int out_of_order);

#endif
