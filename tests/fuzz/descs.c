/* See descs.h. */
#include "fuzz/descs.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "fuzz/fake_cl.h"

/* ---- fields ------------------------------------------------------------------------------- */

#define FIELD(of, member, kind)                                                                    \
    {                                                                                              \
        offsetof(of, member), kind                                                                 \
    }
#define TENSOR(of, member)                                                                         \
    FIELD(of, member.type, FIELD_INT), FIELD(of, member.layout, FIELD_INT),                        \
        FIELD(of, member.stride_b, FIELD_I64), FIELD(of, member.stride_h, FIELD_I64),              \
        FIELD(of, member.stride_n, FIELD_I64)
#define MASK(of, member)                                                                           \
    FIELD(of, member.type, FIELD_INT), FIELD(of, member.strided, FIELD_INT),                       \
        FIELD(of, member.shape[0], FIELD_I64), FIELD(of, member.shape[1], FIELD_I64),              \
        FIELD(of, member.shape[2], FIELD_I64), FIELD(of, member.shape[3], FIELD_I64),              \
        FIELD(of, member.stride[0], FIELD_I64), FIELD(of, member.stride[1], FIELD_I64),            \
        FIELD(of, member.stride[2], FIELD_I64), FIELD(of, member.stride[3], FIELD_I64)
#define STRUCT(of, list, words)                                                                    \
    {                                                                                              \
        list, sizeof(list) / sizeof *(list), words, sizeof(of)                                     \
    }

static const struct fuzz_field attention_fields[] = {
    FIELD(gpu_mha_desc, struct_size, FIELD_U64),
    FIELD(gpu_mha_desc, B, FIELD_I64),
    FIELD(gpu_mha_desc, H, FIELD_I64),
    FIELD(gpu_mha_desc, HKV, FIELD_I64),
    FIELD(gpu_mha_desc, NQ, FIELD_I64),
    FIELD(gpu_mha_desc, NK, FIELD_I64),
    FIELD(gpu_mha_desc, NP, FIELD_I64),
    FIELD(gpu_mha_desc, DK, FIELD_I64),
    FIELD(gpu_mha_desc, DV, FIELD_I64),
    TENSOR(gpu_mha_desc, query),
    TENSOR(gpu_mha_desc, key),
    TENSOR(gpu_mha_desc, value),
    TENSOR(gpu_mha_desc, past_key),
    TENSOR(gpu_mha_desc, past_value),
    TENSOR(gpu_mha_desc, output),
    FIELD(gpu_mha_desc, has_scale, FIELD_INT),
    FIELD(gpu_mha_desc, scale, FIELD_FLOAT),
    FIELD(gpu_mha_desc, softcap, FIELD_FLOAT),
    MASK(gpu_mha_desc, mask),
    MASK(gpu_mha_desc, bias),
    FIELD(gpu_mha_desc, key_lengths, FIELD_INT),
    FIELD(gpu_mha_desc, causal, FIELD_INT),
    FIELD(gpu_mha_desc, offset_kind, FIELD_INT),
    FIELD(gpu_mha_desc, offset, FIELD_I64),
    FIELD(gpu_mha_desc, has_window, FIELD_INT),
    FIELD(gpu_mha_desc, window_left, FIELD_I64),
    FIELD(gpu_mha_desc, window_right, FIELD_I64),
    FIELD(gpu_mha_desc, alibi, FIELD_INT),
    FIELD(gpu_mha_desc, sinks, FIELD_INT),
    FIELD(gpu_mha_desc, dropout, FIELD_FLOAT),
    FIELD(gpu_mha_desc, dropout_seed, FIELD_U64),
    FIELD(gpu_mha_desc, lse, FIELD_INT),
    FIELD(gpu_mha_desc, weights, FIELD_INT),
    FIELD(gpu_mha_desc, scores, FIELD_INT),
    FIELD(gpu_mha_desc, method, FIELD_INT),
};
const struct fuzz_struct fuzz_attention =
    STRUCT(gpu_mha_desc, attention_fields,
           "desc gpu_mha_desc GPU_MHA_TILE B H HKV NQ NK NP DK DV query key value past_key "
           "past_value output "
           "has_scale scale softcap mask bias key_lengths causal offset_kind offset has_window "
           "window_left window_right alibi sinks dropout lse weights scores method");

