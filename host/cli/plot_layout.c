/* Sizes and places; see plot_layout.h. */
#include "plot_layout.h"

#include <math.h>
#include <stdio.h>

#include "font.h"

enum {
    AIM = 1600,          /* pixels that the panels would like to fill */
    LIMIT = 3960,        /* pixels that the picture must not exceed, less rounding */
    LARGEST_CELL = 44,   /* no bigger, however few there are */
    LABELLED_CELL = 17,  /* the smallest that has room for a line of text */
    SMALLEST_PANEL = 24, /* a side shorter than this could not be seen */
    INDEX_GAP = 14       /* at least this much between two written indices */
};

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static int text_width(const char *text)
{
    return (int)ceil(mha_font_width(text, MHA_PLOT_TEXT_UNIT));
}

static int index_width(const struct mha_plot_axis *axis)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)(axis->count - 1));
    return text_width(text);
}

/* Room beside the panel: for the widest label, or for `index_extent` where indices are written. */
static int margin(const struct mha_plot_axis *axis, int index_extent)
{
    int extent = index_extent;

    if (axis->labels) {
        extent = 0;
        for (int64_t i = 0; i < axis->count; i++) {
            extent = larger(extent, text_width(axis->labels[i]));
        }
        extent = smaller(extent, MHA_PLOT_LABEL_LIMIT);
    }
    return MHA_PLOT_TICK + MHA_PLOT_TEXT_GAP + extent;
}

/* The pixels that one panel may take along one direction when `total` is shared by `panels`. */
static int share(int total, int panels, int beside)
{
    return total / panels - beside;
}

/* Distance between written indices: 1, 2 or 5 times a power of ten, wide enough for the text. */
static int64_t tick_step(const struct mha_plot_axis *axis, int64_t block, int extent)
{
    static const int factors[] = {1, 2, 5};
    double pixels = (double)axis->cell / (double)block; /* of one matrix element */

    for (int64_t power = 1; power < axis->count; power *= 10) {
        for (int i = 0; i < 3; i++) {
            if ((double)(factors[i] * power) * pixels >= extent + INDEX_GAP) {
                return factors[i] * power;
            }
        }
    }
    return axis->count; /* only index 0 */
}

static void set_cells(struct mha_plot_axis *axis, int64_t block, int cell)
{
    axis->cells = (int)((axis->count + block - 1) / block);
    axis->cell = larger(cell, (SMALLEST_PANEL + axis->cells - 1) / axis->cells);
}

/* Chooses block and cell so that a panel fits its share of the picture. */
static void fit(struct mha_plot_layout *layout, int beside_x, int beside_y)
{
    int room_x = larger(share(LIMIT, layout->columns, beside_x), SMALLEST_PANEL);
    int room_y = larger(share(LIMIT, layout->rows, beside_y), SMALLEST_PANEL);
    int64_t block_x = (layout->key.count + room_x - 1) / room_x;
    int64_t block_y = (layout->query.count + room_y - 1) / room_y;
    int cell = 1;

    layout->block = block_x > block_y ? block_x : block_y;
    if (layout->block == 1) {
        int most = smaller(room_x / (int)layout->key.count, room_y / (int)layout->query.count);
        int wanted = share(AIM, layout->columns, beside_x) / (int)layout->key.count;
        if (layout->query.labels || layout->key.labels) {
            wanted = larger(wanted, LABELLED_CELL);
        }
        cell = larger(1, smaller(smaller(wanted, most), LARGEST_CELL));
    }
    set_cells(&layout->query, layout->block, cell);
    set_cells(&layout->key, layout->block, cell);
}

static void place_bar_and_edges(const struct mha_plot *plot, struct mha_plot_layout *layout)
{
    int panel_height = layout->query.cells * layout->query.cell;
    int panels_right = MHA_PLOT_EDGE + layout->columns * layout->pitch_x - MHA_PLOT_GAP;
    int panels_bottom = layout->top + layout->rows * layout->pitch_y - MHA_PLOT_GAP;
    int title_width = 0;

    if (plot->title) {
        title_width = (int)ceil(mha_font_width(plot->title, MHA_PLOT_TITLE_UNIT));
    }
    layout->bar_x = panels_right + MHA_PLOT_GAP;
    layout->bar_y = mha_plot_panel_y(layout, 0);
    layout->bar_height = larger(120, smaller(panel_height, 400));
    layout->width = larger(layout->bar_x + MHA_PLOT_BAR_ROOM - MHA_PLOT_GAP + MHA_PLOT_EDGE,
                           smaller(title_width + 2 * MHA_PLOT_EDGE, 800));
    layout->height = larger(panels_bottom, layout->bar_y + layout->bar_height) + MHA_PLOT_EDGE;
}

void mha_plot_layout(const struct mha_plot *plot, struct mha_plot_layout *layout)
{
    struct mha_plot_axis *query = &layout->query, *key = &layout->key;
    int digit_height = (int)ceil(MHA_FONT_CAPITAL * MHA_PLOT_TEXT_UNIT) + 2;

    *layout = (struct mha_plot_layout){
        .query = {.count = plot->NQ, .labels = plot->query_labels},
        .key = {.count = plot->NK, .labels = plot->key_labels},
    };
    layout->columns = (int)ceil(sqrt((double)plot->H));
    layout->rows = (int)((plot->H + layout->columns - 1) / layout->columns);
    layout->top = MHA_PLOT_EDGE + MHA_PLOT_LINE + MHA_PLOT_LINE / 2 +
                  (plot->title ? (int)(10 * MHA_PLOT_TITLE_UNIT) : 0);

    for (bool settled = false; !settled;) {
        query->margin = margin(query, index_width(query));
        key->margin = margin(key, digit_height);
        int beside_x = query->margin + MHA_PLOT_GAP + MHA_PLOT_BAR_ROOM / layout->columns;
        int beside_y = key->margin + MHA_PLOT_GAP + MHA_PLOT_LINE + layout->top / layout->rows;
        fit(layout, beside_x, beside_y);
        /* Labels that do not fit give way to indices, which changes the room: fit again. */
        bool query_fits = layout->block == 1 && query->cell >= LABELLED_CELL;
        bool key_fits = layout->block == 1 && key->cell >= LABELLED_CELL;
        settled = (!query->labels || query_fits) && (!key->labels || key_fits);
        query->labels = query_fits ? query->labels : NULL;
        key->labels = key_fits ? key->labels : NULL;
    }
    query->tick_step = query->labels ? 1 : tick_step(query, layout->block, digit_height);
    key->tick_step = key->labels ? 1 : tick_step(key, layout->block, index_width(key));

    layout->pitch_x = query->margin + key->cells * key->cell + MHA_PLOT_GAP;
    layout->pitch_y = MHA_PLOT_LINE + query->cells * query->cell + key->margin + MHA_PLOT_GAP;
    place_bar_and_edges(plot, layout);
}

int mha_plot_panel_x(const struct mha_plot_layout *layout, int64_t h)
{
    return MHA_PLOT_EDGE + (int)(h % layout->columns) * layout->pitch_x + layout->query.margin;
}

int mha_plot_panel_y(const struct mha_plot_layout *layout, int64_t h)
{
    return layout->top + (int)(h / layout->columns) * layout->pitch_y + MHA_PLOT_LINE;
}
