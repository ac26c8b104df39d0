/*
 * Logits and scales far from 1. Sinks far above and below the scores, against arithmetic: with all
 * scores equal to s and all values equal to v the output is v times NK e^s / (NK e^s + e^sink), and
 * no score's last digits may be lost to a large sink. Scores beyond what a difference of two can be
 * trusted in, and scores that rise with every few keys.
 */
#include <gpu_mha/gpu_mha.h>
#include <math.h>
#include <stdlib.h>

#include "harness/assertions.h"
#include "reference/reference.h"

enum { DK = 4, DV = 3, NQ_MAX = 13, NK_MAX = 4200 };

static gpu_mha_context *context;

static void open_context(void)
{
    ck_assert_msg(gpu_mha_context_create(NULL, &context) == GPU_MHA_OK, "%s", gpu_mha_last_error());
}

static void close_context(void)
{
    gpu_mha_context_release(context);
}

static void fill(float *array, int64_t count, float value)
{
    for (int64_t i = 0; i < count; ++i) {
        array[i] = value;
    }
}

static void check_one(const gpu_mha_desc *desc, const gpu_mha_arrays *arrays, double score, float v,
                      float sink)
{
    const double u = 0x1p-24, m = fmax(score, sink);
    const double keys = (double)desc->NK * exp(score - m);
    const double share = keys / (keys + exp(sink - m)), lse = m + log(keys + exp(sink - m));
    const double want = share * v;
    const double bound =
        u * fabs(want) + u * (share * (8 + 4 * score) + share * 4 * score * share) * fabs(v);
    ck_assert_msg(gpu_mha(context, desc, arrays) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    for (int64_t i = 0; i < desc->NQ * DV; ++i) {
        const double got = ((const float *)arrays->output)[i];
        ck_assert_msg(fabs(got - want) <= bound,
                      "NQ %d NK %d sink %g: output is %.9g, want %.9g within %.3g", (int)desc->NQ,
                      (int)desc->NK, (double)sink, got, want, bound);
    }
    for (int64_t i = 0; i < desc->NQ; ++i) {
        const double got = arrays->lse[i];
        ck_assert_msg(fabs(got - lse) <= u * (8 + fabs(lse) + 4 * share * score),
                      "NQ %d NK %d sink %g: LSE is %.9g, want %.9g", (int)desc->NQ, (int)desc->NK,
                      (double)sink, got, lse);
    }
}

START_TEST(a_sink_costs_no_digits)
{
    static const float sinks[] = {-70.3f, -20.3f, -1.3f, 0.0f,  5.3f,  8.3f,  12.3f,
                                  16.3f,  18.7f,  20.3f, 24.1f, 40.3f, 60.3f, 70.7f};
    static const int lengths[] = {1, 37, 64, 797, NK_MAX};
    static float q[NQ_MAX * DK], k[NK_MAX * DK], v[NK_MAX * DV], o[NQ_MAX * DV], lse[NQ_MAX];
    const float x = 0.1f, value = 1.0156f;
    const double score = 0.5 * DK * (double)x * (double)x; /* scale 1 / sqrt(4) */
    fill(q, NQ_MAX * DK, x);
    fill(k, NK_MAX * DK, x);
    fill(v, NK_MAX * DV, value);
    for (size_t s = 0; s < sizeof sinks / sizeof sinks[0]; ++s) {
        for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; ++n) {
            const gpu_mha_desc desc = {.B = 1,
                                       .H = 1,
                                       .HKV = 1,
                                       .NQ = _i / 2 ? NQ_MAX : 1,
                                       .NK = lengths[n],
                                       .DK = DK,
                                       .DV = DV,
                                       .sinks = 1,
                                       .lse = 1,
                                       .method = _i % 2 ? GPU_MHA_STAGED : GPU_MHA_FUSED};
            const gpu_mha_arrays arrays = {
                .query = q, .key = k, .value = v, .sinks = &sinks[s], .output = o, .lse = lse};
            check_one(&desc, &arrays, score, value, sinks[s]);
        }
    }
}
END_TEST