static const struct fuzz_field layer_fields[] = {
    FIELD(gpu_mha_layer_desc, struct_size, FIELD_U64),
    FIELD(gpu_mha_layer_desc, EQ, FIELD_I64),
    FIELD(gpu_mha_layer_desc, EK, FIELD_I64),
    FIELD(gpu_mha_layer_desc, EV, FIELD_I64),
    FIELD(gpu_mha_layer_desc, EO, FIELD_I64),
    FIELD(gpu_mha_layer_desc, weight_type, FIELD_INT),
    FIELD(gpu_mha_layer_desc, packed_qkv, FIELD_INT),
    FIELD(gpu_mha_layer_desc, bias_q, FIELD_INT),
    FIELD(gpu_mha_layer_desc, bias_k, FIELD_INT),
    FIELD(gpu_mha_layer_desc, bias_v, FIELD_INT),
    FIELD(gpu_mha_layer_desc, bias_out, FIELD_INT),
};
const struct fuzz_struct fuzz_layer =
    STRUCT(gpu_mha_layer_desc, layer_fields,
           "desc gpu_mha_layer_desc gpu_mha_desc GPU_MHA_TILE EQ EK EV EO weight_type packed_qkv "
           "bias_q bias_k "
           "bias_v bias_out weight_q weight_k weight_v weight_out a attention H HKV B H NQ NK "
           "DK DV NP query key value past_key past_value scale softcap mask key_lengths causal "
           "offset window alibi sinks dropout lse "
           "weights has_scale bias has_window window_left window_right offset_kind "
           "scores method query_input key_input value_input output product");

static const struct fuzz_field merge_fields[] = {
    FIELD(gpu_mha_merge_desc, struct_size, FIELD_U64),
    FIELD(gpu_mha_merge_desc, B, FIELD_I64),
    FIELD(gpu_mha_merge_desc, H, FIELD_I64),
    FIELD(gpu_mha_merge_desc, NQ, FIELD_I64),
    FIELD(gpu_mha_merge_desc, DV, FIELD_I64),
    TENSOR(gpu_mha_merge_desc, a),
    TENSOR(gpu_mha_merge_desc, b),
    TENSOR(gpu_mha_merge_desc, output),
};
const struct fuzz_struct fuzz_merge = STRUCT(gpu_mha_merge_desc, merge_fields,
                                             "gpu_mha_merge_desc B H NQ DV a b output lse_a "
                                             "lse_b lse");

static const struct fuzz_field rotary_fields[] = {
    FIELD(gpu_mha_rotary_desc, struct_size, FIELD_U64),
    FIELD(gpu_mha_rotary_desc, B, FIELD_I64),
    FIELD(gpu_mha_rotary_desc, H, FIELD_I64),
    FIELD(gpu_mha_rotary_desc, N, FIELD_I64),
    FIELD(gpu_mha_rotary_desc, D, FIELD_I64),
    FIELD(gpu_mha_rotary_desc, R, FIELD_I64),
    FIELD(gpu_mha_rotary_desc, interleaved, FIELD_INT),
    FIELD(gpu_mha_rotary_desc, positions, FIELD_INT),
    FIELD(gpu_mha_rotary_desc, P, FIELD_I64),
    FIELD(gpu_mha_rotary_desc, cache_type, FIELD_INT),
    TENSOR(gpu_mha_rotary_desc, input),
    TENSOR(gpu_mha_rotary_desc, output),
};
const struct fuzz_struct fuzz_rotary =
    STRUCT(gpu_mha_rotary_desc, rotary_fields,
           "gpu_mha_rotary_desc B H N D R interleaved positions P cache_type input output cos sin");

