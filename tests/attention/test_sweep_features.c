/*
 * test_sweep_features.c - every value of every feature together with every value of every other.
 *
 * A fault of one feature shows alone, nearly every other fault in a pair. So problems are drawn
 * until each pair of values has occurred in one of them, for both methods, on every tile of the
 * tuning table, with more than one drawing.
 */
#include "harness/attention_run.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *const tiles[] = {"12,16,1,16", "6,8,2,16", "6,4,2,32", "1,4,2,2"};

enum feature {
    METHOD,
    HEAD_SIZE,
    HEADS,
    LENGTH_Q,
    LENGTH_K,
    PAST,
    TYPES,
    LAYOUTS,
    SCALE,
    SOFTCAP,
    MASK,
    BIAS,
    LENGTHS,
    CAUSAL,
    OFFSET,
    WINDOW,
    ALIBI,
    SINKS,
    DROPOUT,
    LSE,
    WEIGHTS,
    SCORES,
    QUEUE,
    FEATURES
};

static const int levels[FEATURES] = {
    [METHOD] = 2,  [HEAD_SIZE] = 2, [HEADS] = 3,   [LENGTH_Q] = 2, [LENGTH_K] = 3, [PAST] = 2,
    [TYPES] = 4,   [LAYOUTS] = 4,   [SCALE] = 4,   [SOFTCAP] = 2,  [MASK] = 3,     [BIAS] = 4,
    [LENGTHS] = 3, [CAUSAL] = 2,    [OFFSET] = 4,  [WINDOW] = 5,   [ALIBI] = 3,    [SINKS] = 2,
    [DROPOUT] = 2, [LSE] = 2,       [WEIGHTS] = 3, [SCORES] = 5,   [QUEUE] = 2};

#define LEVELS_MAX 5

/* covered[f][x][g][y]: feature f had value x while feature g had value y. */
static unsigned char covered[FEATURES][LEVELS_MAX][FEATURES][LEVELS_MAX];

/* The fused method, value 0, gives neither weights nor scores. */
static int possible(int f, int x, int g, int y)
{
    return !(f == METHOD && x == 0 && (g == WEIGHTS || g == SCORES) && y != 0);
}

static void draw(struct rng *rng, int row[FEATURES])
{
    for (int f = 0; f < FEATURES; f++) {
        row[f] = (int)rng_below(rng, levels[f]);
    }
}

static void obey(int row[FEATURES])
{
    if (row[METHOD] == 0) {
        row[WEIGHTS] = row[SCORES] = 0;
    }
}

static int gain(const int row[FEATURES])
{
    int count = 0;

    for (int f = 0; f < FEATURES; f++) {
        for (int g = f + 1; g < FEATURES; g++) {
            count += !covered[f][row[f]][g][row[g]];
        }
    }
    return count;
}

/* Draws the row that covers most new pairs, one pair of them given. Returns 0 when none is left. */
static int next_row(struct rng *rng, int best[FEATURES])
{
    for (int f = 0; f < FEATURES; f++) {
        for (int g = f + 1; g < FEATURES; g++) {
            for (int n = 0; n < levels[f] * levels[g]; n++) {
                int x = n / levels[g], y = n % levels[g];
                if (covered[f][x][g][y] || !possible(f, x, g, y)) {
                    continue;
                }
                for (int trial = 0; trial < 50; trial++) {
                    int row[FEATURES];
                    draw(rng, row);
                    row[f] = x;
                    row[g] = y;
                    if (f != METHOD && ((g == WEIGHTS && y) || (g == SCORES && y) ||
                                        (f == WEIGHTS && x) || (f == SCORES && x))) {
                        row[METHOD] = 1;
                    }
                    obey(row);
                    if (trial == 0 || gain(row) > gain(best)) {
                        memcpy(best, row, sizeof(row));
                    }
                }
                return 1;
            }
        }
    }
    return 0;
}

