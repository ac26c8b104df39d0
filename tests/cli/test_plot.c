/*
 * Heat maps: the PNG is decoded again with libpng and searched for what must be in it. Places are
 * found from the picture itself, by the colours of cells that are known, not from the layout code.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <png.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "canvas.h"
#include "colour_map.h"
#include "font.h"
#include "plot.h"
#include "report.h"

static char folder[] = "/tmp/test_plot_XXXXXX";
static char path[64];
static char error[MHA_ERROR_SIZE];

static void enter_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.png", folder);
}

static void leave_folder(void)
{
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* fails when a temporary file was left behind */
}

struct picture {
    int width, height;
    unsigned char *rgb;
};

static struct picture load(void)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    struct picture picture;

    ck_assert_msg(png_image_begin_read_from_file(&image, path) != 0, "%s", image.message);
    image.format = PNG_FORMAT_RGB;
    picture.width = (int)image.width;
    picture.height = (int)image.height;
    picture.rgb = malloc(PNG_IMAGE_SIZE(image));
    ck_assert_ptr_nonnull(picture.rgb);
    ck_assert(png_image_finish_read(&image, NULL, picture.rgb, 0, NULL) != 0);
    return picture;
}

static struct picture draw(const struct mha_plot *plot)
{
    ck_assert_msg(mha_plot_write(path, plot, error, sizeof error), "%s", error);
    return load();
}

static bool has_colour(const struct picture *picture, int x, int y, struct mha_colour colour)
{
    const unsigned char *rgb = picture->rgb + 3 * ((size_t)y * (size_t)picture->width + (size_t)x);

    return rgb[0] == colour.red && rgb[1] == colour.green && rgb[2] == colour.blue;
}

struct box {
    int left, top, right, bottom; /* inclusive; left > right when nothing was found */
    int count;
};

static struct box find(const struct picture *picture, struct mha_colour colour)
{
    struct box box = {picture->width, picture->height, -1, -1, 0};

    for (int y = 0; y < picture->height; y++) {
        for (int x = 0; x < picture->width; x++) {
            if (!has_colour(picture, x, y, colour)) {
                continue;
            }
            box.left = x < box.left ? x : box.left;
            box.right = x > box.right ? x : box.right;
            box.top = y < box.top ? y : box.top;
            box.bottom = y > box.bottom ? y : box.bottom;
            box.count++;
        }
    }
    return box;
}

static int dark_pixels(const struct picture *picture, int left, int top, int right, int bottom)
{
    int count = 0;

    for (int y = top; y < bottom; y++) {
        for (int x = left; x < right; x++) {
            count += picture->rgb[3 * ((size_t)y * (size_t)picture->width + (size_t)x)] < 100;
        }
    }
    return count;
}

/* One magenta cell gives the cell's size and place; every other cell is then found from it. */
START_TEST(puts_every_cell_at_its_place)
{
    enum { NQ = 5, NK = 8, MARK_Q = 3, MARK_K = 2 };
    float weights[NQ * NK];
    const struct mha_plot plot = {
        .title = "A title", .H = 1, .NQ = NQ, .NK = NK, .weights = weights};

    for (int i = 0; i < NQ * NK; i++) {
        weights[i] = (float)((i * 7) % (NQ * NK)) / 64.0f;
    }
    weights[MARK_Q * NK + MARK_K] = NAN;
    double largest = 0;
    for (int i = 0; i < NQ * NK; i++) {
        largest = weights[i] > largest ? (double)weights[i] : largest;
    }

    struct picture picture = draw(&plot);
    struct box mark = find(&picture, mha_colour_map((double)NAN));
    int cell = mark.right - mark.left + 1;
    ck_assert_int_ge(cell, 10);
    ck_assert_int_eq(mark.bottom - mark.top + 1, cell);
    ck_assert_int_eq(mark.count, cell * cell);
    for (int q = 0; q < NQ; q++) {
        for (int k = 0; k < NK; k++) {
            int x = mark.left + (k - MARK_K) * cell, y = mark.top + (q - MARK_Q) * cell;
            struct mha_colour wanted = mha_colour_map((double)weights[q * NK + k] / largest);
            ck_assert(has_colour(&picture, x, y, wanted));
            ck_assert(has_colour(&picture, x + cell - 1, y + cell - 1, wanted));
        }
    }
    free(picture.rgb);
}
END_TEST

