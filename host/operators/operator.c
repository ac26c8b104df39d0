/* Plan, enqueue and blocking call of every small operator. */
#include "operators/operator.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cl/overlap.h"
#include "cl/recent.h"
#include "cl/region.h"

/* Work-items per group; nothing is shared within a group, so the number hardly matters. */
#define LOCAL_SIZE 64

/* An operator made ready for a device: the state of its plan. */
struct prepared {
    struct mha_operator op;
    struct mha_kernel kernel; /* zero if there are no items */
};

/* Everything that a kernel is built from: the key of what the blocking calls keep. */
struct kernel_key {
    const char *file, *kernel; /* literals, so the addresses do */
    int64_t DV;
};

struct mha_operand mha_operand_tensor(const struct mha_tensor *tensor, size_t place_at)
{
    return (struct mha_operand){.name = tensor->name,
                                .wanted = 1,
                                .is_tensor = 1,
                                .view = mha_view_of_tensor(tensor),
                                .place_at = place_at};
}

struct mha_operand mha_operand_flat(const char *name, int wanted, int64_t count,
                                    size_t element_bytes, size_t place_at)
{
    return (struct mha_operand){.name = name,
                                .wanted = wanted,
                                .view = mha_view_flat(count, element_bytes),
                                .place_at = place_at};
}

/* Elements that must be there; none where nothing is read or written. */
static int64_t span_of(const struct mha_operator *op, const struct mha_operand *operand)
{
    if (op->items == 0 || !operand->wanted) {
        return 0;
    }
    int64_t span = 1;
    for (int axis = 0; axis < 4; ++axis) {
        const int64_t length = operand->view.length[axis];
        if (length == 0) {
            return 0;
        }
        span = mha_size_add(span, mha_size_mul(length - 1, operand->view.stride[axis]));
    }
    return span;
}

gpu_mha_status mha_operator_check(const struct mha_operator *op)
{
    for (int i = 0; i < op->operand_count; ++i) {
        const struct mha_operand *operand = &op->operands[i];
        MHA_INVALID_IF(!mha_size_fits(mha_size_mul(span_of(op, operand),
                                                   (int64_t)operand->view.element_bytes)),
                       "%s spans more than this machine can address: its lengths are too large",
                       operand->name);
    }
    return GPU_MHA_OK;
}

/* ---- kernel ------------------------------------------------------------------------------- */

/* Tells the kernel's parameters where an operand lies. */
static void set_place(struct mha_operator *op, int i, uint64_t offset, const struct mha_view *view)
{
    const struct mha_operand *operand = &op->operands[i];
    const struct mha_tensor_params place = {(mha_i64)offset, view->stride[0], view->stride[1],
                                            view->stride[2]};
    memcpy((unsigned char *)&op->params + operand->place_at, &place,
           operand->is_tensor ? sizeof place : sizeof place.offset);
}

static gpu_mha_status make_kernel(gpu_mha_context *context, const struct mha_operator *op,
                                  struct mha_kernel *kernel)
{
    struct mha_options options = {{0}};
    if (op->DV > 0) {
        mha_options_int(&options, "DV", op->DV);
        /* Its kernel works on single elements; the vectors of common/math.h want a width. */
        mha_options_int(&options, "VEC", 4);
    }
    const gpu_mha_status status = mha_kernel_create(context->programs, &context->device, op->file,
                                                    op->kernel, &options, LOCAL_SIZE, kernel);
    mha_options_free(&options);
    return status;
}

/* `op` is the prepared operator with its places set; `memory` is in the order of its operands. */
static gpu_mha_status launch(struct mha_chain *chain, struct mha_kernel *kernel,
                             const struct mha_operator *op, const cl_mem *memory)
{
    struct mha_arg args[1 + MHA_OPERANDS_MAX];
    args[0] = (struct mha_arg){op->params_bytes, &op->params};
    for (int i = 0; i < op->operand_count; ++i) {
        /* An absent operand is not read; not every driver takes NULL, so some buffer is bound. */
        args[1 + i] = memory[i] != NULL ? MHA_ARG(memory[i]) : MHA_ARG(memory[0]);
    }
    return mha_chain_launch(chain, kernel, (size_t)op->items, args,
                            (cl_uint)(1 + op->operand_count));
}

