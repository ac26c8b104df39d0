/*
 * relations.c - see relations.h.
 */
#include "relations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- permutations ---- */

static int64_t *permutation(struct rng *rng, int64_t count)
{
    int64_t *p = attention_alloc(count, sizeof(*p));

    for (int64_t n = 0; n < count; n++) {
        int64_t at = rng_below(rng, n + 1);
        p[n] = p[at];
        p[at] = n;
    }
    return p;
}

/*
 * An array of (outer, count, inner) elements in which item n becomes item p[n], or for `count` new
 * items any choice of `old` ones.
 */
static void *pick(const void *from, int64_t outer, int64_t old, int64_t count, size_t inner_bytes,
                  const int64_t *p)
{
    unsigned char *to;

    if (!from) {
        return NULL;
    }
    to = attention_alloc(outer * count, inner_bytes);
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t n = 0; n < count; n++) {
            memcpy(to + (size_t)(o * count + n) * inner_bytes,
                   (const unsigned char *)from + (size_t)(o * old + p[n]) * inner_bytes,
                   inner_bytes);
        }
    }
    return to;
}

#define PICK(array, outer, old, count, inner, p)                                                   \
    do {                                                                                           \
        void *picked_ =                                                                            \
            pick((array), (outer), (old), (count), (size_t)(inner) * sizeof((array)[0]), (p));     \
        free(array);                                                                               \
        (array) = picked_;                                                                         \
    } while (0)

/* All that hides a key as one boolean mask. */
static void write_out_masks(struct rng *rng, struct dense *d, struct row_map *map)
{
    gpu_mha_desc *desc = &d->desc;
    uint8_t *mask = attention_alloc(desc->B * desc->H * desc->NQ * d->NT, 1);

    (void)rng;
    (void)map;
    for (int64_t row = 0; row < desc->B * desc->H * desc->NQ; row++) {
        for (int64_t j = 0; j < d->NT; j++) {
            mask[row * d->NT + j] = (uint8_t)dense_visible(
                d, row / desc->NQ / desc->H, row / desc->NQ % desc->H, row % desc->NQ, j);
        }
    }
    free(d->mask);
    d->mask = mask;
    free(d->key_lengths);
    d->key_lengths = NULL;
    desc->key_lengths = GPU_MHA_INDEX_NONE;
    desc->causal = desc->has_window = 0;
    desc->window_left = desc->window_right = desc->offset = 0;
    desc->offset_kind = GPU_MHA_TOP_LEFT;
}

static void permute_keys(struct rng *rng, struct dense *d, struct row_map *map)
{
    const gpu_mha_desc *desc = &d->desc;
    int64_t *p = permutation(rng, d->NT);

    write_out_masks(rng, d, map);
    PICK(d->k, desc->B * desc->HKV, d->NT, d->NT, desc->DK, p);
    PICK(d->v, desc->B * desc->HKV, d->NT, d->NT, desc->DV, p);
    PICK(d->mask, desc->B * desc->H * desc->NQ, d->NT, d->NT, 1, p);
    PICK(d->bias, desc->B * desc->H * desc->NQ, d->NT, d->NT, 1, p);
    free(p);
}

static void permute_queries(struct rng *rng, struct dense *d, struct row_map *map)
{
    const gpu_mha_desc *desc = &d->desc;
    const int64_t heads = desc->B * desc->H, NQ = desc->NQ;
    int64_t *p = permutation(rng, NQ);

    write_out_masks(rng, d, map);
    PICK(d->q, heads, NQ, NQ, desc->DK, p);
    PICK(d->mask, heads, NQ, NQ, d->NT, p);
    PICK(d->bias, heads, NQ, NQ, d->NT, p);
    for (int64_t r = 0; r < heads * NQ; r++) {
        map->rows[r] = r / NQ * NQ + p[r % NQ];
    }
    free(p);
}

