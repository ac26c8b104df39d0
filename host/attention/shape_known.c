/* Every shape that the library may run on a device: what gpu-mha doctor tries. */
#include <string.h>

#include "attention/shape.h"
#include "attention/shape_table.h"
#include "cl/tuning_table.h"

struct list {
    struct mha_shape *shapes;
    int count, capacity;
};

/* Adds a shape that is no other name of one in the list. */
static void add_known(struct list *list, struct mha_shape shape)
{
    char name[MHA_SHAPE_TEXT], other[MHA_SHAPE_TEXT];
    mha_shape_name(&shape, name, sizeof name);
    for (int s = 0; s < list->count; ++s) {
        mha_shape_name(&list->shapes[s], other, sizeof other);
        if (strcmp(name, other) == 0) {
            return;
        }
    }
    if (list->count < list->capacity) {
        list->shapes[list->count++] = shape;
    }
}

static void add_known_tiles(struct list *list, const struct mha_device *device, enum mha_path path)
{
    add_known(list, (struct mha_shape){.path = path, .tile = mha_tile_of(device)});
    for (int t = 0; t < MHA_TUNING_ROWS; ++t) {
        if (device->type & mha_tuning_table[t].type) {
            add_known(list, (struct mha_shape){.path = path, .tile = mha_tuning_table[t].tile});
        }
    }
}

int mha_shape_known(const struct mha_device *device, struct mha_shape *shapes, int capacity)
{
    struct list list = {shapes, 0, capacity};
    const int is_gpu = (device->type & CL_DEVICE_TYPE_GPU) != 0;
    const struct mha_shape_row *row = mha_shape_row_of(device);
    add_known_tiles(&list, device, MHA_PATH_FUSED);
    if (device->type & CL_DEVICE_TYPE_CPU) {
        add_known_tiles(&list, device, MHA_PATH_HEADS);
        add_known_tiles(&list, device, MHA_PATH_DECODE);
    }
    /* Elsewhere they are taken only where they are asked for: the smallest stands for them. */
    int first = 0;
    while (!is_gpu && first + 1 < MHA_SHAPES_MAX && row->shared[first + 1].LR != 0) {
        ++first;
    }
    for (int s = first; s < MHA_SHAPES_MAX && row->shared[s].LR != 0; ++s) {
        struct mha_shape shape = {.path = MHA_PATH_SHARED, .shared = row->shared[s]};
        add_known(&list, shape);
        shape.shared.sub_group = 0; /* what mha_shape_smaller makes of it */
        add_known(&list, shape);
    }
    for (int r = mha_rows_first(device); r < MHA_ROWS_TILES; ++r) {
        add_known(&list, (struct mha_shape){.path = MHA_PATH_ROWS, .rows = mha_rows_table[r]});
    }
    add_known_tiles(&list, device, MHA_PATH_STAGED);
    return list.count;
}
