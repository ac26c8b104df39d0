/* The calling thread's last error. */
#include "core/error.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

struct sentence {
    char text[1024];
    size_t length;
};

struct record {
    gpu_mha_status status;
    struct sentence message;
    cl_int cl_code;
    const char *cl_call;
};

static _Thread_local struct record last = {GPU_MHA_OK, {"", 0}, CL_SUCCESS, ""};

/* An attempt leaves `last` and its build log alone. */
static _Thread_local int attempts; /* that have begun and not ended */
static _Thread_local struct record attempted;
static _Thread_local char *attempted_log; /* NULL outside of attempts, or for none */

/*
 * The build log is too long for a fixed buffer, so it lives on the heap and its thread's slot of
 * this key owns it. The destructor is free() itself: a thread may end while the library is being
 * unloaded, and then no function of ours may be there any more.
 */
static pthread_once_t log_key_once = PTHREAD_ONCE_INIT;
static pthread_key_t log_key;
static atomic_int log_key_made;

static void make_log_key(void)
{
    log_key_made = pthread_key_create(&log_key, free) == 0;
}

/*
 * A process has few keys, and one that stayed behind at every dlclose() would use them up. The log
 * of another thread that still lives is then nobody's: it is left alone.
 */
__attribute__((destructor)) static void give_back_log_key(void)
{
    if (atomic_exchange(&log_key_made, 0)) {
        free(pthread_getspecific(log_key));
        pthread_key_delete(log_key);
    }
}

static const char *kept_build_log(void)
{
    pthread_once(&log_key_once, make_log_key);
    const char *log = log_key_made ? pthread_getspecific(log_key) : NULL;
    return log ? log : "";
}

/* NULL for "", or if there is no memory: a lost log must not hide the error. */
static char *copy_log(const char *log)
{
    const size_t size = strlen(log) + 1;
    char *copy = *log ? malloc(size) : NULL;
    if (copy) {
        memcpy(copy, log, size);
    }
    return copy;
}

static void keep_build_log(const char *log)
{
    pthread_once(&log_key_once, make_log_key);
    if (!log_key_made) {
        return;
    }

    char *copy = copy_log(log);
    void *old = pthread_getspecific(log_key);
    if (old == copy) {
        return;
    }
    if (pthread_setspecific(log_key, copy) == 0) {
        free(old);
    } else {
        free(copy);
    }
}

/* Replaces the end of a sentence that did not fit by "...", between two UTF-8 characters. */
static void mark_cut(struct sentence *s)
{
    size_t end = sizeof s->text - 4;
    while (end > 0 && ((unsigned char)s->text[end] & 0xC0) == 0x80) {
        end--;
    }
    memcpy(s->text + end, "...", 4);
    s->length = end + 3;
}

static void append_v(struct sentence *s, const char *format, va_list args) MHA_PRINTF(2, 0);
static void append_v(struct sentence *s, const char *format, va_list args)
{
    size_t room = sizeof s->text - s->length;
    char *added = s->text + s->length;
    int length = vsnprintf(added, room, format, args);
    if (length < 0) {
        *added = '\0';
    } else if ((size_t)length < room) {
        s->length += (size_t)length;
    } else {
        mark_cut(s);
    }
    mha_one_line(added);
}

static void append(struct sentence *s, const char *format, ...) MHA_PRINTF(2, 3);
static void append(struct sentence *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    append_v(s, format, args);
    va_end(args);
}

/*
 * The sentence comes by pointer to a copy of its own, never to `last`: an argument of its format
 * may have been the old message.
 */
static gpu_mha_status keep(gpu_mha_status status, const struct sentence *message, cl_int cl_code,
                           const char *cl_call, const char *build_log)
{
    mha_log(MHA_LOG_DEBUG, "%s: %s", gpu_mha_status_name(status), message->text);
    struct record *record = attempts > 0 ? &attempted : &last;
    record->status = status;
    memcpy(record->message.text, message->text, message->length + 1);
    record->message.length = message->length;
    record->cl_code = cl_code;
    record->cl_call = cl_call;
    if (attempts == 0) {
        keep_build_log(build_log);
    } else {
        free(attempted_log);
        attempted_log = copy_log(build_log);
    }
    return status;
}

void mha_error_attempt(void)
{
    attempted = (struct record){GPU_MHA_OK, {"", 0}, CL_SUCCESS, ""};
    free(attempted_log);
    attempted_log = NULL;
    attempts++;
}

