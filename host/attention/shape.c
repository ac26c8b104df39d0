/* Shapes as text, and whether one fits a problem and a device. */
#include "attention/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/tuning_table.h"
#include "cl/verdicts.h"

/* With more queries packing pays. */
#define DECODE_QUERIES_MAX 4
#define DECODE_VECTORS_MAX 16

/* Of packed keys and values: what stays in a core's cache. */
#define HEAD_BYTES_MAX ((int64_t)128 * 1024)

/* With fewer there is no choice of how to divide them. */
#define HEADS_MIN 8

/* Of a lane; beyond, compilers take minutes and the rows lie in memory. */
#define REGISTERS_MAX 640

static int is_power_of_two(int n, int least, int most)
{
    return n >= least && n <= most && (n & (n - 1)) == 0;
}

static gpu_mha_status parse_shared(const char *name, const char *text, struct mha_shared *shared)
{
    struct mha_shared s = {0};
    char rest = '\0';
    const int fields = sscanf(text, "shared %4d,%4d,%4d,%4d,%4d,%4d,%4d,%4d%c", &s.LR, &s.LC, &s.MQ,
                              &s.NK, &s.DC, &s.KC, &s.query, &s.sub_group, &rest);
    MHA_INVALID_IF(fields != 8,
                   "%s is \"%.64s\": it must be shared LR,LC,MQ,NK,DC,KC,QUERY,SUBGROUP", name,
                   text);
    MHA_INVALID_IF(!is_power_of_two(s.LR, 1, 64),
                   "%s: LR is %d: it must be a power of two from 1 to 64", name, s.LR);
    MHA_INVALID_IF(!is_power_of_two(s.LC, 4, 64),
                   "%s: LC is %d: it must be a power of two from 4 to 64", name, s.LC);
    MHA_INVALID_IF(s.MQ < 1 || s.MQ > 16, "%s: MQ is %d: it must be from 1 to 16", name, s.MQ);
    MHA_INVALID_IF(s.NK != 4 && s.NK != 8, "%s: NK is %d: it must be 4 or 8", name, s.NK);
    MHA_INVALID_IF(s.DC != 16 && s.DC != 32 && s.DC != 64, "%s: DC is %d: it must be 16, 32 or 64",
                   name, s.DC);
    MHA_INVALID_IF(!is_power_of_two(s.KC, 1, s.NK),
                   "%s: KC is %d: it must be a power of two, at most NK", name, s.KC);
    MHA_INVALID_IF(s.LC * s.KC > 64, "%s: LC * KC is %d: it must be at most 64", name, s.LC * s.KC);
    MHA_INVALID_IF(s.MQ * s.NK > 64, "%s: MQ * NK is %d: it must be at most 64", name, s.MQ * s.NK);
    MHA_INVALID_IF(s.query != 0 && s.query != 1, "%s: QUERY is %d: it must be 0 or 1", name,
                   s.query);
    MHA_INVALID_IF(s.sub_group != 0 && s.sub_group != 1, "%s: SUBGROUP is %d: it must be 0 or 1",
                   name, s.sub_group);
    *shared = s;
    return GPU_MHA_OK;
}

static gpu_mha_status parse_rows(const char *name, const char *text, struct mha_rows_tile *rows)
{
    struct mha_rows_tile r = {0};
    char rest = '\0';
    const int fields = sscanf(text, "rows %4d,%4d,%4d%c", &r.MQ, &r.NK, &r.NC, &rest);
    MHA_INVALID_IF(fields != 3, "%s is \"%.64s\": it must be rows MQ,NK,NC", name, text);
    MHA_INVALID_IF(r.MQ < 1 || r.MQ > 4, "%s: MQ is %d: it must be from 1 to 4", name, r.MQ);
    MHA_INVALID_IF(r.NK != 4 && r.NK != 8 && r.NK != 16, "%s: NK is %d: it must be 4, 8 or 16",
                   name, r.NK);
    MHA_INVALID_IF(r.NC < 4 || r.NC > 64 || r.NC % 4 != 0,
                   "%s: NC is %d: it must be a multiple of 4 from 4 to 64", name, r.NC);
    MHA_INVALID_IF(r.MQ * r.NK > 64, "%s: MQ * NK is %d: it must be at most 64", name, r.MQ * r.NK);
    *rows = r;
    return GPU_MHA_OK;
}

