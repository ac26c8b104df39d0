/*
 * An OpenCL driver that has no device: it says of itself what a described device would say, takes
 * every program and every launch, and computes nothing. A program that links it beside the static
 * library sees what the library would build and launch on that device.
 *
 * Its functions stand before those of the OpenCL loader. It is for one thread.
 */
#ifndef MHA_OFFLINE_DRIVER_H
#define MHA_OFFLINE_DRIVER_H

#include <CL/cl.h>

struct driver_device {
    const char *label; /* for the person who reads the list */
    const char *name, *vendor, *version, *extensions;
    cl_uint vendor_id;
    cl_device_type type;
    cl_uint compute_units, vector_width, lanes; /* lanes run in step */
    cl_uint sub_groups[4];                      /* sizes that a kernel may ask for, Intel's */
    size_t work_group_max;
    cl_ulong local_bytes, global_bytes;
    cl_device_local_mem_type local_type;
    cl_bool shares_memory; /* with the host */
    cl_bool has_fma;
};

/* One launch, as clEnqueueNDRangeKernel got it. The strings live as long as the program. */
struct driver_launch {
    const char *kernel;
    const char *source, *options; /* what the program was built from */
    size_t global, local;
    size_t local_argument_bytes; /* of local memory that arguments ask for */
};

/* The device that is there from now on; borrowed. */
void driver_use(const struct driver_device *device);

/* Who is told of what happens. */
struct driver_listener {
    void (*built)(const char *source, const char *options, void *user);
    void (*launched)(const struct driver_launch *launch, void *user);
    void *user;
};
void driver_tell(const struct driver_listener *listener);

#endif
