/* The typeface and how it is drawn; see font.h. */
#include "font.h"

#include <math.h>

enum {
    FIRST = ' ',
    LAST = '~',
    COLUMNS = 5,     /* of one glyph */
    ROWS = 9,        /* 7 from the top of a capital to the baseline, 2 below it */
    BASELINE = 6,    /* the row on which letters stand */
    PER_LINE = 8,    /* glyphs side by side in the drawing */
    GLYPH_PITCH = 6, /* characters from one glyph to the next in the drawing */
    MAXIMUM_STROKES = 64
};

static const double LETTER_GAP = 2.0;   /* between two glyphs, in units */
static const double SPACE_WIDTH = 2.0;  /* a blank, without the gap */
static const double STROKE_WIDTH = 0.9; /* in units */

/*
 * The glyphs from ' ' to '~', eight side by side. A '#' is a point; neighbouring points are joined
 * by strokes (see find_strokes), a lone point becomes a dot.
 */
static const char *const drawing[][ROWS] = {
    {
        "..... ..#.. .#.#. ..... ..#.. ##..# .##.. ..#..", /*   ! " # $ % & ' */
        "..... ..#.. .#.#. .#.#. .#### ##..# #..#. ..#..",
        "..... ..#.. ..... ##### #.#.. ...#. #..#. .....",
        "..... ..#.. ..... .#.#. .###. ..#.. .##.. .....",
        "..... ..#.. ..... ##### ..#.# .#... #..## .....",
        "..... ..... ..... .#.#. ####. #..## #..#. .....",
        "..... ..#.. ..... ..... ..#.. #..## .##.# .....",
        "..... ..... ..... ..... ..... ..... ..... .....",
        "..... ..... ..... ..... ..... ..... ..... .....",
    },
    {
        "...#. .#... ..... ..... ..... ..... ..... ....#", /* ( ) * + , - . / */
        "..#.. ..#.. ..#.. ..#.. ..... ..... ..... ....#",
        ".#... ...#. #.#.# ..#.. ..... ..... ..... ...#.",
        ".#... ...#. .###. ##### ..... ####. ..... ..#..",
        ".#... ...#. #.#.# ..#.. ..... ..... ..... .#...",
        "..#.. ..#.. ..#.. ..#.. ..... ..... ..... #....",
        "...#. .#... ..... ..... ..#.. ..... ..#.. #....",
        "..... ..... ..... ..... ..#.. ..... ..... .....",
        "..... ..... ..... ..... .#... ..... ..... .....",
    },
    {
        ".##.. ..#.. .###. ##### ...#. ##### ..##. #####", /* 0 1 2 3 4 5 6 7 */
        "#..#. .##.. #...# ....# ..##. #.... .#... ....#",
        "#..#. ..#.. ....# ...#. .#.#. ####. #.... ...#.",
        "#..#. ..#.. ...#. ..##. #..#. ....# ####. ...#.",
        "#..#. ..#.. ..#.. ....# ##### ....# #...# ..#..",
        "#..#. ..#.. .#... #...# ...#. #...# #...# ..#..",
        ".##.. .###. ##### .###. ...#. .###. .###. ..#..",
        "..... ..... ..... ..... ..... ..... ..... .....",
        "..... ..... ..... ..... ..... ..... ..... .....",
    },
    {
        ".###. .###. ..... ..... ..... ..... ..... .###.", /* 8 9 : ; < = > ? */
        "#...# #...# ..... ..... ...#. ..... .#... #...#",
        "#...# #...# ..#.. ..#.. ..#.. ####. ..#.. ....#",
        ".###. .#### ..... ..... .#... ..... ...#. ...#.",
        "#...# ....# ..... ..... ..#.. ####. ..#.. ..#..",
        "#...# ...#. ..... ..... ...#. ..... .#... .....",
        ".###. .##.. ..#.. ..#.. ..... ..... ..... ..#..",
        "..... ..... ..... ..#.. ..... ..... ..... .....",
        "..... ..... ..... .#... ..... ..... ..... .....",
    },
    {
        ".###. ..#.. ####. .###. ####. ##### ##### .###.", /* @ A B C D E F G */
        "#...# ..#.. #...# #...# #...# #.... #.... #...#",
        "#.### .#.#. #...# #.... #...# #.... #.... #....",
        "#.#.# .#.#. ####. #.... #...# ####. ####. #.###",
        "#.### ##### #...# #.... #...# #.... #.... #...#",
        "#.... #...# #...# #...# #...# #.... #.... #...#",
        ".###. #...# ####. .###. ####. ##### #.... .###.",
        "..... ..... ..... ..... ..... ..... ..... .....",
        "..... ..... ..... ..... ..... ..... ..... .....",
    },
    {
        "#...# .###. ...#. #...# #.... #...# #...# .###.", /* H I J K L M N O */
        "#...# ..#.. ...#. #..#. #.... ##.## ##..# #...#",
        "#...# ..#.. ...#. #.#.. #.... #.#.# ##..# #...#",
        "##### ..#.. ...#. ##... #.... #.#.# #.#.# #...#",
        "#...# ..#.. ...#. #.#.. #.... #...# #..## #...#",
        "#...# ..#.. #..#. #..#. #.... #...# #..## #...#",
        "#...# .###. .##.. #...# ##### #...# #...# .###.",
        "..... ..... ..... ..... ..... ..... ..... .....",
        "..... ..... ..... ..... ..... ..... ..... .....",
    },
    {
        "####. .###. ####. .#### ##### #...# #...# #...#", /* P Q R S T U V W */
        "#...# #...# #...# #.... ..#.. #...# #...# #...#",
        "#...# #...# #...# #.... ..#.. #...# #...# #...#",
        "####. #...# ####. .###. ..#.. #...# .#.#. #.#.#",
        "#.... #.#.# #.#.. ....# ..#.. #...# .#.#. #.#.#",
        "#.... #..#. #..#. ....# ..#.. #...# ..#.. ##.##",
        "#.... .##.# #...# ####. ..#.. .###. ..#.. #...#",
        "..... ..... ..... ..... ..... ..... ..... .....",
        "..... ..... ..... ..... ..... ..... ..... .....",
    },
    {
        "#...# #...# ##### .###. #.... .###. ..#.. .....", /* X Y Z [ \ ] ^ _ */
        "#...# #...# ....# .#... #.... ...#. .#.#. .....",
        ".#.#. .#.#. ...#. .#... .#... ...#. #...# .....",
        "..#.. ..#.. ..#.. .#... ..#.. ...#. ..... .....",
        ".#.#. ..#.. .#... .#... ...#. ...#. ..... .....",
        "#...# ..#.. #.... .#... ....# ...#. ..... .....",
        "#...# ..#.. ##### .###. ....# .###. ..... .....",
        "..... ..... ..... ..... ..... ..... ..... #####",
        "..... ..... ..... ..... ..... ..... ..... .....",
    },
    {
        ".#... ..... #.... ..... ....# ..... ..##. .....", /* ` a b c d e f g */
        "..#.. ..... #.... ..... ....# ..... .#... .....",
        "..... .###. ####. .###. .#### .###. ####. .####",
        "..... ....# #...# #...# #...# #...# .#... #...#",
        "..... .#### #...# #.... #...# ##### .#... #...#",
        "..... #...# #...# #...# #...# #.... .#... #...#",
        "..... .#### ####. .###. .#### .#### .#... .####",
        "..... ..... ..... ..... ..... ..... ..... ....#",
        "..... ..... ..... ..... ..... ..... ..... .###.",
    },
    {
        "#.... ..#.. ...#. #.... .#... ..... ..... .....", /* h i j k l m n o */
        "#.... ..... ..... #.... .#... ..... ..... .....",
        "####. ..#.. ...#. #..#. .#... ####. ####. .###.",
        "#...# ..#.. ...#. #.#.. .#... #.#.# #...# #...#",
        "#...# ..#.. ...#. ##... .#... #.#.# #...# #...#",
        "#...# ..#.. ...#. #.#.. .#... #.#.# #...# #...#",
        "#...# ..#.. ...#. #..#. ..##. #.#.# #...# .###.",
        "..... ..... ...#. ..... ..... ..... ..... .....",
        "..... ..... ###.. ..... ..... ..... ..... .....",
    },
    {
        "..... ..... ..... ..... .#... ..... ..... .....", /* p q r s t u v w */
        "..... ..... ..... ..... .#... ..... ..... .....",
        "####. .#### #.##. .#### ####. #...# #...# #...#",
        "#...# #...# ##... #.... .#... #...# #...# #...#",
        "#...# #...# #.... .###. .#... #...# .#.#. #.#.#",
        "#...# #...# #.... ....# .#... #...# .#.#. #.#.#",
        "####. .#### #.... ####. ..##. .#### ..#.. .#.#.",
        "#.... ....# ..... ..... ..... ..... ..... .....",
        "#.... ....# ..... ..... ..... ..... ..... .....",
    },
    {
        "..... ..... ..... ...#. ..#.. .#... .....", /* x y z { | } ~ */
        "..... ..... ..... ..#.. ..#.. ..#.. .....",
        "#...# #...# ##### ..#.. ..#.. ..#.. .....",
        ".#.#. #...# ...#. .#... ..#.. ...#. .#..#",
        "..#.. #...# ..#.. ..#.. ..#.. ..#.. #.##.",
        ".#.#. #...# .#... ..#.. ..#.. ..#.. .....",
        "#...# .#### ##### ...#. ..#.. .#... .....",
        "..... ....# ..... ..... ..#.. ..... .....",
        "..... .###. ..... ..... ..... ..... .....",
    },
};

