/*
 * What the library builds and launches, on devices that are not here:  choices OUT_DIR [LABEL...]
 *
 * For each device of devices.h (or those named) and each problem below it makes a plan and runs it
 * on the driver of driver.c. OUT_DIR gets each kernel source once, as the library hands it to a
 * compiler, and `launches.tsv`, a line for each launch: device, problem, what the plan calls
 * itself, kernel, source file, work-items, work-items per group, bytes of local arguments, build
 * options. So what is compiled offline is what the host would choose, and said in one place.
 *
 * GPU_MHA_TILE and the like work as they do for the library.
 */
#include <gpu_mha/gpu_mha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices.h"

struct problem {
    const char *name;
    gpu_mha_desc desc;
};

#define PREFILL .B = 1, .H = 12, .HKV = 12, .NQ = 1024, .NK = 1024
#define DECODE .B = 1, .H = 32, .HKV = 8, .NQ = 1, .NK = 4096
#define HEAD(size) .DK = (size), .DV = (size)
#define F16 .key.type = GPU_MHA_F16, .value.type = GPU_MHA_F16
#define ALL_F16 .query.type = GPU_MHA_F16, F16, .output.type = GPU_MHA_F16
#define BF16 .key.type = GPU_MHA_BF16, .value.type = GPU_MHA_BF16

/* "prefill-" and "decode-" are what tables show; the rest is there to be compiled. */
static const struct problem problems[] = {
    {"prefill-64", {PREFILL, HEAD(64)}},
    {"prefill-80", {PREFILL, HEAD(80)}},
    {"prefill-128", {PREFILL, HEAD(128)}},
    {"prefill-256", {PREFILL, HEAD(256)}},
    {"prefill-64-f16", {PREFILL, HEAD(64), ALL_F16}},
    {"prefill-128-f16", {PREFILL, HEAD(128), ALL_F16}},
    {"decode-64", {DECODE, HEAD(64)}},
    {"decode-80", {DECODE, HEAD(80)}},
    {"decode-128", {DECODE, HEAD(128)}},
    {"decode-256", {DECODE, HEAD(256)}},
    {"decode-64-f16", {DECODE, HEAD(64), ALL_F16}},
    {"decode-128-f16", {DECODE, HEAD(128), ALL_F16}},
    {"prefill-bf16", {PREFILL, HEAD(64), BF16}},
    {"decode-bf16", {DECODE, HEAD(64), BF16}},
    {"few-queries", {.B = 3, .H = 6, .HKV = 3, .NQ = 3, .NK = 777, .DK = 40, .DV = 24}},
    {"odd-heads", {.B = 2, .H = 3, .HKV = 1, .NQ = 65, .NK = 33, .DK = 257, .DV = 1}},
    {"wide-heads", {.B = 1, .H = 1, .HKV = 1, .NQ = 40, .NK = 40, .DK = 2000, .DV = 1200}},
    {"tiny", {.B = 1, .H = 1, .HKV = 1, .NQ = 1, .NK = 1, .DK = 1, .DV = 1}},
    {"staged-64", {PREFILL, HEAD(64), .method = GPU_MHA_STAGED, .lse = 1}},
    {"averaged",
     {.B = 2, .H = 4, .HKV = 2, .NQ = 7, .NK = 9, HEAD(24), .weights = GPU_MHA_WEIGHTS_AVERAGED}},
};
enum { PROBLEM_COUNT = sizeof problems / sizeof problems[0] };

#define SOURCES_MAX 256

struct list {
    const char *directory;
    FILE *launches;
    const char *device, *problem, *plan;
    char *sources[SOURCES_MAX]; /* the texts written so far; the number names the file */
    int source_count;
    int failed;
};

static int write_source(struct list *list, const char *kernel, const char *source)
{
    for (int i = 0; i < list->source_count; ++i) {
        if (strcmp(list->sources[i], source) == 0) {
            return i;
        }
    }
    char path[1024];
    const int number = list->source_count;
    char *copy = number < SOURCES_MAX ? malloc(strlen(source) + 1) : NULL;
    snprintf(path, sizeof path, "%s/%d.cl", list->directory, number);
    FILE *file = copy == NULL ? NULL : fopen(path, "w");
    if (file == NULL || fputs(source, file) < 0 || fclose(file) != 0) {
        fprintf(stderr, "choices: %s, for kernel %s, cannot be written\n", path, kernel);
        exit(1);
    }
    strcpy(copy, source);
    list->sources[list->source_count++] = copy;
    return number;
}

