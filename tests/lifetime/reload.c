/*
 * reload.c - the library loaded and unloaded many times in one process.
 *   reload LIBRARY
 *
 * OpenCL's loader and the drivers stay in the process once they are there, and so does CLBlast: it
 * is C++ with symbols of which there must be one. What is checked is the library: gone after each
 * dlclose, and nothing left of it.
 */
#include "maps.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <gpu_mha/gpu_mha.h>

/* pthread_key_create gives at most so many in one process. */
enum { KEYS = 1024 };

enum { SMALLEST_BLOCK = 32 }; /* of malloc */

/* What a driver may keep of every context, in bytes; a context of the library is larger. */
enum { CONTEXT_LEFT = 4096 };

static struct {
    void *handle;
    gpu_mha_status (*context_create)(const char *, gpu_mha_context **);
    void (*context_release)(gpu_mha_context *);
    gpu_mha_status (*call)(gpu_mha_context *, const gpu_mha_desc *, const gpu_mha_arrays *);
    gpu_mha_status (*desc_check)(const gpu_mha_desc *);
    gpu_mha_error (*last_error_info)(void);
} lib;

static void fail(const char *sentence, const char *more)
{
    fprintf(stderr, "reload: %s%s\n", sentence, more);
    exit(EXIT_FAILURE);
}

static void load(const char *path)
{
    lib.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib.handle) {
        fail(dlerror(), "");
    }
    *(void **)&lib.context_create = dlsym(lib.handle, "gpu_mha_context_create");
    *(void **)&lib.context_release = dlsym(lib.handle, "gpu_mha_context_release");
    *(void **)&lib.call = dlsym(lib.handle, "gpu_mha");
    *(void **)&lib.desc_check = dlsym(lib.handle, "gpu_mha_desc_check");
    *(void **)&lib.last_error_info = dlsym(lib.handle, "gpu_mha_last_error_info");
}

static void unload(void)
{
    dlclose(lib.handle);
    if (maps_have("libgpu_mha.so")) {
        fail("the library is still there after dlclose", "");
    }
}

/* Uniform keys: the mean of the values. NULL: the default context. */
static void attend(gpu_mha_context *context)
{
    enum { NK = 5, D = 4 };
    static const float query[D], key[NK * D], value[NK * D] = {[D * (NK - 1)] = NK * 2};
    float output[D] = {-1, -1, -1, -1};
    const gpu_mha_desc desc = {.B = 1, .H = 1, .HKV = 1, .NQ = 1, .NK = NK, .DK = D, .DV = D};
    const gpu_mha_arrays arrays = {.query = query, .key = key, .value = value, .output = output};
    const gpu_mha_status status = lib.call(context, &desc, &arrays);
    if (status != GPU_MHA_OK) {
        fail("a call fails: ", lib.last_error_info().message);
    }
    if (!(output[0] > 1.9999f && output[0] < 2.0001f) || output[1] != 0) {
        fail("a call gives a wrong number", "");
    }
}

static void use(void)
{
    gpu_mha_context *context = NULL;
    if (lib.context_create(NULL, &context) != GPU_MHA_OK) {
        fail("no context: ", lib.last_error_info().message);
    }
    attend(context);
    lib.context_release(context);
}

static void make_error(void)
{
    if (lib.desc_check(NULL) != GPU_MHA_INVALID || !lib.last_error_info().message[0]) {
        fail("no error", "");
    }
}

/* ---- loops ---- */

struct level {
    size_t heap;
    int files, keys;
};

static int free_keys(void)
{
    static pthread_key_t keys[KEYS];
    int count = 0;
    while (count < KEYS && pthread_key_create(&keys[count], NULL) == 0) {
        count++;
    }
    for (int k = 0; k < count; k++) {
        pthread_key_delete(keys[k]);
    }
    return count;
}

static struct level take_level(void)
{
    return (struct level){mallinfo2().uordblks, maps_open_files(), free_keys()};
}

/* `loops` times `act`, of which the first `warm` may leave something. */
static void repeat(const char *path, const char *what, void (*act)(void), int warm, int loops,
                   size_t heap_each)
{
    struct level before = {0};
    for (int n = 0; n < loops; n++) {
        if (n == warm) {
            before = take_level();
        }
        load(path);
        act();
        unload();
    }
    const struct level after = take_level();
    const size_t grown = after.heap > before.heap ? after.heap - before.heap : 0;
    printf("%s: %d times, %zu bytes more, %d files more, %d keys less\n", what, loops - warm, grown,
           after.files - before.files, before.keys - after.keys);
    if (after.files != before.files || after.keys != before.keys) {
        fail("files or keys stay behind: ", what);
    }
    if (grown > heap_each * (size_t)(loops - warm)) {
        fail("memory stays behind: ", what);
    }
}

static void nothing(void) {}

/* ---- a thread that outlives the library ---- */

static pthread_barrier_t met;

static void *fail_and_stay(void *unused)
{
    make_error();
    pthread_barrier_wait(&met);
    pthread_barrier_wait(&met); /* meanwhile the library goes */
    return unused;
}

static void unload_under_a_thread(const char *path)
{
    pthread_t thread;
    load(path);
    if (pthread_barrier_init(&met, NULL, 2) != 0 ||
        pthread_create(&thread, NULL, fail_and_stay, NULL) != 0) {
        fail("no thread", "");
    }
    pthread_barrier_wait(&met);
    unload();
    pthread_barrier_wait(&met);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&met);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fail("usage: reload LIBRARY", "");
    }
    repeat(argv[1], "loaded", nothing, 20, 200, SMALLEST_BLOCK - 1);
    repeat(argv[1], "with an error", make_error, 20, KEYS + 100, SMALLEST_BLOCK - 1);
    unload_under_a_thread(argv[1]);
    repeat(argv[1], "with a context", use, 5, 25, CONTEXT_LEFT);
    /* The default context is kept to the end of the process, also where the library is not. */
    load(argv[1]);
    attend(NULL);
    unload();
    load(argv[1]);
    attend(NULL);
    unload();
    return EXIT_SUCCESS;
}
