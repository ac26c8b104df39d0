/* Problem + device + tuning table -> variant. */
#include "attention/variant.h"

#include <inttypes.h>

/* A row of query and output lies in private memory. */
#define HEAD_SIZE_MAX 16384

#define SPLITS_MAX 64

/* With more queries packing pays. */
#define DECODE_QUERIES_MAX 4
#define DECODE_VECTORS_MAX 16

/* Packed keys and values that stay in a core's cache, and heads per core that keep all of them busy
 * to the end. */
#define HEAD_BYTES_MAX ((int64_t)128 * 1024)
#define HEADS_PER_UNIT 4

/*
 * Work-items that one device can keep busy: with fewer, the keys are split among more of them. A
 * CPU core runs one at a time; a GPU's compute unit wants some hundred.
 */
static int64_t wanted_items(const struct mha_device *device)
{
    return (int64_t)device->compute_units * (device->type & CL_DEVICE_TYPE_CPU ? 2 : 128);
}

/* `items` is how many there are without a split. */
static int64_t splits_for(const struct mha_device *device, const struct mha_variant *v,
                          int64_t items)
{
    const int64_t blocks = mha_size_ceil_div(v->tiles, v->tile.TB);
    if (items == 0 || blocks < 2) {
        return 1;
    }
    int64_t splits = mha_size_ceil_div(wanted_items(device), items);
    splits = splits > blocks / 2 ? blocks / 2 : splits;
    splits = splits > SPLITS_MAX ? SPLITS_MAX : splits;
    return splits < 1 ? 1 : splits;
}

/*
 * The decode kernel reads keys and values once for all rows of a group, but holds all these rows.
 * It knows one storage type for past and new ones.
 */
static gpu_mha_status try_decode(const struct mha_problem *p, const struct mha_device *device,
                                 struct mha_variant *v)
{
    const gpu_mha_desc *d = &p->desc;
    const int one_type =
        d->NP == 0 || (p->key.type == p->past_key.type && p->value.type == p->past_value.type);
    int fits = 0;
    if (d->NQ <= DECODE_QUERIES_MAX && one_type) {
        MHA_TRY(
            mha_tile_choose_decode(device, d->H / d->HKV * d->NQ, d->DK + d->DV, &v->tile, &fits));
    }
    /* Its products are summed lane by lane without groups. */
    fits = fits && d->DK <= (int64_t)DECODE_VECTORS_MAX * v->tile.VEC;
    v->path = fits ? MHA_PATH_DECODE : MHA_PATH_FUSED;
    return GPU_MHA_OK;
}

/*
 * On a CPU device with many short sequences there are enough heads to give each to a work-item,
 * which then keeps what it packs in its cache.
 */
static void try_heads(const struct mha_problem *p, const struct mha_device *device,
                      struct mha_variant *v)
{
    const int64_t heads = mha_size_mul(p->desc.B, p->desc.HKV);
    int64_t keys = 32;
    while (keys < p->NT && keys < HEAD_BYTES_MAX) {
        keys *= 2;
    }
    const int64_t bytes = mha_size_mul(keys, (p->desc.DK + v->DVP) * (int64_t)sizeof(float));
    if (v->tile.local == 1 && bytes <= HEAD_BYTES_MAX &&
        heads >= (int64_t)device->compute_units * HEADS_PER_UNIT) {
        v->path = MHA_PATH_HEADS;
        v->head_keys = (int)keys;
    }
}

gpu_mha_status mha_variant_choose(const struct mha_problem *p, const struct mha_device *device,
                                  struct mha_variant *variant)
{
    const gpu_mha_desc *d = &p->desc;
    struct mha_variant v = {.splits = 1};
    MHA_RETURN_IF(d->DK > HEAD_SIZE_MAX, GPU_MHA_UNSUPPORTED,
                  "DK is %" PRId64 ": the kernels hold rows of at most %d", d->DK, HEAD_SIZE_MAX);
    MHA_RETURN_IF(d->DV > HEAD_SIZE_MAX, GPU_MHA_UNSUPPORTED,
                  "DV is %" PRId64 ": the kernels hold rows of at most %d", d->DV, HEAD_SIZE_MAX);

    const int wants_matrix = d->weights != GPU_MHA_WEIGHTS_NONE || d->scores != GPU_MHA_SCORES_NONE;
    if (d->method == GPU_MHA_STAGED || wants_matrix) {
        v.path = MHA_PATH_STAGED;
    } else {
        MHA_TRY(try_decode(p, device, &v));
    }
    if (v.path != MHA_PATH_DECODE) {
        MHA_TRY(mha_tile_choose(device, d->NQ, d->DK + d->DV, &v.tile));
    }
    v.KT = v.tile.VEC * v.tile.NV;
    v.DVP = (int)mha_size_round_up(d->DV, v.tile.VEC);
    v.tiles = mha_size_ceil_div(p->NT, v.KT);
    if (v.path == MHA_PATH_FUSED) {
        try_heads(p, device, &v);
    }
    if (v.path == MHA_PATH_DECODE) {
        v.splits = splits_for(device, &v, mha_size_mul(d->B, d->HKV));
    } else if (v.path == MHA_PATH_FUSED) {
        v.splits =
            splits_for(device, &v,
                       mha_size_mul(mha_size_mul(d->B, d->H), mha_size_ceil_div(d->NQ, v.tile.MQ)));
    }
    *variant = v;
    return GPU_MHA_OK;
}
