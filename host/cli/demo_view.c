/* What the demo shows; see demo.h. */
#include "demo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"

enum { TOP = 3 /* tokens named for each head */ };

/* What one head's row for the query token says. */
struct view {
    int64_t top[TOP]; /* tokens by falling weight; -1 behind the last */
    float wanted_weight;
    int64_t wanted_rank; /* 1: nothing has a larger weight */
};

/* Row (b, h, query) of the weights, N long. */
static const float *weights_row(const struct mha_demo *demo, int64_t h)
{
    const struct mha_demo_data *data = &demo->data;
    return demo->weights + ((demo->b * data->H + h) * data->N + demo->query) * data->N;
}

static struct view view_head(const struct mha_demo *demo, int64_t h)
{
    const float *row = weights_row(demo, h);
    struct view view = {.wanted_weight = row[demo->wanted], .wanted_rank = 1};

    for (int place = 0; place < TOP; place++) {
        int64_t best = -1;
        for (int64_t j = 0; j < demo->length; j++) {
            bool taken = false;
            for (int earlier = 0; earlier < place; earlier++) {
                taken = taken || view.top[earlier] == j;
            }
            if (!taken && (best < 0 || row[j] > row[best])) {
                best = j;
            }
        }
        view.top[place] = best;
    }
    for (int64_t j = 0; j < demo->length; j++) {
        view.wanted_rank += row[j] > row[demo->wanted];
    }
    return view;
}

/* The head that gives the wanted token the largest weight. */
static int64_t best_head(const struct mha_demo *demo)
{
    int64_t best = 0;

    for (int64_t h = 1; h < demo->data.H; h++) {
        if (weights_row(demo, h)[demo->wanted] > weights_row(demo, best)[demo->wanted]) {
            best = h;
        }
    }
    return best;
}

static int64_t heads_that_find(const struct mha_demo *demo)
{
    int64_t count = 0;

    for (int64_t h = 0; h < demo->data.H; h++) {
        count += view_head(demo, h).wanted_rank == 1;
    }
    return count;
}

/* ---- printing ----------------------------------------------------------------------------- */

/* Tokens that the tokenizer adds; heads leave weight there when they find nothing. */
static bool is_special(const char *token)
{
    return token[0] == '[' && token[1] != '\0' && token[strlen(token) - 1] == ']';
}

static void print_heads(const struct mha_demo *demo)
{
    const struct mha_demo_data *data = &demo->data;

    printf("\nWhere \"%s\" looks most (* marks tokens that the tokenizer adds):\n  head",
           data->query_token);
    for (int place = 0; place < TOP; place++) {
        printf("  %-20s", place == 0 ? "1st" : place == 1 ? "2nd" : "3rd");
    }
    printf("  \"%s\"\n", data->wanted_token);
    for (int64_t h = 0; h < data->H; h++) {
        struct view view = view_head(demo, h);
        printf("  %4lld", (long long)h);
        for (int place = 0; place < TOP; place++) {
            if (view.top[place] < 0) {
                printf("  %-20s", "");
                continue;
            }
            const char *token = mha_demo_token(data, demo->b, view.top[place]);
            printf("  %.3f %c%-13.13s", (double)weights_row(demo, h)[view.top[place]],
                   is_special(token) ? '*' : ' ', token);
        }
        printf("  %.3f, rank %lld\n", (double)view.wanted_weight, (long long)view.wanted_rank);
    }
}

static void print_finding(const struct mha_demo *demo)
{
    const struct mha_demo_data *data = &demo->data;
    int64_t head = best_head(demo);
    struct view view = view_head(demo, head);

    printf("\nHead %lld finds \"%s\" best: \"%s\" gives it %.1f %% of its attention, ",
           (long long)head, data->wanted_token, data->query_token,
           100.0 * (double)view.wanted_weight);
    if (view.wanted_rank == 1) {
        printf("more than any other of the %lld tokens.\n", (long long)demo->length);
    } else {
        printf("rank %lld of %lld tokens.\n", (long long)view.wanted_rank, (long long)demo->length);
    }
    printf("It is the first choice of %lld of the %lld heads; an even spread would be %.1f %%.\n",
           (long long)heads_that_find(demo), (long long)data->H, 100.0 / (double)demo->length);
}

