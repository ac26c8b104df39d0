/*
 * probe.c - problems, what is visible in them and what must come out; contexts and queues.
 */
#include "probe.h"

#include "assertions.h"
#include "queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXTS_MAX 16

#define ASSERT_OK(call) ck_assert_msg((call) == GPU_MHA_OK, "%s: %s", #call, gpu_mha_last_error())

static int64_t keys(const struct probe *p)
{
    return p->desc.NP + p->desc.NK;
}

static int64_t rows(const struct probe *p)
{
    return p->desc.B * p->desc.H * p->desc.NQ;
}

static void *alloc(int64_t count, size_t size)
{
    void *memory = calloc((size_t)(count > 0 ? count : 1), size);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

/* ---- problems ---- */

void probe_init(struct probe *p, const gpu_mha_desc *desc)
{
    *p = (struct probe){.desc = *desc};
    const gpu_mha_desc *d = &p->desc;
    p->desc.lse = 1;
    p->query = alloc_doubles(rows(p) * d->DK);
    p->key = alloc_doubles(d->B * d->HKV * d->NK * d->DK);
    p->value = alloc_doubles(d->B * d->HKV * d->NK * d->DV);
    p->past_key = alloc_doubles(d->B * d->HKV * d->NP * d->DK);
    p->past_value = alloc_doubles(d->B * d->HKV * d->NP * d->DV);
    for (int64_t b = 0; b < d->B; b++) {
        for (int64_t h = 0; h < d->HKV; h++) {
            for (int64_t j = 0; j < keys(p); j++) {
                for (int64_t e = 0; e < d->DK; e++) {
                    probe_key_row(p, b, h, j)[e] = (double)((j + e) % 5) - 2;
                }
                for (int64_t e = 0; e < d->DV; e++) {
                    probe_value_row(p, b, h, j)[e] = (double)(j + 1);
                }
            }
        }
    }
}

void probe_free(struct probe *p)
{
    void *const owned[] = {p->query,        p->key,         p->value,  p->past_key, p->past_value,
                           p->mask,         p->bias,        p->slopes, p->sinks,    p->key_lengths,
                           p->want_output,  p->want_lse,    p->output, p->lse,      p->weights,
                           p->want_weights, p->want_scores, p->scores};
    for (size_t n = 0; n < sizeof owned / sizeof owned[0]; n++) {
        free(owned[n]);
    }
    *p = (struct probe){0};
}

void probe_give_mask(struct probe *p, gpu_mha_mask_type type, int rank, const int64_t *shape)
{
    ASSERT_OK(gpu_mha_mask_broadcast(&p->desc, type, rank, shape));
    int64_t cells = 1;
    for (int a = 0; a < rank; a++) {
        cells *= shape[a];
    }
    if (type == GPU_MHA_MASK_BOOL) {
        p->mask = alloc(cells, 1);
        memset(p->mask, 1, (size_t)cells);
        p->mask_cells = cells;
    } else {
        p->bias = alloc_doubles(cells);
        p->bias_cells = cells;
    }
}

void probe_give_lengths(struct probe *p, gpu_mha_index_type type, const int64_t *lengths)
{
    p->desc.key_lengths = type;
    p->key_lengths = alloc(p->desc.B, sizeof *p->key_lengths);
    memcpy(p->key_lengths, lengths, (size_t)p->desc.B * sizeof *lengths);
}

static double *row_of(double *past, double *data, int64_t heads, int64_t NP, int64_t NK, int64_t D,
                      int64_t b, int64_t h, int64_t j)
{
    return j < NP ? past + ((b * heads + h) * NP + j) * D
                  : data + ((b * heads + h) * NK + j - NP) * D;
}

double *probe_key_row(struct probe *p, int64_t b, int64_t h, int64_t j)
{
    const gpu_mha_desc *d = &p->desc;
    return row_of(p->past_key, p->key, d->HKV, d->NP, d->NK, d->DK, b, h, j);
}

double *probe_value_row(struct probe *p, int64_t b, int64_t h, int64_t j)
{
    const gpu_mha_desc *d = &p->desc;
    return row_of(p->past_value, p->value, d->HKV, d->NP, d->NK, d->DV, b, h, j);
}

/* ---- what is visible ---- */

static int64_t length_of(const struct probe *p, int64_t b)
{
    if (!p->key_lengths) {
        return keys(p);
    }
    int64_t length = p->key_lengths[b];
    return length < 0 ? 0 : length > keys(p) ? keys(p) : length;
}

static int64_t position_of(const struct probe *p, int64_t b, int64_t i)
{
    switch (p->desc.offset_kind) {
    case GPU_MHA_BOTTOM_RIGHT:
        return i + length_of(p, b) - p->desc.NQ;
    case GPU_MHA_OFFSET:
        return i + p->desc.offset;
    default:
        return i;
    }
}

int64_t probe_cell(const struct probe *p, const gpu_mha_mask *m, const int64_t index[4])
{
    const int64_t full[4] = {p->desc.B, p->desc.H, p->desc.NQ, keys(p)};
    int64_t cell = 0, packed = 1;
    for (int a = 3; a >= 0; a--) {
        int64_t length = m->shape[a] ? m->shape[a] : full[a];
        if (length != 1) {
            cell += index[a] * (m->strided ? m->stride[a] : packed);
        }
        packed *= length;
    }
    return cell;
}

/* The masks that are not cells: causal, window, key length. */
static int geometry_shows(const struct probe *p, int64_t b, int64_t i, int64_t j)
{
    const gpu_mha_desc *d = &p->desc;
    int64_t at = position_of(p, b, i);
    if (j >= length_of(p, b) || (d->causal && j > at)) {
        return 0;
    }
    if (d->has_window && d->window_left >= 0 && j < at - d->window_left) {
        return 0;
    }
    return !(d->has_window && d->window_right >= 0 && j > at + d->window_right);
}

int probe_bias_is_read(const struct probe *p, const int64_t index[4])
{
    return geometry_shows(p, index[0], index[2], index[3]) &&
           (!p->mask || p->mask[probe_cell(p, &p->desc.mask, index)] != 0);
}

int probe_visible(const struct probe *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t index[4] = {b, h, i, j};
    return probe_bias_is_read(p, index) &&
           !(p->bias && p->bias[probe_cell(p, &p->desc.bias, index)] == -INFINITY);
}

/* ---- what must come out ---- */

void probe_want_rows(struct probe *p, const double *row_values, const double *lse)
{
    const gpu_mha_desc *d = &p->desc;
    p->want_output = alloc_doubles(rows(p) * d->DV);
    for (int64_t n = 0; n < rows(p) * d->DV; n++) {
        p->want_output[n] = row_values[n / d->DV];
    }
    if (lse) {
        p->want_lse = alloc_doubles(rows(p));
        memcpy(p->want_lse, lse, (size_t)rows(p) * sizeof *lse);
    }
}

void probe_spread_values(struct probe *p)
{
    const gpu_mha_desc *d = &p->desc;
    for (int64_t head = 0; head < d->B * d->HKV; head++) {
        for (int64_t j = 0; j < keys(p); j++) {
            double *v = probe_value_row(p, head / d->HKV, head % d->HKV, j);
            for (int64_t e = 0; e < d->DV; e++) {
                v[e] = (double)((17 * (head / d->HKV) + 5 * (head % d->HKV) + 3 * j + e) % 61 + 1);
            }
        }
    }
    p->value_peak = 61;
}

/* exp of what step 3 adds to the score of a visible key. */
static double weight_of(const struct probe *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t index[4] = {b, h, i, j};
    double s = p->bias ? p->bias[probe_cell(p, &p->desc.bias, index)] : 0;
    if (p->slopes) {
        s -= (double)p->slopes[h] * fabs((double)(position_of(p, b, i) - j));
    }
    return exp(s);
}

void probe_want_uniform(struct probe *p)
{
    const gpu_mha_desc *d = &p->desc;
    p->want_output = alloc_doubles(rows(p) * d->DV);
    p->want_lse = alloc_doubles(rows(p));
    for (int64_t row = 0; row < rows(p); row++) {
        const int64_t b = row / d->NQ / d->H, h = row / d->NQ % d->H, i = row % d->NQ;
        double *o = p->want_output + row * d->DV;
        double sum = p->sinks ? exp((double)p->sinks[h]) : 0;
        for (int64_t j = 0; j < keys(p); j++) {
            if (!probe_visible(p, b, h, i, j)) {
                continue;
            }
            const double w = weight_of(p, b, h, i, j);
            const double *v = probe_value_row(p, b, h / (d->H / d->HKV), j);
            for (int64_t e = 0; e < d->DV; e++) {
                o[e] += w * v[e];
            }
            sum += w;
        }
        for (int64_t e = 0; e < d->DV && sum > 0; e++) {
            o[e] /= sum;
        }
        p->want_lse[row] = log(sum);
    }
}

void probe_make_tail(struct probe *p, double query, const double *tail_keys)
{
    const gpu_mha_desc *d = &p->desc;
    const double scale = d->has_scale ? (double)d->scale : 1 / sqrt((double)d->DK);
    memset(p->query, 0, (size_t)(rows(p) * d->DK) * sizeof *p->query);
    for (int64_t row = 0; row < rows(p); row++) {
        p->query[row * d->DK + d->DK - 1] = query;
    }
    for (int64_t head = 0; head < d->B * d->HKV; head++) {
        for (int64_t j = 0; j < keys(p); j++) {
            double *k = probe_key_row(p, head / d->HKV, head % d->HKV, j);
            double *v = probe_value_row(p, head / d->HKV, head % d->HKV, j);
            memset(k, 0, (size_t)d->DK * sizeof *k);
            memset(v, 0, (size_t)d->DV * sizeof *v);
            k[d->DK - 1] = tail_keys[j];
            v[d->DV - 1] = (double)(j + 1);
        }
    }
    p->want_output = alloc_doubles(rows(p) * d->DV);
    p->want_lse = alloc_doubles(rows(p));
    for (int64_t row = 0; row < rows(p); row++) {
        double top = -INFINITY, sum = 0, weighted = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t j = 0; j < keys(p); j++) {
                double s = scale * query * tail_keys[j];
                if (!probe_visible(p, row / d->NQ / d->H, row / d->NQ % d->H, row % d->NQ, j)) {
                    continue;
                }
                if (pass == 0) {
                    top = fmax(top, s);
                    p->score_peak = fmax(p->score_peak, fabs(s));
                } else {
                    sum += exp(s - top);
                    weighted += exp(s - top) * (double)(j + 1);
                }
            }
        }
        p->want_lse[row] = top + log(sum);
        p->want_output[row * d->DV + d->DV - 1] = sum > 0 ? weighted / sum : 0;
    }
}

/* ---- contexts and queues ---- */

/* Kept to the end of the process, as the library keeps its own. */
static struct kept {
    char tile[32];
    gpu_mha_context *context;
    cl_command_queue queues[2];
} contexts[CONTEXTS_MAX];

gpu_mha_context *probe_context(void)
{
    const char *tile = getenv("GPU_MHA_TILE");
    for (int n = 0; n < CONTEXTS_MAX; n++) {
        struct kept *kept = &contexts[n];
        if (!kept->context) {
            ASSERT_OK(gpu_mha_context_create(NULL, &kept->context));
            snprintf(kept->tile, sizeof kept->tile, "%s", tile ? tile : "");
        }
        if (strcmp(kept->tile, tile ? tile : "") == 0) {
            return kept->context;
        }
    }
    ck_abort_msg("more than %d values of GPU_MHA_TILE", CONTEXTS_MAX);
    return NULL;
}

cl_command_queue probe_queue(gpu_mha_context *context, int out_of_order)
{
    struct kept *kept = contexts;
    while (kept->context != context) {
        kept++;
    }
    cl_command_queue *queue = &kept->queues[out_of_order];
    if (!*queue) {
        *queue = queue_make(context, out_of_order);
    }
    return *queue;
}

int probe_main(struct Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
