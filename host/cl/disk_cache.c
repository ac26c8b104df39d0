/*
 * Files of the disk cache.
 *
 * A file is a header, the key, the binary; its name is the hash of the key. A reader sees a
 * whole file or none. What a crash, a full disk or a bad sector leaves
 * is found by the sizes, which must add up to the file's, by the key, which must be the same to the
 * byte, and by the hash of the binary; no byte of the file is outside of these checks.
 */
#include "cl/disk_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cl/disk_cache_dir.h"
#include "cl/disk_file.h"
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

/* What is wrong with a file, or NULL. */
static const char *find_damage(const unsigned char *file, size_t size, struct mha_cache_key key)
{
    struct header header;
    if (size < sizeof header) {
        return "its sizes do not add up";
    }
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
    int code = mha_disk_file_read(dir, name, FILE_BYTES_MAX, &bytes, &file_size);
    const char *damage = code != 0 ? strerror(code) : find_damage(bytes, file_size, key);
    if (!damage) {
        /* Its time is that of its last use. Where it cannot be set, files go by age alone. */
        utimensat(dir, name, NULL, AT_SYMLINK_NOFOLLOW);
        *size = file_size - sizeof(struct header) - key.size;
        memmove(bytes, bytes + sizeof(struct header) + key.size, *size);
        *binary = bytes;
        bytes = NULL;
        found = 1;
    } else if (code != ENOENT) {
        mha_log(MHA_LOG_DEBUG, "pass over %s/%s: %s", path, name, damage);
    }
    free(bytes);
    close(dir);
    return found;
}

void mha_disk_cache_save(const char *path, struct mha_cache_key key, const unsigned char *binary,
                         size_t size)
{
    const size_t overhead = sizeof(struct header) + key.size;
    if (!path || size == 0 || overhead > FILE_BYTES_MAX || size > FILE_BYTES_MAX - overhead) {
        return;
    }
    int dir = mha_cache_dir_open(path);
    if (dir < 0) {
        return;
    }
    struct header header = {.key_size = key.size, .binary_size = size};
    memcpy(header.magic, magic, sizeof magic);
    mha_sha256(binary, size, header.digest);

    char name[NAME_SIZE];
    name_file(key, name);
    const struct mha_disk_part parts[] = {
        {&header, sizeof header}, {key.bytes, key.size}, {binary, size}};
    int code = mha_disk_file_write(dir, name, parts, 3);
    if (code != 0) {
        mha_log(MHA_LOG_DEBUG, "write %s/%s: %s", path, name, strerror(code));
    } else {
        mha_log(MHA_LOG_DEBUG, "kept %s/%s: %zu bytes", path, name, size);
        mha_cache_dir_trim(dir);
    }
    close(dir);
}
