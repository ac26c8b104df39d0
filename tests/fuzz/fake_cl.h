/*
 * OpenCL and the part of CLBlast that the library calls, without a device: linked in front of the
 * real ones, it answers queries from a table, pretends to build and to run, and ends the process
 * when it is called in a way that a driver need not bear. Buffers have a size and no memory; what
 * is read from one is zeros.
 */
#ifndef MHA_TEST_FUZZ_FAKE_CL_H
#define MHA_TEST_FUZZ_FAKE_CL_H

#include "fuzz/fuzz.h"

/* What a device says of itself. */
struct fake_facts {
    const char *name, *vendor, *version, *driver, *profile, *extensions;
    cl_device_type type;
    cl_uint compute_units, vector_width, dimensions, address_bits, align_bits, lanes;
    cl_ulong global_bytes, max_alloc_bytes, local_bytes;
    size_t group, items_0, parameter_bytes;
    size_t kernel_group;   /* of every kernel, whatever the device says */
    cl_ulong kernel_local; /* what every kernel takes of the local memory */
    cl_device_fp_config single;
    cl_device_local_mem_type local_type;
    cl_bool available, compiler, little_endian;
    cl_device_info broken_query; /* fails; 0: none */
    cl_uint broken_builds;       /* bit n: build n, counted modulo 32, fails */
};

/* A CPU like those that the tests know. */
extern const struct fake_facts fake_cpu;

enum { FAKE_DEVICES_MAX = 4 };

/* `count` devices, of which the first `on_first` are of platform 0 and the others of platform 1. */
void fake_devices(const struct fake_facts *facts, size_t count, size_t on_first);

/* The facts, with those that an input changes: few bytes, each a choice among odd values. */
struct fake_facts fake_facts_read(struct fuzz_bytes *bytes);

cl_device_id fake_device_id(void); /* of device 0 */
cl_context fake_context(void);     /* to be released with clReleaseContext */
cl_command_queue fake_queue(cl_context cl);
cl_mem fake_buffer(cl_context cl, size_t bytes);

/* OpenCL objects that are alive. */
long fake_live(void);

/* Calls since fake_devices() that gave an error, so that the library may fail. */
long fake_refusals(void);

#endif