static const struct fuzz_field cache_fields[] = {
    FIELD(gpu_mha_cache_desc, struct_size, FIELD_U64),
    FIELD(gpu_mha_cache_desc, B, FIELD_I64),
    FIELD(gpu_mha_cache_desc, H, FIELD_I64),
    FIELD(gpu_mha_cache_desc, D, FIELD_I64),
    FIELD(gpu_mha_cache_desc, N, FIELD_I64),
    FIELD(gpu_mha_cache_desc, NC, FIELD_I64),
    FIELD(gpu_mha_cache_desc, circular, FIELD_INT),
    FIELD(gpu_mha_cache_desc, indices, FIELD_INT),
    TENSOR(gpu_mha_cache_desc, update),
    TENSOR(gpu_mha_cache_desc, cache),
};
const struct fuzz_struct fuzz_cache =
    STRUCT(gpu_mha_cache_desc, cache_fields,
           "gpu_mha_cache_desc B H D N NC circular indices update cache");

gpu_mha_desc fuzz_small_attention(void)
{
    return (gpu_mha_desc){.struct_size = sizeof(gpu_mha_desc),
                          .B = 2,
                          .H = 4,
                          .HKV = 2,
                          .NQ = 3,
                          .NK = 5,
                          .DK = 8,
                          .DV = 6};
}

/* ---- values ------------------------------------------------------------------------------- */

enum { RAW = 255, END = 255 };

static uint64_t wide_value(uint8_t code, struct fuzz_bytes *bytes, size_t size)
{
    static const int64_t values[] = {0,
                                     1,
                                     2,
                                     3,
                                     4,
                                     5,
                                     6,
                                     7,
                                     8,
                                     12,
                                     15,
                                     16,
                                     17,
                                     31,
                                     32,
                                     33,
                                     63,
                                     64,
                                     65,
                                     96,
                                     100,
                                     127,
                                     128,
                                     129,
                                     255,
                                     256,
                                     257,
                                     511,
                                     512,
                                     1000,
                                     1023,
                                     1024,
                                     2048,
                                     4096,
                                     4097,
                                     8192,
                                     16383,
                                     16384,
                                     16385,
                                     65535,
                                     65536,
                                     1 << 20,
                                     (1 << 20) + 1,
                                     INT32_MAX,
                                     (int64_t)INT32_MAX + 1,
                                     UINT32_MAX,
                                     (int64_t)1 << 32,
                                     ((int64_t)1 << 32) + 1,
                                     (int64_t)1 << 33,
                                     (int64_t)1 << 38,
                                     ((int64_t)1 << 40) - 1,
                                     (int64_t)1 << 40,
                                     ((int64_t)1 << 40) + 1,
                                     (int64_t)1 << 46,
                                     (int64_t)1 << 52,
                                     (int64_t)1 << 59,
                                     ((int64_t)1 << 60) + 3,
                                     (int64_t)1 << 61,
                                     (int64_t)1 << 62,
                                     INT64_MAX - 7,
                                     INT64_MAX - 1,
                                     INT64_MAX,
                                     -1,
                                     -2,
                                     -8,
                                     INT32_MIN,
                                     INT64_MIN,
                                     INT64_MIN + 1,
                                     -((int64_t)1 << 40)};
    const size_t count = sizeof values / sizeof *values;
    if (code == RAW) {
        return fuzz_u64(bytes);
    }
    return code < count ? (uint64_t)values[code] : size + (uint64_t)code - count - 8;
}

static int int_value(uint8_t code, struct fuzz_bytes *bytes)
{
    static const int values[] = {-1, INT32_MIN, INT32_MAX, 255, 256, 65536, -2};
    if (code == RAW) {
        return (int)(uint32_t)fuzz_u64(bytes);
    }
    return code < 128 ? code % 8 : values[code % 7];
}

