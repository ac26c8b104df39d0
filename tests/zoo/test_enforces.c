/*
 * test_enforces.c - the layer does what it says: what is beyond a device's limits fails, and what
 * is within them does not. Nothing of the library is in here but the driver's functions.
 */
#include "zoo.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;

/* Before the first call of OpenCL, in a process of its own. */
static void open_zoo(const char *text)
{
    cl_platform_id platform = NULL;
    cl_int code = CL_SUCCESS;

    ck_assert_int_eq(setenv("MHA_ZOO", text, 1), 0);
    ck_assert_int_eq(clGetPlatformIDs(1, &platform, NULL), CL_SUCCESS);
    ck_assert_int_eq(clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, NULL),
                     CL_DEVICE_NOT_FOUND);
    ck_assert_int_eq(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 1, &device, NULL), CL_SUCCESS);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    queue = clCreateCommandQueue(context, device, 0, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
}

static cl_int build(const char *source, const char *options, cl_program *program)
{
    cl_int code = CL_SUCCESS;

    *program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    return clBuildProgram(*program, 1, &device, options, NULL, NULL);
}

static const char kernels[] =
    "__kernel void plain(__global int *x) { x[get_global_id(0)] = 1; }\n"
    "__kernel void shares(__global int *x)\n"
    "{\n"
    "    __local int t[8192];\n"
    "    t[get_local_id(0)] = 1;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    x[get_global_id(0)] = t[0];\n"
    "}\n"
    "__kernel void given(__global int *x, __local int *t) { t[0] = 1; x[0] = t[0]; }\n"
    "struct large { int n[40]; };\n"
    "__kernel void takes(__global int *x, struct large s) { x[0] = s.n[39]; }\n";

static cl_kernel kernel_of(const char *name)
{
    cl_program program = NULL;
    cl_int code = CL_SUCCESS;
    cl_kernel kernel = NULL;

    ck_assert_int_eq(build(kernels, "-cl-std=CL1.2", &program), CL_SUCCESS);
    kernel = clCreateKernel(program, name, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    return kernel;
}

static cl_mem buffer(size_t bytes)
{
    cl_int code = CL_SUCCESS;
    cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &code);

    ck_assert_int_eq(code, CL_SUCCESS);
    return made;
}

static cl_int launch(cl_kernel kernel, size_t global, size_t local)
{
    cl_mem x = buffer(4096);
    ck_assert_int_eq(clSetKernelArg(kernel, 0, sizeof x, &x), CL_SUCCESS);
    const cl_int code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global,
                                               local ? &local : NULL, 0, NULL, NULL);

    clFinish(queue);
    clReleaseMemObject(x);
    return code;
}

START_TEST(work_groups)
{
    size_t most = 0;

    open_zoo("gpu,group=24,kernel_group=8");
    cl_kernel plain = kernel_of("plain"), shares = kernel_of("shares");
    ck_assert_int_eq(launch(plain, 48, 24), CL_SUCCESS);
    ck_assert_int_eq(launch(plain, 48, 0), CL_SUCCESS);
    ck_assert_int_eq(launch(plain, 64, 32), CL_INVALID_WORK_ITEM_SIZE);
    ck_assert_int_eq(launch(plain, 47, 24), CL_INVALID_WORK_GROUP_SIZE);
    ck_assert_int_eq(launch(shares, 16, 8), CL_SUCCESS);
    ck_assert_int_eq(launch(shares, 32, 16), CL_INVALID_WORK_GROUP_SIZE);
    ck_assert_int_eq(clGetKernelWorkGroupInfo(shares, device, CL_KERNEL_WORK_GROUP_SIZE,
                                              sizeof most, &most, NULL),
                     CL_SUCCESS);
    ck_assert_uint_eq(most, 8);
    const size_t global[2] = {8, 8}, local[2] = {8, 4};
    ck_assert_int_eq(clEnqueueNDRangeKernel(queue, plain, 2, NULL, global, local, 0, NULL, NULL),
                     CL_INVALID_WORK_GROUP_SIZE);
}
END_TEST

START_TEST(local_memory)
{
    open_zoo("gpu,local=16k");
    ck_assert_int_eq(launch(kernel_of("shares"), 8, 8), CL_OUT_OF_RESOURCES);
    cl_kernel given = kernel_of("given");
    ck_assert_int_eq(clSetKernelArg(given, 1, 64, NULL), CL_SUCCESS);
    ck_assert_int_eq(launch(given, 8, 8), CL_SUCCESS);
    ck_assert_int_eq(clSetKernelArg(given, 1, 16385, NULL), CL_SUCCESS);
    ck_assert_int_eq(launch(given, 8, 8), CL_OUT_OF_RESOURCES);
}
END_TEST

START_TEST(a_kernel_too_large_does_not_build)
{
    static const struct {
        const char *zoo;
        cl_int code;
    } builds[] = {{"gpu,local=16k,refusal=1", CL_BUILD_PROGRAM_FAILURE},
                  {"gpu,local=16k,refusal=2", CL_OUT_OF_RESOURCES},
                  {"gpu,local=32k,refusal=1", CL_SUCCESS},
                  {"gpu,local=32k,extra_local=1,refusal=1", CL_BUILD_PROGRAM_FAILURE}};
    cl_program program = NULL;

    open_zoo(builds[_i].zoo);
    ck_assert_int_eq(build(kernels, "", &program), builds[_i].code);
}
END_TEST

