/* Calls on the driver's compiler. */
#include "cl/build.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/log.h"

static double milliseconds_now(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* The compiler's log, to be freed; NULL if there is none to be had. */
static char *read_build_log(cl_program program, cl_device_id device)
{
    size_t size = 0;
    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) !=
            CL_SUCCESS ||
        size == 0 || size == SIZE_MAX) {
        return NULL;
    }
    char *log = calloc(size + 1, 1);
    if (log && clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log, NULL) !=
                   CL_SUCCESS) {
        free(log);
        return NULL;
    }
    return log;
}

/* Running out of memory is told apart from what is wrong with the source or the compiler. */
static gpu_mha_status build_failure(cl_int code, const char *file, const char *log)
{
    switch (code) {
    case CL_OUT_OF_HOST_MEMORY:
    case CL_OUT_OF_RESOURCES:
        return mha_error_cl(code, "clBuildProgram", "kernel source %s", file);
    default:
        return mha_error_build(code, file, log ? log : "");
    }
}

/* What a compiler says of a program that it built, line by line. */
static void tell_compiler_log(const char *file, const char *log)
{
    while (*log) {
        const size_t length = strcspn(log, "\r\n");
        if (strspn(log, " \t") < length) {
            mha_log(MHA_LOG_DEBUG, "compiler on %s: %.*s", file, (int)length, log);
        }
        log += length;
        log += strspn(log, "\r\n");
    }
}

gpu_mha_status mha_build_source(const struct mha_build *build, const char *source, size_t length,
                                cl_program *program)
{
    double start = milliseconds_now();
    gpu_mha_status status = GPU_MHA_OK;
    char *log = NULL;
    cl_int code = CL_SUCCESS;
    *program = NULL;
    cl_program made = clCreateProgramWithSource(build->cl, 1, &source, &length, &code);
    if (code != CL_SUCCESS) {
        status = mha_error_cl(code, "clCreateProgramWithSource", "kernel source %s", build->file);
        made = NULL;
        goto cleanup;
    }
    code = clBuildProgram(made, 1, &build->device, build->options, NULL, NULL);
    if (code != CL_SUCCESS || mha_log_shows(MHA_LOG_DEBUG)) {
        log = read_build_log(made, build->device);
    }
    if (code != CL_SUCCESS) {
        status = build_failure(code, build->file, log);
        goto cleanup;
    }
    mha_log(MHA_LOG_DEBUG, "built %s: %.1f ms, %s", build->file, milliseconds_now() - start,
            build->options);
    if (log) {
        tell_compiler_log(build->file, log);
    }
    *program = made;
    made = NULL;

cleanup:
    if (made) {
        clReleaseProgram(made);
    }
    free(log);
    return status;
}

cl_program mha_build_from_binary(const struct mha_build *build, const unsigned char *binary,
                                 size_t size)
{
    double start = milliseconds_now();
    const char *call = "clCreateProgramWithBinary";
    cl_int code = CL_SUCCESS, binary_code = CL_SUCCESS;
    cl_program made = clCreateProgramWithBinary(build->cl, 1, &build->device, &size, &binary,
                                                &binary_code, &code);
    if (code == CL_SUCCESS && binary_code != CL_SUCCESS) {
        code = binary_code;
    }
    if (code == CL_SUCCESS) {
        call = "clBuildProgram";
        code = clBuildProgram(made, 1, &build->device, build->options, NULL, NULL);
    }
    if (code != CL_SUCCESS) {
        mha_log(MHA_LOG_DEBUG, "load %s: %s gives %s; building from source", build->file, call,
                mha_error_cl_name(code));
        if (made) {
            clReleaseProgram(made);
        }
        return NULL;
    }
    mha_log(MHA_LOG_DEBUG, "loaded %s: %.1f ms, %s", build->file, milliseconds_now() - start,
            build->options);
    return made;
}

int mha_build_binary(cl_program program, unsigned char **binary, size_t *size)
{
    /* In a context of several devices, drivers differ in what they give for those not built for. */
    cl_uint devices = 0;
    size_t bytes = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof devices, &devices, NULL) !=
            CL_SUCCESS ||
        devices != 1 ||
        clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) !=
            CL_SUCCESS ||
        bytes == 0) {
        return 0;
    }
    unsigned char *made = malloc(bytes);
    if (made &&
        clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof made, &made, NULL) != CL_SUCCESS) {
        free(made);
        return 0;
    }
    *binary = made;
    *size = bytes;
    return made != NULL;
}
