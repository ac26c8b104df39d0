/*
 * gpu-mha run: what it refuses. A wrong command line ends with 2, files that do not fit with 1;
 * either way there is one sentence on stderr and no output file.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "command_fixture.h"

#define FILES "--q q.npy --k k.npy --v v.npy -o y.npy"

/* A problem that is right, so that each test has exactly one thing wrong. */
static void write_good(void)
{
    write_array("q.npy", "<f4", SHAPE(2, 4, 3, 5), VALUES(0));
    write_array("k.npy", "<f4", SHAPE(2, 2, 7, 5), VALUES(1));
    write_array("v.npy", "<f4", SHAPE(2, 2, 7, 6), VALUES(2));
    remove("y.npy");
}

static void write_good_rank_3(void)
{
    write_array("q.npy", "<f4", SHAPE(2, 3, 20), VALUES(0));
    write_array("k.npy", "<f4", SHAPE(2, 7, 10), VALUES(1));
    write_array("v.npy", "<f4", SHAPE(2, 7, 12), VALUES(2));
    remove("y.npy");
}

static void expect_no_output(void)
{
    ck_assert_msg(access("y.npy", F_OK) != 0, "y.npy was written");
}

#define REFUSED(code, part, ...)                                                                   \
    do {                                                                                           \
        ASSERT_REFUSES(code, part, __VA_ARGS__);                                                   \
        expect_no_output();                                                                        \
    } while (0)

START_TEST(good_files_are_good)
{
    write_good();
    ASSERT_RUNS("run " FILES);
    write_good_rank_3();
    ASSERT_RUNS("run " FILES " --heads 4 --kv-heads 2");
}
END_TEST

START_TEST(command_lines)
{
    write_good();
    REFUSED(2, "--q", "run --k k.npy --v v.npy -o y.npy");
    REFUSED(2, "--output", "run --q q.npy --k k.npy --v v.npy");
    REFUSED(2, "unknown option '--lenghts'", "run " FILES " --lenghts x.npy");
    REFUSED(2, "did you mean '--softcap'", "run " FILES " --softcpa 3");
    REFUSED(2, "extra.npy", "run " FILES " extra.npy");
    REFUSED(2, "--mask needs a value", "run " FILES " --mask");
    REFUSED(2, "--causal needs top-left, bottom-right or a whole number, not 'middle'",
            "run " FILES " --causal middle");
    REFUSED(2, "--causal sets the offset", "run " FILES " --causal 0 --offset 1");
    REFUSED(2, "--offset does nothing", "run " FILES " --offset 1");
    REFUSED(2, "--offset needs top-left", "run " FILES " --window 1,1 --offset 1.5");
    REFUSED(2, "--window needs", "run " FILES " --window 3");
    REFUSED(2, "--window needs", "run " FILES " --window=-2,0");
    REFUSED(2, "--window needs", "run " FILES " --window 1,2,3");
    REFUSED(2, "--scale needs a finite number", "run " FILES " --scale nan");
    REFUSED(2, "--scale 1e+300 is beyond single precision", "run " FILES " --scale 1e300");
    REFUSED(2, "--scale 1e-300 is 0 in single precision", "run " FILES " --scale 1e-300");
    REFUSED(2, "--softcap is -1, but must be positive", "run " FILES " --softcap -1");
    REFUSED(2, "--softcap needs a finite number", "run " FILES " --softcap=inf");
    REFUSED(2, "--heads needs", "run " FILES " --heads 0");
    REFUSED(2, "--kv-heads does not go without --heads", "run " FILES " --kv-heads 2");
    REFUSED(2, "--past-k and --past-v", "run " FILES " --past-k k.npy");
    REFUSED(2, "--past-k and --past-v", "run " FILES " --past-v v.npy");
    REFUSED(2, "--dtype needs f32, f16 or bf16", "run " FILES " --dtype f64");
    REFUSED(2, "--output-dtype needs f32, f16 or bf16", "run " FILES " --output-dtype f64");
    REFUSED(2, "--dropout is 1, but must be at least 0 and below 1", "run " FILES " --dropout 1");
    REFUSED(2, "--dropout is -0.5", "run " FILES " --dropout -0.5");
    REFUSED(2, "--dropout-seed does nothing without", "run " FILES " --dropout-seed 5");
    REFUSED(2, "--dropout-seed needs a whole number from 0 to 2^64 - 1, not '-1'",
            "run " FILES " --dropout 0.1 --dropout-seed=-1");
    REFUSED(2, "not '18446744073709551616'",
            "run " FILES " --dropout 0.1 --dropout-seed 18446744073709551616");
    REFUSED(2, "not '1x'", "run " FILES " --dropout 0.1 --dropout-seed 1x");
    REFUSED(2, "--method needs auto, fused or staged", "run " FILES " --method fast");
}
END_TEST

