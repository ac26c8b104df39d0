/*
 * Cold and warm start: the same work in two new processes, one after the other, that share caches
 * which are empty at first.
 */
#define _XOPEN_SOURCE 700 /* nftw */

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "command.h"

/* Where this library and OpenCL drivers keep what they have built. */
static const char *const cache_variables[] = {
    "GPU_MHA_CACHE_DIR", "POCL_CACHE_DIR", "XDG_CACHE_HOME",        "CUDA_CACHE_PATH",
    "NEO_CACHE_DIR",     "cl_cache_dir",   "MESA_SHADER_CACHE_DIR",
};

static bool set_caches(const char *directory)
{
    for (size_t i = 0; i < sizeof cache_variables / sizeof cache_variables[0]; i++) {
        if (setenv(cache_variables[i], directory, 1) != 0) {
            mha_report("%s could not be set: %s", cache_variables[i], strerror(errno));
            return false;
        }
    }
    return true;
}

/* Drivers build parts of a kernel with its first run, so that one counts as far as it is slower. */
static bool measure(const struct mha_bench_shape *shape, const char *selector, double *milliseconds)
{
    struct mha_bench_device device;
    struct mha_bench_case one = {0};
    double first = 0, second = 0;
    bool done = false;

    if (!mha_bench_device_open(&device, selector)) {
        goto cleanup;
    }
    double start = mha_milliseconds();
    if (!mha_bench_case_open(&one, &device, shape)) {
        goto cleanup;
    }
    *milliseconds = mha_milliseconds() - start;
    if (!mha_bench_cases_reserve(&one, 1, &device, 0) ||
        !mha_bench_case_run(&one, &device, &first) || !mha_bench_case_run(&one, &device, &second)) {
        goto cleanup;
    }
    *milliseconds += first > second ? first - second : 0;
    done = true;

cleanup:
    mha_bench_case_close(&one);
    mha_bench_device_close(&device);
    return done;
}

/* The new process. What it reports goes to the same stderr. */
static void run_child(const struct mha_bench_shape *shape, const char *selector, const char *caches,
                      int out)
{
    double milliseconds = 0;
    bool done = set_caches(caches) && measure(shape, selector, &milliseconds) &&
                write(out, &milliseconds, sizeof milliseconds) == (ssize_t)sizeof milliseconds;
    /* No exit handlers: buffered output belongs to the parent. */
    _exit(done ? MHA_EXIT_OK : MHA_EXIT_FAILED);
}

static bool wait_for(pid_t child, const char *name)
{
    int status = 0;

    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            mha_report("waitpid: %s", strerror(errno));
            return false;
        }
    }
    if (WIFSIGNALED(status)) {
        mha_report("the process that starts shape %s was ended by signal %d", name,
                   WTERMSIG(status));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == MHA_EXIT_OK;
}

static bool start_once(const struct mha_bench_shape *shape, const char *selector,
                       const char *caches, double *milliseconds)
{
    int ends[2];

    if (pipe(ends) != 0) {
        mha_report("pipe: %s", strerror(errno));
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        run_child(shape, selector, caches, ends[1]);
    }
    int error = errno;
    close(ends[1]);
    ssize_t length = child < 0 ? 0 : read(ends[0], milliseconds, sizeof *milliseconds);
    close(ends[0]);
    if (child < 0) {
        mha_report("fork: %s", strerror(error));
        return false;
    }
    return wait_for(child, shape->name) && length == (ssize_t)sizeof *milliseconds;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

bool mha_bench_start_measure(const struct mha_bench_shape *shape, const char *selector,
                             double *cold_ms, double *warm_ms)
{
    const char *parent = getenv("TMPDIR");
    char caches[4096];

    int length = snprintf(caches, sizeof caches, "%s/gpu-mha-bench-XXXXXX",
                          parent && *parent ? parent : "/tmp");
    if (length < 0 || (size_t)length >= sizeof caches || !mkdtemp(caches)) {
        mha_report("no directory for empty caches could be made below %s",
                   parent && *parent ? parent : "/tmp");
        return false;
    }
    bool done = start_once(shape, selector, caches, cold_ms) &&
                start_once(shape, selector, caches, warm_ms);
    if (nftw(caches, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        mha_report("the directory %s could not be removed", caches);
    }
    return done;
}
