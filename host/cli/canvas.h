/* An RGB picture in memory: rectangles, pixels, and a PNG file of it. */
#ifndef MHA_CLI_CANVAS_H
#define MHA_CLI_CANVAS_H

#include <stdbool.h>
#include <stddef.h>

struct mha_colour {
    unsigned char red, green, blue;
};

struct mha_canvas {
    int width, height;
    unsigned char *rgb; /* (height, width, 3) */
};

/* A white picture. False when there is no memory for it; then nothing is to be released. */
bool mha_canvas_create(struct mha_canvas *canvas, int width, int height);
void mha_canvas_destroy(struct mha_canvas *canvas);

/* Parts outside the picture are not drawn. */
void mha_canvas_fill(struct mha_canvas *canvas, int x, int y, int width, int height,
                     struct mha_colour colour);

/* Mixes a pixel with `colour`: coverage 0 leaves it, 1 replaces it. */
void mha_canvas_blend(struct mha_canvas *canvas, int x, int y, struct mha_colour colour,
                      double coverage);

/* Writes a PNG that appears only when it is complete; see output_file.h. */
bool mha_canvas_save(const struct mha_canvas *canvas, const char *path, char *error,
                     size_t error_size);

#endif
