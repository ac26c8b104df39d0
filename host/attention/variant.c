/* Problem + device + tuning -> variant. */
#include "attention/variant.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "cl/verdicts.h"
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
static void take_if_fit(int is_asked, const struct mha_problem *p, const struct mha_device *device,
                        const struct mha_shape *wanted, struct mha_shape *shape, int *given)
{
    char text[MHA_SHAPE_TEXT], reason[160];
    *given = mha_shape_fits(p, device, wanted, reason, sizeof reason);
    /* Who asks for a shape by name gets it, whatever is known of it. */
    const gpu_mha_verdict verdict =
        is_asked ? GPU_MHA_VERDICT_NONE : mha_shape_to_avoid(p, device, wanted);
    if (*given && verdict != GPU_MHA_VERDICT_NONE) {
        *given = 0;
        snprintf(reason, sizeof reason, "gpu-mha doctor found it %s, it must be ok",
                 gpu_mha_verdict_text(verdict));
    }
    if (*given) {
        *shape = *wanted;
        return;
    }
    mha_shape_text(wanted, text, sizeof text);
    mha_log(MHA_LOG_INFO, "skip %s, \"%s\": %s", is_asked ? "GPU_MHA_TILE" : "the wanted shape",
            text, reason);
}

static void warn_of_verdict(const struct mha_problem *p, const struct mha_device *device,
                            const struct mha_shape *shape)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    char name[MHA_SHAPE_TEXT];
    const gpu_mha_verdict verdict = mha_shape_to_avoid(p, device, shape);
    if (verdict == GPU_MHA_VERDICT_NONE) {
        return;
    }
    mha_shape_name(shape, name, sizeof name);
    mha_log(
        atomic_flag_test_and_set(&told) ? MHA_LOG_DEBUG : MHA_LOG_WARN,
        "take GPU_MHA_TILE, \"%s\": gpu-mha doctor found it %s here, and it is asked for by name",
        name, gpu_mha_verdict_text(verdict));
}

/* GPU_MHA_UNSUPPORTED if gpu-mha doctor found the shape to fail, and with it all that could replace
 * it. */
static gpu_mha_status check_verdict(const struct mha_problem *p, const struct mha_device *device,
                                    const struct mha_shape *shape, const char *method)
{
    char name[MHA_SHAPE_TEXT];
    const gpu_mha_verdict verdict = mha_shape_to_avoid(p, device, shape);
    mha_shape_name(shape, name, sizeof name);
    MHA_RETURN_IF(verdict != GPU_MHA_VERDICT_NONE, GPU_MHA_UNSUPPORTED,
                  "the %s method has no kernel left on %s: gpu-mha doctor found \"%s\" %s and no "
                  "other one ok; it tries again, with --forget they are taken untried",
                  method, device->name, name, gpu_mha_verdict_text(verdict));
    return GPU_MHA_OK;
}

/* Says once for each choice what was passed over for it. */
static void tell_avoided(const struct mha_problem *p, const struct mha_device *device,
                         const struct mha_shape *shape)
{
    char name[MHA_SHAPE_TEXT], taken[MHA_SHAPE_TEXT];
    const struct mha_device untried = mha_device_untried(device);
    struct mha_shape usual = *shape;
    if (shape->path == MHA_PATH_STAGED && mha_shape_is_staged(p)) {
        mha_shape_staged(p, &untried, &usual);
    } else {
        mha_shape_default(p, &untried, &usual);
    }
    const gpu_mha_verdict verdict = mha_shape_to_avoid(p, device, &usual);
    if (verdict != GPU_MHA_VERDICT_NONE) {
        mha_shape_name(&usual, name, sizeof name);
        mha_shape_name(shape, taken, sizeof taken);
        mha_log(MHA_LOG_INFO,
                "avoid \"%s\": gpu-mha doctor found it %s, it must be ok; take \"%s\"", name,
                gpu_mha_verdict_text(verdict), taken);
    }
}

/* `given`, the tile of GPU_MHA_TILE, or NULL. */
static gpu_mha_status choose_staged(const struct mha_problem *p, const struct mha_device *device,
                                    const struct mha_shape *given, struct mha_shape *shape)
{
    *shape = (struct mha_shape){.path = MHA_PATH_STAGED};
    if (given != NULL) {
        shape->tile = given->tile;
        warn_of_verdict(p, device, shape);
        return GPU_MHA_OK;
    }
    mha_shape_staged(p, device, shape);
    MHA_TRY(check_verdict(p, device, shape, "staged"));
    tell_avoided(p, device, shape);
    return GPU_MHA_OK;
}

static gpu_mha_status choose_default(const struct mha_problem *p, const struct mha_device *device,
                                     struct mha_shape *shape)
{
    mha_shape_default(p, device, shape);
    if (mha_shape_to_avoid(p, device, shape) == GPU_MHA_VERDICT_NONE) {
        tell_avoided(p, device, shape);
        return GPU_MHA_OK;
    }
    if (p->desc.method == GPU_MHA_AUTO) {
        struct mha_shape staged;
        mha_error_attempt();
        const gpu_mha_status status = choose_staged(p, device, NULL, &staged);
        mha_error_attempt_end();
        if (status == GPU_MHA_OK) {
            *shape = staged;
            return GPU_MHA_OK;
        }
    }
    return check_verdict(p, device, shape, "fused");
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
        MHA_TRY(choose_staged(p, device, has_tile ? &from_environment : NULL, &shape));
        mha_variant_of(p, device, &shape, variant);
        return GPU_MHA_OK;
    }
    if (given) {
        take_if_fit(1, p, device, &from_environment, &shape, &given);
    }
    if (!given && has_tile) { /* of another kernel, whose tile serves the fused one as well */
        shape = from_environment;
        shape.path = MHA_PATH_FUSED;
        given = 1;
    }
    if (given) {
        warn_of_verdict(p, device, &shape);
    } else if (wanted != NULL) {
        take_if_fit(0, p, device, wanted, &shape, &given);
    }
    if (!given) {
        MHA_TRY(choose_default(p, device, &shape));
    }
    mha_variant_of(p, device, &shape, variant);
    return GPU_MHA_OK;
}
