/* Cache update. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "operators/operator.h"

enum { UPDATE, INDICES, CACHE, OPERANDS };

static const struct mha_operation operation = {"a cache update", mha_operator_destroy};

#define PLACE(member) offsetof(struct mha_cache_params, member)

static gpu_mha_status check_desc(const gpu_mha_cache_desc *d)
{
    MHA_TRY(mha_length_check("B", d->B, 0));
    MHA_TRY(mha_length_check("H", d->H, 1));
    MHA_TRY(mha_length_check("D", d->D, 1));
    MHA_TRY(mha_length_check("N", d->N, 0));
    MHA_TRY(mha_length_check("NC", d->NC, 0));
    MHA_INVALID_IF(d->N > d->NC, "N is %" PRId64 ": it must be at most NC, which is %" PRId64, d->N,
                   d->NC);
    MHA_TRY(mha_flag_check("circular", d->circular));
    return mha_index_type_check("indices", d->indices);
}

/* `cache` is the tensor as it lies, which gpu_mha_cache_update needs beside the operator. */
static gpu_mha_status read_desc(const gpu_mha_cache_desc *desc, struct mha_operator *op,
                                struct mha_tensor *cache)
{
    gpu_mha_cache_desc d;
    struct mha_tensor update;
    MHA_INVALID_IF(desc == NULL, "desc is NULL: a descriptor is needed");
    MHA_TRY(mha_struct_read(&d, sizeof d, desc, desc->struct_size, sizeof(gpu_mha_cache_desc),
                            "gpu_mha_cache_desc"));
    MHA_TRY(check_desc(&d));
    MHA_TRY(mha_tensor_read("update", &d.update, MHA_INPUT, d.B, d.H, d.N, d.D, &update));
    MHA_TRY(mha_tensor_read("cache", &d.cache, MHA_OUTPUT, d.B, d.H, d.NC, d.D, cache));

    const int64_t rows = mha_size_mul(mha_size_mul(d.B, d.H), d.N);
    const int64_t chunks = mha_size_ceil_div(d.D, MHA_CACHE_CHUNK);
    *op = (struct mha_operator){.file = "cache_update.cl",
                                .kernel = "cache_update",
                                .variant = MHA_VARIANT_CACHE_UPDATE,
                                .types = MHA_TYPE_BIT(d.update.type) | MHA_TYPE_BIT(d.cache.type),
                                .items = mha_size_mul(rows, chunks),
                                .operand_count = OPERANDS,
                                .params_bytes = sizeof(struct mha_cache_params)};
    op->params.cache = (struct mha_cache_params){.B = d.B,
                                                 .H = d.H,
                                                 .N = d.N,
                                                 .D = d.D,
                                                 .NC = d.NC,
                                                 .chunks = chunks,
                                                 .update_type = d.update.type,
                                                 .cache_type = d.cache.type,
                                                 .indices_type = d.indices,
                                                 .circular = d.circular};
    struct mha_operand *o = op->operands;
    o[UPDATE] = mha_operand_tensor(&update, PLACE(update));
    o[INDICES] = mha_operand_flat("indices", d.indices != GPU_MHA_INDEX_NONE, d.B,
                                  mha_index_bytes(d.indices), PLACE(indices_offset));
    o[CACHE] = mha_operand_tensor(cache, PLACE(cache));
    o[CACHE].is_output = 1;
    return mha_operator_check(op);
}

/* ---- blocking call ------------------------------------------------------------------------ */

static int64_t index_of(const struct mha_cache_params *p, const void *indices, int64_t b)
{
    if (p->indices_type == MHA_INDEX_NONE) {
        return 0;
    }
    return p->indices_type == MHA_INDEX_I32 ? ((const int32_t *)indices)[b]
                                            : ((const int64_t *)indices)[b];
}

/* What the host knows, the host checks: the device could only leave rows out. */
static gpu_mha_status check_indices(const struct mha_cache_params *p, const void *indices)
{
    const int64_t highest = p->circular ? p->NC - 1 : p->NC - p->N;
    for (int64_t b = 0; indices != NULL && b < p->B; ++b) {
        const int64_t index = index_of(p, indices, b);
        MHA_INVALID_IF(index < 0 || index > highest,
                       "indices[%" PRId64 "] is %" PRId64
                       ": it must be from 0 to NC - %s, which is %" PRId64,
                       b, index, p->circular ? "1" : "N", highest);
    }
    return GPU_MHA_OK;
}

