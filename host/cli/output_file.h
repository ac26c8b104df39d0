/*
 * A file that appears under its name only when it is complete. It is written to a temporary name
 * in the same folder and renamed at the end; a failure leaves what stood there before.
 */
#ifndef MHA_CLI_OUTPUT_FILE_H
#define MHA_CLI_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct mha_output_file {
    FILE *stream;    /* NULL when nothing is open */
    char *target;    /* the name it will have; a symbolic link is followed, not replaced */
    char *temporary; /* the name it has until then */
    int failure;     /* errno of the first write that failed, else 0 */
};

/*
 * Opens the temporary file. Refuses a target that exists and is not a regular file: renaming over
 * a device such as /dev/null would destroy it. On failure nothing is left to release.
 */
bool mha_output_file_open(struct mha_output_file *file, const char *path, char *error,
                          size_t error_size);

/*
 * Appends bytes. The first failure is remembered and reported by commit, so a caller may ignore
 * the result unless it wants to stop early.
 */
bool mha_output_file_write(struct mha_output_file *file, const void *data, size_t size);

/*
 * Closes and renames. On failure, of this or of an earlier write, the temporary file is removed.
 * Releases `file` either way.
 */
bool mha_output_file_commit(struct mha_output_file *file, char *error, size_t error_size);

/*
 * Several files that appear together: between hold and release, commit leaves a file under its
 * temporary name. Release renames them all, or with `keep` false, or when one cannot be renamed,
 * removes those that are left. One group at a time.
 */
void mha_output_files_hold(void);
bool mha_output_files_release(bool keep, char *error, size_t error_size);

/* Closes and removes the temporary file. Safe after open failed, after commit, and twice. */
void mha_output_file_discard(struct mha_output_file *file);

#endif
