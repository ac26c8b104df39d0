/*
 * The cache of built programs, in memory and before that on disk.
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
#include "cl/program_disk.h"

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
    cl_program cl;  /* when READY */
    int is_unsaved; /* its binary is to be kept on disk, later */
    int is_refused; /* the driver did not take the binary on disk */
};

struct mha_program_cache {
    cl_context cl;
    cl_device_id device;
    int has_fma;
    const struct mha_cl_source *sources;
    struct mha_program_disk disk;
    struct program *programs;
    pthread_mutex_t lock;
    pthread_cond_t state_changed;
};

/* Closing a context may take about so long for saving; what is left is saved another time. */
static const double late_seconds_max = 3;

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
    mha_program_disk_open(&made->disk, device);
    *cache = made;
    return GPU_MHA_OK;
}

static void free_program(struct program *program)
{
    if (!program) {
        return;
    }
    if (program->cl) {
        clReleaseProgram(program->cl);
    }
    free(program->file);
    free(program->options);
    free(program);
}

static struct mha_build build_of(const struct mha_program_cache *cache,
                                 const struct program *program)
{
    return (struct mha_build){cache->cl, cache->device, program->file, program->options};
}

/* From disk, else from source. */
static gpu_mha_status build(const struct mha_program_cache *cache, struct program *wanted,
                            cl_program *program)
{
    const struct mha_build build = build_of(cache, wanted);
    struct mha_strbuf source = {0};
    gpu_mha_status status = mha_expand_source(cache->sources, wanted->file, &source);
    if (status != GPU_MHA_OK) {
        goto cleanup;
    }
    enum mha_disk_answer answer = mha_program_disk_load(&cache->disk, &build, &source, program);
    if (answer == MHA_DISK_LOADED) {
        goto cleanup;
    }
    status = mha_build_source(&build, mha_strbuf_text(&source), source.length, program);
    if (status != GPU_MHA_OK) {
        goto cleanup;
    }
    wanted->is_refused = answer == MHA_DISK_REFUSED;
    wanted->is_unsaved = cache->disk.saves_late;
    if (!cache->disk.saves_late) {
        mha_program_disk_save(&cache->disk, &build, &source, *program, 1);
    }

cleanup:
    mha_strbuf_free(&source);
    return status;
}

/* Another process may have saved it meanwhile. */
static void save_late(const struct mha_program_cache *cache, const struct program *program)
{
    const struct mha_build build = build_of(cache, program);
    struct mha_strbuf source = {0};
    if (mha_expand_source(cache->sources, program->file, &source) == GPU_MHA_OK) {
        mha_program_disk_save(&cache->disk, &build, &source, program->cl, program->is_refused);
    }
    mha_strbuf_free(&source);
}

static double seconds_now(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void save_unsaved(const struct mha_program_cache *cache)
{
    if (!cache->disk.path) {
        return;
    }
    const double end = seconds_now() + late_seconds_max;
    for (const struct program *p = cache->programs; p && seconds_now() < end; p = p->next) {
        if (p->is_unsaved) {
            save_late(cache, p);
        }
    }
}

void mha_program_cache_destroy(struct mha_program_cache *cache)
{
    if (!cache) {
        return;
    }
    save_unsaved(cache);
    while (cache->programs) {
        struct program *program = cache->programs;
        cache->programs = program->next;
        free_program(program);
    }
    mha_program_disk_close(&cache->disk);
    pthread_cond_destroy(&cache->state_changed);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static char *copy_string(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) {
        memcpy(copy, text, size);
    }
    return copy;
}

/* The entry of a pair, made if there is none yet; NULL without memory. Under the lock. */
static struct program *find_or_add(struct mha_program_cache *cache, const char *file,
                                   const char *options)
{
    for (struct program *p = cache->programs; p; p = p->next) {
        if (strcmp(p->options, options) == 0 && strcmp(p->file, file) == 0) {
            return p;
        }
    }
    struct program *added = calloc(1, sizeof *added);
    if (!added) {
        return NULL;
    }
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
    /* Some drivers print to stderr, of an application, what their compiler warns of. */
    mha_strbuf_printf(&all->text, "-cl-std=CL1.2 -w");
    mha_options_flag(all, "MHA_HAS_FMA", cache->has_fma);
    if (options) {
        mha_strbuf_printf(&all->text, "%s", mha_strbuf_text(&options->text));
    }
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
    if (program->state == PROGRAM_READY) {
        return GPU_MHA_OK;
    }

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
    if (status != GPU_MHA_OK) {
        goto cleanup;
    }

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
