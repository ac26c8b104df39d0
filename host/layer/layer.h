/*
 * One attention layer made ready for a device: four linear maps around an attention. What is not
 * single precision is converted in the workspace, and the attention inside sees packed
 * (B, N, H, D) tensors there. Immutable once made, except for the locks of its kernels.
 */
#ifndef MHA_LAYER_LAYER_H
#define MHA_LAYER_LAYER_H

#include "attention/attention.h"
#include "blas/gemm.h"

enum mha_layer_map { MHA_MAP_QUERY, MHA_MAP_KEY, MHA_MAP_VALUE, MHA_MAP_OUT, MHA_MAPS };

/* y (M, N) = x (M, K) W (N, K)^T + bias (N) */
struct mha_linear {
    const char *input_name; /* fields of the caller's; NULL: the input is the layer's own */
    const char *weight_name, *bias_name;
    int64_t M, N, K;
    gpu_mha_type input_type, output_type; /* GPU_MHA_F32 for what is the layer's own */
    int has_bias;
    int64_t weight_rows; /* of the caller's weight; 0: W is a part of weight_q, see packed_qkv */
    int64_t first_row;   /* of W in the caller's weight, and of its bias in the caller's bias */
};

/* A descriptor, checked and with every default filled in. */
struct mha_layer_problem {
    gpu_mha_layer_desc desc;      /* attention is NULL: it is the caller's */
    gpu_mha_desc attention_desc;  /* a copy of it */
    struct mha_problem attention; /* the same on the layer's own packed single-precision tensors */
    struct mha_linear maps[MHA_MAPS];
};

gpu_mha_status mha_layer_read(const gpu_mha_layer_desc *desc, struct mha_layer_problem *problem);

/* Parts of the workspace, in floats from its first aligned byte. */
struct mha_layer_parts {
    int64_t query, key, value, attended;
    int64_t input, weight, product, scratch; /* shared by the maps, one after the other */
    int64_t attention;                       /* the workspace of the attention inside */
};

struct mha_layer {
    struct mha_layer_problem problem;
    struct mha_attention *attention;
    struct mha_gemm gemms[MHA_MAPS];
    struct mha_kernel convert; /* zeroed where nothing is converted */
    struct mha_layer_parts parts;
    int64_t align_bytes; /* of the parts */
    size_t workspace_bytes;
};

extern const struct mha_operation mha_layer_operation;

gpu_mha_status mha_layer_create(gpu_mha_context *context, const gpu_mha_layer_desc *desc,
                                struct mha_layer **layer);
void mha_layer_destroy(struct mha_layer *layer); /* NULL-safe */

/* Lays out the workspace. The products and the attention inside have been prepared. */
gpu_mha_status mha_layer_carve(struct mha_layer *layer, const struct mha_device *device);

/* "products CLBlast, fused 12x16" */
void mha_layer_text(const struct mha_layer *layer, char *text, size_t size);

/* Checks the caller's buffers; changes nothing. */
gpu_mha_status mha_layer_check(const struct mha_layer *layer, const gpu_mha_layer_buffers *buffers,
                               cl_context cl);

/* Puts maps and attention on the chain. The buffers have been checked. */
gpu_mha_status mha_layer_launch(struct mha_layer *layer, const gpu_mha_layer_buffers *buffers,
                                struct mha_chain *chain);

#endif
