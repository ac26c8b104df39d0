/* Merge of two partial results. */
#include "operators/operator.h"

enum { A, LSE_A, B_SIDE, LSE_B, OUTPUT, LSE, OPERANDS };

static const struct mha_operation operation = {"a merge", mha_operator_destroy};

#define PLACE(member) offsetof(struct mha_merge_params, member)

static gpu_mha_status read_desc(const gpu_mha_merge_desc *desc, struct mha_operator *op)
{
    gpu_mha_merge_desc d;
    struct mha_tensor a, b, output;
    MHA_INVALID_IF(desc == NULL, "desc is NULL: a descriptor is needed");
    MHA_TRY(mha_struct_read(&d, sizeof d, desc, desc->struct_size, sizeof(gpu_mha_merge_desc),
                            "gpu_mha_merge_desc"));
    MHA_TRY(mha_length_check("B", d.B, 0));
    MHA_TRY(mha_length_check("H", d.H, 1));
    MHA_TRY(mha_length_check("NQ", d.NQ, 0));
    MHA_TRY(mha_length_check("DV", d.DV, 1));
    MHA_TRY(mha_tensor_read("a", &d.a, MHA_INPUT, d.B, d.H, d.NQ, d.DV, &a));
    MHA_TRY(mha_tensor_read("b", &d.b, MHA_INPUT, d.B, d.H, d.NQ, d.DV, &b));
    MHA_TRY(mha_tensor_read("output", &d.output, MHA_OUTPUT, d.B, d.H, d.NQ, d.DV, &output));

    const int64_t rows = mha_size_mul(mha_size_mul(d.B, d.H), d.NQ);
    *op = (struct mha_operator){.file = "merge.cl",
                                .kernel = "merge_pair",
                                .variant = MHA_VARIANT_MERGE,
                                .types = MHA_TYPE_BIT(d.a.type) | MHA_TYPE_BIT(d.b.type) |
                                         MHA_TYPE_BIT(d.output.type),
                                .DV = d.DV,
                                .items = rows,
                                .operand_count = OPERANDS,
                                .params_bytes = sizeof(struct mha_merge_params)};
    op->params.merge = (struct mha_merge_params){.B = d.B,
                                                 .H = d.H,
                                                 .NQ = d.NQ,
                                                 .a_type = d.a.type,
                                                 .b_type = d.b.type,
                                                 .output_type = d.output.type};
    struct mha_operand *o = op->operands;
    o[A] = mha_operand_tensor(&a, PLACE(a));
    o[LSE_A] = mha_operand_flat("lse_a", 1, rows, sizeof(float), PLACE(lse_a_offset));
    o[B_SIDE] = mha_operand_tensor(&b, PLACE(b));
    o[LSE_B] = mha_operand_flat("lse_b", 1, rows, sizeof(float), PLACE(lse_b_offset));
    o[OUTPUT] = mha_operand_tensor(&output, PLACE(output));
    o[OUTPUT].is_output = 1;
    o[OUTPUT].in_place = 1u << A | 1u << B_SIDE;
    o[LSE] = mha_operand_flat("lse", 1, rows, sizeof(float), PLACE(lse_offset));
    o[LSE].is_output = 1;
    o[LSE].in_place = 1u << LSE_A | 1u << LSE_B;
    return mha_operator_check(op);
}

gpu_mha_status gpu_mha_merge(gpu_mha_context *context, const gpu_mha_merge_desc *desc,
                             const gpu_mha_merge_arrays *arrays)
{
    struct mha_operator op;
    gpu_mha_merge_arrays given;
    MHA_TRY(read_desc(desc, &op));
    MHA_INVALID_IF(arrays == NULL, "arrays is NULL: the host arrays are needed");
    MHA_TRY(mha_struct_read(&given, sizeof given, arrays, arrays->struct_size,
                            sizeof(gpu_mha_merge_arrays), "gpu_mha_merge_arrays"));
    const struct mha_operand_array operands[OPERANDS] = {[A] = {.input = given.a},
                                                         [LSE_A] = {.input = given.lse_a},
                                                         [B_SIDE] = {.input = given.b},
                                                         [LSE_B] = {.input = given.lse_b},
                                                         [OUTPUT] = {.output = given.output},
                                                         [LSE] = {.output = given.lse}};
    return mha_operator_call(context, &op, operands);
}

gpu_mha_status gpu_mha_merge_plan_create(gpu_mha_context *context, const gpu_mha_merge_desc *desc,
                                         gpu_mha_plan **plan)
{
    struct mha_operator op;
    MHA_INVALID_IF(plan == NULL, "plan is NULL: room for a plan is needed");
    *plan = NULL;
    MHA_TRY(read_desc(desc, &op));
    return mha_operator_plan(context, &operation, &op, plan);
}

gpu_mha_status gpu_mha_merge_enqueue(gpu_mha_plan *plan, cl_command_queue queue,
                                     const gpu_mha_merge_buffers *buffers, cl_uint wait_count,
                                     const cl_event *wait, cl_event *event)
{
    gpu_mha_merge_buffers given;
    MHA_TRY(mha_plan_check(plan, &operation, queue, wait_count, wait, event));
    MHA_INVALID_IF(buffers == NULL, "buffers is NULL: the buffers of the run are needed");
    MHA_TRY(mha_struct_read(&given, sizeof given, buffers, buffers->struct_size,
                            sizeof(gpu_mha_merge_buffers), "gpu_mha_merge_buffers"));
    const gpu_mha_buffer operands[OPERANDS] = {
        [A] = given.a,         [LSE_A] = given.lse_a,   [B_SIDE] = given.b,
        [LSE_B] = given.lse_b, [OUTPUT] = given.output, [LSE] = given.lse};
    return mha_operator_enqueue(plan, queue, operands, wait_count, wait, event);
}