START_TEST(output_options)
{
    write_good();
    REFUSED(2, "--scores needs a stage and a file", "run " FILES " --scores raw");
    REFUSED(2, "--scores needs a stage and a file", "run " FILES " --scores raw,");
    REFUSED(2, "not 'rare'", "run " FILES " --scores rare,s.npy");
    REFUSED(2, "--batch does nothing without --plot", "run " FILES " --batch 1");
    REFUSED(2, "--method fused", "run " FILES " --method fused --weights w.npy");
    REFUSED(2, "--method fused", "run " FILES " --method fused --plot w.png");
    REFUSED(2, "--method fused", "run " FILES " --method fused --scores raw,s.npy");
    REFUSED(2, "--average does nothing without --weights", "run " FILES " --average");
    REFUSED(2, "--average leaves no heads for --plot",
            "run " FILES " --average --weights w.npy --plot w.png");
    REFUSED(2, "-o and --lse name the same file", "run " FILES " --lse y.npy");
    REFUSED(2, "name the same file", "run " FILES " --lse ./y.npy");
    REFUSED(2, "--weights and --scores name the same file",
            "run " FILES " --weights a.npy --scores raw,a.npy");
    /* Through a link, and for a file that exists. */
    write_array("old.npy", "<f4", SHAPE(1), VALUES(0));
    remove("link.npy");
    ck_assert(symlink("old.npy", "link.npy") == 0);
    REFUSED(2, "--lse and --plot name the same file",
            "run " FILES " --lse old.npy --plot link.npy");
}
END_TEST

START_TEST(results_do_not_replace_inputs)
{
    write_good();
    REFUSED(2, "-o is 'q.npy', the file of --q: a result must not replace an input",
            "run --q q.npy --k k.npy --v v.npy -o q.npy");
    REFUSED(2, "--lse is './v.npy', the file of --v", "run " FILES " --lse ./v.npy");
    REFUSED(2, "--weights is 'k.npy', the file of --k", "run " FILES " --weights k.npy");
    REFUSED(2, "--scores is 'm.npy', the file of --mask",
            "run " FILES " --mask m.npy --scores raw,m.npy");
    REFUSED(2, "--plot is 'l.npy', the file of --kv-lens",
            "run " FILES " --kv-lens l.npy --plot l.npy");
    REFUSED(2, "the file of --past-v", "run " FILES " --past-k a.npy --past-v b.npy --lse b.npy");
    REFUSED(2, "the file of --alibi", "run " FILES " --alibi a.npy --lse a.npy");
    REFUSED(2, "the file of --sinks", "run " FILES " --sinks a.npy --lse a.npy");
    remove("to_q.npy");
    ck_assert(symlink("q.npy", "to_q.npy") == 0);
    REFUSED(2, "-o is 'to_q.npy', the file of --q",
            "run --q q.npy --k k.npy --v v.npy -o to_q.npy");
}
END_TEST

START_TEST(files_that_are_no_arrays)
{
    write_good();
    REFUSED(1, "missing.npy", "run --q missing.npy --k k.npy --v v.npy -o y.npy");
    REFUSED(1, "'.'", "run --q q.npy --k . --v v.npy -o y.npy");
    FILE *file = fopen("text.npy", "wb");
    ck_assert(file && fputs("this is no array", file) >= 0 && fclose(file) == 0);
    REFUSED(1, "text.npy", "run --q text.npy --k k.npy --v v.npy -o y.npy");
    REFUSED(1, "text.npy", "run " FILES " --mask text.npy");
    REFUSED(1, "text.npy", "run " FILES " --sinks text.npy");
    REFUSED(1, "text.npy", "run " FILES " --kv-lens text.npy");
    REFUSED(1, "text.npy", "run " FILES " --alibi text.npy");
    REFUSED(1, "text.npy", "run " FILES " --past-k text.npy --past-v v.npy");
    REFUSED(1, "stdout.txt", "run --q q.npy --k stdout.txt --v v.npy -o y.npy"); /* empty */
}
END_TEST

