/* Whole files: read with care, written aside and renamed. */
#include "cl/disk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cl/disk_cache_dir.h"

/* Two numbers and the suffix. */
enum { ASIDE_SIZE = 48 + sizeof MHA_CACHE_ASIDE_SUFFIX };

/* Exactly `size` bytes: 0, or the errno; EIO for an early end. */
static int read_all(int file, unsigned char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t got = read(file, bytes, size);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? errno : EIO;
        }
        bytes += got;
        size -= (size_t)got;
    }
    return 0;
}

static int write_all(int file, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    while (size > 0) {
        ssize_t put = write(file, bytes, size);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return put < 0 ? errno : EIO;
        }
        bytes += put;
        size -= (size_t)put;
    }
    return 0;
}

int mha_disk_file_read(int dir, const char *name, size_t most, unsigned char **bytes, size_t *size)
{
    /* Non-blocking: a pipe of that name must not hold up the caller. */
    int file = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        return errno;
    }
    unsigned char *made = NULL;
    struct stat facts;
    int code = fstat(file, &facts) == 0 ? 0 : errno;
    if (code != 0) {
        goto cleanup;
    }
    if (!S_ISREG(facts.st_mode) || facts.st_size < 0) {
        code = EINVAL;
        goto cleanup;
    }
    if ((unsigned long long)facts.st_size > most) {
        code = EFBIG;
        goto cleanup;
    }

    made = malloc((size_t)facts.st_size + 1);
    code = made ? read_all(file, made, (size_t)facts.st_size) : ENOMEM;
    if (code == 0) {
        made[facts.st_size] = '\0';
        *size = (size_t)facts.st_size;
        *bytes = made;
        made = NULL;
    }

cleanup:
    free(made);
    close(file);
    return code;
}

/* A new file of a name that no other writer has, in this process or another; -1 with errno. */
static int create_aside(int dir, char name[ASIDE_SIZE])
{
    static atomic_uint serial;
    for (int tries = 0; tries < 16; tries++) {
        snprintf(name, ASIDE_SIZE, "%ld-%u%s", (long)getpid(), atomic_fetch_add(&serial, 1),
                 MHA_CACHE_ASIDE_SUFFIX);
        int file = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        /* Left by a process of the same number: on another machine, or long ago. */
        if (file >= 0 || errno != EEXIST) {
            return file;
        }
    }
    return -1;
}

/* A write beyond the limit on file sizes would end the process with SIGXFSZ. */
static int within_file_limit(const struct mha_disk_part *parts, int count)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return 1;
    }
    rlim_t left = limit.rlim_cur;
    for (int i = 0; i < count; i++) {
        if (parts[i].size > left) {
            return 0;
        }
        left -= parts[i].size;
    }
    return 1;
}

int mha_disk_file_write(int dir, const char *name, const struct mha_disk_part *parts, int count)
{
    char aside[ASIDE_SIZE];
    if (!within_file_limit(parts, count)) {
        return EFBIG;
    }
    int file = create_aside(dir, aside);
    if (file < 0) {
        return errno;
    }
    int code = 0;
    for (int i = 0; i < count && code == 0; i++) {
        code = write_all(file, parts[i].bytes, parts[i].size);
    }
    /* Some file systems tell of a full disk only here. */
    if (close(file) != 0 && code == 0) {
        code = errno;
    }
    if (code == 0 && renameat(dir, aside, dir, name) != 0) {
        code = errno;
    }
    if (code != 0) {
        unlinkat(dir, aside, 0);
    }
    return code;
}
