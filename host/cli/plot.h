/*
 * Attention weights as a picture: one heat map per head, side by side, in a PNG file.
 */
#ifndef MHA_CLI_PLOT_H
#define MHA_CLI_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mha_plot {
    const char *title;               /* above the whole picture; NULL for none */
    int64_t H, NQ, NK;               /* each at least 1 */
    const float *weights;            /* (H, NQ, NK), C order: one batch entry */
    const char *const *query_labels; /* NQ strings down the left side; NULL draws indices */
    const char *const *key_labels;   /* NK strings along the bottom; NULL draws indices */
};

/*
 * Draws `plot` into the file `path`, which appears only when it is complete.
 *
 * All panels share one colour scale from 0 to the largest finite weight; smaller and larger values
 * take the colour of the nearest end. A NaN is drawn magenta, which the scale does not contain.
 * Labels are UTF-8; characters outside ASCII are drawn as '?', and long ones are cut.
 *
 * Small matrices get large cells. Large ones get one pixel per cell, and beyond that square blocks
 * of cells are averaged (a block with a NaN in it shows as NaN), so that the picture stays under
 * 4000 pixels each way for any H up to 400. Labels give way to indices where a cell is too small
 * for text.
 *
 * Returns true, or false with one sentence in `error`.
 */
bool mha_plot_write(const char *path, const struct mha_plot *plot, char *error, size_t error_size);

#endif
