/*
 * Matrix products C (M, N) = A (M, K) W (N, K)^T as the layer makes them, packing of W included,
 * beside the multiply-add rate of the device, in turns:
 *
 *   bench_products [--seconds S] [--clblast] [M,N,K ...]
 *
 * --clblast: every implementation in turn, not only the one that the layer takes on this device.
 * GPU_MHA_DEVICE chooses the device, GPU_MHA_TILE the tile. Every run reads another part of a
 * pool of random numbers that no cache holds.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "blas/gemm.h"
#include "command.h"

enum { ROUNDS = 11, REPEATS_MOST = 1000, PRODUCTS_MAX = 128 };

static const char *const default_shapes[] = {
    "1024,768,768", "1024,1024,1024", "1024,2304,768", "512,512,512",   "777,1000,333",
    "128,768,768",  "1,768,768",      "64,64,64",      "1024,768,3072", "2048,4096,2048",
};

struct product {
    struct mha_gemm_shape shape;
    struct mha_gemm gemm;
    cl_mem c, scratch;
    size_t next, repeats;
    struct mha_bench_samples samples;
};

static struct product products[PRODUCTS_MAX];
static int count;

/* Elements of A and W, which lie side by side in the pool. */
static size_t slice(const struct mha_gemm_shape *s)
{
    return (size_t)(s->M * s->K + s->N * s->K);
}

static bool run(struct product *one, const struct mha_bench_device *device, double *milliseconds)
{
    const struct mha_gemm_shape *s = &one->shape;
    const size_t at = one->next++ % (device->pool_bytes[0] / sizeof(float) / slice(s)) * slice(s);
    const gpu_mha_buffer a = {device->pool[0], at};
    const gpu_mha_buffer w = {device->pool[0], at + (size_t)(s->M * s->K)};
    const gpu_mha_buffer c = {one->c, 0}, scratch = {one->scratch, 0}, none = {NULL, 0};
    struct mha_chain chain;
    const double start = mha_milliseconds();
    mha_chain_begin(&chain, device->queue, 0, NULL);
    const gpu_mha_status status = mha_gemm_launch(&one->gemm, &chain, a, w, none, c, scratch);
    if (mha_chain_end(&chain, status, NULL) != GPU_MHA_OK) {
        mha_report_library_error("product");
        return false;
    }
    const cl_int code = clFinish(device->queue);
    *milliseconds = mha_milliseconds() - start;
    return mha_bench_cl_ok(code, "clFinish");
}

static bool open_product(struct product *one, struct mha_bench_device *device,
                         const struct mha_gemm_kind *kind, const char *text)
{
    long long M = 0, N = 0, K = 0;
    char rest;
    if (sscanf(text, "%lld,%lld,%lld%c", &M, &N, &K, &rest) != 3 || M < 1 || N < 1 || K < 1) {
        mha_report("'%s' is not M,N,K", text);
        return false;
    }
    one->shape = (struct mha_gemm_shape){M, N, K, K, K, N};
    if (slice(&one->shape) * sizeof(float) > device->pool_bytes[0]) {
        mha_report("%s does not fit the pool of %zu bytes", text, device->pool_bytes[0]);
        return false;
    }
    if (mha_gemm_prepare_with(kind, device->context, &one->shape, &one->gemm) != GPU_MHA_OK) {
        mha_report_library_error(text);
        return false;
    }
    one->c =
        mha_bench_buffer(device, CL_MEM_READ_WRITE, (size_t)(M * N) * sizeof(float), "the product");
    one->scratch =
        mha_bench_buffer(device, CL_MEM_READ_WRITE, one->gemm.scratch_bytes, "the scratch");
    return one->c != NULL && one->scratch != NULL;
}

static bool warm_up(struct product *one, struct mha_bench_device *device, double seconds)
{
    double milliseconds = 0;
    for (int i = 0; i < 3; ++i) {
        if (!run(one, device, &milliseconds)) {
            return false;
        }
    }
    one->repeats = (size_t)fmin(fmax(seconds * 1e3 / ROUNDS / milliseconds, 1), REPEATS_MOST);
    return true;
}

