/*
 * known_run.c - see known_run.h.
 */
#include "known_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sizes of all kinds but KNOWN_SPLIT. Widths of the layer are powers of two: its means are exact.
 */
enum { H = 2, NQ = 3, NK = 6, DK = 8, DV = 4, EV = 8, EO = 4, NC = 7 };
enum { SPLIT_NK = 4096 };

const char *known_name(enum known_kind kind)
{
    static const char *const names[KNOWN_KINDS] = {"fused attention",
                                                   "staged attention",
                                                   "attention with its keys split",
                                                   "attention with ALiBi",
                                                   "merge",
                                                   "rotary embedding",
                                                   "cache update",
                                                   "layer"};
    return names[kind];
}

size_t known_output_count(enum known_kind kind)
{
    static const size_t counts[KNOWN_KINDS] = {
        [KNOWN_FUSED] = H * NQ * DV, [KNOWN_STAGED] = H * NQ * DV, [KNOWN_SPLIT] = DV,
        [KNOWN_ALIBI] = H * NQ * DV, [KNOWN_MERGE] = H * NQ * DV,  [KNOWN_ROTARY] = H * NQ * DK,
        [KNOWN_CACHE] = H * NC * DK, [KNOWN_LAYER] = NQ * EO};
    return counts[kind];
}

int known_right(enum known_kind kind, const float *output, float value)
{
    const float bound = 1e-4f * fabsf(value);
    for (size_t i = 0; i < known_output_count(kind); i++) {
        if (!(fabsf(output[i] - value) <= bound)) {
            return 0;
        }
    }
    return 1;
}

int known_untouched(enum known_kind kind, const float *output)
{
    for (size_t i = 0; i < known_output_count(kind); i++) {
        if (!isnan(output[i])) {
            return 0;
        }
    }
    return 1;
}

/* ---- descriptors ---- */

static gpu_mha_desc attention_desc(enum known_kind kind)
{
    gpu_mha_desc desc = {.B = 1, .H = H, .HKV = 1, .NQ = NQ, .NK = NK, .DK = DK, .DV = DV};
    if (kind == KNOWN_SPLIT) {
        desc.H = desc.NQ = 1;
        desc.NK = SPLIT_NK;
    }
    desc.method = kind == KNOWN_STAGED ? GPU_MHA_STAGED : GPU_MHA_FUSED;
    desc.alibi = kind == KNOWN_ALIBI ? GPU_MHA_ALIBI_AUTO : GPU_MHA_ALIBI_NONE;
    return desc;
}

static const gpu_mha_merge_desc merge_desc = {.B = 1, .H = H, .NQ = NQ, .DV = DV};
static const gpu_mha_rotary_desc rotary_desc = {.B = 1, .H = H, .N = NQ, .D = DK};
static const gpu_mha_cache_desc cache_desc = {.B = 1, .H = H, .D = DK, .N = NC, .NC = NC};

static const gpu_mha_desc inside = {
    .B = 1, .H = H, .HKV = H, .NQ = NQ, .NK = NK, .DK = DK, .DV = DV, .key = {.type = GPU_MHA_F16}};
static const gpu_mha_layer_desc layer_desc = {
    .attention = &inside, .EQ = DK, .EK = DK, .EV = EV, .EO = EO, .bias_q = 1};

gpu_mha_status known_plan(gpu_mha_context *context, enum known_kind kind, gpu_mha_plan **plan)
{
    const gpu_mha_desc desc = attention_desc(kind);
    switch (kind) {
    case KNOWN_MERGE:
        return gpu_mha_merge_plan_create(context, &merge_desc, plan);
    case KNOWN_ROTARY:
        return gpu_mha_rotary_plan_create(context, &rotary_desc, plan);
    case KNOWN_CACHE:
        return gpu_mha_cache_plan_create(context, &cache_desc, plan);
    case KNOWN_LAYER:
        return gpu_mha_layer_plan_create(context, &layer_desc, plan);
    default:
        return gpu_mha_plan_create(context, &desc, plan);
    }
}

/* ---- the arrays of a kind, for the host and for the device ---- */

/* What an array holds everywhere. The key input of the layer is half precision, and 0. */
struct array {
    size_t count;
    float fill;
};

enum { ARRAYS_MAX = 10 };

