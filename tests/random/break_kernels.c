/*
 * break_kernels.c - to be preloaded: kernels with a fault in them.
 *
 * Wherever BREAK_FROM stands in a kernel's source when the source goes to the driver, BREAK_TO goes
 * there. A test of tests: what looks for faults must find this one.
 */
#define _GNU_SOURCE /* RTLD_NEXT */

#include <CL/cl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* `length` bytes of source with every `from` made `to`; NULL when memory is out. */
static char *replace_all(const char *source, size_t length, const char *from, const char *to,
                         size_t *new_length)
{
    const size_t from_size = strlen(from), to_size = strlen(to);
    /* At most one replacement begins at each byte. */
    char *made = calloc(length * (to_size + 1) + 1, 1);
    size_t at = 0, used = 0;

    while (made && at < length) {
        if (length - at >= from_size && memcmp(source + at, from, from_size) == 0) {
            memcpy(made + used, to, to_size);
            used += to_size;
            at += from_size;
        } else {
            made[used++] = source[at++];
        }
    }
    *new_length = used;
    return made;
}

__attribute__((visibility("default"))) CL_API_ENTRY cl_program CL_API_CALL
clCreateProgramWithSource(cl_context context, cl_uint count, const char **strings,
                          const size_t *lengths, cl_int *errcode_ret)
{
    typedef cl_program(CL_API_CALL * create_fn)(cl_context, cl_uint, const char **, const size_t *,
                                                cl_int *);
    const char *from = getenv("BREAK_FROM"), *to = getenv("BREAK_TO");
    create_fn create = NULL;

    *(void **)&create = dlsym(RTLD_NEXT, "clCreateProgramWithSource");
    if (count != 1 || !from || !from[0] || !to || !lengths) {
        return create(context, count, strings, lengths, errcode_ret);
    }
    size_t length = 0;
    char *broken = replace_all(strings[0], lengths[0], from, to, &length);
    const char *source = broken;
    cl_program program = create(context, broken ? 1 : 0, &source, &length, errcode_ret);
    free(broken);
    return program;
}
