/*
 * What gpu-mha bench prints: a progress line, then a table or one JSON object.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "bench.h"
#include "command.h"

/* One shape's numbers. */
struct row {
    double median_ms, gflops, gbps;
    const char *limit;
    double fraction; /* of that limit */
};

void mha_bench_progress(const char *format, ...)
{
    char line[128] = "";

    if (!isatty(STDERR_FILENO)) {
        return;
    }
    if (format) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(line, sizeof line, format, arguments);
        va_end(arguments);
    }
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
}

/* The limit that binds is the one under which the work takes the longest. */
static struct row row_of(struct mha_bench_case *one, const struct mha_bench_peaks *peaks)
{
    struct mha_bench_work work = mha_bench_work_of(one->shape);
    double median = mha_bench_samples_median(&one->samples);
    const struct {
        const char *name;
        double milliseconds;
    } limits[] = {
        {"fma", work.flops / peaks->fma_gflops * 1e-6},
        {"bandwidth", work.bytes / peaks->read_gbps * 1e-6},
        {"launch", peaks->launch_us * 1e-3},
    };
    size_t binding = 0;

    for (size_t i = 1; i < sizeof limits / sizeof limits[0]; i++) {
        if (limits[i].milliseconds > limits[binding].milliseconds) {
            binding = i;
        }
    }
    return (struct row){
        .median_ms = median,
        .gflops = work.flops / median * 1e-6,
        .gbps = work.bytes / median * 1e-6,
        .limit = limits[binding].name,
        .fraction = limits[binding].milliseconds / median,
    };
}

static json_t *shape_json(struct mha_bench_case *one, const struct mha_bench_peaks *peaks)
{
    struct row row = row_of(one, peaks);
    return json_pack(
        "{s:o s:o s:o s:o s:s s:o s:I s:o s:o s:o}", "name", mha_json_text(one->shape->name),
        "median_ms", mha_json_number(row.median_ms), "gflops", mha_json_number(row.gflops), "gbps",
        mha_json_number(row.gbps), "limit", row.limit, "fraction", mha_json_number(row.fraction),
        "workspace_bytes", (json_int_t)gpu_mha_plan_workspace_bytes(one->plan), "cold_ms",
        mha_json_number(one->cold_ms), "warm_ms", mha_json_number(one->warm_ms), "variant",
        mha_json_text(gpu_mha_plan_text(one->plan)));
}

static enum mha_exit report_json(const struct mha_bench_options *options,
                                 const struct mha_bench_device *device,
                                 const struct mha_bench_peaks *peaks, struct mha_bench_case *cases)
{
    json_t *shapes = json_array();

    for (size_t i = 0; i < options->shape_count; i++) {
        json_array_append_new(shapes, shape_json(&cases[i], peaks));
    }
    return mha_print_json(json_pack(
        "{s:o s:{s:o s:o s:o} s:o}", "device", mha_json_text(device->name), "limits", "fma_gflops",
        mha_json_number(peaks->fma_gflops), "read_gbps", mha_json_number(peaks->read_gbps),
        "launch_us", mha_json_number(peaks->launch_us), "shapes", shapes));
}

/* "-" for what was not measured. */
static const char *time_text(double milliseconds, char *text, size_t size)
{
    snprintf(text, size, isnan(milliseconds) ? "-" : "%.0f", milliseconds);
    return text;
}

static const char *bytes_text(size_t bytes, char *text, size_t size)
{
    if (bytes < 10240) {
        snprintf(text, size, "%zu B", bytes);
    } else if (bytes < (size_t)10240 << 10) {
        snprintf(text, size, "%.0f KiB", (double)bytes / 1024);
    } else {
        snprintf(text, size, "%.0f MiB", (double)bytes / 1048576);
    }
    return text;
}

static enum mha_exit report_text(const struct mha_bench_options *options,
                                 const struct mha_bench_device *device,
                                 const struct mha_bench_peaks *peaks, struct mha_bench_case *cases)
{
    int width = (int)sizeof "shape" - 1;

    printf("%s\n"
           "limits: %.1f GFLOP/s multiply-add, %.1f GB/s read, %.1f us for an empty kernel\n\n",
           device->name, peaks->fma_gflops, peaks->read_gbps, peaks->launch_us);
    for (size_t i = 0; i < options->shape_count; i++) {
        int length = snprintf(NULL, 0, "%s", options->shapes[i].name);
        width = length > width ? length : width;
    }
    printf("%-*s %10s %9s %7s  %-9s %4s %10s %8s %8s  %s\n", width, "shape", "median ms", "GFLOP/s",
           "GB/s", "limit", "of", "workspace", "cold ms", "warm ms", "variant");
    for (size_t i = 0; i < options->shape_count; i++) {
        struct row row = row_of(&cases[i], peaks);
        char workspace[32], cold[32], warm[32];
        printf("%-*s %10.4g %9.1f %7.2f  %-9s %3.0f%% %10s %8s %8s  %s\n", width,
               options->shapes[i].name, row.median_ms, row.gflops, row.gbps, row.limit,
               100 * row.fraction,
               bytes_text(gpu_mha_plan_workspace_bytes(cases[i].plan), workspace, sizeof workspace),
               time_text(cases[i].cold_ms, cold, sizeof cold),
               time_text(cases[i].warm_ms, warm, sizeof warm), gpu_mha_plan_text(cases[i].plan));
    }
    return MHA_EXIT_OK;
}

enum mha_exit mha_bench_report(const struct mha_bench_options *options,
                               const struct mha_bench_device *device,
                               const struct mha_bench_peaks *peaks, struct mha_bench_case *cases)
{
    return options->as_json ? report_json(options, device, peaks, cases)
                            : report_text(options, device, peaks, cases);
}
