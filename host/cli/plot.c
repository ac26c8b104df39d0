/* Heat maps of attention weights; see plot.h. Sizes and places come from plot_layout.c. */
#include "plot.h"

#include <math.h>
#include <stdio.h>

#include "canvas.h"
#include "colour_map.h"
#include "font.h"
#include "plot_layout.h"
#include "report.h"

static const struct mha_colour text_colour = {38, 38, 44};
static const struct mha_colour faint_colour = {105, 105, 112};
static const struct mha_colour frame_colour = {150, 150, 156};

static void draw_text(struct mha_canvas *canvas, const char *text, double x, double y)
{
    mha_font_draw(canvas, text, x, y, MHA_PLOT_TEXT_UNIT, MHA_PLOT_LABEL_LIMIT, false, text_colour);
}

static double label_width(const char *text)
{
    double width = mha_font_width(text, MHA_PLOT_TEXT_UNIT);

    return width < MHA_PLOT_LABEL_LIMIT ? width : MHA_PLOT_LABEL_LIMIT;
}

/* Baseline of text whose capitals are centred on y. */
static double centred_baseline(double y)
{
    return y + MHA_FONT_CAPITAL * MHA_PLOT_TEXT_UNIT / 2;
}

/* The largest finite weight; 1 when none is positive, so that it can divide. */
static double largest_weight(const struct mha_plot *plot)
{
    size_t count = (size_t)plot->H * (size_t)plot->NQ * (size_t)plot->NK;
    double largest = 0;

    for (size_t i = 0; i < count; i++) {
        double weight = (double)plot->weights[i];
        if (isfinite(weight) && weight > largest) {
            largest = weight;
        }
    }
    return largest > 0 ? largest : 1;
}

/* Mean over the matrix elements under one drawn cell; NaN when one of them is. */
static double cell_mean(const struct mha_plot *plot, const struct mha_plot_layout *layout,
                        int64_t h, int row, int column)
{
    int64_t first_q = row * layout->block, first_k = column * layout->block;
    int64_t end_q = first_q + layout->block < plot->NQ ? first_q + layout->block : plot->NQ;
    int64_t end_k = first_k + layout->block < plot->NK ? first_k + layout->block : plot->NK;
    double sum = 0;

    for (int64_t q = first_q; q < end_q; q++) {
        const float *weights = plot->weights + (h * plot->NQ + q) * plot->NK;
        for (int64_t k = first_k; k < end_k; k++) {
            sum += (double)weights[k];
        }
    }
    return sum / (double)((end_q - first_q) * (end_k - first_k));
}

static void draw_cells(struct mha_canvas *canvas, const struct mha_plot *plot,
                       const struct mha_plot_layout *layout, int64_t h, double largest)
{
    int x = mha_plot_panel_x(layout, h), y = mha_plot_panel_y(layout, h);
    int cell_width = layout->key.cell, cell_height = layout->query.cell;

    mha_canvas_fill(canvas, x - 1, y - 1, layout->key.cells * cell_width + 2,
                    layout->query.cells * cell_height + 2, frame_colour);
    for (int row = 0; row < layout->query.cells; row++) {
        for (int column = 0; column < layout->key.cells; column++) {
            mha_canvas_fill(canvas, x + column * cell_width, y + row * cell_height, cell_width,
                            cell_height,
                            mha_colour_map(cell_mean(plot, layout, h, row, column) / largest));
        }
    }
}

/* Distance in pixels from the start of an axis to the middle of matrix element `index`. */
static double tick_offset(const struct mha_plot_axis *axis, int64_t block, int64_t index)
{
    return ((double)(index / block) + 0.5) * axis->cell;
}

static const char *tick_text(const struct mha_plot_axis *axis, int64_t index, char *number,
                             size_t size)
{
    if (axis->labels) {
        return axis->labels[index];
    }
    snprintf(number, size, "%lld", (long long)index);
    return number;
}

static void draw_query_axis(struct mha_canvas *canvas, const struct mha_plot_layout *layout,
                            int64_t h)
{
    const struct mha_plot_axis *axis = &layout->query;
    int x = mha_plot_panel_x(layout, h) - 1 - MHA_PLOT_TICK;
    char number[24];

    for (int64_t i = 0; i < axis->count; i += axis->tick_step) {
        double y = mha_plot_panel_y(layout, h) + tick_offset(axis, layout->block, i);
        const char *text = tick_text(axis, i, number, sizeof number);
        mha_canvas_fill(canvas, x, (int)y, MHA_PLOT_TICK, 1, frame_colour);
        draw_text(canvas, text, x - MHA_PLOT_TEXT_GAP - label_width(text), centred_baseline(y));
    }
}