/* Head h has its NaN at key h: twelve marks in reading order, one panel each. */
START_TEST(gives_each_head_a_panel)
{
    enum { H = 12, NQ = 14, NK = 15 };
    static float weights[H * NQ * NK];
    const char *tokens[NK];
    const struct mha_plot plot = {.title = "t",
                                  .H = H,
                                  .NQ = NQ,
                                  .NK = NK,
                                  .weights = weights,
                                  .query_labels = tokens,
                                  .key_labels = tokens};

    for (int i = 0; i < NK; i++) {
        tokens[i] = i % 2 ? "street" : "it";
    }
    weights[0] = 1;
    for (int h = 0; h < H; h++) {
        weights[(h * NQ + 2) * NK + h] = NAN;
    }
    struct picture picture = draw(&plot);
    ck_assert_int_ge(picture.width, 1400);
    ck_assert_int_le(picture.width, 1800);
    struct box marks = find(&picture, mha_colour_map((double)NAN));
    int cell = (int)lround(sqrt(marks.count / (double)H));
    ck_assert_int_eq(cell * cell * H, marks.count);
    ck_assert_int_ge(cell, 15);
    /* The upper left pixels of the marks, in reading order: 3 rows of 4. */
    struct mha_colour magenta = mha_colour_map((double)NAN);
    int found = 0, mark_x[H], mark_y[H];
    for (int y = marks.top; y <= marks.bottom; y++) {
        for (int x = marks.left; x <= marks.right; x++) {
            if (has_colour(&picture, x, y, magenta) && !has_colour(&picture, x - 1, y, magenta) &&
                !has_colour(&picture, x, y - 1, magenta) && found < H) {
                mark_x[found] = x;
                mark_y[found++] = y;
            }
        }
    }
    ck_assert_int_eq(found, H);
    for (int h = 4; h < H; h++) { /* under the panel of head h - 4, four keys further */
        ck_assert_int_eq(mark_x[h], mark_x[h - 4] + 4 * cell);
        ck_assert_int_gt(mark_y[h], mark_y[h - 4]);
        ck_assert_int_eq(mark_y[h], mark_y[h / 4 * 4]);
    }
    free(picture.rgb);
}
END_TEST

START_TEST(draws_labels_and_title)
{
    static const float weights[] = {0.1f, 0.2f, 0.3f, 0.4f};
    static const char *const labels[] = {"mmmm", "mmmm"}, *const blanks[] = {"", ""};
    struct mha_plot plot = {
        .H = 1, .NQ = 2, .NK = 2, .weights = weights, .query_labels = labels, .key_labels = labels};
    struct picture with = draw(&plot);
    struct box corner = find(&with, mha_colour_map(0.25));
    int cell = corner.bottom - corner.top + 1;

    ck_assert_int_gt(dark_pixels(&with, 0, corner.top, corner.left - 2, corner.top + 2 * cell), 50);
    ck_assert_int_gt(dark_pixels(&with, corner.left, corner.top + 2 * cell + 2,
                                 corner.left + 2 * cell, with.height),
                     50);
    plot.query_labels = plot.key_labels = blanks;
    struct picture without = draw(&plot);
    corner = find(&without, mha_colour_map(0.25));
    ck_assert_int_eq(dark_pixels(&without, 0, corner.top, corner.left - 2, corner.top + 2 * cell),
                     0);
    plot.title = "Some title";
    struct picture titled = draw(&plot);
    ck_assert_int_gt(titled.height, without.height);
    free(with.rgb);
    free(without.rgb);
    free(titled.rgb);
}
END_TEST

static const struct {
    int H, NQ, NK;
} sizes[] = {{1, 1, 1},      {1, 1, 5000}, {1, 5000, 1},  {1, 1024, 1024}, {12, 1024, 1024},
             {3, 700, 2100}, {400, 5, 4},  {400, 90, 70}, {2, 4097, 30},   {16, 1, 300}};

START_TEST(stays_below_4000_pixels)
{
    int H = sizes[_i].H, NQ = sizes[_i].NQ, NK = sizes[_i].NK;
    size_t count = (size_t)H * (size_t)NQ * (size_t)NK;
    float *weights = calloc(count, sizeof *weights);
    struct mha_plot plot = {.title = "t", .H = H, .NQ = NQ, .NK = NK, .weights = weights};

    ck_assert_ptr_nonnull(weights);
    for (size_t i = 0; i < count; i++) {
        weights[i] = 0.5f;
    }
    struct picture picture = draw(&plot);
    ck_assert_int_lt(picture.width, 4000);
    ck_assert_int_lt(picture.height, 4000);
    /* Every weight is the largest one; that each panel is there shows in the area of its colour. */
    struct box box = find(&picture, mha_colour_map(1));
    ck_assert_int_ge(box.count, H * 24);
    free(picture.rgb);
    free(weights);
}
END_TEST

