/* The option parser: values, refusals with their sentences on stderr, and the --help text. */
#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "report.h"

enum { MAXIMUM_ARGUMENTS = 16 };

/* What the table below fills; set to recognisable values before each parse. */
static const char *query, *output;
static int64_t heads, window[2], causal;
static double scale, cap;
static bool json, window_given;
static int method;

static const char *const methods[] = {"auto", "fused", "staged", NULL};

static const struct mha_option options[] = {
    {.kind = MHA_OPTION_HEADING, .help = "Input:"},
    {.kind = MHA_OPTION_STRING,
     .name = "q",
     .target = &query,
     .value_name = "FILE",
     .required = true,
     .help = "Queries, of shape (B,H,NQ,DK) or (B,NQ,H*DK); the second one "
             "needs --heads, too, since nothing else tells heads apart."},
    {.kind = MHA_OPTION_STRING,
     .name = "output",
     .letter = 'o',
     .target = &output,
     .value_name = "FILE",
     .help = "Where the result goes."},
    {.kind = MHA_OPTION_INT64,
     .name = "heads",
     .target = &heads,
     .minimum = 1,
     .maximum = 1024,
     .help = "Number of heads."},
    {.kind = MHA_OPTION_HEADING, .help = "What is computed:"},
    {.kind = MHA_OPTION_INT64, .name = "causal", .target = &causal, .help = "Offset."},
    {.kind = MHA_OPTION_INT64_PAIR,
     .name = "window",
     .target = window,
     .value_name = "LEFT,RIGHT",
     .given = &window_given,
     .minimum = -1,
     .maximum = INT64_MAX,
     .help = "Sliding window.\n-1 is no limit."},
    {.kind = MHA_OPTION_DOUBLE, .name = "scale", .target = &scale, .help = "Factor."},
    {.kind = MHA_OPTION_DOUBLE,
     .name = "cap",
     .target = &cap,
     .allow_nonfinite = true,
     .help = "Cap."},
    {.kind = MHA_OPTION_CHOICE,
     .name = "method",
     .target = &method,
     .choices = methods,
     .help = "How."},
    {.kind = MHA_OPTION_FLAG, .name = "json", .target = &json, .help = "Print JSON."},
};

static struct mha_command_line line;
static char *arguments[MAXIMUM_ARGUMENTS];
static int operand_count;
static char captured[8192]; /* stdout and stderr of the last parse */

static void reset(void)
{
    query = output = NULL;
    heads = causal = window[0] = window[1] = 77;
    scale = cap = 77;
    json = window_given = false;
    method = 77;
    line = (struct mha_command_line){.command = "gpu-mha try",
                                     .summary = "Tries the parser.",
                                     .operands = "DIR...",
                                     .options = options,
                                     .option_count = sizeof options / sizeof options[0],
                                     .epilogue = "That is all."};
}

/* Parses a line whose words are separated by single blanks ("" is written as ~). */
static enum mha_options_result parse(const char *words)
{
    static char copy[512];
    int count = 0;
    FILE *file = tmpfile();
    int kept_output = dup(STDOUT_FILENO), kept_error = dup(STDERR_FILENO);

    ck_assert_ptr_nonnull(file);
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        ck_assert_int_lt(count, MAXIMUM_ARGUMENTS);
        if (strcmp(word, "~") == 0) {
            *word = '\0';
        }
        arguments[count++] = word;
    }
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    enum mha_options_result result = mha_options_parse(&line, count, arguments, &operand_count);
    fflush(stdout);
    dup2(kept_output, STDOUT_FILENO);
    dup2(kept_error, STDERR_FILENO);
    close(kept_output);
    close(kept_error);
    rewind(file);
    captured[fread(captured, 1, sizeof captured - 1, file)] = '\0';
    fclose(file);
    return result;
}

static void expect_ok(const char *words)
{
    reset();
    ck_assert_msg(parse(words) == MHA_OPTIONS_OK, "'%s' refused: %s", words, captured);
    ck_assert_str_eq(captured, "");
}

START_TEST(takes_values_in_both_forms)
{
    expect_ok("--q a.npy -o b.npy --heads 12 --causal -3 --window -1,0 --scale -0.5e-1 "
              "--method staged --json");
    ck_assert_str_eq(query, "a.npy");
    ck_assert_str_eq(output, "b.npy");
    ck_assert_int_eq(heads, 12);
    ck_assert_int_eq(causal, -3);
    ck_assert_int_eq(window[0], -1);
    ck_assert_int_eq(window[1], 0);
    ck_assert(window_given);
    ck_assert_double_eq(scale, -0.05);
    ck_assert_int_eq(method, 2);
    ck_assert(json);
    ck_assert_int_eq(operand_count, 0);

    expect_ok("--q=--odd=name -o=b --heads=1024 --causal=+7 --window=5,9223372036854775807 "
              "--cap=-inf --method=auto");
    ck_assert_str_eq(query, "--odd=name");
    ck_assert_str_eq(output, "b");
    ck_assert_int_eq(heads, 1024);
    ck_assert_int_eq(causal, 7);
    ck_assert_int_eq(window[0], 5);
    ck_assert_int_eq(window[1], INT64_MAX);
    ck_assert_double_eq(cap, -INFINITY);
    ck_assert_int_eq(method, 0);
}
END_TEST