static void set_sizes(struct attention_spec *spec, const int row[FEATURES])
{
    static const int64_t head_sizes[][2] = {{8, 8}, {5, 3}};
    static const int64_t heads[][2] = {{4, 4}, {6, 2}, {3, 1}};
    static const int64_t queries[] = {7, 29}, keys[] = {33, 41, 70}, past[] = {0, 19};
    gpu_mha_desc *d = &spec->desc;

    d->B = 2 + row[TYPES] % 2;
    d->DK = head_sizes[row[HEAD_SIZE]][0];
    d->DV = head_sizes[row[HEAD_SIZE]][1];
    d->H = heads[row[HEADS]][0];
    d->HKV = heads[row[HEADS]][1];
    d->NQ = queries[row[LENGTH_Q]];
    d->NK = keys[row[LENGTH_K]];
    d->NP = past[row[PAST]];
    d->query.type = (gpu_mha_type)(row[TYPES] % 3);
    d->key.type = (gpu_mha_type)((row[TYPES] + row[TYPES] / 3) % 3);
    d->value.type = (gpu_mha_type)(row[TYPES] % 2);
    d->past_key.type = (gpu_mha_type)((row[TYPES] + 1) % 3);
    d->past_value.type = d->value.type;
    d->output.type = (gpu_mha_type)((row[TYPES] + row[LAYOUTS]) % 3);
    spec->query = (enum attention_layout)row[LAYOUTS];
    spec->key = (enum attention_layout)((row[LAYOUTS] + 1) % 4);
    spec->value = (enum attention_layout)((row[LAYOUTS] + 2) % 4);
    spec->past_key = (enum attention_layout)(row[LAYOUTS] * 2 % 7);
    spec->past_value = (enum attention_layout)((row[LAYOUTS] + 3) % 4);
    spec->output = (enum attention_layout)((row[LAYOUTS] + 3) % 4);
}

static void set_masks(struct attention_spec *spec, const int row[FEATURES])
{
    static const int64_t windows[][2] = {{0, 0}, {3, 2}, {-1, 4}, {5, -1}, {30, 1}};
    gpu_mha_desc *d = &spec->desc;

    if (row[MASK] > 0) {
        d->mask.type = GPU_MHA_MASK_BOOL;
        spec->mask = (struct attention_mask){row[MASK] == 1 ? 0xF : 0xC, row[MASK] == 2, 0.25};
    }
    if (row[BIAS] > 0) {
        d->bias.type = (gpu_mha_mask_type)(GPU_MHA_MASK_F32 + row[BIAS] - 1);
        spec->bias = (struct attention_mask){row[BIAS] == 1 ? 0xA : 0xF, row[BIAS] == 3, 0.1};
    }
    d->key_lengths = (gpu_mha_index_type)row[LENGTHS];
    d->causal = row[CAUSAL];
    d->offset_kind = (gpu_mha_offset_kind)(row[OFFSET] < 3 ? row[OFFSET] : 2);
    d->offset = row[OFFSET] == 2 ? 17 : row[OFFSET] == 3 ? -4 : 0;
    d->has_window = row[WINDOW] > 0;
    d->window_left = windows[row[WINDOW]][0];
    d->window_right = windows[row[WINDOW]][1];
}

static struct attention_spec problem(const int row[FEATURES])
{
    static const float scales[] = {0.0f, 0.3f, -0.2f, 0.0f};
    struct attention_spec spec = {0};
    gpu_mha_desc *d = &spec.desc;

    set_sizes(&spec, row);
    set_masks(&spec, row);
    d->method = row[METHOD] == 0 ? GPU_MHA_FUSED : GPU_MHA_STAGED;
    d->has_scale = row[SCALE] > 0;
    d->scale = scales[row[SCALE]];
    d->softcap = row[SOFTCAP] ? 1.5f : 0.0f;
    d->alibi = (gpu_mha_alibi)row[ALIBI];
    d->sinks = row[SINKS];
    d->dropout = row[DROPOUT] ? 0.3f : 0.0f;
    d->dropout_seed = row[DROPOUT] ? UINT64_C(0x123456789abcdef0) : 0;
    d->lse = row[LSE];
    d->weights = (gpu_mha_weights)row[WEIGHTS];
    d->scores = (gpu_mha_scores)row[SCORES];
    spec.out_of_order = row[QUEUE];
    spec.host_call = row[LENGTH_Q];
    return spec;
}

START_TEST(every_pair_of_features)
{
    const int drawings = attention_tile_count(3);
    struct rng rng;

    rng_seed(&rng, 2024 + (uint64_t)_i);
    for (int drawing = 0; drawing < drawings; drawing++) {
        int row[FEATURES];
        memset(covered, 0, sizeof(covered));
        while (next_row(&rng, row)) {
            struct attention_spec spec = problem(row);
            ck_assert_int_gt(gain(row), 0); /* else the drawing would not end */
            for (int f = 0; f < FEATURES; f++) {
                for (int g = f + 1; g < FEATURES; g++) {
                    covered[f][row[f]][g][row[g]] = 1;
                }
            }
            spec.tile = tiles[_i];
            spec.seed = rng_next(&rng) >> 40;
            attention_check(&spec, NULL);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sweep of features");
    TCase *tcase = tcase_create("features");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, 200);
    tcase_add_checked_fixture(tcase, attention_open, attention_close);
    tcase_add_loop_test(tcase, every_pair_of_features, 0, attention_tile_count(4));
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
