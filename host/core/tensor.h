/* Public structs and tensors read with care: sizes, strides, spans. Needs no device. */
#ifndef MHA_CORE_TENSOR_H
#define MHA_CORE_TENSOR_H

#include "core/error.h"
#include "core/size.h"

/* The largest length of an axis. Products of lengths and strides are checked on top of it. */
#define MHA_LENGTH_MAX ((int64_t)1 << 40)

/*
 * Copies a public struct of the caller's into `copy`, whose size the library was built with.
 * `given` is the struct's struct_size, `size_0_1` its size in version 0.1. Fields the caller does
 * not know become 0; fields the library does not know must be 0.
 */
gpu_mha_status mha_struct_read(void *copy, size_t copy_size, const void *from, size_t given,
                               size_t size_0_1, const char *name);

/* low <= value <= MHA_LENGTH_MAX, or the sentence that says so. */
gpu_mha_status mha_length_check(const char *name, int64_t value, int64_t low);

/* 0 or 1. */
gpu_mha_status mha_flag_check(const char *name, int value);

size_t mha_type_bytes(gpu_mha_type type);
const char *mha_type_name(gpu_mha_type type); /* "f16" */
size_t mha_index_bytes(gpu_mha_index_type type);
size_t mha_mask_bytes(gpu_mha_mask_type type);
gpu_mha_status mha_type_check(const char *name, gpu_mha_type type);
gpu_mha_status mha_index_type_check(const char *name, gpu_mha_index_type type);

/* A tensor with its strides worked out. */
struct mha_tensor {
    const char *name; /* of the field, for messages */
    gpu_mha_type type;
    int64_t B, H, N, D;
    int64_t stride_b, stride_h, stride_n;
    int64_t span; /* elements from (0,0,0,0) to the last one, both included; 0 if there is none */
};

enum mha_tensor_role { MHA_INPUT, MHA_OUTPUT };

/*
 * Checks `given` and works out strides and span for sizes (B, H, N, D). The strides of an output
 * must nest: taken from the smallest up, each reaches past everything the smaller ones cover.
 */
gpu_mha_status mha_tensor_read(const char *name, const gpu_mha_tensor *given,
                               enum mha_tensor_role role, int64_t B, int64_t H, int64_t N,
                               int64_t D, struct mha_tensor *tensor);

/* A packed tensor (B, H, N, D) of the library's own. */
struct mha_tensor mha_tensor_packed(const char *name, gpu_mha_type type, int64_t B, int64_t H,
                                    int64_t N, int64_t D);

#endif
