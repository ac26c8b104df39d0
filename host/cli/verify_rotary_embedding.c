/* ONNX RotaryEmbedding (opset 23) through gpu_mha_rotary; see verify_operator.h. */
#include "verify_operator.h"

enum { X, COS_CACHE, SIN_CACHE, POSITION_IDS };
enum { Y };

static const struct mha_operator_item attributes[] = {
    {"interleaved", 23, false},
    {"num_heads", 23, false},
    {"rotary_embedding_dim", 23, false},
    {NULL, 0, false},
};
static const struct mha_operator_item inputs[] = {
    {"X", 23, true},  {"cos_cache", 23, true}, {"sin_cache", 23, true}, {"position_ids", 23, false},
    {NULL, 0, false},
};
static const struct mha_operator_item outputs[] = {
    {"Y", 23, true},
    {NULL, 0, false},
};

/* X is (B, H, N, D), or (B, N, H*D) with the attribute num_heads. */
static bool describe_x(struct mha_case *record, gpu_mha_rotary_desc *desc)
{
    const struct mha_npy *x = &record->inputs[X].npy;
    int64_t heads = 0;

    if (!mha_case_int(record, "num_heads", 0, INT32_MAX, &heads) ||
        !mha_input_type(record, &record->inputs[X], &desc->input.type)) {
        return false;
    }
    if (x->rank == 4) {
        desc->H = x->shape[1];
        desc->N = x->shape[2];
        desc->D = x->shape[3];
        desc->input.layout = GPU_MHA_BHND;
        if (heads != 0 && heads != desc->H) {
            return mha_case_fail(record, "num_heads is %lld, X has %lld heads", (long long)heads,
                                 (long long)desc->H);
        }
    } else if (x->rank == 3) {
        if (heads == 0 || x->shape[2] % heads != 0) {
            return mha_case_fail(record,
                                 "num_heads is %lld, it must divide the last axis of X, %lld",
                                 (long long)heads, (long long)x->shape[2]);
        }
        desc->H = heads;
        desc->N = x->shape[1];
        desc->D = x->shape[2] / heads;
        desc->input.layout = GPU_MHA_BNHD;
    } else {
        return mha_case_fail(record, "X has %d axes, it must have 3 or 4", x->rank);
    }
    desc->B = x->shape[0];
    desc->output = desc->input;
    return true;
}

/* cos and sin are (P, R/2) with positions (B, N), else (B, N, R/2). */
static bool describe_caches(struct mha_case *record, gpu_mha_rotary_desc *desc)
{
    const struct mha_case_array *cos_cache = &record->inputs[COS_CACHE];
    const struct mha_case_array *sin_cache = &record->inputs[SIN_CACHE];
    const struct mha_case_array *positions = &record->inputs[POSITION_IDS];
    enum mha_npy_type type = cos_cache->npy.type;
    int64_t rotated = desc->R ? desc->R : desc->D;
    int64_t shape[3] = {desc->B, desc->N, rotated / 2};

    if (!mha_input_type(record, cos_cache, &desc->cache_type)) {
        return false;
    }
    if (!positions->name) {
        return mha_array_expect(record, cos_cache, type, 3, shape) &&
               mha_array_expect(record, sin_cache, type, 3, shape);
    }

    desc->positions = GPU_MHA_I64;
    if (!mha_array_expect(record, positions, MHA_NPY_I64, 2, shape)) {
        return false;
    }
    desc->P = cos_cache->npy.rank == 2 ? cos_cache->npy.shape[0] : 0;
    shape[0] = desc->P;
    shape[1] = rotated / 2;
    return mha_array_expect(record, cos_cache, type, 2, shape) &&
           mha_array_expect(record, sin_cache, type, 2, shape);
}

static bool compute(struct mha_case *record, const struct mha_verify_settings *settings,
                    struct mha_computed *computed)
{
    const struct mha_npy *x = &record->inputs[X].npy;
    gpu_mha_rotary_desc desc = {.struct_size = sizeof desc};
    int64_t interleaved = 0;

    if (!mha_case_int(record, "interleaved", 0, 1, &interleaved) ||
        !mha_case_int(record, "rotary_embedding_dim", 0, INT32_MAX, &desc.R) ||
        !describe_x(record, &desc) || !describe_caches(record, &desc) ||
        !mha_computed_make(record, computed, Y, x->type, x->rank, x->shape)) {
        return false;
    }
    desc.interleaved = (int)interleaved;

    gpu_mha_rotary_arrays arrays = {
        .struct_size = sizeof arrays,
        .input = x->data,
        .cos = record->inputs[COS_CACHE].npy.data,
        .sin = record->inputs[SIN_CACHE].npy.data,
        .positions = record->inputs[POSITION_IDS].npy.data,
        .output = computed[Y].npy.data,
    };
    return mha_library_ok(record, gpu_mha_rotary(settings->context, &desc, &arrays));
}

const struct mha_operator mha_operator_rotary_embedding = {
    "RotaryEmbedding", 23, attributes, inputs, outputs, compute,
};
