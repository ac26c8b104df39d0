/* The list of devices and its public face. */
#include "cl/device_list.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/device.h"
#include "cl/process.h"
#include "core/log.h"

/* The ICD loader's answer where there is no driver; its header need not be installed. */
enum { PLATFORM_NOT_FOUND = -1001 };

static void leave_out(struct mha_device_list *list, cl_uint platform_index, cl_int code)
{
    mha_log(MHA_LOG_WARN, "skip platform %u: clGetDeviceIDs gives %s (%d)", platform_index,
            mha_error_cl_name(code), (int)code);
    if (list->unanswered_code == CL_SUCCESS) {
        list->unanswered_code = code;
        list->unanswered_call = "clGetDeviceIDs";
    }
}

/*
 * Appends the devices of one platform. Between the two queries devices may come and go; the smaller
 * count holds.
 */
static gpu_mha_status add_platform(struct mha_device_list *list, cl_platform_id platform,
                                   cl_uint platform_index)
{
    cl_uint room = 0;
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &room);
    if (code == CL_DEVICE_NOT_FOUND || (code == CL_SUCCESS && room == 0)) {
        return GPU_MHA_OK;
    }
    if (code != CL_SUCCESS) {
        leave_out(list, platform_index, code);
        return GPU_MHA_OK;
    }
    gpu_mha_status status = GPU_MHA_OK;
    struct mha_listed_device *grown = NULL;
    cl_uint count = 0;
    cl_device_id *ids = calloc(room, sizeof *ids);
    if (!ids) {
        status = mha_error_set(GPU_MHA_HOST_MEMORY, "no memory for a list of %u devices", room);
        goto cleanup;
    }
    code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, room, ids, &count);
    if (code != CL_SUCCESS) {
        leave_out(list, platform_index, code);
        goto cleanup;
    }
    if (count > room) {
        count = room;
    }
    grown = realloc(list->devices, (list->count + count) * sizeof *grown);
    if (!grown) {
        status = mha_error_set(GPU_MHA_HOST_MEMORY, "no memory for a list of %u devices", count);
        goto cleanup;
    }
    list->devices = grown;
    for (cl_uint i = 0; i < count; i++) {
        grown[list->count++] = (struct mha_listed_device){ids[i], platform, platform_index, i};
    }

cleanup:
    free(ids);
    return status;
}

gpu_mha_status mha_device_list_read(struct mha_device_list *list)
{
    *list = (struct mha_device_list){0};
    cl_uint room = 0;
    cl_int code = clGetPlatformIDs(0, NULL, &room);
    if (code == PLATFORM_NOT_FOUND || (code == CL_SUCCESS && room == 0)) {
        return GPU_MHA_OK;
    }
    MHA_TRY_CL(code, "clGetPlatformIDs", "counting the platforms");

    gpu_mha_status status = GPU_MHA_OK;
    cl_platform_id *platforms = calloc(room, sizeof *platforms);
    if (!platforms) {
        return mha_error_set(GPU_MHA_HOST_MEMORY, "no memory for a list of %u platforms", room);
    }
    cl_uint count = 0;
    code = clGetPlatformIDs(room, platforms, &count);
    if (code != CL_SUCCESS) {
        status = mha_error_cl(code, "clGetPlatformIDs", "listing %u platforms", room);
    } else {
        list->platform_count = count < room ? count : room;
    }
    for (cl_uint i = 0; status == GPU_MHA_OK && i < list->platform_count; i++) {
        status = add_platform(list, platforms[i], i);
    }
    free(platforms);
    if (status != GPU_MHA_OK) {
        mha_device_list_free(list);
        return status;
    }
    mha_log(MHA_LOG_DEBUG, "found %zu devices on %u platforms", list->count, list->platform_count);
    return GPU_MHA_OK;
}

void mha_device_list_free(struct mha_device_list *list)
{
    free(list->devices);
    *list = (struct mha_device_list){0};
}

