/*
 * What the blocking calls made ready last on a context, so that a call in a loop prepares nothing
 * anew. The one used longest ago makes room for a new one.
 *
 * An entry is known by its operation and by the bytes of its key, which hold every fact that it was
 * made from: a descriptor without pointers. Padding in a key can only cause a miss.
 */
#ifndef MHA_CL_RECENT_H
#define MHA_CL_RECENT_H

#include "cl/plan.h"

#define MHA_RECENT_MAX 16

/*
 * Both want context->queue_lock held. What they give or take is the list's: the caller may use it
 * until it unlocks or keeps another.
 */

/* The state kept for the key, or NULL. */
void *mha_recent_find(gpu_mha_context *context, const struct mha_operation *operation,
                      const void *key, size_t key_bytes);

/* Keeps a state that mha_recent_find did not find; takes it over, also on failure. */
gpu_mha_status mha_recent_keep(gpu_mha_context *context, const struct mha_operation *operation,
                               const void *key, size_t key_bytes, void *state);

/* Destroys the list and everything in it; no lock is needed, as nobody else has it. NULL-safe. */
void mha_recent_destroy(struct mha_recent *recent);

#endif
