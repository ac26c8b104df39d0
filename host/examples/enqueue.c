/*
 * Attention on your own OpenCL context, queue and buffers, without waiting in between.
 *
 * Queries, keys and values lie interleaved in one buffer, (B, N, 3, H, D), as one product with a
 * packed weight leaves them. The queue is out-of-order where the device has one, so events alone
 * carry the order: upload, attention, download.
 *
 * Queries are 0, so all visible keys weigh the same; value j is j everywhere. Query i sees the keys
 * 0 .. i, and its output is their mean, i / 2.
 */
#include <gpu_mha/gpu_mha.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { B = 2, N = 40, H = 3, D = 16, ROW = 3 * H * D };

/* All OpenCL objects of the program; whatever is still NULL was not made. */
struct objects {
    cl_device_id device;
    cl_context cl;
    cl_command_queue queue;
    cl_mem qkv, output, workspace;
    cl_event uploaded, attended;
    gpu_mha_context *context;
    gpu_mha_plan *plan;
};

static float qkv[B * N * ROW], output[B * N * H * D];

static int cl_failed(const char *what, cl_int code)
{
    if (code != CL_SUCCESS) {
        fprintf(stderr, "enqueue: %s: OpenCL error %d\n", what, (int)code);
    }
    return code != CL_SUCCESS;
}

static int mha_failed(const char *what, gpu_mha_status status)
{
    if (status != GPU_MHA_OK) {
        fprintf(stderr, "enqueue: %s: %s\n", what, gpu_mha_last_error());
    }
    return status != GPU_MHA_OK;
}

/* The first device of the first platform that has one: an installed driver may find none. */
static int find_device(cl_device_id *device)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    cl_int code = clGetPlatformIDs(16, platforms, &count);
    if (cl_failed("clGetPlatformIDs", code)) {
        return 1;
    }
    code = CL_DEVICE_NOT_FOUND;
    for (cl_uint p = 0; p < count && p < 16 && code == CL_DEVICE_NOT_FOUND; p++) {
        code = clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 1, device, NULL);
    }
    return cl_failed("clGetDeviceIDs", code);
}

/* What an OpenCL program has already: a device, a context, a queue. */
static int open_device(struct objects *o)
{
    cl_command_queue_properties properties;
    cl_int code;
    if (find_device(&o->device)) {
        return 1;
    }
    o->cl = clCreateContext(NULL, 1, &o->device, NULL, NULL, &code);
    if (cl_failed("clCreateContext", code)) {
        return 1;
    }
    code = clGetDeviceInfo(o->device, CL_DEVICE_QUEUE_PROPERTIES, sizeof properties, &properties,
                           NULL);
    if (cl_failed("clGetDeviceInfo", code)) {
        return 1;
    }
    properties &= CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    o->queue = clCreateCommandQueue(o->cl, o->device, properties, &code);
    return cl_failed("clCreateCommandQueue", code);
}

/* The library on top of it, and a plan for this problem: made once, run as often as wanted. */
static int make_plan(struct objects *o)
{
    const gpu_mha_tensor part = {
        .layout = GPU_MHA_STRIDED, .stride_b = N * ROW, .stride_n = ROW, .stride_h = D};
    const gpu_mha_desc desc = {
        .struct_size = sizeof desc,
        .B = B,
        .H = H,
        .HKV = H,
        .NQ = N,
        .NK = N,
        .DK = D,
        .DV = D,
        .query = part,
        .key = part,
        .value = part,
        .output = {.layout = GPU_MHA_BNHD},
        .causal = 1,
    };
    return mha_failed("context", gpu_mha_context_wrap(o->cl, o->device, &o->context)) ||
           mha_failed("plan", gpu_mha_plan_create(o->context, &desc, &o->plan));
}

static int make_buffers(struct objects *o)
{
    const size_t bytes = gpu_mha_plan_workspace_bytes(o->plan);
    cl_int code;
    o->qkv = clCreateBuffer(o->cl, CL_MEM_READ_ONLY, sizeof qkv, NULL, &code);
    if (cl_failed("clCreateBuffer", code)) {
        return 1;
    }
    o->output = clCreateBuffer(o->cl, CL_MEM_READ_WRITE, sizeof output, NULL, &code);
    if (cl_failed("clCreateBuffer", code)) {
        return 1;
    }
    if (bytes > 0) { /* OpenCL has no empty buffers */
        o->workspace = clCreateBuffer(o->cl, CL_MEM_READ_WRITE, bytes, NULL, &code);
    }
    return cl_failed("clCreateBuffer", code);
}

static int run(struct objects *o)
{
    /* Three tensors of one buffer: the same strides, other first elements. */
    const gpu_mha_buffers buffers = {
        .struct_size = sizeof buffers,
        .query = {o->qkv, 0},
        .key = {o->qkv, H * D},
        .value = {o->qkv, 2 * H * D},
        .output = {o->output, 0},
        .workspace = {o->workspace, 0},
    };
    cl_int code =
        clEnqueueWriteBuffer(o->queue, o->qkv, CL_FALSE, 0, sizeof qkv, qkv, 0, NULL, &o->uploaded);
    if (cl_failed("clEnqueueWriteBuffer", code)) {
        return 1;
    }
    if (mha_failed("attention",
                   gpu_mha_enqueue(o->plan, o->queue, &buffers, 1, &o->uploaded, &o->attended))) {
        return 1;
    }
    code = clEnqueueReadBuffer(o->queue, o->output, CL_TRUE, 0, sizeof output, output, 1,
                               &o->attended, NULL);
    return cl_failed("clEnqueueReadBuffer", code);
}

static void fill_values(void)
{
    for (int row = 0; row < B * N; row++) {
        for (int x = 2 * H * D; x < ROW; x++) {
            qkv[row * ROW + x] = (float)(row % N);
        }
    }
}

static double largest_error(void)
{
    double largest = 0.0;
    for (int row = 0; row < B * N; row++) {
        for (int x = 0; x < H * D; x++) {
            largest = fmax(largest, fabs(output[row * H * D + x] - 0.5 * (row % N)));
        }
    }
    return largest;
}

static void close_all(struct objects *o)
{
    /* Commands that read or write our memory may still be on their way after a failure. */
    if (o->queue) {
        clFinish(o->queue);
    }
    if (o->attended) {
        clReleaseEvent(o->attended);
    }
    if (o->uploaded) {
        clReleaseEvent(o->uploaded);
    }
    if (o->workspace) {
        clReleaseMemObject(o->workspace);
    }
    if (o->output) {
        clReleaseMemObject(o->output);
    }
    if (o->qkv) {
        clReleaseMemObject(o->qkv);
    }
    gpu_mha_plan_release(o->plan);
    gpu_mha_context_release(o->context);
    if (o->queue) {
        clReleaseCommandQueue(o->queue);
    }
    if (o->cl) {
        clReleaseContext(o->cl);
    }
}

int main(void)
{
    struct objects objects = {0};
    int failed;

    fill_values();
    failed =
        open_device(&objects) || make_plan(&objects) || make_buffers(&objects) || run(&objects);
    if (!failed) {
        const double error = largest_error();
        failed = !(error < 1e-4);
        printf("enqueue: %s, largest error %.1e: %s\n", gpu_mha_plan_text(objects.plan), error,
               failed ? "WRONG" : "right");
    }
    close_all(&objects);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
