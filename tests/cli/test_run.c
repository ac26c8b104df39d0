/*
 * gpu-mha run: what it computes with each option.
 *
 * Most tests are the uniform probe: with Q = 0 and V[j] = j + 1 every visible key weighs the same,
 * so the output is the mean of j + 1 over the visible keys and the LSE is ln(their number).
 */
#include "command_fixture.h"
#include "reference/reference.h"

#include <errno.h>
#include <sys/stat.h>

#define NEAR 1e-5

/* Three queries, five keys, two heads, other sizes all different. */
#define FILES "--q=q.npy --k k.npy --v=v.npy -o y.npy"

static void write_probe(void)
{
    write_array("q.npy", "<f4", SHAPE(1, 2, 3, 4), VALUES(0));
    write_array("k.npy", "<f4", SHAPE(1, 2, 5, 4), VALUES(0.5));
    write_counting("v.npy", "<f4", 2, SHAPE(1, 2, 5, 2));
    remove("y.npy");
}

/* The output of the probe: one value per query, the same in both heads and both columns. */
static void expect_rows(double row0, double row1, double row2)
{
    expect_array("y.npy", "<f4", NEAR, SHAPE(1, 2, 3, 2),
                 VALUES(row0, row0, row1, row1, row2, row2));
}

START_TEST(without_options_all_keys_count)
{
    write_probe();
    ASSERT_RUNS("run " FILES);
    expect_rows(3, 3, 3);
}
END_TEST

START_TEST(causal_has_three_forms)
{
    write_probe();
    ASSERT_RUNS("run " FILES " --causal top-left");
    expect_rows(1, 1.5, 2);
    ASSERT_RUNS("run " FILES " --causal=bottom-right");
    expect_rows(2, 2.5, 3);
    ASSERT_RUNS("run " FILES " --causal -1 --lse lse.npy");
    expect_rows(0, 1, 1.5);
    expect_array("lse.npy", "<f4", NEAR, SHAPE(1, 2, 3), VALUES(-INFINITY, 0, log(2)));
}
END_TEST

START_TEST(window_moves_with_the_offset)
{
    write_probe();
    ASSERT_RUNS("run " FILES " --window 1,1");
    expect_rows(1.5, 2, 3);
    ASSERT_RUNS("run " FILES " --window=1,0 --offset bottom-right");
    expect_rows(2.5, 3.5, 4.5);
    ASSERT_RUNS("run " FILES " --window -1,0 --offset=1");
    expect_rows(1.5, 2, 2.5);
    ASSERT_RUNS("run " FILES " --window 1,-1 --causal bottom-right");
    expect_rows(2.5, 3.5, 4.5);
}
END_TEST

START_TEST(masks_of_every_rank_and_type)
{
    write_probe();
    write_array("mask.npy", "|b1", SHAPE(5), VALUES(0, 1, 1, 0, 0));
    ASSERT_RUNS("run " FILES " --mask mask.npy");
    expect_rows(2.5, 2.5, 2.5);

    write_array("mask.npy", "|b1", SHAPE(3, 1), VALUES(1, 0, 1));
    ASSERT_RUNS("run " FILES " --mask=mask.npy");
    expect_rows(3, 0, 3);

    write_array("mask.npy", "<f4", SHAPE(2, 1, 5), VALUES(0, -INFINITY, 0, -INFINITY, -INFINITY));
    ASSERT_RUNS("run " FILES " --mask mask.npy");
    expect_rows(2, 2, 2);

    write_array("mask.npy", "<f2", SHAPE(1, 1, 3, 5),
                VALUES(0, -INFINITY, -INFINITY, -INFINITY, -INFINITY,         /**/
                       -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, /**/
                       1, 1, 1, 1, -INFINITY));
    ASSERT_RUNS("run " FILES " --mask mask.npy");
    expect_rows(1, 0, 2.5);

    write_array("mask.npy", "|b1", 0, NULL, VALUES(1));
    ASSERT_RUNS("run " FILES " --mask mask.npy");
    expect_rows(3, 3, 3);
}
END_TEST

/* Converted to infinity it would hide the keys, and the row would be 0. */
START_TEST(bias_beyond_f32_stays_a_bias)
{
    write_probe();
    write_array("mask.npy", "<f8", SHAPE(3, 5),
                VALUES(-1e300, -1e300, -1e300, -1e300, -1e300, /**/
                       0, -1e300, 0, -1e300, -1e300,           /**/
                       0, 0, 0, 0, -INFINITY));
    ASSERT_RUNS("run " FILES " --mask mask.npy");
    expect_rows(3, 2, 2.5);
}
END_TEST

