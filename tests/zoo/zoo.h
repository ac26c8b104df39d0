/*
 * zoo.h - an OpenCL layer under which a driver plays another device: it reports that device's
 * limits, and it enforces them, so that what would fail there fails here.
 *
 * MHA_ZOO names the device, and may change it:  "mali-g71,local=0,group=64". Devices of a platform
 * that has several are told apart by semicolons, in the platform's order; without MHA_ZOO the layer
 * changes nothing. A wrong MHA_ZOO ends the process: a test must not run on what it did not ask
 * for.
 */
#ifndef MHA_TESTS_ZOO_H
#define MHA_TESTS_ZOO_H

/* A layer stands in front of every function there is, not of those that the library may use. */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl_layer.h>

#include <stddef.h>

/* How a device tells that it takes no kernel which needs more than it has. */
enum zoo_refusal {
    ZOO_AT_LAUNCH,          /* the limit of the built kernel tells, and the launch fails */
    ZOO_BUILD_FAILURE,      /* clBuildProgram: CL_BUILD_PROGRAM_FAILURE */
    ZOO_BUILD_OUT_OF_MEMORY /* clBuildProgram: CL_OUT_OF_RESOURCES */
};

struct zoo_device {
    const char *name;                                 /* in MHA_ZOO */
    const char *title, *vendor, *extensions, *suffix; /* suffix: of the version text */
    cl_uint vendor_id;
    cl_device_type type;
    int version; /* 11, 12, 20, 21, 30 */
    int is_embedded, lacks_compiler, lacks_images, has_double;
    size_t group;        /* CL_DEVICE_MAX_WORK_GROUP_SIZE */
    size_t items[3];     /* CL_DEVICE_MAX_WORK_ITEM_SIZES */
    size_t kernel_group; /* of a kernel that uses local memory, as registers or barriers limit it */
    cl_ulong local;      /* bytes of local memory */
    cl_device_local_mem_type local_type;
    cl_ulong extra_local;   /* bytes of it that the compiler takes for itself in such a kernel */
    cl_ulong alloc, global; /* bytes */
    size_t align, params;   /* bytes */
    cl_uint units, width;   /* compute units; floats of a native vector */
    cl_uint lanes;          /* warp or wavefront; 0: not told */
    int capability;         /* NVIDIA's: 80 for 8.0 */
    const char *board;      /* AMD's name for what the title calls by its architecture */
    size_t sub_groups[4];   /* sizes, as Intel tells them */
    enum zoo_refusal refusal;
};

/* One of the table, changed as the text says. Ends the process if the text is wrong. */
void zoo_device_read(const char *text, struct zoo_device *device);

/* What stands beneath the layer. */
extern const cl_icd_dispatch *zoo_next;

/* 1 if MHA_ZOO is set and not empty. */
int zoo_is_on(void);

/* The limits of a device; of the first one of MHA_ZOO for a device that was not listed. */
const struct zoo_device *zoo_of(cl_device_id id);

/* Those of a context's or a program's first device. */
const struct zoo_device *zoo_of_context(cl_context context);
const struct zoo_device *zoo_of_program(cl_program program);

/* The most work-items that a group of the kernel may have, and the local memory that it takes. */
size_t zoo_kernel_group(const struct zoo_device *zoo, cl_kernel kernel, cl_device_id id);
cl_ulong zoo_kernel_local(const struct zoo_device *zoo, cl_kernel kernel, cl_device_id id);

/* Gives a value the way clGet*Info does. */
cl_int zoo_answer(const void *value, size_t size, size_t room, void *out, size_t *size_out);

/* Puts the functions of one file into the table. */
void zoo_add_answers(cl_icd_dispatch *table);
void zoo_add_limits(cl_icd_dispatch *table);

#endif
