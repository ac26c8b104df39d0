/* The devices, as their drivers describe them, and how a test changes one. */
#include "zoo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((cl_ulong)1 << 10)
#define MIB ((cl_ulong)1 << 20)
#define GIB ((cl_ulong)1 << 30)

#define GROUP(n) .group = (n), .items = {(n), (n), (n)}

#define LOCAL(bytes) .local = (bytes), .local_type = CL_LOCAL
#define NO_CACHE(bytes) .local = (bytes), .local_type = CL_GLOBAL /* global memory, in truth */

#define WORDS                                                                                      \
    "cl_khr_global_int32_base_atomics cl_khr_local_int32_base_atomics "                            \
    "cl_khr_byte_addressable_store"

static const struct zoo_device devices[] = {
    /* No maker's: what a test of single limits changes. */
    {.name = "gpu",
     .title = "A GPU",
     .vendor = "A maker",
     LOCAL(32 * KIB),
     .vendor_id = 0x1234,
     .extensions = WORDS,
     GROUP(256)},
    {.name = "accelerator",
     .title = "An accelerator",
     .vendor = "A maker",
     LOCAL(32 * KIB),
     .vendor_id = 0x1234,
     .extensions = WORDS,
     GROUP(256),
     .type = CL_DEVICE_TYPE_ACCELERATOR},
    {.name = "cpu",
     .title = "A CPU",
     .vendor = "A maker",
     NO_CACHE(32 * KIB),
     .vendor_id = 0x1234,
     .extensions = WORDS " cl_khr_fp64",
     GROUP(1024),
     .type = CL_DEVICE_TYPE_CPU,
     .width = 4,
     .has_double = 1},
    {.name = "embedded",
     .title = "A small GPU",
     .vendor = "A maker",
     NO_CACHE(KIB),
     .vendor_id = 0x1234,
     .extensions = WORDS " cles_khr_int64",
     GROUP(64),
     .is_embedded = 1,
     .lacks_images = 1,
     .alloc = 16 * MIB,
     .global = 64 * MIB,
     .units = 1},

    {.name = "nvidia",
     .title = "NVIDIA A100-SXM4-40GB",
     .vendor = "NVIDIA Corporation",
     LOCAL(48 * KIB),
     .vendor_id = 0x10de,
     .version = 30,
     .suffix = "CUDA",
     .extensions = WORDS " cl_khr_fp64 cl_nv_compiler_options cl_nv_device_attribute_query",
     GROUP(1024),
     .alloc = 10 * GIB,
     .global = 40 * GIB,
     .align = 512,
     .params = 4352,
     .units = 108,
     .capability = 80,
     .lanes = 32,
     .has_double = 1},
    {.name = "nvidia-kepler",
     .title = "GeForce GT 730",
     .vendor = "NVIDIA Corporation",
     LOCAL(48 * KIB - 1),
     .vendor_id = 0x10de,
     .suffix = "CUDA",
     .extensions = WORDS " cl_khr_fp64 cl_nv_compiler_options cl_nv_device_attribute_query",
     GROUP(1024),
     .kernel_group = 256,
     .alloc = 512 * MIB,
     .global = 2 * GIB,
     .align = 512,
     .params = 4352,
     .units = 2,
     .capability = 35,
     .lanes = 32,
     .has_double = 1,
     .refusal = ZOO_BUILD_FAILURE},
    {.name = "amd-wave64",
     .title = "gfx90a:sramecc+:xnack-",
     .vendor = "Advanced Micro Devices, Inc.",
     LOCAL(64 * KIB),
     .vendor_id = 0x1002,
     .version = 20,
     .extensions = WORDS " cl_khr_fp64 cl_khr_fp16 cl_khr_subgroups cl_amd_device_attribute_query",
     .group = 256,
     .items = {1024, 1024, 1024},
     .alloc = 48 * GIB,
     .global = 64 * GIB,
     .align = 256,
     .units = 104,
     .board = "AMD Instinct MI210",
     .lanes = 64,
     .has_double = 1,
     .refusal = ZOO_BUILD_FAILURE},
    {.name = "amd-wave32",
     .title = "gfx1030",
     .vendor = "Advanced Micro Devices, Inc.",
     LOCAL(64 * KIB),
     .vendor_id = 0x1002,
     .version = 20,
     .extensions = WORDS " cl_khr_fp64 cl_khr_fp16 cl_khr_subgroups cl_amd_device_attribute_query",
     .group = 256,
     .items = {1024, 1024, 1024},
     .alloc = 13 * GIB,
     .global = 16 * GIB,
     .align = 256,
     .units = 36,
     .board = "AMD Radeon RX 6600",
     .lanes = 32,
     .has_double = 1},
    {.name = "intel-gen9",
     .title = "Intel(R) HD Graphics 530",
     .vendor = "Intel(R) Corporation",
     LOCAL(64 * KIB),
     .vendor_id = 0x8086,
     .version = 30,
     .suffix = "NEO ",
     .extensions = WORDS " cl_khr_fp16 cl_khr_subgroups cl_intel_subgroups "
                         "cl_intel_required_subgroup_size cl_intel_subgroups_short",
     GROUP(256),
     .alloc = 4 * GIB,
     .global = 12 * GIB,
     .align = 128,
     .params = 2048,
     .units = 24,
     .sub_groups = {8, 16, 32}},
    {.name = "intel-pvc",
     .title = "Intel(R) Data Center GPU Max 1100",
     .vendor = "Intel(R) Corporation",
     LOCAL(128 * KIB),
     .vendor_id = 0x8086,
     .version = 30,
     .suffix = "NEO ",
     .extensions = WORDS " cl_khr_fp16 cl_khr_fp64 cl_khr_subgroups cl_intel_subgroups "
                         "cl_intel_required_subgroup_size cl_intel_subgroups_short",
     GROUP(1024),
     .alloc = 40 * GIB,
     .global = 48 * GIB,
     .align = 128,
     .params = 2048,
     .units = 448,
     .sub_groups = {16, 32},
     .has_double = 1},
    {.name = "adreno",
     .title = "QUALCOMM Adreno(TM)",
     .vendor = "QUALCOMM",
     LOCAL(32 * KIB),
     .vendor_id = 0x5143,
     .version = 20,
     .suffix = "Adreno(TM) 640",
     .extensions = WORDS " cl_khr_fp16 cl_khr_subgroups cl_qcom_subgroup_shuffle",
     GROUP(1024),
     .kernel_group = 128,
     .alloc = GIB,
     .global = 3 * GIB,
     .params = 1024,
     .units = 2},
    {.name = "adreno-embedded",
     .title = "QUALCOMM Adreno(TM)",
     .vendor = "QUALCOMM",
     LOCAL(8 * KIB),
     .vendor_id = 0x5143,
     .version = 11,
     .suffix = "Adreno(TM) 320",
     .is_embedded = 1,
     .extensions = WORDS,
     GROUP(256),
     .alloc = 256 * MIB,
     .global = GIB,
     .units = 4},
    {.name = "mali-midgard",
     .title = "Mali-T860",
     .vendor = "ARM",
     NO_CACHE(32 * KIB),
     .vendor_id = 0x8602000,
     .suffix = "v1.r22p0",
     .extensions = WORDS " cl_khr_fp16 cl_khr_fp64",
     GROUP(256),
     .kernel_group = 64,
     .alloc = 512 * MIB,
     .global = 2 * GIB,
     .units = 4,
     .width = 4,
     .has_double = 1},
    {.name = "mali-bifrost",
     .title = "Mali-G71",
     .vendor = "ARM",
     NO_CACHE(32 * KIB),
     .vendor_id = 0x60000001,
     .version = 20,
     .suffix = "v1.r12p0",
     .extensions = WORDS " cl_khr_fp16",
     GROUP(384),
     .alloc = GIB,
     .global = 4 * GIB,
     .units = 8,
     .width = 4},
    {.name = "mali-valhall",
     .title = "Mali-G710",
     .vendor = "ARM",
     NO_CACHE(32 * KIB),
     .vendor_id = 0xa8670000,
     .version = 30,
     .suffix = "v1.r38p1",
     .extensions = WORDS " cl_khr_fp16 cl_khr_subgroups cl_arm_get_core_id",
     GROUP(1024),
     .alloc = 7 * GIB,
     .global = 7 * GIB,
     .units = 10},
    {.name = "apple-gpu",
     .title = "Apple M1",
     .vendor = "Apple",
     LOCAL(32 * KIB),
     .vendor_id = 0x1027f00,
     .extensions = "cl_APPLE_SetMemObjectDestructor " WORDS,
     GROUP(256),
     .align = 4,
     .alloc = 1 * GIB,
     .global = 5 * GIB,
     .params = 4096},
    /* Kernels with a barrier run one work-item at a time there. */
    {.name = "apple-cpu",
     .title = "Intel(R) Core(TM) i7-4870HQ CPU @ 2.50GHz",
     .vendor = "Intel",
     NO_CACHE(32 * KIB),
     .vendor_id = 0xffffffff,
     .extensions = WORDS " cl_khr_fp64",
     .group = 1024,
     .items = {1024, 1, 1},
     .kernel_group = 1,
     .type = CL_DEVICE_TYPE_CPU,
     .alloc = 4 * GIB,
     .global = 16 * GIB,
     .params = 4096,
     .width = 4,
     .has_double = 1},
    {.name = "apple-cpu-1",
     .title = "Intel(R) Core(TM)2 Duo CPU T7700 @ 2.40GHz",
     .vendor = "Intel",
     NO_CACHE(32 * KIB),
     .vendor_id = 0xffffffff,
     .extensions = WORDS " cl_khr_fp64",
     GROUP(1),
     .type = CL_DEVICE_TYPE_CPU,
     .units = 2,
     .params = 4096,
     .width = 4,
     .has_double = 1},
};
enum { DEVICE_COUNT = sizeof devices / sizeof devices[0] };