struct stroke {
    double x0, y0, x1, y1; /* in units; y grows downwards and is 0 on the baseline */
};

struct glyph {
    int left, width; /* columns that hold points; width is the distance from first to last */
    int count;
    struct stroke strokes[MAXIMUM_STROKES];
};

static bool has_point(int code, int row, int column)
{
    int index = code - FIRST;

    return row >= 0 && row < ROWS && column >= 0 && column < COLUMNS &&
           drawing[index / PER_LINE][row][index % PER_LINE * GLYPH_PITCH + column] == '#';
}

static void add_stroke(struct glyph *glyph, int row0, int column0, int row1, int column1)
{
    if (glyph->count < MAXIMUM_STROKES) {
        glyph->strokes[glyph->count++] =
            (struct stroke){column0, row0 - BASELINE, column1, row1 - BASELINE};
    }
}

/*
 * Joins each point with its right, lower and lower diagonal neighbours. A diagonal is left out
 * where the two points are already joined around the corner, so that corners stay sharp while
 * chamfers become slanted strokes. Every point is also a stroke of no length: a dot.
 */
static void find_strokes(int code, struct glyph *glyph)
{
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
            if (!has_point(code, row, column)) {
                continue;
            }
            bool right = has_point(code, row, column + 1);
            bool left = has_point(code, row, column - 1);
            bool below = has_point(code, row + 1, column);
            if (right) {
                add_stroke(glyph, row, column, row, column + 1);
            }
            if (below) {
                add_stroke(glyph, row, column, row + 1, column);
            }
            if (!right && !below && has_point(code, row + 1, column + 1)) {
                add_stroke(glyph, row, column, row + 1, column + 1);
            }
            if (!left && !below && has_point(code, row + 1, column - 1)) {
                add_stroke(glyph, row, column, row + 1, column - 1);
            }
            add_stroke(glyph, row, column, row, column);
        }
    }
}

