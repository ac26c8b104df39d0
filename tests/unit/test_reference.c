/*
 * test_reference.c - the float64 reference against arithmetic that can be done by hand.
 *
 * Everything else is measured against this reference, so nothing here comes from running it: the
 * expected values are worked out, or are published test vectors.
 */
#include "harness/assertions.h"
#include "harness/storage.h"
#include "reference/reference.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

#define TINY 1e-13 /* a few hundred float64 roundings of values near 1 */

/* A problem that owns its arrays. */
struct probe {
    struct ref_problem p;
    double *q, *k, *v;
};

/* Uniform probe: q = 0 and v[j][*] = j + 1, so that o is the mean of j + 1 over visible keys. */
static struct probe uniform_probe(int64_t B, int64_t H, int64_t HKV, int64_t NQ, int64_t NK,
                                  int64_t DK, int64_t DV)
{
    struct probe u = {.p = {.B = B, .H = H, .HKV = HKV, .NQ = NQ, .NK = NK, .DK = DK, .DV = DV}};

    u.q = alloc_doubles(B * H * NQ * DK);
    u.k = alloc_doubles(B * HKV * NK * DK);
    u.v = alloc_doubles(B * HKV * NK * DV);
    fill_constant(u.k, B * HKV * NK * DK, 0.5);
    for (int64_t n = 0; n < B * HKV * NK * DV; n++) {
        u.v[n] = (double)(n / DV % NK + 1);
    }
    u.p.q = u.q;
    u.p.k = u.k;
    u.p.v = u.v;
    u.p.scale = ref_default_scale(DK);
    return u;
}

static void probe_free(struct probe *u)
{
    free(u->q);
    free(u->k);
    free(u->v);
}

static struct ref_result solve(const struct ref_problem *p)
{
    struct ref_result r;

    ck_assert_msg(ref_attention(p, &r) == 0, "the reference refuses a good problem");
    return r;
}

/* Solves the probe and compares the first output column of every row of batch 0, head 0. */
static void expect_rows(const struct probe *u, const double *want)
{
    struct ref_result r = solve(&u->p);

    for (int64_t i = 0; i < u->p.NQ; i++) {
        ck_assert_msg(fabs(r.o[i * u->p.DV] - want[i]) < TINY, "row %d is %.17g, want %.17g",
                      (int)i, r.o[i * u->p.DV], want[i]);
        if (r.visible[i] == 0) {
            ASSERT_DOUBLE_SAME(r.lse[i], -(double)INFINITY);
        } else {
            ASSERT_DOUBLE_NEAR(r.lse[i], log((double)r.visible[i]), TINY);
        }
    }
    ref_result_free(&r);
}

static void expect_causal(int64_t NQ, int64_t NK, int64_t offset, const double *want)
{
    struct probe u = uniform_probe(1, 1, 1, NQ, NK, 3, 2);

    u.p.causal = 1;
    u.p.offset = &offset;
    expect_rows(&u, want);
    probe_free(&u);
}

START_TEST(causal_top_left_and_bottom_right)
{
    expect_causal(2, 5, 3, (double[]){2.5, 3});
    expect_causal(5, 2, -3, (double[]){0, 0, 0, 1, 1.5});
    expect_causal(1, 8, 7, (double[]){4.5});
    expect_causal(2, 5, 0, (double[]){1, 1.5});
    expect_causal(5, 2, 0, (double[]){1, 1.5, 1.5, 1.5, 1.5});
    expect_causal(1, 8, 0, (double[]){1});
}
END_TEST

static void expect_window(int causal, int64_t left, int64_t right, int64_t offset,
                          const double *want)
{
    struct probe u = uniform_probe(1, 1, 1, 6, 6, 3, 2);

    u.p.causal = causal;
    u.p.has_window = 1;
    u.p.window_left = left;
    u.p.window_right = right;
    u.p.offset = &offset;
    expect_rows(&u, want);
    probe_free(&u);
}

START_TEST(window_includes_both_ends)
{
    expect_window(0, 2, 0, 0, (double[]){1, 1.5, 2, 3, 4, 5});
    expect_window(0, 5, 0, 0, (double[]){1, 1.5, 2, 2.5, 3, 3.5});
    expect_window(0, -1, 0, 0, (double[]){1, 1.5, 2, 2.5, 3, 3.5});
    expect_window(0, 1, 1, 0, (double[]){1.5, 2, 3, 4, 5, 5.5});
    expect_window(0, 0, -1, 0, (double[]){3.5, 4, 4.5, 5, 5.5, 6});
    expect_window(1, 1, 3, 0, (double[]){1, 1.5, 2.5, 3.5, 4.5, 5.5});
    expect_window(0, 1, 0, 4, (double[]){4.5, 5.5, 6, 0, 0, 0});
    expect_window(0, 1, 0, -4, (double[]){0, 0, 0, 0, 1, 1.5});
}
END_TEST

