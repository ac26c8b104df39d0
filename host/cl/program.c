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

#include "cl/build.h"
#include "cl/disk_cache.h"
#include "cl/expand.h"

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
    char *disk_path;               /* of the disk cache; NULL: none */
    int saves_late;                /* see save_late() */
    struct mha_strbuf driver_text; /* what a binary depends on beside source and options */
    struct program *programs;
    pthread_mutex_t lock;
    pthread_cond_t state_changed;
};

/*
 * Most drivers have the binary at hand once a program is built. PoCL compiles all kernels for it,
 * for work-groups of any size, which takes longer than all the rest and serves no launch. Asked
 * after the launches it at least adds what these made it compile, so that the next process
 * compiles nothing.
 */
static const char late_platform[] = "Portable Computing Language";

/* Closing a context may take about so long for it; programs beyond that are kept another time. */
static const double late_seconds_max = 2;

enum { DRIVER_TEXT_SIZE = 1024 };

static int append_device_text(struct mha_strbuf *text, cl_device_id device, cl_device_info query)
{
    char value[DRIVER_TEXT_SIZE];
    if (mha_device_text(device, query, value, sizeof value) != CL_SUCCESS)
        return 0;
    mha_strbuf_printf(text, "%s\n", value);
    return 1;
}

/* Without an exact name for the driver nothing is kept on disk. */
static void open_disk(struct mha_program_cache *cache, const struct mha_device *device)
{
    static const cl_device_info queries[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION,
                                             CL_DRIVER_VERSION};
    char platform[DRIVER_TEXT_SIZE], version[DRIVER_TEXT_SIZE];
    int known = mha_platform_text(device->platform, CL_PLATFORM_NAME, platform, sizeof platform) ==
                    CL_SUCCESS &&
                mha_platform_text(device->platform, CL_PLATFORM_VERSION, version, sizeof version) ==
                    CL_SUCCESS;
    mha_strbuf_printf(&cache->driver_text, "%s\n%s\n", platform, version);
    for (size_t i = 0; known && i < sizeof queries / sizeof queries[0]; i++)
        known = append_device_text(&cache->driver_text, device->id, queries[i]);
    if (known && mha_strbuf_ok(&cache->driver_text))
        cache->disk_path = mha_disk_cache_path();
    cache->saves_late = strcmp(platform, late_platform) == 0;
}

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
    open_disk(made, device);
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

static struct mha_build build_of(const struct mha_program_cache *cache,
                                 const struct program *program)
{
    return (struct mha_build){cache->cl, cache->device, program->file, program->options};
}

/* All that a binary depends on: driver and device, options, source text. */
static int make_key(const struct mha_program_cache *cache, const struct program *program,
                    const struct mha_strbuf *source, struct mha_strbuf *text,
                    struct mha_cache_key *key)
{
    mha_strbuf_printf(text, "%s%s\n", mha_strbuf_text(&cache->driver_text), program->options);
    mha_strbuf_append(text, mha_strbuf_text(source), source->length);
    *key = (struct mha_cache_key){text->text, text->length};
    return mha_strbuf_ok(text);
}

static void save(const struct mha_program_cache *cache, cl_program program,
                 struct mha_cache_key key)
{
    unsigned char *binary;
    size_t size;
    if (!mha_build_binary(program, &binary, &size))
        return;
    mha_disk_cache_save(cache->disk_path, key, binary, size);
    free(binary);
}

/* The program of a binary on disk, NULL without one that the driver takes. */
static cl_program load(const struct mha_program_cache *cache, struct program *wanted,
                       struct mha_cache_key key)
{
    unsigned char *binary;
    size_t size;
    if (!mha_disk_cache_load(cache->disk_path, key, &binary, &size))
        return NULL;
    const struct mha_build build = build_of(cache, wanted);
    cl_program program = mha_build_from_binary(&build, binary, size);
    wanted->is_refused = program == NULL;
    free(binary);
    return program;
}

/* From disk, else from source. */
static gpu_mha_status build(const struct mha_program_cache *cache, struct program *wanted,
                            cl_program *program)
{
    const struct mha_build build = build_of(cache, wanted);
    struct mha_strbuf source = {0}, key_text = {0};
    struct mha_cache_key key;
    gpu_mha_status status = mha_expand_source(cache->sources, wanted->file, &source);
    if (status != GPU_MHA_OK)
        goto cleanup;
    int is_kept = cache->disk_path && make_key(cache, wanted, &source, &key_text, &key);
    *program = is_kept ? load(cache, wanted, key) : NULL;
    if (*program)
        goto cleanup;

    status = mha_build_source(&build, mha_strbuf_text(&source), source.length, program);
    wanted->is_unsaved = status == GPU_MHA_OK && is_kept && cache->saves_late;
    if (status == GPU_MHA_OK && is_kept && !cache->saves_late)
        save(cache, *program, key);

cleanup:
    mha_strbuf_free(&key_text);
    mha_strbuf_free(&source);
    return status;
}

/* Asks for the binary now, unless another process has kept it meanwhile. */
static void save_late(const struct mha_program_cache *cache, const struct program *program)
{
    struct mha_strbuf source = {0}, key_text = {0};
    struct mha_cache_key key;
    unsigned char *binary = NULL;
    size_t size;
    if (mha_expand_source(cache->sources, program->file, &source) == GPU_MHA_OK &&
        make_key(cache, program, &source, &key_text, &key) &&
        (program->is_refused || !mha_disk_cache_load(cache->disk_path, key, &binary, &size))) {
        save(cache, program->cl, key);
    }
    free(binary);
    mha_strbuf_free(&key_text);
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
    const struct program *program = cache->programs;
    while (program && !program->is_unsaved)
        program = program->next;
    if (!program || !mha_disk_cache_usable(cache->disk_path))
        return;
    const double end = seconds_now() + late_seconds_max;
    for (; program && seconds_now() < end; program = program->next) {
        if (program->is_unsaved)
            save_late(cache, program);
    }
}

void mha_program_cache_destroy(struct mha_program_cache *cache)
{
    if (!cache)
        return;
    save_unsaved(cache);
    while (cache->programs) {
        struct program *program = cache->programs;
        cache->programs = program->next;
        free_program(program);
    }
    free(cache->disk_path);
    mha_strbuf_free(&cache->driver_text);
    pthread_cond_destroy(&cache->state_changed);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
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
