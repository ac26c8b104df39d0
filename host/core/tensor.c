/* Reading public structs and tensors: nothing is believed, every product is checked. */
#include "core/tensor.h"

#include <inttypes.h>
#include <string.h>

gpu_mha_status mha_struct_read(void *copy, size_t copy_size, const void *from, size_t given,
                               size_t size_0_1, const char *name)
{
    const size_t size = given == 0 ? size_0_1 : given;
    MHA_INVALID_IF(size < size_0_1,
                   "%s.struct_size is %zu: it must be 0 or sizeof(%s), at least %zu", name, given,
                   name, size_0_1);
    /* No struct of ours comes near this; a size like it was never set. */
    MHA_INVALID_IF(size > 65536, "%s.struct_size is %zu: it must be 0 or sizeof(%s)", name, given,
                   name);
    const unsigned char *bytes = from;
    for (size_t i = copy_size; i < size; ++i) {
        MHA_INVALID_IF(bytes[i] != 0,
                       "%s has a field at byte %zu that version %s does not know: it must be zero",
                       name, i, gpu_mha_version());
    }
    memset(copy, 0, copy_size);
    memcpy(copy, from, size < copy_size ? size : copy_size);
    return GPU_MHA_OK;
}

gpu_mha_status mha_length_check(const char *name, int64_t value, int64_t low)
{
    MHA_INVALID_IF(value < low, "%s is %" PRId64 ": it must be at least %" PRId64, name, value,
                   low);
    MHA_INVALID_IF(value > MHA_LENGTH_MAX, "%s is %" PRId64 ": it must be at most 2^40", name,
                   value);
    return GPU_MHA_OK;
}

gpu_mha_status mha_flag_check(const char *name, int value)
{
    MHA_INVALID_IF(value != 0 && value != 1, "%s is %d: it must be 0 or 1", name, value);
    return GPU_MHA_OK;
}

size_t mha_type_bytes(gpu_mha_type type)
{
    return type == GPU_MHA_F32 ? 4 : 2;
}

const char *mha_type_name(gpu_mha_type type)
{
    return type == GPU_MHA_F32 ? "f32" : type == GPU_MHA_F16 ? "f16" : "bf16";
}

size_t mha_index_bytes(gpu_mha_index_type type)
{
    return type == GPU_MHA_INDEX_NONE ? 0 : type == GPU_MHA_I32 ? 4 : 8;
}

size_t mha_mask_bytes(gpu_mha_mask_type type)
{
    switch (type) {
    case GPU_MHA_MASK_NONE:
        return 0;
    case GPU_MHA_MASK_BOOL:
        return 1;
    case GPU_MHA_MASK_F32:
        return 4;
    default:
        return 2;
    }
}

gpu_mha_status mha_type_check(const char *name, gpu_mha_type type)
{
    const int value = (int)type;
    MHA_INVALID_IF(value < GPU_MHA_F32 || value > GPU_MHA_BF16,
                   "%s is %d: it must be GPU_MHA_F32, GPU_MHA_F16 or GPU_MHA_BF16", name, value);
    return GPU_MHA_OK;
}

gpu_mha_status mha_index_type_check(const char *name, gpu_mha_index_type type)
{
    const int value = (int)type;
    MHA_INVALID_IF(value < GPU_MHA_INDEX_NONE || value > GPU_MHA_I64,
                   "%s is %d: it must be GPU_MHA_INDEX_NONE, GPU_MHA_I32 or GPU_MHA_I64", name,
                   value);
    return GPU_MHA_OK;
}

static gpu_mha_status check_stride(const char *name, const char *axis, int64_t stride, int strided)
{
    MHA_INVALID_IF(!strided && stride != 0,
                   "%s.stride_%s is %" PRId64 ": it must be 0 unless layout is GPU_MHA_STRIDED",
                   name, axis, stride);
    MHA_INVALID_IF(stride < 0, "%s.stride_%s is %" PRId64 ": it must not be negative", name, axis,
                   stride);
    return GPU_MHA_OK;
}

