/*
 * layer.c - the entry points. Each counts itself, fails where the plan says so, and otherwise hands
 * on to the driver and keeps the account.
 *
 * A failing call gives no object and leaves what it was given untouched. A failing release releases
 * all the same: what the driver then holds is the driver's business.
 *
 * A command that fails late is not run; its event is a user event with the negative status. What
 * waits for such an event fails in the same way, as the standard has it: blocking calls give
 * CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, and so do the events of other commands. So no
 * driver's own ways with failed events take part.
 */
#include <CL/cl_layer.h>
#include <string.h>

#include "objects.h"
#include "plan.h"

static struct _cl_icd_dispatch next, table;
static int is_in;

int fault_layer_is_in(void)
{
    return is_in;
}

/* ---- queries and other calls that make no object ---- */

#define NO_OBJECT(name, parameters, arguments)                                                     \
    static CL_API_ENTRY cl_int CL_API_CALL our_##name parameters                                   \
    {                                                                                              \
        const cl_int code = plan_next(FAULT_##name);                                               \
        return code != CL_SUCCESS ? code : next.name arguments;                                    \
    }

/* The same about one object, which must be alive. */
#define ABOUT(name, kind, parameters, arguments, object)                                           \
    static CL_API_ENTRY cl_int CL_API_CALL our_##name parameters                                   \
    {                                                                                              \
        objects_use(kind, object, #name);                                                          \
        const cl_int code = plan_next(FAULT_##name);                                               \
        return code != CL_SUCCESS ? code : next.name arguments;                                    \
    }

NO_OBJECT(clGetPlatformIDs, (cl_uint room, cl_platform_id *ids, cl_uint *count), (room, ids, count))
NO_OBJECT(clGetPlatformInfo,
          (cl_platform_id id, cl_platform_info query, size_t room, void *value, size_t *size),
          (id, query, room, value, size))
NO_OBJECT(clGetDeviceIDs,
          (cl_platform_id id, cl_device_type type, cl_uint room, cl_device_id *ids, cl_uint *count),
          (id, type, room, ids, count))
NO_OBJECT(clGetDeviceInfo,
          (cl_device_id id, cl_device_info query, size_t room, void *value, size_t *size),
          (id, query, room, value, size))
ABOUT(clGetContextInfo, FAULT_CONTEXTS,
      (cl_context cl, cl_context_info query, size_t room, void *value, size_t *size),
      (cl, query, room, value, size), cl)
ABOUT(clGetCommandQueueInfo, FAULT_QUEUES,
      (cl_command_queue queue, cl_command_queue_info query, size_t room, void *value, size_t *size),
      (queue, query, room, value, size), queue)
ABOUT(clGetMemObjectInfo, FAULT_BUFFERS,
      (cl_mem mem, cl_mem_info query, size_t room, void *value, size_t *size),
      (mem, query, room, value, size), mem)
ABOUT(clGetProgramInfo, FAULT_PROGRAMS,
      (cl_program program, cl_program_info query, size_t room, void *value, size_t *size),
      (program, query, room, value, size), program)
ABOUT(clGetKernelWorkGroupInfo, FAULT_KERNELS,
      (cl_kernel kernel, cl_device_id id, cl_kernel_work_group_info query, size_t room, void *value,
       size_t *size),
      (kernel, id, query, room, value, size), kernel)
ABOUT(clSetKernelArg, FAULT_KERNELS,
      (cl_kernel kernel, cl_uint index, size_t size, const void *value),
      (kernel, index, size, value), kernel)
ABOUT(clGetEventInfo, FAULT_EVENTS,
      (cl_event event, cl_event_info query, size_t room, void *value, size_t *size),
      (event, query, room, value, size), event)
ABOUT(clGetEventProfilingInfo, FAULT_EVENTS,
      (cl_event event, cl_profiling_info query, size_t room, void *value, size_t *size),
      (event, query, room, value, size), event)
ABOUT(clFlush, FAULT_QUEUES, (cl_command_queue queue), (queue), queue)
ABOUT(clFinish, FAULT_QUEUES, (cl_command_queue queue), (queue), queue)

static CL_API_ENTRY cl_int CL_API_CALL
our_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                   const char *options, void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    objects_use(FAULT_PROGRAMS, program, "clBuildProgram");
    const cl_int code = plan_next(FAULT_clBuildProgram);
    objects_mark(FAULT_PROGRAMS, program, code == CL_BUILD_PROGRAM_FAILURE);
    return code != CL_SUCCESS ? code
                              : next.clBuildProgram(program, count, devices, options, notify, user);
}

static CL_API_ENTRY cl_int CL_API_CALL our_clGetProgramBuildInfo(cl_program program,
                                                                 cl_device_id id,
                                                                 cl_program_build_info query,
                                                                 size_t room, void *value,
                                                                 size_t *size)
{
    static const char log[] = FAULT_BUILD_LOG;
    objects_use(FAULT_PROGRAMS, program, "clGetProgramBuildInfo");
    const cl_int code = plan_next(FAULT_clGetProgramBuildInfo);
    if (code != CL_SUCCESS) {
        return code;
    }
    if (query != CL_PROGRAM_BUILD_LOG || !objects_marked(FAULT_PROGRAMS, program)) {
        return next.clGetProgramBuildInfo(program, id, query, room, value, size);
    }
    if (value && room < sizeof log) {
        return CL_INVALID_VALUE;
    }
    if (value) {
        memcpy(value, log, sizeof log);
    }
    if (size) {
        *size = sizeof log;
    }
    return CL_SUCCESS;
}

/* ---- objects come and go ---- */

#define CREATE(name, type, kind, parameters, arguments)                                            \
    static CL_API_ENTRY type CL_API_CALL our_##name parameters                                     \
    {                                                                                              \
        const cl_int code = plan_next(FAULT_##name);                                               \
        if (code != CL_SUCCESS) {                                                                  \
            if (code_ret) {                                                                        \
                *code_ret = code;                                                                  \
            }                                                                                      \
            return NULL;                                                                           \
        }                                                                                          \
        type made = next.name arguments;                                                           \
        if (made) {                                                                                \
            objects_add(kind, made);                                                               \
        }                                                                                          \
        return made;                                                                               \
    }

CREATE(clCreateContext, cl_context, FAULT_CONTEXTS,
       (const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
        void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user,
        cl_int *code_ret),
       (properties, count, devices, notify, user, code_ret))
CREATE(clCreateCommandQueue, cl_command_queue, FAULT_QUEUES,
       (cl_context cl, cl_device_id id, cl_command_queue_properties properties, cl_int *code_ret),
       (cl, id, properties, code_ret))
CREATE(clCreateBuffer, cl_mem, FAULT_BUFFERS,
       (cl_context cl, cl_mem_flags flags, size_t size, void *host, cl_int *code_ret),
       (cl, flags, size, host, code_ret))
CREATE(clCreateSubBuffer, cl_mem, FAULT_BUFFERS,
       (cl_mem mem, cl_mem_flags flags, cl_buffer_create_type type, const void *info,
        cl_int *code_ret),
       (mem, flags, type, info, code_ret))
CREATE(clCreateProgramWithSource, cl_program, FAULT_PROGRAMS,
       (cl_context cl, cl_uint count, const char **texts, const size_t *lengths, cl_int *code_ret),
       (cl, count, texts, lengths, code_ret))
CREATE(clCreateProgramWithBinary, cl_program, FAULT_PROGRAMS,
       (cl_context cl, cl_uint count, const cl_device_id *devices, const size_t *lengths,
        const unsigned char **binaries, cl_int *binary_codes, cl_int *code_ret),
       (cl, count, devices, lengths, binaries, binary_codes, code_ret))
CREATE(clCreateKernel, cl_kernel, FAULT_KERNELS,
       (cl_program program, const char *name, cl_int *code_ret), (program, name, code_ret))

/* Used by tests alone; not counted. */
static CL_API_ENTRY cl_event CL_API_CALL our_clCreateUserEvent(cl_context cl, cl_int *code_ret)
{
    cl_event made = next.clCreateUserEvent(cl, code_ret);
    if (made) {
        objects_add(FAULT_EVENTS, made);
    }
    return made;
}

static CL_API_ENTRY cl_int CL_API_CALL our_clSetUserEventStatus(cl_event event, cl_int status)
{
    objects_use(FAULT_EVENTS, event, "clSetUserEventStatus");
    const cl_int code = next.clSetUserEventStatus(event, status);
    if (code == CL_SUCCESS && status < 0) {
        objects_mark(FAULT_EVENTS, event, status);
    }
    return code;
}

#define RETAIN(name, kind, type)                                                                   \
    static CL_API_ENTRY cl_int CL_API_CALL our_clRetain##name(type object)                         \
    {                                                                                              \
        cl_int code = plan_next(FAULT_clRetain##name);                                             \
        code = code != CL_SUCCESS ? code : next.clRetain##name(object);                            \
        if (code == CL_SUCCESS) {                                                                  \
            objects_retain(kind, object, "clRetain" #name);                                        \
        }                                                                                          \
        return code;                                                                               \
    }

#define RELEASE(name, kind, type)                                                                  \
    static CL_API_ENTRY cl_int CL_API_CALL our_clRelease##name(type object)                        \
    {                                                                                              \
        const cl_int code = plan_next(FAULT_clRelease##name);                                      \
        if (!objects_release(kind, object, "clRelease" #name)) {                                   \
            return CL_INVALID_VALUE;                                                               \
        }                                                                                          \
        const cl_int done = next.clRelease##name(object);                                          \
        return code != CL_SUCCESS ? code : done;                                                   \
    }

#define COUNTED(name, kind, type) RETAIN(name, kind, type) RELEASE(name, kind, type)

COUNTED(Device, FAULT_DEVICES, cl_device_id)
COUNTED(Context, FAULT_CONTEXTS, cl_context)
COUNTED(CommandQueue, FAULT_QUEUES, cl_command_queue)
COUNTED(MemObject, FAULT_BUFFERS, cl_mem)
COUNTED(Program, FAULT_PROGRAMS, cl_program)
COUNTED(Kernel, FAULT_KERNELS, cl_kernel)
COUNTED(Event, FAULT_EVENTS, cl_event)

/* ---- commands ---- */

static int any_failed(cl_uint count, const cl_event *events, const char *call)
{
    int found = 0;
    for (cl_uint e = 0; events && e < count; e++) {
        objects_use(FAULT_EVENTS, events[e], call);
        found |= objects_marked(FAULT_EVENTS, events[e]) != 0;
    }
    return found;
}

/* In the place of a command: an event that ended with the code, if one is wanted. */
static cl_int failed_event(cl_command_queue queue, cl_int status, cl_event *event)
{
    if (!event) {
        return CL_SUCCESS;
    }
    cl_context cl = NULL;
    cl_int code = next.clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof cl, &cl, NULL);
    if (code != CL_SUCCESS) {
        return code;
    }
    cl_event made = next.clCreateUserEvent(cl, &code);
    if (!made) {
        return code;
    }
    objects_add(FAULT_EVENTS, made);
    objects_mark(FAULT_EVENTS, made, status);
    next.clSetUserEventStatus(made, status);
    *event = made;
    return CL_SUCCESS;
}

/* 1 if the command does not reach the driver; *code is then its answer. */
static int intercept(enum fault_call call, cl_command_queue queue, int blocking, cl_uint wait_count,
                     const cl_event *wait, cl_event *event, cl_int *code)
{
    const char *name = fault_call_name(call);
    cl_int late;
    objects_use(FAULT_QUEUES, queue, name);
    const int poisoned = any_failed(wait_count, wait, name);
    *code = plan_next_command(call, &late);
    if (*code == CL_SUCCESS && poisoned && late == CL_SUCCESS) {
        late = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    }
    if (*code == CL_SUCCESS && late != CL_SUCCESS) {
        *code = blocking ? late : failed_event(queue, late, event);
        return 1;
    }
    return *code != CL_SUCCESS;
}

static cl_int keep(cl_int code, cl_event *event)
{
    if (code == CL_SUCCESS && event) {
        objects_add(FAULT_EVENTS, *event);
    }
    return code;
}

/* `event` is the last parameter, the wait list stands before it. */
#define COMMAND(name, blocking, parameters, arguments)                                             \
    static CL_API_ENTRY cl_int CL_API_CALL our_##name parameters                                   \
    {                                                                                              \
        cl_int code;                                                                               \
        if (intercept(FAULT_##name, queue, (int)(blocking), waits, wait, event, &code)) {          \
            return code;                                                                           \
        }                                                                                          \
        return keep(next.name arguments, event);                                                   \
    }

COMMAND(clEnqueueReadBuffer, blocks,
        (cl_command_queue queue, cl_mem mem, cl_bool blocks, size_t offset, size_t size, void *host,
         cl_uint waits, const cl_event *wait, cl_event *event),
        (queue, mem, blocks, offset, size, host, waits, wait, event))
COMMAND(clEnqueueWriteBuffer, blocks,
        (cl_command_queue queue, cl_mem mem, cl_bool blocks, size_t offset, size_t size,
         const void *host, cl_uint waits, const cl_event *wait, cl_event *event),
        (queue, mem, blocks, offset, size, host, waits, wait, event))
COMMAND(clEnqueueFillBuffer, 0,
        (cl_command_queue queue, cl_mem mem, const void *pattern, size_t pattern_size,
         size_t offset, size_t size, cl_uint waits, const cl_event *wait, cl_event *event),
        (queue, mem, pattern, pattern_size, offset, size, waits, wait, event))
COMMAND(clEnqueueCopyBuffer, 0,
        (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset,
         size_t size, cl_uint waits, const cl_event *wait, cl_event *event),
        (queue, from, to, from_offset, to_offset, size, waits, wait, event))
COMMAND(clEnqueueNDRangeKernel, 0,
        (cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *first,
         const size_t *global, const size_t *local, cl_uint waits, const cl_event *wait,
         cl_event *event),
        (queue, kernel, dimensions, first, global, local, waits, wait, event))
COMMAND(clEnqueueMarkerWithWaitList, 0,
        (cl_command_queue queue, cl_uint waits, const cl_event *wait, cl_event *event),
        (queue, waits, wait, event))
COMMAND(clEnqueueBarrierWithWaitList, 0,
        (cl_command_queue queue, cl_uint waits, const cl_event *wait, cl_event *event),
        (queue, waits, wait, event))

static CL_API_ENTRY cl_int CL_API_CALL our_clWaitForEvents(cl_uint count, const cl_event *events)
{
    const int poisoned = any_failed(count, events, "clWaitForEvents");
    const cl_int code = plan_next(FAULT_clWaitForEvents);
    if (code != CL_SUCCESS) {
        return code;
    }
    if (!poisoned) {
        return next.clWaitForEvents(count, events);
    }
    for (cl_uint e = 0; e < count; e++) {
        if (!objects_marked(FAULT_EVENTS, events[e])) {
            next.clWaitForEvents(1, &events[e]);
        }
    }
    return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
}

/* ---- the loader's side ---- */

FAULT_EXPORT CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info query, size_t room,
                                                            void *value, size_t *size)
{
    static const char name[] = "gpu_mha faults";
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *answer = query == CL_LAYER_API_VERSION ? (const void *)&version : name;
    const size_t bytes = query == CL_LAYER_API_VERSION ? sizeof version : sizeof name;
    if ((query != CL_LAYER_API_VERSION && query != CL_LAYER_NAME) || (value && room < bytes)) {
        return CL_INVALID_VALUE;
    }
    if (value) {
        memcpy(value, answer, bytes);
    }
    if (size) {
        *size = bytes;
    }
    return CL_SUCCESS;
}

FAULT_EXPORT CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count,
                                                         const cl_icd_dispatch *target,
                                                         cl_uint *count_ret,
                                                         const cl_icd_dispatch **ours)
{
    const cl_uint known = sizeof next / sizeof(void *);
    if (!target || !count_ret || !ours || count < known) {
        return CL_INVALID_VALUE;
    }
    memcpy(&next, target, sizeof next);
    memcpy(&table, target, sizeof table);
#define SET(name, ...) table.name = our_##name;
    FAULT_CALLS(SET)
#undef SET
    table.clCreateUserEvent = our_clCreateUserEvent;
    table.clSetUserEventStatus = our_clSetUserEventStatus;
    *count_ret = known;
    *ours = &table;
    is_in = 1;
    plan_from_environment();
    return CL_SUCCESS;
}
