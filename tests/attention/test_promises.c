/*
 * test_promises.c - what gpu_mha.h promises, sentence by sentence.
 *
 * Promise                                               Held by
 * ----------------------------------------------------------------------------------------------
 * steps 1 to 7 and their order                          attention/test_sweep_features,
 *                                                       cases_outputs
 *     kv head = h / (H / HKV)                           cases_lengths: groups_of_query_heads...
 *     scale 1 / sqrt(DK), or literally                  cases_lengths:
 *                                                       the_last_coordinate_counts,
 *                                                       cases_geometry: the_scale_is_literal
 *     soft cap before bias and masks                    cases_geometry: caps_differ,
 *                                                       a_cap_leaves...
 *     several masks intersect                           cases_masks, test_masks: masks_intersect
 *     sinks join the sum                                cases_geometry: sinks_join_the_sum
 *     dropout, its draws and the order of its words     cases_outputs: dropped_weights...,
 *                                                       test_sweep_features (Philox reference)
 * a row without a key: 0, -inf or the sink's logit      cases_empty_rows, cases_geometry:
 *                                                       sinks...
 * what a hidden key holds never changes a result        every probe: NaN, 1000, Inf; same bits
 * what a visible one holds comes out                    test_masks: visible_nan_and_infinity,
 *                                                       cases_empty_rows: a_visible_nan...
 * a finite bias hides nothing                           cases_empty_rows:
 *                                                       a_very_negative_bias...
 * the error bounds of output and LSE                    attention/test_sweep_*, test_types
 * the same bits from any thread, queue, batch, repeat   test_determinism; every probe
 * any thread at any time                                test_determinism: from_many_threads...,
 *                                                       blocking_call:
 *                                                       threads_share_the_default...
 * errors are kept per thread                            here: errors_belong_to_their_thread
 * GPU_MHA_FORKED in a child                             blocking_call:
 *                                                       a_forked_child_is_refused,
 *                                                       unit/test_context, lifetime/test_fork
 * refused calls have written nothing, the next one      refused, enqueue: every test
 *     works
 * struct_size: 0, sizeof, larger with zeros, smaller    here: structs_grow_at_their_end
 * zero is the default of every optional field           here: zero_is_the_default
 * version, status texts and names                       here: every_status_has_a_text_and_a_name
 * last_error: stays, untouched by success, strings      here: an_error_stays_until_the_next
 *     live
 * cl_code, cl_call, build_log                           unit/test_core, unit/test_context
 * GPU_MHA_LOG and its levels; the sink                  unit/test_core; here: the_log_goes_to...
 * device_count, device_get, fields of device_info       here: devices_describe_themselves
 * selectors                                             here: selectors_find_the_device,
 *                                                       unit/test_device_select; refused
 * wrap retains both; cl and device are borrowed         here: a_wrapped_context_computes;
 *                                                       unit/test_context
 * release takes NULL; accessors take NULL               here: null_is_nothing
 * plans hold their context                              here: a_plan_outlives_its_makers
 * plan released while its work runs                     enqueue: work_waits_for_its_events,
 *                                                       several_...
 * storage types in any mix                              test_types: every_mix
 * layouts, strides, broadcast inputs, interleaved QKV   test_layouts; cases_masks
 * output rows must not overlap                          refused: output.stride_*
 * mask shapes and strides                               cases_masks; test_masks
 * bottom right with key lengths                         cases_geometry: bottom_right_follows...
 * windows: both ends, -1                                cases_geometry:
 *                                                       windows_include_both_ends
 * offset of any sign up to 2^40                         cases_geometry:
 *                                                       causal_sees_up_to_its_offset
 * ALiBi slopes                                          cases_geometry:
 *                                                       alibi_has_the_published_slopes
 * weights, averaged weights, scores at each stage       cases_outputs
 * FUSED with weights or scores is refused               refused
 * fused workspace does not grow with NQ * NT; staged    here:
 *     does                                              workspaces_are_as_large_as_promised
 * B, NQ, NK, NP may be 0                                cases_lengths: a_size_of_0_is_no_error
 * mask_broadcast: ranks, right alignment, sizes first   here:
 *                                                       mask_broadcast_aligns_to_the_right;
 *                                                       cases_masks:
 *                                                       low_ranks_align_to_the_right
 * desc_check says what plan_create says                 refused: a_wrong_descriptor_is_refused
 * UNSUPPORTED names the limit                           refused: a_limit_of_the_device...
 * arrays: not asked for NULL, without element may be    refused; blocking_call:
 *                                                       arrays_without...
 * inputs are only read, only named rows are touched     blocking_call: inputs_are_only_read;
 *                                                       guard_pages: the_blocking_call_stays...
 * key lengths: refused on the host, clamped on the      refused; cases_lengths:
 *     device                                            the_device_clamps...
 * the default context; the kept plans                   blocking_call
 * workspace_bytes and plan_text, also for NULL          here: plans_say_what_they_run,
 *                                                       null_is_nothing
 * enqueue: queues, wait list, event always, NULL on     enqueue
 *     fail
 * buffers too small, workspace offset, own ranges       enqueue
 * nothing is allocated on the device                    here: a_plan_outlives_its_makers
 * merge, rotary, cache update, layer                    tests/operators, tests/layer
 */
