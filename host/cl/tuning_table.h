/*
 * Shapes of the register tile by kind of device and width of its float vectors. Data only.
 *
 * A tile of MQ x (NV * VEC) sums must fit the registers beside NV keys and a broadcast: 32
 * registers of 16 floats hold 12 x 2, 16 registers of 8 or 4 hold 6 x 2. On a GPU a work-item is
 * one lane with few registers, and the rows of a work-group share each key they read.
 */
#ifndef MHA_CL_TUNING_TABLE_H
#define MHA_CL_TUNING_TABLE_H

#include "cl/tile.h"

struct mha_tuning {
    cl_device_type type;
    cl_uint least_width; /* of the device's native float vectors */
    struct mha_tile tile;
};

/* The first row that fits is taken. */
static const struct mha_tuning mha_tuning_table[] = {
    /* type             width MQ VEC NV TB local */
    {CL_DEVICE_TYPE_CPU, 16, {12, 16, 1, 16, 1}},
    {CL_DEVICE_TYPE_CPU, 8, {6, 8, 2, 16, 1}},
    {CL_DEVICE_TYPE_CPU, 4, {6, 4, 2, 32, 1}},
    /* No vectors of its own: work-items are its lanes, and its compiler (llvmpipe) is slow. */
    {CL_DEVICE_TYPE_CPU, 0, {1, 4, 1, 2, 32}},
    {CL_DEVICE_TYPE_ALL, 0, {1, 4, 2, 2, 64}},
};

#define MHA_TUNING_ROWS ((int)(sizeof mha_tuning_table / sizeof mha_tuning_table[0]))

#endif
