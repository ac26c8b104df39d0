/*
 * The parts of gpu-mha doctor: what is tried and how it is judged (doctor_attention.c,
 * doctor_operators.c, doctor_layer.c, on the arrays of doctor_arrays.c), the process in which that
 * happens (doctor_child.c), the one that watches it (doctor_process.c), and what is told of it
 * (doctor_facts.c, doctor_report.c). The order of things is in cmd_doctor.c.
 */
#ifndef MHA_CLI_DOCTOR_H
#define MHA_CLI_DOCTOR_H

#include <gpu_mha/gpu_mha.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "report.h"
#include "words.h"

enum { MHA_DOCTOR_TYPES = 3, MHA_DOCTOR_SENTENCE = 512 };

/* What became of one variant with one storage type. */
struct mha_doctor_finding {
    gpu_mha_verdict verdict;
    double error, bound; /* of the element whose error takes the largest part of its bound */
    double seconds;
    char sentence[MHA_DOCTOR_SENTENCE]; /* why, where the numbers do not say it; else "" */
};

/* ---- arrays (doctor_arrays.c) -------------------------------------------------------------- */

/* Random numbers as they are stored, and what they are worth. */
struct mha_doctor_array {
    size_t count;
    void *data;     /* in its storage type */
    double *values; /* the same numbers, exactly */
};

/* In [-1, 1), the same in every run; `seed` tells arrays apart. False: out of memory. */
bool mha_doctor_random(struct mha_doctor_array *array, gpu_mha_type type, size_t count,
                       uint32_t seed);
void mha_doctor_free(struct mha_doctor_array *array);

/* An output: `values` is what is wanted, `bounds` how far each may be off, `data` is all NaN. */
struct mha_doctor_output {
    size_t count;
    gpu_mha_type type;
    void *data;
    double *values, *bounds;
};

bool mha_doctor_output_make(struct mha_doctor_output *output, gpu_mha_type type, size_t count);
void mha_doctor_output_free(struct mha_doctor_output *output);

/* Sets what is wanted: the bound is `slack` and what rounding to the type adds. */
void mha_doctor_want(struct mha_doctor_output *output, size_t at, double value, double slack);

/* Judges; the worst of this and of what the finding already has stays in it. */
void mha_doctor_judge(const struct mha_doctor_output *output, struct mha_doctor_finding *finding);

/* The finding of a library call that did not succeed; true if it did. */
bool mha_doctor_called(gpu_mha_status status, struct mha_doctor_finding *finding);

/* The finding where this process itself has no memory. */
void mha_doctor_no_memory(struct mha_doctor_finding *finding);

/* ---- what is tried ------------------------------------------------------------------------- */

/* Masks, lengths and soft cap of an attention that is tried. */
struct mha_doctor_problem {
    gpu_mha_desc desc;
    const int32_t *lengths; /* with desc.key_lengths */
    const uint8_t *mask;    /* (NQ, NK) with desc.mask */
};

/*
 * The float64 reference: two passes over each row, as the header defines it. Query, key and value
 * are packed (B, H, N, D); output and LSE (may be NULL) are given their values and bounds.
 */
void mha_doctor_reference(const struct mha_doctor_problem *problem, const double *query,
                          const double *key, const double *value, struct mha_doctor_output *output,
                          struct mha_doctor_output *lse);

/* Each tries one variant with one storage type and fills in the finding. */
void mha_doctor_try_attention(gpu_mha_context *context, const gpu_mha_variant_info *variant,
                              gpu_mha_type type, struct mha_doctor_finding *finding);
void mha_doctor_try_merge(gpu_mha_context *context, gpu_mha_type type,
                          struct mha_doctor_finding *finding);
void mha_doctor_try_rotary(gpu_mha_context *context, gpu_mha_type type,
                           struct mha_doctor_finding *finding);
void mha_doctor_try_cache_update(gpu_mha_context *context, gpu_mha_type type,
                                 struct mha_doctor_finding *finding);

/* `products`: what must make the products, "tile" or "CLBlast"; NULL for whatever does. */
void mha_doctor_try_layer(gpu_mha_context *context, gpu_mha_type type, int64_t B, int64_t N,
                          const char *products, struct mha_doctor_finding *finding);

/* The name of the context's device without control characters. */
enum { MHA_DOCTOR_NAME = 256 };
void mha_doctor_device_name(gpu_mha_context *context, char name[MHA_DOCTOR_NAME]);

/* ---- the process in which it happens (doctor_child.c) -------------------------------------- */

/* The first argument of that process, which no user gives. */
#define MHA_DOCTOR_CHILD "--child"

/* The descriptor on which it says what it does, a line each: see doctor_child.c. */
enum { MHA_DOCTOR_CHANNEL = 3 };

enum mha_exit mha_doctor_child(int argc, char **argv);

/* ---- the one that watches it (doctor_process.c) -------------------------------------------- */

struct mha_doctor_job {
    const char *device;  /* a selector, or NULL */
    const char *opened;  /* the name of the device that must be there; NULL for any */
    const char *variant; /* its name; "" for making a context alone */
    unsigned types;      /* bit 1 << gpu_mha_type */
    double seconds;      /* that each type may take */
    bool verbose;        /* what the process says on stderr is shown */
    char *const *avoid;  /* what failed so far, "f16 NAME" each, NULL at the end */
};

/* Starts to catch SIGINT, SIGTERM and SIGHUP, and ends that. Returns what was caught, or 0. */
void mha_doctor_watch_begin(void);
int mha_doctor_watch_end(void);
bool mha_doctor_interrupted(void);

/*
 * Tries one variant; findings[type] of its types are filled in, GPU_MHA_VERDICT_NONE for what was
 * not tried since a type before it ended the process, or since a signal came. No process is left
 * when it returns. False after a report: no process could be started, or the device is not there
 * any more, which says nothing of the variant.
 */
bool mha_doctor_try(const struct mha_doctor_job *job,
                    struct mha_doctor_finding findings[MHA_DOCTOR_TYPES]);

/* ---- what is told of it -------------------------------------------------------------------- */

/* Takes paths and the names of user and host out of a sentence. */
void mha_doctor_clean(char *text);

/* Device, driver, limits and versions as lines "name: value" (doctor_facts.c), to be released. */
json_t *mha_doctor_facts(gpu_mha_context *context);

struct mha_doctor_row {
    gpu_mha_variant_info variant;
    bool tried;
    struct mha_doctor_finding findings[MHA_DOCTOR_TYPES];
};

/* True for what the library avoids from then on, and what makes the command fail. */
static inline bool mha_doctor_is_bad(gpu_mha_verdict verdict)
{
    return verdict >= GPU_MHA_VERDICT_WRONG;
}

/* The lines of one variant, as they come. */
void mha_doctor_print_row(const struct mha_doctor_row *row);

struct mha_doctor_summary {
    const struct mha_doctor_row *rows;
    size_t row_count;
    bool early, dry_run, kept; /* early: ended before everything was tried */
    const char *file;          /* where verdicts are kept, or "" */
};

void mha_doctor_print_report(const struct mha_doctor_summary *summary, gpu_mha_context *context);
enum mha_exit mha_doctor_print_json(const struct mha_doctor_summary *summary,
                                    gpu_mha_context *context);

#endif
