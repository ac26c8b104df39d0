/*
 * The parts of gpu-mha run: its command line, the problem read from files, and the results.
 */
#ifndef MHA_CLI_RUN_H
#define MHA_CLI_RUN_H

#include <gpu_mha/gpu_mha.h>
#include <jansson.h>
#include <stdbool.h>

#include "npy.h"
#include "report.h"

/* ---- command line (run_options.c) --------------------------------------------------------- */

/* What the command line says; paths are NULL and numbers 0 where it says nothing. */
struct mha_run_options {
    const char *query, *key, *value;
    const char *past_key, *past_value;
    const char *mask, *bias, *key_lengths, *alibi_slopes, *sinks;
    int64_t heads, kv_heads;
    gpu_mha_desc desc; /* what needs no file: scale, cap, causal, window, ALiBi, method,
                          and which optional outputs are wanted */
    bool convert;      /* --dtype was given: query, key and value become `type` */
    gpu_mha_type type;
    bool convert_output; /* --output-dtype was given: the output becomes `output_type` */
    gpu_mha_type output_type;
    const char *device;

    const char *output, *lse, *weights, *scores, *plot;
    const char *expect; /* folder of what the results must be */
    int64_t batch;      /* the batch entry that `plot` shows */
    bool as_json;
};

/* False when there is nothing to run; *code is then the exit code. */
bool mha_run_options_parse(struct mha_run_options *options, int argc, char **argv,
                           enum mha_exit *code);

/* ---- problem (run_problem.c) -------------------------------------------------------------- */

struct mha_run_problem {
    int rank; /* of query, key, value and output: 4 is (B, H, N, D), 3 is (B, N, H*D) */
    gpu_mha_desc desc;
    struct mha_npy query, key, value, past_key, past_value;
    struct mha_npy mask, bias, key_lengths, alibi_slopes, sinks;
};

/*
 * Reads the files and fits them together. The problem is one that gpu_mha_desc_check accepts, and
 * every array has the size that its descriptor says. On failure *code is the exit code and `error`
 * has one sentence; free the problem either way.
 */
bool mha_run_problem_read(struct mha_run_problem *problem, const struct mha_run_options *options,
                          enum mha_exit *code, char *error, size_t error_size);
void mha_run_problem_free(struct mha_run_problem *problem);

const char *mha_run_type_name(gpu_mha_type type);

/* ---- results (run_results.c) -------------------------------------------------------------- */

struct mha_run_results {
    void *output;                  /* in the type and layout of the descriptor */
    float *lse, *weights, *scores; /* NULL where not wanted */
    char device[256];
    char method[256];
    size_t workspace_bytes;
    double milliseconds;
    double minimum, maximum, mean; /* of the output without its NaNs; NaN if nothing is left */
    int64_t nan_count;
};

enum mha_run_result { MHA_RUN_OUTPUT, MHA_RUN_LSE, MHA_RUN_WEIGHTS, MHA_RUN_SCORES };
#define MHA_RUN_RESULTS 4

/* One result as an array; its data are NULL where it is not wanted, and borrowed. */
struct mha_npy mha_run_result_array(const struct mha_run_results *results,
                                    const struct mha_run_problem *problem,
                                    enum mha_run_result result);

/* Memory for what the descriptor asks for. Free the results either way. */
bool mha_run_results_allocate(struct mha_run_results *results, const gpu_mha_desc *desc,
                              char *error, size_t error_size);
void mha_run_results_free(struct mha_run_results *results);

/*
 * Fills in the statistics and writes the files, the output last: where it is new, all are. Each
 * file appears complete or not at all.
 */
bool mha_run_results_write(struct mha_run_results *results, const struct mha_run_problem *problem,
                           const struct mha_run_options *options, char *error, size_t error_size);

/*
 * Compares with the files of options->expect, if there is one (run_expect.c). False, and what is
 * wrong in `error`: an element too far from what is expected, or no file to compare with.
 */
bool mha_run_results_expect(const struct mha_run_results *results,
                            const struct mha_run_problem *problem,
                            const struct mha_run_options *options, char *error, size_t error_size);

/* What has been done, in a few lines or as JSON. */
enum mha_exit mha_run_results_print(const struct mha_run_results *results,
                                    const struct mha_run_problem *problem,
                                    const struct mha_run_options *options);

#endif