START_TEST(key_lengths_of_both_integer_types)
{
    write_array("q.npy", "<f4", SHAPE(2, 1, 1, 3), VALUES(0));
    /* What lies past a length is not looked at. */
    write_array("k.npy", "<f4", SHAPE(2, 1, 5, 3),
                VALUES(1, 1, 1, 1, 1, 1, NAN, NAN, NAN, NAN, NAN, NAN, INFINITY, NAN, NAN));
    write_counting("v.npy", "<f4", 2, SHAPE(2, 1, 5, 2));
    for (int wide = 0; wide < 2; wide++) {
        write_array("lengths.npy", wide ? "<i8" : "<i4", SHAPE(2), VALUES(2, 0));
        ASSERT_RUNS("run " FILES " --kv-lens lengths.npy");
        expect_array("y.npy", "<f4", NEAR, SHAPE(2, 1, 1, 2), VALUES(1.5, 1.5, 0, 0));
    }
}
END_TEST

START_TEST(past_stands_in_front)
{
    write_probe();
    write_array("past_k.npy", "<f4", SHAPE(1, 2, 2, 4), VALUES(3));
    write_array("past_v.npy", "<f2", SHAPE(1, 2, 2, 2), VALUES(9));
    ASSERT_RUNS("run " FILES " --past-k past_k.npy --past-v=past_v.npy --causal 0 --lse lse.npy "
                "--weights w.npy");
    expect_rows(9, 9, 19.0 / 3);
    expect_array("lse.npy", "<f4", NEAR, SHAPE(1, 2, 3), VALUES(0, log(2), log(3)));
    expect_array("w.npy", "<f4", NEAR, SHAPE(1, 2, 3, 7),
                 VALUES(1, 0, 0, 0, 0, 0, 0, /**/ 0.5, 0.5, 0, 0, 0, 0, 0, /**/
                        1 / 3.0, 1 / 3.0, 1 / 3.0, 0, 0, 0, 0));
}
END_TEST

/* Rank 3: heads side by side in a row. V is 1 in kv head 0 and 2 in kv head 1. */
START_TEST(rank_3_needs_the_head_counts)
{
    write_array("q.npy", "<f4", SHAPE(2, 3, 4 * 5), VALUES(0));
    write_array("k.npy", "<f4", SHAPE(2, 6, 2 * 5), VALUES(1));
    write_array("v.npy", "<f4", SHAPE(2, 6, 2 * 3), VALUES(1, 1, 1, 2, 2, 2));
    ASSERT_RUNS("run " FILES " --heads 4 --kv-heads=2 --lse lse.npy");
    expect_array("y.npy", "<f4", NEAR, SHAPE(2, 3, 4 * 3),
                 VALUES(1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2));
    expect_array("lse.npy", "<f4", NEAR, SHAPE(2, 4, 3), VALUES(log(6)));
    /* The past has rank 4 all the same. */
    write_array("past_k.npy", "<f4", SHAPE(2, 2, 1, 5), VALUES(0));
    write_array("past_v.npy", "<f4", SHAPE(2, 2, 1, 3), VALUES(8, 8, 8, 16, 16, 16));
    ASSERT_RUNS("run " FILES " --heads=4 --kv-heads 2 --past-k past_k.npy --past-v past_v.npy");
    expect_array("y.npy", "<f4", NEAR, SHAPE(2, 3, 4 * 3),
                 VALUES(2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4));
    /* As many key heads as query heads unless said otherwise. */
    ASSERT_RUNS("run --q k.npy --k k.npy --v v.npy -o y.npy --heads 2");
    expect_array("y.npy", "<f4", NEAR, SHAPE(2, 6, 2 * 3), VALUES(1, 1, 1, 2, 2, 2));
}
END_TEST

