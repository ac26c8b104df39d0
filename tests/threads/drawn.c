/* drawn.c - see drawn.h. */
#include "drawn.h"

#include "harness/compare.h"
#include "reference/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *draw(size_t count, unsigned *state)
{
    float *numbers = malloc(count * sizeof *numbers);
    for (size_t i = 0; numbers && i < count; i++) {
        *state = *state * 1664525u + 1013904223u;
        numbers[i] = (float)(*state >> 8) / (float)(1 << 23) - 1; /* [-1, 1) */
    }
    return numbers;
}

static double *widen(const float *numbers, size_t count)
{
    double *wide = malloc(count * sizeof *wide);
    for (size_t i = 0; wide && i < count; i++) {
        wide[i] = (double)numbers[i];
    }
    return wide;
}

static gpu_mha_status call(const struct drawn *d, gpu_mha_context *context, float *output)
{
    const gpu_mha_arrays arrays = {
        .query = d->query, .key = d->key, .value = d->value, .output = output};
    return gpu_mha(context, &d->desc, &arrays);
}

/* Every element of the run alone within its bound. */
static int judge(struct drawn *d)
{
    const gpu_mha_desc *s = &d->desc;
    const int64_t dims[] = {s->B, s->H, s->NQ, s->DV};
    double *q = widen(d->query, d->query_count), *k = widen(d->key, d->key_count);
    double *v = widen(d->value, d->value_count), *got = widen(d->alone, d->output_count);
    const struct ref_problem problem = {.B = s->B,
                                        .H = s->H,
                                        .HKV = s->HKV,
                                        .NQ = s->NQ,
                                        .NK = s->NK,
                                        .DK = s->DK,
                                        .DV = s->DV,
                                        .q = q,
                                        .k = k,
                                        .v = v,
                                        .causal = s->causal,
                                        .scale = ref_default_scale(s->DK)};
    struct ref_result want = {0};
    struct compare_report report;
    int bad = !q || !k || !v || !got || ref_attention(&problem, &want) != 0;
    snprintf(d->text, sizeof d->text, "no memory for the reference");
    if (!bad && compare_elements("output", 4, dims, got, want.o, want.bound_o, &report)) {
        snprintf(d->text, sizeof d->text, "alone: %.200s", report.text);
        bad = 1;
    }
    ref_result_free(&want);
    free(q);
    free(k);
    free(v);
    free(got);
    return bad ? -1 : 0;
}

int drawn_make(struct drawn *d, gpu_mha_context *context, const gpu_mha_desc *desc, unsigned seed)
{
    *d = (struct drawn){.desc = *desc,
                        .query_count = (size_t)(desc->B * desc->H * desc->NQ * desc->DK),
                        .key_count = (size_t)(desc->B * desc->HKV * desc->NK * desc->DK),
                        .value_count = (size_t)(desc->B * desc->HKV * desc->NK * desc->DV),
                        .output_count = (size_t)(desc->B * desc->H * desc->NQ * desc->DV)};
    d->query = draw(d->query_count, &seed);
    d->key = draw(d->key_count, &seed);
    d->value = draw(d->value_count, &seed);
    d->alone = calloc(d->output_count, sizeof *d->alone);
    if (!d->query || !d->key || !d->value || !d->alone) {
        snprintf(d->text, sizeof d->text, "no memory for a problem");
        return -1;
    }
    if (call(d, context, d->alone) != GPU_MHA_OK) {
        snprintf(d->text, sizeof d->text, "alone: %.200s", gpu_mha_last_error());
        return -1;
    }
    return judge(d);
}

void drawn_free(struct drawn *d)
{
    free(d->query);
    free(d->key);
    free(d->value);
    free(d->alone);
    *d = (struct drawn){.query = NULL};
}

static const char *compare(const struct drawn *d, const float *output)
{
    return memcmp(output, d->alone, d->output_count * sizeof *output) == 0
               ? NULL
               : "the bits are not those of the run alone";
}

const char *drawn_call(const struct drawn *d, gpu_mha_context *context)
{
    float *output = malloc(d->output_count * sizeof *output);
    if (!output) {
        return "no memory for an output";
    }
    memset(output, 0xFF, d->output_count * sizeof *output);
    const char *complaint =
        call(d, context, output) == GPU_MHA_OK ? compare(d, output) : gpu_mha_last_error();
    free(output);
    return complaint;
}

static int add(struct drawn_buffers *b, int index, cl_context cl, size_t bytes, float *from)
{
    cl_int code = CL_SUCCESS;
    b->all[index] = clCreateBuffer(cl, CL_MEM_READ_WRITE | (from ? CL_MEM_COPY_HOST_PTR : 0), bytes,
                                   from, &code);
    return b->all[index] == NULL;
}

int drawn_open(struct drawn_buffers *b, const struct drawn *d, cl_context cl,
               const gpu_mha_plan *plan)
{
    const size_t workspace = gpu_mha_plan_workspace_bytes(plan);
    *b = (struct drawn_buffers){.all = {NULL}};
    int bad = add(b, 0, cl, d->query_count * sizeof(float), d->query);
    bad |= add(b, 1, cl, d->key_count * sizeof(float), d->key);
    bad |= add(b, 2, cl, d->value_count * sizeof(float), d->value);
    bad |= add(b, 3, cl, d->output_count * sizeof(float), NULL);
    if (workspace > 0) {
        bad |= add(b, 4, cl, workspace, NULL);
    }
    b->fields = (gpu_mha_buffers){.query = {b->all[0], 0},
                                  .key = {b->all[1], 0},
                                  .value = {b->all[2], 0},
                                  .output = {b->all[3], 0},
                                  .workspace = {b->all[4], 0}};
    return bad ? -1 : 0;
}

void drawn_close(struct drawn_buffers *b)
{
    for (int i = 0; i < 5; i++) {
        if (b->all[i]) {
            clReleaseMemObject(b->all[i]);
        }
    }
}

const char *drawn_enqueue(const struct drawn *d, const struct drawn_buffers *b, gpu_mha_plan *plan,
                          cl_command_queue queue)
{
    const size_t bytes = d->output_count * sizeof(float);
    const cl_int wrong = -1; /* a NaN */
    const char *complaint = NULL;
    cl_event filled = NULL, done = NULL;
    float *output = malloc(bytes);
    if (!output || clEnqueueFillBuffer(queue, b->all[3], &wrong, sizeof wrong, 0, bytes, 0, NULL,
                                       &filled) != CL_SUCCESS) {
        complaint = "the output cannot be filled";
    } else if (gpu_mha_enqueue(plan, queue, &b->fields, 1, &filled, &done) != GPU_MHA_OK) {
        complaint = gpu_mha_last_error();
    } else if (clEnqueueReadBuffer(queue, b->all[3], CL_TRUE, 0, bytes, output, 1, &done, NULL) !=
               CL_SUCCESS) {
        complaint = "the output cannot be read";
    } else {
        complaint = compare(d, output);
    }
    if (filled) {
        clReleaseEvent(filled);
    }
    if (done) {
        clReleaseEvent(done);
    }
    free(output);
    return complaint;
}