gpu_mha_status mha_shape_parse(const char *name, const char *text, struct mha_shape *shape)
{
    struct mha_shape s = {.path = MHA_PATH_SHARED};
    if (strncmp(text, "shared ", 7) == 0) {
        MHA_TRY(parse_shared(name, text, &s.shared));
    } else if (strncmp(text, "rows ", 5) == 0) {
        s.path = MHA_PATH_ROWS;
        MHA_TRY(parse_rows(name, text, &s.rows));
    } else {
        MHA_TRY(mha_tile_parse(name, text, &s.tile));
        s.path = s.tile.MQ == 0                    ? MHA_PATH_DECODE
                 : strncmp(text, "heads ", 6) == 0 ? MHA_PATH_HEADS
                                                   : MHA_PATH_FUSED;
    }
    *shape = s;
    return GPU_MHA_OK;
}

void mha_shape_text(const struct mha_shape *shape, char *text, size_t size)
{
    const struct mha_tile *t = &shape->tile;
    const struct mha_shared *s = &shape->shared;
    const struct mha_rows_tile *r = &shape->rows;
    switch (shape->path) {
    case MHA_PATH_SHARED:
        snprintf(text, size, "shared %d,%d,%d,%d,%d,%d,%d,%d", s->LR, s->LC, s->MQ, s->NK, s->DC,
                 s->KC, s->query, s->sub_group);
        break;
    case MHA_PATH_ROWS:
        snprintf(text, size, "rows %d,%d,%d", r->MQ, r->NK, r->NC);
        break;
    case MHA_PATH_DECODE:
        snprintf(text, size, "decode %d", t->VEC);
        break;
    default:
        snprintf(text, size, "%s %d,%d,%d,%d", shape->path == MHA_PATH_HEADS ? "heads" : "fused",
                 t->MQ, t->VEC, t->NV, t->TB);
        break;
    }
}

void mha_shape_name(const struct mha_shape *shape, char *name, size_t size)
{
    struct mha_shape named = *shape;
    struct mha_tile *t = &named.tile;
    for (int row = 0; row < MHA_TUNING_ROWS; ++row) {
        const struct mha_tile *known = &mha_tuning_table[row].tile;
        if (t->VEC == known->VEC && t->NV == known->NV && t->TB == known->TB) {
            t->MQ = known->MQ;
            break;
        }
    }
    if (shape->path == MHA_PATH_STAGED) {
        snprintf(name, size, "staged %d,%d,%d,%d", t->MQ, t->VEC, t->NV, t->TB);
    } else {
        mha_shape_text(&named, name, size);
    }
}

gpu_mha_verdict mha_shape_to_avoid(const struct mha_problem *p, const struct mha_device *device,
                                   const struct mha_shape *shape)
{
    char name[MHA_SHAPE_TEXT];
    unsigned types = MHA_TYPE_BIT(p->query.type) | MHA_TYPE_BIT(p->key.type) |
                     MHA_TYPE_BIT(p->value.type) | MHA_TYPE_BIT(p->output.type);
    if (device->verdicts == NULL) {
        return GPU_MHA_VERDICT_NONE;
    }
    if (p->desc.NP > 0) {
        types |= MHA_TYPE_BIT(p->past_key.type) | MHA_TYPE_BIT(p->past_value.type);
    }
    mha_shape_name(shape, name, sizeof name);
    return mha_verdict_to_avoid(device, name, types);
}

gpu_mha_status mha_shape_from_environment(struct mha_shape *shape, int *given)
{
    const char *text = getenv("GPU_MHA_TILE");
    *given = text != NULL && text[0] != '\0';
    return *given ? mha_shape_parse("GPU_MHA_TILE", text, shape) : GPU_MHA_OK;
}

