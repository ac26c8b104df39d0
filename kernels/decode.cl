/*
 * Fused attention for few queries (decoding), bound by reading keys and values: they are read once,
 * where they lie, for all query heads of a group, and are not packed.
 *
 * A work-item owns all MQ = (H / HKV) * NQ query rows of one key/value head, and its share of the
 * keys. A key tile is one vector of VEC keys: their products with a row are summed lane by lane
 * along d, and then turned, so that one vector holds a row's scores with all of them. From there on
 * it is the online softmax of fused.cl.
 *
 * ND-range: one work-item per (b, kv head, split). No local memory, no barriers. With splits > 1
 * each leaves its normalised output and LSE in the workspace, and merge.cl joins them.
 *
 * -D names: as common/tile.h, with NV 1; KEY_TYPE, VALUE_TYPE, the storage of keys and values, past
 * ones included (MHA_TYPE_*).
 */
#include "common/online.h"

#if !defined(KEY_TYPE) || !defined(VALUE_TYPE)
#error "KEY_TYPE and VALUE_TYPE must be defined"
#endif

/* Vectors of output columns that are summed in registers in one walk over a block's keys. */
#define DECODE_COLUMNS (MQ > 12 ? 1 : MQ > 6 ? 2 : MQ > 3 ? 4 : 8)

/* Elements of a row's vector `c`. */
#define MHA_ELEMENTS(D, c) ((D) - (c)*VEC < VEC ? (D) - (c)*VEC : VEC)

/* Neighbouring lanes added: the sums of x in the lower half, those of y in the upper. */
#define MHA_PAIRS(x, y) ((mha_floatv)((x).even, (y).even) + (mha_floatv)((x).odd, (y).odd))

/* VEC vectors to one: lane c is the sum over the lanes of v[c]. The vectors are used up. */
MHA_INLINE MHA_WIDE mha_floatv mha_turn(mha_floatv *v)
{
#pragma unroll
    for (int width = VEC; width > 1; width /= 2) {
#pragma unroll
        for (int x = 0; x < width / 2; ++x) {
            v[x] = MHA_PAIRS(v[2 * x], v[2 * x + 1]);
        }
    }
    return v[0];
}

/* Where key or value j of kv head (b, g) begins. */
struct mha_place {
    __global const void *data;
    mha_i64 at;
};

MHA_INLINE struct mha_place mha_place_of(const struct mha_params *p, __global const void *past,
                                         struct mha_tensor_params past_tensor,
                                         __global const void *data, struct mha_tensor_params tensor,
                                         mha_i64 b, mha_i64 g, mha_i64 j)
{
    const int is_past = j < p->NP;
    const struct mha_place place = {is_past ? past : data, is_past
                                                               ? mha_row(past_tensor, b, g, j)
                                                               : mha_row(tensor, b, g, j - p->NP)};
    return place;
}

/*
 * A row that will be read soon, asked for line by line: the rows of a block are read in runs too
 * short for a CPU to foresee. A hint, where the compiler makes code for the CPU itself; one for a
 * portable form or a simulator may not know it.
 */
#if defined(__has_builtin) && (defined(__x86_64__) || defined(__aarch64__))
#if __has_builtin(__builtin_prefetch)
#define MHA_PREFETCH(pointer) __builtin_prefetch((const void *)(size_t)(pointer))
#endif
#endif
#ifndef MHA_PREFETCH
#define MHA_PREFETCH(pointer) ((void)(pointer))
#endif

MHA_INLINE void mha_prefetch_row(struct mha_place row, const int type, int elements)
{
    const int bytes = elements * (type == MHA_TYPE_F32 ? 4 : 2);
    __global const char *from =
        (__global const char *)row.data + row.at * (type == MHA_TYPE_F32 ? 4 : 2);
    for (int at = 0; at < bytes; at += 64) {
        MHA_PREFETCH(from + at);
    }
}

/*
 * The products of all rows with VEC keys; keys beyond `last` are read as `last`. Meanwhile the
 * values of these keys and the keys of the tile after the next are fetched.
 */
