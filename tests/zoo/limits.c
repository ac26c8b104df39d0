/* What a device of the zoo refuses. */
#include "zoo.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cl_ulong bytes_in_use;

static void CL_CALLBACK buffer_dies(cl_mem memory, void *bytes)
{
    (void)memory;
    pthread_mutex_lock(&lock);
    bytes_in_use -= (uintptr_t)bytes;
    pthread_mutex_unlock(&lock);
}

static cl_mem give_memory(cl_mem memory, cl_int given, cl_int *code)
{
    if (code != NULL) {
        *code = given;
    }
    return memory;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size,
                                        void *host, cl_int *code)
{
    const struct zoo_device *zoo = zoo_of_context(context);
    if (size > zoo->alloc) {
        return give_memory(NULL, CL_INVALID_BUFFER_SIZE, code);
    }
    pthread_mutex_lock(&lock);
    const int fits = bytes_in_use + size <= zoo->global;
    bytes_in_use += fits ? size : 0;
    pthread_mutex_unlock(&lock);
    if (!fits) {
        return give_memory(NULL, CL_MEM_OBJECT_ALLOCATION_FAILURE, code);
    }
    cl_int given = CL_SUCCESS;
    cl_mem memory = zoo_next->clCreateBuffer(context, flags, size, host, &given);
    if (memory == NULL) {
        buffer_dies(NULL, (void *)(uintptr_t)size);
    } else {
        zoo_next->clSetMemObjectDestructorCallback(memory, buffer_dies, (void *)(uintptr_t)size);
    }
    return give_memory(memory, given, code);
}

static cl_mem CL_API_CALL create_sub_buffer(cl_mem buffer, cl_mem_flags flags,
                                            cl_buffer_create_type type, const void *info,
                                            cl_int *code)
{
    cl_context context = NULL;
    const cl_buffer_region *region = info;
    zoo_next->clGetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof context, (void *)&context, NULL);
    if (region != NULL && context != NULL && region->origin % zoo_of_context(context)->align != 0) {
        return give_memory(NULL, CL_MISALIGNED_SUB_BUFFER_OFFSET, code);
    }
    return zoo_next->clCreateSubBuffer(buffer, flags, type, info, code);
}

static cl_mem CL_API_CALL create_image(cl_context context, cl_mem_flags flags,
                                       const cl_image_format *format, const cl_image_desc *desc,
                                       void *host, cl_int *code)
{
    if (zoo_of_context(context)->lacks_images) {
        return give_memory(NULL, CL_INVALID_OPERATION, code);
    }
    return zoo_next->clCreateImage(context, flags, format, desc, host, code);
}

static cl_mem CL_API_CALL create_image_2d(cl_context context, cl_mem_flags flags,
                                          const cl_image_format *format, size_t width,
                                          size_t height, size_t pitch, void *host, cl_int *code)
{
    if (zoo_of_context(context)->lacks_images) {
        return give_memory(NULL, CL_INVALID_OPERATION, code);
    }
    return zoo_next->clCreateImage2D(context, flags, format, width, height, pitch, host, code);
}

/* ---- programs ----------------------------------------------------------------------------- */

/*
 * Without double precision the word means nothing. Half precision and sub-groups need no such help:
 * a driver on which the zoo runs has neither, so sources that use them do not build.
 */
static cl_program CL_API_CALL create_program(cl_context context, cl_uint count, const char **texts,
                                             const size_t *lengths, cl_int *code)
{
    static const char no_double[] = "#undef cl_khr_fp64\n"
                                    "#define double this_device_has_no_double\n"
                                    "#line 1\n";
    if (zoo_of_context(context)->has_double || count == 0 || texts == NULL) {
        return zoo_next->clCreateProgramWithSource(context, count, texts, lengths, code);
    }
    const char **all = calloc(count + 1, sizeof *all);
    size_t *sizes = calloc(count + 1, sizeof *sizes);
    cl_program program = NULL;
    if (all != NULL && sizes != NULL) {
        all[0] = no_double;
        for (cl_uint n = 0; n < count; n++) {
            all[n + 1] = texts[n];
            sizes[n + 1] = lengths ? lengths[n] : 0;
        }
        program = zoo_next->clCreateProgramWithSource(context, count + 1, all, sizes, code);
    } else if (code != NULL) {
        *code = CL_OUT_OF_HOST_MEMORY;
    }
    free((void *)all);
    free(sizes);
    return program;
}

