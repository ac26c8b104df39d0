/* Complaints, guarded arrays, and the rig of an enqueue. */
#include "scenario.h"

#include <check.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { COMPLAINTS_SHOWN = 40 };

static char attempt[256];
static int complaints;

static const struct scenario *const lists[] = {
    scenarios_device, scenarios_attention, scenarios_operators, scenarios_layer,
    scenarios_tune,   scenarios_texts,     scenarios_verdicts};
#define LISTS (int)(sizeof lists / sizeof lists[0])

/* With index -1 the number of all. */
static int find(int index, const struct scenario **found)
{
    int count = 0;
    for (int list = 0; list < LISTS; list++) {
        for (const struct scenario *s = lists[list]; s->name; s++) {
            if (count == index) {
                *found = s;
            }
            count++;
        }
    }
    return count;
}

int scenario_count(void)
{
    const struct scenario *none = NULL;
    return find(-1, &none);
}

const struct scenario *scenario_get(int index)
{
    const struct scenario *found = NULL;
    find(index, &found);
    ck_assert_ptr_nonnull(found);
    return found;
}

void trying(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(attempt, sizeof attempt, format, values);
    va_end(values);
}

void complain(const char *format, ...)
{
    va_list values;
    if (++complaints > COMPLAINTS_SHOWN) {
        return;
    }
    fprintf(stderr, "%s: ", attempt);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
}

void no_complaints(void)
{
    ck_assert_msg(complaints == 0, "%d complaints, the first of them above", complaints);
}

void must(gpu_mha_status status)
{
    ck_assert_msg(status == GPU_MHA_OK, "%s: %s", attempt, gpu_mha_last_error());
}

void must_cl(cl_int code, const char *what)
{
    ck_assert_msg(code == CL_SUCCESS, "%s: the test's own %s gives %d", attempt, what, code);
}

void expect_near(const char *what, int index, double got, double want)
{
    if (!(fabs(got - want) <= 1e-5 * (1 + fabs(want)))) {
        complain("%s[%d] is %.9g, want %.9g", what, index, got, want);
    }
}

/* ---- host arrays with guards ---- */

float *cells_clear(struct cells *cells, const char *name, int count)
{
    ck_assert_int_le(count, CELLS_MAX);
    cells->name = name;
    cells->count = count;
    memset(cells->all, 0xff, sizeof cells->all);
    return cells_at(cells);
}

float *cells_at(struct cells *cells)
{
    return cells->all + CELLS_GUARD;
}

/* How many of the floats in front of and behind `count` others are no longer bytes of 0xFF. */
static int changed_guards(const float *all, int count)
{
    const cl_uint untouched = 0xffffffff;
    int changed = 0;
    for (int i = 0; i < CELLS_GUARD; i++) {
        changed += memcmp(&all[i], &untouched, sizeof untouched) != 0;
        changed += memcmp(&all[CELLS_GUARD + count + i], &untouched, sizeof untouched) != 0;
    }
    return changed;
}

void cells_check_guards(const struct cells *cells)
{
    const int changed = changed_guards(cells->all, cells->count);
    if (changed) {
        complain("%d floats around %s were changed", changed, cells->name);
    }
}

/* ---- a queue and buffers ---- */

void rig_open(struct rig *rig, int out_of_order)
{
    cl_command_queue_properties properties = 0;
    cl_int code;
    *rig = (struct rig){.context = NULL};
    must(gpu_mha_context_create(NULL, &rig->context));
    cl_context cl = gpu_mha_context_cl(rig->context);
    cl_device_id device = gpu_mha_context_device(rig->context);
    must_cl(
        clGetDeviceInfo(device, CL_DEVICE_QUEUE_PROPERTIES, sizeof properties, &properties, NULL),
        "clGetDeviceInfo");
    properties &= out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0;
    rig->queue = clCreateCommandQueue(cl, device, properties, &code);
    must_cl(code, "clCreateCommandQueue");
    rig->gate = clCreateUserEvent(cl, &code);
    must_cl(code, "clCreateUserEvent");
    must_cl(clSetUserEventStatus(rig->gate, CL_COMPLETE), "clSetUserEventStatus");
}

