/* Problem + device + tuning -> variant. */
#include "attention/variant.h"

#include <inttypes.h>

#include "core/log.h"

/* A row of query and output lies in private memory. */
#define HEAD_SIZE_MAX 16384

#define SPLITS_MAX 64

/*
 * Work-items that one device can keep busy: with fewer, the keys are split among more of them. A
 * CPU core runs one at a time; a GPU's compute unit wants some hundred.
 */
static int64_t wanted_items(const struct mha_device *device)
{
    return (int64_t)device->compute_units * (device->type & CL_DEVICE_TYPE_CPU ? 2 : 128);
}

/*
 * Work-items without a split. A work-group of shared.cl counts as what a compute unit wants of a
 * third: that many groups run there side by side.
 */
static int64_t items_of(const struct mha_problem *p, const struct mha_device *device,
                        const struct mha_variant *v)
{
    const gpu_mha_desc *d = &p->desc;
    const struct mha_shape *s = &v->shape;
    const int64_t groups = mha_size_mul(d->B, d->HKV);
    const int64_t rows = mha_size_mul(d->H / d->HKV, v->row_pitch);
    const int64_t row_tiles = mha_size_mul(groups, mha_size_ceil_div(rows, mha_shape_rows(s)));
    switch (s->path) {
    case MHA_PATH_DECODE:
        return groups;
    case MHA_PATH_SHARED:
        return mha_size_mul(row_tiles, device->type & CL_DEVICE_TYPE_CPU ? 1 : 128 / 3);
    case MHA_PATH_ROWS:
        return mha_size_mul(row_tiles, mha_size_ceil_div(d->DV, s->rows.NC));
    default:
        return mha_size_mul(mha_size_mul(d->B, d->H), mha_size_ceil_div(d->NQ, s->tile.MQ));
    }
}

/* Key tiles that a split should have at least two of. */
static int64_t tiles_of_block(const struct mha_shape *s)
{
    return s->path == MHA_PATH_SHARED ? 1 : s->path == MHA_PATH_ROWS ? 4 : s->tile.TB;
}

static int64_t splits_for(const struct mha_device *device, const struct mha_variant *v,
                          int64_t items)
{
    const int64_t blocks = mha_size_ceil_div(v->tiles, tiles_of_block(&v->shape));
    if (items == 0 || blocks < 2) {
        return 1;
    }
    int64_t splits = mha_size_ceil_div(wanted_items(device), items);
    splits = splits > blocks / 2 ? blocks / 2 : splits;
    splits = splits > SPLITS_MAX ? SPLITS_MAX : splits;
    return splits < 1 ? 1 : splits;
}

void mha_variant_of(const struct mha_problem *p, const struct mha_device *device,
                    const struct mha_shape *shape, struct mha_variant *variant)
{
    const gpu_mha_desc *d = &p->desc;
    struct mha_variant v = {.shape = *shape, .splits = 1};
    if (shape->path == MHA_PATH_SHARED || shape->path == MHA_PATH_ROWS) {
        v.shape.tile = mha_tile_of(device); /* of the kernel that merges splits */
    }
    if (shape->path == MHA_PATH_DECODE) {
        mha_tile_fit_decode(device, d->H / d->HKV * d->NQ, d->DK + 2 * d->DV, &v.shape.tile);
    } else {
        mha_tile_fit(device, d->NQ, d->DK + 2 * d->DV, &v.shape.tile);
    }
    v.KT = mha_shape_keys(&v.shape);
    v.DVP = (int)mha_size_round_up(d->DV, v.shape.tile.VEC);
    v.tiles = mha_size_ceil_div(p->NT, v.KT);
    v.row_pitch = mha_shape_row_pitch(&v.shape, d->NQ);
    if (shape->path != MHA_PATH_STAGED && shape->path != MHA_PATH_HEADS) {
        v.splits = splits_for(device, &v, items_of(p, device, &v));
    }
    *variant = v;
}

/* *given is left 0 where the shape does not fit. */
static void take_if_fit(const char *from, const struct mha_problem *p,
                        const struct mha_device *device, const struct mha_shape *wanted,
                        struct mha_shape *shape, int *given)
{
    char text[MHA_SHAPE_TEXT], reason[160];
    *given = mha_shape_fits(p, device, wanted, reason, sizeof reason);
    if (*given) {
        *shape = *wanted;
        return;
    }
    mha_shape_text(wanted, text, sizeof text);
    mha_log(MHA_LOG_INFO, "skip %s, \"%s\": %s", from, text, reason);
}

gpu_mha_status mha_variant_choose(const struct mha_problem *p, const struct mha_device *device,
                                  const struct mha_shape *wanted, struct mha_variant *variant)
{
    const gpu_mha_desc *d = &p->desc;
    MHA_RETURN_IF(d->DK > HEAD_SIZE_MAX, GPU_MHA_UNSUPPORTED,
                  "DK is %" PRId64 ": the kernels hold rows of at most %d", d->DK, HEAD_SIZE_MAX);
    MHA_RETURN_IF(d->DV > HEAD_SIZE_MAX, GPU_MHA_UNSUPPORTED,
                  "DV is %" PRId64 ": the kernels hold rows of at most %d", d->DV, HEAD_SIZE_MAX);

    struct mha_shape shape = {.path = MHA_PATH_STAGED}, from_environment;
    int given = 0;
    MHA_TRY(mha_shape_from_environment(&from_environment, &given));
    const int has_tile = given && (from_environment.path == MHA_PATH_FUSED ||
                                   from_environment.path == MHA_PATH_HEADS ||
                                   from_environment.path == MHA_PATH_DECODE);
    if (mha_shape_is_staged(p)) {
        shape.tile = has_tile ? from_environment.tile : mha_tile_of(device);
        mha_variant_of(p, device, &shape, variant);
        return GPU_MHA_OK;
    }
    if (given) {
        take_if_fit("GPU_MHA_TILE", p, device, &from_environment, &shape, &given);
    }
    if (!given && has_tile) { /* of another kernel, whose tile serves the fused one as well */
        shape = from_environment;
        shape.path = MHA_PATH_FUSED;
        given = 1;
    }
    if (!given && wanted != NULL) {
        take_if_fit("the wanted shape", p, device, wanted, &shape, &given);
    }
    if (!given) {
        mha_shape_default(p, device, &shape);
    }
    mha_variant_of(p, device, &shape, variant);
    return GPU_MHA_OK;
}
