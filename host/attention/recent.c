/* A short list of attentions, the one used longest ago making room for a new one. */
#include "attention/recent.h"

#include <stdlib.h>
#include <string.h>

#define RECENT_MAX 16

struct recent {
    struct {
        gpu_mha_desc desc; /* compared byte by byte: padding can only cause a miss */
        struct mha_attention *attention;
        uint64_t used;
    } entries[RECENT_MAX];
    uint64_t clock;
};

static void destroy(void *kept) {
    struct recent *recent = kept;
    for (int e = 0; e < RECENT_MAX; ++e) {
        mha_attention_destroy(recent->entries[e].attention);
    }
    free(recent);
}

gpu_mha_status mha_recent_get(gpu_mha_context *context, const gpu_mha_desc *desc,
                              struct mha_attention **attention) {
    struct recent *recent = context->kept;
    if (recent == NULL) {
        recent = calloc(1, sizeof *recent);
        MHA_RETURN_IF(recent == NULL, GPU_MHA_HOST_MEMORY, "no memory for the list of plans");
        context->kept = recent;
        context->kept_destroy = destroy;
    }
    int oldest = 0;
    for (int e = 0; e < RECENT_MAX; ++e) {
        if (recent->entries[e].attention != NULL &&
            memcmp(&recent->entries[e].desc, desc, sizeof *desc) == 0) {
            recent->entries[e].used = ++recent->clock;
            *attention = recent->entries[e].attention;
            return GPU_MHA_OK;
        }
        if (recent->entries[e].used < recent->entries[oldest].used) {
            oldest = e;
        }
    }
    struct mha_attention *made = NULL;
    MHA_TRY(mha_attention_create(context, desc, &made));
    mha_attention_destroy(recent->entries[oldest].attention);
    memcpy(&recent->entries[oldest].desc, desc, sizeof *desc);
    recent->entries[oldest].attention = made;
    recent->entries[oldest].used = ++recent->clock;
    *attention = made;
    return GPU_MHA_OK;
}
