/*
 * attention_data.c - see attention_data.h.
 */
#include "attention_data.h"

#include "canary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)STORAGE_F32 == (int)GPU_MHA_F32 && (int)STORAGE_F16 == (int)GPU_MHA_F16 &&
                   (int)STORAGE_BF16 == (int)GPU_MHA_BF16,
               "storage types of the tests are those of the library");

#define MASK_AXES 4

void *attention_alloc(int64_t count, size_t element_bytes)
{
    void *memory = calloc((size_t)count + 1, element_bytes);

    if (!memory) {
        fprintf(stderr, "no memory for %" PRId64 " elements of %zu bytes\n", count, element_bytes);
        exit(1);
    }
    return memory;
}

const char *attention_array_name(enum attention_array array)
{
    static const char *const names[ARRAY_COUNT] = {
        "query",       "key",          "value", "past_key", "past_value", "mask",    "bias",
        "key_lengths", "alibi_slopes", "sinks", "output",   "lse",        "weights", "scores"};

    return names[array];
}

/* ---- images ---- */

/* Different margins for each array, none of them a multiple of a vector. */
static int64_t offset_of(enum attention_array array)
{
    return 5 + 2 * (int64_t)array;
}

static void image_make(struct attention_data *data, enum attention_array array,
                       struct layout layout, size_t element_bytes)
{
    struct attention_image *image = &data->images[array];
    int64_t margin = 9 + (int64_t)array;

    image->wanted = 1;
    image->shares = array;
    image->element_bytes = element_bytes;
    image->layout = layout;
    image->elements = (layout.span > layout.offset ? layout.span : layout.offset) + margin;
    image->bytes = attention_alloc(image->elements, element_bytes);
    memset(image->bytes, CANARY_BYTE, (size_t)image->elements * element_bytes);
    if (array < ARRAY_INPUTS) {
        image->used = attention_alloc(image->elements, 1);
    }
}

static void image_make_float(struct attention_data *data, enum attention_array array,
                             struct layout layout, enum storage_type type)
{
    image_make(data, array, layout, storage_size(type));
    data->images[array].is_float = 1;
    data->images[array].type = type;
}

static struct layout flat(enum attention_array array, int64_t count)
{
    return layout_make(LAYOUT_BHND, 1, 1, 1, count, offset_of(array));
}

unsigned char *attention_data_poisoned(const struct attention_image *image, enum poison kind)
{
    size_t size = (size_t)image->elements * image->element_bytes;
    unsigned char *bytes = attention_alloc((int64_t)size, 1);

    memcpy(bytes, image->bytes, size);
    for (int64_t n = 0; image->used && n < image->elements; n++) {
        unsigned char *at = bytes + (size_t)n * image->element_bytes;
        if (image->used[n]) {
            continue;
        }
        if (image->is_float) {
            storage_poison(image->type, at, 1, kind);
        } else { /* a mask that attends or hides, a length of -1 or 0 */
            memset(at, kind == POISON_1000 ? 0 : CANARY_BYTE, image->element_bytes);
        }
    }
    return bytes;
}

/* ---- tensors ---- */

static struct layout layout_of(enum attention_layout kind, int64_t B, int64_t H, int64_t N,
                               int64_t D, int64_t offset)
{
    struct layout l = layout_make(kind < ATTENTION_ONE_BATCH ? (enum layout_kind)kind : LAYOUT_BHND,
                                  B, H, N, D, offset);

    if (kind == ATTENTION_ONE_BATCH) {
        l.stride_b = 0;
    }
    if (kind == ATTENTION_ONE_HEAD) {
        l.stride_h = 0;
        l.stride_b = N * l.stride_n;
    }
    if (kind == ATTENTION_ONE_ROW) {
        l.stride_n = 0;
        l.stride_h = D;
        l.stride_b = H * D;
    }
    if (layout_count(&l) > 0) {
        l.span = layout_index(&l, B - 1, H - 1, N - 1, D - 1) + 1;
    }
    return l;
}

