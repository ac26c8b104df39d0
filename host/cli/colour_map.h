/* The colour scale of the pictures: dark violet for 0 to light yellow for 1. */
#ifndef MHA_CLI_COLOUR_MAP_H
#define MHA_CLI_COLOUR_MAP_H

#include "canvas.h"

/* `share` is clamped to 0..1; a NaN gives magenta, which the scale does not contain. */
struct mha_colour mha_colour_map(double share);

#endif
