/* Drawing into memory, and libpng; see canvas.h. */
#include "canvas.h"

#include <png.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output_file.h"
#include "report.h"

bool mha_canvas_create(struct mha_canvas *canvas, int width, int height)
{
    memset(canvas, 0, sizeof *canvas);
    if (width < 1 || height < 1 || (size_t)width > SIZE_MAX / 3 / (size_t)height) {
        return false;
    }
    size_t bytes = (size_t)width * (size_t)height * 3;
    canvas->rgb = malloc(bytes);
    if (!canvas->rgb) {
        return false;
    }
    memset(canvas->rgb, 0xff, bytes);
    canvas->width = width;
    canvas->height = height;
    return true;
}

void mha_canvas_destroy(struct mha_canvas *canvas)
{
    free(canvas->rgb);
    memset(canvas, 0, sizeof *canvas);
}

static unsigned char *pixel(const struct mha_canvas *canvas, int x, int y)
{
    return canvas->rgb + ((size_t)y * (size_t)canvas->width + (size_t)x) * 3;
}

void mha_canvas_fill(struct mha_canvas *canvas, int x, int y, int width, int height,
                     struct mha_colour colour)
{
    int left = x > 0 ? x : 0, right = x + width < canvas->width ? x + width : canvas->width;
    int top = y > 0 ? y : 0, bottom = y + height < canvas->height ? y + height : canvas->height;

    for (int row = top; row < bottom; row++) {
        for (int column = left; column < right; column++) {
            unsigned char *rgb = pixel(canvas, column, row);
            rgb[0] = colour.red;
            rgb[1] = colour.green;
            rgb[2] = colour.blue;
        }
    }
}

static unsigned char mix(unsigned char from, unsigned char to, double share)
{
    return (unsigned char)(from + (to - from) * share + 0.5);
}

void mha_canvas_blend(struct mha_canvas *canvas, int x, int y, struct mha_colour colour,
                      double coverage)
{
    if (x < 0 || y < 0 || x >= canvas->width || y >= canvas->height) {
        return;
    }
    unsigned char *rgb = pixel(canvas, x, y);
    rgb[0] = mix(rgb[0], colour.red, coverage);
    rgb[1] = mix(rgb[1], colour.green, coverage);
    rgb[2] = mix(rgb[2], colour.blue, coverage);
}

/* What libpng's callbacks need. */
struct sink {
    struct mha_output_file *file;
    char message[128];
};

static void on_error(png_structp png, png_const_charp message)
{
    struct sink *sink = png_get_error_ptr(png);

    snprintf(sink->message, sizeof sink->message, "%s", message);
    longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message; /* libpng warns about files it reads; nothing of ours can cause one */
}

static void on_write(png_structp png, png_bytep data, size_t size)
{
    struct sink *sink = png_get_io_ptr(png);

    if (!mha_output_file_write(sink->file, data, size)) {
        png_error(png, "write error");
    }
}

static void on_flush(png_structp png)
{
    (void)png; /* the commit of the file flushes */
}

/*
 * Encodes into sink->file. libpng leaves by longjmp at an error, so that everything it may need
 * afterwards is set before setjmp and never changed behind it.
 */
static bool encode(const struct mha_canvas *canvas, struct sink *sink)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, sink, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;

    if (!info) {
        snprintf(sink->message, sizeof sink->message, "out of memory");
        png_destroy_write_struct(&png, NULL);
        return false;
    }
    if (setjmp(png_jmpbuf(png))) {
        png_destroy_write_struct(&png, &info);
        return false;
    }
    png_set_write_fn(png, sink, on_write, on_flush);
    png_set_IHDR(png, info, (png_uint_32)canvas->width, (png_uint_32)canvas->height, 8,
                 PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_set_sRGB(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
    png_write_info(png, info);
    for (int y = 0; y < canvas->height; y++) {
        png_write_row(png, pixel(canvas, 0, y));
    }
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    return true;
}

bool mha_canvas_save(const struct mha_canvas *canvas, const char *path, char *error,
                     size_t error_size)
{
    struct mha_output_file file;
    struct sink sink = {.file = &file};

    if (!mha_output_file_open(&file, path, error, error_size)) {
        return false;
    }
    if (!encode(canvas, &sink) && file.failure == 0) {
        mha_output_file_discard(&file);
        return mha_fail(error, error_size, "cannot write '%s': libpng: %s", path, sink.message);
    }
    return mha_output_file_commit(&file, error, error_size); /* reports a failed write, too */
}