#define _GNU_SOURCE /* RTLD_NEXT */

#include "harness/assertions.h"
#include "harness/probe.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const gpu_mha_desc valid = {.B = 1, .H = 2, .HKV = 1, .NQ = 2, .NK = 3, .DK = 5, .DV = 3};

/* Stands in front of the loader's, for the library too: counts what is allocated. */
static int buffers_made;

CL_API_ENTRY cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size,
                                               void *host_ptr, cl_int *errcode_ret)
{
    typedef cl_mem(CL_API_CALL * create_fn)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    create_fn create = NULL;
    *(void **)&create = dlsym(RTLD_NEXT, "clCreateBuffer");
    buffers_made++;
    return create(context, flags, size, host_ptr, errcode_ret);
}

/* ---- status and errors ---- */

START_TEST(every_status_has_a_text_and_a_name)
{
    static const struct {
        gpu_mha_status status;
        int value;
        const char *name, *text;
    } list[] = {
        {GPU_MHA_OK, 0, "GPU_MHA_OK", "success"},
        {GPU_MHA_INVALID, 1, "GPU_MHA_INVALID", "invalid argument"},
        {GPU_MHA_UNSUPPORTED, 2, "GPU_MHA_UNSUPPORTED", "not supported on this device"},
        {GPU_MHA_NO_DEVICE, 3, "GPU_MHA_NO_DEVICE", "no usable OpenCL device"},
        {GPU_MHA_HOST_MEMORY, 4, "GPU_MHA_HOST_MEMORY", "out of host memory"},
        {GPU_MHA_DEVICE_MEMORY, 5, "GPU_MHA_DEVICE_MEMORY", "out of device memory"},
        {GPU_MHA_BUILD, 6, "GPU_MHA_BUILD", "an OpenCL program did not build"},
        {GPU_MHA_OPENCL, 7, "GPU_MHA_OPENCL", "an OpenCL call failed"},
        {GPU_MHA_BLAS, 8, "GPU_MHA_BLAS", "a CLBlast call failed"},
        {GPU_MHA_FORKED, 9, "GPU_MHA_FORKED",
         "OpenCL was used before fork() and does not survive it"},
    };
    for (size_t n = 0; n < sizeof list / sizeof list[0]; n++) {
        ck_assert_int_eq(list[n].status, list[n].value);
        ck_assert_str_eq(gpu_mha_status_name(list[n].status), list[n].name);
        ck_assert_str_eq(gpu_mha_status_text(list[n].status), list[n].text);
    }
    static const int unknown[] = {-1, 10, 1000};
    for (int n = 0; n < 3; n++) {
        ck_assert_str_eq(gpu_mha_status_text((gpu_mha_status)unknown[n]), "unknown status");
        ck_assert_ptr_nonnull(gpu_mha_status_name((gpu_mha_status)unknown[n]));
    }
    int major, minor, patch, end = 0;
    ck_assert_int_eq(sscanf(gpu_mha_version(), "%d.%d.%d%n", &major, &minor, &patch, &end), 3);
    ck_assert_int_eq(gpu_mha_version()[end], '\0');
    ck_assert_str_eq(gpu_mha_version(), GPU_MHA_VERSION_STRING);
}
END_TEST

