/*
 * calls.h - the entry points of OpenCL that the layer counts and can fail: those that the library,
 * its command and CLBlast use. X(name, code...) with each code that the standard (OpenCL 1.2) lets
 * the call give; CLBlast's own calls are in the list as well.
 */
#ifndef MHA_TESTS_FAULT_CALLS_H
#define MHA_TESTS_FAULT_CALLS_H

#define FAULT_MEMORY CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY
#define FAULT_ENQUEUE                                                                              \
    CL_INVALID_COMMAND_QUEUE, CL_INVALID_CONTEXT, CL_INVALID_EVENT_WAIT_LIST,                      \
        CL_MEM_OBJECT_ALLOCATION_FAILURE, FAULT_MEMORY

/* clang-format off */
#define FAULT_CALLS(X)                                                                             \
    X(clGetPlatformIDs, CL_INVALID_VALUE, CL_OUT_OF_HOST_MEMORY)                                   \
    X(clGetPlatformInfo, CL_INVALID_PLATFORM, CL_INVALID_VALUE, CL_OUT_OF_HOST_MEMORY)             \
    X(clGetDeviceIDs, CL_INVALID_PLATFORM, CL_INVALID_DEVICE_TYPE, CL_INVALID_VALUE, FAULT_MEMORY) \
    X(clGetDeviceInfo, CL_INVALID_DEVICE, CL_INVALID_VALUE, FAULT_MEMORY)                          \
    X(clRetainDevice, CL_INVALID_DEVICE, FAULT_MEMORY)                                             \
    X(clReleaseDevice, CL_INVALID_DEVICE, FAULT_MEMORY)                                            \
    X(clCreateContext, CL_INVALID_PLATFORM, CL_INVALID_PROPERTY, CL_INVALID_VALUE,                 \
      CL_INVALID_DEVICE, CL_DEVICE_NOT_AVAILABLE, FAULT_MEMORY)                                    \
    X(clRetainContext, CL_INVALID_CONTEXT, FAULT_MEMORY)                                           \
    X(clReleaseContext, CL_INVALID_CONTEXT, FAULT_MEMORY)                                          \
    X(clGetContextInfo, CL_INVALID_CONTEXT, CL_INVALID_VALUE, FAULT_MEMORY)                        \
    X(clCreateCommandQueue, CL_INVALID_CONTEXT, CL_INVALID_DEVICE, CL_INVALID_VALUE,               \
      CL_INVALID_QUEUE_PROPERTIES, FAULT_MEMORY)                                                   \
    X(clRetainCommandQueue, CL_INVALID_COMMAND_QUEUE, FAULT_MEMORY)                                \
    X(clReleaseCommandQueue, CL_INVALID_COMMAND_QUEUE, FAULT_MEMORY)                               \
    X(clGetCommandQueueInfo, CL_INVALID_COMMAND_QUEUE, CL_INVALID_VALUE, FAULT_MEMORY)             \
    X(clCreateBuffer, CL_INVALID_CONTEXT, CL_INVALID_VALUE, CL_INVALID_BUFFER_SIZE,                \
      CL_INVALID_HOST_PTR, CL_MEM_OBJECT_ALLOCATION_FAILURE, FAULT_MEMORY)                         \
    X(clCreateSubBuffer, CL_INVALID_MEM_OBJECT, CL_INVALID_VALUE, CL_INVALID_BUFFER_SIZE,          \
      CL_MISALIGNED_SUB_BUFFER_OFFSET, CL_MEM_OBJECT_ALLOCATION_FAILURE, FAULT_MEMORY)             \
    X(clRetainMemObject, CL_INVALID_MEM_OBJECT, FAULT_MEMORY)                                      \
    X(clReleaseMemObject, CL_INVALID_MEM_OBJECT, FAULT_MEMORY)                                     \
    X(clGetMemObjectInfo, CL_INVALID_MEM_OBJECT, CL_INVALID_VALUE, FAULT_MEMORY)                   \
    X(clCreateProgramWithSource, CL_INVALID_CONTEXT, CL_INVALID_VALUE, FAULT_MEMORY)               \
    X(clCreateProgramWithBinary, CL_INVALID_CONTEXT, CL_INVALID_VALUE, CL_INVALID_DEVICE,          \
      CL_INVALID_BINARY, FAULT_MEMORY)                                                             \
    X(clRetainProgram, CL_INVALID_PROGRAM, FAULT_MEMORY)                                           \
    X(clReleaseProgram, CL_INVALID_PROGRAM, FAULT_MEMORY)                                          \
    X(clBuildProgram, CL_BUILD_PROGRAM_FAILURE, CL_INVALID_PROGRAM, CL_INVALID_VALUE,              \
      CL_INVALID_DEVICE, CL_INVALID_BINARY, CL_INVALID_BUILD_OPTIONS, CL_INVALID_OPERATION,        \
      CL_COMPILER_NOT_AVAILABLE, FAULT_MEMORY)                                                     \
    X(clGetProgramInfo, CL_INVALID_PROGRAM, CL_INVALID_VALUE, CL_INVALID_PROGRAM_EXECUTABLE,       \
      FAULT_MEMORY)                                                                                \
    X(clGetProgramBuildInfo, CL_INVALID_PROGRAM, CL_INVALID_VALUE, CL_INVALID_DEVICE,              \
      FAULT_MEMORY)                                                                                \
    X(clCreateKernel, CL_INVALID_PROGRAM, CL_INVALID_PROGRAM_EXECUTABLE, CL_INVALID_KERNEL_NAME,   \
      CL_INVALID_KERNEL_DEFINITION, CL_INVALID_VALUE, FAULT_MEMORY)                                \
    X(clRetainKernel, CL_INVALID_KERNEL, FAULT_MEMORY)                                             \
    X(clReleaseKernel, CL_INVALID_KERNEL, FAULT_MEMORY)                                            \
    X(clSetKernelArg, CL_INVALID_KERNEL, CL_INVALID_ARG_INDEX, CL_INVALID_ARG_VALUE,               \
      CL_INVALID_MEM_OBJECT, CL_INVALID_ARG_SIZE, FAULT_MEMORY)                                    \
    X(clGetKernelWorkGroupInfo, CL_INVALID_KERNEL, CL_INVALID_VALUE, CL_INVALID_DEVICE,            \
      FAULT_MEMORY)                                                                                \
    X(clWaitForEvents, CL_INVALID_VALUE, CL_INVALID_CONTEXT, CL_INVALID_EVENT,                     \
      CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, FAULT_MEMORY)                                  \
    X(clGetEventInfo, CL_INVALID_EVENT, CL_INVALID_VALUE, FAULT_MEMORY)                            \
    X(clGetEventProfilingInfo, CL_PROFILING_INFO_NOT_AVAILABLE, CL_INVALID_EVENT,                  \
      CL_INVALID_VALUE, FAULT_MEMORY)                                                              \
    X(clRetainEvent, CL_INVALID_EVENT, FAULT_MEMORY)                                               \
    X(clReleaseEvent, CL_INVALID_EVENT, FAULT_MEMORY)                                              \
    X(clFlush, CL_INVALID_COMMAND_QUEUE, FAULT_MEMORY)                                             \
    X(clFinish, CL_INVALID_COMMAND_QUEUE, FAULT_MEMORY)                                            \
    X(clEnqueueReadBuffer, CL_INVALID_MEM_OBJECT, CL_INVALID_VALUE,                                \
      CL_MISALIGNED_SUB_BUFFER_OFFSET, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,               \
      FAULT_ENQUEUE)                                                                               \
    X(clEnqueueWriteBuffer, CL_INVALID_MEM_OBJECT, CL_INVALID_VALUE,                               \
      CL_MISALIGNED_SUB_BUFFER_OFFSET, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,               \
      FAULT_ENQUEUE)                                                                               \
    X(clEnqueueFillBuffer, CL_INVALID_MEM_OBJECT, CL_INVALID_VALUE,                                \
      CL_MISALIGNED_SUB_BUFFER_OFFSET, FAULT_ENQUEUE)                                              \
    X(clEnqueueCopyBuffer, CL_INVALID_MEM_OBJECT, CL_INVALID_VALUE, CL_MEM_COPY_OVERLAP,           \
      CL_MISALIGNED_SUB_BUFFER_OFFSET, FAULT_ENQUEUE)                                              \
    X(clEnqueueNDRangeKernel, CL_INVALID_PROGRAM_EXECUTABLE, CL_INVALID_KERNEL,                    \
      CL_INVALID_KERNEL_ARGS, CL_INVALID_WORK_DIMENSION, CL_INVALID_GLOBAL_WORK_SIZE,              \
      CL_INVALID_GLOBAL_OFFSET, CL_INVALID_WORK_GROUP_SIZE, CL_INVALID_WORK_ITEM_SIZE,             \
      CL_MISALIGNED_SUB_BUFFER_OFFSET, FAULT_ENQUEUE)                                              \
    X(clEnqueueMarkerWithWaitList, FAULT_ENQUEUE)                                                  \
    X(clEnqueueBarrierWithWaitList, FAULT_ENQUEUE)
/* clang-format on */

enum fault_call {
#define FAULT_CALL_ENUM(name, ...) FAULT_##name,
    FAULT_CALLS(FAULT_CALL_ENUM)
#undef FAULT_CALL_ENUM
        FAULT_CALL_COUNT
};

#endif
