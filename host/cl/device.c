/* What a device says of itself, and whether that is enough. */
#include "cl/device.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

/* The largest struct that a kernel takes by value has to fit; 1.2 promises it for full profiles. */
enum { NEEDED_PARAMETER_BYTES = 1024 };

#define FIELD(query, field)                                                                        \
    {                                                                                              \
        query, #query, offsetof(struct mha_device, field), sizeof((struct mha_device *)0)->field   \
    }

static const struct field {
    cl_device_info query;
    const char *name;
    size_t offset, size;
} fields[] = {
    FIELD(CL_DEVICE_PLATFORM, platform),
    FIELD(CL_DEVICE_TYPE, type),
    FIELD(CL_DEVICE_MAX_COMPUTE_UNITS, compute_units),
    FIELD(CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, native_vector_width_float),
    FIELD(CL_DEVICE_GLOBAL_MEM_SIZE, global_bytes),
    FIELD(CL_DEVICE_MAX_MEM_ALLOC_SIZE, max_alloc_bytes),
    FIELD(CL_DEVICE_LOCAL_MEM_SIZE, local_bytes),
    FIELD(CL_DEVICE_MAX_WORK_GROUP_SIZE, max_work_group_size),
    FIELD(CL_DEVICE_MAX_PARAMETER_SIZE, max_parameter_bytes),
    FIELD(CL_DEVICE_ADDRESS_BITS, address_bits),
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

/* Copies a string, as one line without the blanks around it that some drivers report. */
static void copy_trimmed(char *text, size_t capacity, const char *from)
{
    from += strspn(from, " \t\r\n");
    size_t length = strlen(from);
    if (length >= capacity) {
        length = capacity - 1;
    }
    while (length > 0 && strchr(" \t\r\n", from[length - 1])) {
        length--;
    }
    memcpy(text, from, length);
    text[length] = '\0';
    mha_one_line(text);
}

/* The whole string of a query, to be freed, always NUL-terminated. */
static cl_int read_string(cl_device_id id, cl_device_info query, char **string)
{
    *string = NULL;
    size_t size = 0;
    cl_int code = clGetDeviceInfo(id, query, 0, NULL, &size);
    if (code != CL_SUCCESS) {
        return code;
    }
    char *made = size < SIZE_MAX ? calloc(size + 1, 1) : NULL;
    if (!made) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    code = clGetDeviceInfo(id, query, size, made, NULL);
    if (code != CL_SUCCESS) {
        free(made);
        return code;
    }
    *string = made;
    return CL_SUCCESS;
}

cl_int mha_device_text(cl_device_id id, cl_device_info query, char *text, size_t capacity)
{
    char *string;
    cl_int code = read_string(id, query, &string);
    copy_trimmed(text, capacity, code == CL_SUCCESS ? string : "");
    free(string);
    return code;
}

cl_int mha_platform_text(cl_platform_id id, cl_platform_info query, char *text, size_t capacity)
{
    text[0] = '\0';
    size_t size = 0;
    cl_int code = clGetPlatformInfo(id, query, 0, NULL, &size);
    if (code != CL_SUCCESS) {
        return code;
    }
    char *string = size < SIZE_MAX ? calloc(size + 1, 1) : NULL;
    if (!string) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    code = clGetPlatformInfo(id, query, size, string, NULL);
    if (code == CL_SUCCESS) {
        copy_trimmed(text, capacity, string);
    }
    free(string);
    return code;
}

/* The limit of dimension 0; the query gives as many as the device has dimensions. */
static cl_int read_max_work_items(cl_device_id id, size_t *max_work_items_0)
{
    cl_uint dimensions = 0;
    cl_int code = clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, sizeof dimensions,
                                  &dimensions, NULL);
    if (code != CL_SUCCESS) {
        return code;
    }
    if (dimensions == 0) {
        return CL_INVALID_VALUE;
    }
    size_t *sizes = calloc(dimensions, sizeof *sizes);
    if (!sizes) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    code =
        clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, dimensions * sizeof *sizes, sizes, NULL);
    if (code == CL_SUCCESS) {
        *max_work_items_0 = sizes[0];
    }
    free(sizes);
    return code;
}

/* 1 if `list`, words between blanks, has the word. */
static int has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    while (*list) {
        list += strspn(list, " ");
        size_t size = strcspn(list, " ");
        if (size == length && memcmp(list, word, length) == 0) {
            return 1;
        }
        list += size;
    }
    return 0;
}

static enum mha_vendor vendor_of(const char *vendor)
{
    static const struct {
        const char *part;
        enum mha_vendor vendor;
    } vendors[] = {
        {"NVIDIA", MHA_VENDOR_NVIDIA},   {"Advanced Micro Devices", MHA_VENDOR_AMD},
        {"AMD", MHA_VENDOR_AMD},         {"Intel", MHA_VENDOR_INTEL},
        {"QUALCOMM", MHA_VENDOR_ADRENO}, {"Qualcomm", MHA_VENDOR_ADRENO},
        {"ARM", MHA_VENDOR_MALI},        {"Arm", MHA_VENDOR_MALI},
    };
    for (size_t v = 0; v < sizeof vendors / sizeof vendors[0]; v++) {
        if (strstr(vendor, vendors[v].part)) {
            return vendors[v].vendor;
        }
    }
    return MHA_VENDOR_OTHER;
}

