/* Verdicts as entries of a file, and the public functions that set and forget them. */
#include "cl/verdicts.h"

#include <stdio.h>
#include <string.h>

#include "cl/context.h"
#include "cl/recent.h"
#include "cl/tuned.h"
#include "core/tensor.h"

static const char *const words[] = {
    [GPU_MHA_VERDICT_NONE] = "not tried",  [GPU_MHA_VERDICT_OK] = "ok",
    [GPU_MHA_VERDICT_REFUSED] = "refused", [GPU_MHA_VERDICT_WRONG] = "wrong",
    [GPU_MHA_VERDICT_FAILED] = "failed",   [GPU_MHA_VERDICT_CRASHED] = "crashed",
    [GPU_MHA_VERDICT_HUNG] = "hung"};
enum { VERDICTS = sizeof words / sizeof words[0], TYPES = 3 };

/* "NAME f16"; 0 if that is no word of the file. */
static int make_key(const char *name, gpu_mha_type type, char key[MHA_TUNED_WORD])
{
    const int length = snprintf(key, MHA_TUNED_WORD, "%s %s", name, mha_type_name(type));
    return length > 0 && length < MHA_TUNED_WORD;
}

gpu_mha_verdict mha_verdict_of(const struct mha_device *device, const char *name, gpu_mha_type type)
{
    struct mha_tuned_entry entry;
    char key[MHA_TUNED_WORD];
    if (device->verdicts == NULL || !make_key(name, type, key) ||
        !mha_tuned_get(device->verdicts, key, &entry)) {
        return GPU_MHA_VERDICT_NONE;
    }
    for (int v = 0; v < VERDICTS; v++) {
        if (strcmp(words[v], entry.value) == 0) {
            return (gpu_mha_verdict)v;
        }
    }
    return GPU_MHA_VERDICT_NONE;
}

gpu_mha_verdict mha_verdict_to_avoid(const struct mha_device *device, const char *name,
                                     unsigned types)
{
    gpu_mha_verdict worst = GPU_MHA_VERDICT_NONE;
    for (int t = 0; device->verdicts != NULL && t < TYPES; t++) {
        if (t == GPU_MHA_F32 || (types & MHA_TYPE_BIT(t)) != 0) {
            const gpu_mha_verdict found = mha_verdict_of(device, name, (gpu_mha_type)t);
            worst = found > worst ? found : worst;
        }
    }
    return worst >= GPU_MHA_VERDICT_WRONG ? worst : GPU_MHA_VERDICT_NONE;
}

gpu_mha_status mha_verdict_check(const struct mha_device *device, const char *name, unsigned types)
{
    const gpu_mha_verdict verdict = mha_verdict_to_avoid(device, name, types);
    MHA_RETURN_IF(
        verdict != GPU_MHA_VERDICT_NONE, GPU_MHA_UNSUPPORTED,
        "%s is \"%s\" on %s, as gpu-mha doctor found, and there is no other way to compute "
        "it: it must be ok; gpu-mha doctor tries again, with --forget it is taken untried",
        name, words[verdict], device->name);
    return GPU_MHA_OK;
}

const char *gpu_mha_verdict_text(gpu_mha_verdict verdict)
{
    return (unsigned)verdict < VERDICTS ? words[verdict] : "unknown verdict";
}

/* What blocking calls made ready was chosen by other verdicts. */
static void drop_recent(gpu_mha_context *context)
{
    pthread_mutex_lock(&context->queue_lock);
    mha_recent_destroy(context->recent);
    context->recent = NULL;
    pthread_mutex_unlock(&context->queue_lock);
}

/* What stands in a file: printable ASCII. */
static int is_name(const char *name)
{
    size_t length = 0;
    while (name[length] >= 0x20 && name[length] <= 0x7e) {
        length++;
    }
    return length > 0 && name[length] == '\0' && length + sizeof " bf16" < MHA_TUNED_WORD;
}

gpu_mha_status gpu_mha_verdict_set(gpu_mha_context *context, const char *name, gpu_mha_type type,
                                   gpu_mha_verdict verdict, int *kept)
{
    struct mha_tuned_entry entry = {.nanoseconds = 0};
    MHA_INVALID_IF(name == NULL || !is_name(name),
                   "name is \"%.64s\", must be the name of a variant, as gpu_mha_variant_get tells",
                   name != NULL ? name : "NULL");
    MHA_INVALID_IF((unsigned)type >= TYPES, "type is %d, must be a gpu_mha_type", (int)type);
    MHA_INVALID_IF((unsigned)verdict >= VERDICTS, "verdict is %d, must be a gpu_mha_verdict",
                   (int)verdict);
    MHA_TRY(mha_context_resolve(context, &context));
    make_key(name, type, entry.key);
    snprintf(entry.value, sizeof entry.value, "%s", words[verdict]);
    const int in_file = mha_tuned_put(context->device.verdicts, &entry);
    drop_recent(context);
    if (kept != NULL) {
        *kept = in_file;
    }
    return GPU_MHA_OK;
}

gpu_mha_status gpu_mha_verdict_get(gpu_mha_context *context, const char *name, gpu_mha_type type,
                                   gpu_mha_verdict *verdict)
{
    MHA_INVALID_IF(name == NULL, "name is NULL, must be the name of a variant");
    MHA_INVALID_IF((unsigned)type >= TYPES, "type is %d, must be a gpu_mha_type", (int)type);
    MHA_INVALID_IF(verdict == NULL, "verdict is NULL, must point to a gpu_mha_verdict");
    MHA_TRY(mha_context_resolve(context, &context));
    *verdict = mha_verdict_of(&context->device, name, type);
    return GPU_MHA_OK;
}

gpu_mha_status gpu_mha_verdict_forget(gpu_mha_context *context)
{
    MHA_TRY(mha_context_resolve(context, &context));
    const int code = mha_tuned_forget(context->device.verdicts);
    drop_recent(context);
    MHA_RETURN_IF(code != 0, GPU_MHA_INVALID,
                  "%s cannot be taken away: %s; its folder must be writable",
                  mha_tuned_path(context->device.verdicts), strerror(code));
    return GPU_MHA_OK;
}

const char *gpu_mha_verdict_file(const gpu_mha_context *context)
{
    const char *path = context != NULL ? mha_tuned_path(context->device.verdicts) : NULL;
    return path != NULL ? path : "";
}
