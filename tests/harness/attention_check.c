/*
 * attention_check.c - the outputs of attention_run.h against the reference.
 */
#include "attention_run.h"

#include "assertions.h"

#include <stdio.h>
#include <stdlib.h>

gpu_mha_context *attention_context;

static int problems_checked;

void attention_open(void)
{
    problems_checked = 0;
    ck_assert_msg(gpu_mha_context_create(NULL, &attention_context) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
}

void attention_close(void)
{
    gpu_mha_context_release(attention_context);
    attention_context = NULL;
    if (problems_checked > 0) {
        printf("%d problems\n", problems_checked);
    }
}

/* Errors have statistics only where every element was drawn for itself. */
static int is_random(const struct attention_spec *spec)
{
    const enum attention_layout inputs[] = {spec->query, spec->key, spec->value, spec->past_key,
                                            spec->past_value};

    for (size_t n = 0; n < sizeof(inputs) / sizeof(inputs[0]); n++) {
        if (inputs[n] >= ATTENTION_ONE_BATCH && inputs[n] <= ATTENTION_ONE_ROW) {
            return 0;
        }
    }
    return spec->fill == ATTENTION_NORMAL || spec->fill == ATTENTION_POSITIVE ||
           spec->fill == ATTENTION_LARGE;
}

/* One problem on its way through attention_try. */
struct trial {
    struct attention_data data;
    int with_statistics;
    struct attention_verdict verdict;
};

/* Sets the verdict if the array misses a bound; 1 if so. */
static int is_wrong(struct trial *trial, enum attention_array array,
                    const struct attention_outputs *outputs, const double *want,
                    const double *bound)
{
    const struct attention_data *data = &trial->data;
    const gpu_mha_desc *d = &data->desc;
    int averaged = array == ARRAY_WEIGHTS && d->weights == GPU_MHA_WEIGHTS_AVERAGED;
    int64_t last = array == ARRAY_OUTPUT ? d->DV : array == ARRAY_LSE ? 1 : data->NT;
    int64_t dims[4] = {d->B, averaged ? 1 : d->H, d->NQ, last};
    int64_t count = dims[0] * dims[1] * dims[2] * dims[3];
    double *got = alloc_doubles(count);
    struct compare_report report;
    int bad;

    storage_unpack(data->images[array].type, got, outputs->arrays[array], count);
    bad = (trial->with_statistics ? compare_arrays : compare_elements)(
        attention_array_name(array), 4, dims, got, want, bound, &report);
    free(got);
    trial->verdict.worst = fmax(trial->verdict.worst, report.worst_ratio);
    if (bad) {
        trial->verdict.fault = ATTENTION_WRONG;
        trial->verdict.array = array;
        snprintf(trial->verdict.text, sizeof(trial->verdict.text), "%s", report.text);
    }
    return bad;
}

static int weights_are_wrong(struct trial *trial, const struct attention_outputs *outputs)
{
    const gpu_mha_desc *d = &trial->data.desc;
    const struct ref_result *r = &trial->data.want;
    const int64_t NT = trial->data.NT;
    double *mean, *bound;
    int bad;

    if (d->weights == GPU_MHA_WEIGHTS_PER_HEAD) {
        return is_wrong(trial, ARRAY_WEIGHTS, outputs, r->weights, r->bound_weights);
    }
    mean = alloc_doubles(d->B * d->NQ * NT);
    bound = alloc_doubles(d->B * d->NQ * NT);
    ref_head_average(d->B, d->H, d->NQ, NT, r->weights, mean);
    ref_head_average(d->B, d->H, d->NQ, NT, r->bound_weights, bound);
    bad = is_wrong(trial, ARRAY_WEIGHTS, outputs, mean, bound);
    free(bound);
    free(mean);
    return bad;
}

struct attention_wanted attention_want_scores(const struct attention_data *data)
{
    const struct ref_result *r = &data->want;

    switch (data->desc.scores) {
    case GPU_MHA_SCORES_RAW:
        return (struct attention_wanted){r->raw, r->bound_raw};
    case GPU_MHA_SCORES_CAPPED:
        return (struct attention_wanted){r->capped, r->bound_capped};
    case GPU_MHA_SCORES_MASKED:
        return (struct attention_wanted){r->masked, r->bound_masked};
    case GPU_MHA_SCORES_SOFTMAX:
        return (struct attention_wanted){r->softmax, r->bound_softmax};
    default:
        return (struct attention_wanted){NULL, NULL};
    }
}

static int any_is_wrong(struct trial *trial, const struct attention_outputs *outputs)
{
    const gpu_mha_desc *d = &trial->data.desc;
    const struct ref_result *r = &trial->data.want;
    const struct attention_wanted scores = attention_want_scores(&trial->data);

    if (is_wrong(trial, ARRAY_OUTPUT, outputs, r->o, r->bound_o)) {
        return 1;
    }
    if (d->lse && is_wrong(trial, ARRAY_LSE, outputs, r->lse, r->bound_lse)) {
        return 1;
    }
    if (d->scores != GPU_MHA_SCORES_NONE &&
        is_wrong(trial, ARRAY_SCORES, outputs, scores.values, scores.bound)) {
        return 1;
    }
    return d->weights != GPU_MHA_WEIGHTS_NONE && weights_are_wrong(trial, outputs);
}

/* Runs once more, another way: the outputs must have the bits of `first`. */
static int differs(gpu_mha_context *context, struct trial *trial, struct attention_launch launch,
                   const struct attention_outputs *first)
{
    struct attention_verdict *verdict = &trial->verdict;
    struct attention_outputs other;
    const char *array;

    if (attention_run(context, &trial->data, launch, &other, verdict->text) != 0) {
        verdict->fault = ATTENTION_FAILED;
        return 1;
    }
    array = attention_outputs_differ(first, &other);
    if (array) {
        verdict->fault = ATTENTION_OTHER_BITS;
        snprintf(verdict->text, sizeof(verdict->text), "%s has other bits %s", array,
                 launch.host_call ? "through gpu_mha()"
                                  : "with NaN instead of 1000 in what must not be read");
    }
    attention_outputs_free(&other);
    return array != NULL;
}

struct attention_verdict attention_try(gpu_mha_context *context, const struct attention_spec *spec,
                                       int elements_only)
{
    struct attention_launch launches[] = {
        {.poison = POISON_1000, .out_of_order = spec->out_of_order},
        {.poison = POISON_NAN, .out_of_order = spec->out_of_order},
        {.poison = POISON_NAN, .host_call = 1},
    };
    struct trial trial = {.with_statistics = !elements_only && is_random(spec)};
    struct attention_verdict *verdict = &trial.verdict;
    struct attention_outputs first;

    attention_use_tile(spec->tile);
    attention_data_make(spec, &trial.data);
    if (attention_run(context, &trial.data, launches[0], &first, verdict->text) != 0) {
        verdict->fault = ATTENTION_FAILED;
    } else if (!any_is_wrong(&trial, &first)) {
        for (int n = 1; n < (spec->host_call ? 3 : 2); n++) {
            if (differs(context, &trial, launches[n], &first)) {
                break;
            }
        }
    }
    snprintf(verdict->plan, sizeof(verdict->plan), "%s", first.plan);
    attention_outputs_free(&first);
    attention_data_free(&trial.data);
    return *verdict;
}

void attention_check(const struct attention_spec *spec, char *plan)
{
    char text[2048];
    struct attention_verdict verdict = attention_try(attention_context, spec, 0);

    attention_spec_text(spec, text, sizeof(text));
    ck_assert_msg(verdict.fault == ATTENTION_RIGHT, "%s\n%s\n{%s}", verdict.text, verdict.plan,
                  text);
    if (plan) {
        snprintf(plan, sizeof(verdict.plan), "%s", verdict.plan);
    }
    problems_checked++;
}
