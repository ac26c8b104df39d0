/*
 * sick.c - to be preloaded: a driver with a fault in one kernel.
 *
 * MHA_SICK is "HOW KERNEL", or "HOW" alone for the device. Programs whose source defines KERNEL,
 * built with MHA_SICK_OPTIONS among their options if that is set:
 *
 *   segv abort exit      end the process while they are built
 *   log                  do not build; MHA_SICK_TEXT is the compiler's log
 *   resources            do not build, CL_OUT_OF_RESOURCES
 *   hang                 are built for ever, by a process that is started for it, no signal helps
 *   edit                 MHA_SICK_TEXT is "FROM|TO", made in the source
 *   launch               cannot be launched, CL_INVALID_WORK_GROUP_SIZE
 *   late                 end the process when they are launched
 *   unplug swap          end the process while they are built, and the device is away from then
 *                        on, or another; MHA_SICK_FILE is made to remember
 *
 * Of the device:
 *
 *   flat                 has 1 KiB of local memory
 *   driver               has a driver of another version
 *   never                ends the process that asks for it; as "never pause" it never answers
 *
 * With "hang" MHA_SICK_FILE, if set, is made to hold the numbers of both processes.
 */
#define _GNU_SOURCE /* RTLD_NEXT */

#include <CL/cl.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default"))) CL_API_ENTRY

/* The driver's function of this name. ISO C has no cast from data to code. */
#define DRIVER(function)                                                                           \
    __extension__({                                                                                \
        __typeof__(&function) found_ = NULL;                                                       \
        *(void **)&found_ = driver_function(#function);                                            \
        found_;                                                                                    \
    })

static void *driver_function(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        fprintf(stderr, "sick: there is no %s\n", name);
        abort();
    }
    return found;
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

static int is_how(const char *how)
{
    const char *sick = variable("MHA_SICK");
    const size_t length = strlen(how);
    return strncmp(sick, how, length) == 0 && (sick[length] == '\0' || sick[length] == ' ');
}

/* The kernel's name, or "". */
static const char *sick_kernel(void)
{
    const char *space = strchr(variable("MHA_SICK"), ' ');
    return space != NULL ? space + 1 : "";
}

/* 1 if the source defines the kernel. */
static int is_sick_source(const char *source)
{
    char definition[80];
    snprintf(definition, sizeof definition, "%s(", sick_kernel());
    for (const char *at = source; sick_kernel()[0] != '\0' && (at = strstr(at, definition)); at++) {
        const char *line = at;
        while (line > source && line[-1] != '\n') {
            line--;
        }
        /* The attributes of a kernel may stand on a line before its name. */
        if (at > source && (at[-1] == ' ' || at[-1] == '\n') &&
            (strncmp(line, "__kernel", strlen("__kernel")) == 0 || line == at)) {
            return 1;
        }
    }
    return 0;
}

static void make_file(const char *text)
{
    const char *path = variable("MHA_SICK_FILE");
    char aside[4096];
    if (path[0] == '\0') {
        return;
    }
    snprintf(aside, sizeof aside, "%s.aside", path);
    FILE *file = fopen(aside, "w");
    if (file != NULL) {
        fputs(text, file);
        fclose(file);
        rename(aside, path);
    }
}

/* Whatever handler the driver has: its author did not mean this one. */
static _Noreturn void crash(void)
{
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    abort();
}

static _Noreturn void wait_for_ever(void)
{
    for (;;) {
        pause();
    }
}

static _Noreturn void hang(void)
{
    char text[64];
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    const pid_t helper = fork();
    if (helper != 0) {
        snprintf(text, sizeof text, "%ld %ld\n", (long)getpid(), (long)helper);
        make_file(text);
    }
    wait_for_ever();
}

/* ---- programs ----------------------------------------------------------------------------- */

/* The first FROM of MHA_SICK_TEXT becomes TO; NULL if it is not there. */
static char *edited(const char *source, size_t length)
{
    const char *text = variable("MHA_SICK_TEXT"), *bar = strchr(text, '|');
    char *copy = strndup(source, length), *made = NULL;
    if (copy != NULL && bar != NULL) {
        char *from = strndup(text, (size_t)(bar - text));
        char *at = from != NULL ? strstr(copy, from) : NULL;
        if (at != NULL &&
            asprintf(&made, "%.*s%s%s", (int)(at - copy), copy, bar + 1, at + strlen(from)) < 0) {
            made = NULL;
        }
        free(from);
    }
    free(copy);
    if (made == NULL) {
        fprintf(stderr, "sick: '%s' cannot be done\n", text);
        abort();
    }
    return made;
}

EXPORT cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint count,
                                                        const char **strings, const size_t *lengths,
                                                        cl_int *code)
{
    char *copy = count == 1 && lengths != NULL ? strndup(strings[0], lengths[0]) : NULL;
    char *made =
        copy != NULL && is_how("edit") && is_sick_source(copy) ? edited(copy, strlen(copy)) : NULL;
    free(copy);
    if (made == NULL) {
        return DRIVER(clCreateProgramWithSource)(context, count, strings, lengths, code);
    }
    const char *source = made;
    const size_t length = strlen(made);
    cl_program program = DRIVER(clCreateProgramWithSource)(context, 1, &source, &length, code);
    free(made);
    return program;
}

