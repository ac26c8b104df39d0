/*
 * draw.c - see draw.h.
 */
#include "draw.h"

#include <math.h>

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))

/* Products of a problem, about: the reference does a hundred million in a second. */
#define WORK_MAX 1500000

/* How often each is drawn, of 20. */
static const enum random_family families[] = {
    FAMILY_AUTO,   FAMILY_AUTO,   FAMILY_AUTO,   FAMILY_AUTO,   FAMILY_FUSED,
    FAMILY_FUSED,  FAMILY_FUSED,  FAMILY_FUSED,  FAMILY_STAGED, FAMILY_STAGED,
    FAMILY_STAGED, FAMILY_STAGED, FAMILY_DECODE, FAMILY_DECODE, FAMILY_HEADS,
    FAMILY_HEADS,  FAMILY_SHARED, FAMILY_SHARED, FAMILY_ROWS,   FAMILY_ROWS};

static const char *const tiles[][4] = {
    [FAMILY_FUSED] = {"12,16,1,16", "6,8,2,16", "6,4,2,32", "5,8,1,3"},
    [FAMILY_DECODE] = {"decode 16", "decode 8", "decode 4", "decode 8"},
    [FAMILY_HEADS] = {"heads 12,16,1,16", "heads 8,8,1,4", "heads 6,4,2,8", "heads 4,8,2,2"},
    /* Small ones: a CPU driver takes long to build large ones. */
    [FAMILY_SHARED] = {"shared 2,4,2,4,16,4,0,0", "shared 4,4,1,4,16,1,1,0",
                       "shared 1,8,2,4,16,2,0,0", "shared 4,8,1,8,32,2,1,0"},
    [FAMILY_ROWS] = {"rows 1,8,16", "rows 1,4,8", "rows 2,4,12", "rows 3,16,64"},
};

/* What kernels of one epoch are built for. */
struct epoch {
    int64_t DK, DV;
    int tile[FAMILY_ROWS + 1]; /* of each family */
    int64_t few;               /* queries where there are few: 1 to 4 */
    int64_t decode_group;      /* H / HKV where there are few queries */
    gpu_mha_type types[2][4];  /* key, value, past_key, past_value */
};

static int chance(struct rng *rng, double p)
{
    return rng_uniform(rng, 0, 1) < p;
}

static int64_t between(struct rng *rng, int64_t low, int64_t high)
{
    return low + rng_below(rng, high - low + 1);
}

static int64_t one_of(struct rng *rng, const int64_t *list, int64_t count)
{
    return list[rng_below(rng, count)];
}

static struct epoch epoch_of(uint64_t number)
{
    static const int64_t sizes[] = {1,  2,  3,  4,  5,  7,  8,  11, 12, 13, 15, 16, 17, 20,  24, 29,
                                    31, 32, 33, 37, 40, 48, 61, 63, 64, 65, 72, 80, 96, 128, 131};
    struct epoch e = {0};
    struct rng rng;

    rng_seed(&rng, UINT64_C(0x9e3779b97f4a7c15) ^ number);
    /* Steps through the sizes by primes to their number: after as many epochs each was taken. */
    e.DK = sizes[number * 17 % (uint64_t)COUNT(sizes)];
    e.DV = chance(&rng, 0.3) ? e.DK : sizes[(number * 12 + 5) % (uint64_t)COUNT(sizes)];
    for (int f = 0; f <= FAMILY_ROWS; f++) {
        e.tile[f] = (int)((number + (uint64_t)f * (number / 4)) % 4);
    }
    e.few = between(&rng, 1, 4);
    e.decode_group = between(&rng, 1, 16 / e.few);
    for (int n = 0; n < 2; n++) {
        for (int t = 0; t < 4; t++) {
            e.types[n][t] = (gpu_mha_type)rng_below(&rng, 3);
        }
    }
    /* The decode kernel knows one type for past and new ones. */
    e.types[0][2] = e.types[0][0];
    e.types[0][3] = e.types[0][1];
    return e;
}

/* ---- sizes ---- */

