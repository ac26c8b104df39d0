/*
 * Everything a kernel needs to know of one call, passed by value. Compiled by the host and by
 * every kernel, so that both read the same layout: 64-bit members first, 32-bit members behind,
 * the size a multiple of 8.
 *
 * Offsets and strides count elements of the buffer they belong to; those into the workspace count
 * floats from its first byte.
 */
#ifndef MHA_PARAMS_H
#define MHA_PARAMS_H

#ifdef __OPENCL_VERSION__
typedef long mha_i64;
typedef ulong mha_u64;
typedef int mha_i32;
typedef uint mha_u32;
typedef float mha_f32;
#else
#include <stdint.h>
typedef int64_t mha_i64;
typedef uint64_t mha_u64;
typedef int32_t mha_i32;
typedef uint32_t mha_u32;
typedef float mha_f32;
#endif

/* Storage types and index types: the values of gpu_mha_type and gpu_mha_index_type. */
#define MHA_TYPE_F32 0
#define MHA_TYPE_F16 1
#define MHA_TYPE_BF16 2
#define MHA_INDEX_NONE 0
#define MHA_INDEX_I32 1
#define MHA_INDEX_I64 2

/* Offset kinds: gpu_mha_offset_kind. */
#define MHA_OFFSET_TOP_LEFT 0
#define MHA_OFFSET_BOTTOM_RIGHT 1
#define MHA_OFFSET_VALUE 2

/* Score stages: gpu_mha_scores. */
#define MHA_SCORES_NONE 0
#define MHA_SCORES_RAW 1
#define MHA_SCORES_CAPPED 2
#define MHA_SCORES_MASKED 3
#define MHA_SCORES_SOFTMAX 4

/* A bound that no position passes: stands for an open window side. */
#define MHA_UNBOUNDED ((mha_i64)1 << 41)

struct mha_tensor_params {
    mha_i64 offset, stride_b, stride_h, stride_n;
};

/* Strides over (B, H, NQ, NT); 0 where the mask broadcasts. */
struct mha_mask_params {
    mha_i64 offset, stride_b, stride_h, stride_q, stride_k;
};

struct mha_params {
    mha_i64 B, H, HKV, NQ, NP, NT;
    struct mha_tensor_params query, key, value, past_key, past_value, output;
    struct mha_mask_params mask, bias;
    mha_i64 key_lengths_offset, slopes_offset, sinks_offset;
    mha_i64 lse_offset, weights_offset, scores_offset;

    mha_i64 offset; /* with MHA_OFFSET_VALUE */
    mha_i64 window_left, window_right;
    mha_u64 dropout_seed;

    mha_i64 tiles;  /* key tiles over NT */
    mha_i64 splits; /* parts of the key range that run as work-items of their own */

    mha_i64 packed_key;     /* workspace: [B][HKV][tiles][DK][KT] */
    mha_i64 packed_value;   /* workspace: [B][HKV][tiles][KT][DVP] */
    mha_i64 value_special;  /* workspace, ints: [B][HKV][tiles], 1 where a value is NaN or Inf */
    mha_i64 partial_output; /* workspace: [B*H*NQ][splits][DV] */
    mha_i64 partial_lse;    /* workspace: [B*H*NQ][splits] */
    mha_i64 score_rows;     /* workspace: [B*H*NQ][score_pitch] */
    mha_i64 score_pitch;    /* tiles * KT */
    mha_i64 row_pitch;      /* common/lane.h: from a head's first row to the next one's */

    mha_i32 query_type, key_type, value_type, past_key_type, past_value_type, output_type;
    mha_i32 has_mask;  /* boolean */
    mha_i32 bias_type; /* a type + 1; 0: none */
    mha_i32 key_lengths_type;
    mha_i32 offset_kind, causal;
    mha_i32 has_alibi, has_sinks, has_lse;
    mha_i32 weights; /* gpu_mha_weights */
    mha_i32 scores;  /* a score stage */
    mha_f32 scale, softcap;
    mha_f32 scale_log2;        /* scale * log2 e */
    mha_i32 plain;             /* 1: scores are scaled products and nothing else */
    mha_u32 dropout_threshold; /* a draw below it drops the weight; 0: no dropout */
    mha_f32 dropout_scale;     /* 1 / (1 - p) */
};

#endif
