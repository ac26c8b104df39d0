/*
 * layouts.c - see layouts.h.
 */
#include "layouts.h"

#include <stdlib.h>

/* Gaps, in elements. All different, so that two swapped strides cannot go unnoticed. */
#define GAP_INNER 3
#define GAP_MIDDLE 7
#define GAP_OUTER 13

const char *layout_name(enum layout_kind kind)
{
    static const char *const names[LAYOUT_COUNT] = {
        [LAYOUT_BHND] = "bhnd",
        [LAYOUT_BNHD] = "bnhd",
        [LAYOUT_PADDED] = "padded bhnd",
        [LAYOUT_PADDED_BNHD] = "padded bnhd",
    };
    return names[kind];
}

static void set_span(struct layout *l)
{
    l->span = 0;
    if (layout_count(l) > 0) {
        l->span = layout_index(l, l->B - 1, l->H - 1, l->N - 1, l->D - 1) + 1;
    }
}

struct layout layout_make(enum layout_kind kind, int64_t B, int64_t H, int64_t N, int64_t D,
                          int64_t offset)
{
    struct layout l = {.B = B, .H = H, .N = N, .D = D, .offset = offset};
    int padded = kind == LAYOUT_PADDED || kind == LAYOUT_PADDED_BNHD;
    int64_t inner = D + (padded ? GAP_INNER : 0);

    if (kind == LAYOUT_BHND || kind == LAYOUT_PADDED) {
        l.stride_n = inner;
        l.stride_h = N * l.stride_n + (padded ? GAP_MIDDLE : 0);
        l.stride_b = H * l.stride_h + (padded ? GAP_OUTER : 0);
    } else {
        l.stride_h = inner;
        l.stride_n = H * l.stride_h + (padded ? GAP_MIDDLE : 0);
        l.stride_b = N * l.stride_n + (padded ? GAP_OUTER : 0);
    }
    set_span(&l);
    return l;
}

void layout_make_qkv(int64_t B, int64_t N, int64_t H, int64_t HKV, int64_t DK, int64_t DV,
                     int64_t offset, struct layout *q, struct layout *k, struct layout *v)
{
    int64_t row = H * DK + HKV * DK + HKV * DV;

    *q = (struct layout){.B = B,
                         .H = H,
                         .N = N,
                         .D = DK,
                         .offset = offset,
                         .stride_b = N * row,
                         .stride_h = DK,
                         .stride_n = row};
    *k = *q;
    k->H = HKV;
    k->offset = q->offset + H * DK;
    *v = *k;
    v->D = v->stride_h = DV;
    v->offset = k->offset + HKV * DK;
    set_span(q);
    set_span(k);
    set_span(v);
}

int64_t layout_count(const struct layout *l)
{
    return l->B * l->H * l->N * l->D;
}

int64_t layout_index(const struct layout *l, int64_t b, int64_t h, int64_t n, int64_t d)
{
    return l->offset + b * l->stride_b + h * l->stride_h + n * l->stride_n + d;
}

/* Where element `flat` of the dense (B,H,N,D) array lies. */
static int64_t index_of_flat(const struct layout *l, int64_t flat)
{
    int64_t d = flat % l->D, row = flat / l->D;
    int64_t n = row % l->N, head = row / l->N;

    return layout_index(l, head / l->H, head % l->H, n, d);
}

void layout_scatter(const struct layout *l, enum storage_type type, void *storage,
                    const double *dense)
{
    for (int64_t n = 0; n < layout_count(l); n++) {
        storage_store(type, storage, index_of_flat(l, n), dense[n]);
    }
}

void layout_gather(const struct layout *l, enum storage_type type, const void *storage,
                   double *dense)
{
    for (int64_t n = 0; n < layout_count(l); n++) {
        dense[n] = storage_load(type, storage, index_of_flat(l, n));
    }
}

void *layout_new(const struct layout *l, enum storage_type type, int64_t elements, enum poison kind,
                 const double *dense)
{
    int64_t count = elements > l->span ? elements : l->span;
    void *storage;

    if (count < 1) {
        count = 1;
    }
    storage = calloc((size_t)count, storage_size(type));
    if (!storage) {
        return NULL;
    }
    storage_poison(type, storage, count, kind);
    if (dense) {
        layout_scatter(l, type, storage, dense);
    }
    return storage;
}

int64_t layout_first_changed_gap(const struct layout *l, enum storage_type type,
                                 const void *storage, int64_t elements, enum poison kind)
{
    unsigned char *used = calloc((size_t)elements + 1, 1);
    int64_t changed = -1;

    if (!used) {
        return -2;
    }
    for (int64_t n = 0; n < layout_count(l); n++) {
        int64_t at = index_of_flat(l, n);
        if (at < elements) {
            used[at] = 1;
        }
    }
    for (int64_t n = 0; n < elements && changed < 0; n++) {
        if (!used[n] && !storage_is_poison(type, storage, n, kind)) {
            changed = n;
        }
    }
    free(used);
    return changed;
}
