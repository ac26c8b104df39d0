/*
 * load.c - loading the library touches no OpenCL, nor do functions that need no device.
 *   load LIBRARY
 *
 * The program brings an OpenCL of its own: the loader of programs binds every call to it, of the
 * library as of CLBlast, and it counts them. It has no platform.
 */
#include "fault/layer/calls.h"
#include "maps.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int calls;

/* The parameters differ, and none is looked at. 0 is CL_SUCCESS as well as no object. */
#define COUNT_CALL(name, ...)                                                                      \
    __attribute__((visibility("default"))) long name(void);                                        \
    long name(void)                                                                                \
    {                                                                                              \
        calls++;                                                                                   \
        return 0;                                                                                  \
    }
/* Listed with the rest, but an answer of it is needed here. */
#define clGetPlatformIDs clGetPlatformIDs_is_below
FAULT_CALLS(COUNT_CALL)
#undef clGetPlatformIDs

__attribute__((visibility("default"))) int clGetPlatformIDs(unsigned room, void *ids,
                                                            unsigned *count);
int clGetPlatformIDs(unsigned room, void *ids, unsigned *count)
{
    (void)room;
    (void)ids;
    calls++;
    if (count) {
        *count = 0;
    }
    return 0;
}

static void fail(const char *sentence, const char *more)
{
    fprintf(stderr, "load: %s%s\n", sentence, more);
    exit(EXIT_FAILURE);
}

static void *library;

static void *find(const char *name)
{
    void *function = dlsym(library, name);
    if (!function) {
        fail("no function ", name);
    }
    return function;
}

static void expect_untouched(const char *after)
{
    int known;
    const char *driver = maps_driver(&known);
    if (calls != 0) {
        fail("OpenCL was called by ", after);
    }
    if (driver) {
        fail("there is a driver in the process: ", driver);
    }
    if (known == 0) {
        fail("/etc/OpenCL/vendors names no driver: nothing was shown", "");
    }
}

/* Through pointers: a function of the library must not be bound before it is loaded. */
static void call_what_needs_no_device(void)
{
    const char *(*version)(void);
    const char *(*last_error)(void);
    int (*desc_check)(const void *);
    void (*context_release)(void *);
    void (*plan_release)(void *);
    size_t (*workspace_bytes)(const void *);
    *(void **)&version = find("gpu_mha_version");
    *(void **)&last_error = find("gpu_mha_last_error");
    *(void **)&desc_check = find("gpu_mha_desc_check");
    *(void **)&context_release = find("gpu_mha_context_release");
    *(void **)&plan_release = find("gpu_mha_plan_release");
    *(void **)&workspace_bytes = find("gpu_mha_plan_workspace_bytes");
    if (version()[0] == '\0' || desc_check(NULL) == 0 || last_error()[0] == '\0') {
        fail("the library does not answer", "");
    }
    context_release(NULL);
    plan_release(NULL);
    if (workspace_bytes(NULL) != 0) {
        fail("no plan has a workspace", "");
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fail("usage: load LIBRARY", "");
    }
    library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fail(dlerror(), "");
    }
    expect_untouched("loading");
    call_what_needs_no_device();
    expect_untouched("functions that need no device");

    int (*device_count)(size_t *);
    *(void **)&device_count = find("gpu_mha_device_count");
    size_t count = 1;
    if (device_count(&count) != 0 || count != 0 || calls == 0) {
        fail("the OpenCL of this program is not the library's", "");
    }
    calls = 0;
    dlclose(library);
    expect_untouched("unloading");
    return EXIT_SUCCESS;
}