/* Rows (B, H, N, D), packed, to their places in the cache. Nothing else of it is touched. */
static void write_rows(const struct mha_cache_params *p, const struct mha_tensor *cache,
                       const void *indices, const unsigned char *rows, unsigned char *to)
{
    const size_t element_bytes = mha_type_bytes(cache->type);
    const size_t row_bytes = (size_t)p->D * element_bytes;
    for (int64_t b = 0; b < p->B; ++b) {
        const int64_t index = index_of(p, indices, b);
        for (int64_t h = 0; h < p->H; ++h) {
            for (int64_t n = 0; n < p->N; ++n) {
                const int64_t at = b * cache->stride_b + h * cache->stride_h +
                                   (index + n) % p->NC * cache->stride_n;
                memcpy(to + (size_t)at * element_bytes, rows, row_bytes);
                rows += row_bytes;
            }
        }
    }
}

/*
 * The device gets the update, not the cache, which may be a thousand times as long: it converts the
 * rows into a cache that is just they, and the host puts them in their places.
 */
static gpu_mha_status convert_rows(gpu_mha_context *context, const struct mha_operator *op,
                                   const struct mha_tensor *cache, const void *update, void *rows)
{
    const struct mha_tensor packed = mha_tensor_packed(cache->name, cache->type, cache->B, cache->H,
                                                       op->params.cache.N, cache->D);
    struct mha_operator of_rows = *op;
    of_rows.params.cache.NC = op->params.cache.N;
    of_rows.params.cache.indices_type = MHA_INDEX_NONE;
    of_rows.operands[INDICES].wanted = 0;
    of_rows.operands[CACHE] = mha_operand_tensor(&packed, PLACE(cache));
    of_rows.operands[CACHE].is_output = 1;
    const struct mha_operand_array operands[OPERANDS] = {
        [UPDATE] = {.input = update}, [CACHE] = {.output = rows}};
    return mha_operator_call(context, &of_rows, operands);
}

gpu_mha_status gpu_mha_cache_update(gpu_mha_context *context, const gpu_mha_cache_desc *desc,
                                    const gpu_mha_cache_arrays *arrays)
{
    struct mha_operator op;
    struct mha_tensor cache;
    gpu_mha_cache_arrays given;
    MHA_TRY(read_desc(desc, &op, &cache));
    MHA_INVALID_IF(arrays == NULL, "arrays is NULL: the host arrays are needed");
    MHA_TRY(mha_struct_read(&given, sizeof given, arrays, arrays->struct_size,
                            sizeof(gpu_mha_cache_arrays), "gpu_mha_cache_arrays"));
    const struct mha_operand_array operands[OPERANDS] = {[UPDATE] = {.input = given.update},
                                                         [INDICES] = {.input = given.indices},
                                                         [CACHE] = {.output = given.cache}};
    MHA_TRY(mha_operator_check_arrays(&op, operands));
    MHA_TRY(check_indices(&op.params.cache, given.indices));

    const struct mha_cache_params *p = &op.params.cache;
    /* With rows, their number fits: the cache holds as many. Without, lengths may be anything. */
    const size_t bytes =
        op.items > 0 ? (size_t)(p->B * p->H * p->N * p->D) * mha_type_bytes(cache.type) : 0;
    unsigned char *rows = malloc(bytes > 0 ? bytes : 1);
    MHA_RETURN_IF(rows == NULL, GPU_MHA_HOST_MEMORY,
                  "no memory for the rows of the update: %zu bytes", bytes);
    const gpu_mha_status status = convert_rows(context, &op, &cache, given.update, rows);
    /* Without rows the arrays may be absent. */
    if (status == GPU_MHA_OK && op.items > 0) {
        write_rows(p, &cache, given.indices, rows, given.cache);
    }
    free(rows);
    return status;
}

/* ---- plan and enqueue --------------------------------------------------------------------- */

gpu_mha_status gpu_mha_cache_plan_create(gpu_mha_context *context, const gpu_mha_cache_desc *desc,
                                         gpu_mha_plan **plan)
{
    struct mha_operator op;
    struct mha_tensor cache;
    MHA_INVALID_IF(plan == NULL, "plan is NULL: room for a plan is needed");
    *plan = NULL;
    MHA_TRY(read_desc(desc, &op, &cache));
    return mha_operator_plan(context, &operation, &op, plan);
}

gpu_mha_status gpu_mha_cache_enqueue(gpu_mha_plan *plan, cl_command_queue queue,
                                     const gpu_mha_cache_buffers *buffers, cl_uint wait_count,
                                     const cl_event *wait, cl_event *event)
{
    gpu_mha_cache_buffers given;
    MHA_TRY(mha_plan_check(plan, &operation, queue, wait_count, wait, event));
    MHA_INVALID_IF(buffers == NULL, "buffers is NULL: the buffers of the run are needed");
    MHA_TRY(mha_struct_read(&given, sizeof given, buffers, buffers->struct_size,
                            sizeof(gpu_mha_cache_buffers), "gpu_mha_cache_buffers"));
    const gpu_mha_buffer operands[OPERANDS] = {
        [UPDATE] = given.update, [INDICES] = given.indices, [CACHE] = given.cache};
    return mha_operator_enqueue(plan, queue, operands, wait_count, wait, event);
}