/* One query, two keys whose raw products are 4 and 0: the scores show each step. */
START_TEST(scores_show_each_stage)
{
    write_array("q.npy", "<f4", SHAPE(1, 1, 1, 2), VALUES(2, 0));
    write_array("k.npy", "<f4", SHAPE(1, 1, 2, 2), VALUES(2, 0, 0, 7));
    write_array("v.npy", "<f4", SHAPE(1, 1, 2, 3), VALUES(1, 1, 1, 5, 5, 5));
    write_array("mask.npy", "<f4", SHAPE(2), VALUES(-0.5, -INFINITY));
#define SCORED "run " FILES " --scale 0.5 --softcap 2 --mask mask.npy --scores "
    ASSERT_RUNS(SCORED "raw,s.npy");
    expect_array("s.npy", "<f4", NEAR, SHAPE(1, 1, 1, 2), VALUES(2, 0));
    ASSERT_RUNS(SCORED "capped,s.npy");
    expect_array("s.npy", "<f4", NEAR, SHAPE(1, 1, 1, 2), VALUES(2 * tanh(1), 0));
    ASSERT_RUNS(SCORED "masked,s.npy");
    expect_array("s.npy", "<f4", NEAR, SHAPE(1, 1, 1, 2), VALUES(2 * tanh(1) - 0.5, -INFINITY));
    ASSERT_RUNS(SCORED "softmax,s.npy");
    expect_array("s.npy", "<f4", NEAR, SHAPE(1, 1, 1, 2), VALUES(1, 0));
    expect_array("y.npy", "<f4", NEAR, SHAPE(1, 1, 1, 3), VALUES(1));
#undef SCORED
    /* Without --scale it is 1 / sqrt(2); a scale of 0 or below is taken as it is. */
    ASSERT_RUNS("run " FILES " --scores=raw,s.npy");
    expect_array("s.npy", "<f4", NEAR, SHAPE(1, 1, 1, 2), VALUES(4 / sqrt(2), 0));
    ASSERT_RUNS("run " FILES " --scale -0.25 --scores=raw,s.npy");
    expect_array("s.npy", "<f4", NEAR, SHAPE(1, 1, 1, 2), VALUES(-1, 0));
    ASSERT_RUNS("run " FILES " --scale=0");
    expect_array("y.npy", "<f4", NEAR, SHAPE(1, 1, 1, 3), VALUES(3));
}
END_TEST

/* Two heads, whose published slopes are 1/16 and 1/256. */
START_TEST(alibi_from_the_rule_or_a_file)
{
    write_array("q.npy", "<f4", SHAPE(1, 2, 1, 3), VALUES(0));
    write_array("k.npy", "<f4", SHAPE(1, 2, 3, 3), VALUES(1));
    write_array("v.npy", "<f4", SHAPE(1, 2, 3, 1), VALUES(1));
    ASSERT_RUNS("run " FILES " --alibi auto --scores masked,s.npy");
    expect_array("s.npy", "<f4", NEAR, SHAPE(1, 2, 1, 3),
                 VALUES(0, -1 / 16.0, -2 / 16.0, 0, -1 / 256.0, -2 / 256.0));
    write_array("slopes.npy", "<f8", SHAPE(2), VALUES(1, 10));
    ASSERT_RUNS("run " FILES " --alibi=slopes.npy --offset bottom-right --scores masked,s.npy");
    expect_array("s.npy", "<f4", NEAR, SHAPE(1, 2, 1, 3), VALUES(-2, -1, 0, -20, -10, 0));
}
END_TEST

/* A sink of ln 5 weighs as much as the five keys together; one of -inf nothing. */
START_TEST(sinks_take_weight)
{
    write_probe();
    write_array("sinks.npy", "<f4", SHAPE(2), VALUES(log(5), -INFINITY));
    ASSERT_RUNS("run " FILES " --sinks sinks.npy --lse lse.npy");
    expect_array("y.npy", "<f4", NEAR, SHAPE(1, 2, 3, 2),
                 VALUES(1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 3, 3, 3, 3, 3, 3));
    expect_array("lse.npy", "<f4", NEAR, SHAPE(1, 2, 3),
                 VALUES(log(10), log(10), log(10), log(5), log(5), log(5)));
}
END_TEST

START_TEST(types_are_those_of_the_files)
{
    write_probe();
    write_array("q.npy", "<f2", SHAPE(1, 2, 3, 4), VALUES(0));
    ASSERT_RUNS("run " FILES);
    expect_array("y.npy", "<f2", 1e-3, SHAPE(1, 2, 3, 2), VALUES(3));
    write_array("q.npy", "<f8", SHAPE(1, 2, 3, 4), VALUES(0));
    ASSERT_RUNS("run " FILES);
    expect_rows(3, 3, 3);
    ASSERT_RUNS("run " FILES " --dtype f16");
    expect_array("y.npy", "<f2", 1e-3, SHAPE(1, 2, 3, 2), VALUES(3));
    /* V = 259 is not a bf16: the value itself becomes 260, which f4 shows. */
    write_array("v.npy", "<f4", SHAPE(1, 2, 5, 2), VALUES(259));
    ASSERT_RUNS("run " FILES " --dtype=bf16");
    expect_array("y.npy", "<f4", 0, SHAPE(1, 2, 3, 2), VALUES(260));
    write_array("q.npy", "|V2", SHAPE(1, 2, 3, 4), VALUES(0));
    ASSERT_RUNS("run " FILES " --dtype f32");
    expect_array("y.npy", "<f4", 1e-3, SHAPE(1, 2, 3, 2), VALUES(259));
}
END_TEST

