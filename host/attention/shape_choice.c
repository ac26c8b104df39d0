/* Tuning tables -> the shape to take, and those worth trying. */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "attention/shape.h"
#include "attention/shape_table.h"
#include "cl/tuning_table.h"
#include "core/log.h"

/* Heads for each core that keep all of them busy to the end. */
#define HEADS_PER_UNIT 4

/* 1 unless gpu-mha doctor found the shape to fail here. */
static int is_sound(const struct mha_problem *p, const struct mha_device *device,
                    const struct mha_shape *shape)
{
    const gpu_mha_verdict verdict = mha_shape_to_avoid(p, device, shape);
    if (verdict != GPU_MHA_VERDICT_NONE) {
        char text[MHA_SHAPE_TEXT];
        mha_shape_name(shape, text, sizeof text);
        mha_log(MHA_LOG_DEBUG, "skip \"%s\": gpu-mha doctor found it %s, it must be ok", text,
                gpu_mha_verdict_text(verdict));
    }
    return verdict == GPU_MHA_VERDICT_NONE;
}

static int fits(const struct mha_problem *p, const struct mha_device *device,
                const struct mha_shape *shape)
{
    char text[MHA_SHAPE_TEXT], reason[160];
    if (mha_shape_fits(p, device, shape, reason, sizeof reason)) {
        return is_sound(p, device, shape);
    }
    mha_shape_text(shape, text, sizeof text);
    mha_log(MHA_LOG_DEBUG, "skip \"%s\": %s", text, reason);
    return 0;
}

const struct mha_shape_row *mha_shape_row_of(const struct mha_device *device)
{
    const struct mha_shape_row *row = mha_shape_table;
    while (row->vendor != MHA_VENDOR_OTHER &&
           (row->vendor != device->vendor || (row->lanes != 0 && row->lanes != device->lanes))) {
        ++row;
    }
    return row;
}

/* More registers than the table's budget for such a device: a refusal like those of fits(). */
static int is_within_budget(const struct mha_problem *p, const struct mha_shape_row *row,
                            const struct mha_shape *shape)
{
    char text[MHA_SHAPE_TEXT];
    const int64_t registers = mha_shape_registers(shape, p->desc.DK, p->desc.DV);
    if (registers <= row->registers) {
        return 1;
    }
    mha_shape_text(shape, text, sizeof text);
    mha_log(MHA_LOG_DEBUG,
            "skip \"%s\": a lane takes some %" PRId64 " registers, the table allows %d", text,
            registers, row->registers);
    return 0;
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
    const struct mha_shape_row *row = mha_shape_row_of(device);
    int found = 0;
    for (int s = 0; s < MHA_SHAPES_MAX && row->shared[s].LR != 0; ++s) {
        const struct mha_shape next = {.path = MHA_PATH_SHARED, .shared = row->shared[s]};
        if (lanes_of(&next) >= fewer_than || !is_within_budget(p, row, &next) ||
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

/*
 * The tile of `path`: the device's own, and where that is to be avoided one of the table's others.
 * 1 if it is sound.
 */
static int find_sound_tile(const struct mha_problem *p, const struct mha_device *device,
                           enum mha_path path, struct mha_shape *shape)
{
    *shape = (struct mha_shape){.path = path, .tile = mha_tile_of(device)};
    int sound = is_sound(p, device, shape);
    for (int t = 0; !sound && t < MHA_TUNING_ROWS; ++t) {
        const struct mha_shape next = {.path = path, .tile = mha_tuning_table[t].tile};
        if ((device->type & mha_tuning_table[t].type) && is_sound(p, device, &next)) {
            *shape = next;
            sound = 1;
        }
    }
    return sound;
}

void mha_shape_staged(const struct mha_problem *p, const struct mha_device *device,
                      struct mha_shape *shape)
{
    find_sound_tile(p, device, MHA_PATH_STAGED, shape);
}

/* The first of kernels/rows.cl that is sound, of those that gpu-mha doctor tries; 0 if none is. */
static int find_rows(const struct mha_problem *p, const struct mha_device *device,
                     struct mha_shape *shape)
{
    for (int r = mha_rows_first(device); r < MHA_ROWS_TILES; ++r) {
        const struct mha_shape next = {.path = MHA_PATH_ROWS, .rows = mha_rows_table[r]};
        if (fits(p, device, &next)) {
            *shape = next;
            return 1;
        }
    }
    return 0;
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
        find_sound_tile(p, device, MHA_PATH_FUSED, &shape);
    }
    return shape;
}

void mha_shape_default(const struct mha_problem *p, const struct mha_device *device,
                       struct mha_shape *shape)
{
    const int is_gpu = (device->type & CL_DEVICE_TYPE_GPU) != 0;
    if (is_gpu && (device->local_is_global ? find_rows(p, device, shape)
                                           : find_shared(p, device, INT_MAX, shape))) {
        return;
    }
    *shape = find_tile(p, device);
    if (!is_sound(p, device, shape)) {
        find_rows(p, device, shape); /* slow, but for any device */
    }
}

void mha_shape_smaller(const struct mha_problem *p, const struct mha_device *device,
                       struct mha_shape *shape)
{
    if (shape->path == MHA_PATH_SHARED && shape->shared.sub_group) {
        shape->shared.sub_group = 0;
        if (is_sound(p, device, shape)) {
            return;
        }
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
    const struct mha_shape_row *rows[] = {mha_shape_row_of(device),
                                          &mha_shape_table[MHA_SHAPE_ROWS - 1]};
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