/* Groups change places, and heads within them. */
static void permute_heads(struct rng *rng, struct dense *d, struct row_map *map)
{
    const gpu_mha_desc *desc = &d->desc;
    const int64_t group = desc->H / desc->HKV, NQ = desc->NQ;
    int64_t *kv = permutation(rng, desc->HKV);
    int64_t *p = attention_alloc(desc->H, sizeof(*p));

    for (int64_t g = 0; g < desc->HKV; g++) {
        int64_t *within = permutation(rng, group);
        for (int64_t n = 0; n < group; n++) {
            p[g * group + n] = kv[g] * group + within[n];
        }
        free(within);
    }
    PICK(d->q, desc->B, desc->H, desc->H, NQ * desc->DK, p);
    PICK(d->k, desc->B, desc->HKV, desc->HKV, d->NT * desc->DK, kv);
    PICK(d->v, desc->B, desc->HKV, desc->HKV, d->NT * desc->DV, kv);
    PICK(d->mask, desc->B, desc->H, desc->H, NQ * d->NT, p);
    PICK(d->bias, desc->B, desc->H, desc->H, NQ * d->NT, p);
    PICK(d->slopes, 1, desc->H, desc->H, 1, p);
    PICK(d->sinks, 1, desc->H, desc->H, 1, p);
    for (int64_t r = 0; r < desc->B * desc->H * NQ; r++) {
        map->rows[r] = (r / NQ / desc->H * desc->H + p[r / NQ % desc->H]) * NQ + r % NQ;
    }
    free(p);
    free(kv);
}

/* Each entry is any entry of the base, so some stand in several places. */
static void move_batch(struct rng *rng, struct dense *d, struct row_map *map)
{
    const gpu_mha_desc *desc = &d->desc;
    const int64_t B = desc->B, rows = desc->H * desc->NQ;
    int64_t *p = permutation(rng, B);

    if (rng_below(rng, 2)) {
        p[0] = p[B - 1];
    }
    PICK(d->q, 1, B, B, rows * desc->DK, p);
    PICK(d->k, 1, B, B, desc->HKV * d->NT * desc->DK, p);
    PICK(d->v, 1, B, B, desc->HKV * d->NT * desc->DV, p);
    PICK(d->mask, 1, B, B, rows * d->NT, p);
    PICK(d->bias, 1, B, B, rows * d->NT, p);
    PICK(d->key_lengths, 1, B, B, 1, p);
    for (int64_t r = 0; r < B * rows; r++) {
        map->rows[r] = p[r / rows] * rows + r % rows;
    }
    free(p);
}

/* ---- padding ---- */

/* Garbage of any kind, within every storage type. */
static double garbage(struct rng *rng)
{
    const double kinds[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 1000, 0};

    return kinds[rng_below(rng, COUNT(kinds))];
}

/* (outer, old, inner) to (outer, old + more, inner), garbage in the new items, or 0. */
static void widen(struct rng *rng, double **array, int64_t outer, int64_t old, int64_t more,
                  int64_t inner, int with_garbage)
{
    double *from = *array ? dense_replace(array, outer * (old + more) * inner) : NULL;

    for (int64_t o = 0; from && o < outer; o++) {
        double *to = *array + o * (old + more) * inner;
        memcpy(to, from + o * old * inner, (size_t)(old * inner) * sizeof(double));
        for (int64_t n = old * inner; with_garbage && n < (old + more) * inner; n++) {
            to[n] = garbage(rng);
        }
    }
    free(from);
}

static void widen_mask(struct rng *rng, struct dense *d, int64_t outer, int64_t old, int64_t more,
                       int64_t inner)
{
    uint8_t *from = d->mask;

    if (!from) {
        return;
    }
    d->mask = attention_alloc(outer * (old + more) * inner, 1);
    for (int64_t o = 0; o < outer; o++) {
        uint8_t *to = d->mask + o * (old + more) * inner;
        memcpy(to, from + o * old * inner, (size_t)(old * inner));
        for (int64_t n = old * inner; n < (old + more) * inner; n++) {
            to[n] = (uint8_t)rng_below(rng, 2);
        }
    }
    free(from);
}

