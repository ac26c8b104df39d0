/* Contexts: made here or around the caller's OpenCL context, counted, and bound to a process. */
#include "cl/context.h"

#include <stdlib.h>
#include <unistd.h>

#include "cl/process.h"
#include "cl/recent.h"
#include "cl/tuned.h"
#include "core/log.h"

/*
 * Kept to the end of the process and never released: other libraries' exit handlers may already
 * have taken the driver down, so no OpenCL call is made then.
 */
static _Atomic(gpu_mha_context *) default_context;
static pthread_mutex_t default_lock = PTHREAD_MUTEX_INITIALIZER;

/* Called by the driver, perhaps from a thread of its own. */
static void CL_CALLBACK log_driver_message(const char *message, const void *data, size_t size,
                                           void *user)
{
    (void)data;
    (void)size;
    (void)user;
    mha_log(MHA_LOG_DEBUG, "driver says: %s", message ? message : "");
}

static void destroy(gpu_mha_context *context)
{
    mha_recent_destroy(context->recent);
    mha_program_cache_destroy(context->programs);
    mha_tuned_destroy(context->tuned);
    mha_tuned_destroy(context->device.verdicts);
    if (context->queue) {
        clReleaseCommandQueue(context->queue);
    }
    if (context->device.id) {
        clReleaseDevice(context->device.id);
    }
    if (context->cl) {
        clReleaseContext(context->cl);
    }
    pthread_mutex_destroy(&context->queue_lock);
    free(context);
}

/* The library's own parts. Takes references of its own to `cl` and the device. */
static gpu_mha_status fill(gpu_mha_context *made, cl_context cl, cl_device_id id)
{
    MHA_TRY_CL(clRetainContext(cl), "clRetainContext", "the context of %s", made->device.name);
    made->cl = cl;
    /* A root device ignores this; a sub-device would go with its maker's last reference. */
    MHA_TRY_CL(clRetainDevice(id), "clRetainDevice", "device %s", made->device.name);
    made->device.id = id;
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = clCreateCommandQueue(cl, id, 0, &code);
    MHA_TRY_CL(code, "clCreateCommandQueue", "device %s", made->device.name);
    made->queue = queue;
    MHA_TRY(mha_tuned_create(&mha_tuning_measured, &made->device, &made->tuned));
    MHA_TRY(mha_tuned_create(&mha_tuning_verdicts, &made->device, &made->device.verdicts));
    return mha_program_cache_create(cl, &made->device, mha_cl_sources, &made->programs);
}

static gpu_mha_status create_around(cl_context cl, const struct mha_device *device,
                                    gpu_mha_context **context)
{
    gpu_mha_context *made = calloc(1, sizeof *made);
    MHA_RETURN_IF(!made, GPU_MHA_HOST_MEMORY, "no memory for a context");
    if (pthread_mutex_init(&made->queue_lock, NULL) != 0) {
        free(made);
        return mha_error_set(GPU_MHA_HOST_MEMORY, "no memory for the lock of a context");
    }
    atomic_init(&made->references, 1);
    atomic_init(&made->clblast, 0);
    made->pid = getpid();
    made->device = *device;
    /* The id stands for a reference to give back, which only fill() takes. */
    made->device.id = NULL;
    gpu_mha_status status = fill(made, cl, device->id);
    if (status != GPU_MHA_OK) {
        destroy(made);
        return status;
    }
    mha_log(MHA_LOG_INFO, "use device %s: %u compute units, local size up to %zu",
            made->device.name, made->device.compute_units, made->device.max_work_group_size);
    *context = made;
    return GPU_MHA_OK;
}

gpu_mha_status gpu_mha_context_create(const char *selector, gpu_mha_context **context)
{
    MHA_INVALID_IF(!context, "context is NULL, must point to a gpu_mha_context *");
    *context = NULL;
    MHA_TRY(mha_process_check());
    cl_device_id id;
    MHA_TRY(mha_device_select(selector, &id));
    struct mha_device device;
    MHA_TRY(mha_device_query(id, &device));

    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)device.platform, 0};
    cl_int code = CL_SUCCESS;
    cl_context cl = clCreateContext(properties, 1, &id, log_driver_message, NULL, &code);
    MHA_TRY_CL(code, "clCreateContext", "device %s", device.name);
    gpu_mha_status status = create_around(cl, &device, context);
    clReleaseContext(cl);
    return status;
}

/* Is `id`, or what it is a part of, among the devices? Some drivers list the whole for a part. */
static gpu_mha_status find_device(const cl_device_id *devices, size_t count, cl_device_id id,
                                  int *found)
{
    *found = 0;
    while (id && !*found) {
        for (size_t i = 0; i < count; i++) {
            *found |= devices[i] == id;
        }
        cl_device_id parent = NULL;
        if (!*found) {
            const cl_int code =
                clGetDeviceInfo(id, CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent, NULL);
            /* Before OpenCL 1.2 there is no such query, and no device is a part of another. */
            if (code != CL_SUCCESS && code != CL_INVALID_VALUE) {
                return mha_error_cl(code, "clGetDeviceInfo", "CL_DEVICE_PARENT_DEVICE");
            }
        }
        id = parent;
    }
    return GPU_MHA_OK;
}