/* 1, edges of tiles and of blocks, primes, and anything, from `least` to `most`. */
static int64_t length(struct rng *rng, int64_t least, int64_t most)
{
    static const int64_t edges[] = {4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024};
    static const int64_t primes[] = {2,  3,  5,  7,  11, 13,  17,  19,  23,  29,  31,  37,  41,
                                     43, 53, 67, 71, 97, 127, 131, 193, 257, 389, 521, 769, 1031};
    int64_t n;

    do {
        switch (rng_below(rng, 8)) {
        case 0:
            n = 1;
            break;
        case 1:
        case 2:
        case 3:
            n = one_of(rng, edges, COUNT(edges)) + between(rng, -1, 1);
            break;
        case 4:
        case 5:
            n = one_of(rng, primes, COUNT(primes));
            break;
        default:
            n = between(rng, least, most);
        }
    } while (n < least || n > most);
    return n;
}

static int64_t work(const gpu_mha_desc *d)
{
    return d->B * d->H * d->NQ * (d->NP + d->NK) * (d->DK + d->DV + 20);
}

static void draw_heads(struct rng *rng, const struct epoch *e, enum random_family family,
                       gpu_mha_desc *d)
{
    static const int64_t groups[] = {1, 1, 1, 2, 2, 3, 4, 5, 8};

    d->B = between(rng, 1, 3);
    d->HKV = between(rng, 1, 3);
    d->H = d->HKV * one_of(rng, groups, COUNT(groups));
    d->NQ = chance(rng, 0.2) ? e->few : length(rng, 5, 130);
    if (family == FAMILY_DECODE) {
        d->NQ = e->few;
    }
    if (family == FAMILY_HEADS && chance(rng, 0.7)) { /* many of them, as the kernel is meant for */
        d->B = between(rng, 2, 5);
        d->HKV = between(rng, 4, 6);
        d->H = d->HKV * between(rng, 1, 2);
    }
    /* What the decode kernel may take, by itself too: as many rows as it is built for. */
    if (d->NQ <= 4) {
        d->H = d->HKV * e->decode_group;
    }
}

static void draw_sizes(struct rng *rng, const struct epoch *e, enum random_family family,
                       gpu_mha_desc *d)
{
    draw_heads(rng, e, family, d);
    d->DK = e->DK;
    d->DV = e->DV;
    int64_t NT = length(rng, 1, family == FAMILY_HEADS ? 200 : 600);
    if (d->NQ <= 4 && chance(rng, 0.4)) { /* so many keys that they are split */
        NT = between(rng, 600, 4200);
        d->B = 1;
        d->H /= d->HKV;
        d->HKV = 1;
    }
    d->NP = chance(rng, 0.3) ? rng_below(rng, NT + 1) : 0;
    d->NK = NT - d->NP;
    /* Smaller until it is cheap, but never out of the few or the many queries. */
    while (work(d) > WORK_MAX) {
        if (d->B > 1) {
            d->B--;
        } else if (d->NQ > 13) {
            d->NQ = d->NQ / 2 + 1;
        } else if (d->HKV > 1) {
            d->H = d->H / d->HKV * (d->HKV - 1);
            d->HKV--;
        } else if (d->NQ > 4 && d->H > 1) {
            d->H = 1;
        } else {
            d->NK = d->NK * 2 / 3;
            d->NP = d->NP * 2 / 3;
        }
    }
    if (chance(rng, 0.02)) {
        int64_t *const sizes[] = {&d->B, &d->NQ, &d->NK};
        *sizes[rng_below(rng, 3)] = 0;
    }
}

/* ---- storage ---- */

static enum attention_layout input_layout(struct rng *rng)
{
    return (enum attention_layout)(chance(rng, 0.1)
                                       ? between(rng, ATTENTION_ONE_BATCH, ATTENTION_ONE_ROW)
                                       : rng_below(rng, ATTENTION_ONE_BATCH));
}

static void draw_storage(struct rng *rng, const struct epoch *e, struct attention_spec *spec)
{
    gpu_mha_desc *d = &spec->desc;
    const gpu_mha_type *types = e->types[rng_below(rng, 2)];

    d->query.type = (gpu_mha_type)rng_below(rng, 3);
    d->key.type = types[0];
    d->value.type = types[1];
    d->output.type = (gpu_mha_type)rng_below(rng, 3);
    spec->query = input_layout(rng);
    spec->key = input_layout(rng);
    spec->value = input_layout(rng);
    spec->output = (enum attention_layout)rng_below(rng, ATTENTION_ONE_BATCH);
    if (d->NP > 0) {
        d->past_key.type = types[2];
        d->past_value.type = types[3];
        spec->past_key = input_layout(rng);
        spec->past_value = input_layout(rng);
    }
    if (chance(rng, 0.08) && d->NK > 0) {
        d->NQ = d->NQ > 4 && d->NK > 4 && d->NK < d->NQ ? d->NK : d->NQ;
        d->NK = d->NQ;
        d->query.type = d->value.type = d->key.type;
        spec->query = spec->key = spec->value = ATTENTION_QKV;
    }
}

