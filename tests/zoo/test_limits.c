/*
 * test_limits.c - what the library does at a device's limits: the right result, or a refusal that
 * names the limit and the device's value. Never a launch that the device then refuses.
 */
#include "harness/attention_run.h"
#include "harness/layer_run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Before the first call of OpenCL, in a process of its own. */
static void be(const char *zoo)
{
    ck_assert_int_eq(setenv("MHA_ZOO", zoo, 1), 0);
}

static void open_as(const char *zoo)
{
    be(zoo);
    attention_open();
}

static void expect(gpu_mha_status got, gpu_mha_status want, const char *words)
{
    ck_assert_msg(got == want, "%s, \"%s\": it must be %s", gpu_mha_status_name(got),
                  gpu_mha_last_error(), gpu_mha_status_name(want));
    ck_assert_msg(strstr(gpu_mha_last_error(), words) != NULL, "\"%s\" does not say \"%s\"",
                  gpu_mha_last_error(), words);
}

/* ---- devices that cannot be used ---- */

static const struct {
    const char *zoo, *words;
} unusable[] = {
    {"gpu,version=11", "OpenCL 1.1, 1.2 is needed"},
    {"adreno-embedded", "OpenCL 1.1, 1.2 is needed"},
    {"gpu,params=512", "kernels take 512 bytes of arguments, 1024 are needed"},
    {"gpu,no_compiler=1", "it has no compiler"},
    {"gpu,embedded=1", "its embedded profile lacks 64-bit integers"},
    {"none", "OpenCL platforms has a device"},
};

START_TEST(an_unusable_device_is_told)
{
    gpu_mha_context *context = NULL;

    be(unusable[_i].zoo);
    expect(gpu_mha_context_create(NULL, &context), GPU_MHA_NO_DEVICE, unusable[_i].words);
    ck_assert_ptr_null(context);
    if (strcmp(unusable[_i].zoo, "none") != 0) {
        gpu_mha_device_info info = {0};
        ck_assert_int_eq(gpu_mha_device_get(0, &info), GPU_MHA_OK);
        ck_assert_int_eq(info.usable, 0);
        ck_assert_msg(strstr(info.reason, unusable[_i].words) != NULL, "\"%s\"", info.reason);
    }
}
END_TEST

static cl_device_id device_of(cl_uint index)
{
    cl_platform_id platform = NULL;
    cl_device_id ids[2] = {NULL, NULL};

    ck_assert_int_eq(clGetPlatformIDs(1, &platform, NULL), CL_SUCCESS);
    ck_assert_int_eq(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 2, ids, NULL), CL_SUCCESS);
    return ids[index];
}

START_TEST(an_unusable_device_is_not_wrapped)
{
    gpu_mha_context *context = NULL;
    cl_int code = CL_SUCCESS;

    ck_assert_int_eq(setenv("POCL_DEVICES", "pthread basic", 1), 0);
    be("gpu,version=11;gpu,version=11");
    cl_device_id device = device_of(0), other = device_of(1);
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    expect(gpu_mha_context_wrap(cl, device, &context), GPU_MHA_UNSUPPORTED,
           "OpenCL 1.1, 1.2 is needed");
    expect(gpu_mha_context_wrap(cl, other, &context), GPU_MHA_INVALID,
           "device is not a device of cl");
    clReleaseContext(cl);
}
END_TEST

START_TEST(no_platform_is_told)
{
    gpu_mha_context *context = NULL;
    char empty[] = "empty-XXXXXX", here[2048], path[4096];
    size_t count = 7;

    ck_assert_ptr_nonnull(mkdtemp(empty));
    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    snprintf(path, sizeof path, "%s/%s", here, empty);
    ck_assert_int_eq(setenv("OCL_ICD_VENDORS", path, 1), 0);
    ck_assert_int_eq(gpu_mha_device_count(&count), GPU_MHA_OK);
    ck_assert_uint_eq(count, 0);
    expect(gpu_mha_context_create(NULL, &context), GPU_MHA_NO_DEVICE,
           "no OpenCL platform is installed");
    rmdir(empty);
}
END_TEST

