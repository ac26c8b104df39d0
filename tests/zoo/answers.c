/* What platforms, devices and kernels say of themselves. */
#include "zoo.h"

#include <stdio.h>
#include <string.h>

cl_int zoo_answer(const void *value, size_t size, size_t room, void *out, size_t *size_out)
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

/* Queries of extensions, whose headers are not everywhere. */
enum {
    CAPABILITY_MAJOR_NV = 0x4000,
    CAPABILITY_MINOR_NV = 0x4001,
    WARP_SIZE_NV = 0x4003,
    BOARD_NAME_AMD = 0x4038,
    WAVEFRONT_WIDTH_AMD = 0x4043,
    SUB_GROUP_SIZES_INTEL = 0x4108
};

static const char *version_text(const char *what, const struct zoo_device *zoo, char *text,
                                size_t size)
{
    snprintf(text, size, "%s %d.%d %s", what, zoo->version / 10, zoo->version % 10, zoo->suffix);
    return text;
}

/* NULL if the query gives no text, or the driver's. */
static const char *text_of(const struct zoo_device *zoo, cl_device_info query, char *made,
                           size_t size)
{
    switch (query) {
    case CL_DEVICE_NAME:
        return zoo->title;
    case CL_DEVICE_VENDOR:
        return zoo->vendor;
    case CL_DEVICE_VERSION:
        return version_text("OpenCL", zoo, made, size);
    case CL_DEVICE_OPENCL_C_VERSION:
        snprintf(made, size, "OpenCL C %s",
                 zoo->version < 12   ? "1.1 "
                 : zoo->version < 20 ? "1.2 "
                                     : "2.0 ");
        return made;
    case CL_DEVICE_PROFILE:
        return zoo->is_embedded ? "EMBEDDED_PROFILE" : "FULL_PROFILE";
    case CL_DEVICE_EXTENSIONS:
        return zoo->extensions;
    case CL_DEVICE_BUILT_IN_KERNELS:
        return "";
    case BOARD_NAME_AMD:
        return zoo->board;
    default:
        return NULL;
    }
}

/* The number, and the size that the query has; 0 if it is the driver's to answer. */
static size_t number_of(const struct zoo_device *zoo, cl_device_info query, cl_ulong *number)
{
    switch (query) {
    case CL_DEVICE_TYPE:
        *number = zoo->type;
        return sizeof(cl_device_type);
    case CL_DEVICE_VENDOR_ID:
        *number = zoo->vendor_id;
        return sizeof(cl_uint);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        *number = zoo->units;
        return sizeof(cl_uint);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT:
        *number = zoo->width;
        return sizeof(cl_uint);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        *number = zoo->group;
        return sizeof(size_t);
    case CL_DEVICE_MAX_PARAMETER_SIZE:
        *number = zoo->params;
        return sizeof(size_t);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        *number = zoo->local;
        return sizeof(cl_ulong);
    case CL_DEVICE_LOCAL_MEM_TYPE:
        *number = zoo->local_type;
        return sizeof(cl_device_local_mem_type);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        *number = zoo->alloc;
        return sizeof(cl_ulong);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        *number = zoo->global;
        return sizeof(cl_ulong);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        *number = zoo->align * 8; /* in bits */
        return sizeof(cl_uint);
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_LINKER_AVAILABLE:
        *number = zoo->lacks_compiler ? CL_FALSE : CL_TRUE;
        return sizeof(cl_bool);
    case CL_DEVICE_IMAGE_SUPPORT:
        *number = zoo->lacks_images ? CL_FALSE : CL_TRUE;
        return sizeof(cl_bool);
    case CL_DEVICE_DOUBLE_FP_CONFIG:
        *number = zoo->has_double ? CL_FP_FMA | CL_FP_ROUND_TO_NEAREST | CL_FP_INF_NAN : 0;
        return sizeof(cl_device_fp_config);
    case CAPABILITY_MAJOR_NV:
        *number = (cl_ulong)zoo->capability / 10;
        return sizeof(cl_uint);
    case CAPABILITY_MINOR_NV:
        *number = (cl_ulong)zoo->capability % 10;
        return sizeof(cl_uint);
    case CL_DEVICE_HALF_FP_CONFIG:
        *number = 0; /* no driver beneath us computes in half precision */
        return sizeof(cl_device_fp_config);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE:
        *number = zoo->has_double ? 1 : 0;
        return sizeof(cl_uint);
    default:
        return 0;
    }
}

