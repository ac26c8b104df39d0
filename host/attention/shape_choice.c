/* Tuning tables -> the shape to take, and those worth trying. */
#include <limits.h>
#include <string.h>

#include "attention/shape.h"
#include "attention/shape_table.h"
#include "cl/tuning_table.h"
#include "core/log.h"

/* Heads for each core that keep all of them busy to the end. */
#define HEADS_PER_UNIT 4

static int fits(const struct mha_problem *p, const struct mha_device *device,
                const struct mha_shape *shape)
{
    char text[MHA_SHAPE_TEXT], reason[160];
    if (mha_shape_fits(p, device, shape, reason, sizeof reason)) {
        return 1;
    }
    mha_shape_text(shape, text, sizeof text);
    mha_log(MHA_LOG_DEBUG, "skip \"%s\": %s", text, reason);
    return 0;
}

static const struct mha_shape_row *row_for(const struct mha_device *device)
{
    const struct mha_shape_row *row = mha_shape_table;
    while (row->vendor != MHA_VENDOR_OTHER &&
           (row->vendor != device->vendor || (row->lanes != 0 && row->lanes != device->lanes))) {
        ++row;
    }
    return row;
}

/* 1 if half of the tile's rows would be empty. */
static int is_too_tall(const struct mha_problem *p, const struct mha_shape *shape)
{
    const int64_t rows = mha_size_mul(p->desc.H / p->desc.HKV, p->desc.NQ);
    return mha_shape_rows(shape) / 2 >= rows;
}

static int lanes_of(const struct mha_shape *shape)
{
    return shape->shared.LR * shape->shared.LC;
}

/*
 * The first shape of the device's row that fits, with fewer lanes than `fewer_than`; the last that
 * fits where all are too tall. 0 if there is none.
 */
static int find_shared(const struct mha_problem *p, const struct mha_device *device, int fewer_than,
                       struct mha_shape *shape)
{
    const struct mha_shape_row *row = row_for(device);
    int found = 0;
    for (int s = 0; s < MHA_SHAPES_MAX && row->shared[s].LR != 0; ++s) {
        const struct mha_shape next = {.path = MHA_PATH_SHARED, .shared = row->shared[s]};
        if (lanes_of(&next) >= fewer_than ||
            mha_shape_registers(&next, p->desc.DK, p->desc.DV) > row->registers ||
            !fits(p, device, &next)) {
            continue;
        }
        *shape = next;
        found = 1;
        if (!is_too_tall(p, &next)) {
            break;
        }
    }
    return found;
}

/*
 * Rows of a tile for a short sequence: fewer than the table's make less of each key that is read,
 * and pay where the last tile would be mostly empty.
 */
static int short_rows(int64_t NQ, int MQ)
{
    const int fewer = 8;
    const int64_t computed = mha_size_round_up(NQ, MQ), with_fewer = mha_size_round_up(NQ, fewer);
    return MQ > fewer && with_fewer + computed / 64 < computed ? fewer : MQ;
}

/* The tile kernels: what CPUs run, and any device where nothing else fits. */
static struct mha_shape find_tile(const struct mha_problem *p, const struct mha_device *device)
{
    struct mha_shape shape = {.path = MHA_PATH_DECODE, .tile = mha_tile_of(device)};
    /* Elsewhere a work-item is a lane, which neither decode.cl nor heads.cl is made for. */
    const int is_core = shape.tile.local == 1;
    if (is_core && fits(p, device, &shape)) {
        return shape;
    }
    shape.path = MHA_PATH_HEADS;
    shape.tile.MQ = short_rows(p->desc.NQ, shape.tile.MQ);
    const int64_t heads = mha_size_mul(p->desc.B, p->desc.HKV);
    if (!is_core || !mha_shape_is_short(p) ||
        heads < (int64_t)HEADS_PER_UNIT * device->compute_units || !fits(p, device, &shape)) {
        shape.path = MHA_PATH_FUSED;
        shape.tile = mha_tile_of(device);
    }
    return shape;
}

void mha_shape_default(const struct mha_problem *p, const struct mha_device *device,
                       struct mha_shape *shape)
{
    *shape = find_tile(p, device);
    if (!(device->type & CL_DEVICE_TYPE_GPU)) {
        return;
    }
    if (device->local_is_global) {
        *shape = (struct mha_shape){.path = MHA_PATH_ROWS, .rows = mha_rows_table[0]};
        return;
    }
    find_shared(p, device, INT_MAX, shape);
}

void mha_shape_smaller(const struct mha_problem *p, const struct mha_device *device,
                       struct mha_shape *shape)
{
    if (shape->path == MHA_PATH_SHARED && shape->shared.sub_group) {
        shape->shared.sub_group = 0;
        return;
    }
    if (shape->path != MHA_PATH_SHARED || !find_shared(p, device, lanes_of(shape), shape)) {
        *shape = find_tile(p, device);
    }
}

struct list {
    struct mha_shape *shapes;
    int count, capacity;
};

/* Adds a shape that fits and is not in the list. */
static void add(struct list *list, const struct mha_problem *p, const struct mha_device *device,
                const struct mha_shape *shape)
{
    char text[MHA_SHAPE_TEXT], other[MHA_SHAPE_TEXT];
    mha_shape_text(shape, text, sizeof text);
    for (int s = 0; s < list->count; ++s) {
        mha_shape_text(&list->shapes[s], other, sizeof other);
        if (strcmp(text, other) == 0) {
            return;
        }
    }
    if (list->count < list->capacity && fits(p, device, shape)) {
        list->shapes[list->count++] = *shape;
    }
}

static void add_for_gpu(struct list *list, const struct mha_problem *p,
                        const struct mha_device *device)
{
    const struct mha_shape_row *rows[] = {row_for(device), &mha_shape_table[MHA_SHAPE_ROWS - 1]};
    for (int r = 0; r < 2 && !device->local_is_global; ++r) {
        for (int s = 0; s < MHA_SHAPES_MAX && rows[r]->shared[s].LR != 0; ++s) {
            const struct mha_shape shape = {.path = MHA_PATH_SHARED, .shared = rows[r]->shared[s]};
            if (!is_too_tall(p, &shape)) {
                add(list, p, device, &shape);
            }
        }
    }
    for (int r = 0; r < MHA_ROWS_TILES; ++r) {
        const struct mha_shape shape = {.path = MHA_PATH_ROWS, .rows = mha_rows_table[r]};
        add(list, p, device, &shape);
    }
}

int mha_shape_candidates(const struct mha_problem *p, const struct mha_device *device,
                         struct mha_shape *list, int capacity)
{
    struct list found = {list, 0, capacity};
    if (mha_shape_is_staged(p)) {
        return 0;
    }
    struct mha_shape shape;
    mha_shape_default(p, device, &shape);
    add(&found, p, device, &shape);
    if (device->type & CL_DEVICE_TYPE_GPU) {
        add_for_gpu(&found, p, device);
    }
    for (int t = 0; t < MHA_TUNING_ROWS; ++t) {
        if (device->type & mha_tuning_table[t].type) {
            shape = (struct mha_shape){.path = MHA_PATH_DECODE, .tile = mha_tuning_table[t].tile};
            add(&found, p, device, &shape);
            if (mha_shape_is_short(p)) {
                shape.path = MHA_PATH_HEADS;
                add(&found, p, device, &shape);
            }
            shape.path = MHA_PATH_FUSED;
            add(&found, p, device, &shape);
        }
    }
    return found.count;
}
