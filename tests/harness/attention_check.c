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

static int compare_one(const struct attention_data *data, enum attention_array array,
                       const struct attention_outputs *outputs, const double *want,
                       const double *bound, struct compare_report *report)
{
    const gpu_mha_desc *d = &data->desc;
    int averaged = array == ARRAY_WEIGHTS && d->weights == GPU_MHA_WEIGHTS_AVERAGED;
    int64_t last = array == ARRAY_OUTPUT ? d->DV : array == ARRAY_LSE ? 1 : data->NT;
    int64_t dims[4] = {d->B, averaged ? 1 : d->H, d->NQ, last};
    int64_t count = dims[0] * dims[1] * dims[2] * dims[3];
    double *got = alloc_doubles(count);
    int bad;

    storage_unpack(data->images[array].type, got, outputs->arrays[array], count);
    bad = is_random(&data->spec)
              ? compare_arrays(attention_array_name(array), 4, dims, got, want, bound, report)
              : compare_elements(attention_array_name(array), 4, dims, got, want, bound, report);
    free(got);
    return bad;
}

static int compare_weights(const struct attention_data *data,
                           const struct attention_outputs *outputs, struct compare_report *report)
{
    const gpu_mha_desc *d = &data->desc;
    const struct ref_result *r = &data->want;
    double *mean, *bound;
    int bad;

    if (d->weights == GPU_MHA_WEIGHTS_PER_HEAD) {
        return compare_one(data, ARRAY_WEIGHTS, outputs, r->weights, r->bound_weights, report);
    }
    mean = alloc_doubles(d->B * d->NQ * data->NT);
    bound = alloc_doubles(d->B * d->NQ * data->NT);
    ref_head_average(d->B, d->H, d->NQ, data->NT, r->weights, mean);
    ref_head_average(d->B, d->H, d->NQ, data->NT, r->bound_weights, bound);
    bad = compare_one(data, ARRAY_WEIGHTS, outputs, mean, bound, report);
    free(bound);
    free(mean);
    return bad;
}

/* Returns 0, or 1 and the report of the first array that is wrong. */
static int compare_all(const struct attention_data *data, const struct attention_outputs *outputs,
                       struct compare_report *report)
{
    const gpu_mha_desc *d = &data->desc;
    const struct ref_result *r = &data->want;
    const struct {
        const double *want, *bound;
    } scores[] = {{NULL, NULL},
                  {r->raw, r->bound_raw},
                  {r->capped, r->bound_capped},
                  {r->masked, r->bound_masked},
                  {r->softmax, r->bound_softmax}};

    if (compare_one(data, ARRAY_OUTPUT, outputs, r->o, r->bound_o, report)) {
        return 1;
    }
    if (d->lse && compare_one(data, ARRAY_LSE, outputs, r->lse, r->bound_lse, report)) {
        return 1;
    }
    if (d->scores != GPU_MHA_SCORES_NONE &&
        compare_one(data, ARRAY_SCORES, outputs, scores[d->scores].want, scores[d->scores].bound,
                    report)) {
        return 1;
    }
    return d->weights != GPU_MHA_WEIGHTS_NONE && compare_weights(data, outputs, report);
}

void attention_check(const struct attention_spec *spec, char *plan)
{
    struct attention_launch launches[] = {
        {.poison = POISON_1000, .out_of_order = spec->out_of_order},
        {.poison = POISON_NAN, .out_of_order = spec->out_of_order},
        {.poison = POISON_NAN, .host_call = 1},
    };
    struct attention_outputs first = {.plan = ""}, other;
    struct attention_data data;
    struct compare_report report;
    char error[ATTENTION_ERROR_SIZE], text[2048];

    attention_use_tile(spec->tile);
    attention_spec_text(spec, text, sizeof(text));
    attention_data_make(spec, &data);
    ck_assert_msg(attention_run(attention_context, &data, launches[0], &first, error) == 0,
                  "%s\n{%s}", error, text);
    ck_assert_msg(compare_all(&data, &first, &report) == 0, "%s\n%s\n{%s}", report.text, first.plan,
                  text);
    for (int n = 1; n < (spec->host_call ? 3 : 2); n++) {
        ck_assert_msg(attention_run(attention_context, &data, launches[n], &other, error) == 0,
                      "%s\n%s\n{%s}", error, first.plan, text);
        const char *differs = attention_outputs_differ(&first, &other);
        ck_assert_msg(differs == NULL, "%s has other bits %s\n%s\n{%s}", differs,
                      n == 1 ? "with NaN instead of 1000 in what must not be read"
                             : "through gpu_mha()",
                      first.plan, text);
        attention_outputs_free(&other);
    }
    if (plan) {
        snprintf(plan, sizeof(first.plan), "%s", first.plan);
    }
    attention_outputs_free(&first);
    attention_data_free(&data);
    problems_checked++;
}