START_TEST(leaves_targets_of_absent_options_alone)
{
    expect_ok("--q a");
    ck_assert_ptr_null(output);
    ck_assert_int_eq(heads, 77);
    ck_assert_int_eq(window[1], 77);
    ck_assert(!window_given);
    ck_assert_int_eq(method, 77);
}
END_TEST

START_TEST(collects_operands_in_order)
{
    expect_ok("one --q a - two -- --json -o");
    ck_assert_int_eq(operand_count, 5);
    ck_assert_str_eq(arguments[0], "one");
    ck_assert_str_eq(arguments[1], "-");
    ck_assert_str_eq(arguments[2], "two");
    ck_assert_str_eq(arguments[3], "--json");
    ck_assert_str_eq(arguments[4], "-o");
    ck_assert(!json);
}
END_TEST

static const struct {
    const char *words, *sentence; /* without "gpu-mha: " and the pointer to --help */
} refusals[] = {
    {"", "--q is needed"},
    {"--q", "--q needs a value"},
    {"--q --json", "--q needs a value"},
    {"--q -o", "--q needs a value"},
    {"--q -h", "--q needs a value"},
    {"--q a -o --", "--output needs a value"},
    {"--q ~", "--q needs a value that is not empty"},
    {"--q=", "--q needs a value that is not empty"},
    {"--q a --q b", "--q is given twice; once is needed"},
    {"--q a -o b --output=c", "--output is given twice; once is needed"},
    {"--q a --json --json", "--json is given twice; once is needed"},
    {"--q a --json=yes", "--json takes no value"},
    {"--q a --winow 1,2", "unknown option '--winow'; did you mean '--window'?"},
    {"--q a --windwo=1,2", "unknown option '--windwo'; did you mean '--window'?"},
    {"--q a --out b", "unknown option '--out'; did you mean '--output'?"},
    {"--q a --hepl", "unknown option '--hepl'; did you mean '--help'?"},
    {"--q a --Q b", "unknown option '--Q'"},
    {"--q a --sliding-doors", "unknown option '--sliding-doors'"},
    {"--q a -heads 3", "unknown option '-heads'; did you mean '--heads'?"},
    {"--q a -x", "unknown option '-x'"},
    {"--q a -3", "unknown option '-3'"},
    {"--q a --=b", "unknown option '--'"},
    {"--q a -=b", "unknown option '-'"},
    {"--q a --heads 0", "--heads needs a whole number from 1 to 1024, not '0'"},
    {"--q a --heads 1025", "--heads needs a whole number from 1 to 1024, not '1025'"},
    {"--q a --heads 3x", "--heads needs a whole number from 1 to 1024, not '3x'"},
    {"--q a --heads ~", "--heads needs a whole number from 1 to 1024, not ''"},
    {"--q a --heads 0x3", "--heads needs a whole number from 1 to 1024, not '0x3'"},
    {"--q a --heads 3.0", "--heads needs a whole number from 1 to 1024, not '3.0'"},
    {"--q a --causal 9223372036854775808",
     "--causal needs a whole number, not '9223372036854775808'"},
    {"--q a --causal \t3", "--causal needs a whole number, not '\t3'"},
    {"--q a --causal +-3", "--causal needs a whole number, not '+-3'"},
    {"--q a --window 1", "--window needs two whole numbers A,B of -1 or more, not '1'"},
    {"--q a --window 1,2,3", "--window needs two whole numbers A,B of -1 or more, not '1,2,3'"},
    {"--q a --window ,2", "--window needs two whole numbers A,B of -1 or more, not ',2'"},
    {"--q a --window 1,-2", "--window needs two whole numbers A,B of -1 or more, not '1,-2'"},
    {"--q a --scale nan", "--scale needs a finite number, not 'nan'"},
    {"--q a --scale -inf", "--scale needs a finite number, not '-inf'"},
    {"--q a --scale 1e999", "--scale needs a finite number, not '1e999'"},
    {"--q a --scale 1..2", "--scale needs a finite number, not '1..2'"},
    {"--q a --scale 0x1p3", "--scale needs a finite number, not '0x1p3'"},
    {"--q a --scale -", "--scale needs a finite number, not '-'"},
    {"--q a --scale e", "--scale needs a finite number, not 'e'"},
    {"--q a --cap nan(1)", "--cap needs a number, not 'nan(1)'"},
    {"--q a --method fast", "--method needs auto, fused or staged, not 'fast'"},
    {"--q a --method auto,", "--method needs auto, fused or staged, not 'auto,'"},
};

START_TEST(refuses_with_one_sentence)
{
    char expected[256];

    reset();
    ck_assert_int_eq(parse(refusals[_i].words), MHA_OPTIONS_USAGE);
    snprintf(expected, sizeof expected, "gpu-mha: %s (see 'gpu-mha try --help')\n",
             refusals[_i].sentence);
    ck_assert_str_eq(captured, expected);
    ck_assert_int_eq(operand_count, 0);
}
END_TEST

