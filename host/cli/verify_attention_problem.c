/* From a recorded case of Attention to a descriptor; see verify_attention.h. */
#include "verify_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- sizes -------------------------------------------------------------------------------- */

/* One of Q, K, V: (B, H, N, D), or (B, N, H*D) with the attribute that tells the heads. */
struct operand {
    int64_t B, H, N, D;
    gpu_mha_tensor tensor;
};

static bool read_operand(struct mha_case *record, const struct mha_case_array *input, int rank,
                         const char *heads_attribute, struct operand *operand)
{
    const struct mha_npy *npy = &input->npy;
    int64_t heads = 0;

    if (!mha_case_int(record, heads_attribute, 1, INT32_MAX, &heads) ||
        !mha_input_type(record, input, &operand->tensor.type)) {
        return false;
    }
    if (npy->rank != rank) {
        return mha_case_fail(record, "%s has %d axes where Q has %d", input->name, npy->rank, rank);
    }
    operand->B = npy->shape[0];
    if (rank == 4) {
        operand->H = npy->shape[1];
        operand->N = npy->shape[2];
        operand->D = npy->shape[3];
        operand->tensor.layout = GPU_MHA_BHND;
        if (heads != 0 && heads != operand->H) {
            return mha_case_fail(record, "%s is %lld, %s has %lld heads", heads_attribute,
                                 (long long)heads, input->name, (long long)operand->H);
        }
        return true;
    }
    if (heads == 0 || npy->shape[2] % heads != 0) {
        return mha_case_fail(record, "%s is %lld, it must divide the last axis of %s, %lld",
                             heads_attribute, (long long)heads, input->name,
                             (long long)npy->shape[2]);
    }
    operand->H = heads;
    operand->N = npy->shape[1];
    operand->D = npy->shape[2] / heads;
    operand->tensor.layout = GPU_MHA_BNHD;
    return true;
}

static bool read_sizes(struct mha_case *record, gpu_mha_desc *desc)
{
    struct operand q = {0}, k = {0}, v = {0};
    int rank = record->inputs[Q].npy.rank;

    if (rank != 3 && rank != 4) {
        return mha_case_fail(record, "Q has %d axes, it must have 3 or 4", rank);
    }
    if (!read_operand(record, &record->inputs[Q], rank, "q_num_heads", &q) ||
        !read_operand(record, &record->inputs[K], rank, "kv_num_heads", &k) ||
        !read_operand(record, &record->inputs[V], rank, "kv_num_heads", &v)) {
        return false;
    }
    if (q.B != k.B || q.B != v.B || k.H != v.H || k.N != v.N || q.D != k.D) {
        return mha_case_fail(record, "the shapes of Q, K and V do not fit each other");
    }
    desc->B = q.B;
    desc->H = q.H;
    desc->HKV = k.H;
    desc->NQ = q.N;
    desc->NK = k.N;
    desc->DK = q.D;
    desc->DV = v.D;
    desc->query = q.tensor;
    desc->key = k.tensor;
    desc->value = v.tensor;
    desc->output = q.tensor;
    return true;
}

/* Past keys and values are (B, HKV, NP, D) whatever the rank of Q. */
static bool read_past(struct mha_case *record, gpu_mha_desc *desc, gpu_mha_arrays *arrays)
{
    const struct mha_case_array *key = &record->inputs[PAST_KEY];
    const struct mha_case_array *value = &record->inputs[PAST_VALUE];

    if (!key->name && !value->name) {
        return true;
    }
    if (!key->name || !value->name) {
        return mha_case_fail(record, "past_key and past_value must be given together");
    }
    desc->NP = key->npy.rank == 4 ? key->npy.shape[2] : 0;
    if (desc->NP > INT64_MAX - desc->NK) {
        return mha_case_fail(record, "past_key and K have more keys than can be counted");
    }
    int64_t shape[4] = {desc->B, desc->HKV, desc->NP, desc->DK};
    if (!mha_array_expect(record, key, record->inputs[K].npy.type, 4, shape)) {
        return false;
    }
    shape[3] = desc->DV;
    if (!mha_array_expect(record, value, record->inputs[V].npy.type, 4, shape)) {
        return false;
    }
    if (desc->NP > 0) {
        desc->past_key.type = desc->key.type;
        desc->past_value.type = desc->value.type;
        arrays->past_key = key->npy.data;
        arrays->past_value = value->npy.data;
    }
    return true;
}

