/*
 * test_context.c - contexts, programs, kernels and chains on the default device.
 *
 * The kernel sources are made up here: what is tested is how they are read, built, kept and
 * launched.
 */
#include "cl/context.h"
#include "cl/device_list.h"
#include "cl/expand.h"
#include "harness/queue.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOURCE(name, text)                                                                         \
    {                                                                                              \
        name, text, sizeof(text) - 1                                                               \
    }

static const struct mha_cl_source sources[] = {
    SOURCE("broken.cl", "__kernel void broken(__global int *y) { y[0] = no_such_name; }\n"),
    SOURCE("common/a.h", "#define A 3\n#include \"common/b.h\"\n"),
    SOURCE("common/b.h", "#include \"common/a.h\"\n#define B (A + 10)"),
    SOURCE("fill.cl", "#include \"common/a.h\"\n#include \"common/b.h\"\n"
                      "#if !defined(MHA_HAS_FMA) || !defined(FLAG)\n#error definitions\n#endif\n"
                      "__kernel void fill(__global int *y, int n, int start) {\n"
                      "    int i = get_global_id(0);\n"
                      "    if (i < n) y[i] = start + i * B;\n"
                      "}\n"
                      "__kernel void add(__global int *y, int n, int factor) {\n"
                      "    int i = get_global_id(0);\n"
                      "    if (i < n) y[i] = y[i] * factor + OFFSET;\n"
                      "}\n"
                      "__kernel __attribute__((reqd_work_group_size(6, 1, 1)))\n"
                      "void six(__global int *y) { y[get_global_id(0)] = get_local_size(0); }\n"),
    SOURCE("lost.cl", "int x;\n#include \"common/lost.h\"\n"),
    SOURCE("odd.cl", "#include <common/a.h>\n #include \"common/a.h\"\n#include \"common/a.h\n"
                     "#include\t\"common/b.h\" // why\n#includes\nlast"),
    {NULL, NULL, 0},
};

static gpu_mha_context *context;
static struct mha_program_cache *cache;

