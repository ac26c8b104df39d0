/*
 * Program binaries kept on disk from one process to the next.
 *
 * A cache that never matters: whatever is wrong with a file, the directory or the disk, a load
 * finds nothing, a save does nothing, and the library builds from source. Nothing here fails, and
 * nothing here touches the calling thread's last error; GPU_MHA_LOG=debug tells what happened.
 * Any number of threads and processes may use one directory.
 */
#ifndef MHA_CL_DISK_CACHE_H
#define MHA_CL_DISK_CACHE_H

#include <stddef.h>

/* What a binary is valid for, as bytes: it is compared in full, and names the file by its hash. */
struct mha_cache_key {
    const char *bytes;
    size_t size;
};

/* Bounds of the directory; beyond them the files that were used least recently go. */
enum { MHA_CACHE_FILES_MAX = 256, MHA_CACHE_BYTES_MAX = 256 << 20 };

/*
 * The directory, from the environment (see "Caches" in the public header), to be freed. NULL if the
 * cache is off, no place is known for it, or there is no memory.
 */
char *mha_disk_cache_path(void);

/*
 * Makes the directory if it is missing. 1 if files can be kept there: it is ours, and nobody else
 * may write to it, since what lies there is run.
 */
int mha_disk_cache_usable(const char *path);

/* 1, and the binary in *binary (to be freed), if it is there whole. `path` may be NULL. */
int mha_disk_cache_load(const char *path, struct mha_cache_key key, unsigned char **binary,
                        size_t *size);

/* Keeps a binary in the place of what may be there. `path` may be NULL. */
void mha_disk_cache_save(const char *path, struct mha_cache_key key, const unsigned char *binary,
                         size_t size);

#endif
