/*
 * gpu-mha info: the OpenCL devices that are there, what each can run, and how it would.
 */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "options.h"
#include "tune.h"

static const char *device_type_name(cl_device_type type)
{
    if (type & CL_DEVICE_TYPE_GPU) {
        return "GPU";
    }
    if (type & CL_DEVICE_TYPE_ACCELERATOR) {
        return "accelerator";
    }
    if (type & CL_DEVICE_TYPE_CPU) {
        return "CPU";
    }
    return "other";
}

/* "3.8 GiB": powers of 1024; returns text. */
static const char *bytes_text(cl_ulong bytes, char *text, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(text, size, unit && value < 100 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

static const char *source_name(gpu_mha_choice_source source)
{
    return source == GPU_MHA_CHOICE_TUNED         ? "tuned"
           : source == GPU_MHA_CHOICE_ENVIRONMENT ? "GPU_MHA_TILE"
           : source == GPU_MHA_CHOICE_AVOIDING    ? "avoiding what gpu-mha doctor found to fail"
                                                  : "default";
}

/* What a plan for one of the kinds of `gpu-mha tune` would run; false after a report. */
static bool read_choice(gpu_mha_context *context, const struct mha_tune_job *job,
                        gpu_mha_choice *choice)
{
    static char told[MHA_ERROR_SIZE]; /* what is wrong with the environment is so for every kind */
    *choice = (gpu_mha_choice){.struct_size = sizeof *choice};
    if (gpu_mha_choice_get(context, job->is_product ? NULL : &job->desc, choice)) {
        if (strcmp(told, gpu_mha_last_error()) != 0) {
            mha_report_library_error(job->name);
            snprintf(told, sizeof told, "%s", gpu_mha_last_error());
        }
        return false;
    }
    return true;
}

/* A device that lists well may still not open: that is told, and the others come all the same. */
static void print_choices(const gpu_mha_device_info *device)
{
    gpu_mha_context *context = NULL;
    bool any_tuned = false;

    if (gpu_mha_context_create(device->selector, &context)) {
        mha_report_library_error(device->selector);
        return;
    }
    for (size_t i = 0; i < MHA_TUNE_DEFAULT_JOBS; i++) {
        const struct mha_tune_job job = mha_tune_default_job(i);
        gpu_mha_choice choice;
        if (read_choice(context, &job, &choice)) {
            printf("        %s: %s, %s\n", choice.kind, choice.text, source_name(choice.source));
            any_tuned |= choice.source == GPU_MHA_CHOICE_TUNED;
        }
    }
    if (any_tuned) {
        printf("        tuned by gpu-mha tune, kept in %s\n", gpu_mha_tuning_file(context));
    }
    gpu_mha_context_release(context);
}

/* As print_choices: what does not open is told on stderr. */
static json_t *choices_json(const gpu_mha_device_info *device)
{
    gpu_mha_context *context = NULL;
    json_t *choices = json_array();

    if (!device->usable) {
        return choices;
    }
    if (gpu_mha_context_create(device->selector, &context)) {
        mha_report_library_error(device->selector);
        return choices;
    }
    for (size_t i = 0; i < MHA_TUNE_DEFAULT_JOBS; i++) {
        const struct mha_tune_job job = mha_tune_default_job(i);
        gpu_mha_choice choice;
        if (read_choice(context, &job, &choice)) {
            json_array_append_new(choices,
                                  json_pack("{s:s s:s s:s}", "kind", choice.kind, "shape",
                                            choice.text, "source", source_name(choice.source)));
        }
    }
    gpu_mha_context_release(context);
    return choices;
}

static void print_device(const gpu_mha_device_info *device)
{
    char global[32], alloc[32], local[32];
    bytes_text(device->global_bytes, global, sizeof global);
    bytes_text(device->max_alloc_bytes, alloc, sizeof alloc);
    bytes_text(device->local_bytes, local, sizeof local);

    printf("%c %-5s %s\n", device->is_default ? '*' : ' ', device->selector, device->name);
    printf("        %s by %s, %s, driver %s\n", device_type_name(device->type), device->vendor,
           device->version, device->driver);
    printf("        %u compute units, %s memory, %s local memory, work-groups up to %zu\n",
           (unsigned)device->compute_units, global, local, device->max_work_group_size);
    if (device->usable) {
        printf("        runs every operation on f32, f16 and bf16, with arrays up to %s each\n",
               alloc);
        print_choices(device);
    } else {
        printf("        cannot be used: %s\n", device->reason);
    }
}

/* Devices come in the order of their platforms, so a heading stands where the selector's first
 * number changes. */
static void print_heading(const gpu_mha_device_info *device, char *last, size_t size)
{
    char number[sizeof device->selector];
    snprintf(number, sizeof number, "%.*s", (int)strcspn(device->selector, ":"), device->selector);
    if (strcmp(number, last)) {
        printf("\nPlatform %s: %s\n", number, device->platform);
    }
    snprintf(last, size, "%s", number);
}

static json_t *device_json(const gpu_mha_device_info *device)
{
    return json_pack(
        "{s:s s:o s:o s:o s:o s:o s:s s:I s:I s:I s:I s:I s:b s:b s:o s:o}", "selector",
        device->selector, "name", mha_json_text(device->name), "vendor",
        mha_json_text(device->vendor), "platform", mha_json_text(device->platform), "version",
        mha_json_text(device->version), "driver", mha_json_text(device->driver), "type",
        device_type_name(device->type), "compute_units", (json_int_t)device->compute_units,
        "global_bytes", (json_int_t)device->global_bytes, "max_alloc_bytes",
        (json_int_t)device->max_alloc_bytes, "local_bytes", (json_int_t)device->local_bytes,
        "max_work_group_size", (json_int_t)device->max_work_group_size, "usable", device->usable,
        "default", device->is_default, "reason", mha_json_text(device->reason), "choices",
        choices_json(device));
}

static enum mha_exit print_devices_as_json(size_t count)
{
    json_t *devices = json_array();
    for (size_t i = 0; i < count; i++) {
        gpu_mha_device_info device = {.struct_size = sizeof device};
        if (gpu_mha_device_get(i, &device)) {
            json_decref(devices);
            return mha_report_library_error(NULL);
        }
        json_array_append_new(devices, device_json(&device));
    }
    return mha_print_json(json_pack("{s:s s:o}", "version", gpu_mha_version(), "devices", devices));
}

static enum mha_exit print_devices(size_t count)
{
    char platform[16] = "";
    printf("gpu_mha %s\n", gpu_mha_version());
    if (count == 0) {
        printf("\nNo OpenCL device was found. An OpenCL driver must be installed; on Debian the\n"
               "package pocl-opencl-icd makes the CPU a device.\n");
    }
    int has_default = 0;
    for (size_t i = 0; i < count; i++) {
        gpu_mha_device_info device = {.struct_size = sizeof device};
        if (gpu_mha_device_get(i, &device)) {
            return mha_report_library_error(NULL);
        }
        print_heading(&device, platform, sizeof platform);
        print_device(&device);
        has_default |= device.is_default;
    }
    if (has_default) {
        printf("\n* is used where --device is not given.\n");
    }
    return MHA_EXIT_OK;
}

enum mha_exit mha_cmd_info(int argc, char **argv)
{
    bool as_json = false;
    const struct mha_option options[] = {
        {.kind = MHA_OPTION_FLAG,
         .name = "json",
         .target = &as_json,
         .help = "Print one JSON object."},
    };
    const struct mha_command_line line = {
        .command = "gpu-mha info",
        .summary = "Lists the OpenCL devices of this machine and what each can run. The number in "
                   "front of a device selects it: --device 0:0.",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .epilogue = "The shape of the kernels for some kinds of attention, and what makes the "
                    "layer's products, stand below each device: the library's default, or what "
                    "gpu-mha tune measured. No device at all is an answer too, and no failure.",
    };
    int operand_count = 0;
    enum mha_exit code;
    if (!mha_options_are_ok(mha_options_parse(&line, argc, argv, &operand_count), &code)) {
        return code;
    }
    size_t count = 0;
    if (gpu_mha_device_count(&count)) {
        return mha_report_library_error(NULL);
    }
    return as_json ? print_devices_as_json(count) : print_devices(count);
}