static void draw_key_axis(struct mha_canvas *canvas, const struct mha_plot_layout *layout,
                          int64_t h)
{
    const struct mha_plot_axis *axis = &layout->key;
    int y = mha_plot_panel_y(layout, h) + layout->query.cells * layout->query.cell + 1;
    double text_y = y + MHA_PLOT_TICK + MHA_PLOT_TEXT_GAP;
    char number[24];

    for (int64_t i = 0; i < axis->count; i += axis->tick_step) {
        double x = mha_plot_panel_x(layout, h) + tick_offset(axis, layout->block, i);
        const char *text = tick_text(axis, i, number, sizeof number);
        mha_canvas_fill(canvas, (int)x, y, 1, MHA_PLOT_TICK, frame_colour);
        if (axis->labels) { /* reads upwards and ends at the panel */
            mha_font_draw(canvas, text, centred_baseline(x), text_y + label_width(text),
                          MHA_PLOT_TEXT_UNIT, MHA_PLOT_LABEL_LIMIT, true, text_colour);
        } else {
            draw_text(canvas, text, x - label_width(text) / 2,
                      text_y + MHA_FONT_CAPITAL * MHA_PLOT_TEXT_UNIT);
        }
    }
}

static void draw_panel(struct mha_canvas *canvas, const struct mha_plot *plot,
                       const struct mha_plot_layout *layout, int64_t h, double largest)
{
    char title[32];

    snprintf(title, sizeof title, "head %lld", (long long)h);
    if (label_width(title) > layout->pitch_x - MHA_PLOT_TEXT_GAP) { /* many heads, tiny panels */
        snprintf(title, sizeof title, "%lld", (long long)h);
    }
    draw_text(canvas, title, mha_plot_panel_x(layout, h), mha_plot_panel_y(layout, h) - 6);
    draw_cells(canvas, plot, layout, h, largest);
    draw_query_axis(canvas, layout, h);
    draw_key_axis(canvas, layout, h);
}

static void draw_header(struct mha_canvas *canvas, const struct mha_plot *plot,
                        const struct mha_plot_layout *layout)
{
    char caption[128] = "rows: queries   columns: keys";
    double room = layout->width - 2 * MHA_PLOT_EDGE;

    if (layout->block > 1) {
        snprintf(caption, sizeof caption,
                 "rows: queries   columns: keys   one pixel: the mean of %lld x %lld",
                 (long long)layout->block, (long long)layout->block);
    }
    if (plot->title) {
        mha_font_draw(canvas, plot->title, MHA_PLOT_EDGE,
                      MHA_PLOT_EDGE + MHA_FONT_CAPITAL * MHA_PLOT_TITLE_UNIT, MHA_PLOT_TITLE_UNIT,
                      room, false, text_colour);
    }
    mha_font_draw(canvas, caption, MHA_PLOT_EDGE, layout->top - MHA_PLOT_LINE / 2 - 4,
                  MHA_PLOT_TEXT_UNIT, room, false, faint_colour);
}

/* A tall bar from 0 (bottom) to the largest weight, with five numbers. */
static void draw_bar(struct mha_canvas *canvas, const struct mha_plot_layout *layout,
                     double largest)
{
    enum { NUMBERS = 5 };
    int x = layout->bar_x, y = layout->bar_y, height = layout->bar_height;
    int right = x + MHA_PLOT_BAR_WIDTH;

    draw_text(canvas, "weight", x, y - 15); /* clear of the topmost number */
    mha_canvas_fill(canvas, x - 1, y - 1, MHA_PLOT_BAR_WIDTH + 2, height + 2, frame_colour);
    for (int row = 0; row < height; row++) {
        mha_canvas_fill(canvas, x, y + row, MHA_PLOT_BAR_WIDTH, 1,
                        mha_colour_map(1 - (row + 0.5) / height));
    }
    for (int i = 0; i < NUMBERS; i++) {
        double share = (double)i / (NUMBERS - 1);
        double at = y + (1 - share) * (height - 1);
        char number[32];
        snprintf(number, sizeof number, "%.3g", share * largest);
        mha_canvas_fill(canvas, right + 1, (int)at, MHA_PLOT_TICK, 1, frame_colour);
        draw_text(canvas, number, right + 1 + MHA_PLOT_TICK + MHA_PLOT_TEXT_GAP,
                  centred_baseline(at + 0.5));
    }
}

bool mha_plot_write(const char *path, const struct mha_plot *plot, char *error, size_t error_size)
{
    struct mha_plot_layout layout;
    struct mha_canvas canvas;

    if (plot->H < 1 || plot->NQ < 1 || plot->NK < 1) {
        return mha_fail(error, error_size,
                        "cannot draw '%s': the weights (%lld, %lld, %lld) are empty", path,
                        (long long)plot->H, (long long)plot->NQ, (long long)plot->NK);
    }
    if (plot->H > MHA_PLOT_MAXIMUM_HEADS) {
        return mha_fail(error, error_size, "cannot draw '%s': it has %lld heads; at most %d fit",
                        path, (long long)plot->H, MHA_PLOT_MAXIMUM_HEADS);
    }
    mha_plot_layout(plot, &layout);
    if (!mha_canvas_create(&canvas, layout.width, layout.height)) {
        return mha_fail(error, error_size, "cannot draw '%s': out of memory for %d x %d pixels",
                        path, layout.width, layout.height);
    }

    double largest = largest_weight(plot);
    draw_header(&canvas, plot, &layout);
    for (int64_t h = 0; h < plot->H; h++) {
        draw_panel(&canvas, plot, &layout, h, largest);
    }
    draw_bar(&canvas, &layout, largest);
    bool done = mha_canvas_save(&canvas, path, error, error_size);
    mha_canvas_destroy(&canvas);
    return done;
}
