/* Rotary embedding. */
#include <inttypes.h>

#include "operators/operator.h"

enum { INPUT, COS, SIN, POSITIONS, OUTPUT, OPERANDS };

static const struct mha_operation operation = {"a rotary embedding", mha_operator_destroy};

#define PLACE(member) offsetof(struct mha_rotary_params, member)

/* Checks everything but the tensors, and works out R. */
static gpu_mha_status check_desc(gpu_mha_rotary_desc *d)
{
    const int positions = (int)d->positions;
    MHA_TRY(mha_length_check("B", d->B, 0));
    MHA_TRY(mha_length_check("H", d->H, 1));
    MHA_TRY(mha_length_check("N", d->N, 0));
    MHA_TRY(mha_length_check("D", d->D, 1));
    MHA_TRY(mha_length_check("R", d->R, 0));
    MHA_INVALID_IF(d->R > d->D, "R is %" PRId64 ": it must be at most D, which is %" PRId64, d->R,
                   d->D);
    MHA_INVALID_IF(d->R % 2 != 0, "R is %" PRId64 ": it must be even, or 0 for D", d->R);
    MHA_INVALID_IF(d->R == 0 && d->D % 2 != 0,
                   "R is 0, which stands for D, and D is %" PRId64 ": it must be even", d->D);
    MHA_TRY(mha_flag_check("interleaved", d->interleaved));
    MHA_TRY(mha_index_type_check("positions", d->positions));
    MHA_TRY(mha_length_check("P", d->P, 0));
    MHA_INVALID_IF(positions == GPU_MHA_INDEX_NONE && d->P != 0,
                   "P is %" PRId64 ": it is read only with positions, so it must be 0", d->P);
    MHA_INVALID_IF(positions != GPU_MHA_INDEX_NONE && d->P == 0 && d->B > 0 && d->N > 0,
                   "P is 0: with positions it must be at least 1");
    MHA_TRY(mha_type_check("cache_type", d->cache_type));
    d->R = d->R == 0 ? d->D : d->R;
    return GPU_MHA_OK;
}

static gpu_mha_status read_desc(const gpu_mha_rotary_desc *desc, struct mha_operator *op)
{
    gpu_mha_rotary_desc d;
    struct mha_tensor input, output;
    MHA_INVALID_IF(desc == NULL, "desc is NULL: a descriptor is needed");
    MHA_TRY(mha_struct_read(&d, sizeof d, desc, desc->struct_size, sizeof(gpu_mha_rotary_desc),
                            "gpu_mha_rotary_desc"));
    MHA_TRY(check_desc(&d));
    MHA_TRY(mha_tensor_read("input", &d.input, MHA_INPUT, d.B, d.H, d.N, d.D, &input));
    MHA_TRY(mha_tensor_read("output", &d.output, MHA_OUTPUT, d.B, d.H, d.N, d.D, &output));

    const int has_positions = d.positions != GPU_MHA_INDEX_NONE;
    const int64_t pairs = d.R / 2, tokens = mha_size_mul(d.B, d.N);
    const int64_t angles = mha_size_mul(has_positions ? d.P : tokens, pairs);
    const int64_t chunks = mha_size_ceil_div(d.D - pairs, MHA_ROTARY_CHUNK);
    *op = (struct mha_operator){.file = "rotary.cl",
                                .kernel = "rotary",
                                .variant = MHA_VARIANT_ROTARY,
                                .types = MHA_TYPE_BIT(d.input.type) | MHA_TYPE_BIT(d.output.type) |
                                         MHA_TYPE_BIT(d.cache_type),
                                .items = mha_size_mul(mha_size_mul(tokens, d.H), chunks),
                                .operand_count = OPERANDS,
                                .params_bytes = sizeof(struct mha_rotary_params)};
    op->params.rotary = (struct mha_rotary_params){.B = d.B,
                                                   .H = d.H,
                                                   .N = d.N,
                                                   .D = d.D,
                                                   .pairs = pairs,
                                                   .P = d.P,
                                                   .chunks = chunks,
                                                   .input_type = d.input.type,
                                                   .output_type = d.output.type,
                                                   .cache_type = d.cache_type,
                                                   .positions_type = d.positions,
                                                   .interleaved = d.interleaved};
    struct mha_operand *o = op->operands;
    const size_t cache_bytes = mha_type_bytes(d.cache_type);
    o[INPUT] = mha_operand_tensor(&input, PLACE(input));
    o[COS] = mha_operand_flat("cos", 1, angles, cache_bytes, PLACE(cos_offset));
    o[SIN] = mha_operand_flat("sin", 1, angles, cache_bytes, PLACE(sin_offset));
    o[POSITIONS] = mha_operand_flat("positions", has_positions, tokens,
                                    mha_index_bytes(d.positions), PLACE(positions_offset));
    o[OUTPUT] = mha_operand_tensor(&output, PLACE(output));
    o[OUTPUT].is_output = 1;
    o[OUTPUT].in_place = 1u << INPUT;
    return mha_operator_check(op);
}