int mha_shape_rows(const struct mha_shape *shape)
{
    return shape->path == MHA_PATH_SHARED ? shape->shared.LR * shape->shared.MQ
           : shape->path == MHA_PATH_ROWS ? shape->rows.MQ
                                          : shape->tile.MQ;
}

int mha_shape_keys(const struct mha_shape *shape)
{
    return shape->path == MHA_PATH_SHARED ? shape->shared.LC * shape->shared.NK
           : shape->path == MHA_PATH_ROWS ? shape->rows.NK
                                          : shape->tile.VEC * shape->tile.NV;
}

int64_t mha_shape_row_pitch(const struct mha_shape *shape, int64_t NQ)
{
    const int64_t rows = mha_shape_rows(shape);
    return NQ < rows ? NQ : mha_size_round_up(NQ, rows);
}

/* As the local arrays of kernels/shared.cl; 1024 bytes hold its struct mha_group and flags. */
int64_t mha_shape_local_bytes(const struct mha_shape *shape, int64_t DK)
{
    const struct mha_shared *s = &shape->shared;
    if (shape->path != MHA_PATH_SHARED) {
        return 0;
    }
    const int64_t rows = s->LR * s->MQ, keys = s->LC * s->NK, chunk = s->LC * s->KC;
    const int64_t query = rows * ((s->query ? mha_size_round_up(DK, s->DC) : s->DC) + 4);
    const int64_t key = keys * (s->DC + 4), value = chunk * 4 * s->LC;
    const int64_t weights = rows * (chunk + 4);
    return (int64_t)sizeof(float) * (query + (key > value ? key : value) + weights) + 1024;
}

/* Scores and their sums, outputs and what rounding took from them, and what passes through. */
int64_t mha_shape_registers(const struct mha_shape *shape, int64_t DK, int64_t DV)
{
    const struct mha_shared *s = &shape->shared;
    const int64_t scores = (DK > 128 ? 3 : 2) * s->NK;
    const int64_t outputs = 8 * mha_size_ceil_div(DV, 4 * (int64_t)s->LC);
    return s->MQ * (scores + outputs) + 4 * s->NK + 24;
}

/* For functions that say why a shape does not fit. */
#define REFUSE_IF(condition, ...)                                                                  \
    do {                                                                                           \
        if (condition) {                                                                           \
            snprintf(reason, size, __VA_ARGS__);                                                   \
            return 0;                                                                              \
        }                                                                                          \
    } while (0)

static int shared_fits(const struct mha_problem *p, const struct mha_device *device,
                       const struct mha_shape *shape, char *reason, size_t size)
{
    const struct mha_shared *s = &shape->shared;
    const size_t lanes = (size_t)s->LR * (size_t)s->LC;
    const size_t most = device->max_work_group_size < device->max_work_items_0
                            ? device->max_work_group_size
                            : device->max_work_items_0;
    const int64_t local = mha_shape_local_bytes(shape, p->desc.DK);
    const int64_t registers = mha_shape_registers(shape, p->desc.DK, p->desc.DV);
    const int told = device->sub_groups == MHA_SUB_GROUPS_FIXED && device->lanes == (cl_uint)s->LC;
    const int asked = device->sub_groups == MHA_SUB_GROUPS_ASKED && s->LC >= 8 && s->LC <= 32 &&
                      (cl_uint)s->LC >= device->lanes;
    REFUSE_IF(lanes > most, "a group has %zu work-items, the device runs at most %zu", lanes, most);
    REFUSE_IF((cl_ulong)local > device->local_bytes,
              "a group takes %" PRId64 " bytes of local memory, the device has %" PRIu64, local,
              (uint64_t)device->local_bytes);
    REFUSE_IF(registers > REGISTERS_MAX,
              "a lane takes some %" PRId64 " registers, at most %d are allowed", registers,
              REGISTERS_MAX);
    REFUSE_IF(s->sub_group && !told && !asked, "the device promises no sub-groups of %d", s->LC);
    return 1;
}

/*
 * The decode kernel reads keys and values once for all rows of a group, but holds all these rows.
 * It knows one storage type for past and new ones. Its products are summed lane by lane without
 * groups.
 */