/* ---- plan and enqueue --------------------------------------------------------------------- */

void mha_operator_destroy(void *state)
{
    struct prepared *prepared = state;
    mha_kernel_destroy(&prepared->kernel);
    free(prepared);
}

gpu_mha_status mha_operator_plan(gpu_mha_context *context, const struct mha_operation *operation,
                                 const struct mha_operator *op, gpu_mha_plan **plan)
{
    MHA_TRY(mha_context_resolve(context, &context));
    if (op->items != 0) {
        MHA_TRY(mha_verdict_check(&context->device, op->variant, op->types));
    }
    struct prepared *made = calloc(1, sizeof *made);
    MHA_RETURN_IF(made == NULL, GPU_MHA_HOST_MEMORY, "no memory for %s plan", operation->name);
    made->op = *op;
    const gpu_mha_status status =
        op->items == 0 ? GPU_MHA_OK : make_kernel(context, op, &made->kernel);
    if (status != GPU_MHA_OK) {
        free(made);
        return status;
    }
    return mha_plan_create(context, operation, made, 0,
                           op->items == 0 ? "nothing to compute" : op->kernel, plan);
}

/* An output lies apart from every other operand, or exactly on one where that is allowed. */
static gpu_mha_status check_overlap(const struct mha_operator *op, const gpu_mha_buffer *buffers)
{
    struct mha_footprint footprints[MHA_OPERANDS_MAX];
    for (int i = 0; i < op->operand_count; ++i) {
        const struct mha_operand *operand = &op->operands[i];
        if (span_of(op, operand) > 0) {
            MHA_TRY(mha_footprint_find(operand->name, buffers[i], &operand->view, &footprints[i]));
        }
    }
    for (int out = 0; out < op->operand_count; ++out) {
        const struct mha_operand *output = &op->operands[out];
        for (int i = 0; output->is_output && i < op->operand_count; ++i) {
            const struct mha_operand *other = &op->operands[i];
            if (i == out || span_of(op, other) == 0 || span_of(op, output) == 0) {
                continue;
            }
            const int may_be_same = (output->in_place >> i & 1) != 0;
            MHA_INVALID_IF(
                !mha_footprint_apart(&footprints[out], &footprints[i]) &&
                    !(may_be_same && mha_footprint_same(&footprints[out], &footprints[i])),
                "%s overlaps %s: it must lie apart from it%s", output->name, other->name,
                may_be_same ? ", or have the same buffer, offset, element size and strides" : "");
        }
    }
    return GPU_MHA_OK;
}

static gpu_mha_status check_buffers(const struct mha_operator *op, const gpu_mha_buffer *buffers,
                                    cl_context cl)
{
    struct mha_region regions[MHA_OPERANDS_MAX];
    for (int i = 0; i < op->operand_count; ++i) {
        const struct mha_operand *operand = &op->operands[i];
        regions[i] = (struct mha_region){.name = operand->name,
                                         .buffer = buffers[i],
                                         .wanted = operand->wanted,
                                         .span = span_of(op, operand),
                                         .element_bytes = operand->view.element_bytes,
                                         .use = operand->is_output ? MHA_WRITE : MHA_READ};
    }
    MHA_TRY(mha_regions_check(regions, op->operand_count, cl));
    return check_overlap(op, buffers);
}

gpu_mha_status mha_operator_enqueue(gpu_mha_plan *plan, cl_command_queue queue,
                                    const gpu_mha_buffer *buffers, cl_uint wait_count,
                                    const cl_event *wait, cl_event *event)
{
    struct prepared *prepared = plan->state;
    struct mha_operator op = prepared->op;
    MHA_TRY(check_buffers(&op, buffers, plan->context->cl));
    cl_mem memory[MHA_OPERANDS_MAX];
    for (int i = 0; i < op.operand_count; ++i) {
        set_place(&op, i, buffers[i].offset, &op.operands[i].view);
        memory[i] = buffers[i].mem;
    }
    struct mha_chain chain;
    mha_chain_begin(&chain, queue, wait_count, wait);
    return mha_chain_end(&chain, launch(&chain, &prepared->kernel, &op, memory), event);
}

