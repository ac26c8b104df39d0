/* Gather, copy, scatter: what stands between host arrays and device buffers. */
#include "cl/transfer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct mha_view mha_view_of_tensor(const struct mha_tensor *t)
{
    return (struct mha_view){{t->B, t->H, t->N, t->D},
                             {t->stride_b, t->stride_h, t->stride_n, 1},
                             mha_type_bytes(t->type)};
}

struct mha_view mha_view_flat(int64_t count, size_t element_bytes)
{
    return (struct mha_view){{1, 1, 1, count}, {0, 0, 0, 1}, element_bytes};
}

static int64_t view_span(const struct mha_view *v)
{
    int64_t last = 0;
    for (int a = 0; a < 4; ++a) {
        if (v->length[a] == 0) {
            return 0;
        }
        last = mha_size_add(last, mha_size_mul(v->length[a] - 1, v->stride[a]));
    }
    return mha_size_add(last, 1);
}

struct mha_transfer mha_transfer_in(const char *name, int wanted, const void *input,
                                    struct mha_view host)
{
    return (struct mha_transfer){.name = name, .wanted = wanted, .input = input, .host = host};
}

struct mha_transfer mha_transfer_out(const char *name, int wanted, void *output,
                                     struct mha_view host)
{
    return (struct mha_transfer){.name = name, .wanted = wanted, .output = output, .host = host};
}

struct mha_transfer mha_transfer_scratch(const char *name, size_t bytes)
{
    const struct mha_view view = mha_view_flat((int64_t)bytes, 1);
    return (struct mha_transfer){
        .name = name, .wanted = 1, .host = view, .device = view, .span = (int64_t)bytes};
}

/* 1 if the elements fill the span without a gap and without meeting twice, in any order of axes. */
static int is_dense(const struct mha_view *v)
{
    int64_t next = 1;
    for (int found = 1; found;) {
        found = 0;
        for (int a = 0; a < 4 && !found; ++a) {
            if (v->length[a] > 1 && v->stride[a] == next) {
                next = mha_size_mul(next, v->length[a]);
                found = 1;
            }
        }
    }
    return next == view_span(v);
}

gpu_mha_status mha_transfer_plan(struct mha_transfer *t)
{
    const void *given = t->output != NULL ? t->output : t->input;
    MHA_INVALID_IF(!t->wanted && given != NULL,
                   "%s is given: the descriptor does not ask for it, so it must be NULL", t->name);
    t->span = t->wanted ? view_span(&t->host) : 0;
    t->device = t->host;
    t->whole = 1;
    if (t->span == 0) {
        return GPU_MHA_OK;
    }
    MHA_INVALID_IF(given == NULL, "%s is NULL: the descriptor asks for it", t->name);
    int64_t packed = 1;
    struct mha_view device = t->host;
    for (int a = 3; a >= 0; --a) {
        const int repeats = t->host.stride[a] == 0;
        device.stride[a] = repeats ? 0 : packed;
        packed = repeats ? packed : mha_size_mul(packed, t->host.length[a]);
    }
    if (!is_dense(&t->host)) {
        t->whole = 0;
        t->device = device;
        t->span = packed;
    }
    MHA_INVALID_IF(!mha_size_fits(mha_size_mul(t->span, (int64_t)t->host.element_bytes)),
                   "%s is larger than this machine can address", t->name);
    return GPU_MHA_OK;
}

/* Walks over all elements of both sides; axes that repeat on the device are taken once. */
static void copy_view(unsigned char *to, const struct mha_view *to_view, const unsigned char *from,
                      const struct mha_view *from_view, const struct mha_view *device)
{
    const size_t bytes = to_view->element_bytes;
    int64_t n[4];
    for (int a = 0; a < 4; ++a) {
        n[a] = device->stride[a] == 0 ? 1 : to_view->length[a];
    }
    const int row_is_one_piece = to_view->stride[3] == 1 && from_view->stride[3] == 1;
    const int64_t inner = row_is_one_piece ? 1 : n[3];
    const size_t piece = row_is_one_piece ? (size_t)n[3] * bytes : bytes;
    for (int64_t b = 0; b < n[0]; ++b) {
        for (int64_t h = 0; h < n[1]; ++h) {
            for (int64_t i = 0; i < n[2]; ++i) {
                const int64_t to_row =
                    b * to_view->stride[0] + h * to_view->stride[1] + i * to_view->stride[2];
                const int64_t from_row =
                    b * from_view->stride[0] + h * from_view->stride[1] + i * from_view->stride[2];
                for (int64_t d = 0; d < inner; ++d) {
                    memcpy(to + (size_t)(to_row + d * to_view->stride[3]) * bytes,
                           from + (size_t)(from_row + d * from_view->stride[3]) * bytes, piece);
                }
            }
        }
    }
}

