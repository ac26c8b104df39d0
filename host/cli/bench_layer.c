/*
 * A whole layer as a shape of gpu-mha bench: self-attention with four projections and their biases,
 * all of one storage type. Input, weights and biases lie one after the other in a slice.
 */
#include "bench.h"

struct mha_bench_layer mha_bench_layer_of(const struct mha_bench_shape *shape)
{
    const gpu_mha_desc *desc = &shape->desc;
    const double width = (double)shape->width;
    const double query = (double)desc->H * (double)desc->DK;
    const double key = (double)desc->HKV * (double)desc->DK;
    const double value = (double)desc->HKV * (double)desc->DV;
    const double attended = (double)desc->H * (double)desc->DV;

    return (struct mha_bench_layer){
        .counts = {[MHA_BENCH_INPUT] = (double)desc->B * (double)desc->NQ * width,
                   [MHA_BENCH_WEIGHT_Q] = query * width,
                   [MHA_BENCH_WEIGHT_K] = key * width,
                   [MHA_BENCH_WEIGHT_V] = value * width,
                   [MHA_BENCH_WEIGHT_OUT] = width * attended,
                   [MHA_BENCH_BIAS_Q] = query,
                   [MHA_BENCH_BIAS_K] = key,
                   [MHA_BENCH_BIAS_V] = value,
                   [MHA_BENCH_BIAS_OUT] = width},
    };
}

struct mha_bench_work mha_bench_layer_work(const struct mha_bench_shape *shape,
                                           double attention_flops)
{
    const struct mha_bench_layer layer = mha_bench_layer_of(shape);
    const double rows = (double)shape->desc.B * (double)shape->desc.NQ;
    double elements = layer.counts[MHA_BENCH_INPUT]; /* the output has as many */
    struct mha_bench_work work = {.flops = attention_flops};

    for (int part = MHA_BENCH_WEIGHT_Q; part <= MHA_BENCH_WEIGHT_OUT; part++) {
        work.flops += 2 * rows * layer.counts[part];
    }
    for (int part = 0; part < MHA_BENCH_LAYER_PARTS; part++) {
        elements += layer.counts[part];
    }
    work.bytes = elements * (shape->desc.query.type == GPU_MHA_F32 ? 4 : 2);
    return work;
}

gpu_mha_status mha_bench_layer_plan(gpu_mha_context *context, const struct mha_bench_shape *shape,
                                    gpu_mha_plan **plan)
{
    const gpu_mha_layer_desc desc = {
        .struct_size = sizeof desc,
        .attention = &shape->desc,
        .EQ = shape->width,
        .EK = shape->width,
        .EV = shape->width,
        .EO = shape->width,
        .weight_type = shape->desc.query.type,
        .bias_q = 1,
        .bias_k = 1,
        .bias_v = 1,
        .bias_out = 1,
    };
    return gpu_mha_layer_plan_create(context, &desc, plan);
}

gpu_mha_status mha_bench_layer_enqueue(const struct mha_bench_case *one,
                                       const struct mha_bench_device *device, uint64_t first,
                                       gpu_mha_buffer workspace)
{
    const cl_mem pool = device->pool[one->shape->desc.query.type];
    gpu_mha_buffer parts[MHA_BENCH_LAYER_PARTS];

    for (int part = 0; part < MHA_BENCH_LAYER_PARTS; part++) {
        parts[part] = (gpu_mha_buffer){pool, first + one->layer_at[part]};
    }
    const gpu_mha_layer_buffers buffers = {
        .struct_size = sizeof buffers,
        .query_input = parts[MHA_BENCH_INPUT],
        .key_input = parts[MHA_BENCH_INPUT],
        .value_input = parts[MHA_BENCH_INPUT],
        .weight_q = parts[MHA_BENCH_WEIGHT_Q],
        .weight_k = parts[MHA_BENCH_WEIGHT_K],
        .weight_v = parts[MHA_BENCH_WEIGHT_V],
        .weight_out = parts[MHA_BENCH_WEIGHT_OUT],
        .bias_q = parts[MHA_BENCH_BIAS_Q],
        .bias_k = parts[MHA_BENCH_BIAS_K],
        .bias_v = parts[MHA_BENCH_BIAS_V],
        .bias_out = parts[MHA_BENCH_BIAS_OUT],
        .key_lengths = {one->key_lengths, 0},
        .output = {device->output, 0},
        .workspace = workspace,
    };
    return gpu_mha_layer_enqueue(one->plan, device->queue, &buffers, 0, NULL, NULL);
}