START_TEST(shapes_of_rank_4)
{
    write_good();
    write_array("k.npy", "<f4", SHAPE(2, 2, 7, 4), VALUES(1));
    REFUSED(1, "k.npy has shape (2, 2, 7, 4), but must be (B, HKV, NK, DK) = (2, any, any, 5)",
            "run " FILES);
    write_array("k.npy", "<f4", SHAPE(3, 2, 7, 5), VALUES(1));
    REFUSED(1, "k.npy has shape (3, 2, 7, 5)", "run " FILES);
    write_array("k.npy", "<f4", SHAPE(2, 2, 8, 5), VALUES(1));
    REFUSED(1, "v.npy has shape (2, 2, 7, 6), but must be (B, HKV, NK, DV) = (2, 2, 8, any)",
            "run " FILES);
    write_array("k.npy", "<f4", SHAPE(2, 7, 10), VALUES(1));
    REFUSED(1, "k.npy has shape (2, 7, 10)", "run " FILES);
    write_good();
    write_array("k.npy", "<f4", SHAPE(2, 3, 7, 5), VALUES(1));
    write_array("v.npy", "<f4", SHAPE(2, 3, 7, 6), VALUES(1));
    REFUSED(1, "HKV", "run " FILES);
    write_good();
    REFUSED(1, "--heads is 3, but q.npy has 4 heads", "run " FILES " --heads 3");
    REFUSED(1, "--kv-heads is 4, but k.npy has 2 heads", "run " FILES " --heads 4 --kv-heads 4");
    write_array("q.npy", "<f4", SHAPE(2, 4), VALUES(0));
    REFUSED(1, "q.npy has rank 2", "run " FILES);
    write_array("q.npy", "<f4", SHAPE(2, 4, 3, 5, 1), VALUES(0));
    REFUSED(1, "q.npy has rank 5", "run " FILES);
    write_array("q.npy", "<f4", SHAPE(2, 0, 3, 5), VALUES(0));
    REFUSED(1, "H", "run " FILES);
}
END_TEST

START_TEST(shapes_of_rank_3)
{
    write_good_rank_3();
    REFUSED(2, "q.npy has rank 3, (B, NQ, H*DK), which needs --heads", "run " FILES);
    REFUSED(1, "q.npy has rows of 20 elements, which 3 heads do not divide",
            "run " FILES " --heads 3");
    REFUSED(1, "k.npy has shape (2, 7, 10), but must be (B, NK, HKV*DK) = (2, any, 20)",
            "run " FILES " --heads 4");
    REFUSED(1, "far too large", "run " FILES " --heads 4 --kv-heads 9223372036854775807");
    write_array("v.npy", "<f4", SHAPE(2, 7, 13), VALUES(2));
    REFUSED(1, "v.npy has rows of 13 elements, which 2 heads do not divide",
            "run " FILES " --heads 4 --kv-heads 2");
    write_array("v.npy", "<f4", SHAPE(2, 6, 12), VALUES(2));
    REFUSED(1, "v.npy has shape (2, 6, 12)", "run " FILES " --heads 4 --kv-heads 2");
}
END_TEST

START_TEST(past_that_does_not_fit)
{
    write_good();
    write_array("pk.npy", "<f4", SHAPE(2, 2, 3, 5), VALUES(1));
    write_array("pv.npy", "<f4", SHAPE(2, 2, 4, 6), VALUES(1));
    REFUSED(1, "pv.npy has shape (2, 2, 4, 6), but must be (B, HKV, NP, DV) = (2, 2, 3, 6)",
            "run " FILES " --past-k pk.npy --past-v pv.npy");
    write_array("pk.npy", "<f4", SHAPE(2, 4, 4, 5), VALUES(1));
    REFUSED(1, "pk.npy has shape (2, 4, 4, 5)", "run " FILES " --past-k pk.npy --past-v pv.npy");
}
END_TEST

START_TEST(types_that_are_not_wanted)
{
    write_good();
    write_array("q.npy", "<i4", SHAPE(2, 4, 3, 5), VALUES(0));
    REFUSED(1, "q.npy holds i32, but must hold floats", "run " FILES);
    write_good();
    write_array("m.npy", "<i4", SHAPE(7), VALUES(1));
    REFUSED(1, "m.npy holds i32; a mask must hold b1", "run " FILES " --mask m.npy");
    write_array("m.npy", "<i8", SHAPE(7), VALUES(1));
    REFUSED(1, "m.npy holds i64; a mask must hold b1", "run " FILES " --mask m.npy");
    write_array("m.npy", "|u1", SHAPE(7), VALUES(1));
    REFUSED(1, "m.npy holds u8; a mask must hold b1", "run " FILES " --mask m.npy");
    write_array("b.npy", "|b1", SHAPE(7), VALUES(1));
    REFUSED(1, "b.npy holds bool, but must hold floats", "run " FILES " --bias b.npy");
    write_array("m.npy", "<f4", SHAPE(7), VALUES(1));
    write_array("b.npy", "<f4", SHAPE(7), VALUES(1));
    REFUSED(1, "m.npy holds f32; beside --bias a mask must hold b1",
            "run " FILES " --mask m.npy --bias b.npy");
    write_array("l.npy", "<f4", SHAPE(2), VALUES(1));
    REFUSED(1, "l.npy holds f32; key lengths must be i4 or i8", "run " FILES " --kv-lens l.npy");
    write_array("s.npy", "<i4", SHAPE(4), VALUES(1));
    REFUSED(1, "s.npy holds i32, but must hold floats", "run " FILES " --sinks s.npy");
    REFUSED(1, "s.npy holds i32, but must hold floats", "run " FILES " --alibi s.npy");
}
END_TEST