/* More keys, which the key lengths hide. */
static void pad_keys(struct rng *rng, struct dense *d, struct row_map *map)
{
    gpu_mha_desc *desc = &d->desc;
    const int64_t more = 1 + rng_below(rng, 40), matrix = desc->B * desc->H * desc->NQ;

    (void)map;
    if (!d->key_lengths) {
        d->key_lengths = attention_alloc(desc->B, sizeof(int64_t));
        for (int64_t b = 0; b < desc->B; b++) {
            d->key_lengths[b] = d->NT;
        }
        desc->key_lengths = rng_below(rng, 2) ? GPU_MHA_I32 : GPU_MHA_I64;
    }
    widen(rng, &d->k, desc->B * desc->HKV, d->NT, more, desc->DK, 1);
    widen(rng, &d->v, desc->B * desc->HKV, d->NT, more, desc->DV, 1);
    widen(rng, &d->bias, matrix, d->NT, more, 1, 1);
    widen_mask(rng, d, matrix, d->NT, more, 1);
    d->NT += more;
    desc->NK += more;
}

/* The offset that the base has, whatever becomes of its lengths. */
static void fix_offset(struct dense *d)
{
    const int64_t offset = dense_offset(d, 0);

    d->desc.offset_kind = GPU_MHA_OFFSET;
    d->desc.offset = offset;
}

static void pad_queries(struct rng *rng, struct dense *d, struct row_map *map)
{
    gpu_mha_desc *desc = &d->desc;
    const int64_t heads = desc->B * desc->H, NQ = desc->NQ;
    const int64_t more = 1 + rng_below(rng, NQ < 20 ? NQ : 20);

    fix_offset(d);
    widen(rng, &d->q, heads, NQ, more, desc->DK, 1);
    widen(rng, &d->bias, heads, NQ, more, d->NT, 1);
    widen_mask(rng, d, heads, NQ, more, d->NT);
    desc->NQ += more;
    for (int64_t r = 0; r < heads * desc->NQ; r++) {
        map->rows[r] = r % desc->NQ < NQ ? r / desc->NQ * NQ + r % desc->NQ : -1;
    }
}

/* Zeros behind every query and key, garbage behind every value: always as many, since each head
 * size is a kernel of its own. */
static void pad_heads(struct rng *rng, struct dense *d, struct row_map *map)
{
    gpu_mha_desc *desc = &d->desc;
    const int64_t keys = desc->B * desc->HKV * d->NT;

    (void)map;
    widen(rng, &d->q, desc->B * desc->H * desc->NQ, desc->DK, 3, 1, 0);
    widen(rng, &d->k, keys, desc->DK, 3, 1, 0);
    widen(rng, &d->v, keys, desc->DV, 2, 1, 1);
    desc->DK += 3;
    desc->DV += 2;
}

/* ---- storage ---- */

static void change_layouts(struct rng *rng, struct dense *d, struct row_map *map)
{
    enum layout_kind *const kinds[] = {&d->query, &d->key, &d->value, &d->output};

    (void)map;
    for (int n = 0; n < COUNT(kinds); n++) {
        *kinds[n] = (enum layout_kind)rng_below(rng, LAYOUT_COUNT);
    }
    d->shift = rng_below(rng, 20);
}

static void change_offsets(struct rng *rng, struct dense *d, struct row_map *map)
{
    (void)map;
    d->shift = 1 + rng_below(rng, 40);
}

static void move_past(struct rng *rng, struct dense *d, struct row_map *map)
{
    const int64_t NP = d->desc.NP;

    (void)map;
    do {
        d->desc.NP = rng_below(rng, d->NT + 1);
    } while (d->desc.NP == NP);
    d->desc.NK = d->NT - d->desc.NP;
}

/* ---- arithmetic ---- */

/* A constant for all scores of a row, the sink's too. */
static void shift_scores(struct rng *rng, struct dense *d, struct row_map *map)
{
    const gpu_mha_desc *desc = &d->desc;
    const double shift = (double)(rng_below(rng, 201) - 100);

    for (int64_t n = 0; n < desc->B * desc->H * desc->NQ * d->NT; n++) {
        d->bias[n] += shift;
    }
    for (int64_t h = 0; d->sinks && h < desc->H; h++) {
        d->sinks[h] += shift;
    }
    map->lse_shift = shift;
}

/* A head of keys and values for every query head. */
static void repeat_groups(struct rng *rng, struct dense *d, struct row_map *map)
{
    gpu_mha_desc *desc = &d->desc;
    int64_t *p = attention_alloc(desc->H, sizeof(*p));

    (void)rng;
    (void)map;
    for (int64_t h = 0; h < desc->H; h++) {
        p[h] = h / (desc->H / desc->HKV);
    }
    PICK(d->k, desc->B, desc->HKV, desc->H, d->NT * desc->DK, p);
    PICK(d->v, desc->B, desc->HKV, desc->H, d->NT * desc->DV, p);
    desc->HKV = desc->H;
    free(p);
}