static void describe(gpu_mha_tensor *tensor, enum attention_layout kind, const struct layout *l)
{
    tensor->layout = kind == ATTENTION_BHND   ? GPU_MHA_BHND
                     : kind == ATTENTION_BNHD ? GPU_MHA_BNHD
                                              : GPU_MHA_STRIDED;
    tensor->stride_b = tensor->stride_h = tensor->stride_n = 0;
    if (tensor->layout == GPU_MHA_STRIDED) {
        tensor->stride_b = l->stride_b;
        tensor->stride_h = l->stride_h;
        tensor->stride_n = l->stride_n;
    }
}

static double draw_special(struct rng *rng, double ordinary)
{
    switch (rng_below(rng, 400)) {
    case 0:
        return (double)NAN;
    case 1:
        return (double)INFINITY;
    case 2:
        return -(double)INFINITY;
    default:
        return ordinary;
    }
}

static double factor(double magnitude)
{
    return magnitude == 0 ? 1 : magnitude;
}

static double magnitude_of(const struct attention_spec *spec, enum attention_array array)
{
    const struct attention_magnitude *m = &spec->magnitude;

    return factor(array == ARRAY_QUERY                                ? m->query
                  : array == ARRAY_VALUE || array == ARRAY_PAST_VALUE ? m->value
                                                                      : m->key);
}

/* Element d of row n; key and value rows are counted over past and new ones. */
static double draw(const struct attention_spec *spec, enum attention_array array, struct rng *rng,
                   int64_t n, int64_t d, int64_t D)
{
    int is_query = array == ARRAY_QUERY;
    int is_value = array == ARRAY_VALUE || array == ARRAY_PAST_VALUE;
    double normal = rng_normal(rng);
    double root = sqrt((double)D);

    switch (spec->fill) {
    case ATTENTION_POSITIVE:
        return is_value ? rng_uniform(rng, 0.5, 1.5) : 0.3 * normal;
    case ATTENTION_GROWING:
        if (is_value) {
            return normal;
        }
        return is_query ? root / (double)D : 0.05 * (double)n;
    case ATTENTION_LARGE:
        return is_value ? normal : 12 * normal;
    case ATTENTION_UNIFORM:
        return is_value ? (double)(n + 1) : is_query ? 0 : normal;
    case ATTENTION_TAIL:
        return d == D - 1 ? normal * (is_query ? root : 1) : 0;
    case ATTENTION_SPECIAL:
        return draw_special(rng, normal);
    default:
        return normal;
    }
}

/* Draws one tensor into its image, and leaves in `dense` what is stored there. */
static void tensor_make(struct attention_data *data, enum attention_array array,
                        gpu_mha_tensor *tensor, enum attention_layout kind, struct layout l,
                        int64_t first_row, double *dense)
{
    const struct attention_spec *spec = &data->spec;
    struct attention_image *image = &data->images[array];
    const double magnitude = magnitude_of(spec, array);

    if (kind == ATTENTION_QKV && array != ARRAY_QUERY) {
        struct attention_image *shared = &data->images[ARRAY_QUERY];
        *image = *shared;
        image->layout = l;
    } else {
        image_make_float(data, array, l, (enum storage_type)tensor->type);
    }
    for (int64_t b = 0; b < l.B; b++) {
        struct rng rng;
        rng_seed(&rng,
                 spec->seed * 1000003 + (uint64_t)(spec->seed_batch + b) * 97 + (uint64_t)array);
        for (int64_t row = 0; row < l.H * l.N; row++) {
            int64_t h = row / l.N, n = row % l.N;
            for (int64_t d = 0; d < l.D; d++) {
                storage_store(image->type, image->bytes, layout_index(&l, b, h, n, d),
                              magnitude * draw(spec, array, &rng, first_row + n, d, l.D));
            }
        }
    }
    layout_gather(&l, image->type, image->bytes, dense);
    describe(tensor, kind, &l);
}

/* (B,HKV,NP,D) and (B,HKV,NK,D) -> (B,HKV,NT,D) */
static double *join_rows(const gpu_mha_desc *d, int64_t D, const double *past, const double *new)
{
    int64_t NT = d->NP + d->NK;
    double *joined = alloc_doubles(d->B * d->HKV * NT * D);

    for (int64_t head = 0; head < d->B * d->HKV; head++) {
        if (d->NP > 0) {
            memcpy(joined + head * NT * D, past + head * d->NP * D,
                   (size_t)(d->NP * D) * sizeof(double));
        }
        if (d->NK > 0) {
            memcpy(joined + (head * NT + d->NP) * D, new + head * d->NK *D,
                   (size_t)(d->NK * D) * sizeof(double));
        }
    }
    return joined;
}