/* ---- masks -------------------------------------------------------------------------------- */

static bool mask_type(struct mha_case *record, gpu_mha_mask_type *type)
{
    switch (record->inputs[ATTN_MASK].npy.type) {
    case MHA_NPY_BOOL:
        *type = GPU_MHA_MASK_BOOL;
        return true;
    case MHA_NPY_F32:
        *type = GPU_MHA_MASK_F32;
        return true;
    case MHA_NPY_F16:
        *type = GPU_MHA_MASK_F16;
        return true;
    case MHA_NPY_BF16:
        *type = GPU_MHA_MASK_BF16;
        return true;
    default:
        return mha_case_fail(record, "attn_mask is %s, it must be bool, f32, f16 or bf16",
                             mha_npy_type_name(record->inputs[ATTN_MASK].npy.type));
    }
}

/*
 * From opset 24 on the last axis of a mask may be shorter than the keys, and the keys beyond it
 * are hidden; the reference implementation holds to that even where this axis is 1. Makes the
 * mask NT wide in *padded, which the caller frees.
 */
static bool pad_mask(struct mha_case *record, int64_t NT, void **padded)
{
    static const float f32_hidden = -INFINITY;
    static const uint16_t f16_hidden = 0xfc00, bf16_hidden = 0xff80;
    static const uint8_t bool_hidden = 0;
    const size_t limit = (size_t)1 << 26; /* elements */
    struct mha_npy *mask = &record->inputs[ATTN_MASK].npy;
    const size_t item = mha_npy_item_size(mask->type);
    const size_t narrow = (size_t)mask->shape[mask->rank - 1];
    const void *hidden = &f32_hidden;

    if (mask->type == MHA_NPY_BOOL) {
        hidden = &bool_hidden;
    } else if (mask->type == MHA_NPY_F16) {
        hidden = &f16_hidden;
    } else if (mask->type == MHA_NPY_BF16) {
        hidden = &bf16_hidden;
    }

    size_t rows = narrow ? mask->count / narrow : 0;
    if (narrow == 0 || (uint64_t)NT > limit || rows > limit / (size_t)NT) {
        return mha_case_fail(record, "attn_mask cannot be widened to %lld keys", (long long)NT);
    }
    unsigned char *to = malloc(rows ? rows * (size_t)NT * item : 1);
    if (!to) {
        return mha_case_fail(record, "out of memory for attn_mask");
    }
    *padded = to;
    const unsigned char *from = mask->data;
    for (size_t row = 0; row < rows; row++) {
        memcpy(to, from, narrow * item);
        from += narrow * item;
        to += narrow * item;
        for (size_t key = narrow; key < (size_t)NT; key++, to += item) {
            memcpy(to, hidden, item);
        }
    }
    return true;
}

static bool read_mask(struct mha_case *record, gpu_mha_desc *desc, gpu_mha_arrays *arrays,
                      void **padded)
{
    const struct mha_npy *mask = &record->inputs[ATTN_MASK].npy;
    const void *data = mask->data;
    const int64_t NT = desc->NP + desc->NK;
    int64_t shape[4] = {0};
    gpu_mha_mask_type type = GPU_MHA_MASK_NONE;

    if (!record->inputs[ATTN_MASK].name) {
        return true;
    }
    if (!mask_type(record, &type)) {
        return false;
    }
    if (mask->rank < 1 || mask->rank > 4) {
        return mha_case_fail(record, "attn_mask has %d axes, it must have 1 to 4", mask->rank);
    }
    memcpy(shape, mask->shape, (size_t)mask->rank * sizeof *shape);
    if (record->opset >= 24 && shape[mask->rank - 1] < NT) {
        if (!pad_mask(record, NT, padded)) {
            return false;
        }
        shape[mask->rank - 1] = NT;
        data = *padded;
    }
    if (type == GPU_MHA_MASK_BOOL) {
        arrays->mask = data;
    } else {
        arrays->bias = data;
    }
    return mha_library_ok(record, gpu_mha_mask_broadcast(desc, type, mask->rank, shape));
}