cl_int mha_device_describe(const struct mha_listed_device *listed, gpu_mha_device_info *info)
{
    *info = (gpu_mha_device_info){.struct_size = sizeof *info};
    snprintf(info->selector, sizeof info->selector, "%u:%u", listed->platform_index % 1000000u,
             listed->device_index % 1000000u);

    struct mha_device device;
    const char *query;
    cl_int code = mha_device_read(listed->id, &device, &query);
    memcpy(info->name, device.name, sizeof info->name);
    info->type = device.type;
    info->compute_units = device.compute_units;
    info->global_bytes = device.global_bytes;
    info->max_alloc_bytes = device.max_alloc_bytes;
    info->local_bytes = device.local_bytes;
    info->max_work_group_size = device.max_work_group_size;
    /* Texts that only people read may stay empty. */
    mha_device_text(listed->id, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
    mha_device_text(listed->id, CL_DEVICE_VERSION, info->version, sizeof info->version);
    mha_device_text(listed->id, CL_DRIVER_VERSION, info->driver, sizeof info->driver);
    mha_platform_text(listed->platform, CL_PLATFORM_NAME, info->platform, sizeof info->platform);

    if (code != CL_SUCCESS) {
        snprintf(info->reason, sizeof info->reason, "%s failed: %s (%d)", query,
                 mha_error_cl_name(code), (int)code);
    } else {
        code = mha_device_obstacle(listed->id, info->reason, sizeof info->reason, &query);
    }
    info->usable = info->reason[0] == '\0';
    return code;
}

gpu_mha_status gpu_mha_device_count(size_t *count)
{
    MHA_INVALID_IF(!count, "count is NULL, must point to a size_t");
    *count = 0;
    MHA_TRY(mha_process_check());
    struct mha_device_list list;
    MHA_TRY(mha_device_list_read(&list));
    *count = list.count;
    mha_device_list_free(&list);
    return GPU_MHA_OK;
}

/* 1 if the device is the one that a selector NULL stands for. */
static int is_default(struct mha_device_list *list, size_t index)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const char *selector = mha_device_default_selector();
    size_t chosen;
    if (mha_device_pick(list, selector, &chosen)) {
        return chosen == index;
    }
    /* A context would be refused with this; a list must not look as if nothing were wrong. */
    if (selector[0] != '\0' && !atomic_flag_test_and_set(&told)) {
        mha_log(MHA_LOG_WARN,
                "read GPU_MHA_DEVICE: \"%.200s\", must fit a usable device; there is no default",
                selector);
    }
    return 0;
}

gpu_mha_status gpu_mha_device_get(size_t index, gpu_mha_device_info *info)
{
    MHA_INVALID_IF(!info, "info is NULL, must point to a gpu_mha_device_info");
    /* All fields are of version 0.1, so its size is today's. */
    size_t known = info->struct_size ? info->struct_size : sizeof *info;
    MHA_INVALID_IF(known < sizeof *info, "info.struct_size is %zu, must be 0 or at least %zu",
                   known, sizeof *info);
    MHA_TRY(mha_process_check());
    struct mha_device_list list;
    MHA_TRY(mha_device_list_read(&list));

    gpu_mha_status status = GPU_MHA_OK;
    if (index >= list.count && list.unanswered_code != CL_SUCCESS) {
        status =
            mha_error_behind(GPU_MHA_INVALID, list.unanswered_code, list.unanswered_call,
                             "index is %zu, must be less than the %zu devices", index, list.count);
    } else if (index >= list.count) {
        status = mha_error_set(GPU_MHA_INVALID, "index is %zu, must be less than the %zu devices",
                               index, list.count);
    } else {
        gpu_mha_device_info found;
        mha_device_describe(&list.devices[index], &found);
        found.is_default = is_default(&list, index);
        found.struct_size = info->struct_size;
        *info = found;
    }
    mha_device_list_free(&list);
    return status;
}