START_TEST(an_error_stays_until_the_next)
{
    gpu_mha_desc wrong = valid;
    wrong.NQ = -3;
    ck_assert_int_eq(gpu_mha_desc_check(&wrong), GPU_MHA_INVALID);
    const char *kept = gpu_mha_last_error();
    char copy[256];
    snprintf(copy, sizeof copy, "%s", kept);
    ck_assert_ptr_nonnull(strstr(copy, "NQ is -3"));
    ck_assert_int_eq(gpu_mha_desc_check(&valid), GPU_MHA_OK);
    gpu_mha_error error = gpu_mha_last_error_info();
    ck_assert_str_eq(error.message, copy);
    ck_assert_int_eq(error.status, GPU_MHA_INVALID);
    ck_assert_int_eq(error.cl_code, CL_SUCCESS);
    ck_assert_str_eq(error.cl_call, "");
    ck_assert_str_eq(error.build_log, "");

    wrong.NQ = -4;
    ck_assert_int_eq(gpu_mha_desc_check(&wrong), GPU_MHA_INVALID);
    ck_assert_ptr_nonnull(strstr(gpu_mha_last_error(), "NQ is -4"));
}
END_TEST

static void *fail_in_a_thread(void *unused)
{
    (void)unused;
    const gpu_mha_error fresh = gpu_mha_last_error_info();
    int right = fresh.status == GPU_MHA_OK && strcmp(fresh.message, "") == 0 &&
                fresh.cl_code == CL_SUCCESS && strcmp(fresh.cl_call, "") == 0 &&
                strcmp(fresh.build_log, "") == 0;
    gpu_mha_desc wrong = valid;
    wrong.DK = -7;
    right &= gpu_mha_desc_check(&wrong) == GPU_MHA_INVALID;
    right &= strstr(gpu_mha_last_error(), "DK is -7") != NULL;
    return right ? NULL : "wrong";
}

START_TEST(errors_belong_to_their_thread)
{
    gpu_mha_desc wrong = valid;
    wrong.DV = -9;
    pthread_t thread;
    void *answer = NULL;
    ck_assert_int_eq(gpu_mha_desc_check(&wrong), GPU_MHA_INVALID);
    ck_assert_int_eq(pthread_create(&thread, NULL, fail_in_a_thread, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &answer), 0);
    ck_assert_ptr_null(answer);
    ck_assert_ptr_nonnull(strstr(gpu_mha_last_error(), "DV is -9"));
}
END_TEST

struct log_lines {
    int count;
    char last[512];
};

static void keep_line(void *user, const char *level, const char *line)
{
    struct log_lines *lines = user;
    lines->count++;
    snprintf(lines->last, sizeof lines->last, "%s: %s", level, line);
}

/* main() sets GPU_MHA_LOG to debug, where every failure is a line. */
START_TEST(the_log_goes_to_the_function_that_is_set)
{
    struct log_lines lines = {0, ""};
    gpu_mha_desc wrong = valid;
    wrong.H = -1;
    gpu_mha_set_log(keep_line, &lines);
    ck_assert_int_eq(gpu_mha_desc_check(&wrong), GPU_MHA_INVALID);
    ck_assert_int_eq(lines.count, 1);
    ck_assert_ptr_nonnull(strstr(lines.last, "debug: "));
    ck_assert_ptr_nonnull(strstr(lines.last, "H is -1"));
    gpu_mha_set_log(NULL, NULL);
    ck_assert_int_eq(gpu_mha_desc_check(&valid), GPU_MHA_OK);
    ck_assert_int_eq(lines.count, 1);
}
END_TEST

/* ---- structs ---- */

/* A struct as a later version might have it. */
#define GROWN(type)                                                                                \
    struct {                                                                                       \
        type known;                                                                                \
        unsigned char later[24];                                                                   \
    }