MHA_INLINE MHA_WIDE void mha_decode_scores(const struct mha_params *p, const mha_floatv *q,
                                           __global const void *key, __global const void *past,
                                           __global const void *value,
                                           __global const void *past_value, mha_i64 b, mha_i64 g,
                                           mha_i64 first, mha_i64 last, mha_floatv *s)
{
    mha_floatv products[MQ * VEC];
    for (int c = 0; c < VEC; ++c) {
        const mha_i64 j = first + c < last ? first + c : last;
        const struct mha_place from = mha_place_of(p, past, p->past_key, key, p->key, b, g, j);
        const mha_i64 ahead = j + 2 * VEC < p->NT ? j + 2 * VEC : p->NT - 1;
        mha_prefetch_row(mha_place_of(p, past, p->past_key, key, p->key, b, g, ahead), KEY_TYPE,
                         DK);
        mha_prefetch_row(mha_place_of(p, past_value, p->past_value, value, p->value, b, g, j),
                         VALUE_TYPE, DV);
        mha_floatv sum[MQ];
#pragma unroll
        for (int r = 0; r < MQ; ++r) {
            sum[r] = 0.0f;
        }
        for (int v = 0; v < DK / VEC; ++v) {
            const mha_floatv k = mha_load_vector(from.data, KEY_TYPE, from.at + v * VEC, VEC);
#pragma unroll
            for (int r = 0; r < MQ; ++r) {
                sum[r] = MHA_FMA(q[r * DKV + v], k, sum[r]);
            }
        }
        if (DK % VEC != 0) {
            const mha_floatv k =
                mha_load_vector(from.data, KEY_TYPE, from.at + DK / VEC * VEC, DK % VEC);
            for (int r = 0; r < MQ; ++r) {
                sum[r] = MHA_FMA(q[r * DKV + DKV - 1], k, sum[r]);
            }
        }
#pragma unroll
        for (int r = 0; r < MQ; ++r) {
            products[r * VEC + c] = sum[r];
        }
    }
    for (int r = 0; r < MQ; ++r) {
        s[r] = mha_turn(products + r * VEC);
    }
}

/*
 * Adds one column's values of the keys [start, end) of a block, each to the rows that see it: 0
 * times a NaN would not be 0.
 */
MHA_INLINE MHA_WIDE void mha_decode_column(const float *w, const struct mha_place *from, int start,
                                           int end, const uint *bits, int column,
                                           struct mha_outputs *o)
{
    mha_floatv sum[MQ];
    for (int r = 0; r < MQ; ++r) {
        sum[r] = 0.0f;
    }
    for (int j = start; j < end; ++j) {
        uint seen = 0;
        for (int r = 0; r < MQ; ++r) {
            seen |= bits[j / KT * MQ + r] >> (j % KT) & 1u;
        }
        if (seen == 0) {
            continue;
        }
        const mha_floatv v = mha_load_vector(from[j].data, VALUE_TYPE, from[j].at + column * VEC,
                                             MHA_ELEMENTS(DV, column));
        for (int r = 0; r < MQ; ++r) {
            if (bits[j / KT * MQ + r] >> (j % KT) & 1u) {
                sum[r] = MHA_FMA((mha_floatv)(w[r * KB + j]), v, sum[r]);
            }
        }
    }
    for (int r = 0; r < MQ; ++r) {
        mha_add_v(&o->total[r * DVV + column], &o->rest[r * DVV + column], sum[r]);
    }
}