START_TEST(checks_the_number_of_operands)
{
    reset();
    line.operands_minimum = 2;
    ck_assert_int_eq(parse("--q a one"), MHA_OPTIONS_USAGE);
    ck_assert_str_eq(captured, "gpu-mha: DIR... is needed (see 'gpu-mha try --help')\n");
    ck_assert_int_eq(parse("--q a one two"), MHA_OPTIONS_OK);
    reset();
    line.operands = NULL;
    ck_assert_int_eq(parse("--q a one"), MHA_OPTIONS_USAGE);
    ck_assert_str_eq(captured, "gpu-mha: unexpected argument 'one' (see 'gpu-mha try --help')\n");
}
END_TEST

START_TEST(hides_control_characters_of_arguments)
{
    reset();
    ck_assert_int_eq(parse("--q a -\033[2J"), MHA_OPTIONS_USAGE);
    ck_assert_ptr_nonnull(strstr(captured, "unknown option '-\\x1B[2J'"));
}
END_TEST

START_TEST(prints_help)
{
    static const char expected[] =
        "Usage: gpu-mha try --q FILE [options] DIR...\n"
        "\n"
        "Tries the parser.\n"
        "\n"
        "Input:\n"
        "      --q FILE                Queries, of shape (B,H,NQ,DK) or (B,NQ,H*DK); the\n"
        "                              second one needs --heads, too, since nothing else\n"
        "                              tells heads apart.\n"
        "  -o, --output FILE           Where the result goes.\n"
        "      --heads N               Number of heads.\n"
        "\n"
        "What is computed:\n"
        "      --causal N              Offset.\n"
        "      --window LEFT,RIGHT     Sliding window.\n"
        "                              -1 is no limit.\n"
        "      --scale X               Factor.\n"
        "      --cap X                 Cap.\n"
        "      --method auto|fused|staged\n"
        "                              How.\n"
        "      --json                  Print JSON.\n"
        "  -h, --help                  Print this text.\n"
        "\n"
        "That is all.\n";

    reset();
    ck_assert_int_eq(parse("--heads 3 --help --nonsense"), MHA_OPTIONS_HELP);
    ck_assert_str_eq(captured, expected);
    ck_assert_int_eq(parse("-h"), MHA_OPTIONS_HELP);
    ck_assert_str_eq(captured, expected);
}
END_TEST

START_TEST(keeps_help_within_80_columns)
{
    static struct mha_option many[12];
    static char names[12][32], text[400];

    reset();
    for (size_t i = 0; i < sizeof text - 1; i++) {
        text[i] = i % 2 ? ' ' : 'x'; /* a blank at every second column, the 81st too */
    }
    for (int i = 0; i < 12; i++) {
        snprintf(names[i], sizeof names[i], "required-%d", i);
        many[i] = (struct mha_option){.kind = MHA_OPTION_STRING,
                                      .name = names[i],
                                      .target = &query,
                                      .required = true,
                                      .help = text};
    }
    line.options = many;
    line.option_count = 12;
    line.summary = line.epilogue = text;
    ck_assert_int_eq(parse("--help"), MHA_OPTIONS_HELP);
    for (char *at = captured; *at;) {
        size_t length = strcspn(at, "\n");
        ck_assert_uint_le(length, 80);
        at += length + (at[length] == '\n');
    }
}
END_TEST

START_TEST(finds_the_nearest_word)
{
    static const char *const words[] = {"info", "run", "verify", "demo"};

    ck_assert_str_eq(mha_options_nearest("vrify", words, 4), "verify");
    ck_assert_str_eq(mha_options_nearest("rnu", words, 4), "run");
    ck_assert_str_eq(mha_options_nearest("ver", words, 4), "verify");
    ck_assert_str_eq(mha_options_nearest("demos", words, 4), "demo");
    ck_assert_ptr_null(mha_options_nearest("x", words, 4));
    ck_assert_ptr_null(mha_options_nearest("", words, 4));
    ck_assert_ptr_null(mha_options_nearest("benchmark", words, 4));
    ck_assert_ptr_null(mha_options_nearest(
        "a-word-that-is-much-longer-than-any-option-could-sensibly-be", words, 4));
}
END_TEST

static Suite *options_suite(void)
{
    Suite *suite = suite_create("options");
    TCase *parsing = tcase_create("parsing"), *help = tcase_create("help");

    tcase_add_test(parsing, takes_values_in_both_forms);
    tcase_add_test(parsing, leaves_targets_of_absent_options_alone);
    tcase_add_test(parsing, collects_operands_in_order);
    tcase_add_loop_test(parsing, refuses_with_one_sentence, 0,
                        sizeof refusals / sizeof refusals[0]);
    tcase_add_test(parsing, checks_the_number_of_operands);
    tcase_add_test(parsing, hides_control_characters_of_arguments);
    suite_add_tcase(suite, parsing);

    tcase_add_test(help, prints_help);
    tcase_add_test(help, keeps_help_within_80_columns);
    tcase_add_test(help, finds_the_nearest_word);
    suite_add_tcase(suite, help);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(options_suite());

    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
