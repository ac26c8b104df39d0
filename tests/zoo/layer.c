/* The layer itself: which devices there are, and which functions a version of OpenCL lacks. */
#include "zoo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 4

const cl_icd_dispatch *zoo_next;

static cl_icd_dispatch table;
static struct zoo_device zoo[DEVICES_MAX];
static cl_device_id ids[DEVICES_MAX];
static int zoo_count;
static int is_empty; /* MHA_ZOO=none: platforms without a device */

int zoo_is_on(void)
{
    return zoo_count > 0 || is_empty;
}

const struct zoo_device *zoo_of(cl_device_id id)
{
    for (int d = 0; d < zoo_count; d++) {
        if (ids[d] == id) {
            return &zoo[d];
        }
    }
    return &zoo[0];
}

const struct zoo_device *zoo_of_context(cl_context context)
{
    cl_device_id devices[16] = {NULL};
    zoo_next->clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof devices, (void *)devices, NULL);
    return zoo_of(devices[0]);
}

const struct zoo_device *zoo_of_program(cl_program program)
{
    cl_device_id devices[16] = {NULL};
    zoo_next->clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof devices, (void *)devices, NULL);
    return zoo_of(devices[0]);
}

/* ---- platforms and devices ---------------------------------------------------------------- */

/* A driver's devices beyond those of MHA_ZOO do not exist. */
static cl_int CL_API_CALL device_ids(cl_platform_id platform, cl_device_type type, cl_uint room,
                                     cl_device_id *out, cl_uint *count)
{
    cl_device_id real[16];
    cl_uint there = 0, found = 0;
    if (out != NULL && room == 0) {
        return CL_INVALID_VALUE;
    }
    cl_int code = is_empty
                      ? CL_DEVICE_NOT_FOUND
                      : zoo_next->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 16, real, &there);
    if (code != CL_SUCCESS) {
        return code;
    }
    for (cl_uint d = 0; d < there && d < (cl_uint)zoo_count; d++) {
        ids[d] = real[d];
        if (!(type & (zoo[d].type | CL_DEVICE_TYPE_DEFAULT))) {
            continue;
        }
        if (out != NULL && found < room) {
            out[found] = real[d];
        }
        found++;
    }
    if (count != NULL) {
        *count = found;
    }
    return found > 0 ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
}

static cl_int CL_API_CALL platform_info(cl_platform_id platform, cl_platform_info query,
                                        size_t room, void *out, size_t *size_out)
{
    char text[64];
    if (query != CL_PLATFORM_VERSION || is_empty) {
        return zoo_next->clGetPlatformInfo(platform, query, room, out, size_out);
    }
    snprintf(text, sizeof text, "OpenCL %d.%d zoo", zoo[0].version / 10, zoo[0].version % 10);
    return zoo_answer(text, strlen(text) + 1, room, out, size_out);
}

/* ---- versions ----------------------------------------------------------------------------- */

/*
 * An older driver's table ends before these: a call jumps to address 0. Ending the process is as
 * loud, and says why.
 */
static void newer_than_the_device(void)
{
    fprintf(stderr, "zoo: a function was called that OpenCL %d.%d does not have\n",
            zoo[0].version / 10, zoo[0].version % 10);
    abort();
}

static void forbid(size_t first, size_t last)
{
    void (*const trap)(void) = newer_than_the_device;
    for (size_t at = first; at <= last; at += sizeof trap) {
        memcpy((char *)&table + at, (const void *)&trap, sizeof trap);
    }
}

#define FORBID(name) forbid(offsetof(cl_icd_dispatch, name), offsetof(cl_icd_dispatch, name))

static void forbid_newer(int version)
{
    if (version < 20) {
        forbid(offsetof(cl_icd_dispatch, clCreateCommandQueueWithProperties),
               sizeof table - sizeof(void (*)(void)));
    }
    if (version < 12) {
        FORBID(clCreateSubDevices);
        FORBID(clRetainDevice);
        FORBID(clReleaseDevice);
        FORBID(clCreateImage);
        FORBID(clCreateProgramWithBuiltInKernels);
        FORBID(clCompileProgram);
        FORBID(clLinkProgram);
        FORBID(clUnloadPlatformCompiler);
        FORBID(clGetKernelArgInfo);
        FORBID(clEnqueueFillBuffer);
        FORBID(clEnqueueFillImage);
        FORBID(clEnqueueMigrateMemObjects);
        FORBID(clEnqueueMarkerWithWaitList);
        FORBID(clEnqueueBarrierWithWaitList);
        FORBID(clGetExtensionFunctionAddressForPlatform);
    }
}

/* ---- the loader's side -------------------------------------------------------------------- */

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info query, size_t room, void *out,
                                               size_t *size_out)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    switch (query) {
    case CL_LAYER_API_VERSION:
        return zoo_answer(&version, sizeof version, room, out, size_out);
    case CL_LAYER_NAME:
        return zoo_answer("zoo", sizeof "zoo", room, out, size_out);
    default:
        return CL_INVALID_VALUE;
    }
}

static void read_environment(void)
{
    const char *text = getenv("MHA_ZOO");
    char words[1024], *rest;
    if (text == NULL || *text == '\0') {
        return;
    }
    if (strlen(text) >= sizeof words) {
        fprintf(stderr, "zoo: MHA_ZOO is too long\n");
        abort();
    }
    is_empty = strcmp(text, "none") == 0;
    strcpy(words, text);
    for (char *word = is_empty ? NULL : strtok_r(words, ";", &rest);
         word != NULL && zoo_count < DEVICES_MAX; word = strtok_r(NULL, ";", &rest)) {
        zoo_device_read(word, &zoo[zoo_count++]);
    }
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *target,
                                            cl_uint *count_out, const cl_icd_dispatch **table_out)
{
    if (target == NULL || count_out == NULL || table_out == NULL) {
        return CL_INVALID_VALUE;
    }
    zoo_next = target;
    read_environment();
    const size_t bytes = count * sizeof(void (*)(void));
    memcpy(&table, target, bytes < sizeof table ? bytes : sizeof table);
    if (zoo_is_on()) {
        table.clGetDeviceIDs = device_ids;
        table.clGetPlatformInfo = platform_info;
        zoo_add_answers(&table);
        zoo_add_limits(&table);
        forbid_newer(is_empty ? 12 : zoo[0].version);
    }
    *count_out = sizeof table / sizeof(void (*)(void));
    *table_out = &table;
    return CL_SUCCESS;
}