/* What the table leaves out. */
static void set_defaults(struct zoo_device *d)
{
    d->type = d->type ? d->type : CL_DEVICE_TYPE_GPU;
    d->version = d->version ? d->version : 12;
    d->suffix = d->suffix ? d->suffix : "";
    d->alloc = d->alloc ? d->alloc : GIB;
    d->global = d->global ? d->global : 4 * GIB;
    d->align = d->align ? d->align : 128;
    d->params = d->params ? d->params : 1024;
    d->units = d->units ? d->units : 8;
    d->width = d->width ? d->width : 1;
}

static void wrong(const char *text, const char *part)
{
    fprintf(stderr, "zoo: \"%s\": cannot read \"%s\"\n", text, part);
    abort();
}

/* A number, in KiB or MiB with a letter behind it. */
static int read_number(const char *text, cl_ulong *number)
{
    char *end;
    if (*text < '0' || *text > '9') {
        return 0;
    }
    *number = strtoull(text, &end, 10);
    if (*end == 'k' || *end == 'm') {
        *number *= *end == 'k' ? KIB : MIB;
        ++end;
    }
    return *end == '\0';
}

/* What a test may change, all of it numbers. 0 if there is no such key. */
static int change(struct zoo_device *d, const char *key, cl_ulong n)
{
    const struct {
        const char *key;
        size_t *size;
        cl_ulong *bytes;
        int *number;
    } places[] = {
        {"group", &d->group, NULL, NULL},
        {"kernel_group", &d->kernel_group, NULL, NULL},
        {"align", &d->align, NULL, NULL},
        {"params", &d->params, NULL, NULL},
        {"local", NULL, &d->local, NULL},
        {"extra_local", NULL, &d->extra_local, NULL},
        {"alloc", NULL, &d->alloc, NULL},
        {"global", NULL, &d->global, NULL},
        {"version", NULL, NULL, &d->version},
        {"embedded", NULL, NULL, &d->is_embedded},
        {"no_compiler", NULL, NULL, &d->lacks_compiler},
        {"no_images", NULL, NULL, &d->lacks_images},
        {"double", NULL, NULL, &d->has_double},
    };
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        if (strcmp(places[p].key, key) == 0) {
            if (places[p].size) {
                *places[p].size = (size_t)n;
            } else if (places[p].bytes) {
                *places[p].bytes = n;
            } else {
                *places[p].number = (int)n;
            }
            return 1;
        }
    }
    if (strcmp(key, "local_type") == 0) {
        d->local_type = (cl_device_local_mem_type)n;
    } else if (strcmp(key, "units") == 0) {
        d->units = (cl_uint)n;
    } else if (strcmp(key, "refusal") == 0) {
        d->refusal = (enum zoo_refusal)n;
    } else {
        return 0;
    }
    return 1;
}

void zoo_device_read(const char *text, struct zoo_device *device)
{
    char words[512];
    if (strlen(text) >= sizeof words) {
        wrong(text, "so long a text");
    }
    strcpy(words, text);
    char *rest, *word = strtok_r(words, ",", &rest);
    size_t found = 0;
    while (found < DEVICE_COUNT && (word == NULL || strcmp(devices[found].name, word) != 0)) {
        found++;
    }
    if (found == DEVICE_COUNT) {
        wrong(text, word ? word : "");
    }
    *device = devices[found];
    set_defaults(device);
    for (word = strtok_r(NULL, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(word, '=');
        cl_ulong n = 0;
        if (value != NULL) {
            *value++ = '\0';
        }
        if (value == NULL || !read_number(value, &n) || !change(device, word, n)) {
            wrong(text, word);
        }
        if (strcmp(word, "group") == 0) {
            device->items[0] = device->items[1] = device->items[2] = (size_t)n;
        }
    }
}
