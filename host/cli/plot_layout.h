/* Where everything stands in the picture of plot.c, in pixels. Computed once, then only read. */
#ifndef MHA_CLI_PLOT_LAYOUT_H
#define MHA_CLI_PLOT_LAYOUT_H

#include "plot.h"

/* Text sizes, in units of font.h. */
#define MHA_PLOT_TEXT_UNIT 1.8
#define MHA_PLOT_TITLE_UNIT 2.6

enum {
    MHA_PLOT_MAXIMUM_HEADS = 4096,
    MHA_PLOT_EDGE = 24,        /* around the whole picture */
    MHA_PLOT_GAP = 28,         /* between panels */
    MHA_PLOT_TICK = 4,         /* length of a tick mark */
    MHA_PLOT_TEXT_GAP = 4,     /* between a tick mark and its text */
    MHA_PLOT_LINE = 18,        /* one line of ordinary text */
    MHA_PLOT_BAR_WIDTH = 18,   /* the colour bar */
    MHA_PLOT_BAR_ROOM = 120,   /* the bar with the numbers beside it, and the gap before it */
    MHA_PLOT_LABEL_LIMIT = 120 /* longest label */
};

/* One direction of a panel. */
struct mha_plot_axis {
    int64_t count;             /* of the matrix */
    const char *const *labels; /* NULL: indices */
    int cells;                 /* drawn: ceil(count / block) */
    int cell;                  /* pixels of one drawn cell */
    int margin;                /* beside the panel, for tick marks and text */
    int64_t tick_step;         /* between two indices that are written; 1 with labels */
};

struct mha_plot_layout {
    struct mha_plot_axis query, key; /* top to bottom, left to right */
    int64_t block;                   /* block x block matrix elements make one drawn cell */
    int columns, rows;               /* of panels */
    int top;                         /* y of the first panel's title line */
    int pitch_x, pitch_y;            /* from one panel to the next */
    int bar_x, bar_y, bar_height;
    int width, height;
};

/* `plot` has been checked: its sizes are positive and there are not too many heads. */
void mha_plot_layout(const struct mha_plot *plot, struct mha_plot_layout *layout);

/* Upper left cell of the panel of head h. */
int mha_plot_panel_x(const struct mha_plot_layout *layout, int64_t h);
int mha_plot_panel_y(const struct mha_plot_layout *layout, int64_t h);

#endif
