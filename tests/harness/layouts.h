/*
 * layouts.h - where the elements of a (B,H,N,D) tensor lie in a buffer.
 *
 * A test keeps dense doubles for the reference and scatters them into storage under some layout;
 * the gaps hold poison before the call and must still hold it afterwards.
 */
#ifndef MHA_TESTS_LAYOUTS_H
#define MHA_TESTS_LAYOUTS_H

#include "storage.h"

#include <stdint.h>

enum layout_kind {
    LAYOUT_BHND,       /* packed [B,H,N,D] */
    LAYOUT_BNHD,       /* packed [B,N,H,D], also [B,N,H*D] */
    LAYOUT_PADDED,     /* [B,H,N,D] with a different gap behind every row, head and batch */
    LAYOUT_PADDED_BNHD /* [B,N,H,D] with such gaps */
};
#define LAYOUT_COUNT 4

/* Strides, offset and span count elements. */
struct layout {
    int64_t B, H, N, D;
    int64_t offset;
    int64_t stride_b, stride_h, stride_n;
    int64_t span; /* from the start of the buffer to behind the last element; 0 = no element */
};

const char *layout_name(enum layout_kind kind);

struct layout layout_make(enum layout_kind kind, int64_t B, int64_t H, int64_t N, int64_t D,
                          int64_t offset);

/*
 * Interleaved: one row of H*DK + HKV*DK + HKV*DV elements per position holds q, then k, then v of
 * all heads. Makes the three layouts over one buffer, whose size is the largest of their spans.
 */
void layout_make_qkv(int64_t B, int64_t N, int64_t H, int64_t HKV, int64_t DK, int64_t DV,
                     int64_t offset, struct layout *q, struct layout *k, struct layout *v);

int64_t layout_count(const struct layout *l); /* B*H*N*D */
int64_t layout_index(const struct layout *l, int64_t b, int64_t h, int64_t n, int64_t d);

/* Writes the elements, and nothing else. */
void layout_scatter(const struct layout *l, enum storage_type type, void *storage,
                    const double *dense);
void layout_gather(const struct layout *l, enum storage_type type, const void *storage,
                   double *dense);

/* malloc'd buffer of `elements` (at least one, at least span) elements: poison, then the tensor
 * (dense may be NULL). NULL when memory is out. */
void *layout_new(const struct layout *l, enum storage_type type, int64_t elements, enum poison kind,
                 const double *dense);

/* Whether everything in the buffer outside the tensor still is poison: -1, or the index of the
 * first element that is not. -2 when memory is out. */
int64_t layout_first_changed_gap(const struct layout *l, enum storage_type type,
                                 const void *storage, int64_t elements, enum poison kind);

#endif