/* A scale is taken literally up to the largest float: scores of 0 stay 0. */
START_TEST(a_large_scale_is_finite)
{
    static float q[NQ_MAX * DK], k[4 * DK], v[4 * DV], o[NQ_MAX * DV], lse[NQ_MAX];
    for (int64_t j = 0; j < 4; ++j) {
        fill(v + j * DV, DV, (float)(j + 1));
    }
    const gpu_mha_desc desc = {.B = 1,
                               .H = 1,
                               .HKV = 1,
                               .NQ = _i / 2 ? NQ_MAX : 1,
                               .NK = 4,
                               .DK = DK,
                               .DV = DV,
                               .lse = 1,
                               .has_scale = 1,
                               .scale = 3e38f,
                               .method = _i % 2 ? GPU_MHA_STAGED : GPU_MHA_FUSED};
    const gpu_mha_arrays arrays = {.query = q, .key = k, .value = v, .output = o, .lse = lse};
    ck_assert_msg(gpu_mha(context, &desc, &arrays) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    for (int64_t i = 0; i < desc.NQ; ++i) {
        ASSERT_DOUBLE_NEAR(o[i * DV], 2.5, 1e-6);
        ASSERT_DOUBLE_NEAR(lse[i], log(4.0), 1e-6);
    }
}
END_TEST

/* Row 0, whose weights are all NaN and all dropped: 0 * NaN, whenever the kernel divides. */
START_TEST(a_visible_nan_outlives_dropout)
{
    enum { NK = 3 };
    static float q[NQ_MAX * DK], k[NK * DK], v[NK * DV], o[NQ_MAX * DV];
    struct ref_dropout dropout = {.p = 0.9375};
    while (ref_dropout_keep(dropout, 0, 0, 0) || ref_dropout_keep(dropout, 0, 0, 1) ||
           ref_dropout_keep(dropout, 0, 0, 2)) {
        dropout.seed++;
    }
    const gpu_mha_desc desc = {.B = 1,
                               .H = 1,
                               .HKV = 1,
                               .NQ = _i / 2 ? NQ_MAX : 1,
                               .NK = NK,
                               .DK = DK,
                               .DV = DV,
                               .dropout = (float)dropout.p,
                               .dropout_seed = dropout.seed,
                               .method = _i % 2 ? GPU_MHA_STAGED : GPU_MHA_FUSED};
    const gpu_mha_arrays arrays = {.query = q, .key = k, .value = v, .output = o};
    k[0] = NAN;
    ck_assert_msg(gpu_mha(context, &desc, &arrays) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    for (int64_t i = 0; i < desc.NQ; ++i) {
        ck_assert_msg(isnan(o[i * DV]), "row %d is %g, want NaN", (int)i, (double)o[i * DV]);
    }
}
END_TEST

/* Scores of some 10^9 have no digits behind the point; their weights are still weights. */
START_TEST(large_scores_are_finite)
{
    static float q[NQ_MAX * DK], k[797 * DK], v[797 * DV], o[NQ_MAX * DV], lse[NQ_MAX];
    const float sizes[] = {6e4f, 1e5f, 1e8f, 1e12f, 1e17f};
    fill(v, 797 * DV, 1.0156f);
    for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; ++size) {
        const gpu_mha_desc desc = {.B = 1,
                                   .H = 1,
                                   .HKV = 1,
                                   .NQ = _i / 2 ? NQ_MAX : 1,
                                   .NK = 797,
                                   .DK = DK,
                                   .DV = DV,
                                   .lse = 1,
                                   .method = _i % 2 ? GPU_MHA_STAGED : GPU_MHA_FUSED};
        const gpu_mha_arrays arrays = {.query = q, .key = k, .value = v, .output = o, .lse = lse};
        for (int64_t i = 0; i < NQ_MAX * DK; ++i) {
            q[i] = sizes[size] * (float)(1 + i % 7) / 7;
        }
        for (int64_t j = 0; j < 797 * DK; ++j) {
            k[j] = sizes[size] * (float)(1 + j % 11) / 11;
        }
        ck_assert_msg(gpu_mha(context, &desc, &arrays) == GPU_MHA_OK, "%s", gpu_mha_last_error());
        for (int64_t i = 0; i < desc.NQ; ++i) {
            double largest = -INFINITY;
            for (int64_t j = 0; j < 797; ++j) {
                double score = 0;
                for (int d = 0; d < DK; ++d) {
                    score += 0.5 * (double)q[i * DK + d] * (double)k[j * DK + d];
                }
                largest = fmax(largest, score);
            }
            ASSERT_DOUBLE_NEAR(o[i * DV], 1.0156, 1e-5);
            ASSERT_DOUBLE_NEAR(lse[i] / largest, 1.0, 1e-6);
        }
    }
}
END_TEST

/*
 * Scores that rise by one unit in the last place or so every few keys: the largest score changes
 * with each of them, and what that rounds must not add up. All values are v, and so is the output.
 */
START_TEST(slowly_rising_scores)
{
    enum { KEYS = 16384 };
    static float q[NQ_MAX], k[KEYS], v[KEYS], o[NQ_MAX], lse[NQ_MAX];
    static const struct {
        int every;
        double rise;
    } cases[] = {{8, 6e-8}, {16, 6e-8}, {64, 9e-8}, {64, 1.3e-7}, {256, 5e-8}, {64, 3e-3}};
    fill(q, NQ_MAX, 1.0f);
    fill(v, KEYS, 1.5f);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; ++c) {
        const gpu_mha_desc desc = {.B = 1,
                                   .H = 1,
                                   .HKV = 1,
                                   .NQ = _i / 2 ? NQ_MAX : 1,
                                   .NK = KEYS,
                                   .DK = 1,
                                   .DV = 1,
                                   .lse = 1,
                                   .has_scale = 1,
                                   .scale = 1.0f,
                                   .method = _i % 2 ? GPU_MHA_STAGED : GPU_MHA_FUSED};
        const gpu_mha_arrays arrays = {.query = q, .key = k, .value = v, .output = o, .lse = lse};
        double sum = 0, weighed = 0;
        for (int j = 0; j < KEYS; ++j) {
            k[j] = (float)(0.01 + j / cases[c].every * cases[c].rise);
            sum += exp((double)k[j]);
            weighed += exp((double)k[j]) * (double)k[j];
        }
        const double u = 0x1p-24, a = weighed / sum;
        ck_assert_msg(gpu_mha(context, &desc, &arrays) == GPU_MHA_OK, "%s", gpu_mha_last_error());
        for (int64_t i = 0; i < desc.NQ; ++i) {
            ASSERT_DOUBLE_NEAR(o[i], 1.5, 1.5 * u * (9 + 8 * a));
            ASSERT_DOUBLE_NEAR(lse[i], log(sum), u * (8 + log(sum) + 4 * a));
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("extremes");
    TCase *test = tcase_create("sinks");
    tcase_set_timeout(test, 120);
    tcase_add_checked_fixture(test, open_context, close_context);
    tcase_add_loop_test(test, a_sink_costs_no_digits, 0, 4);
    tcase_add_loop_test(test, a_large_scale_is_finite, 0, 4);
    tcase_add_loop_test(test, a_visible_nan_outlives_dropout, 0, 4);
    tcase_add_loop_test(test, large_scores_are_finite, 0, 4);
    tcase_add_loop_test(test, slowly_rising_scores, 0, 4);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
