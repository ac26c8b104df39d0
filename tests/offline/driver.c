/* What the library calls of OpenCL, answered for a device that is only described. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

struct _cl_program {
    char *source, *options;
    size_t users; /* references */
};

struct _cl_kernel {
    char name[64];
    cl_program program;
    size_t local_argument_bytes;
};

struct _cl_mem {
    size_t bytes, users;
};

/* Handles that stand for nothing more than themselves. */
static char platform_handle, device_handle, context_handle, queue_handle, event_handle;
#define HANDLE(type, object) ((type)(void *)&(object))

static const struct driver_device *device;
static struct driver_listener listener;

void driver_use(const struct driver_device *described)
{
    device = described;
}

void driver_tell(const struct driver_listener *told)
{
    listener = *told;
}

static char *copy_text(const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

static cl_int answer(const void *value, size_t size, size_t room, void *out, size_t *size_out)
{
    if (out != NULL && room < size) {
        return CL_INVALID_VALUE;
    }
    if (out != NULL) {
        memcpy(out, value, size);
    }
    if (size_out != NULL) {
        *size_out = size;
    }
    return CL_SUCCESS;
}

static void *give(void *object, cl_int *code)
{
    if (code != NULL) {
        *code = object == NULL ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS;
    }
    return object;
}

/* ---- platform and device ------------------------------------------------------------------ */

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformIDs(cl_uint room, cl_platform_id *ids, cl_uint *count)
{
    if (ids != NULL && room > 0) {
        ids[0] = HANDLE(cl_platform_id, platform_handle);
    }
    if (count != NULL) {
        *count = 1;
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id id, cl_platform_info query,
                                                  size_t room, void *out, size_t *size_out)
{
    (void)id;
    const char *text = query == CL_PLATFORM_NAME ? "described devices" : device->version;
    return answer(text, strlen(text) + 1, room, out, size_out);
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id id, cl_device_type type, cl_uint room,
                                               cl_device_id *ids, cl_uint *count)
{
    (void)id;
    if (!(type & device->type)) {
        return CL_DEVICE_NOT_FOUND;
    }
    if (ids != NULL && room > 0) {
        ids[0] = HANDLE(cl_device_id, device_handle);
    }
    if (count != NULL) {
        *count = 1;
    }
    return CL_SUCCESS;
}

static const char *device_text(cl_device_info query)
{
    switch (query) {
    case CL_DEVICE_NAME:
        return device->name;
    case CL_DEVICE_VENDOR:
        return device->vendor;
    case CL_DEVICE_VERSION:
        return device->version;
    case CL_DEVICE_OPENCL_C_VERSION:
        return "OpenCL C 1.2";
    case CL_DRIVER_VERSION:
        return "described";
    case CL_DEVICE_PROFILE:
        return "FULL_PROFILE";
    case CL_DEVICE_EXTENSIONS:
        return device->extensions;
    default:
        return NULL;
    }
}

/* Queries of extensions, whose headers are not everywhere. */
enum { WARP_SIZE_NV = 0x4003, WAVEFRONT_WIDTH_AMD = 0x4043, SUB_GROUP_SIZES_INTEL = 0x4108 };

/* The number and the size that the query has; 0 if it is none that is known. */
static size_t device_number(cl_device_info query, cl_ulong *number)
{
    switch (query) {
    case CL_DEVICE_TYPE:
        *number = device->type;
        return sizeof(cl_device_type);
    case CL_DEVICE_VENDOR_ID:
        *number = device->vendor_id;
        return sizeof(cl_uint);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        *number = device->compute_units;
        return sizeof(cl_uint);
    case WARP_SIZE_NV:
    case WAVEFRONT_WIDTH_AMD:
        *number = device->lanes;
        return sizeof(cl_uint);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT:
        *number = device->vector_width;
        return sizeof(cl_uint);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        *number = device->global_bytes;
        return sizeof(cl_ulong);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        *number = device->global_bytes / 4;
        return sizeof(cl_ulong);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        *number = device->local_bytes;
        return sizeof(cl_ulong);
    case CL_DEVICE_LOCAL_MEM_TYPE:
        *number = device->local_type;
        return sizeof(cl_device_local_mem_type);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        *number = device->work_group_max;
        return sizeof(size_t);
    case CL_DEVICE_MAX_PARAMETER_SIZE:
        *number = 1024;
        return sizeof(size_t);
    case CL_DEVICE_MAX_CLOCK_FREQUENCY:
        *number = 1000;
        return sizeof(cl_uint);
    case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS:
        *number = 3;
        return sizeof(cl_uint);
    case CL_DEVICE_ADDRESS_BITS:
        *number = 64;
        return sizeof(cl_uint);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        *number = 1024;
        return sizeof(cl_uint);
    case CL_DEVICE_SINGLE_FP_CONFIG:
        *number =
            CL_FP_ROUND_TO_NEAREST | CL_FP_INF_NAN | (device->has_fma ? (cl_ulong)CL_FP_FMA : 0);
        return sizeof(cl_device_fp_config);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        *number = device->shares_memory;
        return sizeof(cl_bool);
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_ENDIAN_LITTLE:
        *number = CL_TRUE;
        return sizeof(cl_bool);
    default:
        return 0;
    }
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id id, cl_device_info query, size_t room,
                                                void *out, size_t *size_out)
{
    (void)id;
    const char *text = device_text(query);
    if (text != NULL) {
        return answer(text, strlen(text) + 1, room, out, size_out);
    }
    const cl_platform_id platform = HANDLE(cl_platform_id, platform_handle);
    if (query == CL_DEVICE_PLATFORM) {
        return answer((const void *)&platform, sizeof platform, room, out, size_out);
    }
    const size_t sizes[3] = {device->work_group_max, device->work_group_max, 64};
    if (query == CL_DEVICE_MAX_WORK_ITEM_SIZES) {
        return answer(sizes, sizeof sizes, room, out, size_out);
    }
    size_t asked[4] = {0}, count = 0;
    for (; count < 4 && device->sub_groups[count] != 0; ++count) {
        asked[count] = device->sub_groups[count];
    }
    if ((int)query == SUB_GROUP_SIZES_INTEL && count > 0) {
        return answer(asked, count * sizeof *asked, room, out, size_out);
    }
    cl_ulong number = 0;
    const size_t size = device_number(query, &number);
    const cl_uint narrow = (cl_uint)number;
    if (size == 0) {
        return CL_INVALID_VALUE;
    }
    return answer(size == sizeof narrow ? (const void *)&narrow : (const void *)&number, size, room,
                  out, size_out);
}

CL_API_ENTRY cl_int CL_API_CALL clRetainDevice(cl_device_id id)
{
    (void)id;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseDevice(cl_device_id id)
{
    (void)id;
    return CL_SUCCESS;
}

/* ---- context, queue, events, memory ------------------------------------------------------- */

CL_API_ENTRY cl_context CL_API_CALL clCreateContext(
    const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code)
{
    (void)properties;
    (void)count;
    (void)devices;
    (void)notify;
    (void)user;
    return give(&context_handle, code);
}

CL_API_ENTRY cl_int CL_API_CALL clRetainContext(cl_context context)
{
    (void)context;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseContext(cl_context context)
{
    (void)context;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_command_queue CL_API_CALL clCreateCommandQueue(
    cl_context context, cl_device_id id, cl_command_queue_properties properties, cl_int *code)
{
    (void)context;
    (void)id;
    (void)properties;
    return give(&queue_handle, code);
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseCommandQueue(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clFinish(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetCommandQueueInfo(cl_command_queue queue,
                                                      cl_command_queue_info query, size_t room,
                                                      void *out, size_t *size_out)
{
    (void)queue;
    const cl_command_queue_properties properties = 0;
    void *const object = query == CL_QUEUE_CONTEXT ? &context_handle : &device_handle;
    if (query == CL_QUEUE_PROPERTIES) {
        return answer(&properties, sizeof properties, room, out, size_out);
    }
    return answer((const void *)&object, sizeof object, room, out, size_out);
}

CL_API_ENTRY cl_int CL_API_CALL clWaitForEvents(cl_uint count, const cl_event *events)
{
    (void)count;
    (void)events;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseEvent(cl_event event)
{
    (void)event;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes,
                                               void *host, cl_int *code)
{
    (void)context;
    (void)flags;
    (void)host;
    cl_mem made = calloc(1, sizeof *made);
    if (made != NULL) {
        *made = (struct _cl_mem){bytes, 1};
    }
    return give(made, code);
}

CL_API_ENTRY cl_int CL_API_CALL clRetainMemObject(cl_mem memory)
{
    ++memory->users;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseMemObject(cl_mem memory)
{
    if (--memory->users == 0) {
        free(memory);
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetMemObjectInfo(cl_mem memory, cl_mem_info query, size_t room,
                                                   void *out, size_t *size_out)
{
    const size_t zero = 0;
    void *const context = &context_handle;
    void *const none = NULL;
    switch (query) {
    case CL_MEM_SIZE:
        return answer(&memory->bytes, sizeof memory->bytes, room, out, size_out);
    case CL_MEM_OFFSET:
        return answer(&zero, sizeof zero, room, out, size_out);
    case CL_MEM_CONTEXT:
        return answer((const void *)&context, sizeof context, room, out, size_out);
    case CL_MEM_ASSOCIATED_MEMOBJECT:
        return answer((const void *)&none, sizeof none, room, out, size_out);
    default:
        return CL_INVALID_VALUE;
    }
}

/* ---- programs and kernels ----------------------------------------------------------------- */

CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint count,
                                                              const char **texts,
                                                              const size_t *lengths, cl_int *code)
{
    (void)context;
    cl_program made = count == 1 ? calloc(1, sizeof *made) : NULL;
    if (made != NULL) {
        const int counted = lengths != NULL && lengths[0] > 0;
        made->source = copy_text(texts[0], counted ? lengths[0] : strlen(texts[0]));
        made->users = 1;
    }
    return give(made, code);
}

CL_API_ENTRY cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count,
                                               const cl_device_id *devices, const char *options,
                                               void(CL_CALLBACK *notify)(cl_program, void *),
                                               void *user)
{
    (void)count;
    (void)devices;
    (void)notify;
    (void)user;
    free(program->options);
    program->options = copy_text(options == NULL ? "" : options, options ? strlen(options) : 0);
    if (program->source == NULL || program->options == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    if (listener.built != NULL) {
        listener.built(program->source, program->options, listener.user);
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetProgramInfo(cl_program program, cl_program_info query,
                                                 size_t room, void *out, size_t *size_out)
{
    (void)program;
    (void)query;
    (void)room;
    (void)out;
    (void)size_out;
    return CL_INVALID_VALUE; /* there is no binary to be had */
}

CL_API_ENTRY cl_int CL_API_CALL clGetProgramBuildInfo(cl_program program, cl_device_id id,
                                                      cl_program_build_info query, size_t room,
                                                      void *out, size_t *size_out)
{
    (void)program;
    (void)id;
    (void)query;
    return answer("", 1, room, out, size_out);
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseProgram(cl_program program)
{
    if (--program->users == 0) {
        free(program->source);
        free(program->options);
        free(program);
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name,
                                                  cl_int *code)
{
    cl_kernel made = strlen(name) < sizeof made->name ? calloc(1, sizeof *made) : NULL;
    if (made != NULL) {
        strcpy(made->name, name);
        made->program = program;
        ++program->users;
    }
    return give(made, code);
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseKernel(cl_kernel kernel)
{
    clReleaseProgram(kernel->program);
    free(kernel);
    return CL_SUCCESS;
}

/* The size that a kernel was compiled for is unknown here; the host then takes what it wanted. */
CL_API_ENTRY cl_int CL_API_CALL clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id id,
                                                         cl_kernel_work_group_info query,
                                                         size_t room, void *out, size_t *size_out)
{
    (void)kernel;
    (void)id;
    const size_t none[3] = {0, 0, 0}, lanes = device->lanes;
    const cl_ulong bytes = 0;
    switch (query) {
    case CL_KERNEL_WORK_GROUP_SIZE:
        return answer(&device->work_group_max, sizeof(size_t), room, out, size_out);
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE:
        return answer(none, sizeof none, room, out, size_out);
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
        return answer(&lanes, sizeof lanes, room, out, size_out);
    case CL_KERNEL_LOCAL_MEM_SIZE:
    case CL_KERNEL_PRIVATE_MEM_SIZE:
        return answer(&bytes, sizeof bytes, room, out, size_out);
    default:
        return CL_INVALID_VALUE;
    }
}

CL_API_ENTRY cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size,
                                               const void *value)
{
    if (index == 0) {
        kernel->local_argument_bytes = 0;
    }
    kernel->local_argument_bytes += value == NULL ? size : 0;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                                       cl_uint dimensions, const size_t *offset,
                                                       const size_t *global, const size_t *local,
                                                       cl_uint wait_count, const cl_event *wait,
                                                       cl_event *event)
{
    (void)queue;
    (void)offset;
    (void)wait_count;
    (void)wait;
    struct driver_launch launch = {kernel->name,
                                   kernel->program->source,
                                   kernel->program->options,
                                   1,
                                   1,
                                   kernel->local_argument_bytes};
    for (cl_uint d = 0; d < dimensions; ++d) {
        launch.global *= global[d];
        launch.local *= local == NULL ? 1 : local[d];
    }
    if (listener.launched != NULL) {
        listener.launched(&launch, listener.user);
    }
    if (event != NULL) {
        *event = HANDLE(cl_event, event_handle);
    }
    return CL_SUCCESS;
}