/* GPU_MHA_INVALID unless `id` is a device of `cl`. */
static gpu_mha_status check_membership(cl_context cl, cl_device_id id)
{
    size_t bytes = 0;
    MHA_TRY_CL(clGetContextInfo(cl, CL_CONTEXT_DEVICES, 0, NULL, &bytes), "clGetContextInfo",
               "CL_CONTEXT_DEVICES");
    size_t count = bytes / sizeof(cl_device_id);
    cl_device_id *devices = calloc(count + 1, sizeof *devices);
    MHA_RETURN_IF(!devices, GPU_MHA_HOST_MEMORY, "no memory for a list of %zu devices", count);
    cl_int code = clGetContextInfo(cl, CL_CONTEXT_DEVICES, bytes, devices, NULL);
    int found = 0;
    gpu_mha_status status;
    if (code == CL_SUCCESS) {
        status = find_device(devices, count, id, &found);
    } else {
        status = mha_error_cl(code, "clGetContextInfo", "CL_CONTEXT_DEVICES");
    }
    free(devices);
    if (status == GPU_MHA_OK && !found) {
        status = mha_error_set(GPU_MHA_INVALID,
                               "device is not a device of cl, must be one of its %zu", count);
    }
    return status;
}

gpu_mha_status gpu_mha_context_wrap(cl_context cl, cl_device_id device, gpu_mha_context **context)
{
    MHA_INVALID_IF(!context, "context is NULL, must point to a gpu_mha_context *");
    *context = NULL;
    MHA_INVALID_IF(!cl, "cl is NULL, must be an OpenCL context");
    MHA_INVALID_IF(!device, "device is NULL, must be a device of cl");
    MHA_TRY(mha_process_check());
    MHA_TRY(check_membership(cl, device));
    char reason[128];
    const char *query;
    MHA_TRY_CL(mha_device_obstacle(device, reason, sizeof reason, &query), "clGetDeviceInfo", "%s",
               query);
    struct mha_device facts;
    MHA_TRY(mha_device_query(device, &facts));
    MHA_RETURN_IF(reason[0], GPU_MHA_UNSUPPORTED, "device %s cannot be used: %s", facts.name,
                  reason);
    return create_around(cl, &facts, context);
}

int mha_context_is_forked(const gpu_mha_context *context)
{
    return context->pid != getpid();
}

gpu_mha_status mha_context_check(const gpu_mha_context *context)
{
    MHA_RETURN_IF(mha_context_is_forked(context), GPU_MHA_FORKED,
                  "the context was made by process %ld, this is process %ld after a fork()",
                  (long)context->pid, (long)getpid());
    return GPU_MHA_OK;
}

gpu_mha_status gpu_mha_context_retain(gpu_mha_context *context)
{
    MHA_INVALID_IF(!context, "context is NULL, must be a context");
    MHA_TRY(mha_context_check(context));
    atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
    return GPU_MHA_OK;
}

void gpu_mha_context_release(gpu_mha_context *context)
{
    if (!context) {
        return;
    }
    if (atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    /* In a forked child the driver's threads and locks are gone: what it holds is left alone. */
    if (!mha_context_is_forked(context)) {
        destroy(context);
    }
}

cl_context gpu_mha_context_cl(gpu_mha_context *context)
{
    return context ? context->cl : NULL;
}

cl_device_id gpu_mha_context_device(gpu_mha_context *context)
{
    return context ? context->device.id : NULL;
}

/* A failure is not kept: the next call tries again, perhaps with another GPU_MHA_DEVICE. */
static gpu_mha_status make_default(void)
{
    pthread_mutex_lock(&default_lock);
    gpu_mha_status status = GPU_MHA_OK;
    if (!atomic_load_explicit(&default_context, memory_order_relaxed)) {
        gpu_mha_context *made;
        status = gpu_mha_context_create(NULL, &made);
        atomic_store_explicit(&default_context, made, memory_order_release);
    }
    pthread_mutex_unlock(&default_lock);
    return status;
}

gpu_mha_status mha_context_resolve(gpu_mha_context *context, gpu_mha_context **resolved)
{
    *resolved = NULL;
    if (!context) {
        context = atomic_load_explicit(&default_context, memory_order_acquire);
    }
    if (!context) {
        /* In front of the lock, which a thread of the parent may hold for ever. */
        MHA_TRY(mha_process_check());
        MHA_TRY(make_default());
        context = atomic_load_explicit(&default_context, memory_order_acquire);
    }
    MHA_TRY(mha_context_check(context));
    *resolved = context;
    return GPU_MHA_OK;
}