/* Inputs in the order of the fields; the one at `*input` holds `value`. Returns their number. */
static int list_inputs(enum known_kind kind, float value, struct array list[ARRAYS_MAX], int *input)
{
    const struct array attention[] = {
        {H * NQ * DK, 0.5f}, {NK * DK, 0.25f}, {NK * DV, value}}; /* query, key, value */
    const struct array split[] = {{DK, 0.5f}, {SPLIT_NK * DK, 0.25f}, {SPLIT_NK * DV, value}};
    const struct array merge[] = {{H * NQ * DV, value},
                                  {H * NQ, 1},
                                  {H * NQ * DV, value},
                                  {H * NQ, 1}}; /* a, lse_a, b, lse_b */
    const struct array rotary[] = {
        {H * NQ * DK, value}, {NQ * DK / 2, 1}, {NQ * DK / 2, 0}}; /* input, cos, sin */
    const struct array cache[] = {{H * NC * DK, value}};
    const struct array layer[] = {{NQ * DK, 0.5f},
                                  {NK * DK, 0},
                                  {NK * EV, value},
                                  {H * DK * DK, 0.125f},
                                  {H * DK * DK, 0.5f},
                                  {H * DV * EV, 1.0f / EV},
                                  {EO * H * DV, 1.0f / (H * DV)},
                                  {H * DK, 0.25f}}; /* inputs, weights, bias_q */
    const struct {
        const struct array *list;
        size_t bytes;
        int input;
    } kinds[KNOWN_KINDS] = {{attention, sizeof attention, 2}, {attention, sizeof attention, 2},
                            {split, sizeof split, 2},         {attention, sizeof attention, 2},
                            {merge, sizeof merge, 0},         {rotary, sizeof rotary, 0},
                            {cache, sizeof cache, 0},         {layer, sizeof layer, 2}};
    memcpy(list, kinds[kind].list, kinds[kind].bytes);
    *input = kinds[kind].input;
    return (int)(kinds[kind].bytes / sizeof(struct array));
}

static float *filled(struct array array)
{
    float *floats = malloc(array.count * sizeof *floats);
    for (size_t i = 0; floats && i < array.count; i++) {
        floats[i] = array.fill;
    }
    return floats;
}

/* ---- on the device ---- */

static int add_buffer(struct known_run *run, cl_context cl, size_t bytes, float *from)
{
    cl_int code = CL_SUCCESS;
    cl_mem mem = clCreateBuffer(cl, CL_MEM_READ_WRITE | (from ? CL_MEM_COPY_HOST_PTR : 0), bytes,
                                from, &code);
    if (!mem) {
        return -1;
    }
    run->buffers[run->buffer_count++] = mem;
    return 0;
}

static int add_array(struct known_run *run, cl_context cl, struct array array)
{
    float *floats = filled(array);
    const int bad = !floats || add_buffer(run, cl, array.count * sizeof *floats, floats) != 0;
    free(floats);
    return bad ? -1 : 0;
}

static void set_fields(struct known_run *run, cl_mem workspace)
{
    cl_mem *m = run->buffers;
    cl_mem out = m[run->output];
    switch (run->kind) {
    case KNOWN_MERGE:
        run->fields.merge = (gpu_mha_merge_buffers){
            .a = {m[0], 0}, .lse_a = {m[1], 0}, .b = {m[2], 0}, .lse_b = {m[3], 0}};
        run->fields.merge.output.mem = out;
        run->fields.merge.lse.mem = m[run->output + 1];
        break;
    case KNOWN_ROTARY:
        run->fields.rotary = (gpu_mha_rotary_buffers){
            .input = {m[0], 0}, .cos = {m[1], 0}, .sin = {m[2], 0}, .output = {out, 0}};
        break;
    case KNOWN_CACHE:
        run->fields.cache = (gpu_mha_cache_buffers){.update = {m[0], 0}, .cache = {out, 0}};
        break;
    case KNOWN_LAYER:
        run->fields.layer = (gpu_mha_layer_buffers){.query_input = {m[0], 0},
                                                    .key_input = {m[1], 0},
                                                    .value_input = {m[2], 0},
                                                    .weight_q = {m[3], 0},
                                                    .weight_k = {m[4], 0},
                                                    .weight_v = {m[5], 0},
                                                    .weight_out = {m[6], 0},
                                                    .bias_q = {m[7], 0},
                                                    .output = {out, 0},
                                                    .workspace = {workspace, 0}};
        break;
    default:
        run->fields.attention = (gpu_mha_buffers){.query = {m[0], 0},
                                                  .key = {m[1], 0},
                                                  .value = {m[2], 0},
                                                  .output = {out, 0},
                                                  .workspace = {workspace, 0}};
    }
}

