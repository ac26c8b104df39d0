/*
 * Rows that will be read soon, asked for line by line: they are read in runs too short for a CPU to
 * foresee, or by a work-item that has not begun. A hint, where the compiler makes code for the CPU
 * itself; one for a portable form or a simulator may not know it.
 */
#ifndef MHA_PREFETCH_H
#define MHA_PREFETCH_H

#include "common/types.h"

#if defined(__has_builtin) && (defined(__x86_64__) || defined(__aarch64__))
#if __has_builtin(__builtin_prefetch)
#define MHA_PREFETCH(pointer) __builtin_prefetch((const void *)(size_t)(pointer), 0, 2)
#endif
#endif
#ifndef MHA_PREFETCH
#define MHA_PREFETCH(pointer) ((void)(pointer))
#endif

#define MHA_PREFETCH_LINE 64

/* `count` elements from element `at` on. */
MHA_INLINE void mha_prefetch_row(__global const void *data, mha_i32 type, mha_i64 at, int count)
{
    const int size = type == MHA_TYPE_F32 ? 4 : 2;
    __global const char *from = (__global const char *)data + at * size;
    for (int x = 0; x < count * size; x += MHA_PREFETCH_LINE) {
        MHA_PREFETCH(from + x);
    }
}

#endif
