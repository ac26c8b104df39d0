/* All devices of all platforms, in the order that gpu_mha_device_get and "P:D" count in. */
#ifndef MHA_CL_DEVICE_LIST_H
#define MHA_CL_DEVICE_LIST_H

#include "core/error.h"

struct mha_listed_device {
    cl_device_id id;
    cl_platform_id platform;
    cl_uint platform_index, device_index;
};

struct mha_device_list {
    struct mha_listed_device *devices;
    size_t count;
    cl_uint platform_count; /* also those without a device */
    /* The first platform or device that did not answer; CL_SUCCESS if all do. */
    cl_int unanswered_code;
    const char *unanswered_call;
};

/* Having no platform is an empty list. A platform that does not answer is left out with a warning.
 */
gpu_mha_status mha_device_list_read(struct mha_device_list *list);
void mha_device_list_free(struct mha_device_list *list);

/*
 * All fields of `info` but is_default. A device that does not answer has a reason not to be used;
 * the code of that query is returned.
 */
cl_int mha_device_describe(const struct mha_listed_device *listed, gpu_mha_device_info *info);

/*
 * The index of the device that a selector, already free of NULL and of the environment, stands for;
 * "" is the best of all. Returns 0 if no usable device fits. Records no error, but in the list who
 * did not answer.
 */
int mha_device_pick(struct mha_device_list *list, const char *selector, size_t *index);

/* What a selector NULL or "" stands for: GPU_MHA_DEVICE, else "". */
const char *mha_device_default_selector(void);

#endif