static float float_value(uint8_t code, struct fuzz_bytes *bytes)
{
    static const float values[] = {0.0f,     1.0f,        -1.0f, 0.5f,    -0.0f,    0.1f,
                                   INFINITY, -INFINITY,   NAN,   FLT_MAX, -FLT_MAX, FLT_MIN,
                                   1e-45f,   0.99999994f, 1e30f, 50.0f,   0x1p-40f, 0x1.8p-41f};
    if (code == RAW) {
        const uint32_t bits = (uint32_t)fuzz_u64(bytes);
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    return values[code % (sizeof values / sizeof *values)];
}

void fuzz_patch(struct fuzz_bytes *bytes, const struct fuzz_struct *type, void *desc)
{
    while (bytes->left > 1) {
        const uint8_t which = fuzz_byte(bytes);
        if (which == END) {
            return;
        }
        const struct fuzz_field *field = &type->fields[which % type->count];
        unsigned char *at = (unsigned char *)desc + field->offset;
        const uint8_t code = fuzz_byte(bytes);
        if (field->kind == FIELD_INT) {
            const int value = int_value(code, bytes);
            memcpy(at, &value, sizeof value);
        } else if (field->kind == FIELD_FLOAT) {
            const float value = float_value(code, bytes);
            memcpy(at, &value, sizeof value);
        } else {
            const uint64_t value = wide_value(code, bytes, type->bytes);
            memcpy(at, &value, sizeof value);
        }
    }
}

void *fuzz_exact(const struct fuzz_struct *type, const void *desc, uint8_t tail)
{
    size_t given;
    memcpy(&given, desc, sizeof given);
    /* What is larger than any struct is refused by its size alone. */
    const size_t size = given == 0 || given > 65536 ? type->bytes : given;
    unsigned char *exact = calloc(1, size > sizeof given ? size : sizeof given);
    FUZZ_ASSERT(exact != NULL);
    memcpy(exact, desc, size < type->bytes ? size : type->bytes);
    memcpy(exact, &given, sizeof given);
    if (size > type->bytes) {
        exact[size - 1] = tail;
    }
    return exact;
}

/* ---- buffers ------------------------------------------------------------------------------ */

size_t fuzz_type_bytes(gpu_mha_type type)
{
    return type == GPU_MHA_F32 ? 4 : 2;
}

size_t fuzz_index_bytes(gpu_mha_index_type type)
{
    return type == GPU_MHA_I32 ? 4 : 8;
}

fuzz_wide fuzz_span(const gpu_mha_tensor *tensor, const int64_t lengths[4])
{
    const fuzz_wide B = lengths[0], H = lengths[1], N = lengths[2], D = lengths[3];
    fuzz_wide b = tensor->stride_b, h = tensor->stride_h, n = tensor->stride_n;
    if (B == 0 || H == 0 || N == 0 || D == 0) {
        return 0;
    }
    if (tensor->layout == GPU_MHA_BHND) {
        b = H * N * D;
        h = N * D;
        n = D;
    } else if (tensor->layout == GPU_MHA_BNHD) {
        b = N * H * D;
        h = D;
        n = H * D;
    }
    return (B - 1) * b + (H - 1) * h + (N - 1) * n + D;
}

fuzz_wide fuzz_mask_span(const gpu_mha_mask *mask, const int64_t full[4])
{
    fuzz_wide last = 0, packed = 1;
    for (int axis = 3; axis >= 0; axis--) {
        const int64_t length = mask->shape[axis] == 0 ? full[axis] : mask->shape[axis];
        if (full[axis] == 0 || length == 0) {
            return 0;
        }
        last += (fuzz_wide)(length - 1) * (mask->strided ? (fuzz_wide)mask->stride[axis] : packed);
        packed *= length;
    }
    return last + 1;
}

static gpu_mha_buffer *place(const struct fuzz_run *run, size_t which)
{
    return (gpu_mha_buffer *)(void *)((unsigned char *)run->buffers + run->needs[which].at);
}

/* A buffer that holds the need behind `offset` elements, without one byte to spare. */
static cl_mem just_enough(const struct fuzz_run *run, const struct fuzz_need *need, uint64_t offset)
{
    const fuzz_wide bytes = (need->span + (fuzz_wide)offset) * (fuzz_wide)need->element;
    FUZZ_ASSERT(need->span >= 0 && bytes <= (fuzz_wide)SIZE_MAX);
    return fake_buffer(run->cl, (size_t)bytes);
}

static void expect(const struct fuzz_run *run, gpu_mha_status wanted)
{
    cl_event event = NULL;
    const gpu_mha_status status = run->enqueue(run, &event);
    if (status == GPU_MHA_OK) {
        FUZZ_ASSERT(wanted == GPU_MHA_OK && event != NULL);
        clReleaseEvent(event);
        return;
    }
    FUZZ_ASSERT(event == NULL);
    fuzz_check_sentence(status, run->names);
    /* A device of 32 bits counts fewer work-items than a plan may have. */
    FUZZ_ASSERT(status == wanted || (wanted == GPU_MHA_OK && status == GPU_MHA_UNSUPPORTED));
}

/* One thing wrong with one buffer; GPU_MHA_OK where nothing is, since nothing is read there. */
static gpu_mha_status spoil(struct fuzz_bytes *bytes, const struct fuzz_run *run, size_t which)
{
    const struct fuzz_need *need = &run->needs[which];
    gpu_mha_buffer *buffer = place(run, which);
    const bool is_read = need->wanted && need->span > 0;
    const bool is_workspace = need->wanted && which == run->need_count - 1 && need->element == 1;
    switch (fuzz_byte(bytes) % 4) {
    case 0:
        if (need->wanted) {
            clReleaseMemObject(buffer->mem);
            buffer->mem = NULL;
            return is_read ? GPU_MHA_INVALID : GPU_MHA_OK;
        }
        buffer->mem = fake_buffer(run->cl, 64);
        return GPU_MHA_INVALID;
    case 1:
        buffer->offset += 1; /* the last element is outside, or the workspace not aligned */
        return is_read || is_workspace ? GPU_MHA_INVALID : GPU_MHA_OK;
    case 2:
        buffer->offset = UINT64_MAX - 127;
        return is_read ? GPU_MHA_INVALID : GPU_MHA_OK;
    case 3:
        if (is_workspace) { /* large enough, and not aligned */
            clReleaseMemObject(buffer->mem);
            buffer->mem = just_enough(run, need, buffer->offset + 127);
            buffer->offset += 127;
            return GPU_MHA_INVALID;
        }
        return GPU_MHA_OK;
    default:
        return GPU_MHA_OK;
    }
}

void fuzz_run_buffers(struct fuzz_bytes *bytes, const struct fuzz_run *run)
{
    static const uint64_t offsets[] = {0, 1, 7, 128, (uint64_t)1 << 33};
    FUZZ_ASSERT(run->need_count <= FUZZ_NEEDS_MAX);
    for (size_t i = 0; i < run->need_count; i++) {
        const struct fuzz_need *need = &run->needs[i];
        uint64_t offset = offsets[fuzz_byte(bytes) % 5];
        if (need->element == 1) { /* the workspace, or a mask */
            offset &= ~(uint64_t)127;
        }
        if (need->wanted) {
            *place(run, i) = (gpu_mha_buffer){just_enough(run, need, offset), offset};
        }
    }
    expect(run, GPU_MHA_OK);
    const size_t which = fuzz_byte(bytes) % run->need_count;
    expect(run, spoil(bytes, run, which));
    for (size_t i = 0; i < run->need_count; i++) {
        if (place(run, i)->mem != NULL) {
            clReleaseMemObject(place(run, i)->mem);
        }
    }
}
