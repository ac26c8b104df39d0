/* Tuning table and environment -> tile. */
#include "cl/tile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/tuning_table.h"
#include "core/log.h"

/* Drivers put private memory on a thread's stack, or far from a GPU's registers. */
#define PRIVATE_BYTES_MAX ((int64_t)256 * 1024)

/* Of the decode kernel: rows whose sums still fit registers, and keys whose values fit a cache. */
#define DECODE_ROWS_MAX 16
#define DECODE_KEYS 64

/* "fused MQ,VEC,NV,TB", also without the word, or "decode VEC". */
static int scan_tile(const char *text, struct mha_tile *t)
{
    char rest = '\0';
    if (sscanf(text, "decode %4d%c", &t->VEC, &rest) == 1) {
        t->MQ = 0;
        t->NV = 1;
        t->TB = 1;
        return 1;
    }
    const char *numbers =
        strncmp(text, "fused ", 6) == 0 || strncmp(text, "heads ", 6) == 0 ? text + 6 : text;
    return sscanf(numbers, "%4d,%4d,%4d,%4d%c", &t->MQ, &t->VEC, &t->NV, &t->TB, &rest) == 4;
}

gpu_mha_status mha_tile_parse(const char *name, const char *text, struct mha_tile *tile)
{
    struct mha_tile t = {.local = 0};
    MHA_INVALID_IF(!scan_tile(text, &t), "%s is \"%.64s\": it must be MQ,VEC,NV,TB", name, text);
    MHA_INVALID_IF(t.MQ < 0 || t.MQ > 32, "%s: MQ is %d: it must be from 0 to 32", name, t.MQ);
    MHA_INVALID_IF(t.VEC != 4 && t.VEC != 8 && t.VEC != 16, "%s: VEC is %d: it must be 4, 8 or 16",
                   name, t.VEC);
    MHA_INVALID_IF(t.NV < 1 || t.NV > 2, "%s: NV is %d: it must be 1 or 2", name, t.NV);
    MHA_INVALID_IF(t.TB < 1 || t.TB > 64, "%s: TB is %d: it must be from 1 to 64", name, t.TB);
    *tile = t;
    return GPU_MHA_OK;
}

/*
 * Leaves *tile as it is where the environment names none, or a shape of kernels that have no tile.
 */
static gpu_mha_status tile_from_environment(struct mha_tile *tile)
{
    const char *text = getenv("GPU_MHA_TILE");
    if (text == NULL || text[0] == '\0' || strncmp(text, "shared ", 7) == 0 ||
        strncmp(text, "rows ", 5) == 0) {
        return GPU_MHA_OK;
    }
    const size_t local = tile->local;
    MHA_TRY(mha_tile_parse("GPU_MHA_TILE", text, tile));
    tile->local = local;
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

struct mha_tile mha_tile_of(const struct mha_device *device)
{
    return tuning_for(device)->tile;
}

static int64_t private_bytes(const struct mha_tile *t, int64_t row_floats)
{
    const int64_t keys = (int64_t)t->TB * t->VEC * t->NV;
    return (int64_t)sizeof(float) * t->MQ * (row_floats + keys);
}

void mha_tile_fit(const struct mha_device *device, int64_t rows, int64_t row_floats,
                  struct mha_tile *tile)
{
    const struct mha_tile *from_table = &tuning_for(device)->tile;
    struct mha_tile t = *tile;
    t.local = from_table->local;
    t.MQ = t.MQ == 0 ? from_table->MQ : t.MQ;
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
}

gpu_mha_status mha_tile_for_product(const struct mha_device *device, int64_t rows,
                                    struct mha_tile *tile)
{
    struct mha_tile t = tuning_for(device)->tile;
    t.NV = tuning_for(device)->product_NV;
    MHA_TRY(tile_from_environment(&t));
    mha_tile_fit(device, rows, 0, &t);
    *tile = t;
    return GPU_MHA_OK;
}

int mha_tile_fit_decode(const struct mha_device *device, int64_t rows, int64_t row_floats,
                        struct mha_tile *tile)
{
    struct mha_tile t = *tile;
    t.local = tuning_for(device)->tile.local;
    if (!(device->type & CL_DEVICE_TYPE_CPU) || rows < 1 || rows > DECODE_ROWS_MAX) {
        return 0;
    }
    t.MQ = (int)rows;
    t.NV = 1;
    t.TB = DECODE_KEYS / t.VEC;
    *tile = t;
    return private_bytes(&t, row_floats) <= PRIVATE_BYTES_MAX;
}

/* Chains and groups of 12 x 2 vectors do not fit 32 registers, of 6 x 2 they do. */
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
