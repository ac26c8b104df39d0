/* Saturating 64-bit sizes. */
#include "core/size.h"

int64_t mha_size_add(int64_t a, int64_t b)
{
    if (a < 0 || b < 0 || a > INT64_MAX - b) {
        return INT64_MAX;
    }
    return a + b;
}

int64_t mha_size_mul(int64_t a, int64_t b)
{
    if (a < 0 || b < 0) {
        return INT64_MAX;
    }
    if (b != 0 && a > INT64_MAX / b) {
        return INT64_MAX;
    }
    return a * b;
}

int64_t mha_size_round_up(int64_t a, int64_t step)
{
    return mha_size_mul(mha_size_ceil_div(a, step), step);
}

int64_t mha_size_ceil_div(int64_t a, int64_t b)
{
    if (a < 0 || a == INT64_MAX) {
        return INT64_MAX;
    }
    return a / b + (a % b != 0);
}

int mha_size_fits(int64_t a)
{
    return a >= 0 && a < INT64_MAX && (uint64_t)a <= (uint64_t)PTRDIFF_MAX;
}