/* 0 if a device of the version does not know the query, or its maker has another one. */
static int knows(const struct zoo_device *zoo, cl_device_info query)
{
    switch (query) {
    case CL_DEVICE_DOUBLE_FP_CONFIG:
    case CL_DEVICE_LINKER_AVAILABLE:
        return zoo->version >= 12;
    case CAPABILITY_MAJOR_NV:
    case CAPABILITY_MINOR_NV:
    case WARP_SIZE_NV:
        return zoo->lanes > 0 && zoo->vendor_id == 0x10de;
    case BOARD_NAME_AMD:
    case WAVEFRONT_WIDTH_AMD:
        return zoo->lanes > 0 && zoo->vendor_id == 0x1002;
    case SUB_GROUP_SIZES_INTEL:
        return zoo->sub_groups[0] > 0;
    default:
        break;
    }
    if (query >= CL_DEVICE_BUILT_IN_KERNELS && query <= 0x104B) {
        return zoo->version >= 12;
    }
    if (query > 0x104B && query < 0x1100) {
        return zoo->version >= 20;
    }
    return query < 0x4000; /* other makers' */
}

static cl_int CL_API_CALL device_info(cl_device_id id, cl_device_info query, size_t room, void *out,
                                      size_t *size_out)
{
    const struct zoo_device *zoo = zoo_of(id);
    char made[128];
    if (!knows(zoo, query)) {
        return CL_INVALID_VALUE;
    }
    const char *text = text_of(zoo, query, made, sizeof made);
    if (text != NULL) {
        return zoo_answer(text, strlen(text) + 1, room, out, size_out);
    }
    cl_ulong number = 0;
    size_t size = number_of(zoo, query, &number);
    if (size == sizeof(cl_uint)) {
        const cl_uint narrow = (cl_uint)number;
        return zoo_answer(&narrow, size, room, out, size_out);
    }
    if (size > 0) {
        return zoo_answer(&number, size, room, out, size_out);
    }
    switch (query) {
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        return zoo_answer(zoo->items, sizeof zoo->items, room, out, size_out);
    case WARP_SIZE_NV:
    case WAVEFRONT_WIDTH_AMD:
        return zoo_answer(&zoo->lanes, sizeof zoo->lanes, room, out, size_out);
    case SUB_GROUP_SIZES_INTEL:
        size = 0;
        while (size < 4 && zoo->sub_groups[size] > 0) {
            size++;
        }
        return zoo_answer(zoo->sub_groups, size * sizeof(size_t), room, out, size_out);
    default:
        return zoo_next->clGetDeviceInfo(id, query, room, out, size_out);
    }
}

static cl_int CL_API_CALL kernel_group_info(cl_kernel kernel, cl_device_id id,
                                            cl_kernel_work_group_info query, size_t room, void *out,
                                            size_t *size_out)
{
    const struct zoo_device *zoo = zoo_of(id);
    size_t size = 0;
    cl_ulong bytes = 0;
    switch (query) {
    case CL_KERNEL_WORK_GROUP_SIZE:
        size = zoo_kernel_group(zoo, kernel, id);
        return zoo_answer(&size, sizeof size, room, out, size_out);
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
        size = zoo->lanes > 0 ? zoo->lanes : 1;
        return zoo_answer(&size, sizeof size, room, out, size_out);
    case CL_KERNEL_LOCAL_MEM_SIZE:
        bytes = zoo_kernel_local(zoo, kernel, id);
        return zoo_answer(&bytes, sizeof bytes, room, out, size_out);
    default:
        return zoo_next->clGetKernelWorkGroupInfo(kernel, id, query, room, out, size_out);
    }
}

void zoo_add_answers(cl_icd_dispatch *table)
{
    table->clGetDeviceInfo = device_info;
    table->clGetKernelWorkGroupInfo = kernel_group_info;
}