void rig_close(struct rig *rig)
{
    must_cl(clFinish(rig->queue), "clFinish");
    for (int b = 0; b < RIG_BUFFERS; b++) {
        if (rig->buffers[b].mem) {
            clReleaseMemObject(rig->buffers[b].mem);
        }
    }
    clReleaseEvent(rig->gate);
    clReleaseCommandQueue(rig->queue);
    gpu_mha_plan_release(rig->plan);
    gpu_mha_context_release(rig->context);
}

static gpu_mha_buffer make_buffer(struct rig *rig, int index, const float *all, int count)
{
    cl_int code;
    rig->buffers[index].mem =
        clCreateBuffer(gpu_mha_context_cl(rig->context), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                       (size_t)(count + 2 * CELLS_GUARD) * sizeof *all,
                       (void *)(uintptr_t)(const void *)all, &code);
    must_cl(code, "clCreateBuffer");
    rig->buffers[index].count = count;
    return (gpu_mha_buffer){rig->buffers[index].mem, CELLS_GUARD};
}

gpu_mha_buffer rig_input(struct rig *rig, int index, const void *values, int count)
{
    struct cells cells;
    memcpy(cells_clear(&cells, "an input", count), values, (size_t)count * sizeof(float));
    return make_buffer(rig, index, cells.all, count);
}

gpu_mha_buffer rig_output(struct rig *rig, int index, const char *name, int count)
{
    struct cells cells;
    cells_clear(&cells, name, count);
    rig->buffers[index].output = name;
    return make_buffer(rig, index, cells.all, count);
}

gpu_mha_buffer rig_workspace(struct rig *rig, int index, size_t bytes)
{
    cl_int code;
    if (bytes == 0) {
        return (gpu_mha_buffer){NULL, 0};
    }
    rig->buffers[index].mem =
        clCreateBuffer(gpu_mha_context_cl(rig->context), CL_MEM_READ_WRITE, bytes, NULL, &code);
    must_cl(code, "clCreateBuffer");
    return (gpu_mha_buffer){rig->buffers[index].mem, 0};
}

void rig_clear(struct rig *rig)
{
    const cl_uint untouched = 0xffffffff;
    for (int b = 0; b < RIG_BUFFERS; b++) {
        if (rig->buffers[b].output) {
            const size_t bytes =
                (size_t)(rig->buffers[b].count + 2 * CELLS_GUARD) * sizeof untouched;
            must_cl(clEnqueueFillBuffer(rig->queue, rig->buffers[b].mem, &untouched,
                                        sizeof untouched, 0, bytes, 0, NULL, NULL),
                    "clEnqueueFillBuffer");
        }
    }
    must_cl(clFinish(rig->queue), "clFinish");
    /* A failing call must say that there is no event. */
    rig->done = rig->gate;
}

gpu_mha_status rig_enqueued(struct rig *rig, gpu_mha_status status)
{
    if (status == GPU_MHA_OK && (!rig->done || rig->done == rig->gate)) {
        complain("a success gave no event");
    }
    if (status != GPU_MHA_OK && rig->done) {
        complain("a failure left something in *event");
    }
    return status;
}

cl_int rig_finish(struct rig *rig)
{
    const cl_int code = clWaitForEvents(1, &rig->done);
    clReleaseEvent(rig->done);
    rig->done = NULL;
    return code;
}

void rig_read(struct rig *rig, int index, float *values)
{
    static float all[2 * CELLS_GUARD + CELLS_MAX];
    const int count = rig->buffers[index].count;
    must_cl(clFinish(rig->queue), "clFinish");
    must_cl(clEnqueueReadBuffer(rig->queue, rig->buffers[index].mem, CL_TRUE, 0,
                                (size_t)(count + 2 * CELLS_GUARD) * sizeof *all, all, 0, NULL,
                                NULL),
            "clEnqueueReadBuffer");
    const int changed = changed_guards(all, count);
    if (changed) {
        complain("%d floats around %s were changed", changed, rig->buffers[index].output);
    }
    memcpy(values, all + CELLS_GUARD, (size_t)count * sizeof *values);
}
