/* A short list of prepared states, each owned together with a copy of its key. */
#include "cl/recent.h"

#include <stdlib.h>
#include <string.h>

#include "core/log.h"

struct entry {
    const struct mha_operation *operation; /* NULL: the place is free */
    void *key, *state;
    size_t key_bytes;
    uint64_t used; /* the clock at its latest use; 0 for a free place */
};

struct mha_recent {
    struct entry entries[MHA_RECENT_MAX];
    uint64_t clock;
};

static void clear(struct entry *entry)
{
    if (entry->operation != NULL) {
        entry->operation->destroy(entry->state);
    }
    free(entry->key);
    *entry = (struct entry){.operation = NULL};
}

void *mha_recent_find(gpu_mha_context *context, const struct mha_operation *operation,
                      const void *key, size_t key_bytes)
{
    struct mha_recent *recent = context->recent;
    for (int e = 0; recent != NULL && e < MHA_RECENT_MAX; ++e) {
        struct entry *entry = &recent->entries[e];
        if (entry->operation == operation && entry->key_bytes == key_bytes &&
            memcmp(entry->key, key, key_bytes) == 0) {
            entry->used = ++recent->clock;
            return entry->state;
        }
    }
    return NULL;
}

static struct entry *used_longest_ago(struct mha_recent *recent)
{
    struct entry *oldest = &recent->entries[0];
    for (int e = 1; e < MHA_RECENT_MAX; ++e) {
        if (recent->entries[e].used < oldest->used) {
            oldest = &recent->entries[e];
        }
    }
    return oldest;
}

gpu_mha_status mha_recent_keep(gpu_mha_context *context, const struct mha_operation *operation,
                               const void *key, size_t key_bytes, void *state)
{
    void *copy = malloc(key_bytes);
    if (context->recent == NULL) {
        context->recent = calloc(1, sizeof *context->recent);
    }
    if (copy == NULL || context->recent == NULL) {
        free(copy);
        operation->destroy(state);
        return mha_error_set(GPU_MHA_HOST_MEMORY, "no memory to keep %s", operation->name);
    }
    memcpy(copy, key, key_bytes);
    struct entry *entry = used_longest_ago(context->recent);
    mha_log(MHA_LOG_DEBUG, "keep %s: in place of %s", operation->name,
            entry->operation != NULL ? entry->operation->name : "nothing");
    clear(entry);
    *entry = (struct entry){.operation = operation,
                            .key = copy,
                            .state = state,
                            .key_bytes = key_bytes,
                            .used = ++context->recent->clock};
    return GPU_MHA_OK;
}

void mha_recent_destroy(struct mha_recent *recent)
{
    for (int e = 0; recent != NULL && e < MHA_RECENT_MAX; ++e) {
        clear(&recent->entries[e]);
    }
    free(recent);
}
