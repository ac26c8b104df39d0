/*
 * The small operators: merge, rotary embedding, cache update. Each is one kernel without workspace.
 *
 * An operator is data: the kernel, its parameters, and its operands, the buffers that the kernel is
 * given. Plan, enqueue and blocking call are the same code for all of them. A new one is a file
 * that fills in a struct mha_operator from its descriptor, and a kernel.
 */
#ifndef MHA_OPERATORS_OPERATOR_H
#define MHA_OPERATORS_OPERATOR_H

#include "cl/plan.h"
#include "cl/transfer.h"
#include "cl/verdicts.h"
#include "common/cache_params.h"
#include "common/merge_params.h"
#include "common/rotary_params.h"

#define MHA_OPERANDS_MAX 6

struct mha_operand {
    const char *name;  /* of the field, for messages */
    int wanted;        /* 0: the descriptor does not ask for it */
    int is_output;     /* written by the kernel, and copied back by the blocking call */
    int is_tensor;     /* it has strides */
    unsigned in_place; /* of an output: bit i is set if it may lie exactly where operand i does */
    struct mha_view view;
    /* Where its place goes in the parameters: a struct mha_tensor_params, or without strides the
     * mha_i64 that such a struct begins with. */
    size_t place_at;
};

struct mha_operator {
    const char *file, *kernel; /* kernels/<file> */
    const char *variant;       /* as gpu-mha doctor knows it */
    unsigned types;            /* storage types that it reads and writes (MHA_TYPE_BIT) */
    int64_t DV;                /* defined for the kernel if not 0 */
    int64_t items;             /* work-items; 0: there is nothing to write, so nothing is read */
    int operand_count;
    struct mha_operand operands[MHA_OPERANDS_MAX]; /* in the order of the kernel's arguments */
    size_t params_bytes;
    union {
        struct mha_merge_params merge;
        struct mha_rotary_params rotary;
        struct mha_cache_params cache;
    } params; /* without the places of the operands */
};

/* A host array for an operand: `input` to read, or `output` to write. */
struct mha_operand_array {
    const void *input;
    void *output;
};

struct mha_operand mha_operand_tensor(const struct mha_tensor *tensor, size_t place_at);
struct mha_operand mha_operand_flat(const char *name, int wanted, int64_t count,
                                    size_t element_bytes, size_t place_at);

/* The last step of reading a descriptor: refuses operands that no address reaches. */
gpu_mha_status mha_operator_check(const struct mha_operator *op);

/* mha_operator_destroy is the destroy function of the `operation` of a plan made here. */
gpu_mha_status mha_operator_plan(gpu_mha_context *context, const struct mha_operation *operation,
                                 const struct mha_operator *op, gpu_mha_plan **plan);
void mha_operator_destroy(void *state);

/*
 * Checks the buffers, in the order of the operands, and puts the kernel on the queue. Comes after
 * mha_plan_check.
 */
gpu_mha_status mha_operator_enqueue(gpu_mha_plan *plan, cl_command_queue queue,
                                    const gpu_mha_buffer *buffers, cl_uint wait_count,
                                    const cl_event *wait, cl_event *event);

/* Every array that is needed is there, and no other. */
gpu_mha_status mha_operator_check_arrays(const struct mha_operator *op,
                                         const struct mha_operand_array *arrays);

/* Copies in, computes, copies out, returns when done. `context` as in the public header. */
gpu_mha_status mha_operator_call(gpu_mha_context *context, const struct mha_operator *op,
                                 const struct mha_operand_array *arrays);

#endif