/* ---- numbers ---- */

/* 2^e for a whole e, so that products stay what they are. */
static double power(struct rng *rng, int64_t most)
{
    return ldexp(1, (int)between(rng, -most, most));
}

/*
 * Numbers far from 1 whose scores are ordinary all the same: large queries against small keys, or
 * both against a scale; and values as far away. All stay inside their types.
 */
static void draw_magnitudes(struct rng *rng, struct attention_spec *spec)
{
    gpu_mha_desc *d = &spec->desc;
    const int narrow = d->query.type == GPU_MHA_F16 || d->key.type == GPU_MHA_F16 ||
                       (d->NP > 0 && d->past_key.type == GPU_MHA_F16);
    const int narrow_value = d->value.type == GPU_MHA_F16 || d->output.type == GPU_MHA_F16 ||
                             (d->NP > 0 && d->past_value.type == GPU_MHA_F16);

    if (chance(rng, 0.5)) {
        spec->magnitude.query = power(rng, narrow ? 9 : 50);
        spec->magnitude.key = 1 / spec->magnitude.query;
        if (chance(rng, 0.5)) {
            spec->magnitude.key = spec->magnitude.query;
            d->has_scale = 1;
            d->scale = (float)(rng_uniform(rng, -1, 1) * ref_default_scale(d->DK) /
                               (spec->magnitude.query * spec->magnitude.query));
        }
    }
    if (chance(rng, 0.6)) {
        spec->magnitude.value = power(rng, narrow_value ? 9 : 50);
    }
    if (chance(rng, 0.5)) {
        spec->magnitude.bias = power(rng, 8);
    }
}

static void draw_numbers(struct rng *rng, struct attention_spec *spec)
{
    static const enum attention_fill fills[] = {
        ATTENTION_NORMAL,   ATTENTION_NORMAL,  ATTENTION_NORMAL,
        ATTENTION_POSITIVE, ATTENTION_GROWING, ATTENTION_LARGE,
        ATTENTION_TAIL,     ATTENTION_UNIFORM, ATTENTION_SPECIAL};
    static const float scales[] = {0, -0.0f, 1, -1, 0.3f, -0.17f, 0.01f};
    static const float caps[] = {0.01f, 0.5f, 1.5f, 5, 30, 50, 1e-20f, 1e20f};
    gpu_mha_desc *d = &spec->desc;

    spec->fill = fills[rng_below(rng, COUNT(fills))];
    if (chance(rng, 0.3)) {
        d->has_scale = 1;
        d->scale = scales[rng_below(rng, COUNT(scales))];
    }
    if (chance(rng, 0.25)) {
        d->softcap = caps[rng_below(rng, COUNT(caps))];
    }
    if (chance(rng, 0.2) && (spec->fill == ATTENTION_NORMAL || spec->fill == ATTENTION_POSITIVE)) {
        draw_magnitudes(rng, spec);
    }
    if (chance(rng, 0.2)) {
        d->dropout = (float[]){0.1f, 0.5f, 0.9f, 0x1p-20f}[rng_below(rng, 4)];
        d->dropout_seed = rng_next(rng);
    }
    d->sinks = chance(rng, 0.25);
}

/* ---- masks ---- */

static void draw_mask(struct rng *rng, struct attention_mask *mask)
{
    static const double hidden[] = {0, 0.1, 0.3, 0.5, 0.9, 0.99, 1};

    mask->full = chance(rng, 0.4) ? 0xF : (unsigned)rng_below(rng, 16);
    mask->strided = chance(rng, 0.4);
    mask->hidden = hidden[rng_below(rng, COUNT(hidden))];
}

