/*
 * Shapes of kernels/shared.cl and kernels/rows.cl by kind of GPU. Data only.
 *
 * A lane of `shared` holds MQ x NK scores twice and MQ x (columns / LC) outputs twice in registers
 * (mha_shape_registers counts them). The more of both, the fewer loads from local memory for each
 * multiplication, until registers run out; the fewer, the more work-groups hide each other's
 * waiting. `registers` is the most that one lane may take there, as far as mha_shape_registers can
 * tell: compilers take up to 130 more, so the budgets are those that spill nothing.
 */
#ifndef MHA_ATTENTION_SHAPE_TABLE_H
#define MHA_ATTENTION_SHAPE_TABLE_H

#include "attention/shape.h"

#define MHA_SHAPES_MAX 8

struct mha_shape_row {
    enum mha_vendor vendor;
    cl_uint lanes; /* that run in step on the device; 0: any number */
    int registers;
    /* Largest first; the first that fits is taken, but none with twice the problem's rows. */
    struct mha_shared shared[MHA_SHAPES_MAX];
};

/* The first row whose vendor and lanes fit the device is taken. */
static const struct mha_shape_row mha_shape_table[] = {
    /*                         LR LC MQ NK DC KC Q  S */
    {MHA_VENDOR_NVIDIA,
     0,
     140,
     {{8, 16, 8, 4, 16, 2, 1, 0},
      {16, 16, 4, 4, 16, 2, 1, 0},
      {16, 16, 4, 4, 32, 2, 0, 0},
      {8, 16, 4, 4, 32, 2, 0, 0},
      {16, 16, 2, 4, 16, 2, 0, 0},
      {8, 16, 2, 4, 32, 2, 0, 0},
      {4, 32, 2, 4, 16, 1, 1, 0},
      {4, 32, 1, 4, 16, 2, 1, 0}}},
    {MHA_VENDOR_AMD,
     64,
     160,
     {{16, 16, 2, 4, 16, 2, 1, 0},
      {8, 16, 2, 4, 16, 2, 1, 0},
      {8, 16, 1, 4, 16, 2, 1, 0},
      {4, 16, 1, 4, 16, 2, 1, 0}}},
    {MHA_VENDOR_AMD,
     0,
     120,
     {{16, 16, 2, 4, 16, 2, 1, 0},
      {8, 16, 2, 4, 16, 2, 1, 0},
      {8, 16, 1, 4, 16, 2, 1, 0},
      {4, 16, 1, 4, 16, 2, 1, 0}}},
    /* Sub-groups of 16 at least: without asking for one the compiler would take 32 lanes. */
    {MHA_VENDOR_INTEL,
     16,
     96,
     {{8, 16, 2, 4, 16, 2, 0, 1},
      {8, 16, 1, 4, 16, 2, 0, 1},
      {4, 16, 1, 4, 16, 2, 0, 1},
      {4, 16, 1, 4, 16, 2, 0, 0}}},
    {MHA_VENDOR_INTEL,
     0,
     84,
     {{8, 8, 1, 4, 16, 2, 0, 1},
      {4, 8, 1, 4, 16, 2, 0, 1},
      {8, 8, 1, 4, 16, 2, 0, 0},
      {4, 8, 1, 4, 16, 2, 0, 0},
      {4, 16, 1, 4, 16, 2, 0, 0}}},
    {MHA_VENDOR_ADRENO,
     0,
     64,
     {{8, 16, 2, 4, 16, 1, 0, 0}, {8, 8, 2, 4, 16, 1, 0, 0}, {4, 16, 1, 4, 16, 1, 0, 0}}},
    {MHA_VENDOR_OTHER,
     0,
     128,
     {{8, 16, 4, 4, 16, 1, 0, 0},
      {8, 16, 2, 4, 16, 1, 0, 0},
      {8, 8, 2, 4, 16, 1, 0, 0},
      {4, 8, 2, 4, 16, 1, 0, 0},
      {4, 8, 1, 4, 16, 1, 0, 0},
      {4, 4, 1, 4, 16, 1, 0, 0}}},
};

#define MHA_SHAPE_ROWS ((int)(sizeof mha_shape_table / sizeof mha_shape_table[0]))

/* The row of a device. */
const struct mha_shape_row *mha_shape_row_of(const struct mha_device *device);

/* Mali and whatever else keeps local memory in global memory. */
static const struct mha_rows_tile mha_rows_table[] = {
    {1, 8, 32}, {1, 8, 16}, {2, 4, 16}, {1, 4, 8}};

#define MHA_ROWS_TILES ((int)(sizeof mha_rows_table / sizeof mha_rows_table[0]))

/* The first of them that a device may get by itself: on what is no GPU the smallest alone. */
static inline int mha_rows_first(const struct mha_device *device)
{
    return device->type & CL_DEVICE_TYPE_GPU ? 0 : MHA_ROWS_TILES - 1;
}

#endif