START_TEST(masks_intersect)
{
    const uint8_t keys[7] = {0, 1, 1, 0, 0, 1, 0};
    uint8_t mask[49];
    struct probe u = uniform_probe(1, 1, 1, 7, 7, 3, 2);

    for (int n = 0; n < 49; n++) {
        mask[n] = keys[n % 7];
    }
    u.p.causal = 1;
    u.p.mask = mask;
    expect_rows(&u, (double[]){0, 2, 2.5, 2.5, 2.5, 11.0 / 3, 11.0 / 3});
    probe_free(&u);
}
END_TEST

START_TEST(key_lengths_hide_garbage_and_may_be_zero)
{
    const int64_t lengths[2] = {3, 0};
    const int64_t offset[2] = {1, -2}; /* length - NQ */
    struct probe u = uniform_probe(2, 1, 1, 2, 5, 3, 2);
    struct ref_result r;

    for (int64_t b = 0; b < 2; b++) {
        for (int64_t j = lengths[b]; j < 5; j++) {
            fill_constant(u.k + (b * 5 + j) * 3, 3, (double)NAN);
            fill_constant(u.v + (b * 5 + j) * 2, 2, (double)INFINITY);
        }
    }
    u.p.key_lengths = lengths;
    u.p.causal = 1;
    u.p.offset = offset;
    r = solve(&u.p);
    ASSERT_DOUBLE_NEAR(r.o[0], 1.5, TINY);
    ASSERT_DOUBLE_NEAR(r.o[2], 2, TINY);
    for (int n = 4; n < 8; n++) {
        ASSERT_DOUBLE_SAME(r.o[n], 0);
    }
    ASSERT_DOUBLE_SAME(r.lse[2], -(double)INFINITY);
    ASSERT_I64_EQ(r.visible[1], 3);
    ASSERT_I64_EQ(r.visible[3], 0);
    ref_result_free(&r);
    probe_free(&u);
}
END_TEST

START_TEST(wholly_hidden_tile_does_not_set_the_maximum)
{
    const int64_t offset = 360;
    struct probe u = uniform_probe(1, 14, 2, 88, 448, 64, 2);
    struct ref_result r;

    fill_constant(u.q, 14 * 88 * 64, 5);
    fill_constant(u.k, 2 * 448 * 64, -5);
    fill_constant(u.v, 2 * 448 * 2, 1);
    u.p.scale = 0.125;
    u.p.causal = 1;
    u.p.offset = &offset;
    r = solve(&u.p);
    for (int64_t n = 0; n < 14 * 88; n++) {
        ASSERT_DOUBLE_NEAR(r.o[2 * n], 1, TINY);
        ASSERT_DOUBLE_NEAR(r.lse[n], -200 + log((double)(n % 88 + 361)), TINY);
    }
    ref_result_free(&r);
    probe_free(&u);
}
END_TEST

START_TEST(bias_hides_only_when_infinite)
{
    double bias[15];
    struct probe u = uniform_probe(1, 1, 1, 3, 5, 3, 2);

    fill_constant(bias, 5, -3.4028234663852886e38); /* uniform over all five keys */
    fill_constant(bias + 5, 5, 1);
    fill_constant(bias + 10, 5, -(double)INFINITY);
    bias[12] = 7;
    u.p.bias = bias;
    struct ref_result r = solve(&u.p);
    ASSERT_DOUBLE_NEAR(r.o[0], 3, TINY);
    ASSERT_DOUBLE_NEAR(r.o[2], 3, TINY);
    ASSERT_DOUBLE_NEAR(r.lse[1], 1 + log(5), TINY);
    ASSERT_DOUBLE_SAME(r.o[4], 3); /* only key 2 */
    ASSERT_DOUBLE_NEAR(r.lse[2], 7, TINY);
    ASSERT_I64_EQ(r.visible[0], 5);
    ASSERT_I64_EQ(r.visible[2], 1);
    ref_result_free(&r);
    probe_free(&u);
}
END_TEST

START_TEST(hidden_keys_weigh_exactly_nothing)
{
    const uint8_t mask[4] = {1, 0, 0, 0};
    const double q = 1, k[4] = {1, 2, 3, 4}, v[4] = {1, 1e4, 1e4, 1e4};
    struct ref_problem p = {.B = 1,
                            .H = 1,
                            .HKV = 1,
                            .NQ = 1,
                            .NK = 4,
                            .DK = 1,
                            .DV = 1,
                            .q = &q,
                            .k = k,
                            .v = v,
                            .scale = 1,
                            .mask = mask,
                            .want_matrices = 1};
    struct ref_result r = solve(&p);

    for (int j = 0; j < 4; j++) {
        ASSERT_DOUBLE_SAME(r.weights[j], j == 0 ? 1 : 0);
        ASSERT_DOUBLE_SAME(r.softmax[j], j == 0 ? 1 : 0);
        ASSERT_DOUBLE_SAME(r.raw[j], k[j]);
        ASSERT_DOUBLE_SAME(r.masked[j], j == 0 ? 1 : -(double)INFINITY);
        ck_assert(j == 0 || r.bound_weights[j] == 0);
    }
    ASSERT_DOUBLE_SAME(r.o[0], 1);
    ref_result_free(&r);
}
END_TEST

