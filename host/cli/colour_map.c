/*
 * The colour scale; see colour_map.h. A few anchors are given by lightness, chroma and hue and
 * joined in the OKLab space, whose distances follow what the eye sees. Lightness rises at a steady
 * rate, so that the scale keeps its order in grey and for colour-blind readers.
 */
#include "colour_map.h"

#include <math.h>

struct anchor {
    double chroma, hue; /* hue in degrees */
};

static const struct anchor anchors[] = {
    {0.075, 305}, {0.115, 283}, {0.095, 245}, {0.095, 190},
    {0.145, 148}, {0.165, 118}, {0.150, 103},
};
enum { SEGMENTS = sizeof anchors / sizeof anchors[0] - 1 };

static const double DARKEST = 0.20, LIGHTEST = 0.94;
static const double RADIANS_PER_DEGREE = 0.017453292519943295;

/* Linear light 0..1 to an sRGB byte (IEC 61966-2-1). */
static unsigned char to_byte(double linear)
{
    double clamped = linear < 0 ? 0 : linear > 1 ? 1 : linear;
    double encoded = clamped <= 0.0031308 ? 12.92 * clamped : 1.055 * pow(clamped, 1 / 2.4) - 0.055;

    return (unsigned char)(encoded * 255 + 0.5);
}

static struct mha_colour from_oklab(double lightness, double a, double b)
{
    double l = lightness + 0.3963377774 * a + 0.2158037573 * b;
    double m = lightness - 0.1055613458 * a - 0.0638541728 * b;
    double s = lightness - 0.0894841775 * a - 1.2914855480 * b;

    l = l * l * l;
    m = m * m * m;
    s = s * s * s;
    return (struct mha_colour){
        .red = to_byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
        .green = to_byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
        .blue = to_byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s),
    };
}

struct mha_colour mha_colour_map(double share)
{
    static const struct mha_colour not_a_number = {255, 0, 255};

    if (isnan(share)) {
        return not_a_number;
    }
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    int segment = (int)(share * SEGMENTS);
    if (segment == SEGMENTS) {
        segment--;
    }
    double part = share * SEGMENTS - segment;
    const struct anchor *from = &anchors[segment], *to = &anchors[segment + 1];
    double from_hue = from->hue * RADIANS_PER_DEGREE, to_hue = to->hue * RADIANS_PER_DEGREE;
    double a = (1 - part) * from->chroma * cos(from_hue) + part * to->chroma * cos(to_hue);
    double b = (1 - part) * from->chroma * sin(from_hue) + part * to->chroma * sin(to_hue);

    return from_oklab(DARKEST + (LIGHTEST - DARKEST) * share, a, b);
}
