/* What a device says of itself, and the search for the device a selector names. */
#ifndef MHA_CL_DEVICE_H
#define MHA_CL_DEVICE_H

#include "core/error.h"

/* Whose device, as far as the choice of kernels depends on it. */
enum mha_vendor {
    MHA_VENDOR_OTHER,
    MHA_VENDOR_NVIDIA,
    MHA_VENDOR_AMD,
    MHA_VENDOR_INTEL,
    MHA_VENDOR_ADRENO,
    MHA_VENDOR_MALI
};

/* How kernels may speak to the work-items of a sub-group. */
enum mha_sub_groups {
    MHA_SUB_GROUPS_NONE,
    MHA_SUB_GROUPS_FIXED, /* cl_khr_subgroups; `lanes` is their size */
    MHA_SUB_GROUPS_ASKED  /* cl_intel_subgroups, and a kernel may ask for the size */
};

struct mha_tuned; /* tuned.h */

/* Read once per context; everything later is chosen from here, never from a fresh query. */
struct mha_device {
    /* What gpu-mha doctor found here (verdicts.h); the context's. NULL: nothing is known. */
    struct mha_tuned *verdicts;
    cl_device_id id;
    cl_platform_id platform;
    cl_device_type type;
    enum mha_vendor vendor;
    char name[256];
    cl_uint compute_units;
    cl_uint native_vector_width_float;
    cl_ulong global_bytes;
    cl_ulong max_alloc_bytes;
    cl_ulong local_bytes;
    size_t max_work_group_size;
    size_t max_parameter_bytes;
    size_t max_work_items_0; /* of dimension 0 */
    cl_uint base_align_bytes;
    cl_uint address_bits;
    int local_is_global; /* local memory is global memory, or there is none */
    cl_uint lanes;       /* that run in step (warp, wavefront, smallest sub-group); 0: not told */
    enum mha_sub_groups sub_groups;
    int has_fma; /* CL_FP_FMA: fma() is as fast as a multiply */
};

/* Reads all of it; a device that does not answer is an error. */
gpu_mha_status mha_device_query(cl_device_id id, struct mha_device *device);

/*
 * The same without recording an error: the code of the first query that failed and its name in
 * *query. Fields that could not be read are 0.
 */
cl_int mha_device_read(cl_device_id id, struct mha_device *device, const char **query);

/*
 * Why the library cannot use a device, as a phrase: "OpenCL 1.1, 1.2 is needed"; "" if it can. If
 * the device did not answer, the code of that query, its name in *query, and a phrase that says so.
 */
cl_int mha_device_obstacle(cl_device_id id, char *reason, size_t capacity, const char **query);

/* A string the device (or its platform) tells, trimmed and cut to fit; "" if it does not answer. */
cl_int mha_device_text(cl_device_id id, cl_device_info query, char *text, size_t capacity);
cl_int mha_platform_text(cl_platform_id id, cl_platform_info query, char *text, size_t capacity);

/* Finds the device of a selector (see gpu_mha_context_create). */
gpu_mha_status mha_device_select(const char *selector, cl_device_id *id);

#endif