START_TEST(the_result_may_have_another_type)
{
    write_probe();
    ASSERT_RUNS("run " FILES " --output-dtype f16 --causal 0");
    expect_array("y.npy", "<f2", 1e-3, SHAPE(1, 2, 3, 2),
                 VALUES(1, 1, 1.5, 1.5, 2, 2, 1, 1, 1.5, 1.5, 2, 2));
    write_array("v.npy", "<f4", SHAPE(1, 2, 5, 2), VALUES(259));
    ASSERT_RUNS("run " FILES " --dtype f16 --output-dtype=bf16");
    expect_array("y.npy", "<f4", 0, SHAPE(1, 2, 3, 2), VALUES(260));
}
END_TEST

/* The mask leaves keys 1 to 3, of which the bias hides key 2 and makes key 3 three times key 1. */
START_TEST(mask_and_bias_go_together)
{
    write_probe();
    write_array("mask.npy", "|b1", SHAPE(5), VALUES(0, 1, 1, 1, 0));
    write_array("bias.npy", "<f8", SHAPE(1, 5), VALUES(9, 0, -INFINITY, log(3), 9));
    ASSERT_RUNS("run " FILES " --mask mask.npy --bias=bias.npy");
    expect_rows(3.5, 3.5, 3.5);
    ASSERT_RUNS("run " FILES " --bias bias.npy --causal 1");
    expect_rows((exp(9) + 2) / (exp(9) + 1), (exp(9) + 2) / (exp(9) + 1),
                (exp(9) + 14) / (exp(9) + 4));
}
END_TEST

/* The largest seed there is. */
START_TEST(dropout_drops_what_its_seed_says)
{
    const struct ref_dropout dropout = {0.25, UINT64_MAX};
    double weights[2 * 3 * 5];

    for (int n = 0; n < 2 * 3 * 5; n++) {
        weights[n] = ref_dropout_keep(dropout, n / 15, n / 5 % 3, n % 5) ? 0.2 / 0.75 : 0;
    }
    write_probe();
    ASSERT_RUNS("run " FILES " --dropout 0.25 --dropout-seed 18446744073709551615 --weights w.npy");
    expect_array("w.npy", "<f4", NEAR, SHAPE(1, 2, 3, 5), 2 * 3 * 5, weights);
}
END_TEST

START_TEST(weights_may_be_averaged)
{
    write_array("q.npy", "<f4", SHAPE(1, 2, 1, 1), VALUES(0, 1));
    write_array("k.npy", "<f4", SHAPE(1, 2, 2, 1), VALUES(0, log(3)));
    write_array("v.npy", "<f4", SHAPE(1, 2, 2, 3), VALUES(1));
    ASSERT_RUNS("run " FILES " --weights w.npy --average");
    expect_array("w.npy", "<f4", NEAR, SHAPE(1, 1, 2), VALUES(0.375, 0.625));
}
END_TEST

