/*
 * Whole files of the cache directory: read at once, written aside and renamed, so that a reader
 * sees a whole file or none. What is in them is the business of disk_cache.c and tuning_file.c.
 */
#ifndef MHA_CL_DISK_FILE_H
#define MHA_CL_DISK_FILE_H

#include <stddef.h>

/*
 * All of a regular file of at most `most` bytes, to be freed, with a NUL behind it. 0, or the
 * errno: ENOENT if nothing has that name, EFBIG if it is larger, EINVAL if it is no regular file.
 */
int mha_disk_file_read(int dir, const char *name, size_t most, unsigned char **bytes, size_t *size);

struct mha_disk_part {
    const void *bytes;
    size_t size;
};

/*
 * The parts, one behind the other, in the place of what may have that name. 0, or the errno, and
 * then nothing has changed and nothing is left aside.
 */
int mha_disk_file_write(int dir, const char *name, const struct mha_disk_part *parts, int count);

#endif
