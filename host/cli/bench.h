/*
 * The parts of gpu-mha bench: what is measured (bench_options.c, bench_shapes.c), on what
 * (bench_device.c, bench_limits.c), how (bench_case.c, bench_layer.c, bench_start.c, cmd_bench.c),
 * and how it is shown (bench_report.c).
 *
 * Functions that return false have reported why.
 */
#ifndef MHA_CLI_BENCH_H
#define MHA_CLI_BENCH_H

#include <gpu_mha/gpu_mha.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report.h"

/* ---- what is measured ---------------------------------------------------------------------- */

enum { MHA_BENCH_SHAPES_MAX = 128 };

struct mha_bench_shape {
    const char *name;
    gpu_mha_desc desc;
    /* With desc.key_lengths: of the first batch entry. From there they grow evenly, so that the
     * last entry sees all NK keys. */
    int64_t shortest;
    /* 0: attention alone. Else a whole layer around it: self-attention (NQ = NK) of one storage
     * type, with inputs and output of this width. */
    int64_t width;
};

struct mha_bench_options {
    struct mha_bench_shape shapes[MHA_BENCH_SHAPES_MAX];
    size_t shape_count;
    const char *device; /* selector or NULL */
    double seconds;     /* of running time per shape */
    bool with_start;    /* measure cold and warm start as well */
    bool as_json;
};

/* False: exit with *code, after --help or a reported mistake. */
bool mha_bench_options_parse(struct mha_bench_options *options, int argc, char **argv,
                             enum mha_exit *code);

/* The shapes that are measured where none is named; *count of them. */
const struct mha_bench_shape *mha_bench_default_shapes(size_t *count);

/* "B,H,HKV,NQ,NK,DK" or with ",DV" (else DV = DK) into desc; false if it is not that. */
bool mha_bench_shape_read(const char *text, gpu_mha_desc *desc);
#define MHA_BENCH_SHAPE_RULE                                                                       \
    "--shape needs B,H,HKV,NQ,NK,DK or B,H,HKV,NQ,NK,DK,DV, whole numbers of 1 or more, not '%s'"

/* All tensors are stored as `type`. */
void mha_bench_store_as(gpu_mha_desc *desc, gpu_mha_type type);

/* Length of batch entry `b`; NK without key lengths. */
int64_t mha_bench_key_length(const struct mha_bench_shape *shape, int64_t b);

/* The least that any algorithm has to do: hidden keys count nowhere, each input is read once. */
struct mha_bench_work {
    double flops; /* a multiply-add is 2; softmax and masks count nothing */
    double bytes; /* queries, visible keys and values, output; of a layer: input, weights, output */
};

struct mha_bench_work mha_bench_work_of(const struct mha_bench_shape *shape);
/* The same for a layer, whose attention alone has so many flops. */
struct mha_bench_work mha_bench_layer_work(const struct mha_bench_shape *shape,
                                           double attention_flops);

/* What a layer reads; counts of elements are double so that none overflows. */
enum mha_bench_layer_part {
    MHA_BENCH_INPUT,
    MHA_BENCH_WEIGHT_Q,
    MHA_BENCH_WEIGHT_K,
    MHA_BENCH_WEIGHT_V,
    MHA_BENCH_WEIGHT_OUT,
    MHA_BENCH_BIAS_Q,
    MHA_BENCH_BIAS_K,
    MHA_BENCH_BIAS_V,
    MHA_BENCH_BIAS_OUT,
    MHA_BENCH_LAYER_PARTS
};

struct mha_bench_layer {
    double counts[MHA_BENCH_LAYER_PARTS];
};

struct mha_bench_layer mha_bench_layer_of(const struct mha_bench_shape *shape);

/* ---- on what ------------------------------------------------------------------------------- */

enum { MHA_BENCH_TYPES = 3 }; /* gpu_mha_type is the index */

struct mha_bench_device {
    gpu_mha_context *context;
    cl_context cl;   /* the context's */
    cl_device_id id; /* the context's */
    cl_command_queue queue;
    char name[256];
    bool is_cpu;
    cl_uint compute_units;
    size_t group; /* work-items per group for the kernels of this command */
    cl_ulong cache_bytes, global_bytes, alloc_bytes;
    /* Inputs: one buffer per storage type, from which runs take slice after slice. */
    cl_mem pool[MHA_BENCH_TYPES];
    size_t pool_bytes[MHA_BENCH_TYPES];
    cl_mem output, workspace; /* shared by all shapes */
};