START_TEST(a_cpu_alone_is_found)
{
    open_as("cpu");
    gpu_mha_device_info info = {0};
    ck_assert_int_eq(gpu_mha_device_get(0, &info), GPU_MHA_OK);
    ck_assert_int_eq(info.is_default, 1);
    ck_assert_uint_eq(info.type, CL_DEVICE_TYPE_CPU);
    gpu_mha_context *context = NULL;
    expect(gpu_mha_context_create("gpu", &context), GPU_MHA_NO_DEVICE, "0:0 \"A CPU\"");
    attention_close();
}
END_TEST

/* ---- memory ---- */

enum { ROWS = 64, DK = 128, LARGE = 64 };

static float query[ROWS * LARGE * DK], key[ROWS * LARGE * DK], value[ROWS * LARGE * DK];
static float output[ROWS * LARGE * DK], lse[ROWS * LARGE];

static gpu_mha_status attend(gpu_mha_desc desc)
{
    const gpu_mha_arrays arrays = {
        .query = query, .key = key, .value = value, .output = output, .lse = desc.lse ? lse : NULL};

    return gpu_mha(attention_context, &desc, &arrays);
}

/* The limits are 64 KiB for a buffer and 160 KiB for all; the next call is right. */
START_TEST(arrays_beyond_the_memory_are_named)
{
    const gpu_mha_desc small = {.B = 1, .H = 1, .HKV = 1, .NQ = 2, .NK = 4, .DK = DK, .DV = 8};
    gpu_mha_desc desc = small;

    for (int j = 0; j < 4 * 8; j++) {
        value[j] = (float)(1 + j / 8);
    }
    open_as("gpu,local=0,alloc=64k,global=160k");
    desc.NK = 129;
    expect(attend(desc), GPU_MHA_UNSUPPORTED, "bytes: the device allocates at most 65536");
    desc = small;
    desc.NQ = 129;
    expect(attend(desc), GPU_MHA_UNSUPPORTED,
           "query takes 66048 bytes: the device allocates at most 65536");
    desc = small;
    desc.NQ = DK;
    desc.NK = 33;
    desc.DV = DK;
    expect(attend(desc), GPU_MHA_UNSUPPORTED, "bytes: the device has 163840");
    desc = small;
    desc.method = GPU_MHA_STAGED;
    desc.NQ = 64;
    desc.B = desc.NK = 20;
    desc.DK = 1;
    expect(attend(desc), GPU_MHA_UNSUPPORTED, "bytes: the device allocates at most 65536");
    desc = small;
    desc.H = desc.HKV = 16385;
    desc.NQ = desc.NK = desc.DK = desc.DV = 1;
    desc.alibi = GPU_MHA_ALIBI_AUTO;
    expect(attend(desc), GPU_MHA_UNSUPPORTED, "65540 bytes: the device allocates at most 65536");

    ck_assert_int_eq(attend(small), GPU_MHA_OK);
    ck_assert_msg(output[0] == 2.5f && output[15] == 2.5f, "%g, %g", output[0], output[15]);
    attention_close();
}
END_TEST

START_TEST(operators_beyond_the_memory_are_named)
{
    const gpu_mha_merge_desc merge = {.B = 1, .H = 1, .NQ = 129, .DV = DK};
    const gpu_mha_merge_arrays merged = {
        .a = query, .lse_a = lse, .b = key, .lse_b = lse, .output = output, .lse = lse};
    gpu_mha_desc inside = {.B = 1, .H = 1, .HKV = 1, .NQ = 8, .NK = 8, .DK = 8, .DV = 8};
    const gpu_mha_layer_desc layer = {.attention = &inside, .EQ = DK, .EK = 4096, .EV = 8, .EO = 8};
    struct layer_data data;

    open_as("gpu,local=0,alloc=64k,global=1m");
    expect(gpu_mha_merge(attention_context, &merge, &merged), GPU_MHA_UNSUPPORTED,
           "a takes 66048 bytes: the device allocates at most 65536");
    layer_data_make(&data, &layer, 1);
    expect(layer_run_host(attention_context, &data), GPU_MHA_UNSUPPORTED,
           "bytes: the device allocates at most 65536");
    layer_data_free(&data);
    attention_close();
}
END_TEST