void mha_demo_print_text(const struct mha_demo *demo, const char *plot)
{
    const struct mha_demo_data *data = &demo->data;

    printf("Device    %s\n", demo->device);
    printf("Model     %s, layer %lld of %lld (counted from 0), %lld heads of %lld, width %lld\n",
           data->model, (long long)data->layer, (long long)data->layers, (long long)data->H,
           (long long)(data->E / data->H), (long long)data->E);
    for (int64_t b = 0; b < data->B; b++) {
        printf("%s  %s (%lld tokens)\n", b == 0 ? "Input   " : "        ",
               json_string_value(json_array_get(data->sentences, (size_t)b)),
               (long long)mha_demo_length(data, b));
    }
    printf("Time      %.2f ms (median of %d runs, copies to and from the device included; the "
           "first, which builds the kernels, %.0f ms)\n",
           demo->median_ms, MHA_DEMO_REPEATS, demo->first_ms);
    printf("Weights   largest error %.1e of %.1e against the model's own numbers\n",
           demo->weights_error, demo->weights_bound);
    printf("Output    largest error %.1e of %.1e\n", demo->output_error, demo->output_bound);
    print_heads(demo);
    print_finding(demo);
    printf("Heat map  %s\n", plot);
}

static json_t *view_json(const struct mha_demo *demo, int64_t h)
{
    struct view view = view_head(demo, h);
    json_t *top = json_array();

    for (int place = 0; place < TOP && view.top[place] >= 0; place++) {
        json_array_append_new(
            top,
            json_pack("{s:s, s:o}", "token", mha_demo_token(&demo->data, demo->b, view.top[place]),
                      "weight", mha_json_number(weights_row(demo, h)[view.top[place]])));
    }
    return json_pack("{s:I, s:o, s:o, s:I}", "head", (json_int_t)h, "top", top, "wanted_weight",
                     mha_json_number(view.wanted_weight), "wanted_rank",
                     (json_int_t)view.wanted_rank);
}

enum mha_exit mha_demo_print_json(const struct mha_demo *demo, const char *plot)
{
    const struct mha_demo_data *data = &demo->data;
    json_t *heads = json_array();

    for (int64_t h = 0; h < data->H; h++) {
        json_array_append_new(heads, view_json(demo, h));
    }
    return mha_print_json(json_pack(
        "{s:o, s:s, s:I, s:f, s:f, s:{s:o, s:f}, s:{s:o, s:f}, s:b, s:s, s:s, s:o, s:I, s:o}",
        "device", mha_json_text(demo->device), "model", data->model, "layer",
        (json_int_t)data->layer, "first_ms", demo->first_ms, "median_ms", demo->median_ms,
        "weights", "max_error", mha_json_number(demo->weights_error), "bound", demo->weights_bound,
        "output", "max_error", mha_json_number(demo->output_error), "bound", demo->output_bound,
        "passed", mha_demo_is_right(demo), "query_token", data->query_token, "wanted_token",
        data->wanted_token, "heads", heads, "best_head", (json_int_t)best_head(demo), "plot",
        mha_json_text(plot)));
}

bool mha_demo_draw(const struct mha_demo *demo, const char *path, char *error, size_t error_size)
{
    const struct mha_demo_data *data = &demo->data;
    const int64_t n = demo->length;
    char title[256];
    float *cells = malloc((size_t)(data->H * n * n) * sizeof *cells);
    const char **labels = malloc((size_t)n * sizeof *labels);
    bool ok = cells && labels;

    if (!ok) {
        mha_fail(error, error_size, "out of memory for the picture");
        goto cleanup;
    }
    for (int64_t j = 0; j < n; j++) {
        labels[j] = mha_demo_token(data, demo->b, j);
    }
    for (int64_t h = 0; h < data->H; h++) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(cells + (h * n + i) * n,
                   demo->weights + ((demo->b * data->H + h) * data->N + i) * data->N,
                   (size_t)n * sizeof *cells);
        }
    }
    snprintf(title, sizeof title, "%s, layer %lld: %s", data->model, (long long)data->layer,
             json_string_value(json_array_get(data->sentences, (size_t)demo->b)));
    struct mha_plot plot = {.title = title,
                            .H = data->H,
                            .NQ = n,
                            .NK = n,
                            .weights = cells,
                            .query_labels = labels,
                            .key_labels = labels};
    ok = mha_plot_write(path, &plot, error, error_size);
cleanup:
    free(cells);
    free(labels);
    return ok;
}
