/*
 * What the library builds and launches, on devices that are not here:  choices OUT_DIR [LABEL...]
 *
 * For each device of devices.h (or those named) and each problem below it makes a plan and runs it
 * on the driver of driver.c; of the small operators it makes plans. So what is compiled offline is
 * what the host would choose, and said in one place. OUT_DIR gets
 *   N.cl          each source once, as the library hands it to a compiler
 *   builds.tsv    a line for each build: device, problem, source file, build options
 *   launches.tsv  a line for each launch: device, problem, what the plan calls itself, kernel,
 *                 source file, work-items, work-items per group, bytes of local arguments, options
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
    {"mixed-past",
     {.B = 1,
      .H = 4,
      .HKV = 2,
      .NQ = 40,
      .NK = 40,
      .NP = 9,
      .DK = 33,
      .DV = 31,
      .past_key.type = GPU_MHA_F16,
      .past_value.type = GPU_MHA_BF16}},
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
    FILE *builds, *launches;
    const char *device, *problem, *plan;
    char *sources[SOURCES_MAX]; /* the texts written so far; the number names the file */
    int source_count;
    int failed;
};

/* The number of a source, which is written when it is first seen. */
static int number_of(struct list *list, const char *source)
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
        fprintf(stderr, "choices: %s cannot be written\n", path);
        exit(1);
    }
    strcpy(copy, source);
    list->sources[list->source_count++] = copy;
    return number;
}

static void list_build(const char *source, const char *options, void *user)
{
    struct list *list = user;
    fprintf(list->builds, "%s\t%s\t%d.cl\t%s\n", list->device, list->problem,
            number_of(list, source), options);
}

static void list_launch(const struct driver_launch *launch, void *user)
{
    struct list *list = user;
    fprintf(list->launches, "%s\t%s\t%s\t%s\t%d.cl\t%zu\t%zu\t%zu\t%s\n", list->device,
            list->problem, list->plan, launch->kernel, number_of(list, launch->source),
            launch->global, launch->local, launch->local_argument_bytes, launch->options);
}

/* One buffer, large enough for anything, stands for every array. */
static gpu_mha_status run(gpu_mha_context *context, const gpu_mha_desc *desc, struct list *list)
{
    cl_mem memory[8] = {NULL};
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
    for (int m = 0; m < 8; ++m) {
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
    if (desc->NP > 0) {
        buffers.past_key.mem = memory[6];
        buffers.past_value.mem = memory[7];
    }
    buffers.lse.mem = desc->lse ? memory[5] : NULL;
    buffers.weights.mem = desc->weights != GPU_MHA_WEIGHTS_NONE ? memory[5] : NULL;
    status = gpu_mha_enqueue(plan, queue, &buffers, 0, NULL, &event);
    for (int m = 0; m < 8; ++m) {
        clReleaseMemObject(memory[m]);
    }
    clReleaseCommandQueue(queue);
    gpu_mha_plan_release(plan);
    return status;
}

static gpu_mha_status plan_operators(gpu_mha_context *context)
{
    const gpu_mha_merge_desc merge = {.B = 1, .H = 2, .NQ = 3, .DV = 4};
    const gpu_mha_rotary_desc rotary = {.B = 1, .H = 2, .N = 3, .D = 4};
    const gpu_mha_cache_desc cache = {.B = 1, .H = 2, .D = 3, .N = 4, .NC = 5};
    gpu_mha_plan *plans[3] = {NULL};
    gpu_mha_status status = gpu_mha_merge_plan_create(context, &merge, &plans[0]);
    if (status == GPU_MHA_OK) {
        status = gpu_mha_rotary_plan_create(context, &rotary, &plans[1]);
    }
    if (status == GPU_MHA_OK) {
        status = gpu_mha_cache_plan_create(context, &cache, &plans[2]);
    }
    for (int p = 0; p < 3; ++p) {
        gpu_mha_plan_release(plans[p]);
    }
    return status;
}

static void complain(struct list *list)
{
    fprintf(stderr, "choices: %s, %s: %s\n", list->device, list->problem, gpu_mha_last_error());
    list->failed = 1;
}

static void list_device(struct list *list, const struct driver_device *device)
{
    driver_use(device);
    list->device = device->label;
    list->problem = "context";
    gpu_mha_context *context = NULL;
    if (gpu_mha_context_create(NULL, &context) != GPU_MHA_OK) {
        complain(list);
        return;
    }
    for (int p = 0; p < PROBLEM_COUNT; ++p) {
        list->problem = problems[p].name;
        if (run(context, &problems[p].desc, list) != GPU_MHA_OK) {
            complain(list);
        }
    }
    list->problem = "operators";
    if (plan_operators(context) != GPU_MHA_OK) {
        complain(list);
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

static FILE *open_list(const char *directory, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "choices: %s cannot be written\n", path);
        exit(1);
    }
    return file;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: choices OUT_DIR [LABEL...]\n");
        return 2;
    }
    struct list list = {.directory = argv[1]};
    list.builds = open_list(argv[1], "builds.tsv");
    list.launches = open_list(argv[1], "launches.tsv");
    /* Nothing that belongs to the user is read or written, and every device is the default one. */
    setenv("GPU_MHA_CACHE_DIR", "off", 1);
    unsetenv("GPU_MHA_DEVICE");
    driver_tell(&(struct driver_listener){list_build, list_launch, &list});
    for (int d = 0; d < OFFLINE_DEVICE_COUNT; ++d) {
        if (is_wanted(offline_devices[d].label, argc - 2, argv + 2)) {
            list_device(&list, &offline_devices[d]);
        }
    }
    for (int i = 0; i < list.source_count; ++i) {
        free(list.sources[i]);
    }
    if (fclose(list.builds) != 0 || fclose(list.launches) != 0) {
        fprintf(stderr, "choices: %s cannot be written to\n", argv[1]);
        return 1;
    }
    return list.failed;
}
