/*
 * attention_run.c - see attention_run.h.
 */
#include "attention_run.h"

#include "assertions.h"
#include "canary.h"
#include "queue.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In front of and behind the workspace; its offset must be a multiple of 128. */
#define WORKSPACE_MARGIN 384

void attention_use_tile(const char *tile)
{
    const char *forced = getenv("GPU_MHA_TEST_TILE");

    tile = forced ? forced : tile;
    if (tile) {
        setenv("GPU_MHA_TILE", tile, 1);
    } else {
        unsetenv("GPU_MHA_TILE");
    }
}

int attention_tile_count(int count)
{
    return getenv("GPU_MHA_TEST_TILE") ? 1 : count;
}

cl_command_queue attention_queue(gpu_mha_context *context, int out_of_order)
{
    return queue_make(context, out_of_order);
}

static int failed(char *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int failed(char *error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(error, ATTENTION_ERROR_SIZE, format, args);
    va_end(args);
    return -1;
}

/* ---- the device's side of one run ---- */

/* A buffer and what the host put there and got back. The workspace stands behind the arrays. */
struct device_array {
    cl_mem mem;
    size_t size;
    unsigned char *before, *after;
    cl_event uploaded;
};

#define WORKSPACE ARRAY_COUNT

struct run {
    gpu_mha_plan *plan;
    cl_command_queue queue;
    int owns_queue;
    struct device_array arrays[ARRAY_COUNT + 1];
    cl_event gate, done;
};

static void run_free(struct run *run)
{
    for (int a = 0; a <= WORKSPACE; a++) {
        struct device_array *array = &run->arrays[a];
        if (array->uploaded) {
            clReleaseEvent(array->uploaded);
        }
        if (array->mem) {
            clReleaseMemObject(array->mem);
        }
        free(array->before);
        free(array->after);
    }
    if (run->gate) {
        clReleaseEvent(run->gate);
    }
    if (run->done) {
        clReleaseEvent(run->done);
    }
    if (run->queue && run->owns_queue) {
        clReleaseCommandQueue(run->queue);
    }
    gpu_mha_plan_release(run->plan);
}

/* Host copies of everything, poisoned. */
static void run_images(struct run *run, const struct attention_data *data, enum poison poison)
{
    struct device_array *workspace = &run->arrays[WORKSPACE];

    for (int a = 0; a < ARRAY_COUNT; a++) {
        const struct attention_image *image = &data->images[a];
        if (!image->wanted || (int)image->shares != a) {
            continue;
        }
        run->arrays[a].before = attention_data_poisoned(image, poison);
        run->arrays[a].size = (size_t)image->elements * image->element_bytes;
    }
    if (!run->plan) {
        return;
    }
    workspace->size = gpu_mha_plan_workspace_bytes(run->plan) + 2 * WORKSPACE_MARGIN;
    workspace->before = attention_alloc((int64_t)workspace->size, 1);
    storage_poison(STORAGE_F32, workspace->before, (int64_t)(workspace->size / 4), poison);
}

/* Buffers and uploads. With a gate nothing is uploaded before it opens. */
static int run_upload(struct run *run, cl_context cl, char *error)
{
    for (int a = 0; a <= WORKSPACE; a++) {
        struct device_array *array = &run->arrays[a];
        cl_int code = CL_SUCCESS;
        if (!array->before) {
            continue;
        }
        array->after = attention_alloc((int64_t)array->size, 1);
        array->mem = clCreateBuffer(cl, CL_MEM_READ_WRITE, array->size, NULL, &code);
        if (!array->mem) {
            return failed(error, "clCreateBuffer gives %d for %zu bytes", code, array->size);
        }
        code = clEnqueueWriteBuffer(run->queue, array->mem, CL_FALSE, 0, array->size, array->before,
                                    run->gate ? 1 : 0, run->gate ? &run->gate : NULL,
                                    run->gate ? &array->uploaded : NULL);
        if (code != CL_SUCCESS) {
            return failed(error, "clEnqueueWriteBuffer gives %d", code);
        }
    }
    return 0;
}

static gpu_mha_buffer buffer_of(const struct run *run, const struct attention_data *data,
                                enum attention_array a)
{
    const struct attention_image *image = &data->images[a];

    if (!image->wanted) {
        return (gpu_mha_buffer){NULL, 0};
    }
    return (gpu_mha_buffer){run->arrays[image->shares].mem, (uint64_t)image->layout.offset};
}

static gpu_mha_buffers buffers_of(const struct run *run, const struct attention_data *data)
{
    return (gpu_mha_buffers){.query = buffer_of(run, data, ARRAY_QUERY),
                             .key = buffer_of(run, data, ARRAY_KEY),
                             .value = buffer_of(run, data, ARRAY_VALUE),
                             .past_key = buffer_of(run, data, ARRAY_PAST_KEY),
                             .past_value = buffer_of(run, data, ARRAY_PAST_VALUE),
                             .mask = buffer_of(run, data, ARRAY_MASK),
                             .bias = buffer_of(run, data, ARRAY_BIAS),
                             .key_lengths = buffer_of(run, data, ARRAY_KEY_LENGTHS),
                             .alibi_slopes = buffer_of(run, data, ARRAY_SLOPES),
                             .sinks = buffer_of(run, data, ARRAY_SINKS),
                             .output = buffer_of(run, data, ARRAY_OUTPUT),
                             .lse = buffer_of(run, data, ARRAY_LSE),
                             .weights = buffer_of(run, data, ARRAY_WEIGHTS),
                             .scores = buffer_of(run, data, ARRAY_SCORES),
                             .workspace = {run->arrays[WORKSPACE].mem, WORKSPACE_MARGIN}};
}

/*
 * On an out-of-order queue everything is put there before any of it may start, so that an order
 * not asked for through events shows.
 */
static int run_on_device(struct run *run, gpu_mha_context *context,
                         const struct attention_data *data, struct attention_launch launch,
                         char *error)
{
    cl_event uploads[ARRAY_COUNT + 1];
    cl_uint count = 0;
    cl_int code = CL_SUCCESS;

    run->owns_queue = launch.queue == NULL;
    run->queue = launch.queue ? launch.queue : attention_queue(context, launch.out_of_order);
    if (launch.out_of_order) {
        run->gate = clCreateUserEvent(gpu_mha_context_cl(context), &code);
        if (!run->gate) {
            return failed(error, "clCreateUserEvent gives %d", code);
        }
    }
    if (run_upload(run, gpu_mha_context_cl(context), error) != 0) {
        return -1;
    }
    for (int a = 0; a <= WORKSPACE; a++) {
        if (run->arrays[a].uploaded) {
            uploads[count++] = run->arrays[a].uploaded;
        }
    }
    gpu_mha_buffers buffers = buffers_of(run, data);
    if (gpu_mha_enqueue(run->plan, run->queue, &buffers, count, count ? uploads : NULL,
                        &run->done) != GPU_MHA_OK) {
        return failed(error, "gpu_mha_enqueue: %s", gpu_mha_last_error());
    }
    for (int a = 0; a <= WORKSPACE && code == CL_SUCCESS; a++) {
        struct device_array *array = &run->arrays[a];
        if (array->mem) {
            code = clEnqueueReadBuffer(run->queue, array->mem, CL_FALSE, 0, array->size,
                                       array->after, 1, &run->done, NULL);
        }
    }
    if (code == CL_SUCCESS && run->gate) {
        code = clSetUserEventStatus(run->gate, CL_COMPLETE);
    }
    if (code == CL_SUCCESS) {
        code = clFinish(run->queue);
    }
    return code == CL_SUCCESS ? 0 : failed(error, "reading back gives %d", code);
}

/* ---- gpu_mha() on the same images ---- */

static void *host_array(const struct run *run, const struct attention_data *data,
                        enum attention_array a)
{
    const struct attention_image *image = &data->images[a];

    if (!image->wanted) {
        return NULL;
    }
    return run->arrays[image->shares].after + (size_t)image->layout.offset * image->element_bytes;
}

static int run_on_host(struct run *run, gpu_mha_context *context, const struct attention_data *data,
                       char *error)
{
    for (int a = 0; a < ARRAY_COUNT; a++) {
        struct device_array *array = &run->arrays[a];
        if (array->before) {
            array->after = attention_alloc((int64_t)array->size, 1);
            memcpy(array->after, array->before, array->size);
        }
    }
    gpu_mha_arrays arrays = {.query = host_array(run, data, ARRAY_QUERY),
                             .key = host_array(run, data, ARRAY_KEY),
                             .value = host_array(run, data, ARRAY_VALUE),
                             .past_key = host_array(run, data, ARRAY_PAST_KEY),
                             .past_value = host_array(run, data, ARRAY_PAST_VALUE),
                             .mask = host_array(run, data, ARRAY_MASK),
                             .bias = host_array(run, data, ARRAY_BIAS),
                             .key_lengths = host_array(run, data, ARRAY_KEY_LENGTHS),
                             .alibi_slopes = host_array(run, data, ARRAY_SLOPES),
                             .sinks = host_array(run, data, ARRAY_SINKS),
                             .output = host_array(run, data, ARRAY_OUTPUT),
                             .lse = host_array(run, data, ARRAY_LSE),
                             .weights = host_array(run, data, ARRAY_WEIGHTS),
                             .scores = host_array(run, data, ARRAY_SCORES)};
    if (gpu_mha(context, &data->desc, &arrays) != GPU_MHA_OK) {
        return failed(error, "gpu_mha: %s", gpu_mha_last_error());
    }
    return 0;
}

/* ---- what came of it ---- */

static int check_untouched(const struct run *run, const struct attention_data *data, char *error)
{
    const struct device_array *workspace = &run->arrays[WORKSPACE];
    size_t behind = workspace->size - WORKSPACE_MARGIN;

    for (int a = 0; a < ARRAY_INPUTS; a++) {
        const struct device_array *array = &run->arrays[a];
        int64_t at =
            array->before ? compare_bytes(array->after, array->before, (int64_t)array->size) : -1;
        if (at >= 0) {
            return failed(error, "byte %" PRId64 " of the buffer of %s was written", at,
                          attention_array_name((enum attention_array)a));
        }
    }
    for (int a = ARRAY_INPUTS; a < ARRAY_COUNT; a++) {
        const struct attention_image *image = &data->images[a];
        int64_t at = image->wanted ? layout_first_changed_gap(&image->layout, image->type,
                                                              run->arrays[a].after, image->elements,
                                                              POISON_FF)
                                   : -1;
        if (at != -1) {
            return failed(error, "element %" PRId64 " around %s, not of it, was written", at,
                          attention_array_name((enum attention_array)a));
        }
    }
    if (workspace->after &&
        (memcmp(workspace->after, workspace->before, WORKSPACE_MARGIN) != 0 ||
         memcmp(workspace->after + behind, workspace->before + behind, WORKSPACE_MARGIN) != 0)) {
        return failed(error, "bytes around the workspace of %zu bytes were written",
                      behind - WORKSPACE_MARGIN);
    }
    return 0;
}

static void collect(const struct run *run, const struct attention_data *data,
                    struct attention_outputs *outputs)
{
    for (int a = ARRAY_INPUTS; a < ARRAY_COUNT; a++) {
        const struct attention_image *image = &data->images[a];
        const struct layout *l = &image->layout;
        if (!image->wanted) {
            continue;
        }
        size_t row = (size_t)l->D * image->element_bytes;
        int64_t rows = layout_count(l) > 0 ? l->B * l->H * l->N : 0;
        outputs->bytes[a] = (size_t)rows * row;
        outputs->types[a] = image->type;
        outputs->arrays[a] = attention_alloc((int64_t)outputs->bytes[a], 1);
        for (int64_t n = 0; n < rows; n++) {
            int64_t at = layout_index(l, n / l->N / l->H, n / l->N % l->H, n % l->N, 0);
            memcpy((unsigned char *)outputs->arrays[a] + (size_t)n * row,
                   run->arrays[a].after + (size_t)at * image->element_bytes, row);
        }
    }
}

int attention_run(gpu_mha_context *context, const struct attention_data *data,
                  struct attention_launch launch, struct attention_outputs *outputs, char *error)
{
    struct run run = {0};
    int status = -1;

    *outputs = (struct attention_outputs){.plan = ""};
    if (!launch.host_call) {
        if (gpu_mha_plan_create(context, &data->desc, &run.plan) != GPU_MHA_OK) {
            failed(error, "gpu_mha_plan_create: %s", gpu_mha_last_error());
            goto cleanup;
        }
        snprintf(outputs->plan, sizeof(outputs->plan), "%s", gpu_mha_plan_text(run.plan));
    }
    run_images(&run, data, launch.poison);
    status = launch.host_call ? run_on_host(&run, context, data, error)
                              : run_on_device(&run, context, data, launch, error);
    if (status == 0) {
        status = check_untouched(&run, data, error);
    }
    if (status == 0) {
        collect(&run, data, outputs);
    }

cleanup:
    run_free(&run);
    return status;
}

void attention_outputs_free(struct attention_outputs *outputs)
{
    for (int a = 0; a < ARRAY_COUNT; a++) {
        free(outputs->arrays[a]);
    }
    *outputs = (struct attention_outputs){.plan = ""};
}

static int arrays_differ(enum storage_type type, const void *a, const void *b, size_t bytes)
{
    if (bytes == 0 || memcmp(a, b, bytes) == 0) {
        return 0;
    }
    size_t element = type == STORAGE_F32 ? 4 : 2;
    for (size_t i = 0; i < bytes / element; i++) {
        const unsigned char *x = (const unsigned char *)a + i * element;
        const unsigned char *y = (const unsigned char *)b + i * element;
        if (memcmp(x, y, element) != 0 && !(isnan(storage_load(type, a, (int64_t)i)) &&
                                            isnan(storage_load(type, b, (int64_t)i)))) {
            return 1;
        }
    }
    return 0;
}

const char *attention_outputs_differ(const struct attention_outputs *a,
                                     const struct attention_outputs *b)
{
    for (int n = ARRAY_INPUTS; n < ARRAY_COUNT; n++) {
        if (a->bytes[n] != b->bytes[n] ||
            arrays_differ(a->types[n], a->arrays[n], b->arrays[n], a->bytes[n])) {
            return attention_array_name((enum attention_array)n);
        }
    }
    return NULL;
}