START_TEST(structs_grow_at_their_end)
{
    float query[20] = {0}, key[15] = {0}, value[9] = {4, 4, 4, 4, 4, 4, 4, 4, 4}, output[12];
    GROWN(gpu_mha_desc) desc = {.known = valid};
    GROWN(gpu_mha_arrays)
    arrays = {.known = {.query = query, .key = key, .value = value, .output = output}};
    for (int larger = 0; larger < 3; larger++) {
        desc.known.struct_size = larger == 0 ? 0 : larger == 1 ? sizeof desc.known : sizeof desc;
        arrays.known.struct_size = larger == 0   ? 0
                                   : larger == 1 ? sizeof arrays.known
                                                 : sizeof arrays;
        memset(output, 0xFF, sizeof output);
        ck_assert_msg(gpu_mha(probe_context(), &desc.known, &arrays.known) == GPU_MHA_OK, "%s",
                      gpu_mha_last_error());
        for (int n = 0; n < 12; n++) {
            ASSERT_DOUBLE_SAME(output[n], 4);
        }
    }
    /* A later field that is set is not understood here, wherever its bytes are. */
    for (int n = 0; n < 24; n += 23) {
        desc.later[n] = 1;
        ck_assert_int_eq(gpu_mha_desc_check(&desc.known), GPU_MHA_INVALID);
        ck_assert_ptr_nonnull(strstr(gpu_mha_last_error(), gpu_mha_version()));
        desc.later[n] = 0;
        arrays.later[n] = 1;
        ck_assert_int_eq(gpu_mha(probe_context(), &desc.known, &arrays.known), GPU_MHA_INVALID);
        ck_assert_ptr_nonnull(strstr(gpu_mha_last_error(), "gpu_mha_arrays"));
        arrays.later[n] = 0;
    }
    desc.known.struct_size = sizeof desc.known - 1;
    ck_assert_int_eq(gpu_mha_desc_check(&desc.known), GPU_MHA_INVALID);
    desc.known.struct_size = 0;
    arrays.known.struct_size = sizeof arrays.known - 1;
    ck_assert_int_eq(gpu_mha(probe_context(), &desc.known, &arrays.known), GPU_MHA_INVALID);

    gpu_mha_device_info info = {.struct_size = sizeof info};
    ck_assert_int_eq(gpu_mha_device_get(0, &info), GPU_MHA_OK);
    ck_assert_uint_eq(info.struct_size, sizeof info);
    info.struct_size = 8;
    ck_assert_int_eq(gpu_mha_device_get(0, &info), GPU_MHA_INVALID);
}
END_TEST

START_TEST(zero_is_the_default)
{
    /* The same problem with every default written out. */
    const gpu_mha_desc written = {.struct_size = sizeof written,
                                  .B = 1,
                                  .H = 2,
                                  .HKV = 1,
                                  .NQ = 2,
                                  .NK = 3,
                                  .DK = 5,
                                  .DV = 3,
                                  .query = {GPU_MHA_F32, GPU_MHA_BHND, 0, 0, 0},
                                  .has_scale = 1,
                                  .scale = (float)(1 / sqrt(5)),
                                  .mask.type = GPU_MHA_MASK_NONE,
                                  .key_lengths = GPU_MHA_INDEX_NONE,
                                  .has_window = 1,
                                  .window_left = -1,
                                  .window_right = -1,
                                  .method = GPU_MHA_FUSED};
    float query[20], key[15], value[9], first[12], second[12];
    for (int n = 0; n < 20; n++) {
        query[n] = (float)(n % 7) / 4;
    }
    for (int n = 0; n < 15; n++) {
        key[n] = (float)(n % 4) / 2;
    }
    for (int n = 0; n < 9; n++) {
        value[n] = (float)n;
    }
    gpu_mha_arrays arrays = {.query = query, .key = key, .value = value, .output = first};
    ck_assert_int_eq(gpu_mha(probe_context(), &valid, &arrays), GPU_MHA_OK);
    arrays.output = second;
    ck_assert_msg(gpu_mha(probe_context(), &written, &arrays) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    ck_assert_mem_eq(first, second, sizeof first);
}
END_TEST

START_TEST(mask_broadcast_aligns_to_the_right)
{
    static const struct {
        int rank;
        int64_t given[4], shape[4];
    } cases[] = {{0, {0}, {1, 1, 1, 1}},       {1, {9}, {1, 1, 1, 9}},
                 {1, {1}, {1, 1, 1, 1}},       {2, {5, 9}, {1, 1, 5, 9}},
                 {3, {4, 1, 9}, {1, 4, 1, 9}}, {4, {3, 1, 5, 1}, {3, 1, 5, 1}}};
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        gpu_mha_desc desc = {.B = 3, .H = 4, .HKV = 2, .NQ = 5, .NP = 3, .NK = 6, .DK = 5, .DV = 3};
        ck_assert_int_eq(
            gpu_mha_mask_broadcast(&desc, GPU_MHA_MASK_BOOL, cases[n].rank, cases[n].given),
            GPU_MHA_OK);
        ck_assert_int_eq(desc.mask.type, GPU_MHA_MASK_BOOL);
        ck_assert_int_eq(desc.mask.strided, 0);
        ck_assert_int_eq(desc.bias.type, GPU_MHA_MASK_NONE);
        ck_assert_mem_eq(desc.mask.shape, cases[n].shape, sizeof desc.mask.shape);
        ck_assert_int_eq(
            gpu_mha_mask_broadcast(&desc, GPU_MHA_MASK_BF16, cases[n].rank, cases[n].given),
            GPU_MHA_OK);
        ck_assert_int_eq(desc.bias.type, GPU_MHA_MASK_BF16);
        ck_assert_mem_eq(desc.bias.shape, cases[n].shape, sizeof desc.bias.shape);
        ck_assert_int_eq(gpu_mha_desc_check(&desc), GPU_MHA_OK);
    }
}
END_TEST

