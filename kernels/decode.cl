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
#include "common/prefetch.h"

/* The kernel that runs after: one program is built faster than two. */
#include "merge.cl"

#if !defined(KEY_TYPE) || !defined(VALUE_TYPE)
#error "KEY_TYPE and VALUE_TYPE must be defined"
#endif

/* Vectors of output columns that are summed in registers in one walk over a block's keys. */
#define DECODE_COLUMNS (MQ > 12 ? 1 : MQ > 6 ? 2 : MQ > 3 ? 4 : 8)

/* Elements of a row's vector `c`. */
#define MHA_ELEMENTS(D, c) ((D) - (c)*VEC < VEC ? (D) - (c)*VEC : VEC)

/* Where a row of keys or values begins. */
struct mha_place {
    __global const void *data;
    mha_i64 at;
};

/* The rows of a block's keys, or values, from key `first` of kv head (b, g) on; beyond NT the last.
 */
MHA_INLINE void mha_places(const struct mha_params *p, __global const void *past,
                           struct mha_tensor_params past_tensor, __global const void *data,
                           struct mha_tensor_params tensor, mha_i64 b, mha_i64 g, mha_i64 first,
                           struct mha_place *places)
{
    for (int x = 0; x < KB; ++x) {
        const mha_i64 j = min(first + x, p->NT - 1);
        const int is_past = j < p->NP;
        places[x].data = is_past ? past : data;
        places[x].at = is_past ? mha_row(past_tensor, b, g, j) : mha_row(tensor, b, g, j - p->NP);
    }
}

/*
 * The products of all rows with VEC keys; keys beyond `last` are read as `last`. Meanwhile the
 * values of these keys are asked for.
 */
MHA_INLINE MHA_WIDE void mha_decode_scores(const mha_floatv *q, const struct mha_place *keys,
                                           const struct mha_place *values, int last, float *w)
{
    mha_floatv products[MQ * VEC];
    for (int c = 0; c < VEC; ++c) {
        const struct mha_place from = keys[min(c, last)];
        mha_prefetch_row(values[c].data, VALUE_TYPE, values[c].at, DV);
        mha_floatv sum[MQ];
#pragma unroll
        for (int r = 0; r < MQ; ++r) {
            sum[r] = 0.0f;
        }
#pragma unroll 4
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
        MHA_PRIVATEV(w + r * KB) = mha_turn_sum(products + r * VEC);
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

/* Of DK elements of the next block's keys, those that are asked for while `column` is summed. */
#define MHA_AHEAD (DECODE_COLUMNS * VEC * DK / DV + 1)

/*
 * Adds the values of one block of keys: in registers, where every row sees every key. Meanwhile the
 * next block's keys are asked for.
 */
MHA_INLINE MHA_WIDE void mha_decode_values(const float *w, const struct mha_place *from,
                                           const struct mha_place *next, int keys, const uint *bits,
                                           int all_seen, struct mha_outputs *o)
{
    int column = 0;
    for (; all_seen && column + DECODE_COLUMNS <= DV / VEC; column += DECODE_COLUMNS) {
        mha_floatv group[MQ * DECODE_COLUMNS], sum[MQ * DECODE_COLUMNS];
        for (int start = 0; start < keys; start += CHAIN) {
#pragma unroll
            for (int x = 0; x < MQ * DECODE_COLUMNS; ++x) {
                sum[x] = 0.0f;
            }
            for (int j = start; j < min(start + CHAIN, keys); ++j) {
                const int ahead = column * VEC * DK / DV;
                mha_prefetch_row(next[j].data, KEY_TYPE, next[j].at + ahead,
                                 min(MHA_AHEAD, DK - ahead));
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

/* One split's share of the keys of kv head g, for the query rows of all its heads. */
MHA_BODY MHA_WIDE void mha_decode_rows(
    const struct mha_params *p, mha_i64 b, mha_i64 g, mha_i64 split, __global const void *query,
    __global const void *key, __global const void *value, __global const void *past_key,
    __global const void *past_value, __global const uchar *mask, __global const void *bias,
    __global const void *key_lengths, __global const float *slopes, __global const float *sinks,
    __global void *output, __global float *lse, __global float *workspace)
{
    const mha_i64 head = g * (p->H / p->HKV);

    struct mha_rows rows;
    mha_floatv q[MQ * DKV];
    mha_floatv w_vectors[MQ * KB / VEC];
    float *w = (float *)w_vectors;
    mha_floatv bias_vectors[MQ * NV];
    float *bias_rows = (float *)bias_vectors;
    struct mha_outputs o;
    uint bits[TB * MQ];
    uint shown[TB];

    /* Hidden keys' biases are added too, to scores that are then hidden. */
    for (int v = 0; v < MQ * NV; ++v) {
        bias_vectors[v] = 0.0f;
    }
    mha_rows_begin(p, &rows, b, head, 0, (int)p->NQ, key_lengths, slopes);
    for (int r = 0; r < MQ; ++r) {
        const mha_i64 from = mha_row(p->query, b, mha_row_head(&rows, r), mha_row_query(&rows, r));
        mha_load_query(query, p->query_type, from, q + r * DKV);
    }
    mha_outputs_begin(&o);

    struct mha_place keys[KB], values[KB];
    const struct mha_range range = mha_tile_range(p, &rows, split);
    mha_places(p, past_key, p->past_key, key, p->key, b, g, range.first * KT, keys);
    for (mha_i64 tile = range.first; tile < range.last; tile += TB) {
        const int tiles = range.last - tile < TB ? (int)(range.last - tile) : TB;
        int any = 0, all_seen = 1;
        mha_places(p, past_value, p->past_value, value, p->value, b, g, tile * KT, values);
        for (int t = 0; t < tiles; ++t) {
            const mha_i64 first = (tile + t) * KT;
            const struct mha_tile_bits seen =
                mha_tile_bits(p, &rows, first, mask, bias, bits + t * MQ, bias_rows);
            const int all = seen.all == MHA_ALL_BITS;
            shown[t] = seen.any;
            all_seen &= all;
            if (seen.any != 0) {
                /* The last key that is seen exists; those behind it may not. */
                mha_decode_scores(q, keys + t * KT, values + t * KT, 31 - (int)clz(seen.any),
                                  w + t * KT);
                if (!p->plain || !all) {
                    mha_tile_scores(p, &rows, first, bits + t * MQ, bias_rows, w + t * KT);
                }
                any = 1;
            } else {
                mha_tile_hidden(w + t * KT);
            }
        }
        for (int t = tiles; t * NV % MHA_WEIGHTS_GROUP != 0; ++t) {
            mha_tile_hidden(w + t * KT);
        }
        mha_places(p, past_key, p->past_key, key, p->key, b, g, (tile + TB) * KT, keys);
        if (!any) {
            continue;
        }
        mha_block_softmax(p, &rows, tile * KT, tiles, shown, w, &o);
        mha_decode_values(w, values, keys, tiles * KT, bits, all_seen, &o);
    }
    mha_rows_end(p, &rows, &o, split, sinks, output, lse, workspace);
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
    mha_decode_rows(&p, item / p.splits / p.HKV, item / p.splits % p.HKV, item % p.splits, query,
                    key, value, past_key, past_value, mask, bias, key_lengths, slopes, sinks,
                    output, lse, workspace);
}
