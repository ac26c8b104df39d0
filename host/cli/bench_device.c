/*
 * The device that gpu-mha bench measures: context, queue, buffers.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "command.h"

/* Enough where the device doesn't tell its cache's size. */
#define POOL_BYTES_LEAST ((size_t)256 << 20)
/* A pool is this many times the last-level cache, memory permitting. */
enum { CACHES_PER_POOL = 4, POOLS_PER_MEMORY = 8 };

bool mha_bench_cl_ok(cl_int code, const char *call)
{
    if (code != CL_SUCCESS) {
        mha_report("%s failed with code %d", call, (int)code);
    }
    return code == CL_SUCCESS;
}

static bool read_info(const struct mha_bench_device *device, cl_device_info what, void *value,
                      size_t size)
{
    return mha_bench_cl_ok(clGetDeviceInfo(device->id, what, size, value, NULL), "clGetDeviceInfo");
}

static bool read_limits(struct mha_bench_device *device)
{
    cl_device_type type = 0;

    if (!read_info(device, CL_DEVICE_TYPE, &type, sizeof type) ||
        !read_info(device, CL_DEVICE_MAX_COMPUTE_UNITS, &device->compute_units,
                   sizeof device->compute_units) ||
        !read_info(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, &device->group, sizeof device->group) ||
        !read_info(device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, &device->cache_bytes,
                   sizeof device->cache_bytes) ||
        !read_info(device, CL_DEVICE_GLOBAL_MEM_SIZE, &device->global_bytes,
                   sizeof device->global_bytes) ||
        !read_info(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &device->alloc_bytes,
                   sizeof device->alloc_bytes)) {
        return false;
    }
    device->is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
    /* One work-item has a core to itself; on a GPU 256 fill the lanes and hide the latencies. */
    if (device->is_cpu) {
        device->group = 1;
    } else if (device->group > 256) {
        device->group = 256;
    }
    return true;
}

bool mha_bench_device_open(struct mha_bench_device *device, const char *selector)
{
    cl_int code = CL_SUCCESS;

    *device = (struct mha_bench_device){0};
    if (gpu_mha_context_create(selector, &device->context)) {
        mha_report_library_error(NULL);
        return false;
    }
    device->cl = gpu_mha_context_cl(device->context);
    device->id = gpu_mha_context_device(device->context);
    mha_device_name(device->context, device->name, sizeof device->name);
    device->queue = clCreateCommandQueue(device->cl, device->id, 0, &code);
    return mha_bench_cl_ok(code, "clCreateCommandQueue") && read_limits(device);
}

static void release_buffer(cl_mem buffer)
{
    if (buffer) {
        clReleaseMemObject(buffer);
    }
}

void mha_bench_device_close(struct mha_bench_device *device)
{
    for (int type = 0; type < MHA_BENCH_TYPES; type++) {
        release_buffer(device->pool[type]);
    }
    release_buffer(device->output);
    release_buffer(device->workspace);
    if (device->queue) {
        clReleaseCommandQueue(device->queue);
    }
    gpu_mha_context_release(device->context);
    *device = (struct mha_bench_device){0};
}

size_t mha_bench_pool_bytes(const struct mha_bench_device *device)
{
    cl_ulong bytes = device->cache_bytes * CACHES_PER_POOL;
    cl_ulong most = device->global_bytes / POOLS_PER_MEMORY;

    if (bytes < POOL_BYTES_LEAST) {
        bytes = POOL_BYTES_LEAST;
    }
    if (most > device->alloc_bytes) {
        most = device->alloc_bytes;
    }
    return (size_t)(bytes < most ? bytes : most);
}

cl_mem mha_bench_buffer(struct mha_bench_device *device, cl_mem_flags flags, size_t bytes,
                        const char *what)
{
    /* 0.5 as f32 and as two f16; written so that no run is the first to touch a page. */
    static const cl_uint pattern = 0x38003800u;
    const size_t size = (bytes / sizeof pattern + 1) * sizeof pattern;
    cl_int code = CL_SUCCESS;

    if (size > device->alloc_bytes) {
        mha_report("%s has %zu bytes, but a buffer of %s has at most %llu", what, size,
                   device->name, (unsigned long long)device->alloc_bytes);
        return NULL;
    }
    cl_mem buffer = clCreateBuffer(device->cl, flags, size, NULL, &code);
    if (code != CL_SUCCESS) {
        mha_report("%s: clCreateBuffer of %zu bytes failed with code %d", what, size, (int)code);
        return NULL;
    }
    code = clEnqueueFillBuffer(device->queue, buffer, &pattern, sizeof pattern, 0, size, 0, NULL,
                               NULL);
    if (code == CL_SUCCESS) {
        code = clFinish(device->queue);
    }
    if (!mha_bench_cl_ok(code, "clEnqueueFillBuffer")) {
        clReleaseMemObject(buffer);
        return NULL;
    }
    return buffer;
}