int known_open(struct known_run *run, cl_context cl, const gpu_mha_plan *plan, enum known_kind kind,
               float value)
{
    struct array inputs[ARRAYS_MAX];
    *run = (struct known_run){.kind = kind, .value = value};
    const int count = list_inputs(kind, value, inputs, &run->input);
    run->input_count = inputs[run->input].count;
    run->output_count = known_output_count(kind);
    run->output = count;
    int bad = 0;
    for (int i = 0; i < count; i++) {
        bad |= add_array(run, cl, inputs[i]);
    }
    bad |= add_array(run, cl, (struct array){run->output_count, NAN});
    if (kind == KNOWN_MERGE) {
        bad |= add_array(run, cl, (struct array){H * NQ, NAN});
    }
    const size_t workspace = gpu_mha_plan_workspace_bytes(plan);
    if (workspace > 0) {
        bad |= add_buffer(run, cl, workspace, NULL);
    }
    if (bad) {
        known_close(run);
        return -1;
    }
    set_fields(run, workspace > 0 ? run->buffers[run->buffer_count - 1] : NULL);
    return 0;
}

void known_close(struct known_run *run)
{
    for (int i = 0; i < run->buffer_count; i++) {
        clReleaseMemObject(run->buffers[i]);
    }
    run->buffer_count = 0;
}

gpu_mha_status known_enqueue(gpu_mha_plan *plan, const struct known_run *run,
                             cl_command_queue queue, cl_uint wait_count, const cl_event *wait,
                             cl_event *event)
{
    switch (run->kind) {
    case KNOWN_MERGE:
        return gpu_mha_merge_enqueue(plan, queue, &run->fields.merge, wait_count, wait, event);
    case KNOWN_ROTARY:
        return gpu_mha_rotary_enqueue(plan, queue, &run->fields.rotary, wait_count, wait, event);
    case KNOWN_CACHE:
        return gpu_mha_cache_enqueue(plan, queue, &run->fields.cache, wait_count, wait, event);
    case KNOWN_LAYER:
        return gpu_mha_layer_enqueue(plan, queue, &run->fields.layer, wait_count, wait, event);
    default:
        return gpu_mha_enqueue(plan, queue, &run->fields.attention, wait_count, wait, event);
    }
}

/* ---- on the host ---- */

static gpu_mha_status call(gpu_mha_context *context, enum known_kind kind, float *const *in,
                           float *output)
{
    float lse[H * NQ];
    const gpu_mha_desc desc = attention_desc(kind);
    const gpu_mha_arrays attention = {
        .query = in[0], .key = in[1], .value = in[2], .output = output};
    const gpu_mha_merge_arrays merge = {
        .a = in[0], .lse_a = in[1], .b = in[2], .lse_b = in[3], .output = output, .lse = lse};
    const gpu_mha_rotary_arrays rotary = {
        .input = in[0], .cos = in[1], .sin = in[2], .output = output};
    const gpu_mha_cache_arrays cache = {.update = in[0], .cache = output};
    const gpu_mha_layer_arrays layer = {.query_input = in[0],
                                        .key_input = in[1],
                                        .value_input = in[2],
                                        .weight_q = in[3],
                                        .weight_k = in[4],
                                        .weight_v = in[5],
                                        .weight_out = in[6],
                                        .bias_q = in[7],
                                        .output = output};
    switch (kind) {
    case KNOWN_MERGE:
        return gpu_mha_merge(context, &merge_desc, &merge);
    case KNOWN_ROTARY:
        return gpu_mha_rotary(context, &rotary_desc, &rotary);
    case KNOWN_CACHE:
        return gpu_mha_cache_update(context, &cache_desc, &cache);
    case KNOWN_LAYER:
        return gpu_mha_layer(context, &layer_desc, &layer);
    default:
        return gpu_mha(context, &desc, &attention);
    }
}

gpu_mha_status known_call(gpu_mha_context *context, enum known_kind kind, float value,
                          float *output)
{
    struct array inputs[ARRAYS_MAX];
    float *in[ARRAYS_MAX] = {NULL};
    int unused;
    const int count = list_inputs(kind, value, inputs, &unused);
    gpu_mha_status status = GPU_MHA_OK;
    for (int i = 0; i < count; i++) {
        in[i] = filled(inputs[i]);
        status = in[i] ? status : GPU_MHA_HOST_MEMORY;
    }
    for (size_t i = 0; i < known_output_count(kind); i++) {
        output[i] = NAN;
    }
    if (status == GPU_MHA_OK) {
        status = call(context, kind, in, output);
    }
    for (int i = 0; i < count; i++) {
        free(in[i]);
    }
    return status;
}