/* ---- devices and contexts ---- */

START_TEST(devices_describe_themselves)
{
    size_t count = 0;
    int defaults = 0;
    ck_assert_int_eq(gpu_mha_device_count(&count), GPU_MHA_OK);
    ck_assert_uint_ge(count, 1);
    for (size_t n = 0; n < count; n++) {
        gpu_mha_device_info info;
        memset(&info, 0xFF, sizeof info);
        info.struct_size = 0;
        unsigned platform, device;
        char rest;
        ck_assert_int_eq(gpu_mha_device_get(n, &info), GPU_MHA_OK);
        ck_assert_int_eq(sscanf(info.selector, "%u:%u%c", &platform, &device, &rest), 2);
        ck_assert_int_eq(info.usable, info.reason[0] == '\0');
        ck_assert_uint_gt(strlen(info.name), 0);
        ck_assert_ptr_nonnull(strstr(info.version, "OpenCL "));
        ck_assert_uint_ge(info.compute_units, 1);
        ck_assert_uint_ge(info.max_work_group_size, 1);
        ck_assert(info.max_alloc_bytes > 0 && info.max_alloc_bytes <= info.global_bytes);
        ck_assert(info.is_default == 0 || info.is_default == 1);
        defaults += info.is_default;
        if (info.is_default) {
            ck_assert_int_eq(info.usable, 1);
        }
    }
    ck_assert_int_eq(defaults, 1);
    gpu_mha_device_info info = {0};
    ck_assert_int_eq(gpu_mha_device_get(count, &info), GPU_MHA_INVALID);
    ck_assert_int_eq(gpu_mha_device_get(SIZE_MAX, &info), GPU_MHA_INVALID);
}
END_TEST

START_TEST(selectors_find_the_device)
{
    gpu_mha_device_info info = {0};
    size_t count = 0, n = 0;
    ck_assert_int_eq(gpu_mha_device_count(&count), GPU_MHA_OK);
    do {
        ck_assert_int_eq(gpu_mha_device_get(n++, &info), GPU_MHA_OK);
    } while (!info.is_default && n < count);
    const char *type = info.type & CL_DEVICE_TYPE_GPU           ? "gpu"
                       : info.type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator"
                                                                : "cpu";
    const char *const selectors[] = {NULL, "", info.selector, type, info.name};
    for (size_t s = 0; s < sizeof selectors / sizeof selectors[0]; s++) {
        gpu_mha_context *context = NULL;
        char name[256] = "";
        ck_assert_msg(gpu_mha_context_create(selectors[s], &context) == GPU_MHA_OK, "%s",
                      gpu_mha_last_error());
        clGetDeviceInfo(gpu_mha_context_device(context), CL_DEVICE_NAME, sizeof name, name, NULL);
        ck_assert_msg(strstr(name, info.name) != NULL, "\"%s\" finds %s, want %s",
                      selectors[s] ? selectors[s] : "NULL", name, info.name);
        gpu_mha_context_release(context);
    }
    /* The environment is read where the selector is left out, and only there. */
    gpu_mha_context *context = NULL;
    setenv("GPU_MHA_DEVICE", "no such device", 1);
    ck_assert_int_eq(gpu_mha_context_create(NULL, &context), GPU_MHA_NO_DEVICE);
    ck_assert_ptr_null(context);
    ck_assert_int_eq(gpu_mha_context_create(info.selector, &context), GPU_MHA_OK);
    gpu_mha_context_release(context);
    unsetenv("GPU_MHA_DEVICE");
}
END_TEST