START_TEST(heads_share_keys_in_groups)
{
    const double want[4] = {1, 1, 2, 2};
    struct probe u = uniform_probe(1, 4, 2, 3, 5, 3, 2);
    struct ref_result r;

    fill_constant(u.v, 5 * 2, 1);
    fill_constant(u.v + 5 * 2, 5 * 2, 2);
    r = solve(&u.p);
    for (int n = 0; n < 4 * 3 * 2; n++) {
        ASSERT_DOUBLE_NEAR(r.o[n], want[n / 6], TINY);
    }
    ref_result_free(&r);
    probe_free(&u);
}
END_TEST

START_TEST(impossible_problems_are_refused)
{
    const int64_t heads[4][2] = {{33, 2}, {3, 2}, {4, 0}, {2, 4}};
    struct probe u = uniform_probe(1, 2, 1, 1, 1, 1, 1);
    struct ref_result r;

    for (int n = 0; n < 4; n++) {
        struct ref_problem p = u.p;
        p.H = heads[n][0];
        p.HKV = heads[n][1];
        ASSERT_I64_EQ(ref_attention(&p, &r), -1);
        ck_assert_ptr_null(r.o);
    }
    u.p.window_left = -2;
    ASSERT_I64_EQ(ref_attention(&u.p, &r), -1);
    u.p.window_left = -1;
    u.p.dropout.p = 1;
    ASSERT_I64_EQ(ref_attention(&u.p, &r), -1);
    probe_free(&u);
}
END_TEST

START_TEST(only_the_last_coordinate_counts_once)
{
    const int64_t sizes[4] = {63, 80, 128, 224};

    for (int n = 0; n < 4; n++) {
        int64_t D = sizes[n];
        struct probe u = uniform_probe(1, 1, 1, 1, 5, D, D + 1);
        double sum = 0;
        fill_constant(u.k, 5 * D, 0);
        u.q[D - 1] = sqrt((double)D);
        for (int j = 0; j < 5; j++) {
            u.k[j * D + D - 1] = j;
            sum += exp(j);
        }
        struct ref_result r = solve(&u.p);
        ASSERT_DOUBLE_NEAR(r.lse[0], log(sum), TINY);
        ref_result_free(&r);
        probe_free(&u);
    }
}
END_TEST

START_TEST(one_key_can_take_all)
{
    struct probe u = uniform_probe(1, 1, 1, 1, 1024, 1, 2);
    struct ref_result r;

    u.q[0] = 1;
    fill_constant(u.k, 1024, 0);
    u.k[700] = 120;
    r = solve(&u.p);
    ASSERT_DOUBLE_NEAR(r.o[1], 701, TINY);
    ref_result_free(&r);
    probe_free(&u);
}
END_TEST

START_TEST(stages_of_the_score)
{
    const double q[2] = {3, -1}, k[6] = {1, 1, 2, 0, 0, 4}, v[3] = {1, 10, 100};
    const double bias[3] = {0.25, -(double)INFINITY, -1}, slope = 0.5;
    const double raw[3] = {1, 3, -2}; /* 0.5 * (2, 6, -4) */
    const int64_t offset = 1;
    struct ref_problem p = {.B = 1,
                            .H = 1,
                            .HKV = 1,
                            .NQ = 1,
                            .NK = 3,
                            .DK = 2,
                            .DV = 1,
                            .q = q,
                            .k = k,
                            .v = v,
                            .scale = 0.5,
                            .softcap = 2,
                            .bias = bias,
                            .slopes = &slope,
                            .offset = &offset,
                            .want_matrices = 1};
    struct ref_result r = solve(&p);
    double s0 = 2 * tanh(0.5) + 0.25 - 0.5; /* one position from the diagonal */
    double s2 = 2 * tanh(-1) - 1 - 0.5;
    double w0 = 1 / (1 + exp(s2 - s0));

    for (int j = 0; j < 3; j++) {
        ASSERT_DOUBLE_NEAR(r.raw[j], raw[j], TINY);
        ASSERT_DOUBLE_NEAR(r.capped[j], 2 * tanh(raw[j] / 2), TINY);
    }
    ASSERT_DOUBLE_NEAR(r.masked[0], s0, TINY);
    ASSERT_DOUBLE_SAME(r.masked[1], -(double)INFINITY);
    ASSERT_DOUBLE_NEAR(r.masked[2], s2, TINY);
    ASSERT_DOUBLE_NEAR(r.softmax[0], w0, TINY);
    ASSERT_DOUBLE_SAME(r.softmax[1], 0);
    ASSERT_DOUBLE_NEAR(r.softmax[2], 1 - w0, TINY);
    ASSERT_DOUBLE_NEAR(r.o[0], w0 + 100 * (1 - w0), 100 * TINY);
    ASSERT_DOUBLE_NEAR(r.lse[0], log(exp(s0) + exp(s2)), TINY);
    ref_result_free(&r);
}
END_TEST

START_TEST(cap_does_not_unhide)
{
    const double bias[4] = {0, 0, 0, -(double)INFINITY};
    struct probe u = uniform_probe(1, 1, 1, 1, 4, 3, 1);

    fill_constant(u.v, 3, 1);
    u.v[3] = 1000;
    u.p.softcap = 1;
    u.p.bias = bias;
    expect_rows(&u, (double[]){1});
    probe_free(&u);
}
END_TEST

