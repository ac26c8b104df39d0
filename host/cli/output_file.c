/* Files that appear complete or not at all; see output_file.h. */
#define _XOPEN_SOURCE 700 /* realpath */

#include "output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"

enum { NAME_ATTEMPTS = 100, TEMPORARY_NAME_SIZE = 64 };

/* The name to rename to, in *target: what `path` is a link to, or `path` itself when it is new. */
static bool resolve_target(const char *path, char **target, mode_t *mode, char *error,
                           size_t error_size)
{
    struct stat status;

    *target = NULL;
    if (strcmp(path, "-") == 0) {
        return mha_fail(error, error_size,
                        "cannot write to '-': standard output is not supported; "
                        "name a file ('./-' if it is called that)");
    }
    if (lstat(path, &status) != 0) {
        if (errno != ENOENT || *path == '\0') {
            return mha_fail(error, error_size, "cannot write '%s': %s", path, strerror(errno));
        }
        *target = strdup(path);
        if (!*target) {
            return mha_fail(error, error_size, "cannot write '%s': out of memory", path);
        }
        return true;
    }
    if (stat(path, &status) != 0) {
        return mha_fail(error, error_size,
                        "cannot write '%s': it is a symbolic link that leads "
                        "nowhere (%s)",
                        path, strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        return mha_fail(error, error_size, "cannot write '%s': it is %s, not a regular file", path,
                        S_ISDIR(status.st_mode) ? "a directory" : "a device, pipe or socket");
    }
    if (access(path, W_OK) != 0) {
        return mha_fail(error, error_size, "cannot write '%s': %s", path, strerror(errno));
    }
    *mode = status.st_mode & 0777;
    *target = realpath(path, NULL);
    if (!*target) {
        return mha_fail(error, error_size, "cannot write '%s': %s", path, strerror(errno));
    }
    return true;
}

/* Creates a file with a new name in the folder of file->target. Returns its descriptor or -1. */
static int create_temporary(struct mha_output_file *file)
{
    const char *slash = strrchr(file->target, '/');
    size_t folder = slash ? (size_t)(slash - file->target) + 1 : 0;

    file->temporary = malloc(folder + TEMPORARY_NAME_SIZE);
    if (!file->temporary) {
        return -1;
    }
    memcpy(file->temporary, file->target, folder);
    for (int attempt = 0; attempt < NAME_ATTEMPTS; attempt++) {
        snprintf(file->temporary + folder, TEMPORARY_NAME_SIZE, ".gpu-mha-%ld-%d.tmp",
                 (long)getpid(), attempt);
        int descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST) {
            return descriptor;
        }
    }
    return -1;
}

bool mha_output_file_open(struct mha_output_file *file, const char *path, char *error,
                          size_t error_size)
{
    mode_t mode = 0;
    bool done = false;
    int descriptor = -1;

    memset(file, 0, sizeof *file);
    if (!resolve_target(path, &file->target, &mode, error, error_size)) {
        goto cleanup;
    }
    descriptor = create_temporary(file);
    if (descriptor < 0) {
        mha_fail(error, error_size, "cannot write '%s': no file can be made in its folder: %s",
                 path, strerror(errno));
        free(file->temporary); /* the name is not ours to remove */
        file->temporary = NULL;
        goto cleanup;
    }
    /* A replaced file keeps its permissions; where that is refused the default ones are fine. */
    if (mode != 0 && fchmod(descriptor, mode) != 0) {
        errno = 0;
    }
    file->stream = fdopen(descriptor, "wb");
    if (!file->stream) {
        mha_fail(error, error_size, "cannot write '%s': %s", path, strerror(errno));
        close(descriptor);
        goto cleanup;
    }
    done = true;

cleanup:
    if (!done) {
        mha_output_file_discard(file);
    }
    return done;
}

bool mha_output_file_write(struct mha_output_file *file, const void *data, size_t size)
{
    if (file->failure != 0) {
        return false;
    }
    if (size == 0) {
        return true;
    }
    errno = 0;
    if (fwrite(data, 1, size, file->stream) != size) {
        file->failure = errno != 0 ? errno : EIO;
    }
    return file->failure == 0;
}

/* Files that wait for mha_output_files_release, written and closed. */
enum { HELD_MAX = 16 };
static struct mha_output_file held_files[HELD_MAX];
static int held_count;
static bool holding;

void mha_output_files_hold(void)
{
    holding = true;
}

bool mha_output_files_release(bool keep, char *error, size_t error_size)
{
    for (int i = 0; i < held_count; i++) {
        struct mha_output_file *file = &held_files[i];
        if (keep && rename(file->temporary, file->target) == 0) {
            free(file->temporary); /* gone under this name: discard must not remove it */
            file->temporary = NULL;
        } else if (keep) {
            keep =
                mha_fail(error, error_size, "cannot write '%s': %s", file->target, strerror(errno));
        }
        mha_output_file_discard(file);
    }
    held_count = 0;
    holding = false;
    return keep;
}

bool mha_output_file_commit(struct mha_output_file *file, char *error, size_t error_size)
{
    int failure = file->failure;

    errno = 0;
    if (fclose(file->stream) != 0 && failure == 0) {
        failure = errno != 0 ? errno : EIO;
    }
    file->stream = NULL;
    if (failure == 0 && holding && held_count < HELD_MAX) {
        held_files[held_count++] = *file;
        memset(file, 0, sizeof *file);
        return true;
    }
    if (failure == 0 && rename(file->temporary, file->target) != 0) {
        failure = errno;
    }
    if (failure == 0) {
        free(file->temporary); /* gone under this name: discard must not remove it */
        file->temporary = NULL;
    } else {
        mha_fail(error, error_size, "cannot write '%s': %s", file->target, strerror(failure));
    }
    mha_output_file_discard(file);
    return failure == 0;
}

void mha_output_file_discard(struct mha_output_file *file)
{
    if (file->stream) {
        fclose(file->stream);
    }
    if (file->temporary) {
        unlink(file->temporary);
    }
    free(file->temporary);
    free(file->target);
    memset(file, 0, sizeof *file);
}
