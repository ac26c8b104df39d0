/*
 * What gpu-mha doctor tells of device, driver, loader and system, so that an issue need not ask;
 * and nothing of whose machine it is. See doctor.h.
 */
/* The one way to ask a loader for its version is a function that 1.2 calls deprecated. */
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <ctype.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "command.h"
#include "doctor.h"

/* ---- privacy ------------------------------------------------------------------------------- */

static bool is_word_part(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* Replaces each `word` that stands by itself. What replaces it is never longer. */
static void hide_word(char *text, const char *word)
{
    const size_t length = word ? strlen(word) : 0;

    /* A name of one letter says nothing, and may be any word. */
    for (char *at = text; length > 1 && (at = strstr(at, word)); at++) {
        if ((at == text || !is_word_part(at[-1])) && !is_word_part(at[length])) {
            *at = '*';
            memmove(at + 1, at + length, strlen(at + length) + 1);
        }
    }
}

/* 1 where a word begins, or the value of an option as -I. */
static bool begins_word(const char *text, const char *at)
{
    return at == text || strchr(" \t\"'(=:,;[<", at[-1]) != NULL ||
           (at - text >= 2 && at[-2] == '-' && isupper((unsigned char)at[-1]));
}

/*
 * A path is a word that begins with a slash, or with a dot or a tilde and has one, or that has two.
 * "1/2" and "and/or" are none, and an option is looked at behind its letter.
 */
static bool is_path(const char *word, size_t length)
{
    const char *slash = memchr(word, '/', length);

    if (length < 2 || slash == NULL || *word == '-') {
        return false;
    }
    return slash == word || *word == '~' || *word == '.' ||
           memchr(slash + 1, '/', length - (size_t)(slash + 1 - word)) != NULL;
}

/* Every path becomes "*". */
static void hide_paths(char *text)
{
    for (char *at = text; *at; at++) {
        const size_t length = strcspn(at, " \t\"'():,;]>");
        if (begins_word(text, at) && is_path(at, length)) {
            *at = '*';
            memmove(at + 1, at + length, strlen(at + length) + 1);
        }
    }
}

void mha_doctor_clean(char *text)
{
    struct utsname system;
    const struct passwd *user = getpwuid(getuid());

    hide_paths(text);
    hide_word(text, getenv("USER"));
    hide_word(text, getenv("LOGNAME"));
    hide_word(text, user ? user->pw_name : NULL);
    if (uname(&system) >= 0) {
        hide_word(text, system.nodename);
    }
}

/* ---- facts --------------------------------------------------------------------------------- */

static void add(json_t *facts, const char *name, const char *value)
{
    json_object_set_new(facts, name, mha_json_text(value));
}

/* A text of any length, to be freed; NULL where there is none. */
static char *device_text(cl_device_id id, cl_device_info query)
{
    size_t size = 0;
    char *text = NULL;

    if (clGetDeviceInfo(id, query, 0, NULL, &size) == CL_SUCCESS && size > 0 && size < 1 << 20) {
        text = calloc(size + 1, 1);
    }
    if (text && clGetDeviceInfo(id, query, size, text, NULL) != CL_SUCCESS) {
        free(text);
        text = NULL;
    }
    return text;
}

void mha_doctor_device_name(gpu_mha_context *context, char name[MHA_DOCTOR_NAME])
{
    char *text = device_text(gpu_mha_context_device(context), CL_DEVICE_NAME);

    snprintf(name, MHA_DOCTOR_NAME, "%s", text ? text : "");
    free(text);
    for (char *at = name; *at; at++) {
        *at = (unsigned char)*at < 0x20 || *at == 0x7f ? ' ' : *at;
    }
}

static void add_device_text(json_t *facts, const char *name, cl_device_id id, cl_device_info query)
{
    char *text = device_text(id, query);
    if (text) {
        hide_paths(text);
    }
    add(facts, name, text ? text : "not told");
    free(text);
}

static void add_platform_text(json_t *facts, const char *name, cl_platform_id id,
                              cl_platform_info query)
{
    char text[1024] = "";
    if (clGetPlatformInfo(id, query, sizeof text, text, NULL) != CL_SUCCESS) {
        snprintf(text, sizeof text, "not told");
    }
    hide_paths(text);
    add(facts, name, text);
}

static void add_number(json_t *facts, const char *name, cl_device_id id, cl_device_info query)
{
    union {
        cl_uint narrow;
        cl_ulong wide;
    } value = {.wide = 0};
    size_t size = 0;
    char text[32] = "not told";

    if (clGetDeviceInfo(id, query, sizeof value, &value, &size) == CL_SUCCESS) {
        snprintf(text, sizeof text, "%llu",
                 size == sizeof value.wide ? (unsigned long long)value.wide
                                           : (unsigned long long)value.narrow);
    }
    add(facts, name, text);
}

typedef cl_int loader_info_fn(unsigned query, size_t size, void *value, size_t *size_ret);

static void add_loader(json_t *facts)
{
    enum { LOADER_NAME = 1, LOADER_VERSION = 3 };
    char name[256] = "", version[256] = "", text[520];
    void *address = clGetExtensionFunctionAddress("clGetICDLoaderInfoOCLICD");
    loader_info_fn *ask = NULL;

    /* ISO C has no cast from data to code. */
    memcpy(&ask, &address, sizeof ask);
    if (ask && ask(LOADER_NAME, sizeof name, name, NULL) == CL_SUCCESS &&
        ask(LOADER_VERSION, sizeof version, version, NULL) == CL_SUCCESS) {
        snprintf(text, sizeof text, "%s %s", name, version);
    } else {
        snprintf(text, sizeof text, "not told");
    }
    add(facts, "loader", text);
}

static void add_system(json_t *facts)
{
    struct utsname system;
    char text[3 * sizeof system.sysname + 3];

    if (uname(&system) >= 0) {
        snprintf(text, sizeof text, "%s %s %s", system.sysname, system.release, system.machine);
        add(facts, "system", text);
    }
}

json_t *mha_doctor_facts(gpu_mha_context *context)
{
    static const struct {
        const char *name;
        cl_device_info query;
    } numbers[] = {
        {"type", CL_DEVICE_TYPE},
        {"vendor id", CL_DEVICE_VENDOR_ID},
        {"compute units", CL_DEVICE_MAX_COMPUTE_UNITS},
        {"clock MHz", CL_DEVICE_MAX_CLOCK_FREQUENCY},
        {"work-group size", CL_DEVICE_MAX_WORK_GROUP_SIZE},
        {"float vector width", CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT},
        {"global bytes", CL_DEVICE_GLOBAL_MEM_SIZE},
        {"largest buffer bytes", CL_DEVICE_MAX_MEM_ALLOC_SIZE},
        {"local bytes", CL_DEVICE_LOCAL_MEM_SIZE},
        {"local memory type", CL_DEVICE_LOCAL_MEM_TYPE},
        {"constant bytes", CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE},
        {"parameter bytes", CL_DEVICE_MAX_PARAMETER_SIZE},
        {"base alignment bits", CL_DEVICE_MEM_BASE_ADDR_ALIGN},
        {"address bits", CL_DEVICE_ADDRESS_BITS},
        {"single fp config", CL_DEVICE_SINGLE_FP_CONFIG},
        {"unified memory", CL_DEVICE_HOST_UNIFIED_MEMORY},
    };
    json_t *facts = json_object();
    cl_device_id id = gpu_mha_context_device(context);
    cl_platform_id platform = NULL;

    add(facts, "gpu_mha", gpu_mha_version());
    add_system(facts);
    add_loader(facts);
    if (clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) == CL_SUCCESS) {
        add_platform_text(facts, "platform", platform, CL_PLATFORM_NAME);
        add_platform_text(facts, "platform version", platform, CL_PLATFORM_VERSION);
    }
    add_device_text(facts, "device", id, CL_DEVICE_NAME);
    add_device_text(facts, "vendor", id, CL_DEVICE_VENDOR);
    add_device_text(facts, "device version", id, CL_DEVICE_VERSION);
    add_device_text(facts, "driver", id, CL_DRIVER_VERSION);
    add_device_text(facts, "OpenCL C", id, CL_DEVICE_OPENCL_C_VERSION);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        add_number(facts, numbers[i].name, id, numbers[i].query);
    }
    add_device_text(facts, "extensions", id, CL_DEVICE_EXTENSIONS);
    return facts;
}
