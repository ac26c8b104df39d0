/*
 * The one list of status codes. X(name, value, text) makes the enum here and the texts in the
 * library, so that they cannot drift apart. Values are part of the ABI and never change.
 *
 * Three kinds of answer: the call was wrong (INVALID), this device or build can't do it
 * (UNSUPPORTED, NO_DEVICE, FORKED), or it should have worked and did not (the rest).
 */
#ifndef GPU_MHA_STATUS_H
#define GPU_MHA_STATUS_H

#define GPU_MHA_STATUS_LIST(X)                                                                     \
    X(OK, 0, "success")                                                                            \
    X(INVALID, 1, "invalid argument")                                                              \
    X(UNSUPPORTED, 2, "not supported on this device")                                              \
    X(NO_DEVICE, 3, "no usable OpenCL device")                                                     \
    X(HOST_MEMORY, 4, "out of host memory")                                                        \
    X(DEVICE_MEMORY, 5, "out of device memory")                                                    \
    X(BUILD, 6, "an OpenCL program did not build")                                                 \
    X(OPENCL, 7, "an OpenCL call failed")                                                          \
    X(BLAS, 8, "a CLBlast call failed")                                                            \
    X(FORKED, 9, "OpenCL was used before fork() and does not survive it")

typedef enum gpu_mha_status {
#define GPU_MHA_STATUS_ENUM(name, value, text) GPU_MHA_##name = value,
    GPU_MHA_STATUS_LIST(GPU_MHA_STATUS_ENUM)
#undef GPU_MHA_STATUS_ENUM
} gpu_mha_status;

#endif
