/*
 * The directory of the disk cache: made, trusted, kept within bounds. For disk_cache.c. */
#ifndef MHA_CL_DISK_CACHE_DIR_H
#define MHA_CL_DISK_CACHE_DIR_H

#define MHA_CACHE_FILE_SUFFIX ".program"
#define MHA_CACHE_ASIDE_SUFFIX ".aside" /* of a file that is being written */

/* A descriptor of the directory, made if it is missing, or -1 with a line in the log. */
int mha_cache_dir_open(const char *path);

/* The same, but a directory that is missing stays so. */
int mha_cache_dir_find(const char *path);

/*
 * Removes what exceeds the bounds, least recently used first, and what a writer that died has left.
 * Files with other names are never touched. Several processes may do so at once.
 */
void mha_cache_dir_trim(int dir);

#endif