START_TEST(memory)
{
    cl_mem four[4];
    cl_int code = CL_SUCCESS;
    cl_buffer_region region = {4096, 64};

    open_zoo("gpu,alloc=1m,global=4m,align=4096");
    clCreateBuffer(context, CL_MEM_READ_WRITE, (1 << 20) + 1, NULL, &code);
    ck_assert_int_eq(code, CL_INVALID_BUFFER_SIZE);
    for (int n = 0; n < 4; n++) {
        four[n] = buffer(1 << 20);
    }
    clCreateBuffer(context, CL_MEM_READ_WRITE, 4, NULL, &code);
    ck_assert_int_eq(code, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    clReleaseMemObject(four[3]);
    four[3] = buffer(1 << 20);
    cl_mem part = clCreateSubBuffer(four[0], 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    clReleaseMemObject(part);
    region.origin = 2048;
    clCreateSubBuffer(four[0], 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    ck_assert_int_eq(code, CL_MISALIGNED_SUB_BUFFER_OFFSET);
}
END_TEST

START_TEST(arguments)
{
    const struct {
        int n[40];
    } large = {{0}};

    open_zoo("gpu,params=167");
    cl_kernel takes = kernel_of("takes");
    cl_mem x = buffer(64);
    ck_assert_int_eq(clSetKernelArg(takes, 0, sizeof x, &x), CL_SUCCESS);
    ck_assert_int_eq(clSetKernelArg(takes, 1, sizeof large, &large), CL_INVALID_ARG_SIZE);
}
END_TEST

/* What a device does not have does not build, or cannot be made. */
START_TEST(extensions)
{
    static const char *const sources[] = {
        "__kernel void k(__global double *x) { x[0] = 1; }",
        "__kernel void k(__global half *x) { half y = x[0]; x[1] = y * y; }",
        "__kernel void k(__global int *x) { x[0] = get_sub_group_size(); }"};
    cl_program program = NULL;
    cl_int code = CL_SUCCESS;
    const cl_image_format format = {CL_RGBA, CL_FLOAT};

    open_zoo(_i < 3 ? "gpu" : "gpu,double=1,no_images=1");
    if (_i < 3) {
        ck_assert_int_eq(build(sources[_i], "", &program), CL_BUILD_PROGRAM_FAILURE);
        return;
    }
    ck_assert_int_eq(build(sources[0], "", &program), CL_SUCCESS);
    clCreateImage2D(context, CL_MEM_READ_ONLY, &format, 4, 4, 0, NULL, &code);
    ck_assert_int_eq(code, CL_INVALID_OPERATION);
}
END_TEST

START_TEST(version_1_1_has_no_language_1_2)
{
    cl_program program = NULL;
    cl_device_id parent = NULL;

    open_zoo("gpu,version=11");
    ck_assert_int_eq(build(kernels, "-cl-std=CL1.1", &program), CL_SUCCESS);
    ck_assert_int_eq(build(kernels, "-cl-std=CL1.2", &program), CL_INVALID_BUILD_OPTIONS);
    ck_assert_int_eq(clGetDeviceInfo(device, CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent, NULL),
                     CL_INVALID_VALUE);
}
END_TEST

START_TEST(version_1_1_has_no_function_of_1_2)
{
    open_zoo("gpu,version=11");
    clEnqueueMarkerWithWaitList(queue, 0, NULL, NULL);
}
END_TEST

START_TEST(version_1_2_has_no_function_of_2_0)
{
    open_zoo("gpu");
    clCreateCommandQueueWithProperties(context, device, NULL, NULL);
}
END_TEST

START_TEST(version_3_0_has_all_functions)
{
    cl_int code = CL_SUCCESS;

    open_zoo("nvidia");
    clCreateCommandQueueWithProperties(context, device, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    ck_assert_int_eq(clEnqueueMarkerWithWaitList(queue, 0, NULL, NULL), CL_SUCCESS);
}
END_TEST

START_TEST(a_wrong_description_ends_the_process)
{
    open_zoo(_i ? "gpu,grupp=3" : "a device of no name");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("enforces");
    TCase *tcase = tcase_create("limits");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, work_groups);
    tcase_add_test(tcase, local_memory);
    tcase_add_loop_test(tcase, a_kernel_too_large_does_not_build, 0, 4);
    tcase_add_test(tcase, memory);
    tcase_add_test(tcase, arguments);
    tcase_add_loop_test(tcase, extensions, 0, 4);
    tcase_add_test(tcase, version_1_1_has_no_language_1_2);
    tcase_add_test_raise_signal(tcase, version_1_1_has_no_function_of_1_2, SIGABRT);
    tcase_add_test_raise_signal(tcase, version_1_2_has_no_function_of_2_0, SIGABRT);
    tcase_add_test(tcase, version_3_0_has_all_functions);
    tcase_add_loop_test_raise_signal(tcase, a_wrong_description_ends_the_process, SIGABRT, 0, 2);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