START_TEST(alibi_counts_from_the_diagonal)
{
    const double slopes[2] = {log(2), 0};
    const int64_t offset = 1;
    struct probe u = uniform_probe(1, 2, 1, 1, 3, 3, 1);
    struct ref_result r;

    u.v[1] = 5; /* distances 1 0 1, weights 1/4 1/2 1/4 */
    u.p.slopes = slopes;
    u.p.offset = &offset;
    r = solve(&u.p);
    ASSERT_DOUBLE_NEAR(r.o[0], 3.5, TINY);
    ASSERT_DOUBLE_NEAR(r.lse[0], log(2), TINY);
    ASSERT_DOUBLE_NEAR(r.o[1], 3, TINY);
    ref_result_free(&r);
    probe_free(&u);
}
END_TEST

START_TEST(sink_joins_the_sum_without_a_value)
{
    const double sinks[2] = {0, -(double)INFINITY};
    const int64_t lengths[2] = {3, 0};
    struct probe u = uniform_probe(2, 2, 2, 1, 3, 3, 1);
    struct ref_result r;

    u.p.sinks = sinks;
    u.p.key_lengths = lengths;
    r = solve(&u.p);
    ASSERT_DOUBLE_NEAR(r.o[0], 1.5, TINY); /* (1 + 2 + 3) / 4 */
    ASSERT_DOUBLE_NEAR(r.lse[0], log(4), TINY);
    ASSERT_DOUBLE_NEAR(r.o[1], 2, TINY);
    ASSERT_DOUBLE_NEAR(r.lse[1], log(3), TINY);
    ASSERT_DOUBLE_SAME(r.o[2], 0); /* no keys: only the sink is left */
    ASSERT_DOUBLE_SAME(r.lse[2], 0);
    ASSERT_DOUBLE_SAME(r.lse[3], -(double)INFINITY);
    ref_result_free(&r);
    probe_free(&u);
}
END_TEST

START_TEST(visible_nan_and_inf_come_out)
{
    const double bias[2] = {0, (double)INFINITY};
    struct probe u = uniform_probe(1, 1, 1, 1, 2, 1, 2);
    struct ref_result r;

    u.v[0] = (double)NAN;
    u.v[3] = (double)INFINITY;
    r = solve(&u.p);
    ASSERT_DOUBLE_SAME(r.o[0], (double)NAN);
    ASSERT_DOUBLE_SAME(r.o[1], (double)INFINITY);
    ASSERT_DOUBLE_NEAR(r.lse[0], log(2), TINY);
    ref_result_free(&r);

    u.q[0] = 1;
    u.k[0] = u.k[1] = -(double)INFINITY; /* all visible scores -inf: not an empty row */
    u.v[0] = u.v[3] = 1;
    r = solve(&u.p);
    ASSERT_DOUBLE_SAME(r.o[1], (double)NAN);
    ASSERT_DOUBLE_SAME(r.lse[0], -(double)INFINITY); /* ln 0 */
    ASSERT_I64_EQ(r.visible[0], 2);
    ref_result_free(&r);

    u.k[1] = 0; /* one of them finite: it takes all */
    r = solve(&u.p);
    ASSERT_DOUBLE_SAME(r.o[0], u.v[2]);
    ASSERT_DOUBLE_SAME(r.lse[0], 0);
    ck_assert(isfinite(r.bound_o[0]) && r.bound_o[0] < 1e-5);
    ref_result_free(&r);

    u.p.bias = bias; /* +Inf does not hide: the softmax of an infinite score is NaN */
    r = solve(&u.p);
    ASSERT_I64_EQ(r.visible[0], 2);
    ASSERT_DOUBLE_SAME(r.o[0], (double)NAN);
    ASSERT_DOUBLE_SAME(r.lse[0], (double)NAN);
    ref_result_free(&r);
    probe_free(&u);
}
END_TEST

START_TEST(nothing_is_a_size)
{
    const int64_t sizes[4][3] = {{0, 2, 3}, {2, 0, 3}, {2, 3, 0}, {0, 0, 0}}; /* B NQ NK */

    for (int n = 0; n < 4; n++) {
        struct probe u = uniform_probe(sizes[n][0], 2, 1, sizes[n][1], sizes[n][2], 3, 2);
        u.p.want_matrices = 1;
        u.p.causal = 1;
        struct ref_result r = solve(&u.p);
        int64_t rows = u.p.B * u.p.H * u.p.NQ;
        ck_assert_ptr_nonnull(r.weights);
        for (int64_t m = 0; m < rows; m++) {
            ASSERT_DOUBLE_SAME(r.o[2 * m], 0);
            ASSERT_DOUBLE_SAME(r.lse[m], -(double)INFINITY);
        }
        ref_result_free(&r);
        probe_free(&u);
    }
}
END_TEST

/* Known answers published with the authors' Random123 library; the last digits are those of pi. */
static const struct {
    uint32_t counter[4], key[2], out[4];
} philox_answers[3] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