START_TEST(results_can_be_expected)
{
    write_probe();
    ck_assert(mkdir("want", 0777) == 0 || errno == EEXIST);
    remove("want/output_bound.npy"); /* of a run before */
    remove("want/lse_bound.npy");
    write_array("want/output.npy", "<f8", SHAPE(1, 2, 3, 2),
                VALUES(1, 1, 1.5, 1.5, 2, 2, 1, 1, 1.5, 1.5, 2, 2));
    ASSERT_RUNS("run " FILES " --causal 0 --expect want");
    /* LSE is not wanted by the command, so it is not compared. */
    write_array("want/lse.npy", "<f8", SHAPE(1, 2, 3), VALUES(7));
    ASSERT_RUNS("run " FILES " --causal 0 --expect want");
    ASSERT_REFUSES(1,
                   "lse: 6 of 6 elements are not as expected; the worst, (0, 0, 0), is 0 where 7",
                   "run " FILES " --causal 0 --lse l.npy --expect want");
    write_array("want/lse_bound.npy", "<f4", SHAPE(1, 2, 3), VALUES(7, 6, 5));
    ASSERT_REFUSES(1, "lse: 4 of 6 elements are not as expected; the worst, (0, 0, 2), is 1.09861",
                   "run " FILES " --causal 0 --lse l.npy --expect want");
    write_array("want/lse_bound.npy", "<f4", SHAPE(1, 2, 3), VALUES(7.5));
    ASSERT_RUNS("run " FILES " --causal 0 --lse l.npy --expect want");
    /* NaN wants NaN, and no bound excuses one. */
    write_array("want/lse.npy", "<f8", SHAPE(1, 2, 3), VALUES(NAN));
    ASSERT_REFUSES(1, "lse: 6 of 6", "run " FILES " --causal 0 --lse l.npy --expect want");
    write_array("want/lse.npy", "<f8", SHAPE(2, 3), VALUES(NAN));
    ASSERT_REFUSES(1, "want/lse.npy has shape (2, 3), but the result has (1, 2, 3)",
                   "run " FILES " --causal 0 --lse l.npy --expect want");
    ASSERT_REFUSES(1, "nowhere has no output.npy", "run " FILES " --expect nowhere");
}
END_TEST

START_TEST(both_methods_give_the_same)
{
    write_probe();
    ASSERT_RUNS("run " FILES " --method fused --causal 0");
    expect_rows(1, 1.5, 2);
    ASSERT_RUNS("run " FILES " --method=staged --causal 0");
    expect_rows(1, 1.5, 2);
    ASSERT_RUNS("run " FILES " --method auto --device cpu --causal 0");
    expect_rows(1, 1.5, 2);
}
END_TEST

START_TEST(plot_is_a_png_of_one_batch_entry)
{
    static const char magic[] = "\x89PNG";
    char start[16];

    write_array("q.npy", "<f4", SHAPE(3, 2, 1, 4), VALUES(0));
    write_array("k.npy", "<f4", SHAPE(3, 2, 5, 4), VALUES(1));
    write_counting("v.npy", "<f4", 2, SHAPE(3, 2, 5, 2));
    remove("w.png");
    ASSERT_RUNS("run " FILES " --plot w.png --batch=2");
    read_text("w.png", start, sizeof start);
    ck_assert(strncmp(start, magic, 4) == 0);
    expect_array("y.npy", "<f4", NEAR, SHAPE(3, 2, 1, 2), VALUES(3));
    ASSERT_REFUSES(1, "--batch is 3, but must be 0 to 2", "run " FILES " --plot w.png --batch 3");
}
END_TEST

/* What other entries weigh is not in the picture. */
START_TEST(plot_shows_the_entry_that_was_asked_for)
{
    write_array("q.npy", "<f4", SHAPE(2, 1, 1, 4), VALUES(0));
    write_array("k.npy", "<f4", SHAPE(2, 1, 3, 4), VALUES(1));
    write_array("v.npy", "<f4", SHAPE(2, 1, 3, 2), VALUES(1));
#define PLOTTED "run " FILES " --mask mask.npy --batch 1 --plot "
    write_array("mask.npy", "|b1", SHAPE(2, 1, 1, 3), VALUES(1, 1, 1, 1, 0, 1));
    ASSERT_RUNS(PLOTTED "w.png");
    write_array("mask.npy", "|b1", SHAPE(2, 1, 1, 3), VALUES(0, 0, 1, 1, 0, 1));
    ASSERT_RUNS(PLOTTED "other_entry_changed.png");
    write_array("mask.npy", "|b1", SHAPE(2, 1, 1, 3), VALUES(1, 1, 1, 0, 1, 0));
    ASSERT_RUNS(PLOTTED "entry_changed.png");
#undef PLOTTED
    ck_assert(system("cmp -s w.png other_entry_changed.png") == 0);
    ck_assert(system("cmp -s w.png entry_changed.png") != 0);
}
END_TEST