/* With splits the workspace would be over the limit; without them it is none. */
START_TEST(splits_give_way_to_the_memory)
{
    struct attention_spec spec = {
        .desc = {.B = 1, .H = 64, .HKV = 1, .NQ = 1, .NK = 300, .DK = 6, .DV = 300, .lse = 1},
        .seed = 31};
    char plan[64];

    open_as(_i ? "gpu,units=128,alloc=1m" : "gpu,units=128,alloc=370k");
    attention_check(&spec, plan);
    ck_assert_msg((strstr(plan, "split") != NULL) == _i, "the plan is \"%s\"", plan);
    attention_close();
}
END_TEST

/* ---- kernels that turn out to be too large ---- */

static const struct {
    const char *zoo, *plan;
} too_large[] = {
    {"gpu", "shared "},
    /* The compiler takes local memory for itself, and a driver tells it in one of three ways. */
    {"gpu,extra_local=32k", "fused "},
    {"gpu,extra_local=32k,refusal=1", "fused "},
    {"gpu,extra_local=32k,refusal=2", "fused "},
    /* Registers or barriers leave few work-items. */
    {"gpu,kernel_group=32", "shared 8x"},
    {"gpu,kernel_group=8", "fused "},
    {"gpu,kernel_group=8,refusal=1", "fused "},
    {"gpu,group=8", "fused "},
    {"gpu,local=1k", "fused "},
    {"gpu,local_type=0,local=0", "rows "},
};

START_TEST(a_kernel_too_large_gives_way)
{
    struct attention_spec spec = {.desc = {.B = 1,
                                           .H = 2,
                                           .HKV = 1,
                                           .NQ = 5,
                                           .NK = 40,
                                           .DK = 24,
                                           .DV = 20,
                                           .causal = 1,
                                           .lse = 1},
                                  .seed = 11,
                                  .host_call = 1};
    char plan[64];

    ck_assert_int_eq(setenv("GPU_MHA_LOG", "off", 1), 0);
    open_as(too_large[_i].zoo);
    attention_check(&spec, plan);
    ck_assert_msg(strncmp(plan, too_large[_i].plan, strlen(too_large[_i].plan)) == 0,
                  "the plan is \"%s\", not \"%s\"", plan, too_large[_i].plan);
    attention_close();
}
END_TEST

/* Kernels with barriers run one work-item at a time there, and GPU_MHA_TILE asks for one. */
START_TEST(a_shape_that_was_asked_for_gives_way)
{
    struct attention_spec spec = {
        .desc = {.B = 1, .H = 2, .HKV = 1, .NQ = 5, .NK = 40, .DK = 24, .DV = 20, .lse = 1},
        .seed = 12,
        .tile = "shared 2,4,2,4,16,4,0,0"};
    char plan[64];

    ck_assert_int_eq(setenv("GPU_MHA_LOG", "off", 1), 0);
    open_as("apple-cpu");
    attention_check(&spec, plan);
    ck_assert_msg(strncmp(plan, "shared", 6) != 0, "the plan is \"%s\"", plan);
    attention_close();
}
END_TEST

/* The default among products is one that the device runs, though it is not the table's. */
START_TEST(products_are_tuned_without_the_one_that_does_not_run)
{
    const gpu_mha_tune_options options = {.seconds = 0.02, .dry_run = 1};
    gpu_mha_tune_result result = {0};

    ck_assert_int_eq(setenv("GPU_MHA_LOG", "off", 1), 0);
    open_as("gpu,group=8");
    attention_use_tile(NULL);
    ck_assert_msg(gpu_mha_tune_product(attention_context, 7, 5, 9, &options, &result) == GPU_MHA_OK,
                  "%s", gpu_mha_last_error());
    ck_assert_str_eq(result.default_text, "tile");
    ck_assert_str_eq(result.winner, "tile");
    ck_assert_int_eq(result.dropped, 1);
    attention_close();
}
END_TEST

