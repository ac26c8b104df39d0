/*
 * What gpu-mha tune prints: the candidates as they come, then a table or one JSON object.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "command.h"
#include "tune.h"

/* Wide enough for a shape of the kernels for GPUs. */
enum { TEXT_WIDTH = 32 };

static json_t *candidate_json(const gpu_mha_tune_progress *progress)
{
    bool dropped = progress->state == GPU_MHA_TUNE_DROPPED;
    return json_pack("{s:o s:o s:o}", "shape", mha_json_text(progress->candidate), "median_ms",
                     dropped ? json_null() : mha_json_number(progress->median_ms), "dropped",
                     dropped ? mha_json_text(progress->reason) : json_null());
}

static void print_candidate(struct mha_tune_view *view, const gpu_mha_tune_progress *progress)
{
    if (!view->heading_printed) {
        printf("%s, %s\n", progress->kind, view->job->name);
        view->heading_printed = true;
    }
    printf("  %-*s ", TEXT_WIDTH, progress->candidate);
    if (progress->state == GPU_MHA_TUNE_DROPPED) {
        printf("dropped: %s\n", progress->reason);
    } else {
        printf("%10.4g ms%s\n", progress->median_ms, progress->index == 0 ? "  default" : "");
    }
    fflush(stdout);
}

void mha_tune_show(void *user, const gpu_mha_tune_progress *progress)
{
    struct mha_tune_view *view = user;

    switch (progress->state) {
    case GPU_MHA_TUNE_BUILDING:
        mha_bench_progress("%s: building %d of %d, %s", progress->kind, progress->index + 1,
                           progress->count, progress->candidate);
        return;
    case GPU_MHA_TUNE_TIMING:
        mha_bench_progress("%s: round %d of %d", progress->kind, progress->round + 1,
                           progress->rounds);
        return;
    default:
        break;
    }
    mha_bench_progress(NULL);
    if (view->settings->as_json) {
        json_array_append_new(view->candidates, candidate_json(progress));
    } else {
        print_candidate(view, progress);
    }
}

static json_t *row_json(struct mha_tune_row *row)
{
    const gpu_mha_tune_result *result = &row->result;
    json_t *candidates = row->candidates;

    row->candidates = NULL;
    return json_pack(
        "{s:o s:o s:o s:o s:o s:o s:b s:o}", "name", mha_json_text(row->job->name), "kind",
        mha_json_text(result->kind), "default", mha_json_text(result->default_text), "default_ms",
        mha_json_number(result->default_ms), "winner", mha_json_text(result->winner), "winner_ms",
        mha_json_number(result->winner_ms), "kept", result->kept, "candidates", candidates);
}

static enum mha_exit report_json(const struct mha_tune_settings *settings, gpu_mha_context *context,
                                 struct mha_tune_row *rows)
{
    char device[256];
    json_t *kinds = json_array();

    for (size_t i = 0; i < settings->job_count; i++) {
        if (rows[i].done) {
            json_array_append_new(kinds, row_json(&rows[i]));
        }
    }
    mha_device_name(context, device, sizeof device);
    return mha_print_json(json_pack("{s:o s:o s:o}", "device", mha_json_text(device), "file",
                                    mha_json_text(gpu_mha_tuning_file(context)), "kinds", kinds));
}

static void print_table(const struct mha_tune_settings *settings, const struct mha_tune_row *rows)
{
    int width = (int)sizeof "kind" - 1, text = (int)sizeof "default" - 1;

    for (size_t i = 0; i < settings->job_count; i++) {
        int of_kind = (int)strlen(rows[i].result.kind);
        int of_default = (int)strlen(rows[i].result.default_text);
        width = of_kind > width ? of_kind : width;
        text = of_default > text ? of_default : text;
    }
    printf("\n%-*s  %-*s %10s %10s %7s  %s\n", width, "kind", text, "default", "ms", "winner ms",
           "ratio", "winner");
    for (size_t i = 0; i < settings->job_count; i++) {
        const gpu_mha_tune_result *result = &rows[i].result;
        if (rows[i].done) {
            printf("%-*s  %-*s %10.4g %10.4g %7.2f  %s\n", width, result->kind, text,
                   result->default_text, result->default_ms, result->winner_ms,
                   result->default_ms / result->winner_ms, result->winner);
        }
    }
}

static void print_text(const struct mha_tune_settings *settings, gpu_mha_context *context,
                       const struct mha_tune_row *rows, size_t done, size_t kept)
{
    if (done == 0) {
        return;
    }
    print_table(settings, rows);
    if (settings->dry_run) {
        printf("\nNothing was kept: this was a dry run.\n");
    } else if (kept == done) {
        printf("\nKept in %s\n", gpu_mha_tuning_file(context));
    } else if (gpu_mha_tuning_file(context)[0] == '\0') {
        printf("\nNothing was kept: caching is off (see GPU_MHA_CACHE_DIR in gpu-mha --help).\n");
    } else {
        printf("\n%zu of %zu were kept in %s\n", kept, done, gpu_mha_tuning_file(context));
    }
}

enum mha_exit mha_tune_report(const struct mha_tune_settings *settings, gpu_mha_context *context,
                              struct mha_tune_row *rows)
{
    size_t done = 0, kept = 0;
    enum mha_exit code = MHA_EXIT_OK;

    for (size_t i = 0; i < settings->job_count; i++) {
        done += rows[i].done;
        kept += rows[i].done && rows[i].result.kept;
    }
    if (settings->as_json) {
        code = report_json(settings, context, rows);
    } else {
        print_text(settings, context, rows, done, kept);
    }
    if (kept == done || settings->dry_run) {
        return code;
    }
    /* The work was to keep them. */
    mha_report("%zu of %zu winners were not kept and end with this command; --dry-run is for "
               "measuring alone",
               done - kept, done);
    return MHA_EXIT_FAILED;
}
