/*
 * gpu-mha tune: the shapes that kernels can have, measured on a device, and the fastest kept where
 * the library finds it. The library measures; here is what, and how it is shown.
 */
#include <stdio.h>

#include "bench.h"
#include "command.h"
#include "tune.h"

static bool tune_one(const struct mha_tune_settings *settings, gpu_mha_context *context,
                     struct mha_tune_row *row)
{
    const struct mha_tune_job *job = row->job;
    struct mha_tune_view view = {.settings = settings, .job = job};
    if (settings->as_json) {
        row->candidates = view.candidates = json_array();
    }
    const gpu_mha_tune_options options = {
        .struct_size = sizeof options,
        .seconds = settings->seconds,
        .dry_run = settings->dry_run,
        .progress = mha_tune_show,
        .user = &view,
    };
    row->result = (gpu_mha_tune_result){.struct_size = sizeof row->result};
    gpu_mha_status status =
        job->is_product
            ? gpu_mha_tune_product(context, job->M, job->N, job->K, &options, &row->result)
            : gpu_mha_tune(context, &job->desc, &options, &row->result);
    mha_bench_progress(NULL);
    row->done = status == GPU_MHA_OK;
    if (!row->done) {
        mha_report_library_error(job->name);
    }
    return row->done;
}

static enum mha_exit tune_all(const struct mha_tune_settings *settings, gpu_mha_context *context)
{
    struct mha_tune_row rows[MHA_TUNE_JOBS_MAX] = {{0}};
    bool all_done = true;
    char device[256];

    if (!settings->as_json) {
        printf("%s\n", mha_device_name(context, device, sizeof device));
    }
    /* What cannot be measured here is no reason to leave the rest. */
    for (size_t i = 0; i < settings->job_count; i++) {
        rows[i].job = &settings->jobs[i];
        all_done &= tune_one(settings, context, &rows[i]);
    }
    enum mha_exit code = mha_tune_report(settings, context, rows);
    for (size_t i = 0; i < settings->job_count; i++) {
        json_decref(rows[i].candidates);
    }
    return all_done ? code : MHA_EXIT_FAILED;
}

enum mha_exit mha_cmd_tune(int argc, char **argv)
{
    struct mha_tune_settings settings;
    enum mha_exit code;
    gpu_mha_context *context = NULL;

    if (!mha_tune_settings_parse(&settings, argc, argv, &code)) {
        return code;
    }
    if (gpu_mha_context_create(settings.device, &context)) {
        return mha_report_library_error(NULL);
    }
    code = tune_all(&settings, context);
    gpu_mha_context_release(context);
    return code;
}