static void tensors_make(struct attention_data *data)
{
    const struct attention_spec *spec = &data->spec;
    gpu_mha_desc *d = &data->desc;
    double *k = alloc_doubles(d->B * d->HKV * d->NK * d->DK);
    double *v = alloc_doubles(d->B * d->HKV * d->NK * d->DV);
    double *pk = alloc_doubles(d->B * d->HKV * d->NP * d->DK);
    double *pv = alloc_doubles(d->B * d->HKV * d->NP * d->DV);
    struct layout lq = layout_of(spec->query, d->B, d->H, d->NQ, d->DK, offset_of(ARRAY_QUERY));
    struct layout lk = layout_of(spec->key, d->B, d->HKV, d->NK, d->DK, offset_of(ARRAY_KEY));
    struct layout lv = layout_of(spec->value, d->B, d->HKV, d->NK, d->DV, offset_of(ARRAY_VALUE));

    if (spec->query == ATTENTION_QKV) {
        layout_make_qkv(d->B, d->NQ, d->H, d->HKV, d->DK, d->DV, offset_of(ARRAY_QUERY), &lq, &lk,
                        &lv);
    }
    data->q = alloc_doubles(d->B * d->H * d->NQ * d->DK);
    if (spec->query == ATTENTION_QKV) {
        struct layout whole = lq;
        whole.span = lv.span; /* v lies last */
        tensor_make(data, ARRAY_QUERY, &d->query, spec->query, whole, 0, data->q);
        data->images[ARRAY_QUERY].layout = lq;
    } else {
        tensor_make(data, ARRAY_QUERY, &d->query, spec->query, lq, 0, data->q);
    }
    tensor_make(data, ARRAY_KEY, &d->key, spec->key, lk, d->NP, k);
    tensor_make(data, ARRAY_VALUE, &d->value, spec->value, lv, d->NP, v);
    if (d->NP > 0) {
        tensor_make(
            data, ARRAY_PAST_KEY, &d->past_key, spec->past_key,
            layout_of(spec->past_key, d->B, d->HKV, d->NP, d->DK, offset_of(ARRAY_PAST_KEY)), 0,
            pk);
        tensor_make(
            data, ARRAY_PAST_VALUE, &d->past_value, spec->past_value,
            layout_of(spec->past_value, d->B, d->HKV, d->NP, d->DV, offset_of(ARRAY_PAST_VALUE)), 0,
            pv);
    }
    data->k = join_rows(d, d->DK, pk, k);
    data->v = join_rows(d, d->DV, pv, v);
    free(pv);
    free(pk);
    free(v);
    free(k);
}

/* ---- masks ---- */

static int64_t mask_index(const gpu_mha_mask *mask, const int64_t at[MASK_AXES])
{
    int64_t index = 0;

    for (int a = 0; a < MASK_AXES; a++) {
        index += mask->shape[a] == 1 ? 0 : at[a] * mask->stride[a];
    }
    return index;
}

static void axes_of(const struct attention_data *data, int64_t flat_index, int64_t at[MASK_AXES])
{
    const gpu_mha_desc *d = &data->desc;

    at[3] = flat_index % data->NT;
    at[2] = flat_index / data->NT % d->NQ;
    at[1] = flat_index / data->NT / d->NQ % d->H;
    at[0] = flat_index / data->NT / d->NQ / d->H;
}

static int64_t matrix_count(const struct attention_data *data)
{
    return data->desc.B * data->desc.H * data->desc.NQ * data->NT;
}

/* Shape and strides with every size written out; the strides of a packed mask as well. */
static gpu_mha_mask mask_shape(const struct attention_data *data, const struct attention_mask *how,
                               gpu_mha_mask_type type, int64_t *span)
{
    const gpu_mha_desc *d = &data->desc;
    const int64_t sizes[MASK_AXES] = {d->B, d->H, d->NQ, data->NT};
    gpu_mha_mask mask = {.type = type, .strided = how->strided};
    int64_t step = how->strided ? 2 : 1;

    *span = 1;
    for (int a = MASK_AXES - 1; a >= 0; a--) {
        mask.shape[a] = how->full >> a & 1 ? sizes[a] : 1;
        mask.stride[a] = step;
        *span = mask.shape[a] == 0 ? 0 : *span + (mask.shape[a] - 1) * step;
        step = step * mask.shape[a] + (how->strided ? 3 : 0);
    }
    return mask;
}