START_TEST(a_wrapped_context_computes)
{
    cl_device_id device = gpu_mha_context_device(probe_context());
    cl_int code = CL_SUCCESS;
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    gpu_mha_context *context = NULL;
    ck_assert_int_eq(gpu_mha_context_wrap(cl, device, &context), GPU_MHA_OK);
    ck_assert_ptr_eq(gpu_mha_context_cl(context), cl);
    ck_assert_ptr_eq(gpu_mha_context_device(context), device);
    clReleaseContext(cl);
    float query[20] = {0}, key[15] = {0}, value[9] = {8, 8, 8, 8, 8, 8, 8, 8, 8}, output[12];
    gpu_mha_arrays arrays = {.query = query, .key = key, .value = value, .output = output};
    ck_assert_msg(gpu_mha(context, &valid, &arrays) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    for (int n = 0; n < 12; n++) {
        ASSERT_DOUBLE_SAME(output[n], 8);
    }
    gpu_mha_context_release(context);
}
END_TEST

START_TEST(null_is_nothing)
{
    gpu_mha_context_release(NULL);
    gpu_mha_plan_release(NULL);
    ck_assert_ptr_null(gpu_mha_context_cl(NULL));
    ck_assert_ptr_null(gpu_mha_context_device(NULL));
    ck_assert_uint_eq(gpu_mha_plan_workspace_bytes(NULL), 0);
    ck_assert_ptr_nonnull(gpu_mha_plan_text(NULL));
}
END_TEST

/* ---- plans ---- */

START_TEST(plans_say_what_they_run)
{
    static const struct {
        gpu_mha_method method;
        gpu_mha_weights weights;
        gpu_mha_scores scores;
        int staged;
    } cases[] = {{GPU_MHA_AUTO, 0, 0, 0},
                 {GPU_MHA_FUSED, 0, 0, 0},
                 {GPU_MHA_STAGED, 0, 0, 1},
                 {GPU_MHA_AUTO, GPU_MHA_WEIGHTS_AVERAGED, 0, 1},
                 {GPU_MHA_AUTO, 0, GPU_MHA_SCORES_RAW, 1}};
    gpu_mha_desc desc = valid;
    gpu_mha_plan *plan = NULL;
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        desc.method = cases[n].method;
        desc.weights = cases[n].weights;
        desc.scores = cases[n].scores;
        ck_assert_int_eq(gpu_mha_plan_create(probe_context(), &desc, &plan), GPU_MHA_OK);
        const char *text = gpu_mha_plan_text(plan);
        ck_assert_msg((strncmp(text, "staged ", 7) == 0) == cases[n].staged, "the plan is \"%s\"",
                      text);
        ck_assert_uint_gt(strlen(text), 0);
        gpu_mha_plan_release(plan);
    }
}
END_TEST

static size_t workspace_of(gpu_mha_method method, int64_t NQ, int64_t NK)
{
    gpu_mha_desc desc = {
        .B = 2, .H = 4, .HKV = 2, .NQ = NQ, .NK = NK, .DK = 5, .DV = 3, .method = method};
    gpu_mha_plan *plan = NULL;
    ck_assert_int_eq(gpu_mha_plan_create(probe_context(), &desc, &plan), GPU_MHA_OK);
    size_t bytes = gpu_mha_plan_workspace_bytes(plan);
    gpu_mha_plan_release(plan);
    return bytes;
}

START_TEST(workspaces_are_as_large_as_promised)
{
    const size_t bytes = workspace_of(GPU_MHA_FUSED, 1000, 4000);
    ck_assert_uint_eq(workspace_of(GPU_MHA_FUSED, 8000, 4000), bytes);
    ck_assert_uint_lt(bytes, (size_t)2 * 4 * 1000 * 4000);
    ck_assert_uint_ge(workspace_of(GPU_MHA_STAGED, 100, 400), (size_t)4 * 2 * 4 * 100 * 400);
}
END_TEST

