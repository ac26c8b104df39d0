/* The entries of one context, behind a lock. */
#include "cl/tuned.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

struct mha_tuned {
    pthread_mutex_t lock;
    struct mha_tuning_file file;
    int loaded;
    struct mha_tuned_list list;
};

gpu_mha_status mha_tuned_create(const struct mha_tuning_kind *kind, const struct mha_device *device,
                                struct mha_tuned **tuned)
{
    struct mha_tuned *made = calloc(1, sizeof *made);
    MHA_RETURN_IF(!made, GPU_MHA_HOST_MEMORY, "no memory for what was measured on a device");
    if (pthread_mutex_init(&made->lock, NULL) != 0) {
        free(made);
        return mha_error_set(GPU_MHA_HOST_MEMORY, "no memory for the lock of measured values");
    }
    mha_tuning_file_open(&made->file, kind, device);
    *tuned = made;
    return GPU_MHA_OK;
}

void mha_tuned_destroy(struct mha_tuned *tuned)
{
    if (tuned) {
        mha_tuning_file_close(&tuned->file);
        pthread_mutex_destroy(&tuned->lock);
        free(tuned);
    }
}

/* With the lock held. */
static void load_once(struct mha_tuned *tuned)
{
    if (!tuned->loaded) {
        mha_tuning_file_load(&tuned->file, &tuned->list);
        tuned->loaded = 1;
    }
}

int mha_tuned_get(struct mha_tuned *tuned, const char *key, struct mha_tuned_entry *entry)
{
    pthread_mutex_lock(&tuned->lock);
    load_once(tuned);
    const struct mha_tuned_entry *found = mha_tuned_find(&tuned->list, key);
    if (found) {
        *entry = *found;
    }
    pthread_mutex_unlock(&tuned->lock);
    return found != NULL;
}

int mha_tuned_put(struct mha_tuned *tuned, const struct mha_tuned_entry *entry)
{
    struct mha_tuned_list *on_disk = calloc(1, sizeof *on_disk);
    pthread_mutex_lock(&tuned->lock);
    load_once(tuned);
    mha_tuned_set(&tuned->list, entry);
    const int kept = on_disk && mha_tuning_file_save(&tuned->file, entry, on_disk);
    if (!on_disk) {
        mha_log(MHA_LOG_WARN, "keep %s of %s in this context alone: no memory",
                tuned->file.kind->what, entry->key);
    }
    /* What other processes measured meanwhile comes along. */
    for (int i = 0; kept && i < on_disk->count; i++) {
        mha_tuned_set(&tuned->list, &on_disk->entries[i]);
    }
    pthread_mutex_unlock(&tuned->lock);
    free(on_disk);
    return kept;
}

int mha_tuned_forget(struct mha_tuned *tuned)
{
    pthread_mutex_lock(&tuned->lock);
    tuned->list.count = 0;
    tuned->loaded = 1;
    const int code = mha_tuning_file_remove(&tuned->file);
    pthread_mutex_unlock(&tuned->lock);
    return code;
}

void mha_tuned_reject(struct mha_tuned *tuned, const struct mha_tuned_entry *entry,
                      gpu_mha_status status, const char *why)
{
    if (status == GPU_MHA_UNSUPPORTED) {
        mha_log(MHA_LOG_INFO, "skip \"%s\" for %s: %s", entry->value, entry->key, why);
        return;
    }
    pthread_mutex_lock(&tuned->lock);
    struct mha_tuned_entry *found = mha_tuned_find(&tuned->list, entry->key);
    const int present = found && strcmp(found->value, entry->value) == 0;
    if (present) {
        *found = tuned->list.entries[--tuned->list.count];
    }
    pthread_mutex_unlock(&tuned->lock);
    if (present) {
        mha_log(MHA_LOG_WARN, "pass over \"%s\" for %s in %s: %s; gpu-mha tune measures anew",
                entry->value, entry->key,
                tuned->file.path ? tuned->file.path : "the values of this context", why);
    }
}

const char *mha_tuned_path(const struct mha_tuned *tuned)
{
    return tuned->file.path;
}