/* The image of the mask or bias, and its dense values; a boolean mask's are 0 and 1. */
static double *mask_make(struct attention_data *data, enum attention_array array,
                         const struct attention_mask *how, gpu_mha_mask *described)
{
    int is_bias = array == ARRAY_BIAS;
    int64_t span = 0, at[MASK_AXES];
    gpu_mha_mask mask = mask_shape(data, how, described->type, &span);
    double *dense = alloc_doubles(matrix_count(data));
    struct attention_image *image = &data->images[array];

    if (is_bias) {
        image_make_float(data, array, flat(array, span),
                         (enum storage_type)(mask.type - GPU_MHA_MASK_F32));
    } else {
        image_make(data, array, flat(array, span), 1);
    }
    for (int pass = 0; pass < 2; pass++) { /* all elements are drawn before one is read */
        struct rng rng;
        rng_seed(&rng, data->spec.seed + (uint64_t)array);
        for (int64_t n = 0; n < matrix_count(data); n++) {
            axes_of(data, n, at);
            int64_t element = image->layout.offset + mask_index(&mask, at);
            int hide = rng_uniform(&rng, 0, 1) < how->hidden;
            double bias = rng_normal(&rng) * factor(data->spec.magnitude.bias);
            if (data->spec.fill == ATTENTION_SPECIAL) {
                bias = draw_special(&rng, bias);
            }
            if (is_bias && data->spec.lowest_bias > 0 &&
                rng_uniform(&rng, 0, 1) < data->spec.lowest_bias) {
                bias = -storage_largest(image->type);
            }
            if (pass == 1) {
                dense[n] = is_bias ? storage_load(image->type, image->bytes, element)
                                   : image->bytes[element] != 0;
            } else if (is_bias) {
                storage_store(image->type, image->bytes, element, hide ? -(double)INFINITY : bias);
            } else {
                image->bytes[element] = hide ? 0 : (unsigned char)(1 + n % 255);
            }
        }
    }
    /* What the library is told: nothing that it can work out. */
    *described = mask;
    for (int a = 0; a < MASK_AXES && !how->strided; a++) {
        described->stride[a] = 0;
        if (how->full >> a & 1) {
            described->shape[a] = 0;
        }
    }
    return dense;
}

static void masks_make(struct attention_data *data)
{
    gpu_mha_desc *d = &data->desc;

    if (d->mask.type != GPU_MHA_MASK_NONE) {
        double *dense = mask_make(data, ARRAY_MASK, &data->spec.mask, &d->mask);
        data->mask = attention_alloc(matrix_count(data), 1);
        for (int64_t n = 0; n < matrix_count(data); n++) {
            data->mask[n] = dense[n] != 0;
        }
        free(dense);
    }
    if (d->bias.type != GPU_MHA_MASK_NONE) {
        data->bias = mask_make(data, ARRAY_BIAS, &data->spec.bias, &d->bias);
    }
}

/* ---- arrays with one number per batch entry or head ---- */

static void lengths_make(struct attention_data *data)
{
    const gpu_mha_desc *d = &data->desc;
    size_t bytes = d->key_lengths == GPU_MHA_I32 ? 4 : 8;
    struct rng rng;

    rng_seed(&rng, data->spec.seed + 77);
    data->offset = attention_alloc(d->B, sizeof(int64_t));
    data->key_lengths = attention_alloc(d->B, sizeof(int64_t));
    if (d->key_lengths != GPU_MHA_INDEX_NONE) {
        image_make(data, ARRAY_KEY_LENGTHS, flat(ARRAY_KEY_LENGTHS, d->B), bytes);
    }
    for (int64_t b = 0; b < d->B; b++) {
        int64_t length = data->NT;
        if (d->key_lengths != GPU_MHA_INDEX_NONE) {
            struct attention_image *image = &data->images[ARRAY_KEY_LENGTHS];
            unsigned char *to = image->bytes + (size_t)(image->layout.offset + b) * bytes;
            length = data->spec.any_length ? rng_below(&rng, data->NT + 1)
                     : b == 2              ? 0
                                           : data->NT - rng_below(&rng, data->NT / 2 + 1);
            int32_t narrow = (int32_t)length;
            memcpy(to, bytes == 4 ? (const void *)&narrow : (const void *)&length, bytes);
        }
        data->key_lengths[b] = length;
        data->offset[b] = d->offset_kind == GPU_MHA_TOP_LEFT       ? 0
                          : d->offset_kind == GPU_MHA_BOTTOM_RIGHT ? length - d->NQ
                                                                   : d->offset;
    }
}