static void load_extent(int code, struct glyph *glyph)
{
    int first = COLUMNS, last = -1;

    for (int column = 0; column < COLUMNS; column++) {
        for (int row = 0; row < ROWS; row++) {
            if (has_point(code, row, column)) {
                first = column < first ? column : first;
                last = column;
            }
        }
    }
    glyph->left = last < 0 ? 0 : first;
    glyph->width = last < 0 ? 0 : last - first;
}

static double advance(int code, const struct glyph *glyph)
{
    return (code == ' ' ? SPACE_WIDTH : glyph->width) + LETTER_GAP;
}

/* Takes one UTF-8 character; what the typeface lacks, broken UTF-8 included, is a '?'. */
static int next_code(const char **text)
{
    unsigned char lead = (unsigned char)*(*text)++;

    if (lead >= FIRST && lead <= LAST) {
        return lead;
    }
    while (((unsigned char)**text & 0xc0) == 0x80) {
        (*text)++;
    }
    return '?';
}

double mha_font_width(const char *text, double unit)
{
    struct glyph glyph;
    double width = 0;

    if (*text == '\0') {
        return 0;
    }
    while (*text) {
        int code = next_code(&text);
        load_extent(code, &glyph);
        width += advance(code, &glyph);
    }
    return (width - LETTER_GAP + STROKE_WIDTH) * unit;
}