START_TEST(extras_that_do_not_fit)
{
    write_good();
    write_array("m.npy", "|b1", SHAPE(3, 6), VALUES(1));
    REFUSED(1, "m.npy: ", "run " FILES " --mask m.npy");
    write_array("m.npy", "|b1", SHAPE(0), VALUES(1));
    REFUSED(1, "m.npy: ", "run " FILES " --mask m.npy");
    write_array("m.npy", "<f4", SHAPE(1, 2, 4, 3, 7), VALUES(1));
    REFUSED(1, "m.npy: ", "run " FILES " --mask m.npy");
    write_array("l.npy", "<i4", SHAPE(2), VALUES(7, 8));
    REFUSED(1, "l.npy says 8 keys for batch entry 1, but must say 0 to 7",
            "run " FILES " --kv-lens l.npy");
    write_array("l.npy", "<i8", SHAPE(2), VALUES(-1, 7));
    REFUSED(1, "l.npy says -1 keys for batch entry 0", "run " FILES " --kv-lens l.npy");
    write_array("l.npy", "<i8", SHAPE(3), VALUES(1));
    REFUSED(1, "l.npy has shape (3,), but must be (B,) = (2,) here",
            "run " FILES " --kv-lens l.npy");
    write_array("s.npy", "<f4", SHAPE(2), VALUES(1));
    REFUSED(1, "s.npy has shape (2,), but must be (H,) = (4,) here", "run " FILES " --sinks s.npy");
    REFUSED(1, "s.npy has shape (2,), but must be (H,) = (4,) here", "run " FILES " --alibi s.npy");
}
END_TEST

START_TEST(places_that_cannot_be_written)
{
    write_good();
    REFUSED(1, "no_such_folder/l.npy", "run " FILES " --lse no_such_folder/l.npy");
    ASSERT_REFUSES(1, "no_such_folder/y.npy",
                   "run --q q.npy --k k.npy --v v.npy -o no_such_folder/y.npy");
    ASSERT_REFUSES(1, "'.'", "run --q q.npy --k k.npy --v v.npy -o .");
    /* The files of one call appear together or not at all. */
    remove("l.npy");
    REFUSED(1, "no_such_folder/p.png", "run " FILES " --lse l.npy --plot no_such_folder/p.png");
    ck_assert_int_ne(access("l.npy", F_OK), 0);
    remove("pipe.npy"); /* of an earlier run */
    ck_assert_int_eq(mkfifo("pipe.npy", 0600), 0);
    ASSERT_REFUSES(1, "pipe.npy", "run --q q.npy --k k.npy --v v.npy -o pipe.npy");
}
END_TEST

START_TEST(device_that_is_not_there)
{
    write_good();
    REFUSED(1, "none", "run " FILES " --device none");
}
END_TEST

static Suite *refuses_suite(void)
{
    Suite *suite = suite_create("run_refuses");
    TCase *refusals = tcase_create("refusals");

    tcase_set_timeout(refusals, 120);
    tcase_add_test(refusals, good_files_are_good);
    tcase_add_test(refusals, command_lines);
    tcase_add_test(refusals, output_options);
    tcase_add_test(refusals, results_do_not_replace_inputs);
    tcase_add_test(refusals, files_that_are_no_arrays);
    tcase_add_test(refusals, shapes_of_rank_4);
    tcase_add_test(refusals, shapes_of_rank_3);
    tcase_add_test(refusals, past_that_does_not_fit);
    tcase_add_test(refusals, types_that_are_not_wanted);
    tcase_add_test(refusals, extras_that_do_not_fit);
    tcase_add_test(refusals, places_that_cannot_be_written);
    tcase_add_test(refusals, device_that_is_not_there);
    suite_add_tcase(suite, refusals);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(refuses_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