static double *heads_make(struct attention_data *data, enum attention_array array, double low,
                          double high)
{
    int64_t H = data->desc.H;
    double *x = alloc_doubles(H);
    struct rng rng;

    rng_seed(&rng, data->spec.seed + 1000 + (uint64_t)array);
    fill_uniform(&rng, x, H, low, high);
    storage_round_array(STORAGE_F32, x, H);
    image_make_float(data, array, flat(array, H), STORAGE_F32);
    layout_scatter(&data->images[array].layout, STORAGE_F32, data->images[array].bytes, x);
    return x;
}

static void outputs_make(struct attention_data *data)
{
    gpu_mha_desc *d = &data->desc;
    struct layout l =
        layout_of(data->spec.output, d->B, d->H, d->NQ, d->DV, offset_of(ARRAY_OUTPUT));

    describe(&d->output, data->spec.output, &l);
    image_make_float(data, ARRAY_OUTPUT, l, (enum storage_type)d->output.type);
    if (d->lse) {
        image_make_float(data, ARRAY_LSE, flat(ARRAY_LSE, d->B * d->H * d->NQ), STORAGE_F32);
    }
    if (d->weights != GPU_MHA_WEIGHTS_NONE) {
        int64_t heads = d->weights == GPU_MHA_WEIGHTS_PER_HEAD ? d->H : 1;
        image_make_float(data, ARRAY_WEIGHTS, flat(ARRAY_WEIGHTS, d->B * heads * d->NQ * data->NT),
                         STORAGE_F32);
    }
    if (d->scores != GPU_MHA_SCORES_NONE) {
        image_make_float(data, ARRAY_SCORES, flat(ARRAY_SCORES, matrix_count(data)), STORAGE_F32);
    }
}

/* ---- what the result depends on ---- */

static void use_row(struct attention_data *data, enum attention_array array, int64_t b, int64_t h,
                    int64_t n)
{
    struct attention_image *image = &data->images[array];

    memset(image->used + layout_index(&image->layout, b, h, n, 0), 1, (size_t)image->layout.D);
}

static void use_key(struct attention_data *data, int64_t b, int64_t kv, int64_t j, int is_value)
{
    int64_t NP = data->desc.NP;

    if (j < NP) {
        use_row(data, is_value ? ARRAY_PAST_VALUE : ARRAY_PAST_KEY, b, kv, j);
    } else {
        use_row(data, is_value ? ARRAY_VALUE : ARRAY_KEY, b, kv, j - NP);
    }
}

static void use_mask(struct attention_data *data, enum attention_array array,
                     const struct attention_mask *how, gpu_mha_mask_type type,
                     const int64_t at[MASK_AXES])
{
    struct attention_image *image = &data->images[array];
    int64_t span;
    gpu_mha_mask mask;

    if (!image->wanted) {
        return;
    }
    mask = mask_shape(data, how, type, &span);
    image->used[image->layout.offset + mask_index(&mask, at)] = 1;
}

/*
 * Marks what is used. A mask element is not where geometry hides its keys anyhow; a bias element is
 * not where the boolean mask hides them too; a key or value row that nobody sees is not, nor a
 * query that sees nobody. Raw and capped scores are wanted of every key.
 */