/* 8192 keys must be averaged: alternating 0 and 1 gives one half everywhere, within a panel. */
START_TEST(averages_blocks)
{
    enum { NQ = 8, NK = 8192 };
    float *weights = calloc((size_t)NQ * NK, sizeof *weights);
    struct mha_plot plot = {.H = 1, .NQ = NQ, .NK = NK, .weights = weights};

    ck_assert_ptr_nonnull(weights);
    for (int q = 0; q < NQ; q++) {
        for (int k = 0; k < NK; k++) {
            weights[q * NK + k] = (float)((q + k) % 2);
        }
    }
    struct picture picture = draw(&plot);
    struct box half = find(&picture, mha_colour_map(0.5));
    ck_assert_int_gt(half.right - half.left, 1000);
    ck_assert_int_gt(half.count, 20000);

    weights[3 * NK + 5000] = NAN;
    struct picture marked = draw(&plot);
    ck_assert_int_gt(find(&marked, mha_colour_map((double)NAN)).count, 0);
    free(picture.rgb);
    free(marked.rgb);
    free(weights);
}
END_TEST

START_TEST(survives_values_outside_the_scale)
{
    static const float weights[] = {-1, INFINITY, -INFINITY, 0.25f, 0, NAN};
    static const float zeros[6];
    struct mha_plot plot = {.H = 1, .NQ = 2, .NK = 3, .weights = weights};

    struct picture picture = draw(&plot);
    struct box mark = find(&picture, mha_colour_map((double)NAN));
    int cell = mark.right - mark.left + 1;
    int left = mark.left - 2 * cell, top = mark.top - cell;
    ck_assert(has_colour(&picture, left, top, mha_colour_map(0)));
    ck_assert(has_colour(&picture, left + cell, top, mha_colour_map(1)));
    ck_assert(has_colour(&picture, left + 2 * cell, top, mha_colour_map(0)));
    ck_assert(has_colour(&picture, left, top + cell, mha_colour_map(1)));
    free(picture.rgb);
    plot.weights = zeros;
    picture = draw(&plot);
    ck_assert_int_gt(find(&picture, mha_colour_map(0)).count, 1000);
    free(picture.rgb);
}
END_TEST

START_TEST(refuses_what_cannot_be_drawn)
{
    static const float weights[] = {1};
    struct mha_plot plot = {.H = 1, .NQ = 0, .NK = 3, .weights = weights};

    ck_assert(!mha_plot_write(path, &plot, error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, "the weights (1, 0, 3) are empty"));
    plot.NQ = 1;
    plot.H = 4097;
    ck_assert(!mha_plot_write(path, &plot, error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, "it has 4097 heads; at most 4096 fit"));
    plot.H = plot.NK = 1;
    ck_assert(!mha_plot_write(folder, &plot, error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, "a directory"));
}
END_TEST