/* Checked: a driver in use does not survive the fork in front of a test. */
static void open_context(void)
{
    setenv("GPU_MHA_LOG", "off", 1);
    setenv("POCL_DEVICES", "pthread basic", 1); /* two devices, where PoCL is the platform */
    ck_assert_msg(gpu_mha_context_create(NULL, &context) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    ck_assert_int_eq(mha_program_cache_create(context->cl, &context->device, sources, &cache),
                     GPU_MHA_OK);
}

static void close_context(void)
{
    mha_program_cache_destroy(cache);
    gpu_mha_context_release(context);
}

/* ---- reading sources ---- */

static const struct {
    const char *name, *text;
} expansions[] = {
    {"broken.cl", "__kernel void broken(__global int *y) { y[0] = no_such_name; }\n"},
    {"common/a.h", "#define A 3\n#define B (A + 10)\n"},
    {"common/b.h", "#define A 3\n#define B (A + 10)\n"},
    {"odd.cl", "#include <common/a.h>\n #include \"common/a.h\"\n#include \"common/a.h\n"
               "#define A 3\n#define B (A + 10)\n#includes\nlast\n"},
};

START_TEST(includes_are_written_out_once)
{
    struct mha_strbuf text = {0};
    ck_assert_int_eq(mha_expand_source(sources, expansions[_i].name, &text), GPU_MHA_OK);
    ck_assert_str_eq(mha_strbuf_text(&text), expansions[_i].text);
    mha_strbuf_free(&text);
}
END_TEST

START_TEST(a_lost_include_is_named)
{
    struct mha_strbuf text = {0};
    ck_assert_int_eq(mha_expand_source(sources, "lost.cl", &text), GPU_MHA_BUILD);
    ck_assert_str_eq(gpu_mha_last_error(),
                     "kernel source lost.cl includes \"common/lost.h\", which is not embedded");
    ck_assert_int_eq(mha_expand_source(sources, "common", &text), GPU_MHA_BUILD);
    ck_assert_str_eq(gpu_mha_last_error(), "kernel source \"common\" is not embedded");
    mha_strbuf_free(&text);
}
END_TEST

START_TEST(options_are_definitions)
{
    struct mha_options options = {{0}};
    mha_options_int(&options, "SIZE", INT64_C(-5000000000));
    mha_options_flag(&options, "ON", 8);
    mha_options_flag(&options, "OFF", 0);
    ck_assert_str_eq(mha_strbuf_text(&options.text), " -D SIZE=-5000000000 -D ON=1 -D OFF=0");
    mha_options_free(&options);
    ck_assert_str_eq(mha_strbuf_text(&options.text), "");
}
END_TEST

/* ---- contexts ---- */

START_TEST(a_context_has_its_opencl_objects)
{
    cl_device_id device = gpu_mha_context_device(context);
    cl_device_id of_context = NULL;
    ck_assert_int_eq(clGetContextInfo(gpu_mha_context_cl(context), CL_CONTEXT_DEVICES,
                                      sizeof of_context, &of_context, NULL),
                     CL_SUCCESS);
    ck_assert_ptr_nonnull(device);
    ck_assert_ptr_eq(of_context, device);
    ck_assert_ptr_null(gpu_mha_context_cl(NULL));
    ck_assert_ptr_null(gpu_mha_context_device(NULL));
    gpu_mha_context_release(NULL);
    ck_assert_int_eq(gpu_mha_context_retain(NULL), GPU_MHA_INVALID);
    ck_assert_int_eq(gpu_mha_context_create(NULL, NULL), GPU_MHA_INVALID);
}
END_TEST

static cl_uint references_of(cl_context cl)
{
    cl_uint count = 0;
    ck_assert_int_eq(clGetContextInfo(cl, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, NULL),
                     CL_SUCCESS);
    return count;
}

START_TEST(a_wrapped_context_is_retained_and_given_back)
{
    cl_context cl = gpu_mha_context_cl(context);
    cl_device_id device = gpu_mha_context_device(context);
    cl_uint before = references_of(cl);
    gpu_mha_context *wrapped = NULL;
    ck_assert_int_eq(gpu_mha_context_wrap(cl, device, &wrapped), GPU_MHA_OK);
    ck_assert_ptr_eq(gpu_mha_context_cl(wrapped), cl);
    ck_assert_ptr_eq(gpu_mha_context_device(wrapped), device);
    ck_assert_uint_gt(references_of(cl), before);
    ck_assert_int_eq(gpu_mha_context_retain(wrapped), GPU_MHA_OK);
    gpu_mha_context_release(wrapped);
    ck_assert_uint_gt(references_of(cl), before);
    gpu_mha_context_release(wrapped);
    ck_assert_uint_eq(references_of(cl), before);
}
END_TEST

/* Another usable device of the same platform; NULL if there is none. */
static cl_device_id other_device(void)
{
    struct mha_device_list list;
    cl_device_id other = NULL;
    ck_assert_int_eq(mha_device_list_read(&list), GPU_MHA_OK);
    for (size_t i = 0; i < list.count; i++) {
        gpu_mha_device_info info;
        mha_device_describe(&list.devices[i], &info);
        if (info.usable && list.devices[i].platform == context->device.platform &&
            list.devices[i].id != context->device.id) {
            other = list.devices[i].id;
        }
    }
    mha_device_list_free(&list);
    return other;
}

START_TEST(a_wrong_wrap_is_refused)
{
    cl_context cl = gpu_mha_context_cl(context);
    cl_device_id device = gpu_mha_context_device(context);
    cl_uint before = references_of(cl);
    gpu_mha_context *wrapped = context;
    ck_assert_int_eq(gpu_mha_context_wrap(NULL, device, &wrapped), GPU_MHA_INVALID);
    ck_assert_ptr_null(wrapped);
    ck_assert_int_eq(gpu_mha_context_wrap(cl, NULL, &wrapped), GPU_MHA_INVALID);
    ck_assert_int_eq(gpu_mha_context_wrap(cl, device, NULL), GPU_MHA_INVALID);
    cl_device_id other = other_device();
    if (other) {
        ck_assert_int_eq(gpu_mha_context_wrap(cl, other, &wrapped), GPU_MHA_INVALID);
        ck_assert_str_eq(gpu_mha_last_error(),
                         "device is not a device of cl, must be one of its 1");
    }
    ck_assert_uint_eq(references_of(cl), before);
}
END_TEST

/* A sub-device is no root device: it lives by its references. */
START_TEST(a_wrapped_sub_device_outlives_its_maker)
{
    const cl_device_partition_property halves[] = {CL_DEVICE_PARTITION_BY_COUNTS, 1,
                                                   CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
    cl_device_id part = NULL;
    cl_device_id device = gpu_mha_context_device(context);
    if (clCreateSubDevices(device, halves, 1, &part, NULL) != CL_SUCCESS) {
        return;
    }
    cl_int code = CL_SUCCESS;
    cl_context cl = clCreateContext(NULL, 1, &part, NULL, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    gpu_mha_context *wrapped = NULL;
    ck_assert_int_eq(gpu_mha_context_wrap(cl, part, &wrapped), GPU_MHA_OK);
    ck_assert_int_eq(clReleaseDevice(part), CL_SUCCESS);
    ck_assert_int_eq(clReleaseContext(cl), CL_SUCCESS);
    cl_uint units = 0;
    ck_assert_int_eq(clGetDeviceInfo(gpu_mha_context_device(wrapped), CL_DEVICE_MAX_COMPUTE_UNITS,
                                     sizeof units, &units, NULL),
                     CL_SUCCESS);
    ck_assert_uint_eq(units, 1);
    gpu_mha_context_release(wrapped);
}
END_TEST

/* One OpenCL context, two devices: each wrapper builds for, and runs on, its own. */
START_TEST(two_devices_share_an_opencl_context)
{
    cl_device_id devices[2] = {gpu_mha_context_device(context), other_device()};
    if (!devices[1]) {
        return;
    }
    cl_int code = CL_SUCCESS;
    cl_context cl = clCreateContext(NULL, 2, devices, NULL, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    for (int i = 0; i < 4; i++) {
        gpu_mha_context *wrapped = NULL;
        ck_assert_int_eq(gpu_mha_context_wrap(cl, devices[i % 2], &wrapped), GPU_MHA_OK);
        ck_assert_ptr_eq(gpu_mha_context_device(wrapped), devices[i % 2]);
        struct mha_program_cache *programs = NULL;
        ck_assert_int_eq(mha_program_cache_create(cl, &wrapped->device, sources, &programs),
                         GPU_MHA_OK);
        struct mha_options options = {{0}};
        mha_options_flag(&options, "FLAG", 1);
        mha_options_int(&options, "OFFSET", i);
        struct mha_kernel fill;
        ck_assert_int_eq(
            mha_kernel_create(programs, &wrapped->device, "fill.cl", "fill", &options, 64, &fill),
            GPU_MHA_OK);
        cl_mem buffer = clCreateBuffer(cl, CL_MEM_READ_WRITE, 7 * sizeof(cl_int), NULL, &code);
        ck_assert_int_eq(code, CL_SUCCESS);
        cl_int n = 7, start = i, cells[7] = {0};
        const struct mha_arg args[] = {MHA_ARG(buffer), MHA_ARG(n), MHA_ARG(start)};
        struct mha_chain chain;
        mha_chain_begin(&chain, wrapped->queue, 0, NULL);
        gpu_mha_status status = mha_chain_launch(&chain, &fill, 7, args, 3);
        ck_assert_int_eq(mha_chain_end(&chain, status, NULL), GPU_MHA_OK);
        ck_assert_int_eq(clEnqueueReadBuffer(wrapped->queue, buffer, CL_TRUE, 0, sizeof cells,
                                             cells, 0, NULL, NULL),
                         CL_SUCCESS);
        ck_assert_int_eq(cells[6], i + 78);
        clReleaseMemObject(buffer);
        mha_kernel_destroy(&fill);
        mha_options_free(&options);
        mha_program_cache_destroy(programs);
        gpu_mha_context_release(wrapped);
    }
    clReleaseContext(cl);
}
END_TEST

static void *resolve_default(void *resolved)
{
    mha_context_resolve(NULL, resolved);
    return NULL;
}

START_TEST(the_default_context_is_made_once)
{
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    gpu_mha_context *resolved[THREADS] = {NULL};
    /* A failure is not kept. */
    setenv("GPU_MHA_DEVICE", "no such device", 1);
    ck_assert_int_eq(mha_context_resolve(NULL, &resolved[0]), GPU_MHA_NO_DEVICE);
    ck_assert_ptr_null(resolved[0]);
    unsetenv("GPU_MHA_DEVICE");
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, resolve_default, &resolved[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_ptr_nonnull(resolved[0]);
    for (int i = 1; i < THREADS; i++) {
        ck_assert_ptr_eq(resolved[i], resolved[0]);
    }
    gpu_mha_context *same = NULL;
    ck_assert_int_eq(mha_context_resolve(context, &same), GPU_MHA_OK);
    ck_assert_ptr_eq(same, context);
    ck_assert_ptr_ne(same, resolved[0]);
}
END_TEST

/* The child leaves by _exit: a driver's exit handlers would wait for threads it does not have. */
START_TEST(a_context_is_refused_after_fork)
{
    gpu_mha_context *resolved = NULL;
    ck_assert_int_eq(mha_context_resolve(NULL, &resolved), GPU_MHA_OK);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        int wrong = 0;
        wrong |= (gpu_mha_context_retain(context) != GPU_MHA_FORKED) << 0;
        wrong |= (mha_context_check(context) != GPU_MHA_FORKED) << 1;
        wrong |= (mha_context_resolve(context, &resolved) != GPU_MHA_FORKED) << 2;
        wrong |= (mha_context_resolve(NULL, &resolved) != GPU_MHA_FORKED) << 3;
        wrong |= (resolved != NULL) << 4;
        gpu_mha_context_release(context);
        _exit(wrong);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with 0x%x",
                  status);
    ck_assert_int_eq(mha_context_check(context), GPU_MHA_OK);
}
END_TEST

/* ---- programs ---- */

static struct mha_options with_offset(int64_t offset)
{
    struct mha_options options = {{0}};
    mha_options_flag(&options, "FLAG", 1);
    mha_options_int(&options, "OFFSET", offset);
    return options;
}

START_TEST(a_program_is_built_once_for_each_set_of_options)
{
    struct mha_options one = with_offset(1), again = with_offset(1), two = with_offset(2);
    cl_program first = NULL, second = NULL, third = NULL;
    ck_assert_int_eq(mha_program_get(cache, "fill.cl", &one, &first), GPU_MHA_OK);
    ck_assert_int_eq(mha_program_get(cache, "fill.cl", &again, &second), GPU_MHA_OK);
    ck_assert_int_eq(mha_program_get(cache, "fill.cl", &two, &third), GPU_MHA_OK);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_eq(second, first);
    ck_assert_ptr_nonnull(third);
    ck_assert_ptr_ne(third, first);
    mha_options_free(&one);
    mha_options_free(&again);
    mha_options_free(&two);
}
END_TEST

START_TEST(a_failed_build_comes_with_its_log)
{
    /* Twice: the second caller builds again and is told the same. */
    for (int i = 0; i < 2; i++) {
        cl_program program = NULL;
        mha_error_set(GPU_MHA_INVALID, "another error");
        ck_assert_int_eq(mha_program_get(cache, "broken.cl", NULL, &program), GPU_MHA_BUILD);
        ck_assert_ptr_null(program);
        gpu_mha_error error = gpu_mha_last_error_info();
        ck_assert_int_eq(error.status, GPU_MHA_BUILD);
        ck_assert_int_eq(error.cl_code, CL_BUILD_PROGRAM_FAILURE);
        ck_assert_str_eq(error.cl_call, "clBuildProgram");
        ck_assert_ptr_nonnull(strstr(error.message, "broken.cl"));
        ck_assert_ptr_nonnull(strstr(error.build_log, "no_such_name"));
    }
    /* And the next program builds. */
    struct mha_options options = with_offset(1);
    cl_program program = NULL;
    ck_assert_int_eq(mha_program_get(cache, "fill.cl", &options, &program), GPU_MHA_OK);
    ck_assert_ptr_nonnull(program);
    mha_options_free(&options);
}
END_TEST

START_TEST(options_without_memory_are_refused)
{
    struct mha_options options = with_offset(1);
    options.text.failed = 1;
    cl_program program = NULL;
    ck_assert_int_eq(mha_program_get(cache, "fill.cl", &options, &program), GPU_MHA_HOST_MEMORY);
    ck_assert_ptr_null(program);
    mha_options_free(&options);
}
END_TEST

struct builder {
    int64_t offset;
    gpu_mha_status good, bad;
    cl_program program;
};

static void *build_in_thread(void *argument)
{
    struct builder *builder = argument;
    struct mha_options options = with_offset(builder->offset);
    cl_program none = NULL;
    builder->bad = mha_program_get(cache, "broken.cl", NULL, &none);
    builder->good = mha_program_get(cache, "fill.cl", &options, &builder->program);
    mha_options_free(&options);
    return NULL;
}

START_TEST(threads_share_their_builds)
{
    enum { THREADS = 8, PROGRAMS = 2 };
    struct builder builders[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        builders[i] = (struct builder){.offset = 100 + i % PROGRAMS};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, build_in_thread, &builders[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(builders[i].bad, GPU_MHA_BUILD);
        ck_assert_int_eq(builders[i].good, GPU_MHA_OK);
        ck_assert_ptr_eq(builders[i].program, builders[i % PROGRAMS].program);
    }
    ck_assert_ptr_ne(builders[0].program, builders[1].program);
}
END_TEST

/* ---- kernels and chains ---- */

static struct mha_kernel make_kernel(const char *name, int64_t offset, size_t local)
{
    struct mha_options options = with_offset(offset);
    struct mha_kernel kernel;
    gpu_mha_status status =
        mha_kernel_create(cache, &context->device, "fill.cl", name, &options, local, &kernel);
    ck_assert_msg(status == GPU_MHA_OK, "%s", gpu_mha_last_error());
    mha_options_free(&options);
    return kernel;
}

START_TEST(the_local_size_is_a_power_of_two_within_the_limits)
{
    struct mha_device device = context->device;
    struct mha_options options = with_offset(0);
    const struct {
        size_t wanted, group_limit, items_limit, local;
    } cases[] = {
        {0, 64, 64, 1},   {1, 64, 64, 1},   {63, 256, 256, 32}, {64, 256, 256, 64},
        {64, 48, 99, 32}, {64, 99, 17, 16}, {64, 1, 64, 1},     {64, 64, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mha_kernel kernel;
        device.max_work_group_size = cases[i].group_limit;
        device.max_work_items_0 = cases[i].items_limit;
        ck_assert_int_eq(mha_kernel_create(cache, &device, "fill.cl", "fill", &options,
                                           cases[i].wanted, &kernel),
                         GPU_MHA_OK);
        ck_assert_uint_eq(kernel.local, cases[i].local);
        mha_kernel_destroy(&kernel);
    }
    struct mha_kernel kernel = make_kernel("six", 0, 64);
    ck_assert_uint_eq(kernel.local, 6);
    mha_kernel_destroy(&kernel);
    device.max_work_group_size = 5;
    ck_assert_int_eq(mha_kernel_create(cache, &device, "fill.cl", "six", &options, 64, &kernel),
                     GPU_MHA_UNSUPPORTED);
    ck_assert_ptr_null(kernel.cl);
    mha_options_free(&options);
}
END_TEST

START_TEST(a_missing_kernel_is_an_error)
{
    struct mha_options options = with_offset(0);
    struct mha_kernel kernel;
    ck_assert_int_eq(
        mha_kernel_create(cache, &context->device, "fill.cl", "missing", &options, 8, &kernel),
        GPU_MHA_OPENCL);
    ck_assert_int_eq(gpu_mha_last_error_info().cl_code, CL_INVALID_KERNEL_NAME);
    ck_assert_str_eq(gpu_mha_last_error_info().cl_call, "clCreateKernel");
    mha_kernel_destroy(&kernel);
    mha_kernel_destroy(NULL);
    mha_options_free(&options);
}
END_TEST

enum { ITEMS = 1003, GUARD = 77, CELLS = ITEMS + GUARD };

static cl_mem make_buffer(void)
{
    cl_int cells[CELLS];
    for (int i = 0; i < CELLS; i++) {
        cells[i] = -1;
    }
    cl_int code = CL_SUCCESS;
    cl_mem buffer = clCreateBuffer(context->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                   sizeof cells, cells, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    return buffer;
}

/* fill: y[i] = 40 + 13 i; then twice y = 3 y + 5; behind a user event, on both kinds of queue. */
START_TEST(launches_run_in_order)
{
    cl_command_queue queue = queue_make(context, _i);
    struct mha_kernel fill = make_kernel("fill", 5, 64), add = make_kernel("add", 5, 32);
    cl_mem buffer = make_buffer();
    cl_int n = ITEMS, start = 40, factor = 3, code = CL_SUCCESS;
    cl_event gate = clCreateUserEvent(context->cl, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    const struct mha_arg first[] = {MHA_ARG(buffer), MHA_ARG(n), MHA_ARG(start)};
    const struct mha_arg then[] = {MHA_ARG(buffer), MHA_ARG(n), MHA_ARG(factor)};

    struct mha_chain chain;
    mha_chain_begin(&chain, queue, 1, &gate);
    ck_assert_uint_eq(mha_chain_wait_count(&chain), 1);
    ck_assert_ptr_eq(mha_chain_wait_list(&chain), &gate);
    gpu_mha_status status = mha_chain_launch(&chain, &fill, ITEMS, first, 3);
    ck_assert_int_eq(status, GPU_MHA_OK);
    ck_assert_uint_eq(mha_chain_wait_count(&chain), 1);
    ck_assert_ptr_eq(mha_chain_wait_list(&chain), &chain.last);
    ck_assert_int_eq(mha_chain_launch(&chain, &add, ITEMS, then, 3), GPU_MHA_OK);
    ck_assert_int_eq(mha_chain_launch(&chain, &add, 0, then, 3), GPU_MHA_OK);
    ck_assert_int_eq(mha_chain_launch(&chain, &add, ITEMS, then, 3), GPU_MHA_OK);
    cl_event event = NULL;
    ck_assert_int_eq(mha_chain_end(&chain, status, &event), GPU_MHA_OK);
    ck_assert_ptr_nonnull(event);

    cl_int state = -1;
    clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    ck_assert_int_gt(state, CL_COMPLETE); /* behind the gate */
    ck_assert_int_eq(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    static cl_int cells[CELLS];
    ck_assert_int_eq(
        clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof cells, cells, 1, &event, NULL),
        CL_SUCCESS);
    for (int i = 0; i < CELLS; i++) {
        ck_assert_int_eq(cells[i], i < ITEMS ? 9 * (40 + 13 * i) + 20 : -1);
    }
    clReleaseEvent(event);
    clReleaseEvent(gate);
    clReleaseMemObject(buffer);
    mha_kernel_destroy(&fill);
    mha_kernel_destroy(&add);
    clReleaseCommandQueue(queue);
}
END_TEST

START_TEST(a_chain_without_a_launch_gives_a_marker)
{
    cl_command_queue queue = queue_make(context, _i);
    cl_int code = CL_SUCCESS;
    cl_event gate = clCreateUserEvent(context->cl, &code), event = NULL;
    struct mha_chain chain;
    mha_chain_begin(&chain, queue, 1, &gate);
    ck_assert_int_eq(mha_chain_end(&chain, GPU_MHA_OK, &event), GPU_MHA_OK);
    ck_assert_ptr_nonnull(event);
    cl_int state = -1;
    clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    ck_assert_int_gt(state, CL_COMPLETE);
    clSetUserEventStatus(gate, CL_COMPLETE);
    ck_assert_int_eq(clWaitForEvents(1, &event), CL_SUCCESS);
    clReleaseEvent(event);
    clReleaseEvent(gate);

    mha_chain_begin(&chain, queue, 0, NULL);
    ck_assert_int_eq(mha_chain_end(&chain, GPU_MHA_OK, NULL), GPU_MHA_OK);
    clReleaseCommandQueue(queue);
}
END_TEST

START_TEST(a_failed_chain_gives_no_event)
{
    cl_command_queue queue = queue_make(context, 0);
    struct mha_kernel fill = make_kernel("fill", 0, 64);
    cl_mem buffer = make_buffer();
    cl_int n = ITEMS, start = 40;
    cl_long too_long = 0;
    const struct mha_arg good[] = {MHA_ARG(buffer), MHA_ARG(n), MHA_ARG(start)};
    const struct mha_arg bad[] = {MHA_ARG(buffer), MHA_ARG(n), MHA_ARG(too_long)};
    cl_event event = (cl_event)(void *)&queue;
    struct mha_chain chain;
    mha_chain_begin(&chain, queue, 0, NULL);
    ck_assert_int_eq(mha_chain_launch(&chain, &fill, ITEMS, good, 3), GPU_MHA_OK);
    gpu_mha_status status = mha_chain_launch(&chain, &fill, ITEMS, bad, 3);
    ck_assert_int_eq(status, GPU_MHA_OPENCL);
    ck_assert_str_eq(gpu_mha_last_error(), "clSetKernelArg failed: CL_INVALID_ARG_SIZE (-51): "
                                           "argument 2 of kernel fill");
    ck_assert_int_eq(mha_chain_end(&chain, status, &event), GPU_MHA_OPENCL);
    ck_assert_ptr_null(event);
    clFinish(queue);
    clReleaseMemObject(buffer);
    mha_kernel_destroy(&fill);
    clReleaseCommandQueue(queue);
}
END_TEST

START_TEST(more_items_than_the_device_counts_are_refused)
{
    struct mha_device device = context->device;
    struct mha_options options = with_offset(0);
    struct mha_kernel kernel;
    struct mha_chain chain;
    device.address_bits = _i ? 64 : 32;
    ck_assert_int_eq(mha_kernel_create(cache, &device, "fill.cl", "fill", &options, 64, &kernel),
                     GPU_MHA_OK);
    mha_chain_begin(&chain, context->queue, 0, NULL);
    const size_t limit = _i ? SIZE_MAX : UINT32_MAX;
    ck_assert_int_eq(mha_chain_launch(&chain, &kernel, limit - 62, NULL, 0), GPU_MHA_UNSUPPORTED);
    ck_assert_int_eq(mha_chain_launch(&chain, &kernel, limit, NULL, 0), GPU_MHA_UNSUPPORTED);
    ck_assert_ptr_null(chain.last);
    mha_kernel_destroy(&kernel);
    mha_options_free(&options);
}
END_TEST

struct filler {
    struct mha_kernel *kernel;
    cl_int start;
    int wrong;
};

/* Each thread has its buffer and start; a mix of their arguments would show. */
static void *fill_in_thread(void *argument)
{
    struct filler *filler = argument;
    cl_command_queue queue = queue_make(context, 0);
    cl_mem buffer = make_buffer();
    cl_int n = ITEMS;
    const struct mha_arg args[] = {MHA_ARG(buffer), MHA_ARG(n), MHA_ARG(filler->start)};
    cl_int *cells = malloc(CELLS * sizeof *cells);
    filler->wrong = !cells;
    for (int round = 0; round < 50 && !filler->wrong; round++) {
        struct mha_chain chain;
        mha_chain_begin(&chain, queue, 0, NULL);
        gpu_mha_status status = mha_chain_launch(&chain, filler->kernel, ITEMS, args, 3);
        filler->wrong += mha_chain_end(&chain, status, NULL) != GPU_MHA_OK;
        cl_int code = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, CELLS * sizeof *cells, cells,
                                          0, NULL, NULL);
        filler->wrong += code != CL_SUCCESS;
        for (int i = 0; i < ITEMS; i++) {
            filler->wrong += cells[i] != filler->start + 13 * i;
        }
        filler->start += 1000;
    }
    free(cells);
    clReleaseMemObject(buffer);
    clReleaseCommandQueue(queue);
    return NULL;
}

START_TEST(threads_share_a_kernel)
{
    enum { THREADS = 4 };
    struct mha_kernel kernel = make_kernel("fill", 0, 64);
    struct filler fillers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        fillers[i] = (struct filler){&kernel, 7 + i, 0};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, fill_in_thread, &fillers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(fillers[i].wrong, 0);
    }
    mha_kernel_destroy(&kernel);
}
END_TEST

static Suite *context_suite(void)
{
    Suite *suite = suite_create("context");
    TCase *source = tcase_create("source");
    TCase *contexts = tcase_create("context");
    TCase *program = tcase_create("program");
    TCase *kernel = tcase_create("kernel");
    TCase *const with_context[] = {contexts, program, kernel};

    tcase_add_loop_test(source, includes_are_written_out_once, 0,
                        (int)(sizeof expansions / sizeof expansions[0]));
    tcase_add_test(source, a_lost_include_is_named);
    tcase_add_test(source, options_are_definitions);
    suite_add_tcase(suite, source);

    for (size_t i = 0; i < sizeof with_context / sizeof with_context[0]; i++) {
        tcase_add_checked_fixture(with_context[i], open_context, close_context);
        tcase_set_timeout(with_context[i], 120);
        suite_add_tcase(suite, with_context[i]);
    }
    tcase_add_test(contexts, a_context_has_its_opencl_objects);
    tcase_add_test(contexts, a_wrapped_context_is_retained_and_given_back);
    tcase_add_test(contexts, a_wrong_wrap_is_refused);
    tcase_add_test(contexts, a_wrapped_sub_device_outlives_its_maker);
    tcase_add_test(contexts, two_devices_share_an_opencl_context);
    tcase_add_test(contexts, the_default_context_is_made_once);
    tcase_add_test(contexts, a_context_is_refused_after_fork);

    tcase_add_test(program, a_program_is_built_once_for_each_set_of_options);
    tcase_add_test(program, a_failed_build_comes_with_its_log);
    tcase_add_test(program, options_without_memory_are_refused);
    tcase_add_test(program, threads_share_their_builds);

    tcase_add_test(kernel, the_local_size_is_a_power_of_two_within_the_limits);
    tcase_add_test(kernel, a_missing_kernel_is_an_error);
    tcase_add_loop_test(kernel, launches_run_in_order, 0, 2);
    tcase_add_loop_test(kernel, a_chain_without_a_launch_gives_a_marker, 0, 2);
    tcase_add_test(kernel, a_failed_chain_gives_no_event);
    tcase_add_loop_test(kernel, more_items_than_the_device_counts_are_refused, 0, 2);
    tcase_add_test(kernel, threads_share_a_kernel);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(context_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
