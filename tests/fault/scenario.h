/*
 * scenario.h - what a user does with the library, in pieces small enough to be repeated some
 * thousand times, each time with another call or allocation that fails.
 *
 * open, clear, finish, check and close are the test's own; act is the library's work, and the only
 * part in which something fails. On failure act leaves nothing of its own behind.
 */
#ifndef MHA_TESTS_FAULT_SCENARIO_H
#define MHA_TESTS_FAULT_SCENARIO_H

#include <gpu_mha/gpu_mha.h>

enum scenario_flags {
    /* open and close around each act; otherwise one open serves all, and act may not keep a thing
     */
    SCENARIO_FRESH = 1,
    /* whatever fails, something else may take its place: then the result must be right */
    SCENARIO_GIVES_WAY = 2,
    /* CLBlast takes part: its name may stand for the call's, and its caches keep objects */
    SCENARIO_CLBLAST = 4,
    /* takes so long that not every N is tried */
    SCENARIO_SPARSE = 8,
    /* neither calls OpenCL nor allocates */
    SCENARIO_PURE = 16,
    /* keeps what its first act makes to the end of the process */
    SCENARIO_KEEPS = 32
};

struct scenario {
    const char *name;
    const char *covers; /* the public functions in act, separated by blanks */
    unsigned flags;
    void (*open)(void);
    void (*clear)(void); /* outputs to bytes of 0xFF, guards included */
    gpu_mha_status (*act)(void);
    cl_int (*finish)(void);       /* of what was enqueued: waits; NULL where act blocks */
    void (*check)(int succeeded); /* guards always, the numbers after a success */
    void (*close)(void);
};

/* Each list ends with an entry without a name. */
extern const struct scenario scenarios_device[], scenarios_attention[], scenarios_operators[],
    scenarios_layer[], scenarios_tune[], scenarios_texts[], scenarios_verdicts[];

int scenario_count(void);
const struct scenario *scenario_get(int index);

/* Notes what is wrong, with what was being tried in front. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What is being tried: in front of complaints. */
void trying(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the Check test if there were complaints. */
void no_complaints(void);

/* The library's word that nothing failed; otherwise ends the test. For open. */
void must(gpu_mha_status status);
void must_cl(cl_int code, const char *what);

/* Complains unless |got - want| <= 1e-5 (1 + |want|). */
void expect_near(const char *what, int index, double got, double want);

/* ---- host arrays with guards ---- */

enum { CELLS_GUARD = 16, CELLS_MAX = 512 };

struct cells {
    const char *name;
    int count;
    float all[CELLS_GUARD + CELLS_MAX + CELLS_GUARD];
};

float *cells_clear(struct cells *cells, const char *name, int count);
float *cells_at(struct cells *cells);
void cells_check_guards(const struct cells *cells);

/* ---- a queue and buffers ---- */

/* One enqueue: an out-of-order queue where there is one, a gate to wait for, buffers with guards.
 */
enum { RIG_BUFFERS = 12 };

struct rig {
    gpu_mha_context *context;
    gpu_mha_plan *plan;
    cl_command_queue queue;
    cl_event gate, done;
    struct {
        cl_mem mem;
        int count;          /* of floats between the guards */
        const char *output; /* its name; NULL for an input */
    } buffers[RIG_BUFFERS];
};

void rig_open(struct rig *rig, int out_of_order);
void rig_close(struct rig *rig);

/* Buffer `index`, with `values` or, for an output, 0xFF. */
gpu_mha_buffer rig_input(struct rig *rig, int index, const void *values, int count);
gpu_mha_buffer rig_output(struct rig *rig, int index, const char *name, int count);
gpu_mha_buffer rig_workspace(struct rig *rig, int index, size_t bytes);

void rig_clear(struct rig *rig);

/* After an enqueue: *event must be there if and only if it succeeded. */
gpu_mha_status rig_enqueued(struct rig *rig, gpu_mha_status status);

/* Waits for the event and releases it. */
cl_int rig_finish(struct rig *rig);

/* Waits for the queue; reads an output and looks at its guards. */
void rig_read(struct rig *rig, int index, float *values);

#endif
