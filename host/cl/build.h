/* One program for one device, from source text or from a binary, and its binary. */
#ifndef MHA_CL_BUILD_H
#define MHA_CL_BUILD_H

#include "core/error.h"

/* Where a program is built, and what it is called in messages. */
struct mha_build {
    cl_context cl;
    cl_device_id device;
    const char *file;    /* of the kernel source */
    const char *options; /* complete, as the compiler gets them */
};

gpu_mha_status mha_build_source(const struct mha_build *build, const char *source, size_t length,
                                cl_program *program);

/*
 * NULL if the driver does not take the binary. Neither that nor a failure of mha_build_binary is an
 * error: there is the source.
 */
cl_program mha_build_from_binary(const struct mha_build *build, const unsigned char *binary,
                                 size_t size);

/* 1, and the binary of a built program in *binary (to be freed). */
int mha_build_binary(cl_program program, unsigned char **binary, size_t *size);

#endif