/* CL_DEVICE_WARP_SIZE_NV and so on; their headers are not everywhere. */
enum { WARP_SIZE_NV = 0x4003, WAVEFRONT_WIDTH_AMD = 0x4043, SUB_GROUP_SIZES_INTEL = 0x4108 };

/* The smallest sub-group that a kernel may ask for; 0 if the device does not tell. */
static cl_uint smallest_sub_group(cl_device_id id)
{
    size_t sizes[16], bytes = 0, smallest = 0;
    if (clGetDeviceInfo(id, SUB_GROUP_SIZES_INTEL, sizeof sizes, sizes, &bytes) != CL_SUCCESS) {
        return 0;
    }
    for (size_t i = 0; i < bytes / sizeof *sizes; i++) {
        smallest = smallest == 0 || sizes[i] < smallest ? sizes[i] : smallest;
    }
    return (cl_uint)smallest;
}

/*
 * What only the choice among kernels depends on: a device that does not answer is one of which
 * nothing is known, not an error.
 */
static void read_kind(cl_device_id id, struct mha_device *device)
{
    char vendor[128];
    mha_device_text(id, CL_DEVICE_VENDOR, vendor, sizeof vendor);
    device->vendor = vendor_of(vendor);

    cl_device_local_mem_type local = CL_LOCAL;
    if (clGetDeviceInfo(id, CL_DEVICE_LOCAL_MEM_TYPE, sizeof local, &local, NULL) == CL_SUCCESS) {
        device->local_is_global = local != CL_LOCAL;
    }
    cl_uint lanes = 0;
    const cl_device_info width =
        device->vendor == MHA_VENDOR_NVIDIA ? WARP_SIZE_NV : WAVEFRONT_WIDTH_AMD;
    if ((device->vendor == MHA_VENDOR_NVIDIA || device->vendor == MHA_VENDOR_AMD) &&
        clGetDeviceInfo(id, width, sizeof lanes, &lanes, NULL) == CL_SUCCESS) {
        device->lanes = lanes;
    }
    char *extensions;
    if (read_string(id, CL_DEVICE_EXTENSIONS, &extensions) != CL_SUCCESS) {
        return;
    }
    if (has_word(extensions, "cl_intel_subgroups") &&
        has_word(extensions, "cl_intel_required_subgroup_size")) {
        device->sub_groups = MHA_SUB_GROUPS_ASKED;
        device->lanes = smallest_sub_group(id);
    } else if (has_word(extensions, "cl_khr_subgroups") && device->lanes > 0) {
        device->sub_groups = MHA_SUB_GROUPS_FIXED;
    }
    free(extensions);
}

cl_int mha_device_read(cl_device_id id, struct mha_device *device, const char **query)
{
    *device = (struct mha_device){.id = id};
    for (int i = 0; i < FIELD_COUNT; i++) {
        *query = fields[i].name;
        cl_int code = clGetDeviceInfo(id, fields[i].query, fields[i].size,
                                      (char *)device + fields[i].offset, NULL);
        if (code != CL_SUCCESS) {
            return code;
        }
    }
    /* What counts by it divides by it. */
    device->compute_units = device->compute_units > 0 ? device->compute_units : 1;
    *query = "CL_DEVICE_NAME";
    cl_int code = mha_device_text(id, CL_DEVICE_NAME, device->name, sizeof device->name);
    if (code != CL_SUCCESS) {
        return code;
    }

    *query = "CL_DEVICE_MAX_WORK_ITEM_SIZES";
    code = read_max_work_items(id, &device->max_work_items_0);
    if (code != CL_SUCCESS) {
        return code;
    }

    /* In bits; what the host works with is bytes. */
    cl_uint align_bits = 0;
    *query = "CL_DEVICE_MEM_BASE_ADDR_ALIGN";
    code = clGetDeviceInfo(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof align_bits, &align_bits, NULL);
    if (code != CL_SUCCESS) {
        return code;
    }
    device->base_align_bytes = align_bits >= 8 ? align_bits / 8 : 1;

    cl_device_fp_config single = 0;
    *query = "CL_DEVICE_SINGLE_FP_CONFIG";
    code = clGetDeviceInfo(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof single, &single, NULL);
    if (code != CL_SUCCESS) {
        return code;
    }
    device->has_fma = (single & CL_FP_FMA) != 0;
    read_kind(id, device);
    return CL_SUCCESS;
}

gpu_mha_status mha_device_query(cl_device_id id, struct mha_device *device)
{
    const char *query;
    MHA_TRY_CL(mha_device_read(id, device, &query), "clGetDeviceInfo", "%s", query);
    return GPU_MHA_OK;
}