static bool run_rounds(struct mha_bench_device *device, struct mha_bench_limits *limits)
{
    double milliseconds = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        if (!mha_bench_limits_round(limits)) {
            return false;
        }
        for (int i = 0; i < count; ++i) {
            for (size_t repeat = 0; repeat < products[i].repeats; ++repeat) {
                if (!run(&products[i], device, &milliseconds) ||
                    !mha_bench_samples_add(&products[i].samples, milliseconds)) {
                    return false;
                }
            }
        }
    }
    return true;
}

static void report(const struct mha_bench_device *device, struct mha_bench_limits *limits)
{
    const double peak = mha_bench_limits_peaks(limits).fma_gflops;
    printf("%s\nmultiply-add %.1f GFLOP/s\n\n%-16s %-8s %10s %9s %5s\n", device->name, peak,
           "M,N,K", "by", "median ms", "GFLOP/s", "of");
    for (int i = 0; i < count; ++i) {
        const struct mha_gemm_shape *s = &products[i].shape;
        char text[64];
        snprintf(text, sizeof text, "%lld,%lld,%lld", (long long)s->M, (long long)s->N,
                 (long long)s->K);
        const double median = mha_bench_samples_median(&products[i].samples);
        const double rate = 2e-6 * (double)s->M * (double)s->N * (double)s->K / median;
        printf("%-16s %-8s %10.4g %9.1f %4.0f%%\n", text, products[i].gemm.kind->name, median, rate,
               100 * rate / peak);
    }
}

static bool open_products(struct mha_bench_device *device, int clblast, int given, char **shapes,
                          double seconds)
{
    struct mha_tuned_entry entry;
    const struct mha_gemm_kind *const own = mha_gemm_kind_for(device->context, &entry);
    const struct mha_gemm_kind *const all[] = {&mha_gemm_tile, &mha_gemm_clblast};
    const int shape_count = given > 0 ? given : (int)(sizeof default_shapes / sizeof(char *));
    for (int s = 0; s < shape_count; ++s) {
        const char *text = given > 0 ? shapes[s] : default_shapes[s];
        for (int k = 0; k < (clblast ? 2 : 1) && count < PRODUCTS_MAX; ++k) {
            struct product *one = &products[count++];
            if (!open_product(one, device, clblast ? all[k] : own, text) ||
                !warm_up(one, device, seconds)) {
                return false;
            }
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    struct mha_bench_device device = {0};
    struct mha_bench_limits *limits = NULL;
    double seconds = 1;
    int clblast = 0, first = 1, code = 1;
    for (; first < argc && strncmp(argv[first], "--", 2) == 0; ++first) {
        if (strcmp(argv[first], "--clblast") == 0) {
            clblast = 1;
        } else if (strcmp(argv[first], "--seconds") == 0 && first + 1 < argc) {
            seconds = atof(argv[++first]);
        } else {
            fprintf(stderr, "usage: bench_products [--seconds S] [--clblast] [M,N,K ...]\n");
            return 2;
        }
    }
    if (!mha_bench_device_open(&device, NULL)) {
        goto cleanup;
    }
    device.pool_bytes[0] = mha_bench_pool_bytes(&device);
    device.pool[0] = mha_bench_buffer(&device, CL_MEM_READ_WRITE, device.pool_bytes[0], "the pool");
    if (device.pool[0] == NULL) {
        goto cleanup;
    }
    limits = mha_bench_limits_create(&device);
    if (limits == NULL || !open_products(&device, clblast, argc - first, argv + first, seconds) ||
        !run_rounds(&device, limits)) {
        goto cleanup;
    }
    report(&device, limits);
    code = 0;

cleanup:
    for (int i = 0; i < count; ++i) {
        mha_gemm_destroy(&products[i].gemm);
        if (products[i].c != NULL) {
            clReleaseMemObject(products[i].c);
        }
        if (products[i].scratch != NULL) {
            clReleaseMemObject(products[i].scratch);
        }
        mha_bench_samples_free(&products[i].samples);
    }
    mha_bench_limits_free(limits);
    mha_bench_device_close(&device);
    return code;
}
