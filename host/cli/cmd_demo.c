/*
 * gpu-mha demo: one attention layer of a real sentence encoder, compared with what the model itself
 * computed, and a look at what its heads attend to.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "demo.h"
#include "options.h"

/*
 * How far weights (sums of 1) and output (in units of its largest element) may be from the model's
 * own numbers: 2^-18. Those are single precision too, and themselves up to a quarter of it off.
 */
#define DEMO_BOUND 0x1p-18

/* ---- data and computation ----------------------------------------------------------------- */

static bool has_data(const char *folder)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/layer.json", folder);

    return length > 0 && (size_t)length < sizeof path && access(path, R_OK) == 0;
}

/* The data installed beside this program, wherever the installed tree was moved to. */
static bool beside_program(char *folder, size_t size)
{
#ifdef GPU_MHA_INSTALL_DATA
    char program[4096];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) {
        return false;
    }
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash) {
        return false;
    }
    *slash = '\0';
    const int wanted = snprintf(folder, size, "%s/" GPU_MHA_INSTALL_DATA, program);
    return wanted > 0 && (size_t)wanted < size && has_data(folder);
#else
    (void)folder;
    (void)size;
    return false;
#endif
}

/* The folder asked for, or the environment's, or the installed one, or the source tree's. */
static const char *find_data(const char *asked)
{
    static char installed[8192];
    const char *environment = getenv("GPU_MHA_DATA_DIR");

    if (asked) {
        return asked;
    }
    if (environment && environment[0] != '\0') {
        return environment;
    }
    if (beside_program(installed, sizeof installed)) {
        return installed;
    }
#ifdef GPU_MHA_DEMO_DATA
    if (has_data(GPU_MHA_DEMO_DATA)) {
        return GPU_MHA_DEMO_DATA;
    }
#endif
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool compute(gpu_mha_context *context, struct mha_demo *demo)
{
    const struct mha_demo_data *data = &demo->data;
    const int64_t mask_shape[4] = {data->B, 1, 1, data->N};
    double times[MHA_DEMO_REPEATS];
    gpu_mha_desc attention = {
        .struct_size = sizeof attention,
        .B = data->B,
        .H = data->H,
        .HKV = data->H,
        .NQ = data->N,
        .NK = data->N,
        .DK = data->E / data->H,
        .DV = data->E / data->H,
        .weights = GPU_MHA_WEIGHTS_PER_HEAD,
    };
    const gpu_mha_layer_desc desc = {
        .struct_size = sizeof desc,
        .attention = &attention,
        .EQ = data->E,
        .EK = data->E,
        .EV = data->E,
        .EO = data->E,
        .bias_q = 1,
        .bias_k = 1,
        .bias_v = 1,
        .bias_out = 1,
    };
    gpu_mha_layer_arrays arrays = {
        .struct_size = sizeof arrays,
        .query_input = data->layer_input.data,
        .key_input = data->layer_input.data,
        .value_input = data->layer_input.data,
        .weight_q = data->w_q.data,
        .weight_k = data->w_k.data,
        .weight_v = data->w_v.data,
        .weight_out = data->w_out.data,
        .bias_q = data->b_q.data,
        .bias_k = data->b_k.data,
        .bias_v = data->b_v.data,
        .bias_out = data->b_out.data,
        .mask = data->key_mask.data,
        .output = demo->output,
        .weights = demo->weights,
    };

    if (gpu_mha_mask_broadcast(&attention, GPU_MHA_MASK_BOOL, 4, mask_shape) != GPU_MHA_OK) {
        return false;
    }
    for (int run = -1; run < MHA_DEMO_REPEATS; run++) {
        double start = mha_milliseconds();
        if (gpu_mha_layer(context, &desc, &arrays) != GPU_MHA_OK) {
            return false;
        }
        double time = mha_milliseconds() - start;
        if (run < 0) {
            demo->first_ms = time;
        } else {
            times[run] = time;
        }
    }
    qsort(times, MHA_DEMO_REPEATS, sizeof *times, by_value);
    demo->median_ms = times[MHA_DEMO_REPEATS / 2];
    return true;
}

/* ---- what came out ------------------------------------------------------------------------ */

/* The largest |got - want|, infinite if one is NaN; *largest is the largest |want|. */
static double largest_error(const struct mha_npy *want, const float *got, double *largest)
{
    const float *wanted = want->data;
    double error = 0.0;

    *largest = 0.0;
    for (size_t i = 0; i < want->count; i++) {
        double difference = fabs((double)got[i] - (double)wanted[i]);
        if (!(difference <= error)) { /* true for NaN */
            error = isnan(difference) ? INFINITY : difference;
        }
        if (fabs((double)wanted[i]) > *largest) {
            *largest = fabs((double)wanted[i]);
        }
    }
    return error;
}

static void compare(struct mha_demo *demo)
{
    double largest;

    demo->weights_error = largest_error(&demo->data.expected_weights, demo->weights, &largest);
    demo->weights_bound = DEMO_BOUND;
    demo->output_error = largest_error(&demo->data.expected_output, demo->output, &largest);
    demo->output_bound = DEMO_BOUND * largest;
}

bool mha_demo_is_right(const struct mha_demo *demo)
{
    return demo->weights_error <= demo->weights_bound && demo->output_error <= demo->output_bound;
}

/* ---- the command -------------------------------------------------------------------------- */

/* Finds the sentence that has both tokens. */
static bool find_tokens(struct mha_demo *demo, char *error, size_t error_size)
{
    const struct mha_demo_data *data = &demo->data;

    for (int64_t b = 0; b < data->B; b++) {
        demo->b = b;
        demo->length = mha_demo_length(data, b);
        demo->query = mha_demo_find(data, b, data->query_token);
        demo->wanted = mha_demo_find(data, b, data->wanted_token);
        if (demo->query >= 0 && demo->wanted >= 0) {
            return true;
        }
    }
    return mha_fail(error, error_size, "no sentence has both \"%s\" and \"%s\" among its tokens",
                    data->query_token, data->wanted_token);
}

static bool prepare(struct mha_demo *demo, const char *folder)
{
    char error[MHA_ERROR_SIZE];

    if (!mha_demo_data_read(folder, &demo->data, error, sizeof error) ||
        !find_tokens(demo, error, sizeof error)) {
        mha_report("%s", error);
        return false;
    }
    demo->weights = calloc(demo->data.expected_weights.count, sizeof *demo->weights);
    demo->output = calloc(demo->data.expected_output.count, sizeof *demo->output);
    if (!demo->weights || !demo->output) {
        mha_report("out of memory for the results");
        return false;
    }
    return true;
}

static enum mha_exit finish(const struct mha_demo *demo, const char *plot, bool json)
{
    char error[MHA_ERROR_SIZE];

    if (!mha_demo_draw(demo, plot, error, sizeof error)) {
        mha_report("%s", error);
        return MHA_EXIT_FAILED;
    }
    if (json && mha_demo_print_json(demo, plot) != MHA_EXIT_OK) {
        return MHA_EXIT_FAILED;
    }
    if (!json) {
        mha_demo_print_text(demo, plot);
    }
    if (!mha_demo_is_right(demo)) {
        mha_report("the device's numbers are further from the model's than the bound allows");
        return MHA_EXIT_FAILED;
    }
    return MHA_EXIT_OK;
}

static enum mha_exit run_demo(const char *folder, const char *selector, const char *plot, bool json)
{
    struct mha_demo demo = {0};
    gpu_mha_context *context = NULL;
    enum mha_exit code = MHA_EXIT_FAILED;

    if (!prepare(&demo, folder)) {
        goto cleanup;
    }
    if (gpu_mha_context_create(selector, &context) != GPU_MHA_OK) {
        mha_report_library_error(NULL);
        goto cleanup;
    }
    mha_device_name(context, demo.device, sizeof demo.device);
    if (!compute(context, &demo)) {
        mha_report_library_error(NULL);
        goto cleanup;
    }
    compare(&demo);
    code = finish(&demo, plot, json);
cleanup:
    gpu_mha_context_release(context);
    free(demo.weights);
    free(demo.output);
    mha_demo_data_free(&demo.data);
    return code;
}

static const char epilogue[] =
    "The data is looked for in --data, else in the folder that the environment variable "
    "GPU_MHA_DATA_DIR names, else where it was installed with this program, else in the source "
    "tree it was built from.\n"
    "\n"
    "Exit code 1 if a weight is further than 2^-18 from the model's own number, or an element of "
    "the output further than 2^-18 of the largest one.";

enum mha_exit mha_cmd_demo(int argc, char **argv)
{
    const char *asked = NULL, *selector = NULL, *plot = "attention.png";
    bool json = false;
    int operands = 0;
    const struct mha_option options[] = {
        {.kind = MHA_OPTION_STRING,
         .name = "data",
         .target = &asked,
         .value_name = "DIR",
         .help = "The folder with the layer and its input."},
        {.kind = MHA_OPTION_STRING,
         .name = "device",
         .target = &selector,
         .value_name = "DEVICE",
         .help = "gpu, cpu, accelerator, PLATFORM:DEVICE as in gpu-mha info, or part of a name; "
                 "the best device if not given."},
        {.kind = MHA_OPTION_STRING,
         .name = "plot",
         .target = &plot,
         .value_name = "FILE",
         .help = "Where to write the heat map, a PNG file; attention.png if not given."},
        {.kind = MHA_OPTION_FLAG,
         .name = "json",
         .target = &json,
         .help = "Print the results as JSON."},
    };
    const struct mha_command_line line = {
        .command = "gpu-mha demo",
        .summary = "Runs an attention layer of a real sentence encoder, compares it with what the "
                   "model itself computed, and shows which words a word looks at.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .epilogue = epilogue,
    };

    enum mha_exit code;
    if (!mha_options_are_ok(mha_options_parse(&line, argc, argv, &operands), &code)) {
        return code;
    }
    const char *folder = find_data(asked);
    if (!folder) {
        mha_report("the demo's data was not found; name its folder with --data");
        return MHA_EXIT_FAILED;
    }
    return run_demo(folder, selector, plot, json);
}