static void report(const struct driver_launch *launch, void *user)
{
    struct list *list = user;
    const int number = write_source(list, launch->kernel, launch->source);
    fprintf(list->launches, "%s\t%s\t%s\t%s\t%d.cl\t%zu\t%zu\t%zu\t%s\n", list->device,
            list->problem, list->plan, launch->kernel, number, launch->global, launch->local,
            launch->local_argument_bytes, launch->options);
}

/* One buffer, large enough for anything, stands for every array. */
static gpu_mha_status run(gpu_mha_context *context, const gpu_mha_desc *desc, struct list *list)
{
    cl_mem memory[6] = {NULL};
    cl_event event = NULL;
    gpu_mha_plan *plan = NULL;
    gpu_mha_status status = gpu_mha_plan_create(context, desc, &plan);
    if (status != GPU_MHA_OK) {
        return status;
    }
    list->plan = gpu_mha_plan_text(plan);
    cl_context cl = gpu_mha_context_cl(context);
    const cl_command_queue queue =
        clCreateCommandQueue(cl, gpu_mha_context_device(context), 0, NULL);
    for (int m = 0; m < 6; ++m) {
        memory[m] = clCreateBuffer(cl, CL_MEM_READ_WRITE, (size_t)64 * GIB, NULL, NULL);
    }
    gpu_mha_buffers buffers = {.query.mem = memory[0],
                               .key.mem = memory[1],
                               .value.mem = memory[2],
                               .output.mem = memory[3],
                               .workspace.mem = memory[4]};
    if (gpu_mha_plan_workspace_bytes(plan) == 0) {
        buffers.workspace.mem = NULL;
    }
    buffers.lse.mem = desc->lse ? memory[5] : NULL;
    buffers.weights.mem = desc->weights != GPU_MHA_WEIGHTS_NONE ? memory[5] : NULL;
    status = gpu_mha_enqueue(plan, queue, &buffers, 0, NULL, &event);
    for (int m = 0; m < 6; ++m) {
        clReleaseMemObject(memory[m]);
    }
    clReleaseCommandQueue(queue);
    gpu_mha_plan_release(plan);
    return status;
}

static void list_device(struct list *list, const struct driver_device *device)
{
    driver_use(device);
    list->device = device->label;
    gpu_mha_context *context = NULL;
    if (gpu_mha_context_create(NULL, &context) != GPU_MHA_OK) {
        fprintf(stderr, "choices: %s: %s\n", device->label, gpu_mha_last_error());
        list->failed = 1;
        return;
    }
    for (int p = 0; p < PROBLEM_COUNT; ++p) {
        list->problem = problems[p].name;
        if (run(context, &problems[p].desc, list) != GPU_MHA_OK) {
            fprintf(stderr, "choices: %s, %s: %s\n", device->label, problems[p].name,
                    gpu_mha_last_error());
            list->failed = 1;
        }
    }
    gpu_mha_context_release(context);
}

static int is_wanted(const char *label, int count, char **labels)
{
    int wanted = count == 0;
    for (int i = 0; i < count; ++i) {
        wanted |= strcmp(label, labels[i]) == 0;
    }
    return wanted;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: choices OUT_DIR [LABEL...]\n");
        return 2;
    }
    char path[1024];
    struct list list = {.directory = argv[1]};
    snprintf(path, sizeof path, "%s/launches.tsv", argv[1]);
    list.launches = fopen(path, "w");
    if (list.launches == NULL) {
        fprintf(stderr, "choices: %s cannot be written\n", path);
        return 1;
    }
    /* Nothing that belongs to the user is read or written, and every device is the default one. */
    setenv("GPU_MHA_CACHE_DIR", "off", 1);
    unsetenv("GPU_MHA_DEVICE");
    driver_on_launch(report, &list);
    for (int d = 0; d < OFFLINE_DEVICE_COUNT; ++d) {
        if (is_wanted(offline_devices[d].label, argc - 2, argv + 2)) {
            list_device(&list, &offline_devices[d]);
        }
    }
    for (int i = 0; i < list.source_count; ++i) {
        free(list.sources[i]);
    }
    if (fclose(list.launches) != 0) {
        fprintf(stderr, "choices: %s cannot be written\n", path);
        return 1;
    }
    return list.failed;
}
