/*
 * The built-in typeface of the pictures: one weight, ASCII, drawn with round strokes at any size,
 * so that the command needs neither a font library nor a font file.
 */
#ifndef MHA_CLI_FONT_H
#define MHA_CLI_FONT_H

#include <stdbool.h>

#include "canvas.h"

/*
 * Sizes are given as `unit`, the distance in pixels between two points of the grid on which the
 * letters are drawn. A capital is 6 units high and about 4 wide; 'p' reaches 2 units below the
 * baseline. Below 1.5 text is hard to read.
 */
#define MHA_FONT_CAPITAL 6
#define MHA_FONT_DESCENT 2

/* Length in pixels of UTF-8 `text`. Each character outside ASCII counts as a '?'. */
double mha_font_width(const char *text, double unit);

/*
 * Draws `text` with the left end of its baseline at (x, y); `upwards` turns it by 90 degrees
 * against the clock around that point. Characters outside ASCII are drawn as '?'. Text longer
 * than `limit` pixels is cut and ends in "..".
 */
void mha_font_draw(struct mha_canvas *canvas, const char *text, double x, double y, double unit,
                   double limit, bool upwards, struct mha_colour colour);

#endif