/* What must be true of a device, in the order in which a person would want to hear of it. */
static const struct requirement {
    cl_device_info query;
    const char *name;
    const char *obstacle;
} requirements[] = {
    {CL_DEVICE_AVAILABLE, "CL_DEVICE_AVAILABLE", "it is not available"},
    {CL_DEVICE_COMPILER_AVAILABLE, "CL_DEVICE_COMPILER_AVAILABLE", "it has no compiler"},
    {CL_DEVICE_ENDIAN_LITTLE, "CL_DEVICE_ENDIAN_LITTLE", "it is big-endian"},
};
enum { REQUIREMENT_COUNT = sizeof requirements / sizeof requirements[0] };

/* The version: "OpenCL MAJOR.MINOR ...". */
static cl_int version_obstacle(cl_device_id id, char *reason, size_t capacity)
{
    char version[128];
    cl_int code = mha_device_text(id, CL_DEVICE_VERSION, version, sizeof version);
    if (code != CL_SUCCESS) {
        return code;
    }
    int major = 0, minor = 0;
    if (sscanf(version, "OpenCL %3d.%3d", &major, &minor) != 2) {
        snprintf(reason, capacity, "its version \"%.40s\" is unreadable", version);
    } else if (major < 1 || (major == 1 && minor < 2)) {
        snprintf(reason, capacity, "OpenCL %d.%d, 1.2 is needed", major, minor);
    }
    return CL_SUCCESS;
}

/* An embedded profile may lack 64-bit integers, and IEEE rounding and infinities. */
static cl_int arithmetic_obstacle(cl_device_id id, char *reason, size_t capacity,
                                  const char **query)
{
    const cl_device_fp_config needed = CL_FP_ROUND_TO_NEAREST | CL_FP_INF_NAN;
    cl_device_fp_config single = 0;
    *query = "CL_DEVICE_SINGLE_FP_CONFIG";
    cl_int code = clGetDeviceInfo(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof single, &single, NULL);
    if (code != CL_SUCCESS) {
        return code;
    }
    if ((single & needed) != needed) {
        snprintf(reason, capacity, "its single precision lacks IEEE rounding or infinities");
        return CL_SUCCESS;
    }
    char profile[64];
    *query = "CL_DEVICE_PROFILE";
    code = mha_device_text(id, CL_DEVICE_PROFILE, profile, sizeof profile);
    if (code != CL_SUCCESS || strcmp(profile, "EMBEDDED_PROFILE") != 0) {
        return code;
    }

    char *extensions;
    *query = "CL_DEVICE_EXTENSIONS";
    code = read_string(id, CL_DEVICE_EXTENSIONS, &extensions);
    if (code != CL_SUCCESS) {
        return code;
    }
    if (!has_word(extensions, "cles_khr_int64")) {
        snprintf(reason, capacity, "its embedded profile lacks 64-bit integers");
    }
    free(extensions);
    return CL_SUCCESS;
}

/* Stops at the first obstacle. */
static cl_int find_obstacle(cl_device_id id, char *reason, size_t capacity, const char **query)
{
    for (int i = 0; i < REQUIREMENT_COUNT; i++) {
        cl_bool fulfilled = CL_FALSE;
        *query = requirements[i].name;
        cl_int code =
            clGetDeviceInfo(id, requirements[i].query, sizeof fulfilled, &fulfilled, NULL);
        if (code != CL_SUCCESS) {
            return code;
        }
        if (!fulfilled) {
            snprintf(reason, capacity, "%s", requirements[i].obstacle);
            return CL_SUCCESS;
        }
    }
    *query = "CL_DEVICE_VERSION";
    cl_int code = version_obstacle(id, reason, capacity);
    if (code != CL_SUCCESS || *reason) {
        return code;
    }

    size_t parameter_bytes = 0;
    *query = "CL_DEVICE_MAX_PARAMETER_SIZE";
    code = clGetDeviceInfo(id, CL_DEVICE_MAX_PARAMETER_SIZE, sizeof parameter_bytes,
                           &parameter_bytes, NULL);
    if (code != CL_SUCCESS) {
        return code;
    }
    if (parameter_bytes < NEEDED_PARAMETER_BYTES) {
        snprintf(reason, capacity, "kernels take %zu bytes of arguments, %d are needed",
                 parameter_bytes, NEEDED_PARAMETER_BYTES);
        return CL_SUCCESS;
    }
    return arithmetic_obstacle(id, reason, capacity, query);
}

cl_int mha_device_obstacle(cl_device_id id, char *reason, size_t capacity, const char **query)
{
    reason[0] = '\0';
    cl_int code = find_obstacle(id, reason, capacity, query);
    if (code != CL_SUCCESS) {
        snprintf(reason, capacity, "%s failed: %s (%d)", *query, mha_error_cl_name(code),
                 (int)code);
    }
    return code;
}