bool mha_bench_device_open(struct mha_bench_device *device, const char *selector);
void mha_bench_device_close(struct mha_bench_device *device);

/* Bytes of a pool whose slices, taken in turn, leave nothing of each other in the caches. */
size_t mha_bench_pool_bytes(const struct mha_bench_device *device);

/* A buffer of at least `bytes`, every byte of it written; NULL after a report about `what`. */
cl_mem mha_bench_buffer(struct mha_bench_device *device, cl_mem_flags flags, size_t bytes,
                        const char *what);

/* Reports a failed OpenCL call; true for CL_SUCCESS. */
bool mha_bench_cl_ok(cl_int code, const char *call);

/* A limit: candidates for the best way to use the device, the time of each in every round. */
struct mha_bench_limits;

struct mha_bench_peaks {
    double fma_gflops;
    double read_gbps;
    double launch_us; /* one empty kernel, enqueued and waited for */
};

/* Builds the kernels and fills the pools with random numbers; NULL after a report. */
struct mha_bench_limits *mha_bench_limits_create(struct mha_bench_device *device);
bool mha_bench_limits_round(struct mha_bench_limits *limits);
struct mha_bench_peaks mha_bench_limits_peaks(struct mha_bench_limits *limits);
void mha_bench_limits_free(struct mha_bench_limits *limits);

/* ---- how ----------------------------------------------------------------------------------- */

/* Times in milliseconds. */
struct mha_bench_samples {
    double *values;
    size_t count, capacity;
};

bool mha_bench_samples_add(struct mha_bench_samples *samples, double milliseconds);
/* NaN without samples. Sorts them. */
double mha_bench_samples_median(struct mha_bench_samples *samples);
void mha_bench_samples_free(struct mha_bench_samples *samples);

/* One shape made ready for a device. */
struct mha_bench_case {
    const struct mha_bench_shape *shape;
    gpu_mha_plan *plan;
    cl_mem key_lengths;
    size_t key_at, value_at; /* bytes from the start of a slice to its keys and values */
    size_t layer_at[MHA_BENCH_LAYER_PARTS]; /* of a layer: elements to each part */
    size_t slice_bytes, output_bytes;
    size_t next;    /* number of the next slice */
    size_t repeats; /* runs per round */
    double spent_ms;
    double cold_ms, warm_ms; /* NaN: not measured */
    struct mha_bench_samples samples;
};

/* Makes the plan of a case that is zero but for its start times. The buffers that its runs need
 * are made by mha_bench_cases_reserve. */
bool mha_bench_case_open(struct mha_bench_case *one, struct mha_bench_device *device,
                         const struct mha_bench_shape *shape);
bool mha_bench_cases_reserve(struct mha_bench_case *cases, size_t count,
                             struct mha_bench_device *device, size_t pool_bytes);
/* One run on the next slice, from enqueueing it to the end of the queue. */
bool mha_bench_case_run(struct mha_bench_case *one, struct mha_bench_device *device,
                        double *milliseconds);
void mha_bench_case_close(struct mha_bench_case *one);

gpu_mha_status mha_bench_layer_plan(gpu_mha_context *context, const struct mha_bench_shape *shape,
                                    gpu_mha_plan **plan);
/* One run on the slice that begins at element `first` of the pool. */
gpu_mha_status mha_bench_layer_enqueue(const struct mha_bench_case *one,
                                       const struct mha_bench_device *device, uint64_t first,
                                       gpu_mha_buffer workspace);

/*
 * What the first result costs more than a later one in a process of its own: the plan, and what the
 * driver leaves to the first run. Cold: with empty caches. Warm: with the caches that the cold
 * process left. Starts processes by fork(), so OpenCL must not have been used before.
 */
bool mha_bench_start_measure(const struct mha_bench_shape *shape, const char *selector,
                             double *cold_ms, double *warm_ms);

/* ---- how it is shown ----------------------------------------------------------------------- */

/* A line on a terminal that each call replaces; nothing in a pipe. NULL removes it. */
void mha_bench_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints everything; returns the exit code. */
enum mha_exit mha_bench_report(const struct mha_bench_options *options,
                               const struct mha_bench_device *device,
                               const struct mha_bench_peaks *peaks, struct mha_bench_case *cases);

#endif
