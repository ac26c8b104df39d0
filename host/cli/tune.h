/*
 * The parts of gpu-mha tune: what is tuned (tune_options.c) and how it is shown (tune_report.c).
 * The order of things is in cmd_tune.c.
 */
#ifndef MHA_CLI_TUNE_H
#define MHA_CLI_TUNE_H

#include <gpu_mha/gpu_mha.h>
#include <jansson.h>
#include <stdbool.h>

#include "report.h"

enum { MHA_TUNE_JOBS_MAX = 32 };

/* An attention, or a product of (M, K) by (K, N). */
struct mha_tune_job {
    const char *name; /* as on the command line */
    bool is_product;
    gpu_mha_desc desc;
    int64_t M, N, K;
};

struct mha_tune_settings {
    const char *device;
    double seconds;
    bool dry_run, as_json;
    struct mha_tune_job jobs[MHA_TUNE_JOBS_MAX];
    size_t job_count;
};

/* False after a report, or after --help; *code is then the exit code. */
bool mha_tune_settings_parse(struct mha_tune_settings *settings, int argc, char **argv,
                             enum mha_exit *code);

/* What is tuned where nothing is asked for: the kinds of problem that gpu-mha info tells of. */
enum { MHA_TUNE_DEFAULT_JOBS = 6 };
struct mha_tune_job mha_tune_default_job(size_t index);

/* One job as it goes: lines on stdout, a progress line on a terminal; or both into JSON. */
struct mha_tune_view {
    const struct mha_tune_settings *settings;
    const struct mha_tune_job *job;
    bool heading_printed;
    json_t *candidates; /* with --json, else NULL */
};

/* A gpu_mha_tune_fn; `user` is a struct mha_tune_view. */
void mha_tune_show(void *user, const gpu_mha_tune_progress *progress);

/* What became of a job; `done` is false where it failed. */
struct mha_tune_row {
    const struct mha_tune_job *job;
    bool done;
    gpu_mha_tune_result result;
    json_t *candidates;
};

/*
 * The table, or the JSON object; takes the rows' JSON. Returns the exit code: winners that could
 * not be kept are a failure, unless the run was dry.
 */
enum mha_exit mha_tune_report(const struct mha_tune_settings *settings, gpu_mha_context *context,
                              struct mha_tune_row *rows);

#endif