static int decode_fits(const struct mha_problem *p, const struct mha_device *device,
                       const struct mha_shape *shape, char *reason, size_t size)
{
    const gpu_mha_desc *d = &p->desc;
    const int64_t rows = mha_size_mul(d->H / d->HKV, d->NQ);
    struct mha_tile tile = shape->tile;
    REFUSE_IF(d->NQ > DECODE_QUERIES_MAX, "NQ is %" PRId64 ", the decode kernel takes at most %d",
              d->NQ, DECODE_QUERIES_MAX);
    REFUSE_IF(d->NP > 0 && (p->key.type != p->past_key.type || p->value.type != p->past_value.type),
              "past and new keys or values differ in type, the decode kernel takes one");
    REFUSE_IF(d->DK > (int64_t)DECODE_VECTORS_MAX * tile.VEC,
              "DK is %" PRId64 ", the decode kernel takes at most %d vectors of %d", d->DK,
              DECODE_VECTORS_MAX, tile.VEC);
    REFUSE_IF(!mha_tile_fit_decode(device, rows, d->DK + 2 * d->DV, &tile),
              "the decode kernel does not hold %" PRId64 " rows of %" PRId64 " floats here", rows,
              d->DK + 2 * d->DV);
    return 1;
}

int64_t mha_shape_head_keys(int64_t NT)
{
    int64_t keys = 32; /* a multiple of every tile's keys */
    while (keys < NT && keys < HEAD_BYTES_MAX) {
        keys *= 2;
    }
    return keys;
}

/* Of the packed keys and values of a head. */
static int64_t head_bytes(const struct mha_problem *p, int64_t VEC)
{
    const int64_t columns = p->desc.DK + mha_size_round_up(p->desc.DV, VEC);
    return mha_size_mul(mha_shape_head_keys(p->NT), columns * (int64_t)sizeof(float));
}

int mha_shape_is_short(const struct mha_problem *p)
{
    return head_bytes(p, 16) <= HEAD_BYTES_MAX && mha_size_mul(p->desc.B, p->desc.HKV) >= HEADS_MIN;
}

static int heads_fit(const struct mha_problem *p, const struct mha_device *device,
                     const struct mha_shape *shape, char *reason, size_t size)
{
    const int64_t bytes = head_bytes(p, shape->tile.VEC);
    REFUSE_IF(!(device->type & CL_DEVICE_TYPE_CPU), "its work-items are for the cores of a CPU");
    REFUSE_IF(bytes > HEAD_BYTES_MAX,
              "a head takes %" PRId64 " bytes packed, at most %" PRId64 " are kept in a cache",
              bytes, HEAD_BYTES_MAX);
    return 1;
}

int mha_shape_fits(const struct mha_problem *p, const struct mha_device *device,
                   const struct mha_shape *shape, char *reason, size_t size)
{
    switch (shape->path) {
    case MHA_PATH_SHARED:
        return shared_fits(p, device, shape, reason, size);
    case MHA_PATH_HEADS:
        return heads_fit(p, device, shape, reason, size);
    case MHA_PATH_DECODE:
        return decode_fits(p, device, shape, reason, size);
    default:
        return 1;
    }
}

int mha_shape_is_staged(const struct mha_problem *p)
{
    const gpu_mha_desc *d = &p->desc;
    return d->method == GPU_MHA_STAGED || d->weights != GPU_MHA_WEIGHTS_NONE ||
           d->scores != GPU_MHA_SCORES_NONE;
}

static int round_up_to_power(int64_t n)
{
    int power = 16;
    while (power < n && power < 1 << 20) {
        power *= 2;
    }
    return power;
}

void mha_shape_key(const struct mha_problem *p, char *text, size_t size)
{
    const gpu_mha_desc *d = &p->desc;
    const char *kind = d->NQ <= DECODE_QUERIES_MAX ? "decode"
                       : mha_shape_is_short(p)     ? "short"
                       : d->NQ < 64                ? "few"
                                                   : "prefill";
    snprintf(text, size, "%s dk%d dv%d %s", kind, round_up_to_power(d->DK),
             round_up_to_power(d->DV), mha_type_name(p->key.type));
}