/* Minus keys, minus the scale. */
static void change_signs(struct rng *rng, struct dense *d, struct row_map *map)
{
    (void)rng;
    (void)map;
    for (int64_t n = 0; n < d->desc.B * d->desc.HKV * d->NT * d->desc.DK; n++) {
        d->k[n] = -d->k[n];
    }
    d->desc.scale = -d->desc.scale;
}

/* ---- the list ---- */

const struct relation relations[] = {
    {"keys permuted", WITHOUT_DROPOUT | WITHOUT_ALIBI, 0, permute_keys},
    {"queries permuted", WITHOUT_DROPOUT | WITHOUT_ALIBI, 0, permute_queries},
    {"heads permuted", WITHOUT_DROPOUT, 0, permute_heads},
    {"batch entries moved", WITHOUT_DROPOUT | WITH_BATCH, 1, move_batch},
    {"masks written out", WITHOUT_ALIBI, 0, write_out_masks},
    {"keys padded", 0, 0, pad_keys},
    {"queries padded", WITHOUT_DIAGONAL_PER_ENTRY, 0, pad_queries},
    {"head sizes padded", 0, 0, pad_heads},
    {"other layouts", 0, 0, change_layouts},
    {"other buffer offsets", 0, 1, change_offsets},
    {"other past", 0, 0, move_past},
    {"scores shifted", WITH_BIAS, 0, shift_scores},
    {"groups repeated", 0, 0, repeat_groups},
    {"signs of keys and scale", 0, 0, change_signs},
    {"split and merged", WITHOUT_DROPOUT | WITHOUT_DIAGONAL_PER_ENTRY | WITHOUT_SPECIAL, 0, NULL},
};

const int relation_count = COUNT(relations);

static void prepare_sizes(const struct relation *relation, gpu_mha_desc *d)
{
    d->B = d->B < 1 ? 1 : d->B;
    d->NQ = d->NQ < 1 ? 1 : d->NQ;
    d->NK = d->NP + d->NK < 1 ? 1 : d->NK;
    if (relation->needs & WITH_BATCH && d->B < 2) {
        d->B = 2;
    }
    /* Room for offsets that move. */
    if (d->offset_kind == GPU_MHA_OFFSET && (d->offset > 1 << 30 || d->offset < -(1 << 30))) {
        d->offset /= 2;
    }
}

void relation_prepare(const struct relation *relation, struct attention_spec *spec)
{
    gpu_mha_desc *d = &spec->desc;

    prepare_sizes(relation, d);
    d->weights = GPU_MHA_WEIGHTS_NONE;
    d->scores = GPU_MHA_SCORES_NONE;
    d->lse = 1;
    if (!d->has_scale) {
        d->has_scale = 1;
        d->scale = (float)(1 / sqrt((double)d->DK));
    }
    d->past_key.type = d->key.type;
    d->past_value.type = d->value.type;
    if (d->alibi == GPU_MHA_ALIBI_AUTO) {
        d->alibi = GPU_MHA_ALIBI_SLOPES;
    }
    if (relation->needs & WITHOUT_DROPOUT) {
        d->dropout = 0;
    }
    if (relation->needs & WITHOUT_ALIBI) {
        d->alibi = GPU_MHA_ALIBI_NONE;
    }
    if (relation->needs & WITHOUT_DIAGONAL_PER_ENTRY && d->offset_kind == GPU_MHA_BOTTOM_RIGHT) {
        d->key_lengths = GPU_MHA_INDEX_NONE;
    }
    if (relation->needs & WITHOUT_SPECIAL && spec->fill == ATTENTION_SPECIAL) {
        spec->fill = ATTENTION_NORMAL;
    }
    if (relation->needs & WITH_BIAS) {
        if (d->bias.type == GPU_MHA_MASK_NONE) {
            spec->bias = (struct attention_mask){.full = 0xF, .hidden = 0.2};
        }
        d->bias.type = GPU_MHA_MASK_F32;
        spec->lowest_bias = spec->magnitude.bias = 0;
    }
}