static void mark_used(struct attention_data *data)
{
    const gpu_mha_desc *d = &data->desc;
    int every_key = d->scores == GPU_MHA_SCORES_RAW || d->scores == GPU_MHA_SCORES_CAPPED;
    struct ref_problem geometry = data->problem, with_mask = data->problem;
    const enum attention_array whole[] = {ARRAY_KEY_LENGTHS, ARRAY_SLOPES, ARRAY_SINKS};

    geometry.mask = NULL;
    geometry.bias = with_mask.bias = NULL;
    for (int64_t n = 0; n < matrix_count(data); n++) {
        int64_t at[MASK_AXES];
        axes_of(data, n, at);
        int64_t b = at[0], h = at[1], i = at[2], j = at[3], kv = h / (d->H / d->HKV);
        int visible = ref_visible(&data->problem, b, h, i, j);
        if (visible || every_key) {
            use_row(data, ARRAY_QUERY, b, h, i);
            use_key(data, b, kv, j, 0);
        }
        if (visible) {
            use_key(data, b, kv, j, 1);
        }
        if (ref_visible(&geometry, b, h, i, j)) {
            use_mask(data, ARRAY_MASK, &data->spec.mask, d->mask.type, at);
        }
        if (ref_visible(&with_mask, b, h, i, j)) {
            use_mask(data, ARRAY_BIAS, &data->spec.bias, d->bias.type, at);
        }
    }
    for (size_t a = 0; a < sizeof(whole) / sizeof(whole[0]); a++) {
        if (data->images[whole[a]].wanted) {
            use_row(data, whole[a], 0, 0, 0);
        }
    }
}

static void problem_make(struct attention_data *data)
{
    const gpu_mha_desc *d = &data->desc;
    enum storage_type out = (enum storage_type)d->output.type;

    data->problem = (struct ref_problem){
        .B = d->B,
        .H = d->H,
        .HKV = d->HKV,
        .NQ = d->NQ,
        .NK = data->NT,
        .DK = d->DK,
        .DV = d->DV,
        .q = data->q,
        .k = data->k,
        .v = data->v,
        .scale = d->has_scale ? (double)d->scale : ref_default_scale(d->DK),
        .softcap = (double)d->softcap,
        .mask = data->mask,
        .bias = data->bias,
        .key_lengths = data->key_lengths,
        .causal = d->causal,
        .has_window = d->has_window,
        .window_left = d->window_left,
        .window_right = d->window_right,
        .offset = data->offset,
        .slopes = data->slopes,
        .sinks = data->sinks,
        .dropout = {(double)d->dropout, d->dropout_seed},
        .u_out = storage_unit_roundoff(out),
        .out_subnormal = storage_smallest_subnormal(out),
        .want_matrices = d->weights != GPU_MHA_WEIGHTS_NONE || d->scores != GPU_MHA_SCORES_NONE};
    mark_used(data);
    if (ref_attention(&data->problem, &data->want) != 0) {
        fprintf(stderr, "the reference refuses the problem or has no memory\n");
        exit(1);
    }
}

void attention_data_make(const struct attention_spec *spec, struct attention_data *data)
{
    *data = (struct attention_data){
        .spec = *spec, .desc = spec->desc, .NT = spec->desc.NP + spec->desc.NK};
    tensors_make(data);
    masks_make(data);
    lengths_make(data);
    if (spec->desc.sinks) {
        data->sinks = heads_make(data, ARRAY_SINKS, -2, 2);
    }
    if (spec->desc.alibi == GPU_MHA_ALIBI_SLOPES) {
        data->slopes = heads_make(data, ARRAY_SLOPES, 0.01, 0.5);
    }
    if (spec->desc.alibi == GPU_MHA_ALIBI_AUTO) {
        data->slopes = alloc_doubles(spec->desc.H);
        ref_alibi_slopes(spec->desc.H, data->slopes);
    }
    outputs_make(data);
    problem_make(data);
}

void attention_data_free(struct attention_data *data)
{
    for (int a = 0; a < ARRAY_COUNT; a++) {
        if (data->images[a].wanted && (int)data->images[a].shares == a) {
            free(data->images[a].bytes);
            free(data->images[a].used);
        }
    }
    free(data->q);
    free(data->k);
    free(data->v);
    free(data->bias);
    free(data->slopes);
    free(data->sinks);
    free(data->mask);
    free(data->key_lengths);
    free(data->offset);
    ref_result_free(&data->want);
    *data = (struct attention_data){0};
}