static void draw_geometry(struct rng *rng, gpu_mha_desc *d)
{
    const int64_t NT = d->NP + d->NK;

    d->causal = chance(rng, 0.35);
    d->has_window = chance(rng, 0.25);
    if (d->has_window) {
        d->window_left = chance(rng, 0.2) ? -1 : rng_below(rng, NT + 5);
        d->window_right = chance(rng, 0.2) ? -1 : rng_below(rng, NT + 5);
        if (chance(rng, 0.05)) {
            d->window_left = INT64_MAX;
        }
    }
    if (chance(rng, 0.25)) {
        d->alibi = (gpu_mha_alibi)between(rng, GPU_MHA_ALIBI_AUTO, GPU_MHA_ALIBI_SLOPES);
    }
    d->offset_kind = (gpu_mha_offset_kind)rng_below(rng, 3);
    if (d->offset_kind == GPU_MHA_OFFSET) {
        d->offset = between(rng, -d->NQ - 3, NT + 3);
        /* With ALiBi scores that large have no accuracy left to check. */
        if (d->alibi == GPU_MHA_ALIBI_NONE && chance(rng, 0.1)) {
            d->offset = (chance(rng, 0.5) ? 1 : -1) * ((int64_t)1 << between(rng, 30, 40));
        }
    }
}

static void draw_masks(struct rng *rng, struct attention_spec *spec)
{
    gpu_mha_desc *d = &spec->desc;

    if (chance(rng, 0.3)) {
        d->mask.type = GPU_MHA_MASK_BOOL;
        draw_mask(rng, &spec->mask);
    }
    if (chance(rng, 0.3)) {
        d->bias.type = (gpu_mha_mask_type)between(rng, GPU_MHA_MASK_F32, GPU_MHA_MASK_BF16);
        draw_mask(rng, &spec->bias);
        spec->lowest_bias = chance(rng, 0.15) ? 0.5 : 0;
    }
    if (chance(rng, 0.3)) {
        d->key_lengths = (gpu_mha_index_type)between(rng, GPU_MHA_I32, GPU_MHA_I64);
        spec->any_length = chance(rng, 0.7);
    }
    draw_geometry(rng, d);
}

static void draw_outputs(struct rng *rng, enum random_family family, gpu_mha_desc *d)
{
    d->lse = chance(rng, 0.5);
    d->method = family == FAMILY_AUTO     ? GPU_MHA_AUTO
                : family == FAMILY_STAGED ? GPU_MHA_STAGED
                                          : GPU_MHA_FUSED;
    if (family == FAMILY_STAGED || (family == FAMILY_AUTO && chance(rng, 0.2))) {
        d->weights = (gpu_mha_weights)rng_below(rng, 3);
        d->scores = (gpu_mha_scores)(chance(rng, 0.4) ? 0 : rng_below(rng, 5));
    }
}

static struct attention_spec draw_all(struct rng *rng, uint64_t seed, enum random_family family)
{
    const struct epoch e = epoch_of(seed / RANDOM_EPOCH);
    struct attention_spec spec = {.seed = seed};

    draw_sizes(rng, &e, family, &spec.desc);
    draw_storage(rng, &e, &spec);
    draw_numbers(rng, &spec);
    draw_masks(rng, &spec);
    draw_outputs(rng, family, &spec.desc);
    /* Staged kernels on the tile of this epoch, or on the device's own. */
    const enum random_family of = family == FAMILY_STAGED ? FAMILY_FUSED : family;
    spec.tile = of == FAMILY_AUTO || (family == FAMILY_STAGED && chance(rng, 0.3))
                    ? NULL
                    : tiles[of][e.tile[of]];
    spec.out_of_order = chance(rng, 0.3);
    spec.host_call = chance(rng, 0.3);
    spec.seed_batch = rng_below(rng, 5);
    return spec;
}

struct attention_spec random_spec(uint64_t seed)
{
    struct rng rng;

    rng_seed(&rng, seed);
    const enum random_family family = families[rng_below(&rng, COUNT(families))];
    return draw_all(&rng, seed, family);
}

struct attention_spec random_spec_of(uint64_t seed, enum random_family family)
{
    struct rng rng;

    rng_seed(&rng, seed);
    return draw_all(&rng, seed, family);
}

int random_spec_is_valid(const struct attention_spec *spec)
{
    const gpu_mha_desc *d = &spec->desc;
    const int interleaved = spec->query == ATTENTION_QKV;

    if (interleaved != (spec->key == ATTENTION_QKV) ||
        interleaved != (spec->value == ATTENTION_QKV)) {
        return 0;
    }
    if (interleaved &&
        (d->NQ != d->NK || d->query.type != d->key.type || d->key.type != d->value.type)) {
        return 0;
    }
    return d->B >= 0 && d->H >= 1 && d->HKV >= 1 && d->H % d->HKV == 0 && d->NQ >= 0 &&
           d->NK >= 0 && d->NP >= 0 && d->DK >= 1 && d->DV >= 1;
}