START_TEST(a_plan_outlives_its_makers)
{
    gpu_mha_context *context = NULL;
    gpu_mha_plan *plan = NULL;
    ck_assert_int_eq(gpu_mha_context_create(NULL, &context), GPU_MHA_OK);
    ck_assert_int_eq(gpu_mha_context_retain(context), GPU_MHA_OK);
    gpu_mha_context_release(context);
    ck_assert_int_eq(gpu_mha_plan_create(context, &valid, &plan), GPU_MHA_OK);
    ck_assert_int_eq(gpu_mha_plan_retain(plan), GPU_MHA_OK);
    gpu_mha_plan_release(plan);
    ck_assert_int_gt(buffers_made, 0); /* the counter counts: a plan has a buffer of its own */
    cl_context cl = gpu_mha_context_cl(context);
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = clCreateCommandQueue(cl, gpu_mha_context_device(context), 0, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    gpu_mha_context_release(context);

    const float zeros[20] = {0}, value[9] = {5, 5, 5, 5, 5, 5, 5, 5, 5};
    float output[12] = {0};
    const cl_mem_flags in = CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR;
    cl_mem mems[5] = {clCreateBuffer(cl, in, sizeof zeros, (void *)(uintptr_t)zeros, NULL),
                      clCreateBuffer(cl, in, 60, (void *)(uintptr_t)zeros, NULL),
                      clCreateBuffer(cl, in, sizeof value, (void *)(uintptr_t)value, NULL),
                      clCreateBuffer(cl, CL_MEM_WRITE_ONLY, sizeof output, NULL, NULL),
                      clCreateBuffer(cl, CL_MEM_READ_WRITE,
                                     gpu_mha_plan_workspace_bytes(plan) + 128, NULL, NULL)};
    gpu_mha_buffers buffers = {.query = {mems[0], 0},
                               .key = {mems[1], 0},
                               .value = {mems[2], 0},
                               .output = {mems[3], 0},
                               .workspace = {mems[4], 0}};
    buffers_made = 0;
    ck_assert_msg(gpu_mha_enqueue(plan, queue, &buffers, 0, NULL, NULL) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    ck_assert_int_eq(buffers_made, 0);
    ck_assert_int_eq(
        clEnqueueReadBuffer(queue, mems[3], CL_TRUE, 0, sizeof output, output, 0, NULL, NULL),
        CL_SUCCESS);
    for (int n = 0; n < 12; n++) {
        ASSERT_DOUBLE_SAME(output[n], 5);
    }
    gpu_mha_plan_release(plan);
    for (int n = 0; n < 5; n++) {
        clReleaseMemObject(mems[n]);
    }
    clReleaseCommandQueue(queue);
}
END_TEST

int main(void)
{
    /* Read once, at the first line of the log. */
    setenv("GPU_MHA_LOG", "debug", 1);
    gpu_mha_set_log(NULL, NULL);
    Suite *suite = suite_create("promises of the header");
    TCase *errors = tcase_create("errors"), *structs = tcase_create("structs");
    TCase *contexts = tcase_create("contexts"), *plans = tcase_create("plans");
    tcase_add_test(errors, every_status_has_a_text_and_a_name);
    tcase_add_test(errors, an_error_stays_until_the_next);
    tcase_add_test(errors, errors_belong_to_their_thread);
    tcase_add_test(errors, the_log_goes_to_the_function_that_is_set);
    tcase_add_test(structs, structs_grow_at_their_end);
    tcase_add_test(structs, zero_is_the_default);
    tcase_add_test(structs, mask_broadcast_aligns_to_the_right);
    tcase_add_test(contexts, devices_describe_themselves);
    tcase_add_test(contexts, selectors_find_the_device);
    tcase_add_test(contexts, a_wrapped_context_computes);
    tcase_add_test(contexts, null_is_nothing);
    tcase_add_test(plans, plans_say_what_they_run);
    tcase_add_test(plans, workspaces_are_as_large_as_promised);
    tcase_add_test(plans, a_plan_outlives_its_makers);
    suite_add_tcase(suite, errors);
    suite_add_tcase(suite, structs);
    suite_add_tcase(suite, contexts);
    suite_add_tcase(suite, plans);
    return probe_main(suite);
}