START_TEST(empty_sizes_are_no_failure)
{
    write_array("q.npy", "<f4", SHAPE(1, 2, 3, 4), VALUES(0));
    write_array("k.npy", "<f4", SHAPE(1, 2, 0, 4), VALUES(0));
    write_array("v.npy", "<f4", SHAPE(1, 2, 0, 2), VALUES(0));
    ASSERT_RUNS("run " FILES " --lse lse.npy --weights w.npy --causal bottom-right");
    expect_array("y.npy", "<f4", 0, SHAPE(1, 2, 3, 2), VALUES(0));
    expect_array("lse.npy", "<f4", 0, SHAPE(1, 2, 3), VALUES(-INFINITY));
    expect_array("w.npy", "<f4", 0, SHAPE(1, 2, 3, 0), VALUES(0));
    ASSERT_REFUSES(1, "w.png cannot be drawn", "run " FILES " --plot w.png");

    write_array("q.npy", "<f4", SHAPE(1, 2, 0, 4), VALUES(0));
    ASSERT_RUNS("run --q q.npy --k q.npy --v q.npy -o y.npy");
    expect_array("y.npy", "<f4", 0, SHAPE(1, 2, 0, 4), VALUES(0));
    write_array("q.npy", "<f4", SHAPE(0, 7, 12), VALUES(0));
    ASSERT_RUNS("run --q q.npy --k q.npy --v q.npy -o y.npy --heads 4");
    expect_array("y.npy", "<f4", 0, SHAPE(0, 7, 12), VALUES(0));
}
END_TEST

START_TEST(json_is_one_object)
{
    write_probe();
    struct outcome outcome = run_command("run " FILES " --json --lse lse.npy --causal 0");
    ck_assert_int_eq(outcome.code, 0);
    ck_assert_int_eq(outcome.out[0], '{');
    static const char *const parts[] = {"\"device\": \"",
                                        "\"method\": \"",
                                        "\"workspace_bytes\": ",
                                        "\"milliseconds\": ",
                                        "\"NQ\": 3",
                                        "\"NK\": 5",
                                        "\"DV\": 2",
                                        "\"query\": \"f32\"",
                                        "\"min\": 1.0",
                                        "\"max\": 2.0",
                                        "\"mean\": 1.5",
                                        "\"nan\": 0",
                                        "\"path\": \"y.npy\"",
                                        "\"path\": \"lse.npy\""};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        ASSERT_CONTAINS(outcome.out, parts[i]);
    }

    /* JSON has no number for what this one comes to. */
    write_array("v.npy", "<f4", SHAPE(1, 2, 5, 2), VALUES(NAN));
    outcome = run_command("run " FILES " --json");
    ck_assert_int_eq(outcome.code, 0);
    ASSERT_CONTAINS(outcome.out, "\"mean\": null");
    ASSERT_CONTAINS(outcome.out, "\"nan\": 12");
}
END_TEST

START_TEST(text_names_output_and_device)
{
    write_probe();
    struct outcome outcome = run_command("run " FILES " --causal 0 --dtype bf16");
    ck_assert_int_eq(outcome.code, 0);
    ASSERT_CONTAINS(outcome.out, "y.npy: bf16 (1, 2, 3, 2) (written as f4, as .npy has no bf16), "
                                 "1 to 2, mean 1.5\n");
    ASSERT_CONTAINS(outcome.out, "built, ");
}
END_TEST

static Suite *run_suite(void)
{
    Suite *suite = suite_create("run");
    TCase *options = tcase_create("options");

    tcase_set_timeout(options, 120); /* the first run on a device builds its kernels */
    tcase_add_test(options, without_options_all_keys_count);
    tcase_add_test(options, causal_has_three_forms);
    tcase_add_test(options, window_moves_with_the_offset);
    tcase_add_test(options, masks_of_every_rank_and_type);
    tcase_add_test(options, bias_beyond_f32_stays_a_bias);
    tcase_add_test(options, key_lengths_of_both_integer_types);
    tcase_add_test(options, past_stands_in_front);
    tcase_add_test(options, rank_3_needs_the_head_counts);
    tcase_add_test(options, scores_show_each_stage);
    tcase_add_test(options, alibi_from_the_rule_or_a_file);
    tcase_add_test(options, sinks_take_weight);
    tcase_add_test(options, types_are_those_of_the_files);
    tcase_add_test(options, the_result_may_have_another_type);
    tcase_add_test(options, mask_and_bias_go_together);
    tcase_add_test(options, dropout_drops_what_its_seed_says);
    tcase_add_test(options, weights_may_be_averaged);
    tcase_add_test(options, results_can_be_expected);
    tcase_add_test(options, both_methods_give_the_same);
    tcase_add_test(options, plot_is_a_png_of_one_batch_entry);
    tcase_add_test(options, plot_shows_the_entry_that_was_asked_for);
    tcase_add_test(options, empty_sizes_are_no_failure);
    tcase_add_test(options, json_is_one_object);
    tcase_add_test(options, text_names_output_and_device);
    suite_add_tcase(suite, options);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(run_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