static double distance_to_stroke(const struct stroke *stroke, double x, double y)
{
    double along_x = stroke->x1 - stroke->x0, along_y = stroke->y1 - stroke->y0;
    double squared = along_x * along_x + along_y * along_y;
    double share = 0;

    if (squared > 0) {
        share = ((x - stroke->x0) * along_x + (y - stroke->y0) * along_y) / squared;
    }
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    return hypot(x - stroke->x0 - share * along_x, y - stroke->y0 - share * along_y);
}

/* Colours every pixel by how much of it lies within half a stroke width of some stroke. */
static void draw_glyph(struct mha_canvas *canvas, const struct glyph *glyph, double x, double y,
                       double unit, bool upwards, struct mha_colour colour)
{
    double radius = STROKE_WIDTH / 2 * unit;
    int reach = (int)ceil((ROWS + 1) * unit) + 2;

    for (int row = -reach; row <= reach; row++) {
        for (int column = -reach; column <= reach; column++) {
            int at_x = (int)x + column, at_y = (int)y + row;
            double right = at_x + 0.5 - x, down = at_y + 0.5 - y;
            double glyph_x = (upwards ? -down : right) / unit + glyph->left;
            double glyph_y = (upwards ? right : down) / unit;
            double nearest = 2 * ROWS;
            if (glyph_x < -1 || glyph_x > COLUMNS || glyph_y < -ROWS || glyph_y > ROWS - BASELINE) {
                continue;
            }
            for (int i = 0; i < glyph->count; i++) {
                nearest = fmin(nearest, distance_to_stroke(&glyph->strokes[i], glyph_x, glyph_y));
            }
            double coverage = radius + 0.5 - nearest * unit;
            if (coverage > 0) {
                mha_canvas_blend(canvas, at_x, at_y, colour, coverage < 1 ? coverage : 1);
            }
        }
    }
}

/* Draws up to `end` or to the terminator, and returns how far along the line it came. */
static double draw_run(struct mha_canvas *canvas, const char *text, const char *end, double x,
                       double y, double unit, bool upwards, struct mha_colour colour)
{
    double along = 0;

    while (*text && text != end) {
        struct glyph glyph = {0};
        int code = next_code(&text);
        load_extent(code, &glyph);
        find_strokes(code, &glyph);
        draw_glyph(canvas, &glyph, upwards ? x : x + along, upwards ? y - along : y, unit, upwards,
                   colour);
        along += advance(code, &glyph) * unit;
    }
    return along;
}

void mha_font_draw(struct mha_canvas *canvas, const char *text, double x, double y, double unit,
                   double limit, bool upwards, struct mha_colour colour)
{
    static const char ellipsis[] = "..";
    const char *end = NULL;

    /* Strokes reach half their width over the points: keep them inside the given line. */
    double inset = STROKE_WIDTH / 2 * unit;
    x += upwards ? 0 : inset;
    y -= upwards ? inset : 0;
    if (mha_font_width(text, unit) > limit) {
        double room = limit - mha_font_width(ellipsis, unit);
        struct glyph glyph;
        for (end = text; *end;) {
            const char *after = end;
            int code = next_code(&after);
            load_extent(code, &glyph);
            room -= advance(code, &glyph) * unit;
            if (room < 0) {
                break;
            }
            end = after;
        }
    }
    double along = draw_run(canvas, text, end, x, y, unit, upwards, colour);
    if (end) {
        draw_run(canvas, ellipsis, NULL, upwards ? x : x + along, upwards ? y - along : y, unit,
                 upwards, colour);
    }
}
