/*
 * The text that selects a device, among devices of the input's making.
 *
 * Input: how many devices, their facts, then the text.
 */
#include <string.h>

#include "fuzz/fake_cl.h"

/* What the list tells of each is whole, and at most one is the default. */
static void check_list(void)
{
    size_t count = 0;
    int defaults = 0;
    FUZZ_ASSERT(gpu_mha_device_count(&count) == GPU_MHA_OK && count <= FAKE_DEVICES_MAX);
    for (size_t i = 0; i < count; i++) {
        gpu_mha_device_info info = {.struct_size = sizeof info};
        FUZZ_ASSERT(gpu_mha_device_get(i, &info) == GPU_MHA_OK);
        FUZZ_ASSERT(memchr(info.name, '\0', sizeof info.name) != NULL);
        FUZZ_ASSERT(memchr(info.vendor, '\0', sizeof info.vendor) != NULL);
        FUZZ_ASSERT(info.usable == (info.reason[0] == '\0'));
        FUZZ_ASSERT(!info.is_default || info.usable);
        defaults += info.is_default;
        /* Its own selector finds it, and nothing else. */
        gpu_mha_context *context = NULL;
        const gpu_mha_status status = gpu_mha_context_create(info.selector, &context);
        FUZZ_ASSERT((status == GPU_MHA_OK) == (context != NULL));
        FUZZ_ASSERT(status != GPU_MHA_OK || info.usable);
        FUZZ_ASSERT(status == GPU_MHA_OK || !info.usable || fake_refusals() > 0);
        gpu_mha_context_release(context);
    }
    FUZZ_ASSERT(defaults <= 1);
    gpu_mha_device_info info = {.struct_size = sizeof info};
    FUZZ_ASSERT(gpu_mha_device_get(count, &info) == GPU_MHA_INVALID);
    fuzz_check_sentence(GPU_MHA_INVALID, "index");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    struct fake_facts facts[FAKE_DEVICES_MAX];
    const uint8_t first = fuzz_byte(&bytes);
    const size_t count = first % (FAKE_DEVICES_MAX + 1);
    fuzz_settle();
    for (size_t i = 0; i < count; i++) {
        facts[i] = fuzz_byte(&bytes) & 1 ? fake_facts_read(&bytes) : fake_cpu;
    }
    fake_devices(facts, count, (first >> 4) % (count + 1));
    char *text = fuzz_text(&bytes);
    fuzz_environment("GPU_MHA_DEVICE", "");
    check_list();

    /* From the argument and from the environment it means the same. */
    gpu_mha_context *context = NULL, *second = NULL;
    const gpu_mha_status status = gpu_mha_context_create(text, &context);
    FUZZ_ASSERT((status == GPU_MHA_OK) == (context != NULL));
    if (status != GPU_MHA_OK) {
        fuzz_check_sentence(status, "selector");
        FUZZ_ASSERT(status == GPU_MHA_NO_DEVICE || fake_refusals() > 0);
    }
    fuzz_environment("GPU_MHA_DEVICE", text);
    FUZZ_ASSERT(gpu_mha_context_create(NULL, &second) == status);
    FUZZ_ASSERT(gpu_mha_context_device(context) == gpu_mha_context_device(second));
    gpu_mha_context_release(context);
    gpu_mha_context_release(second);
    free(text);
    FUZZ_ASSERT(fake_live() == 0);
    return 0;
}