/* Adds the values of one block of keys: in registers, where every row sees every key. */
MHA_INLINE MHA_WIDE void mha_decode_values(const struct mha_params *p, const float *w,
                                           __global const void *value, __global const void *past,
                                           mha_i64 b, mha_i64 g, mha_i64 first, int keys,
                                           const uint *bits, int all_seen, struct mha_outputs *o)
{
    struct mha_place from[KB];
    for (int j = 0; j < keys; ++j) {
        const mha_i64 key = first + j < p->NT ? first + j : p->NT - 1;
        from[j] = mha_place_of(p, past, p->past_value, value, p->value, b, g, key);
    }
    int column = 0;
    for (; all_seen && column + DECODE_COLUMNS <= DV / VEC; column += DECODE_COLUMNS) {
        mha_floatv group[MQ * DECODE_COLUMNS], sum[MQ * DECODE_COLUMNS];
        for (int start = 0; start < keys; start += CHAIN) {
#pragma unroll
            for (int x = 0; x < MQ * DECODE_COLUMNS; ++x) {
                sum[x] = 0.0f;
            }
            for (int j = start; j < min(start + CHAIN, keys); ++j) {
#pragma unroll
                for (int n = 0; n < DECODE_COLUMNS; ++n) {
                    const mha_floatv v = mha_load_vector(from[j].data, VALUE_TYPE,
                                                         from[j].at + (column + n) * VEC, VEC);
#pragma unroll
                    for (int r = 0; r < MQ; ++r) {
                        sum[r * DECODE_COLUMNS + n] =
                            MHA_FMA((mha_floatv)(w[r * KB + j]), v, sum[r * DECODE_COLUMNS + n]);
                    }
                }
            }
#pragma unroll
            for (int x = 0; x < MQ * DECODE_COLUMNS; ++x) {
                group[x] = start == 0 ? sum[x] : group[x] + sum[x];
            }
        }
        for (int x = 0; x < MQ * DECODE_COLUMNS; ++x) {
            const int at = x / DECODE_COLUMNS * DVV + column + x % DECODE_COLUMNS;
            mha_add_v(&o->total[at], &o->rest[at], group[x]);
        }
    }
    for (; column < DVV; ++column) {
        for (int start = 0; start < keys; start += CHAIN) {
            mha_decode_column(w, from, start, min(start + CHAIN, keys), bits, column, o);
        }
    }
}

__kernel MHA_WIDE void decode(const struct mha_params p, __global const void *query,
                              __global const void *key, __global const void *value,
                              __global const void *past_key, __global const void *past_value,
                              __global const uchar *mask, __global const void *bias,
                              __global const void *key_lengths, __global const float *slopes,
                              __global const float *sinks, __global void *output,
                              __global float *lse, __global float *workspace)
{
    const mha_i64 item = (mha_i64)get_global_id(0);
    if (item >= p.B * p.HKV * p.splits) {
        return;
    }
    const mha_i64 split = item % p.splits;
    const mha_i64 g = item / p.splits % p.HKV;
    const mha_i64 b = item / p.splits / p.HKV;
    const mha_i64 head = g * (p.H / p.HKV);

    struct mha_rows rows;
    mha_floatv q[MQ * DKV];
    mha_floatv w_vectors[MQ * KB / VEC];
    float *w = (float *)w_vectors;
    mha_floatv bias_vectors[MQ * NV];
    float *bias_rows = (float *)bias_vectors;
    struct mha_outputs o;
    uint bits[TB * MQ];
    uint shown[TB];

    mha_rows_begin(&p, &rows, b, head, 0, (int)p.NQ, key_lengths, slopes);
    for (int r = 0; r < MQ; ++r) {
        const mha_i64 from = mha_row(p.query, b, mha_row_head(&rows, r), mha_row_query(&rows, r));
        mha_load_query(query, p.query_type, from, q + r * DKV);
    }
    mha_outputs_begin(&o);

    const struct mha_range range = mha_tile_range(&p, &rows, split);
    for (mha_i64 tile = range.first; tile < range.last; tile += TB) {
        const int tiles = range.last - tile < TB ? (int)(range.last - tile) : TB;
        mha_floatv peak[MQ];
        int any = 0, all_seen = 1;
        for (int r = 0; r < MQ; ++r) {
            peak[r] = -INFINITY;
        }
        for (int t = 0; t < tiles; ++t) {
            const mha_i64 first = (tile + t) * KT;
            shown[t] = mha_tile_bits(&p, &rows, first, mask, bias, bits + t * MQ, bias_rows);
            for (int r = 0; r < MQ; ++r) {
                all_seen &= bits[t * MQ + r] == MHA_ALL_BITS;
            }
            if (shown[t] != 0) {
                mha_floatv s[MQ];
                /* The last key that is seen exists; those behind it may not. */
                const mha_i64 last = first + (31 - (mha_i64)clz(shown[t]));
                mha_decode_scores(&p, q, key, past_key, value, past_value, b, g, first, last, s);
                mha_tile_scores(&p, &rows, s, first, bits + t * MQ, bias_rows, w + t * KT, peak);
                any = 1;
            }
        }
        if (!any) {
            continue;
        }
        mha_block_softmax(&p, &rows, tile * KT, tiles, shown, peak, w, &o);
        mha_decode_values(&p, w, value, past_value, b, g, tile * KT, tiles * KT, bits, all_seen,
                          &o);
    }
    mha_rows_end(&p, &rows, &o, split, sinks, output, lse, workspace);
}