/* ---- sizes that no work-group divides ---- */

static const int64_t lengths[] = {1, 13, 500, 42967}; /* the last with MHA_ZOO_LONG only */
static const char *const lengths_zoo[] = {"gpu,group=64", "mali-bifrost", "gpu,local=0",
                                          "apple-cpu"};

/* The layer refuses a global size that the local one does not divide. */
START_TEST(lengths_that_nothing_divides)
{
    open_as(lengths_zoo[_i]);
    for (int n = 0; n < COUNT(lengths) - !getenv("MHA_ZOO_LONG"); n++) {
        struct attention_spec spec = {
            .desc = {.B = 1, .H = 1, .HKV = 1, .NQ = lengths[n], .NK = 3, .DK = 4, .DV = 2},
            .seed = 40 + (uint64_t)n};
        attention_check(&spec, NULL);
        spec.desc.NK = spec.desc.NQ;
        spec.desc.NQ = 2;
        attention_check(&spec, NULL);
    }
    attention_close();
}
END_TEST

/* ---- two devices ---- */

/* In one OpenCL context, in turns: each has the kernels that are for it. */
START_TEST(two_devices_of_one_context_in_turns)
{
    const struct attention_spec spec = {
        .desc = {.B = 1, .H = 2, .HKV = 1, .NQ = 5, .NK = 40, .DK = 24, .DV = 20, .lse = 1},
        .seed = 51,
        .host_call = 1};
    gpu_mha_context *contexts[2] = {NULL, NULL};
    cl_int code = CL_SUCCESS;

    ck_assert_int_eq(setenv("POCL_DEVICES", "pthread basic", 1), 0);
    be("cpu;mali-bifrost");
    cl_device_id ids[2] = {device_of(0), device_of(1)};
    ck_assert_ptr_ne(ids[0], ids[1]);
    cl_context cl = clCreateContext(NULL, 2, ids, NULL, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    for (int d = 0; d < 2; d++) {
        ck_assert_int_eq(gpu_mha_context_wrap(cl, ids[d], &contexts[d]), GPU_MHA_OK);
    }
    clReleaseContext(cl);
    for (int turn = 0; turn < 6; turn++) {
        char plan[64];
        attention_context = contexts[turn % 2];
        attention_check(&spec, plan);
        ck_assert_msg(strncmp(plan, turn % 2 ? "rows " : "fused ", turn % 2 ? 5 : 6) == 0,
                      "the plan on device %d is \"%s\"", turn % 2, plan);
    }
    gpu_mha_context_release(contexts[0]);
    gpu_mha_context_release(contexts[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limits");
    TCase *tcase = tcase_create("limits");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, an_unusable_device_is_told, 0, COUNT(unusable));
    tcase_add_test(tcase, an_unusable_device_is_not_wrapped);
    tcase_add_test(tcase, no_platform_is_told);
    tcase_add_test(tcase, a_cpu_alone_is_found);
    tcase_add_test(tcase, arrays_beyond_the_memory_are_named);
    tcase_add_test(tcase, operators_beyond_the_memory_are_named);
    tcase_add_loop_test(tcase, splits_give_way_to_the_memory, 0, 2);
    tcase_add_loop_test(tcase, a_kernel_too_large_gives_way, 0, COUNT(too_large));
    tcase_add_test(tcase, a_shape_that_was_asked_for_gives_way);
    tcase_add_test(tcase, products_are_tuned_without_the_one_that_does_not_run);
    tcase_add_loop_test(tcase, lengths_that_nothing_divides, 0, COUNT(lengths_zoo));
    tcase_add_test(tcase, two_devices_of_one_context_in_turns);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
