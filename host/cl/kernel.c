/* Kernels and chains of launches. */
#include "cl/kernel.h"

#include <inttypes.h>
#include <string.h>

/* What the compiler fixed and allows on this device. A launch beyond it would fail too late. */
static gpu_mha_status read_limits(struct mha_kernel *kernel, const struct mha_device *device,
                                  size_t *limit, size_t *compiled)
{
    *limit = 0;
    MHA_TRY_CL(clGetKernelWorkGroupInfo(kernel->cl, device->id, CL_KERNEL_WORK_GROUP_SIZE,
                                        sizeof *limit, limit, NULL),
               "clGetKernelWorkGroupInfo", "CL_KERNEL_WORK_GROUP_SIZE of kernel %s", kernel->name);
    size_t sizes[3] = {0, 0, 0};
    MHA_TRY_CL(clGetKernelWorkGroupInfo(kernel->cl, device->id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                        sizeof sizes, sizes, NULL),
               "clGetKernelWorkGroupInfo", "CL_KERNEL_COMPILE_WORK_GROUP_SIZE of kernel %s",
               kernel->name);
    *compiled = sizes[0];
    cl_ulong local = 0;
    MHA_TRY_CL(clGetKernelWorkGroupInfo(kernel->cl, device->id, CL_KERNEL_LOCAL_MEM_SIZE,
                                        sizeof local, &local, NULL),
               "clGetKernelWorkGroupInfo", "CL_KERNEL_LOCAL_MEM_SIZE of kernel %s", kernel->name);
    MHA_RETURN_IF(local > device->local_bytes, GPU_MHA_UNSUPPORTED,
                  "kernel %s takes %" PRIu64 " bytes of local memory, this device has %" PRIu64,
                  kernel->name, (uint64_t)local, (uint64_t)device->local_bytes);
    if (*limit > device->max_work_group_size) {
        *limit = device->max_work_group_size;
    }
    if (*limit > device->max_work_items_0) {
        *limit = device->max_work_items_0;
    }
    return GPU_MHA_OK;
}

static gpu_mha_status pick_local(struct mha_kernel *kernel, const struct mha_device *device,
                                 size_t wanted)
{
    size_t limit = 0, compiled = 0;
    MHA_TRY(read_limits(kernel, device, &limit, &compiled));
    if (compiled > 0) {
        MHA_RETURN_IF(compiled > limit, GPU_MHA_UNSUPPORTED,
                      "kernel %s has %zu work-items per group, this device runs at most %zu of it",
                      kernel->name, compiled, limit);
        kernel->local = compiled;
        return GPU_MHA_OK;
    }
    if (wanted < limit) {
        limit = wanted;
    }
    size_t local = 1;
    while (local <= limit / 2) {
        local *= 2;
    }
    kernel->local = local;
    return GPU_MHA_OK;
}

gpu_mha_status mha_kernel_create(struct mha_program_cache *cache, const struct mha_device *device,
                                 const char *file, const char *name,
                                 const struct mha_options *options, size_t wanted_local,
                                 struct mha_kernel *kernel)
{
    *kernel = (struct mha_kernel){.name = name};
    kernel->max_items = device->address_bits < 64 ? UINT32_MAX : SIZE_MAX;
    cl_program program;
    MHA_TRY(mha_program_get(cache, file, options, &program));

    gpu_mha_status status;
    cl_int code = CL_SUCCESS;
    kernel->cl = clCreateKernel(program, name, &code);
    if (code != CL_SUCCESS) {
        kernel->cl = NULL;
        status = mha_error_cl(code, "clCreateKernel", "kernel %s of %s", name, file);
    } else if (pthread_mutex_init(&kernel->lock, NULL) != 0) {
        status = mha_error_set(GPU_MHA_HOST_MEMORY, "no memory for the lock of kernel %s", name);
    } else {
        kernel->lock_made = 1;
        status = pick_local(kernel, device, wanted_local);
    }
    if (status != GPU_MHA_OK) {
        mha_kernel_destroy(kernel);
    }
    return status;
}

void mha_kernel_destroy(struct mha_kernel *kernel)
{
    if (!kernel) {
        return;
    }
    if (kernel->cl) {
        clReleaseKernel(kernel->cl);
    }
    if (kernel->lock_made) {
        pthread_mutex_destroy(&kernel->lock);
    }
    memset(kernel, 0, sizeof *kernel);
}