static int is_sick_program(cl_program program)
{
    size_t size = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &size) != CL_SUCCESS || size == 0) {
        return 0;
    }
    char *source = calloc(size + 1, 1);
    int sick = 0;
    if (source != NULL &&
        clGetProgramInfo(program, CL_PROGRAM_SOURCE, size, source, NULL) == CL_SUCCESS) {
        sick = is_sick_source(source);
    }
    free(source);
    return sick;
}

EXPORT cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count,
                                         const cl_device_id *devices, const char *options,
                                         void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    const char *wanted = variable("MHA_SICK_OPTIONS");
    const int fits = options != NULL && strstr(options, wanted) != NULL;
    if (fits && is_sick_program(program)) {
        if (is_how("segv")) {
            crash();
        }
        if (is_how("abort")) {
            abort();
        }
        if (is_how("exit")) {
            exit(7);
        }
        if (is_how("hang")) {
            hang();
        }
        if (is_how("unplug") || is_how("swap")) {
            make_file("");
            abort();
        }
        if (is_how("log")) {
            return CL_BUILD_PROGRAM_FAILURE;
        }
        if (is_how("resources")) {
            return CL_OUT_OF_RESOURCES;
        }
    }
    return DRIVER(clBuildProgram)(program, count, devices, options, notify, user);
}

static cl_int answer(const void *value, size_t size, size_t room, void *out, size_t *size_out)
{
    if (out != NULL && room < size) {
        return CL_INVALID_VALUE;
    }
    if (out != NULL) {
        memcpy(out, value, size);
    }
    if (size_out != NULL) {
        *size_out = size;
    }
    return CL_SUCCESS;
}

EXPORT cl_int CL_API_CALL clGetProgramBuildInfo(cl_program program, cl_device_id device,
                                                cl_program_build_info query, size_t room, void *out,
                                                size_t *size_out)
{
    const char *text = variable("MHA_SICK_TEXT");
    if (query == CL_PROGRAM_BUILD_LOG && is_how("log") && is_sick_program(program)) {
        return answer(text, strlen(text) + 1, room, out, size_out);
    }
    return DRIVER(clGetProgramBuildInfo)(program, device, query, room, out, size_out);
}

EXPORT cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                                 cl_uint dimensions, const size_t *offset,
                                                 const size_t *global, const size_t *local,
                                                 cl_uint wait_count, const cl_event *waits,
                                                 cl_event *event)
{
    char name[80] = "";
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    if (strcmp(name, sick_kernel()) == 0 && is_how("late")) {
        crash();
    }
    if (strcmp(name, sick_kernel()) == 0 && is_how("launch")) {
        return CL_INVALID_WORK_GROUP_SIZE;
    }
    return DRIVER(clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global, local,
                                          wait_count, waits, event);
}

/* ---- the device --------------------------------------------------------------------------- */

static int is_away(const char *how)
{
    return is_how(how) && access(variable("MHA_SICK_FILE"), F_OK) == 0;
}

EXPORT cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room,
                                         cl_device_id *devices, cl_uint *count)
{
    if (is_how("never")) {
        if (strcmp(sick_kernel(), "pause") == 0) {
            wait_for_ever();
        }
        abort();
    }
    if (is_away("unplug")) {
        return CL_DEVICE_NOT_FOUND;
    }
    return DRIVER(clGetDeviceIDs)(platform, type, room, devices, count);
}

EXPORT cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info query, size_t room,
                                          void *out, size_t *size_out)
{
    static const char name[] = "another device", version[] = "99.9";
    const cl_ulong local = 1024;
    if (query == CL_DEVICE_NAME && is_away("swap")) {
        return answer(name, sizeof name, room, out, size_out);
    }
    if (query == CL_DRIVER_VERSION && is_how("driver")) {
        return answer(version, sizeof version, room, out, size_out);
    }
    if (query == CL_DEVICE_LOCAL_MEM_SIZE && is_how("flat")) {
        return answer(&local, sizeof local, room, out, size_out);
    }
    return DRIVER(clGetDeviceInfo)(device, query, room, out, size_out);
}