/* The language that the options ask for: 12 for -cl-std=CL1.2; 0 for none. */
static int language(const char *options)
{
    const char *at = options ? strstr(options, "-cl-std=CL") : NULL;
    int major = 0, minor = 0;
    return at && sscanf(at, "-cl-std=CL%1d.%1d", &major, &minor) == 2 ? 10 * major + minor : 0;
}

/* 1 if a kernel of the program needs more than the device has. */
static int is_too_large(const struct zoo_device *zoo, cl_program program, cl_device_id id)
{
    cl_kernel kernels[16];
    cl_uint count = 0;
    int found = 0;
    if (zoo_next->clCreateKernelsInProgram(program, 0, NULL, &count) != CL_SUCCESS || count > 16 ||
        zoo_next->clCreateKernelsInProgram(program, count, kernels, NULL) != CL_SUCCESS) {
        return 0;
    }
    for (cl_uint k = 0; k < count; k++) {
        size_t compiled[3] = {0, 0, 0};
        zoo_next->clGetKernelWorkGroupInfo(kernels[k], id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                           sizeof compiled, compiled, NULL);
        found |= zoo_kernel_local(zoo, kernels[k], id) > zoo->local;
        found |= compiled[0] * compiled[1] * compiled[2] > zoo_kernel_group(zoo, kernels[k], id);
        zoo_next->clReleaseKernel(kernels[k]);
    }
    return found;
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint count, const cl_device_id *ids,
                                        const char *options,
                                        void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    const struct zoo_device *zoo =
        count > 0 && ids != NULL ? zoo_of(ids[0]) : zoo_of_program(program);
    if (zoo->lacks_compiler) {
        return CL_COMPILER_NOT_AVAILABLE;
    }
    if (language(options) > (zoo->version > 20 ? 20 : zoo->version)) {
        return CL_INVALID_BUILD_OPTIONS;
    }
    char plain[2048];
    const char *given = options != NULL ? options : "";
    const char *slow = getenv("MHA_ZOO_LONG");
    if ((slow == NULL || *slow == '\0') &&
        strlen(given) + sizeof " -cl-opt-disable" <= sizeof plain) {
        snprintf(plain, sizeof plain, "%s -cl-opt-disable", given);
        options = plain;
    }
    const cl_int code = zoo_next->clBuildProgram(program, count, ids, options, notify, user);
    if (code == CL_SUCCESS && zoo->refusal != ZOO_AT_LAUNCH && count > 0 && ids != NULL &&
        is_too_large(zoo, program, ids[0])) {
        return zoo->refusal == ZOO_BUILD_FAILURE ? CL_BUILD_PROGRAM_FAILURE : CL_OUT_OF_RESOURCES;
    }
    return code;
}

/* ---- kernels ------------------------------------------------------------------------------ */

#define ARGS_MAX 64

/* The bytes of a kernel's arguments; a new kernel at an old one's address begins anew. */
struct arguments {
    cl_kernel kernel;
    size_t bytes[ARGS_MAX];
    struct arguments *next;
};

static struct arguments *all_arguments;

/* Under the lock. */
static struct arguments *arguments_of(cl_kernel kernel)
{
    struct arguments *found = all_arguments;
    while (found != NULL && found->kernel != kernel) {
        found = found->next;
    }
    if (found == NULL && (found = calloc(1, sizeof *found)) != NULL) {
        found->kernel = kernel;
        found->next = all_arguments;
        all_arguments = found;
    }
    return found;
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *code)
{
    cl_kernel kernel = zoo_next->clCreateKernel(program, name, code);
    pthread_mutex_lock(&lock);
    struct arguments *arguments = kernel ? arguments_of(kernel) : NULL;
    if (arguments != NULL) {
        memset(arguments->bytes, 0, sizeof arguments->bytes);
    }
    pthread_mutex_unlock(&lock);
    return kernel;
}