/* What the host knows, the host checks: the device could only clamp. */
static gpu_mha_status check_positions(const struct mha_rotary_params *p, const void *positions)
{
    if (p->positions_type == MHA_INDEX_NONE || positions == NULL) {
        return GPU_MHA_OK;
    }
    for (int64_t token = 0; token < p->B * p->N; ++token) {
        const int64_t position = p->positions_type == MHA_INDEX_I32
                                     ? ((const int32_t *)positions)[token]
                                     : ((const int64_t *)positions)[token];
        MHA_INVALID_IF(position < 0 || position >= p->P,
                       "positions[%" PRId64 "][%" PRId64 "] is %" PRId64
                       ": it must be from 0 to P - 1, which is %" PRId64,
                       token / p->N, token % p->N, position, p->P - 1);
    }
    return GPU_MHA_OK;
}

gpu_mha_status gpu_mha_rotary(gpu_mha_context *context, const gpu_mha_rotary_desc *desc,
                              const gpu_mha_rotary_arrays *arrays)
{
    struct mha_operator op;
    gpu_mha_rotary_arrays given;
    MHA_TRY(read_desc(desc, &op));
    MHA_INVALID_IF(arrays == NULL, "arrays is NULL: the host arrays are needed");
    MHA_TRY(mha_struct_read(&given, sizeof given, arrays, arrays->struct_size,
                            sizeof(gpu_mha_rotary_arrays), "gpu_mha_rotary_arrays"));
    MHA_TRY(check_positions(&op.params.rotary, given.positions));
    const struct mha_operand_array operands[OPERANDS] = {[INPUT] = {.input = given.input},
                                                         [COS] = {.input = given.cos},
                                                         [SIN] = {.input = given.sin},
                                                         [POSITIONS] = {.input = given.positions},
                                                         [OUTPUT] = {.output = given.output}};
    return mha_operator_call(context, &op, operands);
}

gpu_mha_status gpu_mha_rotary_plan_create(gpu_mha_context *context, const gpu_mha_rotary_desc *desc,
                                          gpu_mha_plan **plan)
{
    struct mha_operator op;
    MHA_INVALID_IF(plan == NULL, "plan is NULL: room for a plan is needed");
    *plan = NULL;
    MHA_TRY(read_desc(desc, &op));
    return mha_operator_plan(context, &operation, &op, plan);
}

gpu_mha_status gpu_mha_rotary_enqueue(gpu_mha_plan *plan, cl_command_queue queue,
                                      const gpu_mha_rotary_buffers *buffers, cl_uint wait_count,
                                      const cl_event *wait, cl_event *event)
{
    gpu_mha_rotary_buffers given;
    MHA_TRY(mha_plan_check(plan, &operation, queue, wait_count, wait, event));
    MHA_INVALID_IF(buffers == NULL, "buffers is NULL: the buffers of the run are needed");
    MHA_TRY(mha_struct_read(&given, sizeof given, buffers, buffers->struct_size,
                            sizeof(gpu_mha_rotary_buffers), "gpu_mha_rotary_buffers"));
    const gpu_mha_buffer operands[OPERANDS] = {[INPUT] = given.input,
                                               [COS] = given.cos,
                                               [SIN] = given.sin,
                                               [POSITIONS] = given.positions,
                                               [OUTPUT] = given.output};
    return mha_operator_enqueue(plan, queue, operands, wait_count, wait, event);
}
