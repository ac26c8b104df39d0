/*
 * metamorphic.c - pairs of problems whose results must go together: keys permuted, padded, split
 * and merged, and so on, each relation over problems from seeds and over every family of kernels.
 *
 * The two results agree to the bit where the header promises bits, and else within the sum of
 * their two bounds.
 */
#include "draw.h"
#include "harness/attention_run.h"
#include "relations.h"
#include "seeds.h"
#include "split.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RELATIONS_MAX 32

/* Each relation with each family makes a round; a round has kernels of its own. */
#define FAMILIES (FAMILY_ROWS + 1)

static const char *const kernels[] = {"fused", "staged", "decode", "heads", "shared", "rows"};
#define KERNELS ((int)(sizeof(kernels) / sizeof(kernels[0])))

/* How often a relation held for problems that a kernel solved. */
static long met[RELATIONS_MAX][KERNELS];

/* The largest difference so far, in bounds, and where. */
static double worst;
static uint64_t worst_number;

static void count_pair(int relation, const char *plan)
{
    for (int k = 0; k < KERNELS; k++) {
        met[relation][k] += strncmp(plan, kernels[k], strlen(kernels[k])) == 0;
    }
}

/* ---- comparing ---- */

static int agree(double got, double want, double bound, int same_bits)
{
    double ratio;

    if (memcmp(&got, &want, sizeof(got)) == 0 || (isnan(got) && isnan(want))) {
        return 1;
    }
    if (same_bits || isnan(got) || isnan(want) || isinf(got) || isinf(want)) {
        return !same_bits && got == want;
    }
    ratio = fabs(got - want) / bound;
    if (got != want && ratio > worst) {
        worst = ratio;
    }
    return got == want || ratio <= 1;
}

/* Row r of `other` against its row of the base; says what is wrong, and returns 1 if it is. */
static int row_differs(const struct dense_result *base, const struct dense_result *other,
                       const struct row_map *map, int64_t r, int same_bits)
{
    const int64_t from = map->rows[r];

    for (int64_t d = 0; d < base->DV; d++) {
        const int64_t a = r * other->DV + d, b = from * base->DV + d;
        const double bound = other->bound_o[a] + base->bound_o[b];
        if (!agree(other->o[a], base->o[b], bound, same_bits)) {
            printf("  output row %" PRId64 ", element %" PRId64 " is %.9g, and %.9g in row %" PRId64
                   " of the base: %.3g apart, at most %.3g allowed\n",
                   r, d, other->o[a], base->o[b], from, fabs(other->o[a] - base->o[b]),
                   same_bits ? 0 : bound);
            return 1;
        }
    }
    const double bound = other->bound_lse[r] + base->bound_lse[from];
    if (!agree(other->lse[r], base->lse[from] + map->lse_shift, bound, same_bits)) {
        printf("  LSE of row %" PRId64 " is %.9g, and %.9g in row %" PRId64
               " of the base: at most %.3g apart\n",
               r, other->lse[r], base->lse[from] + map->lse_shift, from, same_bits ? 0 : bound);
        return 1;
    }
    return 0;
}

static int differs(const struct dense_result *base, const struct dense_result *other,
                   const struct row_map *map, int same_bits)
{
    for (int64_t r = 0; r < other->rows; r++) {
        if (map->rows[r] >= 0 && row_differs(base, other, map, r, same_bits)) {
            return 1;
        }
    }
    return 0;
}

/* ---- one pair ---- */

static struct attention_spec spec_of(uint64_t number, const struct relation **relation)
{
    const uint64_t round = number / (uint64_t)(relation_count * FAMILIES);
    const uint64_t within = number % (uint64_t)(relation_count * FAMILIES);
    struct attention_spec spec;

    *relation = &relations[within % (uint64_t)relation_count];
    spec = random_spec_of(round * RANDOM_EPOCH + within % RANDOM_EPOCH,
                          (enum random_family)(within / (uint64_t)relation_count));
    relation_prepare(*relation, &spec);
    return spec;
}

/* In steps that a shift keeps. */
static void round_to_steps(struct dense *d)
{
    for (int64_t n = 0; n < d->desc.B * d->desc.H * d->desc.NQ * d->NT; n++) {
        d->bias[n] = isfinite(d->bias[n]) ? round(d->bias[n] * 64) / 64 : d->bias[n];
    }
    for (int64_t h = 0; d->sinks && h < d->desc.H; h++) {
        d->sinks[h] = round(d->sinks[h] * 64) / 64;
    }
}

