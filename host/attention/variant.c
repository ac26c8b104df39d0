/* Problem + device + tuning table -> variant. */
#include "attention/variant.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "attention/tuning_table.h"
#include "core/log.h"

/* Rows and outputs of a work-item lie in private memory, which drivers put on a thread's stack. */
#define PRIVATE_BYTES_MAX ((int64_t)256 * 1024)
#define HEAD_SIZE_MAX 16384

#define SPLITS_MAX 64

static gpu_mha_status tile_from_environment(struct mha_tile *tile) {
    const char *text = getenv("GPU_MHA_TILE");
    if (text == NULL || text[0] == '\0') {
        return GPU_MHA_OK;
    }
    struct mha_tile t = {0, 0, 0, 0};
    char rest = '\0';
    const int fields = sscanf(text, "%d,%d,%d,%d%c", &t.MQ, &t.VEC, &t.NV, &t.TB, &rest);
    MHA_INVALID_IF(fields != 4, "GPU_MHA_TILE is \"%s\": it must be MQ,VEC,NV,TB", text);
    MHA_INVALID_IF(t.MQ < 1 || t.MQ > 32, "GPU_MHA_TILE: MQ is %d: it must be from 1 to 32", t.MQ);
    MHA_INVALID_IF(t.VEC != 4 && t.VEC != 8 && t.VEC != 16,
                   "GPU_MHA_TILE: VEC is %d: it must be 4, 8 or 16", t.VEC);
    MHA_INVALID_IF(t.NV < 1 || t.NV > 2, "GPU_MHA_TILE: NV is %d: it must be 1 or 2", t.NV);
    MHA_INVALID_IF(t.TB < 1 || t.TB > 64, "GPU_MHA_TILE: TB is %d: it must be from 1 to 64", t.TB);
    *tile = t;
    return GPU_MHA_OK;
}

static int64_t private_bytes(const struct mha_tile *t, int64_t DK, int64_t DV) {
    const int64_t keys = (int64_t)t->TB * t->VEC * t->NV;
    return 4 * t->MQ * (DK + DV + t->VEC + keys);
}

static const struct mha_tuning *tuning_for(const struct mha_device *device) {
    const struct mha_tuning *row = mha_tuning_table;
    while (!(device->type & row->type) || device->native_vector_width_float < row->least_width) {
        ++row;
    }
    return row;
}

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
    const struct mha_tuning *row = tuning_for(device);
    struct mha_variant v = {.tile = row->tile, .local = row->local};
    MHA_RETURN_IF(d->DK > HEAD_SIZE_MAX, GPU_MHA_UNSUPPORTED,
                  "DK is %" PRId64 ": the kernels hold rows of at most %d", d->DK, HEAD_SIZE_MAX);
    MHA_RETURN_IF(d->DV > HEAD_SIZE_MAX, GPU_MHA_UNSUPPORTED,
                  "DV is %" PRId64 ": the kernels hold rows of at most %d", d->DV, HEAD_SIZE_MAX);
    MHA_TRY(tile_from_environment(&v.tile));

    /* Rows beyond NQ would be computed for nothing, and long rows must fit private memory. */
    static const int fewer[] = {4, 1};
    for (int f = 0; f < 2; ++f) {
        if (v.tile.MQ > fewer[f] &&
            (d->NQ <= fewer[f] || private_bytes(&v.tile, d->DK, d->DV) > PRIVATE_BYTES_MAX)) {
            mha_log(MHA_LOG_DEBUG, "take fewer rows per work-item: %d, for NQ %" PRId64
                    ", DK %" PRId64 ", DV %" PRId64, fewer[f], d->NQ, d->DK, d->DV);
            v.tile.MQ = fewer[f];
        }
    }

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