static bool read_key_lengths(struct mha_case *record, gpu_mha_desc *desc, gpu_mha_arrays *arrays)
{
    const struct mha_case_array *lengths = &record->inputs[NONPAD_KV_SEQLEN];

    if (!lengths->name) {
        return true;
    }
    if (record->inputs[PAST_KEY].name) {
        return mha_case_fail(record, "nonpad_kv_seqlen and past_key exclude each other");
    }
    desc->key_lengths = GPU_MHA_I64;
    arrays->key_lengths = lengths->npy.data;
    return mha_array_expect(record, lengths, MHA_NPY_I64, 1, &desc->B);
}

/*
 * Causal mask and window count a query's position among all keys. With a cache outside the
 * operator the queries are the last ones of each sequence, with past keys they follow them.
 */
static bool read_causal(struct mha_case *record, gpu_mha_desc *desc)
{
    int64_t causal = 0;

    desc->window_left = desc->window_right = -1;
    if (!mha_case_int(record, "is_causal", 0, 1, &causal) ||
        !mha_case_int(record, "left_window_size", -1, INT32_MAX, &desc->window_left) ||
        !mha_case_int(record, "right_window_size", -1, INT32_MAX, &desc->window_right)) {
        return false;
    }
    desc->causal = (int)causal;
    desc->has_window = desc->window_left >= 0 || desc->window_right >= 0;
    if (!desc->has_window) {
        desc->window_left = desc->window_right = 0;
    }
    if (!desc->causal && !desc->has_window) {
        return true;
    }
    if (desc->key_lengths != GPU_MHA_INDEX_NONE) {
        desc->offset_kind = GPU_MHA_BOTTOM_RIGHT;
    } else if (desc->NP > 0) {
        desc->offset_kind = GPU_MHA_OFFSET;
        desc->offset = desc->NP;
    }
    return true;
}

/* ---- softmax and its attributes ----------------------------------------------------------- */

static bool read_softmax(struct mha_case *record, gpu_mha_desc *desc)
{
    enum { FLOAT = 1, FLOAT16 = 10, BFLOAT16 = 16 }; /* the standard's numbers of types */
    int64_t precision = FLOAT;

    desc->has_scale = mha_case_has(record, "scale");
    if (!mha_case_float(record, "scale", &desc->scale) ||
        !mha_case_float(record, "softcap", &desc->softcap) ||
        !mha_case_int(record, "softmax_precision", 0, INT32_MAX, &precision)) {
        return false;
    }
    if (precision != FLOAT && precision != FLOAT16 && precision != BFLOAT16) {
        return mha_case_fail(record,
                             "softmax_precision is %lld, it must be 1, 10 or 16 (float, float16, "
                             "bfloat16): the softmax runs in single precision",
                             (long long)precision);
    }
    return true;
}

static bool read_scores(struct mha_case *record, gpu_mha_scores *stage)
{
    static const gpu_mha_scores stages[] = {GPU_MHA_SCORES_RAW, GPU_MHA_SCORES_CAPPED,
                                            GPU_MHA_SCORES_MASKED, GPU_MHA_SCORES_SOFTMAX};
    int64_t mode = 0;

    if (!mha_case_int(record, "qk_matmul_output_mode", 0, 3, &mode)) {
        return false;
    }
    *stage = record->outputs[QK_MATMUL_OUTPUT].name ? stages[mode] : GPU_MHA_SCORES_NONE;
    return true;
}

bool mha_attention_problem_read(struct mha_case *record, struct mha_attention_problem *problem)
{
    gpu_mha_desc *desc = &problem->desc;
    gpu_mha_arrays *arrays = &problem->arrays;

    memset(problem, 0, sizeof *problem);
    desc->struct_size = sizeof *desc;
    arrays->struct_size = sizeof *arrays;
    arrays->query = record->inputs[Q].npy.data;
    arrays->key = record->inputs[K].npy.data;
    arrays->value = record->inputs[V].npy.data;
    return read_sizes(record, desc) && read_past(record, desc, arrays) &&
           read_mask(record, desc, arrays, &problem->padded_mask) &&
           read_key_lengths(record, desc, arrays) && read_causal(record, desc) &&
           read_softmax(record, desc) && read_scores(record, &problem->scores);
}

void mha_attention_problem_free(struct mha_attention_problem *problem)
{
    free(problem->padded_mask);
    problem->padded_mask = NULL;
}
