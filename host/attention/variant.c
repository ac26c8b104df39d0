/* Problem + device + tuning table -> variant. */
#include "attention/variant.h"

#include <inttypes.h>

/* A row of query and output lies in private memory. */
#define HEAD_SIZE_MAX 16384

#define SPLITS_MAX 64

/*
 * Work-items that one device can keep busy: with fewer, the keys are split among more of them. A CPU
 * core runs one at a time; a GPU's compute unit wants some hundred.
 */
static int64_t wanted_items(const struct mha_device *device) {
    return (int64_t)device->compute_units * (device->type & CL_DEVICE_TYPE_CPU ? 2 : 128);
}

static int64_t splits_for(const struct mha_problem *p, const struct mha_device *device,
                          const struct mha_variant *v) {
    const int64_t items = mha_size_mul(mha_size_mul(p->desc.B, p->desc.H),
                                       mha_size_ceil_div(p->desc.NQ, v->tile.MQ));
    const int64_t blocks = mha_size_ceil_div(v->tiles, v->tile.TB);
    if (items == 0 || blocks < 2) {
        return 1;
    }
    int64_t splits = mha_size_ceil_div(wanted_items(device), items);
    splits = splits > blocks / 2 ? blocks / 2 : splits;
    splits = splits > SPLITS_MAX ? SPLITS_MAX : splits;
    return splits < 1 ? 1 : splits;
}

gpu_mha_status mha_variant_choose(const struct mha_problem *p, const struct mha_device *device,
                                  struct mha_variant *variant) {
    const gpu_mha_desc *d = &p->desc;
    struct mha_variant v = {.splits = 1};
    MHA_RETURN_IF(d->DK > HEAD_SIZE_MAX, GPU_MHA_UNSUPPORTED,
                  "DK is %" PRId64 ": the kernels hold rows of at most %d", d->DK, HEAD_SIZE_MAX);
    MHA_RETURN_IF(d->DV > HEAD_SIZE_MAX, GPU_MHA_UNSUPPORTED,
                  "DV is %" PRId64 ": the kernels hold rows of at most %d", d->DV, HEAD_SIZE_MAX);
    MHA_TRY(mha_tile_choose(device, d->NQ, d->DK + d->DV, &v.tile));

    const int wants_matrix =
        d->weights != GPU_MHA_WEIGHTS_NONE || d->scores != GPU_MHA_SCORES_NONE;
    v.method = d->method == GPU_MHA_STAGED || wants_matrix ? GPU_MHA_STAGED : GPU_MHA_FUSED;
    v.KT = v.tile.VEC * v.tile.NV;
    v.DVP = (int)mha_size_round_up(d->DV, v.tile.VEC);
    v.tiles = mha_size_ceil_div(p->NT, v.KT);
    v.splits = v.method == GPU_MHA_FUSED ? splits_for(p, device, &v) : 1;
    *variant = v;
    return GPU_MHA_OK;
}
