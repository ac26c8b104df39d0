/*
 * Finds the recorded cases under a folder.
 */
#ifndef MHA_CLI_VERIFY_WALK_H
#define MHA_CLI_VERIFY_WALK_H

#include <stdbool.h>

/* Told about each case, or with `problem` about a folder where none could be looked for. */
typedef void (*mha_walk_visit)(void *user, const char *folder, const char *problem);

/*
 * Visits `folder` if it has a case.json, else all such folders below it, in the order of their
 * names. Symbolic links below `folder` are not followed, so that the walk always ends. A folder
 * without any case, and one that cannot be read, is visited with a sentence in `problem`.
 */
void mha_walk_cases(const char *folder, mha_walk_visit visit, void *user);

#endif