void mha_chain_begin(struct mha_chain *chain, cl_command_queue queue, cl_uint wait_count,
                     const cl_event *wait)
{
    *chain = (struct mha_chain){
        .queue = queue,
        .wait_count = wait_count,
        .wait = wait_count > 0 ? wait : NULL,
    };
}

/* Arguments and launch are one step under the lock of the kernel; see the header. */
static gpu_mha_status launch(const struct mha_chain *chain, struct mha_kernel *kernel,
                             size_t global, const struct mha_arg *args, cl_uint count,
                             cl_event *event)
{
    const char *call = "clSetKernelArg";
    cl_int code = CL_SUCCESS;
    cl_uint i = 0;
    pthread_mutex_lock(&kernel->lock);
    while (i < count) {
        code = clSetKernelArg(kernel->cl, i, args[i].size, args[i].value);
        if (code != CL_SUCCESS) {
            break;
        }
        i++;
    }
    if (code == CL_SUCCESS) {
        call = "clEnqueueNDRangeKernel";
        code =
            clEnqueueNDRangeKernel(chain->queue, kernel->cl, 1, NULL, &global, &kernel->local,
                                   mha_chain_wait_count(chain), mha_chain_wait_list(chain), event);
    }
    pthread_mutex_unlock(&kernel->lock);
    if (code == CL_SUCCESS) {
        return GPU_MHA_OK;
    }
    if (i < count) {
        return mha_error_cl(code, call, "argument %u of kernel %s", i, kernel->name);
    }
    return mha_error_cl(code, call, "kernel %s, %zu work-items in groups of %zu", kernel->name,
                        global, kernel->local);
}

gpu_mha_status mha_chain_launch(struct mha_chain *chain, struct mha_kernel *kernel, size_t items,
                                const struct mha_arg *args, cl_uint count)
{
    if (items == 0) {
        return GPU_MHA_OK;
    }
    size_t groups = items / kernel->local + (items % kernel->local != 0);
    MHA_RETURN_IF(groups > kernel->max_items / kernel->local, GPU_MHA_UNSUPPORTED,
                  "kernel %s needs %zu work-items, this device counts to %zu", kernel->name, items,
                  kernel->max_items);
    cl_event event = NULL;
    MHA_TRY(launch(chain, kernel, groups * kernel->local, args, count, &event));
    mha_chain_push(chain, event);
    return GPU_MHA_OK;
}

void mha_chain_push(struct mha_chain *chain, cl_event event)
{
    if (chain->last) {
        clReleaseEvent(chain->last);
    }
    chain->last = event;
}

gpu_mha_status mha_chain_join(struct mha_chain *chain, cl_event event)
{
    if (!chain->last) {
        mha_chain_push(chain, event);
        return GPU_MHA_OK;
    }
    const cl_event both[] = {chain->last, event};
    cl_event joined = NULL;
    const cl_int code = clEnqueueMarkerWithWaitList(chain->queue, 2, both, &joined);
    clReleaseEvent(event);
    MHA_TRY_CL(code, "clEnqueueMarkerWithWaitList", "behind a launch and what came before it");
    mha_chain_push(chain, joined);
    return GPU_MHA_OK;
}

cl_uint mha_chain_wait_count(const struct mha_chain *chain)
{
    return chain->last ? 1 : chain->wait_count;
}

const cl_event *mha_chain_wait_list(const struct mha_chain *chain)
{
    return chain->last ? &chain->last : chain->wait;
}

gpu_mha_status mha_chain_end(struct mha_chain *chain, gpu_mha_status status, cl_event *event)
{
    if (event) {
        *event = NULL;
    }
    if (status == GPU_MHA_OK && event && !chain->last) {
        cl_int code =
            clEnqueueMarkerWithWaitList(chain->queue, chain->wait_count, chain->wait, &chain->last);
        if (code != CL_SUCCESS) {
            chain->last = NULL;
            status = mha_error_cl(code, "clEnqueueMarkerWithWaitList", "a call without work");
        }
    }
    if (status == GPU_MHA_OK && event) {
        *event = chain->last;
    } else if (chain->last) {
        clReleaseEvent(chain->last);
    }
    chain->last = NULL;
    return status;
}
