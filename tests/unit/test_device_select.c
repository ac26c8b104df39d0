/*
 * test_device_select.c - devices found, described and chosen, on a machine made up for each test.
 *
 * The four queries of OpenCL that the search makes are defined here and stand before the loader's,
 * so no driver takes part.
 */
#include "cl/device.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_device {
    cl_device_type type;
    cl_uint compute_units;
    const char *name, *vendor, *version;
    const char *profile, *extensions;
    int unavailable, without_compiler, big_endian, mute, without_inf_nan;
    size_t parameter_bytes;
};

struct fake_platform {
    const char *name;
    cl_int code; /* of clGetDeviceIDs */
    struct fake_device *devices;
    cl_uint count;
};

static struct fake_platform *platforms;
static cl_uint platform_count;
static cl_int platforms_code; /* of clGetPlatformIDs */

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformIDs(cl_uint room, cl_platform_id *ids, cl_uint *count)
{
    if (platforms_code != CL_SUCCESS) {
        return platforms_code;
    }
    for (cl_uint i = 0; ids && i < room && i < platform_count; i++) {
        ids[i] = (cl_platform_id)(void *)&platforms[i];
    }
    if (count) {
        *count = platform_count;
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id id, cl_device_type type, cl_uint room,
                                               cl_device_id *ids, cl_uint *count)
{
    struct fake_platform *platform = (struct fake_platform *)(void *)id;
    ck_assert_uint_eq(type, CL_DEVICE_TYPE_ALL);
    if (platform->code != CL_SUCCESS) {
        return platform->code;
    }
    for (cl_uint i = 0; ids && i < room && i < platform->count; i++) {
        ids[i] = (cl_device_id)(void *)&platform->devices[i];
    }
    if (count) {
        *count = platform->count;
    }
    return CL_SUCCESS;
}

static cl_int answer(const void *value, size_t size, size_t room, void *out, size_t *size_out)
{
    if (out && room < size) {
        return CL_INVALID_VALUE;
    }
    if (out) {
        memcpy(out, value, size);
    }
    if (size_out) {
        *size_out = size;
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id id, cl_platform_info query,
                                                  size_t room, void *out, size_t *size_out)
{
    struct fake_platform *platform = (struct fake_platform *)(void *)id;
    if (query != CL_PLATFORM_NAME) {
        return CL_INVALID_VALUE;
    }
    return answer(platform->name, strlen(platform->name) + 1, room, out, size_out);
}

static const char *device_text(const struct fake_device *device, cl_device_info query)
{
    switch (query) {
    case CL_DEVICE_NAME:
        return device->name;
    case CL_DEVICE_VENDOR:
        return device->vendor ? device->vendor : "Maker";
    case CL_DEVICE_VERSION:
        return device->version ? device->version : "OpenCL 1.2 fake";
    case CL_DRIVER_VERSION:
        return "driver 7";
    case CL_DEVICE_PROFILE:
        return device->profile ? device->profile : "FULL_PROFILE";
    case CL_DEVICE_EXTENSIONS:
        return device->extensions ? device->extensions : "";
    default:
        return NULL;
    }
}

static cl_platform_id platform_of(const struct fake_device *device)
{
    for (cl_uint i = 0; i < platform_count; i++) {
        if (device >= platforms[i].devices && device < platforms[i].devices + platforms[i].count) {
            return (cl_platform_id)(void *)&platforms[i];
        }
    }
    return NULL;
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id id, cl_device_info query, size_t room,
                                                void *out, size_t *size_out)
{
    const struct fake_device *device = (const struct fake_device *)(void *)id;
    const char *text = device_text(device, query);
    if (text) {
        return answer(text, strlen(text) + 1, room, out, size_out);
    }
    if (device->mute) {
        return CL_OUT_OF_RESOURCES;
    }

    const cl_device_fp_config single =
        CL_FP_ROUND_TO_NEAREST | (device->without_inf_nan ? 0 : CL_FP_INF_NAN) | CL_FP_FMA;
    const size_t parameter = device->parameter_bytes ? device->parameter_bytes : 1024;
    const size_t group = 192, sizes[5] = {160, 96, 64, 8, 4};
    const cl_platform_id platform = platform_of(device);
    cl_ulong bytes = 0;
    cl_uint word = 0;
    cl_bool flag = CL_FALSE;
    switch (query) {
    case CL_DEVICE_TYPE:
        return answer(&device->type, sizeof device->type, room, out, size_out);
    case CL_DEVICE_PLATFORM:
        return answer(&platform, sizeof platform, room, out, size_out);
    case CL_DEVICE_SINGLE_FP_CONFIG:
        return answer(&single, sizeof single, room, out, size_out);
    case CL_DEVICE_MAX_PARAMETER_SIZE:
        return answer(&parameter, sizeof parameter, room, out, size_out);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return answer(&group, sizeof group, room, out, size_out);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        return answer(sizes, sizeof sizes, room, out, size_out);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        bytes = 7000;
        break;
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        bytes = 3000;
        break;
    case CL_DEVICE_LOCAL_MEM_SIZE:
        bytes = 500;
        break;
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        word = device->compute_units;
        break;
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
        word = 16;
        break;
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        word = 1024;
        break;
    case CL_DEVICE_ADDRESS_BITS:
        word = 32;
        break;
    case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS:
        word = 5;
        break;
    case CL_DEVICE_AVAILABLE:
        flag = !device->unavailable;
        break;
    case CL_DEVICE_COMPILER_AVAILABLE:
        flag = !device->without_compiler;
        break;
    case CL_DEVICE_ENDIAN_LITTLE:
        flag = !device->big_endian;
        break;
    default:
        return CL_INVALID_VALUE;
    }
    if (bytes) {
        return answer(&bytes, sizeof bytes, room, out, size_out);
    }
    if (word) {
        return answer(&word, sizeof word, room, out, size_out);
    }
    return answer(&flag, sizeof flag, room, out, size_out);
}

/* ---- a machine with everything ---- */

static struct fake_device first_devices[] = {
    {.type = CL_DEVICE_TYPE_CPU, .compute_units = 64, .name = "Big Processor", .vendor = "Alpha"},
    {.type = CL_DEVICE_TYPE_GPU, .compute_units = 20, .name = "Small Card"},
};
static struct fake_device second_devices[] = {
    {.type = CL_DEVICE_TYPE_GPU,
     .compute_units = 80,
     .name = "Old Card",
     .version = "OpenCL 1.1 x"},
    {.type = CL_DEVICE_TYPE_ACCELERATOR, .compute_units = 90, .name = "Board"},
    {.type = CL_DEVICE_TYPE_GPU, .compute_units = 40, .name = "  Large CARD \n"},
    {.type = CL_DEVICE_TYPE_GPU, .compute_units = 40, .name = "Large Card too"},
    {.type = CL_DEVICE_TYPE_CPU, .compute_units = 64, .name = "Same Processor"},
};
static struct fake_platform everything[] = {
    {"First Platform", CL_SUCCESS, first_devices, 2},
    {"Empty", CL_DEVICE_NOT_FOUND, NULL, 0},
    {"Broken", CL_OUT_OF_RESOURCES, NULL, 0},
    {"Second Platform", CL_SUCCESS, second_devices, 5},
};

static void set_machine(struct fake_platform *machine, cl_uint count)
{
    platforms = machine;
    platform_count = count;
}

/* Checked, so that each test has them whatever another one changed. */
static void machine_with_everything(void)
{
    setenv("GPU_MHA_LOG", "off", 1);
    unsetenv("GPU_MHA_DEVICE");
    set_machine(everything, 4);
}

static const char *name_of(cl_device_id id)
{
    return id ? ((const struct fake_device *)(void *)id)->name : "none";
}

static const struct {
    const char *environment, *selector, *name;
} choices[] = {
    {NULL, NULL, "  Large CARD \n"}, /* a GPU, most units, the first of equals */
    {NULL, "", "  Large CARD \n"},
    {NULL, "gpu", "  Large CARD \n"},
    {NULL, "GPU", "  Large CARD \n"},
    {NULL, "cpu", "Big Processor"},
    {NULL, "accelerator", "Board"},
    {NULL, "0:0", "Big Processor"},
    {NULL, "0:1", "Small Card"},
    {NULL, "3:3", "Large Card too"},
    {NULL, "card", "  Large CARD \n"},
    {NULL, "LARGE CARD TOO", "Large Card too"},
    {NULL, "alpha", "Big Processor"},   /* a vendor */
    {NULL, "maker", "  Large CARD \n"}, /* the best of a vendor */
    {NULL, "first", "Small Card"},      /* the best of a platform */
    {NULL, "second platform", "  Large CARD \n"},
    {"cpu", NULL, "Big Processor"},
    {"cpu", "", "Big Processor"},
    {"cpu", "board", "Board"}, /* an argument wins */
    {"", NULL, "  Large CARD \n"},
    {"3:1", NULL, "Board"},
};

START_TEST(a_selector_finds_its_device)
{
    if (choices[_i].environment) {
        setenv("GPU_MHA_DEVICE", choices[_i].environment, 1);
    }
    cl_device_id id;
    ck_assert_int_eq(mha_device_select(choices[_i].selector, &id), GPU_MHA_OK);
    ck_assert_str_eq(name_of(id), choices[_i].name);
}
END_TEST

/* One platform of that machine does not answer, which may be why. */
#define UNANSWERED "; clGetDeviceIDs failed: CL_OUT_OF_RESOURCES (-5)"

#define EVERYTHING_LISTED                                                                          \
    " fits no usable device of: 0:0 \"Big Processor\", 0:1 \"Small Card\", "                       \
    "3:0 \"Old Card\" (not usable: OpenCL 1.1, 1.2 is needed), 3:1 \"Board\", "                    \
    "3:2 \"Large CARD\", 3:3 \"Large Card too\", 3:4 \"Same Processor\"" UNANSWERED

static const struct {
    const char *environment, *selector, *message;
} misses[] = {
    {NULL, "tpu", "selector \"tpu\"" EVERYTHING_LISTED},
    {NULL, "old", "selector \"old\"" EVERYTHING_LISTED}, /* there, but not usable */
    {NULL, "3:0", "selector \"3:0\"" EVERYTHING_LISTED},
    {NULL, "0:2", "selector \"0:2\"" EVERYTHING_LISTED},
    {NULL, "1:0", "selector \"1:0\"" EVERYTHING_LISTED},
    {NULL, "4:0", "selector \"4:0\"" EVERYTHING_LISTED},
    {NULL, "99999999999999999999:0", "selector \"99999999999999999999:0\"" EVERYTHING_LISTED},
    {NULL, "4294967296:0", "selector \"4294967296:0\"" EVERYTHING_LISTED},
    {NULL, "0:-1", "selector \"0:-1\"" EVERYTHING_LISTED},
    {NULL, " 0:0", "selector \" 0:0\"" EVERYTHING_LISTED},
    {NULL, "0:", "selector \"0:\"" EVERYTHING_LISTED},
    {"tpu", NULL, "GPU_MHA_DEVICE \"tpu\"" EVERYTHING_LISTED},
};

START_TEST(a_miss_lists_what_is_there)
{
    if (misses[_i].environment) {
        setenv("GPU_MHA_DEVICE", misses[_i].environment, 1);
    }
    cl_device_id id;
    ck_assert_int_eq(mha_device_select(misses[_i].selector, &id), GPU_MHA_NO_DEVICE);
    ck_assert_str_eq(gpu_mha_last_error(), misses[_i].message);
    ck_assert_int_eq(gpu_mha_last_error_info().cl_code, CL_OUT_OF_RESOURCES);
    ck_assert_str_eq(gpu_mha_last_error_info().cl_call, "clGetDeviceIDs");
    ck_assert_ptr_null(id);
}
END_TEST

START_TEST(a_selector_of_any_length_is_refused)
{
    static char selector[5000];
    memset(selector, 'x', sizeof selector - 1);
    cl_device_id id;
    ck_assert_int_eq(mha_device_select(selector, &id), GPU_MHA_NO_DEVICE);
    ck_assert_uint_eq(strlen(gpu_mha_last_error()), 10 + 202 + strlen(EVERYTHING_LISTED) - 1);
}
END_TEST

START_TEST(without_a_platform_there_is_no_device)
{
    size_t count = 5;
    cl_device_id id;
    /* Loaders say it in either way. */
    if (_i == 0) {
        platforms_code = -1001;
    }
    set_machine(NULL, 0);
    ck_assert_int_eq(gpu_mha_device_count(&count), GPU_MHA_OK);
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(mha_device_select(NULL, &id), GPU_MHA_NO_DEVICE);
    ck_assert_str_eq(gpu_mha_last_error(), "no OpenCL platform is installed");
    gpu_mha_context *context;
    ck_assert_int_eq(gpu_mha_context_create("cpu", &context), GPU_MHA_NO_DEVICE);
    ck_assert_ptr_null(context);
}
END_TEST

START_TEST(without_a_device_there_is_no_device)
{
    size_t count = 5;
    cl_device_id id;
    set_machine(everything + 1, 2);
    ck_assert_int_eq(gpu_mha_device_count(&count), GPU_MHA_OK);
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(mha_device_select(NULL, &id), GPU_MHA_NO_DEVICE);
    ck_assert_str_eq(gpu_mha_last_error(),
                     "none of the 2 OpenCL platforms has a device" UNANSWERED);
}
END_TEST

START_TEST(a_failing_loader_is_an_error)
{
    size_t count = 5;
    platforms_code = CL_OUT_OF_HOST_MEMORY;
    ck_assert_int_eq(gpu_mha_device_count(&count), GPU_MHA_HOST_MEMORY);
    ck_assert_uint_eq(count, 0);
    ck_assert_str_eq(gpu_mha_last_error_info().cl_call, "clGetPlatformIDs");
    ck_assert_int_eq(gpu_mha_last_error_info().cl_code, CL_OUT_OF_HOST_MEMORY);
}
END_TEST

static struct fake_device lame_devices[] = {
    {.type = CL_DEVICE_TYPE_GPU, .name = "a", .unavailable = 1},
    {.type = CL_DEVICE_TYPE_GPU, .name = "b", .without_compiler = 1},
    {.type = CL_DEVICE_TYPE_GPU, .name = "c", .big_endian = 1},
    {.type = CL_DEVICE_TYPE_GPU, .name = "d", .version = "OpenCL 1.0"},
    {.type = CL_DEVICE_TYPE_GPU, .name = "e", .version = "nonsense"},
    {.type = CL_DEVICE_TYPE_GPU, .name = "f", .parameter_bytes = 1023},
    {.type = CL_DEVICE_TYPE_GPU, .name = "g", .without_inf_nan = 1},
    {.type = CL_DEVICE_TYPE_GPU,
     .name = "h",
     .profile = "EMBEDDED_PROFILE",
     .extensions = "a cles_khr_int64x cles_khr_int6"},
    {.type = CL_DEVICE_TYPE_GPU, .name = "i", .mute = 1},
    {.type = CL_DEVICE_TYPE_CPU,
     .name = "j",
     .profile = "EMBEDDED_PROFILE",
     .extensions = "cl_khr_fp16 cles_khr_int64"},
    {.type = CL_DEVICE_TYPE_CPU, .name = "k", .version = "OpenCL 3.0 PoCL"},
};
static const char *const lame_reasons[] = {
    "it is not available",
    "it has no compiler",
    "it is big-endian",
    "OpenCL 1.0, 1.2 is needed",
    "its version \"nonsense\" is unreadable",
    "kernels take 1023 bytes of arguments, 1024 are needed",
    "its single precision lacks IEEE rounding or infinities",
    "its embedded profile lacks 64-bit integers",
    "CL_DEVICE_PLATFORM failed: CL_OUT_OF_RESOURCES (-5)",
    "",
    "",
};
static struct fake_platform lame[] = {{"Lame", CL_SUCCESS, lame_devices, 11}};

START_TEST(a_reason_says_why_a_device_is_not_usable)
{
    set_machine(lame, 1);
    gpu_mha_device_info info = {0};
    ck_assert_int_eq(gpu_mha_device_get((size_t)_i, &info), GPU_MHA_OK);
    ck_assert_str_eq(info.name, _i == 8 ? "" : lame_devices[_i].name);
    ck_assert_str_eq(info.reason, lame_reasons[_i]);
    ck_assert_int_eq(info.usable, lame_reasons[_i][0] == '\0');
    ck_assert_int_eq(info.is_default, _i == 9);
    ck_assert_str_eq(gpu_mha_last_error(), "");
}
END_TEST

START_TEST(a_device_is_described)
{
    gpu_mha_device_info info;
    memset(&info, 0xAB, sizeof info);
    info.struct_size = sizeof info;
    ck_assert_int_eq(gpu_mha_device_get(4, &info), GPU_MHA_OK);
    ck_assert_uint_eq(info.struct_size, sizeof info);
    ck_assert_str_eq(info.selector, "3:2");
    ck_assert_str_eq(info.name, "Large CARD");
    ck_assert_str_eq(info.vendor, "Maker");
    ck_assert_str_eq(info.platform, "Second Platform");
    ck_assert_str_eq(info.version, "OpenCL 1.2 fake");
    ck_assert_str_eq(info.driver, "driver 7");
    ck_assert_uint_eq(info.type, CL_DEVICE_TYPE_GPU);
    ck_assert_uint_eq(info.compute_units, 40);
    ck_assert_uint_eq(info.global_bytes, 7000);
    ck_assert_uint_eq(info.max_alloc_bytes, 3000);
    ck_assert_uint_eq(info.local_bytes, 500);
    ck_assert_uint_eq(info.max_work_group_size, 192);
    ck_assert_int_eq(info.usable, 1);
    ck_assert_int_eq(info.is_default, 1);
    ck_assert_str_eq(info.reason, "");
}
END_TEST

START_TEST(the_facts_of_a_device)
{
    struct mha_device device;
    cl_device_id id = (cl_device_id)(void *)&second_devices[3];
    ck_assert_int_eq(mha_device_query(id, &device), GPU_MHA_OK);
    ck_assert_ptr_eq(device.id, id);
    ck_assert_ptr_eq(device.platform, (cl_platform_id)(void *)&everything[3]);
    ck_assert_uint_eq(device.native_vector_width_float, 16);
    ck_assert_uint_eq(device.max_parameter_bytes, 1024);
    ck_assert_uint_eq(device.max_work_items_0, 160);
    ck_assert_uint_eq(device.base_align_bytes, 128);
    ck_assert_uint_eq(device.address_bits, 32);
    ck_assert_int_eq(device.has_fma, 1);

    ck_assert_int_eq(mha_device_query((cl_device_id)(void *)&lame_devices[8], &device),
                     GPU_MHA_DEVICE_MEMORY);
    ck_assert_str_eq(gpu_mha_last_error(), "clGetDeviceInfo failed: CL_OUT_OF_RESOURCES (-5): "
                                           "CL_DEVICE_PLATFORM");
}
END_TEST

START_TEST(a_long_name_is_cut)
{
    static char name[1000];
    memset(name, 'n', sizeof name - 1);
    struct fake_device device = {.type = CL_DEVICE_TYPE_CPU, .compute_units = 1, .name = name};
    struct fake_platform machine = {name, CL_SUCCESS, &device, 1};
    set_machine(&machine, 1);
    gpu_mha_device_info info = {0};
    ck_assert_int_eq(gpu_mha_device_get(0, &info), GPU_MHA_OK);
    ck_assert_uint_eq(strlen(info.name), 255);
    ck_assert_uint_eq(strlen(info.platform), 255);
}
END_TEST

START_TEST(wrong_questions_are_refused)
{
    gpu_mha_device_info info = {0};
    size_t count = 0;
    ck_assert_int_eq(gpu_mha_device_count(NULL), GPU_MHA_INVALID);
    ck_assert_int_eq(gpu_mha_device_count(&count), GPU_MHA_OK);
    ck_assert_uint_eq(count, 7);
    ck_assert_int_eq(gpu_mha_device_get(0, NULL), GPU_MHA_INVALID);
    ck_assert_int_eq(gpu_mha_device_get(7, &info), GPU_MHA_INVALID);
    ck_assert_str_eq(gpu_mha_last_error(),
                     "index is 7, must be less than the 7 devices" UNANSWERED);
    info.struct_size = sizeof info - 1;
    ck_assert_int_eq(gpu_mha_device_get(0, &info), GPU_MHA_INVALID);
    ck_assert_str_eq(info.name, "");
}
END_TEST

static Suite *select_suite(void)
{
    Suite *suite = suite_create("device_select");
    TCase *devices = tcase_create("devices");
    tcase_add_checked_fixture(devices, machine_with_everything, NULL);
    tcase_add_loop_test(devices, a_selector_finds_its_device, 0,
                        (int)(sizeof choices / sizeof choices[0]));
    tcase_add_loop_test(devices, a_miss_lists_what_is_there, 0,
                        (int)(sizeof misses / sizeof misses[0]));
    tcase_add_test(devices, a_selector_of_any_length_is_refused);
    tcase_add_loop_test(devices, without_a_platform_there_is_no_device, 0, 2);
    tcase_add_test(devices, without_a_device_there_is_no_device);
    tcase_add_test(devices, a_failing_loader_is_an_error);
    tcase_add_loop_test(devices, a_reason_says_why_a_device_is_not_usable, 0,
                        (int)(sizeof lame_devices / sizeof lame_devices[0]));
    tcase_add_test(devices, a_device_is_described);
    tcase_add_test(devices, the_facts_of_a_device);
    tcase_add_test(devices, a_long_name_is_cut);
    tcase_add_test(devices, wrong_questions_are_refused);
    suite_add_tcase(suite, devices);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(select_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
