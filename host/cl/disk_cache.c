/*
 * Files of the disk cache.
 *
 * A file is a header, the key, the binary; its name is the hash of the key. It is written aside and
 * renamed, so a reader sees a whole file or none. What a crash, a full disk or a bad sector leaves
 * is found by the sizes, which must add up to the file's, by the key, which must be the same to the
 * byte, and by the hash of the binary; no byte of the file is outside of these checks.
 */
#include "cl/disk_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cl/disk_cache_dir.h"
#include "core/log.h"
#include "core/sha256.h"

/* Ends in the version of the format. */
static const char magic[8] = "mhaprog1";

/* Integers in the byte order of the machine: a file of the other order is damaged to this one. */
struct header {
    char magic[sizeof magic];
    uint64_t key_size;
    uint64_t binary_size;
    unsigned char digest[MHA_SHA256_BYTES]; /* of the binary */
};

/* Larger files are neither written nor read: a length in a damaged one must not take the memory. */
#define FILE_BYTES_MAX ((size_t)64 << 20)

enum { NAME_SIZE = MHA_SHA256_HEX + sizeof MHA_CACHE_FILE_SUFFIX };

static void name_file(struct mha_cache_key key, char name[NAME_SIZE])
{
    unsigned char digest[MHA_SHA256_BYTES];
    char text[MHA_SHA256_HEX];
    mha_sha256(key.bytes, key.size, digest);
    mha_sha256_text(digest, text);
    snprintf(name, NAME_SIZE, "%s%s", text, MHA_CACHE_FILE_SUFFIX);
}

/* Exactly `size` bytes: 1, or 0 for an error or an early end. */
static int read_all(int file, unsigned char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t got = read(file, bytes, size);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return 0;
        }
        bytes += got;
        size -= (size_t)got;
    }
    return 1;
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
            return 0;
        }
        bytes += put;
        size -= (size_t)put;
    }
    return 1;
}

/* The whole file in memory, to be freed; NULL if it cannot be one of ours. */
static unsigned char *read_file(int file, size_t *size)
{
    struct stat facts;
    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) ||
        facts.st_size < (off_t)sizeof(struct header) || facts.st_size > (off_t)FILE_BYTES_MAX) {
        return NULL;
    }
    *size = (size_t)facts.st_size;
    unsigned char *bytes = malloc(*size);
    if (bytes && !read_all(file, bytes, *size)) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

/* What is wrong with a file, or NULL. */
static const char *find_damage(const unsigned char *file, size_t size, struct mha_cache_key key)
{
    struct header header;
    memcpy(&header, file, sizeof header);
    if (memcmp(header.magic, magic, sizeof magic) != 0) {
        return "not of this format";
    }
    size_t rest = size - sizeof header;
    if (header.key_size > rest || header.binary_size != rest - header.key_size ||
        header.binary_size == 0) {
        return "its sizes do not add up";
    }
    if (header.key_size != key.size || memcmp(file + sizeof header, key.bytes, key.size) != 0) {
        return "its key is another";
    }
    unsigned char digest[MHA_SHA256_BYTES];
    mha_sha256(file + sizeof header + key.size, (size_t)header.binary_size, digest);
    if (memcmp(digest, header.digest, sizeof digest) != 0) {
        return "its checksum is wrong";
    }
    return NULL;
}

int mha_disk_cache_load(const char *path, struct mha_cache_key key, unsigned char **binary,
                        size_t *size)
{
    int dir = path ? mha_cache_dir_open(path) : -1;
    if (dir < 0) {
        return 0;
    }
    char name[NAME_SIZE];
    name_file(key, name);
    int found = 0;
    unsigned char *bytes = NULL;
    size_t file_size = 0;
    /* Non-blocking: a pipe of that name must not hold up the caller. */
    int file = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        goto cleanup;
    }

    bytes = read_file(file, &file_size);
    const char *damage = bytes ? find_damage(bytes, file_size, key) : "it cannot be read";
    if (damage) {
        mha_log(MHA_LOG_DEBUG, "pass over %s/%s: %s", path, name, damage);
        goto cleanup;
    }
    /* Its time is that of its last use. Where it cannot be set, files go by age alone. */
    futimens(file, NULL);
    *size = file_size - sizeof(struct header) - key.size;
    memmove(bytes, bytes + sizeof(struct header) + key.size, *size);
    *binary = bytes;
    bytes = NULL;
    found = 1;

cleanup:
    free(bytes);
    if (file >= 0) {
        close(file);
    }
    close(dir);
    return found;
}

/* A new file of a name that no other writer has, in this process or another; -1 without. */
static int create_aside(int dir, char name[NAME_SIZE])
{
    static atomic_uint serial;
    for (int tries = 0; tries < 16; tries++) {
        snprintf(name, NAME_SIZE, "%ld-%u%s", (long)getpid(), atomic_fetch_add(&serial, 1),
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
static int within_file_limit(size_t size)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           size <= limit.rlim_cur;
}

static int write_file(int file, const struct header *header, struct mha_cache_key key,
                      const unsigned char *binary)
{
    int done = write_all(file, header, sizeof *header) && write_all(file, key.bytes, key.size) &&
               write_all(file, binary, (size_t)header->binary_size);
    /* Some file systems tell of a full disk only here. */
    return close(file) == 0 && done;
}

void mha_disk_cache_save(const char *path, struct mha_cache_key key, const unsigned char *binary,
                         size_t size)
{
    const size_t overhead = sizeof(struct header) + key.size;
    if (!path || size == 0 || overhead > FILE_BYTES_MAX || size > FILE_BYTES_MAX - overhead ||
        !within_file_limit(overhead + size)) {
        return;
    }
    int dir = mha_cache_dir_open(path);
    if (dir < 0) {
        return;
    }
    struct header header = {.key_size = key.size, .binary_size = size};
    memcpy(header.magic, magic, sizeof magic);
    mha_sha256(binary, size, header.digest);

    char aside[NAME_SIZE], name[NAME_SIZE];
    name_file(key, name);
    int file = create_aside(dir, aside);
    if (file < 0) {
        mha_log(MHA_LOG_DEBUG, "write %s/%s: %s", path, name, strerror(errno));
    } else if (!write_file(file, &header, key, binary) || renameat(dir, aside, dir, name) != 0) {
        mha_log(MHA_LOG_DEBUG, "write %s/%s: %s", path, name, strerror(errno));
        unlinkat(dir, aside, 0);
    } else {
        mha_log(MHA_LOG_DEBUG, "kept %s/%s: %zu bytes", path, name, size);
        mha_cache_dir_trim(dir);
    }
    close(dir);
}