static struct row_map map_of(const struct dense *d)
{
    const int64_t rows = d->desc.B * d->desc.H * d->desc.NQ;
    struct row_map map = {.rows = attention_alloc(2 * rows, sizeof(int64_t))};

    for (int64_t r = 0; r < 2 * rows; r++) {
        map.rows[r] = r < rows ? r : -1;
    }
    return map;
}

/* The other problem's result; `plan` is the base's. */
static int run_other(gpu_mha_context *context, const struct relation *relation, struct rng *rng,
                     const struct dense *base, gpu_mha_plan *plan, struct row_map *map,
                     struct dense_result *result)
{
    struct dense other = dense_copy(base);
    gpu_mha_plan *own = NULL;
    int status;

    if (relation->change) {
        relation->change(rng, &other, map);
        status = dense_run(context, &other, relation->same_bits ? &plan : &own, result);
    } else {
        status = split_and_merge(context, rng, base, result);
    }
    gpu_mha_plan_release(own);
    dense_free(&other);
    return status;
}

/* Returns 1 if the relation does not hold. */
static int try_pair(gpu_mha_context *context, uint64_t number)
{
    const struct relation *relation;
    const struct attention_spec spec = spec_of(number, &relation);
    struct dense_result first = {0}, second = {0};
    struct dense base = dense_make(&spec);
    struct row_map map = map_of(&base);
    gpu_mha_plan *plan = NULL;
    const double worst_before = worst;
    struct rng rng;
    int bad;

    rng_seed(&rng, number);
    attention_use_tile(spec.tile);
    if (relation->needs & WITH_BIAS) {
        round_to_steps(&base);
    }
    bad = dense_run(context, &base, &plan, &first) != 0 ||
          run_other(context, relation, &rng, &base, plan, &map, &second) != 0 ||
          differs(&first, &second, &map, relation->same_bits);
    worst_number = worst > worst_before ? number : worst_number;
    if (bad) {
        char text[2048];
        attention_spec_text(&spec, text, sizeof(text));
        printf("pair %" PRIu64 " FAILS: %s\n  plan \"%s\"\n  {%s}\n", number, relation->name,
               plan ? gpu_mha_plan_text(plan) : "", text);
    } else {
        count_pair((int)(relation - relations), gpu_mha_plan_text(plan));
    }
    dense_result_free(&first);
    dense_result_free(&second);
    gpu_mha_plan_release(plan);
    dense_free(&base);
    free(map.rows);
    return bad;
}

/* ---- all pairs ---- */

/* Returns 1 if a relation was never met with a kernel. */
static int print_counts(void)
{
    int missing = 0;

    printf("%-26s", "");
    for (int k = 0; k < KERNELS; k++) {
        printf("%8s", kernels[k]);
    }
    printf("\n");
    for (int r = 0; r < relation_count; r++) {
        printf("%-26s", relations[r].name);
        for (int k = 0; k < KERNELS; k++) {
            printf("%8ld", met[r][k]);
            missing |= met[r][k] == 0;
        }
        printf("\n");
    }
    return missing;
}

int main(int argc, char **argv)
{
    struct seeds options;
    gpu_mha_context *context;
    uint64_t tried = 0, failures = 0;
    int code = seeds_read(&options, argc, argv);

    if (code != 0) {
        return code;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (gpu_mha_context_create(NULL, &context) != GPU_MHA_OK) {
        fprintf(stderr, "%s\n", gpu_mha_last_error());
        return 1;
    }
    while (tried < options.count && failures < options.failures) {
        failures += (uint64_t)try_pair(context, options.first + tried);
        tried++;
    }
    if (print_counts() && options.count >= MHA_RANDOM_COUNT && failures == 0) {
        printf("a relation was never tried with a kernel\n");
        failures++;
    }
    printf("%" PRIu64 " pairs from number %" PRIu64 " on, %" PRIu64
           " failed; the largest difference is %.3f of its bound, in %" PRIu64 "\n",
           tried, options.first, failures, worst, worst_number);
    gpu_mha_context_release(context);
    return failures ? 1 : 0;
}
