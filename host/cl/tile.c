/* Tuning table and environment -> tile. */
#include "cl/tile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cl/tuning_table.h"
#include "core/log.h"

/* Drivers put private memory on a thread's stack, or far from a GPU's registers. */
#define PRIVATE_BYTES_MAX ((int64_t)256 * 1024)

/* Of the decode kernel: rows whose sums still fit registers, and keys whose values fit a cache. */
#define DECODE_ROWS_MAX 16
#define DECODE_KEYS 64

/* Leaves *tile as it is where the environment names none; MQ becomes 0 for the decode kernel. */
static gpu_mha_status tile_from_environment(struct mha_tile *tile, int *given)
{
    *given = 0;
    const char *text = getenv("GPU_MHA_TILE");
    if (text == NULL || text[0] == '\0') {
        return GPU_MHA_OK;
    }
    struct mha_tile t = *tile;
    char rest = '\0';
    const int fields = sscanf(text, "%d,%d,%d,%d%c", &t.MQ, &t.VEC, &t.NV, &t.TB, &rest);
    MHA_INVALID_IF(fields != 4, "GPU_MHA_TILE is \"%.64s\": it must be MQ,VEC,NV,TB", text);
    MHA_INVALID_IF(t.MQ < 0 || t.MQ > 32, "GPU_MHA_TILE: MQ is %d: it must be from 0 to 32", t.MQ);
    MHA_INVALID_IF(t.VEC != 4 && t.VEC != 8 && t.VEC != 16,
                   "GPU_MHA_TILE: VEC is %d: it must be 4, 8 or 16", t.VEC);
    MHA_INVALID_IF(t.NV < 1 || t.NV > 2, "GPU_MHA_TILE: NV is %d: it must be 1 or 2", t.NV);
    MHA_INVALID_IF(t.TB < 1 || t.TB > 64, "GPU_MHA_TILE: TB is %d: it must be from 1 to 64", t.TB);
    *tile = t;
    *given = 1;
    return GPU_MHA_OK;
}

static const struct mha_tuning *tuning_for(const struct mha_device *device)
{
    const struct mha_tuning *row = mha_tuning_table;
    while (!(device->type & row->type) || device->native_vector_width_float < row->least_width) {
        ++row;
    }
    return row;
}

static int64_t private_bytes(const struct mha_tile *t, int64_t row_floats)
{
    const int64_t keys = (int64_t)t->TB * t->VEC * t->NV;
    return (int64_t)sizeof(float) * t->MQ * (row_floats + keys);
}

gpu_mha_status mha_tile_choose(const struct mha_device *device, int64_t rows, int64_t row_floats,
                               struct mha_tile *tile)
{
    const struct mha_tile from_table = tuning_for(device)->tile;
    struct mha_tile t = from_table;
    int given = 0;
    MHA_TRY(tile_from_environment(&t, &given));
    t.MQ = t.MQ == 0 ? from_table.MQ : t.MQ;
    static const int fewer[] = {4, 1};
    for (int f = 0; f < 2; ++f) {
        if (t.MQ > fewer[f] &&
            (rows <= fewer[f] || private_bytes(&t, row_floats) > PRIVATE_BYTES_MAX)) {
            mha_log(MHA_LOG_DEBUG, "lower MQ to %d: %" PRId64 " rows of %" PRId64 " floats",
                    fewer[f], rows, row_floats);
            t.MQ = fewer[f];
        }
    }
    *tile = t;
    return GPU_MHA_OK;
}

gpu_mha_status mha_tile_choose_decode(const struct mha_device *device, int64_t rows,
                                      int64_t row_floats, struct mha_tile *tile, int *fits)
{
    struct mha_tile t = tuning_for(device)->tile;
    int given = 0;
    MHA_TRY(tile_from_environment(&t, &given));
    *fits = 0;
    if ((given && t.MQ != 0) || t.local != 1 || rows < 1 || rows > DECODE_ROWS_MAX) {
        return GPU_MHA_OK;
    }
    t.MQ = (int)rows;
    t.NV = 1;
    t.TB = DECODE_KEYS / t.VEC;
    *fits = private_bytes(&t, row_floats) <= PRIVATE_BYTES_MAX;
    *tile = t;
    return GPU_MHA_OK;
}

/* 12 x 2 sums need no groups beside them in 32 registers; 6 x 2 of both fit. */
static int rows_at_a_time(const struct mha_tile *tile)
{
    return tile->VEC == 16 && tile->NV == 2 && tile->MQ % 6 == 0 ? 6 : tile->MQ;
}

void mha_tile_options(struct mha_options *options, const struct mha_tile *tile, int64_t DK,
                      int64_t DV)
{
    mha_options_int(options, "VEC", tile->VEC);
    mha_options_int(options, "NV", tile->NV);
    mha_options_int(options, "MQ", tile->MQ);
    mha_options_int(options, "MR", rows_at_a_time(tile));
    mha_options_int(options, "TB", tile->TB);
    mha_options_int(options, "DK", DK);
    mha_options_int(options, "DV", DV);
}
