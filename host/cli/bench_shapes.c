/*
 * The shapes that gpu-mha bench measures, and how much work is in them.
 */
#include <string.h>

#include "bench.h"
#include "options.h"

#define SHAPE(B_, H_, HKV_, NQ_, NK_, D_)                                                          \
    .struct_size = sizeof(gpu_mha_desc), .B = B_, .H = H_, .HKV = HKV_, .NQ = NQ_, .NK = NK_,      \
    .DK = D_, .DV = D_
#define STORED(type_)                                                                              \
    .query = {.type = type_}, .key = {.type = type_}, .value = {.type = type_},                    \
    .output = {.type = type_}

/* What each is for stands in the text of --help. */
static const struct mha_bench_shape default_shapes[] = {
    {.name = "prefill-64", .desc = {SHAPE(1, 12, 12, 1024, 1024, 64)}},
    {.name = "prefill-128", .desc = {SHAPE(1, 8, 8, 2048, 2048, 128)}},
    {.name = "causal-64", .desc = {SHAPE(1, 12, 12, 2048, 2048, 64), .causal = 1}},
    {.name = "causal-128", .desc = {SHAPE(1, 8, 8, 4096, 4096, 128), .causal = 1}},
    {.name = "gqa", .desc = {SHAPE(1, 32, 8, 1024, 1024, 128), .causal = 1}},
    {.name = "bert",
     .desc = {SHAPE(8, 12, 12, 128, 128, 64), .key_lengths = GPU_MHA_I32},
     .shortest = 37},
    {.name = "tiny", .desc = {SHAPE(32, 12, 12, 32, 32, 32)}},
    {.name = "odd",
     .desc = {SHAPE(2, 7, 7, 777, 1003, 80), .has_window = 1, .window_left = 255,
              .offset_kind = GPU_MHA_BOTTOM_RIGHT}},
    {.name = "long", .desc = {SHAPE(1, 2, 2, 16384, 16384, 64), .causal = 1}},
    {.name = "decode", .desc = {SHAPE(1, 32, 8, 1, 4096, 128)}},
    {.name = "decode-batch",
     .desc = {SHAPE(16, 32, 8, 1, 1024, 128), .key_lengths = GPU_MHA_I32},
     .shortest = 200},
    {.name = "decode-f16", .desc = {SHAPE(1, 32, 8, 1, 4096, 128), STORED(GPU_MHA_F16)}},
    {.name = "prefill-f16", .desc = {SHAPE(1, 8, 8, 2048, 2048, 128), STORED(GPU_MHA_F16)}},
    {.name = "cross", .desc = {SHAPE(1, 8, 8, 1, 64, 64)}},
    {.name = "layer-768", .desc = {SHAPE(1, 12, 12, 1024, 1024, 64)}, .width = 768},
};

const struct mha_bench_shape *mha_bench_default_shapes(size_t *count)
{
    *count = sizeof default_shapes / sizeof default_shapes[0];
    return default_shapes;
}

bool mha_bench_shape_read(const char *text, gpu_mha_desc *desc)
{
    int64_t *const fields[] = {&desc->B,  &desc->H,  &desc->HKV, &desc->NQ,
                               &desc->NK, &desc->DK, &desc->DV};
    enum { FIELDS = sizeof fields / sizeof fields[0], NEEDED = FIELDS - 1 };
    const size_t read = mha_options_lengths(text, fields, FIELDS);

    if (read == NEEDED) {
        desc->DV = desc->DK;
    }
    return read >= NEEDED;
}

void mha_bench_store_as(gpu_mha_desc *desc, gpu_mha_type type)
{
    const gpu_mha_tensor stored = {.type = type};

    desc->query = desc->key = desc->value = desc->output = stored;
}

int64_t mha_bench_key_length(const struct mha_bench_shape *shape, int64_t b)
{
    const gpu_mha_desc *desc = &shape->desc;

    if (desc->key_lengths == GPU_MHA_INDEX_NONE || desc->B == 1) {
        return desc->NK;
    }
    return shape->shortest + b * (desc->NK - shape->shortest) / (desc->B - 1);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The visible keys first .. end - 1 of query i. */
static void visible_keys(const gpu_mha_desc *desc, int64_t length, int64_t i, int64_t *first,
                         int64_t *end)
{
    int64_t offset = desc->offset_kind == GPU_MHA_BOTTOM_RIGHT ? length - desc->NQ : 0;
    int64_t position = i + offset;
    int64_t furthest = desc->NK + desc->NQ; /* no two positions lie further apart */

    *first = 0;
    *end = length;
    if (desc->causal) {
        *end = least(*end, position + 1);
    }
    if (desc->has_window && desc->window_right >= 0) {
        *end = least(*end, position + least(desc->window_right, furthest) + 1);
    }
    if (desc->has_window && desc->window_left >= 0) {
        *first = most(*first, position - least(desc->window_left, furthest));
    }
    *end = most(*end, *first);
}

static double element_bytes(gpu_mha_tensor tensor)
{
    return tensor.type == GPU_MHA_F32 ? 4 : 2;
}

struct mha_bench_work mha_bench_work_of(const struct mha_bench_shape *shape)
{
    const gpu_mha_desc *desc = &shape->desc;
    double pairs = 0; /* of a query and a key that it sees, in one head */
    double keys = 0;  /* that any query of their batch entry sees, in one kv head */
    double rows = (double)desc->B * (double)desc->H * (double)desc->NQ;

    for (int64_t b = 0; b < desc->B; b++) {
        /* From one query to the next neither bound goes back, so the seen keys grow at one end. */
        int64_t seen = 0;
        for (int64_t i = 0; i < desc->NQ; i++) {
            int64_t first, end;
            visible_keys(desc, mha_bench_key_length(shape, b), i, &first, &end);
            pairs += (double)(end - first);
            keys += (double)most(0, end - most(first, seen));
            seen = most(seen, end);
        }
    }
    const double flops = 2 * pairs * (double)desc->H * (double)(desc->DK + desc->DV);
    if (shape->width > 0) {
        return mha_bench_layer_work(shape, flops);
    }
    return (struct mha_bench_work){
        .flops = flops,
        .bytes = rows * ((double)desc->DK * element_bytes(desc->query) +
                         (double)desc->DV * element_bytes(desc->output)) +
                 keys * (double)desc->HKV *
                     ((double)desc->DK * element_bytes(desc->key) +
                      (double)desc->DV * element_bytes(desc->value)),
    };
}