/* Rows must not share elements: from the smallest stride up, each reaches past what lies below. */
static gpu_mha_status check_nesting(const struct mha_tensor *t)
{
    struct {
        int64_t length, stride;
        const char *axis;
    } axes[3] = {{t->B, t->stride_b, "b"}, {t->H, t->stride_h, "h"}, {t->N, t->stride_n, "n"}};
    int64_t extent = t->D;
    int done[3] = {0, 0, 0};
    for (int round = 0; round < 3; ++round) {
        int smallest = -1;
        for (int a = 0; a < 3; ++a) {
            if (!done[a] && (smallest < 0 || axes[a].stride < axes[smallest].stride)) {
                smallest = a;
            }
        }
        done[smallest] = 1;
        if (axes[smallest].length <= 1) {
            continue;
        }
        MHA_INVALID_IF(axes[smallest].stride < extent,
                       "%s.stride_%s is %" PRId64
                       ": rows of an output must not overlap, so it must be at least %" PRId64,
                       t->name, axes[smallest].axis, axes[smallest].stride, extent);
        extent =
            mha_size_add(mha_size_mul(axes[smallest].length - 1, axes[smallest].stride), extent);
    }
    return GPU_MHA_OK;
}

static int64_t span_of(const struct mha_tensor *t)
{
    if (t->B == 0 || t->H == 0 || t->N == 0 || t->D == 0) {
        return 0;
    }
    int64_t span = mha_size_mul(t->B - 1, t->stride_b);
    span = mha_size_add(span, mha_size_mul(t->H - 1, t->stride_h));
    span = mha_size_add(span, mha_size_mul(t->N - 1, t->stride_n));
    return mha_size_add(span, t->D);
}

struct mha_tensor mha_tensor_packed(const char *name, gpu_mha_type type, int64_t B, int64_t H,
                                    int64_t N, int64_t D)
{
    struct mha_tensor t = {.name = name, .type = type, .B = B, .H = H, .N = N, .D = D};
    t.stride_n = D;
    t.stride_h = mha_size_mul(N, D);
    t.stride_b = mha_size_mul(H, t.stride_h);
    t.span = span_of(&t);
    return t;
}

gpu_mha_status mha_tensor_read(const char *name, const gpu_mha_tensor *given,
                               enum mha_tensor_role role, int64_t B, int64_t H, int64_t N,
                               int64_t D, struct mha_tensor *tensor)
{
    const int layout = (int)given->layout;
    const int strided = layout == GPU_MHA_STRIDED;
    const int type = (int)given->type;
    MHA_INVALID_IF(type < GPU_MHA_F32 || type > GPU_MHA_BF16,
                   "%s.type is %d: it must be GPU_MHA_F32, GPU_MHA_F16 or GPU_MHA_BF16", name,
                   type);
    MHA_INVALID_IF(layout < GPU_MHA_BHND || layout > GPU_MHA_STRIDED,
                   "%s.layout is %d: it must be GPU_MHA_BHND, GPU_MHA_BNHD or GPU_MHA_STRIDED",
                   name, layout);
    MHA_TRY(check_stride(name, "b", given->stride_b, strided));
    MHA_TRY(check_stride(name, "h", given->stride_h, strided));
    MHA_TRY(check_stride(name, "n", given->stride_n, strided));

    struct mha_tensor t = mha_tensor_packed(name, given->type, B, H, N, D);
    if (layout == GPU_MHA_BNHD) {
        t.stride_h = D;
        t.stride_n = mha_size_mul(H, D);
        t.stride_b = mha_size_mul(N, t.stride_n);
    } else if (strided) {
        t.stride_b = given->stride_b;
        t.stride_h = given->stride_h;
        t.stride_n = given->stride_n;
    }
    t.span = span_of(&t);
    const int64_t bytes = mha_size_mul(t.span, (int64_t)mha_type_bytes(t.type));
    MHA_INVALID_IF(
        !mha_size_fits(bytes),
        "%s spans more than this machine can address: its lengths and strides are too large", name);
    if (role == MHA_OUTPUT && strided && t.span > 0) {
        MHA_TRY(check_nesting(&t));
    }
    *tensor = t;
    return GPU_MHA_OK;
}