/* A full disk, played by a limit on file size: libpng is left by longjmp, nothing stays behind. */
START_TEST(reports_a_full_disk)
{
    enum { H = 4, NQ = 60, NK = 70 };
    static float weights[H * NQ * NK];
    const struct mha_plot plot = {.H = H, .NQ = NQ, .NK = NK, .weights = weights};
    struct rlimit limit = {1000, 1000};

    for (int i = 0; i < H * NQ * NK; i++) { /* noise, so that the file is long */
        weights[i] = (float)(i * 7919 % 10007);
    }
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert(!mha_plot_write(path, &plot, error, sizeof error));
    ck_assert_msg(strstr(error, strerror(EFBIG)) != NULL, "%s", error);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

/* Relative luminance of an sRGB colour. */
static double luminance(struct mha_colour colour)
{
    unsigned char bytes[] = {colour.red, colour.green, colour.blue};
    static const double weights[] = {0.2126, 0.7152, 0.0722};
    double sum = 0;

    for (int i = 0; i < 3; i++) {
        double encoded = bytes[i] / 255.0;
        sum += weights[i] *
               (encoded <= 0.04045 ? encoded / 12.92 : pow((encoded + 0.055) / 1.055, 2.4));
    }
    return sum;
}

START_TEST(colour_scale_rises_in_lightness)
{
    double last = -1;

    for (int i = 0; i <= 64; i++) {
        double now = luminance(mha_colour_map(i / 64.0));
        ck_assert_double_gt(now, last);
        last = now;
    }
    ck_assert_double_lt(luminance(mha_colour_map(0)), 0.02);
    ck_assert_double_gt(luminance(mha_colour_map(1)), 0.75);
    struct mha_colour below = mha_colour_map(-3), above = mha_colour_map((double)INFINITY);
    struct mha_colour first = mha_colour_map(0), end = mha_colour_map(1);
    ck_assert_mem_eq(&below, &first, sizeof first);
    ck_assert_mem_eq(&above, &end, sizeof end);
}
END_TEST

/* Each glyph leaves ink, no two leave the same, and turned text is the same picture turned. */
START_TEST(typeface_is_complete)
{
    enum { SIDE = 24, GLYPHS = '~' - '!' + 1 };
    static unsigned char ink[GLYPHS][SIDE * SIDE * 3];

    for (int glyph = 0; glyph < GLYPHS; glyph++) {
        const char text[] = {(char)('!' + glyph), '\0'};
        struct mha_canvas plain, turned;
        ck_assert(mha_canvas_create(&plain, SIDE, SIDE));
        ck_assert(mha_canvas_create(&turned, SIDE, SIDE));
        mha_font_draw(&plain, text, 4, 16, 2, 100, false, (struct mha_colour){0, 0, 0});
        mha_font_draw(&turned, text, 16, SIDE - 4, 2, 100, true, (struct mha_colour){0, 0, 0});
        memcpy(ink[glyph], plain.rgb, sizeof ink[glyph]);
        int darkest = 255;
        for (int y = 0; y < SIDE; y++) {
            for (int x = 0; x < SIDE; x++) {
                int here = plain.rgb[3 * (y * SIDE + x)];
                int there = turned.rgb[3 * ((SIDE - 1 - x) * SIDE + y)];
                ck_assert_int_le(abs(here - there), 1);
                darkest = here < darkest ? here : darkest;
            }
        }
        ck_assert_msg(darkest < 64, "'%s' leaves no ink", text);
        for (int other = 0; other < glyph; other++) {
            ck_assert_msg(memcmp(ink[glyph], ink[other], sizeof ink[glyph]) != 0,
                          "'%s' looks like '%c'", text, '!' + other);
        }
        mha_canvas_destroy(&plain);
        mha_canvas_destroy(&turned);
    }
}
END_TEST

START_TEST(text_is_measured_and_cut)
{
    struct mha_canvas canvas;

    ck_assert_double_eq(mha_font_width("", 2), 0);
    ck_assert_double_eq(mha_font_width("\xc4\xa0", 2), mha_font_width("?", 2));
    ck_assert_double_eq(mha_font_width("\xf0\x9f\x98\x80x", 2), mha_font_width("?x", 2));
    ck_assert_double_gt(mha_font_width("\xc4", 2), 0); /* broken UTF-8 ends with the string */
    ck_assert(mha_canvas_create(&canvas, 400, 30));
    mha_font_draw(&canvas, "wwwwwwwwwwwwwwwwwwwwwwwwwwww", 0, 20, 2, 100, false,
                  (struct mha_colour){0, 0, 0});
    for (int y = 0; y < 30; y++) {
        for (int x = 101; x < 400; x++) {
            ck_assert_int_eq(canvas.rgb[3 * (y * 400 + x)], 255);
        }
    }
    mha_font_draw(&canvas, "outside", -50, -50, 2, 1000, true, (struct mha_colour){0, 0, 0});
    mha_font_draw(&canvas, "outside", 390, 29, 2, 1000, false, (struct mha_colour){0, 0, 0});
    mha_canvas_destroy(&canvas);
}
END_TEST

static Suite *plot_suite(void)
{
    Suite *suite = suite_create("plot");
    TCase *pictures = tcase_create("pictures"), *parts = tcase_create("parts");

    tcase_add_checked_fixture(pictures, enter_folder, leave_folder);
    tcase_set_timeout(pictures, 120);
    tcase_add_test(pictures, puts_every_cell_at_its_place);
    tcase_add_test(pictures, gives_each_head_a_panel);
    tcase_add_test(pictures, draws_labels_and_title);
    tcase_add_loop_test(pictures, stays_below_4000_pixels, 0, sizeof sizes / sizeof sizes[0]);
    tcase_add_test(pictures, averages_blocks);
    tcase_add_test(pictures, survives_values_outside_the_scale);
    tcase_add_test(pictures, refuses_what_cannot_be_drawn);
    tcase_add_test(pictures, reports_a_full_disk);
    suite_add_tcase(suite, pictures);

    tcase_add_test(parts, colour_scale_rises_in_lightness);
    tcase_add_test(parts, typeface_is_complete);
    tcase_add_test(parts, text_is_measured_and_cut);
    suite_add_tcase(suite, parts);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(plot_suite());

    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
