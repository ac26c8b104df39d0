/*
 * What a context knows of one kind about its device, from measurements or from gpu-mha doctor: read
 * from the file when it is first asked for, and what came since. From any thread.
 */
#ifndef MHA_CL_TUNED_H
#define MHA_CL_TUNED_H

#include "cl/tuning_file.h"

struct mha_tuned;

/* `device` is read, not kept. */
gpu_mha_status mha_tuned_create(const struct mha_tuning_kind *kind, const struct mha_device *device,
                                struct mha_tuned **tuned);
void mha_tuned_destroy(struct mha_tuned *tuned); /* NULL-safe */

/* 1, and the entry of the key, if there is one. */
int mha_tuned_get(struct mha_tuned *tuned, const char *key, struct mha_tuned_entry *entry);

/* Holds from now on. 1 if it is kept in the file too; else the log says why not. */
int mha_tuned_put(struct mha_tuned *tuned, const struct mha_tuned_entry *entry);

/* Forgets all, and takes the file away. 0, or the errno of that. */
int mha_tuned_forget(struct mha_tuned *tuned);

/*
 * An entry failed with `status` and the sentence `why`, where the default did not. One warning, and
 * it is forgotten; with GPU_MHA_UNSUPPORTED it is this one problem that is not for it, and it
 * stays.
 */
void mha_tuned_reject(struct mha_tuned *tuned, const struct mha_tuned_entry *entry,
                      gpu_mha_status status, const char *why);

/* The path of the file; NULL if nothing is kept. */
const char *mha_tuned_path(const struct mha_tuned *tuned);

#endif
