/* From a selector to a device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cl/device.h"
#include "cl/device_list.h"
#include "core/log.h"
#include "core/strbuf.h"

static const struct type_word {
    const char *word;
    cl_device_type type;
} type_words[] = {
    /* In the order of preference. */
    {"gpu", CL_DEVICE_TYPE_GPU},
    {"accelerator", CL_DEVICE_TYPE_ACCELERATOR},
    {"cpu", CL_DEVICE_TYPE_CPU},
};
enum { TYPE_COUNT = sizeof type_words / sizeof type_words[0] };

/* What a selector asks for. */
struct wish {
    enum { WISH_ANY, WISH_TYPE, WISH_INDEX, WISH_TEXT } kind;
    cl_device_type type;
    unsigned long platform, device;
    const char *text;
};

/* Reads digits only: no sign, no blank, which strtoul would take. A huge number saturates. */
static int read_index(const char **text, unsigned long *number)
{
    if (**text < '0' || **text > '9') {
        return 0;
    }
    char *end;
    *number = strtoul(*text, &end, 10);
    *text = end;
    return 1;
}

static struct wish read_selector(const char *selector)
{
    struct wish wish = {WISH_ANY, 0, 0, 0, selector};
    if (!*selector) {
        return wish;
    }
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (strcasecmp(selector, type_words[i].word) == 0) {
            wish.kind = WISH_TYPE;
            wish.type = type_words[i].type;
            return wish;
        }
    }
    const char *at = selector;
    if (read_index(&at, &wish.platform) && *at++ == ':' && read_index(&at, &wish.device) && !*at) {
        wish.kind = WISH_INDEX;
    } else {
        wish.kind = WISH_TEXT;
    }
    return wish;
}

/* 1 if `part` lies in `text`, whatever the case of ASCII letters. */
static int contains(const char *text, const char *part)
{
    size_t length = strlen(part);
    for (; strlen(text) >= length; text++) {
        if (strncasecmp(text, part, length) == 0) {
            return 1;
        }
    }
    return 0;
}

static int fits(const struct wish *wish, const struct mha_listed_device *listed,
                const gpu_mha_device_info *info)
{
    switch (wish->kind) {
    case WISH_ANY:
        return 1;
    case WISH_TYPE:
        return (info->type & wish->type) != 0;
    case WISH_INDEX:
        return listed->platform_index == wish->platform && listed->device_index == wish->device;
    case WISH_TEXT:
        return contains(info->name, wish->text) || contains(info->vendor, wish->text) ||
               contains(info->platform, wish->text);
    }
    return 0;
}

static int type_rank(cl_device_type type)
{
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (type & type_words[i].type) {
            return i;
        }
    }
    return TYPE_COUNT;
}

/* 1 if a is better than b; of equals the earlier one in the list stays. */
static int better(const gpu_mha_device_info *a, const gpu_mha_device_info *b)
{
    int rank_a = type_rank(a->type), rank_b = type_rank(b->type);
    if (rank_a != rank_b) {
        return rank_a < rank_b;
    }
    return a->compute_units > b->compute_units;
}

int mha_device_pick(struct mha_device_list *list, const char *selector, size_t *index)
{
    struct wish wish = read_selector(selector);
    gpu_mha_device_info best = {0};
    int found = 0;
    for (size_t i = 0; i < list->count; i++) {
        gpu_mha_device_info info;
        const cl_int code = mha_device_describe(&list->devices[i], &info);
        if (code != CL_SUCCESS && list->unanswered_code == CL_SUCCESS) {
            list->unanswered_code = code;
            list->unanswered_call = "clGetDeviceInfo";
        }
        if (!fits(&wish, &list->devices[i], &info)) {
            continue;
        }
        if (!info.usable) {
            mha_log(MHA_LOG_INFO, "skip device %s: %s", info.selector, info.reason);
            continue;
        }
        if (found && !better(&info, &best)) {
            continue;
        }
        best = info;
        *index = i;
        found = 1;
    }
    return found;
}

const char *mha_device_default_selector(void)
{
    const char *selector = getenv("GPU_MHA_DEVICE");
    return selector ? selector : "";
}

/* The devices that are there, so that the caller can choose again. */
static void tell_devices(const struct mha_device_list *list, struct mha_strbuf *there)
{
    for (size_t i = 0; i < list->count; i++) {
        gpu_mha_device_info info;
        mha_device_describe(&list->devices[i], &info);
        mha_strbuf_printf(there, "%s%s \"%.60s\"", i ? ", " : "", info.selector, info.name);
        if (!info.usable) {
            mha_strbuf_printf(there, " (not usable: %s)", info.reason);
        }
    }
}

/* GPU_MHA_NO_DEVICE; if someone did not answer, that may be why, and its code is told. */
static gpu_mha_status nothing_fits(const struct mha_device_list *list, const char *source,
                                   const char *selector)
{
    if (list->platform_count == 0) {
        return mha_error_set(GPU_MHA_NO_DEVICE, "no OpenCL platform is installed");
    }
    struct mha_strbuf what = {0};
    if (list->count == 0) {
        mha_strbuf_printf(&what, "none of the %u OpenCL platforms has a device",
                          list->platform_count);
    } else if (*selector) {
        mha_strbuf_printf(&what, "%s \"%.200s\" fits no usable device of: ", source, selector);
        tell_devices(list, &what);
    } else {
        mha_strbuf_printf(&what, "no device is usable of: ");
        tell_devices(list, &what);
    }
    gpu_mha_status status;
    if (list->unanswered_code != CL_SUCCESS) {
        status = mha_error_behind(GPU_MHA_NO_DEVICE, list->unanswered_code, list->unanswered_call,
                                  "%s", mha_strbuf_text(&what));
    } else {
        status = mha_error_set(GPU_MHA_NO_DEVICE, "%s", mha_strbuf_text(&what));
    }
    mha_strbuf_free(&what);
    return status;
}

gpu_mha_status mha_device_select(const char *selector, cl_device_id *id)
{
    *id = NULL;
    const char *source = "selector";
    if (!selector || !*selector) {
        source = "GPU_MHA_DEVICE";
        selector = mha_device_default_selector();
    }
    struct mha_device_list list;
    MHA_TRY(mha_device_list_read(&list));

    gpu_mha_status status = GPU_MHA_OK;
    size_t index;
    if (mha_device_pick(&list, selector, &index)) {
        *id = list.devices[index].id;
    } else {
        status = nothing_fits(&list, source, selector);
    }
    mha_device_list_free(&list);
    return status;
}