/* ---- blocking call ------------------------------------------------------------------------ */

static gpu_mha_status plan_transfers(const struct mha_operator *op,
                                     const struct mha_operand_array *arrays,
                                     struct mha_transfer *transfers)
{
    for (int i = 0; i < op->operand_count; ++i) {
        const struct mha_operand *operand = &op->operands[i];
        transfers[i] = (struct mha_transfer){.name = operand->name,
                                             .wanted = operand->wanted,
                                             .input = arrays[i].input,
                                             .output = arrays[i].output,
                                             .host = operand->view};
        if (op->items == 0) {
            transfers[i].host.length[3] = 0;
        }
        MHA_TRY(mha_transfer_plan(&transfers[i]));
    }
    return GPU_MHA_OK;
}

gpu_mha_status mha_operator_check_arrays(const struct mha_operator *op,
                                         const struct mha_operand_array *arrays)
{
    struct mha_transfer transfers[MHA_OPERANDS_MAX];
    return plan_transfers(op, arrays, transfers);
}

static void destroy_kernel(void *state)
{
    mha_kernel_destroy(state);
    free(state);
}

static const struct mha_operation kernel_alone = {"the kernel of an operator", destroy_kernel};

/* The kernel of an operator: the context's, so nothing needs destroying. */
static gpu_mha_status get_kernel(gpu_mha_context *context, const struct mha_operator *op,
                                 struct mha_kernel **kernel)
{
    const struct kernel_key key = {op->file, op->kernel, op->DV};
    *kernel = mha_recent_find(context, &kernel_alone, &key, sizeof key);
    if (*kernel != NULL) {
        return GPU_MHA_OK;
    }
    struct mha_kernel *made = calloc(1, sizeof *made);
    MHA_RETURN_IF(made == NULL, GPU_MHA_HOST_MEMORY, "no memory for the kernel %s", op->kernel);
    const gpu_mha_status status = make_kernel(context, op, made);
    if (status != GPU_MHA_OK) {
        free(made);
        return status;
    }
    *kernel = made;
    return mha_recent_keep(context, &kernel_alone, &key, sizeof key, made);
}

/* Upload, launch, download. The caller holds the queue's lock and releases the buffers. */
static gpu_mha_status run(gpu_mha_context *context, const struct mha_operator *op,
                          struct mha_transfer *transfers)
{
    struct mha_kernel *kernel = NULL;
    struct mha_operator placed = *op;
    cl_mem memory[MHA_OPERANDS_MAX];
    MHA_TRY(get_kernel(context, op, &kernel));
    MHA_TRY(mha_transfers_fit(transfers, op->operand_count, &context->device));
    for (int i = 0; i < op->operand_count; ++i) {
        MHA_TRY(mha_transfer_upload(&transfers[i], context->cl));
        memory[i] = transfers[i].mem;
        set_place(&placed, i, 0, &transfers[i].device);
    }
    struct mha_chain chain;
    mha_chain_begin(&chain, context->queue, 0, NULL);
    return mha_transfers_collect(transfers, op->operand_count, &chain,
                                 launch(&chain, kernel, &placed, memory));
}

gpu_mha_status mha_operator_call(gpu_mha_context *context, const struct mha_operator *op,
                                 const struct mha_operand_array *arrays)
{
    struct mha_transfer transfers[MHA_OPERANDS_MAX];
    MHA_TRY(plan_transfers(op, arrays, transfers));
    MHA_TRY(mha_context_resolve(context, &context));
    if (op->items == 0) {
        return GPU_MHA_OK;
    }
    MHA_TRY(mha_verdict_check(&context->device, op->variant, op->types));
    pthread_mutex_lock(&context->queue_lock);
    const gpu_mha_status status = run(context, op, transfers);
    for (int i = 0; i < op->operand_count; ++i) {
        mha_transfer_release(&transfers[i]);
    }
    pthread_mutex_unlock(&context->queue_lock);
    return status;
}
