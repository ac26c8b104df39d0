/* Devices and contexts. */
#include "scenario.h"

#include <string.h>

static void nothing(void) {}

static gpu_mha_context *context;

/* ---- lists ---- */

static size_t devices;
static gpu_mha_device_info infos[8];
static size_t expected_devices;

static void open_list(void)
{
    must(gpu_mha_device_count(&expected_devices));
}

static gpu_mha_status count_devices(void)
{
    devices = 77;
    return gpu_mha_device_count(&devices);
}

static void check_count(int succeeded)
{
    /* A platform that does not answer is left out. */
    if (devices > expected_devices || (!succeeded && devices != 0)) {
        complain("the count is %zu, want at most %zu", devices, expected_devices);
    }
}

static gpu_mha_status get_device(void)
{
    memset(infos, 0, sizeof infos);
    return gpu_mha_device_get(0, &infos[0]);
}

static void check_device(int succeeded)
{
    const gpu_mha_device_info *info = &infos[0];
    if (!succeeded && (info->name[0] || info->usable || info->is_default)) {
        complain("a failure wrote the device's facts");
    }
    /* A device that did not answer says so; one that did is complete. */
    if (succeeded && !info->usable && !strstr(info->reason, "failed")) {
        complain("the device is not usable, because \"%s\"", info->reason);
    }
    if (succeeded && info->usable && (!info->name[0] || !info->compute_units || info->reason[0])) {
        complain("a usable device without name or units, reason \"%s\"", info->reason);
    }
}

/* ---- contexts ---- */

static gpu_mha_status create_and_release(void)
{
    context = (gpu_mha_context *)infos;
    gpu_mha_status status = gpu_mha_context_create(NULL, &context);
    if (status != GPU_MHA_OK) {
        if (context) {
            complain("a failure left something in *context");
        }
        return status;
    }
    status = gpu_mha_context_retain(context);
    if (status == GPU_MHA_OK) {
        gpu_mha_context_release(context);
    }
    if (!gpu_mha_context_cl(context) || !gpu_mha_context_device(context)) {
        complain("a context without its OpenCL objects");
    }
    gpu_mha_context_release(context);
    return status;
}

static void check_nothing(int succeeded)
{
    (void)succeeded;
}

static cl_context own;
static cl_device_id device;

static void open_own(void)
{
    cl_int code;
    must(gpu_mha_context_create(NULL, &context));
    device = gpu_mha_context_device(context);
    own = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    must_cl(code, "clCreateContext");
    gpu_mha_context_release(context);
}

static gpu_mha_status wrap_and_release(void)
{
    context = (gpu_mha_context *)infos;
    const gpu_mha_status status = gpu_mha_context_wrap(own, device, &context);
    if (status != GPU_MHA_OK) {
        if (context) {
            complain("a failure left something in *context");
        }
        return status;
    }
    if (gpu_mha_context_cl(context) != own || gpu_mha_context_device(context) != device) {
        complain("a wrapped context has other OpenCL objects");
    }
    gpu_mha_context_release(context);
    return status;
}

static void close_own(void)
{
    clReleaseContext(own);
}

const struct scenario scenarios_device[] = {
    {.name = "device count",
     .covers = "gpu_mha_device_count",
     .open = open_list,
     .clear = nothing,
     .act = count_devices,
     .check = check_count,
     .close = nothing},
    {.name = "device facts",
     .covers = "gpu_mha_device_get",
     .open = nothing,
     .clear = nothing,
     .act = get_device,
     .check = check_device,
     .close = nothing},
    {.name = "context",
     .covers = "gpu_mha_context_create gpu_mha_context_retain gpu_mha_context_release "
               "gpu_mha_context_cl gpu_mha_context_device",
     .open = nothing,
     .clear = nothing,
     .act = create_and_release,
     .check = check_nothing,
     .close = nothing},
    {.name = "wrapped context",
     .covers = "gpu_mha_context_wrap",
     .open = open_own,
     .clear = nothing,
     .act = wrap_and_release,
     .check = check_nothing,
     .close = close_own},
    {.name = NULL}};
