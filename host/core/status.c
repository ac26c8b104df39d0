/* The version and the names and texts of the status codes. */
#include "core/error.h"

const char *gpu_mha_version(void)
{
    return GPU_MHA_VERSION_STRING;
}

const char *gpu_mha_status_text(gpu_mha_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text)                                                             \
    case GPU_MHA_##name:                                                                           \
        return text;
        GPU_MHA_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

const char *gpu_mha_status_name(gpu_mha_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, text)                                                             \
    case GPU_MHA_##name:                                                                           \
        return "GPU_MHA_" #name;
        GPU_MHA_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    }
    return "unknown status";
}
