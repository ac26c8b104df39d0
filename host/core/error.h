/*
 * The calling thread's last error, and the one way to fail: MHA_RETURN_* make a sentence (field,
 * value, rule), keep it for gpu_mha_last_error() and give the status back.
 */
#ifndef MHA_CORE_ERROR_H
#define MHA_CORE_ERROR_H

#include <gpu_mha/gpu_mha.h>

#if defined(__GNUC__)
#define MHA_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define MHA_PRINTF(fmt, args)
#endif

/* Records a failure without OpenCL behind it. Returns `status`. */
gpu_mha_status mha_error_set(gpu_mha_status status, const char *format, ...) MHA_PRINTF(2, 3);

/*
 * Records a failed OpenCL call. `call` is a string literal. The status follows from the code:
 * out-of-memory codes give HOST_MEMORY or DEVICE_MEMORY, everything else OPENCL. The message is
 * "CALL failed: CL_NAME (code): what".
 */
gpu_mha_status mha_error_cl(cl_int code, const char *call, const char *format, ...)
    MHA_PRINTF(3, 4);

/*
 * The same where the failed call is only the reason why something else was not found: a status of
 * the caller's, HOST_MEMORY for want of that all the same, and the sentence "what; CALL failed:
 * CL_NAME (code)".
 */
gpu_mha_status mha_error_behind(gpu_mha_status status, cl_int code, const char *call,
                                const char *format, ...) MHA_PRINTF(4, 5);

/* Records a failed build with the compiler's log (copied). Returns GPU_MHA_BUILD. */
gpu_mha_status mha_error_build(cl_int code, const char *source, const char *log);

/* Records a failed CLBlast call. */
gpu_mha_status mha_error_blas(int code, const char *call);

/*
 * Between the two, what this thread fails in is an attempt: gpu_mha_last_error() stays as it is.
 * The end gives the sentence of the latest failure, valid until the next attempt. An attempt may
 * hold others.
 */
void mha_error_attempt(void);
const char *mha_error_attempt_end(void);

/* Within an attempt: the OpenCL code of the latest failure, or 0. */
cl_int mha_error_attempt_code(void);

/* Ends an attempt whose failure is to be the caller's after all, with its build log. */
gpu_mha_status mha_error_attempt_failed(void);

/* The name of an OpenCL code, e.g. "CL_INVALID_VALUE"; "unknown OpenCL code" otherwise. */
const char *mha_error_cl_name(cl_int code);

/* For functions in which nothing needs releasing. */
#define MHA_RETURN_IF(condition, status, ...)                                                      \
    do {                                                                                           \
        if (condition)                                                                             \
            return mha_error_set(status, __VA_ARGS__);                                             \
    } while (0)

#define MHA_INVALID_IF(condition, ...) MHA_RETURN_IF(condition, GPU_MHA_INVALID, __VA_ARGS__)

#define MHA_TRY(expression)                                                                        \
    do {                                                                                           \
        gpu_mha_status status_of_try = (expression);                                               \
        if (status_of_try != GPU_MHA_OK)                                                           \
            return status_of_try;                                                                  \
    } while (0)

#define MHA_TRY_CL(expression, call, ...)                                                          \
    do {                                                                                           \
        cl_int code_of_try = (expression);                                                         \
        if (code_of_try != CL_SUCCESS)                                                             \
            return mha_error_cl(code_of_try, call, __VA_ARGS__);                                   \
    } while (0)

#endif
