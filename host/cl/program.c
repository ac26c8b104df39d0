/*
 * The cache of built programs.
 *
 * The lock guards the list and the states, never a compilation: different programs build at the
 * same time, and who asks for a program that another thread is building waits for that build.
 */
#include "cl/program.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cl/expand.h"
#include "core/log.h"

enum program_state {
    PROGRAM_ABSENT, /* new, or its build failed: the next caller builds it */
    PROGRAM_BUILDING,
    PROGRAM_READY
};

struct program {
    struct program *next;
    char *file;
    char *options; /* complete, as the compiler gets them */
    enum program_state state;
    cl_program cl; /* when READY */
};

struct mha_program_cache {
    cl_context cl;
    cl_device_id device;
    int has_fma;
    const struct mha_cl_source *sources;
    struct program *programs;
    pthread_mutex_t lock;
    pthread_cond_t state_changed;
};

gpu_mha_status mha_program_cache_create(cl_context cl, const struct mha_device *device,
                                        const struct mha_cl_source *sources,
                                        struct mha_program_cache **cache)
{
    *cache = NULL;
    struct mha_program_cache *made = calloc(1, sizeof *made);
    MHA_RETURN_IF(!made, GPU_MHA_HOST_MEMORY, "no memory for a program cache");
    made->cl = cl;
    made->device = device->id;
    made->has_fma = device->has_fma;
    made->sources = sources;
    if (pthread_mutex_init(&made->lock, NULL) != 0) {
        free(made);
        return mha_error_set(GPU_MHA_HOST_MEMORY, "no memory for the lock of a program cache");
    }
    if (pthread_cond_init(&made->state_changed, NULL) != 0) {
        pthread_mutex_destroy(&made->lock);
        free(made);
        return mha_error_set(GPU_MHA_HOST_MEMORY, "no memory for the lock of a program cache");
    }
    *cache = made;
    return GPU_MHA_OK;
}

static void free_program(struct program *program)
{
    if (!program)
        return;
    if (program->cl)
        clReleaseProgram(program->cl);
    free(program->file);
    free(program->options);
    free(program);
}

void mha_program_cache_destroy(struct mha_program_cache *cache)
{
    if (!cache)
        return;
    while (cache->programs) {
        struct program *program = cache->programs;
        cache->programs = program->next;
        free_program(program);
    }
    pthread_cond_destroy(&cache->state_changed);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static double seconds_now(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
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

/* Compiles expanded source text. */
static gpu_mha_status compile(const struct mha_program_cache *cache, const char *file,
                              const char *options, const struct mha_strbuf *source,
                              cl_program *program)
{
    double start = seconds_now();
    gpu_mha_status status = GPU_MHA_OK;
    char *log = NULL;
    cl_int code = CL_SUCCESS;
    const char *text = mha_strbuf_text(source);
    cl_program made = clCreateProgramWithSource(cache->cl, 1, &text, &source->length, &code);
    if (code != CL_SUCCESS) {
        status = mha_error_cl(code, "clCreateProgramWithSource", "kernel source %s", file);
        made = NULL;
        goto cleanup;
    }
    code = clBuildProgram(made, 1, &cache->device, options, NULL, NULL);
    if (code != CL_SUCCESS || mha_log_shows(MHA_LOG_DEBUG))
        log = read_build_log(made, cache->device);
    if (code != CL_SUCCESS) {
        status = build_failure(code, file, log);
        goto cleanup;
    }
    mha_log(MHA_LOG_DEBUG, "built %s: %.1f ms, %s", file, 1e3 * (seconds_now() - start), options);
    if (log && log[strspn(log, " \r\n\t")])
        mha_log(MHA_LOG_DEBUG, "compiler on %s: %s", file, log);
    *program = made;
    made = NULL;

cleanup:
    if (made)
        clReleaseProgram(made);
    free(log);
    return status;
}

static gpu_mha_status build(const struct mha_program_cache *cache, const struct program *wanted,
                            cl_program *program)
{
    struct mha_strbuf source = {0};
    gpu_mha_status status = mha_expand_source(cache->sources, wanted->file, &source);
    if (status == GPU_MHA_OK) {
        status = compile(cache, wanted->file, wanted->options, &source, program);
    }
    mha_strbuf_free(&source);
    return status;
}

static char *copy_string(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

/* The entry of a pair, made if there is none yet; NULL without memory. Under the lock. */
static struct program *find_or_add(struct mha_program_cache *cache, const char *file,
                                   const char *options)
{
    for (struct program *p = cache->programs; p; p = p->next) {
        if (strcmp(p->options, options) == 0 && strcmp(p->file, file) == 0)
            return p;
    }
    struct program *added = calloc(1, sizeof *added);
    if (!added)
        return NULL;
    added->file = copy_string(file);
    added->options = copy_string(options);
    if (!added->file || !added->options) {
        free_program(added);
        return NULL;
    }
    added->next = cache->programs;
    cache->programs = added;
    return added;
}

/* Every definition that all kernels get is here, and the language. Never a fast-math option. */
static gpu_mha_status complete_options(const struct mha_program_cache *cache,
                                       const struct mha_options *options, struct mha_options *all)
{
    mha_strbuf_printf(&all->text, "-cl-std=CL1.2");
    mha_options_flag(all, "MHA_HAS_FMA", cache->has_fma);
    if (options)
        mha_strbuf_printf(&all->text, "%s", mha_strbuf_text(&options->text));
    MHA_RETURN_IF(!mha_strbuf_ok(&all->text) || (options && !mha_strbuf_ok(&options->text)),
                  GPU_MHA_HOST_MEMORY, "no memory for the build options of a kernel");
    return GPU_MHA_OK;
}

/* Waits for another thread's build, or builds. Called, and returns, under the lock. */
static gpu_mha_status make_ready(struct mha_program_cache *cache, struct program *program)
{
    while (program->state == PROGRAM_BUILDING) {
        pthread_cond_wait(&cache->state_changed, &cache->lock);
    }
    if (program->state == PROGRAM_READY)
        return GPU_MHA_OK;

    program->state = PROGRAM_BUILDING;
    pthread_mutex_unlock(&cache->lock);
    cl_program cl = NULL;
    gpu_mha_status status = build(cache, program, &cl);
    pthread_mutex_lock(&cache->lock);
    program->cl = cl;
    program->state = status == GPU_MHA_OK ? PROGRAM_READY : PROGRAM_ABSENT;
    pthread_cond_broadcast(&cache->state_changed);
    return status;
}

gpu_mha_status mha_program_get(struct mha_program_cache *cache, const char *file,
                               const struct mha_options *options, cl_program *program)
{
    *program = NULL;
    struct mha_options all = {{0}};
    gpu_mha_status status = complete_options(cache, options, &all);
    if (status != GPU_MHA_OK)
        goto cleanup;

    pthread_mutex_lock(&cache->lock);
    struct program *entry = find_or_add(cache, file, mha_strbuf_text(&all.text));
    if (entry) {
        status = make_ready(cache, entry);
        *program = entry->cl;
    } else {
        status = mha_error_set(GPU_MHA_HOST_MEMORY, "no memory for kernel source %s", file);
    }
    pthread_mutex_unlock(&cache->lock);

cleanup:
    mha_options_free(&all);
    return status;
}