const char *mha_error_attempt_end(void)
{
    attempts--;
    free(attempted_log);
    attempted_log = NULL;
    return attempted.message.text;
}

cl_int mha_error_attempt_code(void)
{
    return attempted.cl_code;
}

gpu_mha_status mha_error_attempt_failed(void)
{
    attempts--;
    const struct record failed = attempted;
    char *log = attempted_log; /* which keep() may replace */
    attempted_log = NULL;
    keep(failed.status, &failed.message, failed.cl_code, failed.cl_call, log ? log : "");
    free(log);
    return failed.status;
}

gpu_mha_status mha_error_set(gpu_mha_status status, const char *format, ...)
{
    struct sentence message = {.length = 0};
    va_list args;
    va_start(args, format);
    append_v(&message, format, args);
    va_end(args);
    return keep(status, &message, CL_SUCCESS, "", "");
}

/* CL_OUT_OF_RESOURCES is the standard's "failure to allocate resources on the device". */
static gpu_mha_status memory_status_or(cl_int code, gpu_mha_status otherwise)
{
    switch (code) {
    case CL_OUT_OF_HOST_MEMORY:
        return GPU_MHA_HOST_MEMORY;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
        return GPU_MHA_DEVICE_MEMORY;
    case CL_INVALID_BUFFER_SIZE: /* sizes of 0 are never asked for: it is over the device's limit */
        return GPU_MHA_UNSUPPORTED;
    default:
        return otherwise;
    }
}

gpu_mha_status mha_error_cl(cl_int code, const char *call, const char *format, ...)
{
    struct sentence message = {.length = 0};
    append(&message, "%s failed: %s (%d): ", call, mha_error_cl_name(code), (int)code);
    va_list args;
    va_start(args, format);
    append_v(&message, format, args);
    va_end(args);
    return keep(memory_status_or(code, GPU_MHA_OPENCL), &message, code, call, "");
}

gpu_mha_status mha_error_behind(gpu_mha_status status, cl_int code, const char *call,
                                const char *format, ...)
{
    struct sentence message = {.length = 0};
    va_list args;
    va_start(args, format);
    append_v(&message, format, args);
    va_end(args);
    append(&message, "; %s failed: %s (%d)", call, mha_error_cl_name(code), (int)code);
    return keep(code == CL_OUT_OF_HOST_MEMORY ? GPU_MHA_HOST_MEMORY : status, &message, code, call,
                "");
}

/* The line of a build log to quote: the first that speaks of an error, else the first not empty. */
static const char *telling_line(const char *log, int *length)
{
    const char *line = log + strspn(log, "\r\n");
    const char *error = strstr(line, "error");
    while (error && line + strcspn(line, "\r\n") < error) {
        line += strcspn(line, "\r\n");
        line += strspn(line, "\r\n");
    }
    size_t size = strcspn(line, "\r\n");
    *length = size < 300 ? (int)size : 300;
    return line;
}

gpu_mha_status mha_error_build(cl_int code, const char *source, const char *log)
{
    struct sentence message = {.length = 0};
    append(&message, "clBuildProgram failed: %s (%d): kernel source %s", mha_error_cl_name(code),
           (int)code, source);
    int length;
    const char *line = telling_line(log, &length);
    if (length > 0) {
        append(&message, ": %.*s", length, line);
    }
    return keep(GPU_MHA_BUILD, &message, code, "clBuildProgram", log);
}

/* CLBlast hands OpenCL's codes through and has its own beyond them. */
gpu_mha_status mha_error_blas(int code, const char *call)
{
    struct sentence message = {.length = 0};
    append(&message, "%s failed with CLBlast status %d", call, code);
    const char *name = mha_error_cl_name((cl_int)code);
    if (strncmp(name, "CL_", 3) == 0) {
        append(&message, " (%s)", name);
    }
    return keep(memory_status_or((cl_int)code, GPU_MHA_BLAS), &message, (cl_int)code, call, "");
}

const char *gpu_mha_last_error(void)
{
    return last.message.text;
}

gpu_mha_error gpu_mha_last_error_info(void)
{
    return (gpu_mha_error){
        .status = last.status,
        .message = last.message.text,
        .cl_code = last.cl_code,
        .cl_call = last.cl_call,
        .build_log = kept_build_log(),
    };
}