START_TEST(philox_known_answers)
{
    for (int n = 0; n < 3; n++) {
        uint32_t out[4];
        ref_philox4x32_10(philox_answers[n].counter, philox_answers[n].key, out);
        for (int word = 0; word < 4; word++) {
            ASSERT_HEX_EQ(out[word], philox_answers[n].out[word]);
        }
    }
}
END_TEST

START_TEST(dropout_places_its_words_as_written)
{
    const struct ref_dropout pi = {.p = 0.5, .seed = 0x299f31d0a4093822};
    const struct ref_dropout zero = {.p = 0.7, .seed = 0}; /* threshold 0xb3333333 */
    const int keeps_pi[4] = {1, 1, 0, 0}, keeps_zero[4] = {0, 1, 1, 0};

    for (int word = 0; word < 4; word++) {
        int64_t j = 4 * (int64_t)0x243f6a88 + word;
        ASSERT_I64_EQ(ref_dropout_keep(pi, 0x0370734413198a2e, 0x85a308d3, j), keeps_pi[word]);
        ASSERT_I64_EQ(ref_dropout_keep(zero, 0, 0, word), keeps_zero[word]);
    }
}
END_TEST

START_TEST(dropout_scales_the_weights_it_keeps)
{
    struct probe u = uniform_probe(1, 1, 1, 1, 4, 3, 1);
    struct ref_result r;

    u.p.dropout.p = 0.75; /* threshold 0xc0000000: of the zero key only word 1 stays */
    u.p.want_matrices = 1;
    r = solve(&u.p);
    for (int j = 0; j < 4; j++) {
        ASSERT_DOUBLE_SAME(r.softmax[j], 0.25);
        ASSERT_DOUBLE_SAME(r.weights[j], j == 1 ? 1 : 0);
    }
    ASSERT_DOUBLE_SAME(r.o[0], 2);
    ASSERT_DOUBLE_NEAR(r.lse[0], log(4), TINY);
    ref_result_free(&r);
    probe_free(&u);
}
END_TEST

START_TEST(bounds_are_the_published_formula)
{
    const double q = 2, k = -3, v = 5, bias = -0.5, slope = 0.25;
    const int64_t offset = 2;
    struct ref_problem p = {.B = 1,
                            .H = 1,
                            .HKV = 1,
                            .NQ = 1,
                            .NK = 1,
                            .DK = 1,
                            .DV = 1,
                            .q = &q,
                            .k = &k,
                            .v = &v,
                            .scale = 1,
                            .bias = &bias,
                            .slopes = &slope,
                            .offset = &offset,
                            .u_out = 0x1p-11,
                            .out_subnormal = 0x1p-24};
    struct ref_result r = solve(&p);

    /* a = 6 + 0.5 + 0.5 = 7, w = 1, lse = -7 */
    ASSERT_DOUBLE_NEAR(r.bound_o[0], 5 * 0x1p-11 + 0x1p-25 + 0x1p-24 * ((8 + 28) * 5 + 28 * 5),
                       1e-18);
    ASSERT_DOUBLE_NEAR(r.bound_lse[0], 0x1p-24 * (8 + 7 + 28), 1e-18);
    ref_result_free(&r);
}
END_TEST

/* Plain f32 attention; `coarse` rounds the weights to f16 on the way, as a sloppy kernel would. */
static void attention_f32(const struct ref_problem *p, int coarse, double *o)
{
    for (int64_t n = 0; n < p->B * p->H * p->NQ; n++) {
        int64_t h = n / p->NQ % p->H, kv = n / p->NQ / p->H * p->HKV + h / (p->H / p->HKV);
        float *w = calloc((size_t)p->NK, sizeof(float)), sum = 0, largest = -INFINITY;
        ck_assert_ptr_nonnull(w);
        for (int64_t j = 0; j < p->NK; j++) {
            float dot = 0;
            for (int64_t d = 0; d < p->DK; d++) {
                dot += (float)p->q[n * p->DK + d] * (float)p->k[(kv * p->NK + j) * p->DK + d];
            }
            w[j] = dot * (float)p->scale;
            largest = fmaxf(largest, w[j]);
        }
        for (int64_t j = 0; j < p->NK; j++) {
            w[j] = expf(w[j] - largest);
            sum += w[j];
        }
        for (int64_t d = 0; d < p->DV; d++) {
            float out = 0;
            for (int64_t j = 0; j < p->NK; j++) {
                float weight = w[j] / sum;
                if (coarse) {
                    weight = (float)storage_round(STORAGE_F16, weight);
                }
                out += weight * (float)p->v[(kv * p->NK + j) * p->DV + d];
            }
            o[n * p->DV + d] = out;
        }
        free(w);
    }
}

