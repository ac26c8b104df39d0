/*
 * Shapes of the register tile by kind of device and width of its float vectors. Data only.
 *
 * The chains of MQ x NV vectors that are summed at a time must fit the registers, where there are
 * enough their groups as well (kernels/common/tile.h), beside the keys: 32 registers hold 12 x 1 of
 * both, 16 registers 6 x 2 chains. On a GPU a work-item is one lane with few registers, and the
 * rows of a work-group share each key they read; NV 2 there makes Intel's compiler abort.
 */
#ifndef MHA_CL_TUNING_TABLE_H
#define MHA_CL_TUNING_TABLE_H

#include "cl/tile.h"

struct mha_tuning {
    cl_device_type type;
    cl_uint least_width; /* of the device's native float vectors */
    struct mha_tile tile;
    int product_NV; /* a product's chains have no groups beside them, so more of them fit */
};

/* The first row that fits is taken. */
static const struct mha_tuning mha_tuning_table[] = {
    /* type             width MQ VEC NV TB local  product */
    {CL_DEVICE_TYPE_CPU, 16, {12, 16, 1, 16, 1}, 2},
    {CL_DEVICE_TYPE_CPU, 8, {6, 8, 2, 16, 1}, 2},
    {CL_DEVICE_TYPE_CPU, 4, {6, 4, 2, 32, 1}, 2},
    /* No vectors of its own: work-items are its lanes, and its compiler (llvmpipe) is slow. */
    {CL_DEVICE_TYPE_CPU, 0, {1, 4, 1, 2, 32}, 1},
    {CL_DEVICE_TYPE_ALL, 0, {1, 4, 1, 4, 64}, 1},
};

#define MHA_TUNING_ROWS ((int)(sizeof mha_tuning_table / sizeof mha_tuning_table[0]))

#endif