gpu_mha_status mha_transfers_fit(const struct mha_transfer *transfers, int count,
                                 const struct mha_device *device)
{
    int64_t all = 0;
    for (int i = 0; i < count; ++i) {
        const struct mha_transfer *t = &transfers[i];
        const int64_t bytes = mha_size_mul(t->span, (int64_t)t->host.element_bytes);
        MHA_RETURN_IF((cl_ulong)bytes > device->max_alloc_bytes, GPU_MHA_UNSUPPORTED,
                      "%s takes %" PRId64 " bytes: the device allocates at most %" PRIu64, t->name,
                      bytes, (uint64_t)device->max_alloc_bytes);
        all = mha_size_add(all, bytes);
    }
    MHA_RETURN_IF((cl_ulong)all > device->global_bytes, GPU_MHA_UNSUPPORTED,
                  "the arrays of the call take %" PRId64 " bytes: the device has %" PRIu64, all,
                  (uint64_t)device->global_bytes);
    return GPU_MHA_OK;
}

gpu_mha_status mha_transfer_upload(struct mha_transfer *t, cl_context cl)
{
    gpu_mha_status status = GPU_MHA_OK;
    unsigned char *packed = NULL;
    const size_t bytes = (size_t)t->span * t->host.element_bytes;
    const void *from = t->input;
    if (bytes == 0) {
        return GPU_MHA_OK;
    }
    if (t->input != NULL && !t->whole) {
        packed = malloc(bytes);
        if (packed == NULL) {
            status = mha_error_set(GPU_MHA_HOST_MEMORY, "no memory to pack %s: %zu bytes", t->name,
                                   bytes);
            goto cleanup;
        }
        copy_view(packed, &t->device, t->input, &t->host, &t->device);
        from = packed;
    }
    /* The pointer is only read with CL_MEM_COPY_HOST_PTR. */
    cl_int code = CL_SUCCESS;
    const cl_mem_flags flags =
        from != NULL ? CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR : CL_MEM_READ_WRITE;
    t->mem = clCreateBuffer(cl, flags, bytes, (void *)(uintptr_t)from, &code);
    if (t->mem == NULL) {
        status = mha_error_cl(code, "clCreateBuffer", "%zu bytes for %s", bytes, t->name);
    }
cleanup:
    free(packed);
    return status;
}

/* Behind `done`; without it the failure of a launch could go unseen, even in an in-order queue. */
static gpu_mha_status download(const struct mha_transfer *t, cl_command_queue queue, cl_event done)
{
    gpu_mha_status status = GPU_MHA_OK;
    unsigned char *packed = NULL;
    const size_t bytes = (size_t)t->span * t->host.element_bytes;
    void *to = t->output;
    if (bytes == 0) {
        return GPU_MHA_OK;
    }
    if (!t->whole) {
        packed = malloc(bytes);
        if (packed == NULL) {
            status = mha_error_set(GPU_MHA_HOST_MEMORY, "no memory to unpack %s: %zu bytes",
                                   t->name, bytes);
            goto cleanup;
        }
        to = packed;
    }
    const cl_int code = clEnqueueReadBuffer(queue, t->mem, CL_TRUE, 0, bytes, to, 1, &done, NULL);
    if (code != CL_SUCCESS) {
        status = mha_error_cl(code, "clEnqueueReadBuffer", "%zu bytes of %s", bytes, t->name);
        goto cleanup;
    }
    if (packed != NULL) {
        copy_view(t->output, &t->host, packed, &t->device, &t->device);
    }
cleanup:
    free(packed);
    return status;
}

gpu_mha_status mha_transfers_collect(const struct mha_transfer *transfers, int count,
                                     struct mha_chain *chain, gpu_mha_status launched)
{
    const cl_command_queue queue = chain->queue;
    cl_event done = NULL;
    gpu_mha_status status = mha_chain_end(chain, launched, &done);
    for (int t = 0; t < count && status == GPU_MHA_OK; ++t) {
        if (transfers[t].output != NULL) {
            status = download(&transfers[t], queue, done);
        }
    }
    if (done != NULL) {
        clReleaseEvent(done);
    }
    return status;
}

void mha_transfer_release(struct mha_transfer *t)
{
    if (t->mem != NULL) {
        clReleaseMemObject(t->mem);
        t->mem = NULL;
    }
}

gpu_mha_tensor mha_transfer_tensor(const struct mha_transfer *t, gpu_mha_type type)
{
    return (gpu_mha_tensor){.type = type,
                            .layout = GPU_MHA_STRIDED,
                            .stride_b = t->device.stride[0],
                            .stride_h = t->device.stride[1],
                            .stride_n = t->device.stride[2]};
}