START_TEST(bounds_admit_f32_and_nothing_coarser)
{
    struct rng rng;
    struct probe u = uniform_probe(2, 6, 3, 7, 65, 24, 20);
    const int64_t dims[4] = {2, 6, 7, 20};
    double *got = alloc_doubles(2 * 6 * 7 * 20);
    struct ref_result r;
    struct compare_report report;

    rng_seed(&rng, 20);
    fill_normal_as(&rng, STORAGE_F32, u.q, 2 * 6 * 7 * 24, 0, 1);
    fill_normal_as(&rng, STORAGE_F32, u.k, 2 * 3 * 65 * 24, 0, 1);
    fill_normal_as(&rng, STORAGE_F32, u.v, 2 * 3 * 65 * 20, 0, 1);
    u.p.scale = storage_round(STORAGE_F32, u.p.scale);
    r = solve(&u.p);
    attention_f32(&u.p, 0, got);
    ASSERT_ARRAYS("f32", 4, dims, got, r.o, r.bound_o);
    attention_f32(&u.p, 1, got);
    ASSERT_I64_EQ(compare_arrays("coarse", 4, dims, got, r.o, r.bound_o, &report), 1);
    ref_result_free(&r);
    free(got);
    probe_free(&u);
}
END_TEST

START_TEST(merge_has_an_identity)
{
    const double infinity = (double)INFINITY;
    const double o1[8] = {NAN, NAN, 0.1, 0.2, NAN, NAN, 2, 4};
    const double o2[8] = {NAN, NAN, NAN, NAN, 0.3, 0.7, 6, 16};
    const double lse1[4] = {-infinity, 1.25, -infinity, log(3)};
    const double lse2[4] = {-infinity, -infinity, -7.5, 0};
    const double want[8] = {0, 0, 0.1, 0.2, 0.3, 0.7, 3, 7};
    struct ref_merge m = {.rows = 4, .DV = 2, .o1 = o1, .o2 = o2, .lse1 = lse1, .lse2 = lse2};
    double o[8], lse[4], bound_o[8], bound_lse[4];

    ref_merge(&m, o, lse, bound_o, bound_lse);
    for (int n = 0; n < 8; n++) {
        ASSERT_DOUBLE_NEAR(o[n], want[n], n < 6 ? 0 : TINY);
        ck_assert_msg((bound_o[n] == 0) == (n < 6), "bound %d is %g", n, bound_o[n]);
    }
    ASSERT_DOUBLE_SAME(lse[0], -infinity);
    ASSERT_DOUBLE_SAME(lse[1], 1.25);
    ASSERT_DOUBLE_SAME(lse[2], -7.5);
    ASSERT_DOUBLE_NEAR(lse[3], log(4), TINY);
    ck_assert(bound_lse[2] == 0 && bound_lse[3] > 0);
}
END_TEST

START_TEST(rotary_pairs_and_leaves_the_rest)
{
    /* Angles 90 and 0 degrees at position 1; position 0 is poison. */
    const double cosine[4] = {NAN, NAN, 0, 1}, sine[4] = {NAN, NAN, 1, 0};
    const double x[6] = {1, 2, 3, 4, 5, 6};
    const double halves[6] = {-3, 2, 1, 4, 5, 6}, neighbours[6] = {-2, 1, 3, 4, 5, 6};
    const int64_t positions[1] = {1}, beyond[1] = {2};
    struct ref_rotary r = {.B = 1,
                           .H = 1,
                           .N = 1,
                           .D = 6,
                           .R = 4,
                           .max_pos = 2,
                           .positions = positions,
                           .cos = cosine,
                           .sin = sine};
    double y[6], bound[6];

    ASSERT_I64_EQ(ref_rotary(&r, x, NULL, y, bound), 0);
    for (int d = 0; d < 6; d++) {
        ASSERT_DOUBLE_SAME(y[d], halves[d]);
    }
    ck_assert(bound[0] > 0 && bound[4] == 0);
    r.interleaved = 1;
    r.positions = NULL;
    r.cos = cosine + 2;
    r.sin = sine + 2;
    ASSERT_I64_EQ(ref_rotary(&r, x, NULL, y, NULL), 0);
    for (int d = 0; d < 6; d++) {
        ASSERT_DOUBLE_SAME(y[d], neighbours[d]);
    }
    r.R = 3;
    ASSERT_I64_EQ(ref_rotary(&r, x, NULL, y, NULL), -1);
    r.R = 8;
    ASSERT_I64_EQ(ref_rotary(&r, x, NULL, y, NULL), -1);
    r.R = 4;
    r.positions = beyond;
    ASSERT_I64_EQ(ref_rotary(&r, x, NULL, y, NULL), -1);
}
END_TEST

START_TEST(rotary_reads_the_right_angles)
{
    /* B 2, H 3, N 2, D = R = 2: token t turns by cos = t + 1, sin = 0 (a scale, for the eye). */
    const double cosine[4] = {1, 2, 3, 4}, sine[4] = {0};
    double x[24], y[24];
    struct ref_rotary r = {.B = 2, .H = 3, .N = 2, .D = 2, .cos = cosine, .sin = sine};

    fill_constant(x, 24, 1);
    ASSERT_I64_EQ(ref_rotary(&r, x, NULL, y, NULL), 0);
    for (int n = 0; n < 24; n++) {
        ASSERT_DOUBLE_SAME(y[n], n / 12 * 2 + n / 2 % 2 + 1);
    }
}
END_TEST

