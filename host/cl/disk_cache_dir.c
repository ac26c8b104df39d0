/* Where the disk cache lies, whether it may be trusted, and how much it holds. */
#include "cl/disk_cache_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cl/disk_cache.h"
#include "core/log.h"
#include "core/strbuf.h"

/* A writer takes milliseconds: an unfinished file of this age has lost its writer. */
enum { ASIDE_SECONDS_MAX = 3600 };

/* Another process's files may come at any rate, so the list of one walk is bounded. */
enum { LISTED_MAX = 16 * MHA_CACHE_FILES_MAX };

static char *finish_path(struct mha_strbuf *path)
{
    if (mha_strbuf_ok(path)) {
        return path->text;
    }
    mha_strbuf_free(path);
    return NULL;
}

char *mha_disk_cache_path(void)
{
    struct mha_strbuf path = {0};
    const char *given = getenv("GPU_MHA_CACHE_DIR");
    if (given) {
        if (!*given || strcmp(given, "off") == 0) {
            return NULL;
        }
        mha_strbuf_printf(&path, "%s", given);
        return finish_path(&path);
    }
    /* The rule of the XDG base directories: a relative path there is to be ignored. */
    const char *base = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (base && *base == '/') {
        mha_strbuf_printf(&path, "%s/gpu_mha", base);
    } else if (home && *home == '/') {
        mha_strbuf_printf(&path, "%s/.cache/gpu_mha", home);
    } else {
        mha_log(MHA_LOG_DEBUG, "keep nothing: neither GPU_MHA_CACHE_DIR nor HOME is set");
        return NULL;
    }
    return finish_path(&path);
}

/* Makes the directory and what is missing above it. 0, or the errno. */
static int make_directories(const char *path)
{
    char *partial = malloc(strlen(path) + 1);
    if (!partial) {
        return ENOMEM;
    }
    memcpy(partial, path, strlen(path) + 1);
    for (char *slash = partial; (slash = strchr(slash, '/')); slash++) {
        if (slash == partial) {
            continue;
        }
        *slash = '\0';
        /* What is wrong here shows at the last one: a directory above may be there but closed. */
        mkdir(partial, 0700);
        *slash = '/';
    }
    int code = mkdir(partial, 0700) == 0 || errno == EEXIST ? 0 : errno;
    free(partial);
    return code;
}

/* A place that somebody named is told of once; one that is only missing is made when needed. */
static void tell_unusable(const char *path, int code)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (code == ENOENT || !getenv("GPU_MHA_CACHE_DIR") || atomic_flag_test_and_set(&told)) {
        mha_log(MHA_LOG_DEBUG, "open the cache %s: %s", path, strerror(code));
        return;
    }
    mha_log(MHA_LOG_WARN,
            "read GPU_MHA_CACHE_DIR: \"%s\", must be a directory or one that can be made: %s; "
            "nothing is kept",
            path, strerror(code));
}

/* `dir`, opened for `path`, if it can be trusted; else it is closed, and -1. */
static int trust(int dir, const char *path)
{
    if (dir < 0) {
        tell_unusable(path, errno);
        return -1;
    }
    struct stat facts;
    if (fstat(dir, &facts) != 0 || facts.st_uid != geteuid() ||
        (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        static atomic_flag told = ATOMIC_FLAG_INIT;
        mha_log(atomic_flag_test_and_set(&told) ? MHA_LOG_DEBUG : MHA_LOG_WARN,
                "keep nothing in %s: it must be the user's and writable to no one else", path);
        close(dir);
        return -1;
    }
    return dir;
}

int mha_cache_dir_find(const char *path)
{
    return trust(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path);
}

int mha_cache_dir_open(const char *path)
{
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 && errno == ENOENT) {
        int code = make_directories(path);
        dir = code == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        errno = code != 0 ? code : errno;
    }
    return trust(dir, path);
}

int mha_disk_cache_usable(const char *path)
{
    int dir = path ? mha_cache_dir_open(path) : -1;
    if (dir < 0) {
        return 0;
    }
    int usable = faccessat(dir, ".", W_OK | X_OK, AT_EACCESS) == 0;
    close(dir);
    return usable;
}

struct listed {
    char name[96];
    struct timespec used;
    int64_t bytes;
};

static int ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);
    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

/* Reads on. Returns 0 at the end; else *file is one of ours, or nameless if it is to be passed. */
static int next_file(DIR *stream, int dir, struct listed *file)
{
    const struct dirent *entry = readdir(stream);
    if (!entry) {
        return 0;
    }
    file->name[0] = '\0';
    int is_aside = ends_with(entry->d_name, MHA_CACHE_ASIDE_SUFFIX);
    size_t length = strlen(entry->d_name);
    struct stat facts;
    if (length >= sizeof file->name ||
        (!is_aside && !ends_with(entry->d_name, MHA_CACHE_FILE_SUFFIX)) ||
        fstatat(dir, entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode)) {
        return 1;
    }
    if (is_aside) {
        if (time(NULL) - facts.st_mtim.tv_sec > ASIDE_SECONDS_MAX) {
            unlinkat(dir, entry->d_name, 0);
        }
        return 1;
    }
    memcpy(file->name, entry->d_name, length + 1);
    file->used = facts.st_mtim;
    file->bytes = facts.st_size;
    return 1;
}

static int by_last_use(const void *a, const void *b)
{
    const struct timespec *x = &((const struct listed *)a)->used;
    const struct timespec *y = &((const struct listed *)b)->used;
    if (x->tv_sec != y->tv_sec) {
        return x->tv_sec < y->tv_sec ? -1 : 1;
    }
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

/* A stream of its own over the directory, so that closing it leaves `dir` open. */
static DIR *open_stream(int dir)
{
    int own = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = own >= 0 ? fdopendir(own) : NULL;
    if (!stream && own >= 0) {
        close(own);
    }
    return stream;
}

void mha_cache_dir_trim(int dir)
{
    struct listed *files = malloc(LISTED_MAX * sizeof *files);
    DIR *stream = open_stream(dir);
    if (!files || !stream) {
        goto cleanup;
    }

    int count = 0;
    int64_t bytes = 0;
    while (count < LISTED_MAX && next_file(stream, dir, &files[count])) {
        if (files[count].name[0]) {
            bytes += files[count++].bytes;
        }
    }
    qsort(files, (size_t)count, sizeof *files, by_last_use);
    for (int i = 0; count - i > MHA_CACHE_FILES_MAX || bytes > MHA_CACHE_BYTES_MAX; i++) {
        /* Gone already is as good: another process trims too. */
        unlinkat(dir, files[i].name, 0);
        bytes -= files[i].bytes;
    }

cleanup:
    if (stream) {
        closedir(stream);
    }
    free(files);
}