static const struct zoo_device *zoo_of_kernel(cl_kernel kernel)
{
    cl_program program = NULL;
    zoo_next->clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof program, (void *)&program, NULL);
    return zoo_of_program(program);
}

static cl_int CL_API_CALL set_kernel_arg(cl_kernel kernel, cl_uint index, size_t size,
                                         const void *value)
{
    size_t total = 0;
    pthread_mutex_lock(&lock);
    struct arguments *arguments = arguments_of(kernel);
    if (arguments != NULL && index < ARGS_MAX) {
        arguments->bytes[index] = value != NULL ? size : sizeof(void *); /* local: a pointer */
        for (int a = 0; a < ARGS_MAX; a++) {
            total += arguments->bytes[a];
        }
    }
    pthread_mutex_unlock(&lock);
    if (total > zoo_of_kernel(kernel)->params) {
        return CL_INVALID_ARG_SIZE;
    }
    return zoo_next->clSetKernelArg(kernel, index, size, value);
}

cl_ulong zoo_kernel_local(const struct zoo_device *zoo, cl_kernel kernel, cl_device_id id)
{
    cl_ulong bytes = 0;
    zoo_next->clGetKernelWorkGroupInfo(kernel, id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes, &bytes,
                                       NULL);
    return bytes > 0 ? bytes + zoo->extra_local : 0;
}

size_t zoo_kernel_group(const struct zoo_device *zoo, cl_kernel kernel, cl_device_id id)
{
    size_t most = 0;
    zoo_next->clGetKernelWorkGroupInfo(kernel, id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most,
                                       NULL);
    most = most > zoo->group ? zoo->group : most;
    if (zoo->kernel_group > 0 && most > zoo->kernel_group &&
        zoo_kernel_local(zoo, kernel, id) > 0) {
        most = zoo->kernel_group;
    }
    return most;
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                 const size_t *offset, const size_t *global, const size_t *local,
                                 cl_uint wait_count, const cl_event *wait, cl_event *event)
{
    cl_device_id id = NULL;
    zoo_next->clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof id, (void *)&id, NULL);
    const struct zoo_device *zoo = zoo_of(id);
    const size_t ones[3] = {1, 1, 1}; /* what this device takes where it is left the choice */
    size_t compiled[3] = {0, 0, 0}, items = 1;
    zoo_next->clGetKernelWorkGroupInfo(kernel, id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                       sizeof compiled, compiled, NULL);
    if (local == NULL) {
        local = compiled[0] > 0 ? compiled : ones;
    }
    for (cl_uint d = 0; d < dimensions && d < 3 && global != NULL; d++) {
        if (local[d] > zoo->items[d]) {
            return CL_INVALID_WORK_ITEM_SIZE;
        }
        if (local[d] == 0 || global[d] % local[d] != 0) {
            return CL_INVALID_WORK_GROUP_SIZE;
        }
        items *= local[d];
    }
    if (items > zoo_kernel_group(zoo, kernel, id)) {
        return CL_INVALID_WORK_GROUP_SIZE;
    }
    if (zoo_kernel_local(zoo, kernel, id) > zoo->local) {
        return CL_OUT_OF_RESOURCES;
    }
    return zoo_next->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local,
                                            wait_count, wait, event);
}

void zoo_add_limits(cl_icd_dispatch *table)
{
    table->clCreateBuffer = create_buffer;
    table->clCreateSubBuffer = create_sub_buffer;
    table->clCreateImage = create_image;
    table->clCreateImage2D = create_image_2d;
    table->clCreateProgramWithSource = create_program;
    table->clBuildProgram = build_program;
    table->clCreateKernel = create_kernel;
    table->clSetKernelArg = set_kernel_arg;
    table->clEnqueueNDRangeKernel = launch;
}