START_TEST(cache_update_wraps_only_when_circular)
{
    double cache[16] = {0}; /* B 2, H 2, NMAX 4, D 1 */
    const double update[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const double wrapped[16] = {2, 0, 0, 1, 4, 0, 0, 3, 0, 5, 6, 0, 0, 7, 8, 0};
    const int64_t at[2] = {3, 1}, outside[2] = {1, 4}, fits[2] = {2, 0};

    ASSERT_I64_EQ(ref_cache_update(2, 2, 4, 2, 1, 0, at, update, cache), -1);
    ASSERT_I64_EQ(ref_cache_update(2, 2, 4, 2, 1, 1, outside, update, cache), -1);
    ASSERT_I64_EQ(ref_cache_update(2, 2, 4, 5, 1, 1, at, update, cache), -1);
    for (int n = 0; n < 16; n++) {
        ASSERT_DOUBLE_SAME(cache[n], 0);
    }
    ASSERT_I64_EQ(ref_cache_update(2, 2, 4, 2, 1, 1, at, update, cache), 0);
    for (int n = 0; n < 16; n++) {
        ASSERT_DOUBLE_SAME(cache[n], wrapped[n]);
    }
    ASSERT_I64_EQ(ref_cache_update(2, 2, 4, 2, 1, 0, fits, update, cache), 0);
    ASSERT_DOUBLE_SAME(cache[2], 1);
    ASSERT_DOUBLE_SAME(cache[9], 6);
}
END_TEST

START_TEST(linear_map_and_its_bound)
{
    const double x[4] = {1, -2, 3, 4}, w[6] = {1, 10, 100, 1000, -1, 1}, bias[3] = {7, 8, 9};
    const double error[4] = {0.5, 0, 0, 0.25};
    const double want[6] = {-12, -1892, 6, 50, 4308, 10};
    struct ref_linear l = {
        .M = 2, .N = 3, .K = 2, .x = x, .x_error = error, .weight = w, .bias = bias};
    double y[6], bound[6];

    ref_linear(&l, y, bound);
    for (int n = 0; n < 6; n++) {
        ASSERT_DOUBLE_SAME(y[n], want[n]);
    }
    /* Output (0,0): |x w| + |bias| = 28, stored 12, carried 0.5 * 1. */
    ASSERT_DOUBLE_NEAR(bound[0], 0.5 + 0x1p-24 * (12 + 28 * (4 + sqrt(2))), 1e-15);
    ck_assert(bound[4] > 250); /* 0.25 * 1000 */
}
END_TEST

START_TEST(alibi_slopes_of_any_head_count)
{
    const double six[6] = {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125};
    const double twelve[4] = {0.70710678, 0.35355339, 0.17677670, 0.08838835};
    double slopes[12];

    ref_alibi_slopes(6, slopes);
    for (int h = 0; h < 6; h++) {
        ASSERT_DOUBLE_SAME(slopes[h], six[h]);
    }
    ref_alibi_slopes(12, slopes);
    for (int h = 0; h < 12; h++) {
        ASSERT_DOUBLE_NEAR(slopes[h], h < 8 ? ldexp(1, -h - 1) : twelve[h - 8], 5e-9);
    }
    ref_alibi_slopes(8, slopes);
    for (int h = 0; h < 8; h++) {
        ASSERT_DOUBLE_SAME(slopes[h], ldexp(1, -h - 1));
    }
    ref_alibi_slopes(1, slopes);
    ASSERT_DOUBLE_SAME(slopes[0], 0.00390625);
}
END_TEST

START_TEST(head_average_and_head_order)
{
    const double weights[8] = {1, 2, 3, 4, 10, 20, 30, 40}; /* B 2, H 2, NQ 1, NK 2 */
    const double mean[4] = {2, 3, 20, 30};
    const double flat[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}; /* B 1, N 2, H 3, D 2 */
    const double split[12] = {0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11};
    double got[4], heads[12], back[12];

    ref_head_average(2, 2, 1, 2, weights, got);
    for (int n = 0; n < 4; n++) {
        ASSERT_DOUBLE_SAME(got[n], mean[n]);
    }
    ref_split_heads(1, 2, 3, 2, flat, heads);
    ref_merge_heads(1, 3, 2, 2, heads, back);
    for (int n = 0; n < 12; n++) {
        ASSERT_DOUBLE_SAME(heads[n], split[n]);
        ASSERT_DOUBLE_SAME(back[n], flat[n]);
    }
}
END_TEST

/* Queries are all zero, so each head returns the mean of its values over both keys. */
START_TEST(layer_by_hand)
{
    const double xq[1] = {1}, xk[4] = {1, 2, 3, 4}, xv[6] = {1, 2, 3, 3, 4, 9};
    const double wq[4] = {0}, wk[8] = {1, 0, 0, 1, 1, 1, 2, 2};
    const double wv[6] = {1, 0, 0, 0, 0, 1}, bv[2] = {10, 20}; /* x0 + 10 and x2 + 20 */
    const double wo[6] = {1, 2, 3, 4, 0, -1}, bo[3] = {0.5, 0, 0};
    const double want[3] = {12 + 52 + 0.5, 36 + 104, -26}; /* of the means 12 and 26 */
    struct ref_layer l = {
        .attention = {.B = 1, .H = 2, .HKV = 2, .NQ = 1, .NK = 2, .DK = 2, .DV = 1, .scale = 1},
        .EQ = 1,
        .EK = 2,
        .EV = 3,
        .EOUT = 3,
        .xq = xq,
        .xk = xk,
        .xv = xv,
        .wq = wq,
        .wk = wk,
        .wv = wv,
        .bv = bv,
        .wo = wo,
        .bo = bo};
    struct ref_layer_result r;

    ASSERT_I64_EQ(ref_layer(&l, &r), 0);
    for (int n = 0; n < 3; n++) {
        ASSERT_DOUBLE_NEAR(r.y[n], want[n], 1e-12);
        ck_assert(r.bound_y[n] > 0 && r.bound_y[n] < 1e-3);
    }
    ref_layer_result_free(&r);

    l.wo = NULL;
    ASSERT_I64_EQ(ref_layer(&l, &r), 0);
    ASSERT_DOUBLE_NEAR(r.y[0], 12, TINY * 10);
    ASSERT_DOUBLE_NEAR(r.y[1], 26, TINY * 10);
    ref_layer_result_free(&r);

    l.attention.HKV = 0;
    ASSERT_I64_EQ(ref_layer(&l, &r), -1);
    ref_layer_result_free(&r);
}
END_TEST

/* One head of size 1 with weights 1: q = 1, k = (1, 0), v = (1, 1), each kept in f16. */
START_TEST(layer_bounds_carry_the_projections)
{
    const double one = 1, xk[2] = {1, 0}, xv[2] = {1, 1};
    struct ref_layer l = {
        .attention = {.B = 1, .H = 1, .HKV = 1, .NQ = 1, .NK = 2, .DK = 1, .DV = 1, .scale = 1},
        .EQ = 1,
        .EK = 1,
        .EV = 1,
        .xq = &one,
        .xk = xk,
        .xv = xv,
        .wq = &one,
        .wk = &one,
        .wv = &one,
        .u_mid = 0x1p-11,
        .mid_subnormal = 0x1p-24};
    double w = exp(1) / (exp(1) + 1);
    struct ref_layer_result r;

    ASSERT_I64_EQ(ref_layer(&l, &r), 0);
    /* Score 0 is off by dq*|k| + |q|*dk = 2 * 2^-11, score 1 by next to nothing. */
    ASSERT_DOUBLE_NEAR(r.attention.bound_lse[0], 2 * 0x1p-11 * w, 0.01 * 0x1p-11);
    /* v is off by 2^-11, and the formula counts each score twice: its weight, and the sum. */
    ASSERT_DOUBLE_NEAR(r.bound_y[0], 0x1p-11 * (1 + 2 * 2 * w), 0.01 * 0x1p-11);
    ref_layer_result_free(&r);
}
END_TEST

static Suite *reference_suite(void)
{
    Suite *suite = suite_create("reference");
    TCase *masks = tcase_create("masks");
    TCase *scores = tcase_create("scores");
    TCase *parts = tcase_create("parts");

    tcase_add_test(masks, causal_top_left_and_bottom_right);
    tcase_add_test(masks, window_includes_both_ends);
    tcase_add_test(masks, masks_intersect);
    tcase_add_test(masks, key_lengths_hide_garbage_and_may_be_zero);
    tcase_add_test(masks, wholly_hidden_tile_does_not_set_the_maximum);
    tcase_add_test(masks, bias_hides_only_when_infinite);
    tcase_add_test(masks, hidden_keys_weigh_exactly_nothing);
    suite_add_tcase(suite, masks);

    tcase_add_test(scores, heads_share_keys_in_groups);
    tcase_add_test(scores, impossible_problems_are_refused);
    tcase_add_test(scores, only_the_last_coordinate_counts_once);
    tcase_add_test(scores, one_key_can_take_all);
    tcase_add_test(scores, stages_of_the_score);
    tcase_add_test(scores, cap_does_not_unhide);
    tcase_add_test(scores, alibi_counts_from_the_diagonal);
    tcase_add_test(scores, sink_joins_the_sum_without_a_value);
    tcase_add_test(scores, visible_nan_and_inf_come_out);
    tcase_add_test(scores, nothing_is_a_size);
    tcase_add_test(scores, bounds_are_the_published_formula);
    tcase_add_test(scores, bounds_admit_f32_and_nothing_coarser);
    suite_add_tcase(suite, scores);

    tcase_add_test(parts, philox_known_answers);
    tcase_add_test(parts, dropout_places_its_words_as_written);
    tcase_add_test(parts, dropout_scales_the_weights_it_keeps);
    tcase_add_test(parts, merge_has_an_identity);
    tcase_add_test(parts, rotary_pairs_and_leaves_the_rest);
    tcase_add_test(parts, rotary_reads_the_right_angles);
    tcase_add_test(parts, cache_update_wraps_only_when_circular);
    tcase_add_test(parts, linear_map_and_its_bound);
    tcase_add_test(parts, alibi_slopes_of_any_head_count);
    tcase_add_test(parts, head_average_and_head_order);
    tcase_add_test(parts, layer_by_hand);
    tcase_add_test(parts, layer_bounds_carry_the_projections);
    suite_add_tcase(suite, parts);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(reference_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
