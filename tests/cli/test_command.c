/*
 * gpu-mha without a job: help, version, unknown commands; and gpu-mha info.
 */
#include "command_fixture.h"

#include <gpu_mha/version.h>

START_TEST(help_goes_to_stdout)
{
    static const char *const ways[] = {"--help", "-h", "help"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct outcome outcome = run_command("%s", ways[i]);
        ck_assert_int_eq(outcome.code, 0);
        ck_assert_str_eq(outcome.err, "");
        ASSERT_CONTAINS(outcome.out, "Usage: gpu-mha COMMAND");
        ASSERT_CONTAINS(outcome.out, "\n  info ");
        ASSERT_CONTAINS(outcome.out, "\n  run ");
    }
}
END_TEST

START_TEST(each_command_has_help)
{
    static const char *const commands[] = {"info", "run", "verify", "bench", "tune", "demo"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char usage[64];
        snprintf(usage, sizeof usage, "Usage: gpu-mha %s", commands[i]);
        struct outcome by_option = run_command("%s --help", commands[i]);
        ck_assert_int_eq(by_option.code, 0);
        ASSERT_CONTAINS(by_option.out, usage);
        struct outcome by_command = run_command("help %s", commands[i]);
        ck_assert_int_eq(by_command.code, 0);
        ck_assert_str_eq(by_command.out, by_option.out);
    }
}
END_TEST

START_TEST(run_help_names_every_option)
{
    static const char *const options[] = {
        "--q",       "--k",      "--v",        "-o, --output", "--mask",         "--causal",
        "--window",  "--scale",  "--alibi",    "--softcap",    "--sinks",        "--kv-lens",
        "--past-k",  "--past-v", "--heads",    "--lse",        "--weights",      "--scores",
        "--plot",    "--method", "--kv-heads", "--dtype",      "--json",         "--device",
        "--offset",  "--batch",  "--bias",     "--dropout",    "--dropout-seed", "--output-dtype",
        "--average", "--expect"};
    struct outcome outcome = run_command("run --help");
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        ASSERT_CONTAINS(outcome.out, options[i]);
    }
}
END_TEST

START_TEST(version_is_the_librarys)
{
    struct outcome outcome = run_command("--version");
    ck_assert_int_eq(outcome.code, 0);
    ck_assert_str_eq(outcome.out, "gpu-mha " GPU_MHA_VERSION_STRING "\n");
}
END_TEST

START_TEST(wrong_commands_are_usage_errors)
{
    struct outcome outcome = run_command(" ");
    ck_assert_int_eq(outcome.code, 2);
    ck_assert_str_eq(outcome.out, "");
    ASSERT_CONTAINS(outcome.err, "Usage: gpu-mha COMMAND");
    ASSERT_REFUSES(2, "there is no command 'ran'; did you mean 'run'?", "ran");
    ASSERT_REFUSES(2, "there is no command 'frobnicate'", "frobnicate");
    ASSERT_REFUSES(2, "there is no command ''", "''");
    ASSERT_REFUSES(2, "there is no option '--json' before the command", "--json info");
    ASSERT_REFUSES(2, "there is no command 'frobnicate'", "help frobnicate");
    ASSERT_REFUSES(2, "help takes one command", "help run info");
    ASSERT_REFUSES(2, "extra", "info extra");
    ASSERT_REFUSES(2, "unknown option '--jsno'; did you mean '--json'?", "info --jsno");
}
END_TEST

/* An argument cannot drive the terminal. */
START_TEST(control_characters_are_shown)
{
    ASSERT_REFUSES(2, "'a\\x1Bb'", "\"$(printf 'a\\033b')\"");
}
END_TEST

START_TEST(info_lists_the_devices)
{
    struct outcome outcome = run_command("info");
    ck_assert_int_eq(outcome.code, 0);
    ck_assert_str_eq(outcome.err, "");
    ASSERT_CONTAINS(outcome.out, "gpu_mha " GPU_MHA_VERSION_STRING "\n");
    ASSERT_CONTAINS(outcome.out, "\nPlatform 0: ");
    ASSERT_CONTAINS(outcome.out, "0:0");
    ASSERT_CONTAINS(outcome.out, "runs every operation on f32, f16 and bf16");
    ASSERT_CONTAINS(outcome.out, "\n* ");
}
END_TEST

/* A wrong value in the environment does not pass in silence, and is told once. */
START_TEST(info_tells_of_a_wrong_environment)
{
    static const struct {
        const char *name, *value, *said;
    } wrong[] = {
        {"GPU_MHA_LOG", "loud",
         "read GPU_MHA_LOG: \"loud\", must be off, error, warn, info or debug"},
        {"GPU_MHA_DEVICE", "nowhere", "read GPU_MHA_DEVICE: \"nowhere\", must fit a usable device"},
        {"GPU_MHA_TILE", "1,2,3", "GPU_MHA_TILE is \"1,2,3\": it must be MQ,VEC,NV,TB"},
        {"GPU_MHA_CACHE_DIR", "/dev/null/x", "read GPU_MHA_CACHE_DIR: \"/dev/null/x\", must be a"},
    };
    unsetenv("GPU_MHA_CACHE_DIR");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert(setenv(wrong[i].name, wrong[i].value, 1) == 0);
        struct outcome outcome = run_command("%s", i % 2 == 0 ? "info" : "info --json");
        ck_assert(unsetenv(wrong[i].name) == 0);
        ck_assert_int_eq(outcome.code, 0);
        ASSERT_CONTAINS(outcome.err, wrong[i].said);
        const char *first = strstr(outcome.err, wrong[i].said);
        ck_assert_msg(strstr(first + 1, wrong[i].said) == NULL, "told twice: %s", outcome.err);
    }
}
END_TEST

START_TEST(info_prints_json)
{
    struct outcome outcome = run_command("info --json");
    ck_assert_int_eq(outcome.code, 0);
    ck_assert_int_eq(outcome.out[0], '{');
    ASSERT_CONTAINS(outcome.out, "\"version\": \"" GPU_MHA_VERSION_STRING "\"");
    ASSERT_CONTAINS(outcome.out, "\"selector\": \"0:0\"");
    ASSERT_CONTAINS(outcome.out, "\"usable\": true");
    ASSERT_CONTAINS(outcome.out, "\"default\": true");
}
END_TEST

/* Output that is lost is a failure. */
START_TEST(full_disk_is_noticed)
{
    if (access("/dev/full", W_OK) != 0) {
        return;
    }
    struct outcome outcome = run_command("--help >/dev/full");
    ck_assert_int_eq(outcome.code, 1);
    ASSERT_CONTAINS(outcome.err, "standard output could not be written");
    outcome = run_command("info --json >/dev/full");
    ck_assert_int_eq(outcome.code, 1);
}
END_TEST

static Suite *command_suite(void)
{
    Suite *suite = suite_create("command");
    TCase *plain = tcase_create("plain");

    tcase_set_timeout(plain, 60);
    tcase_add_test(plain, help_goes_to_stdout);
    tcase_add_test(plain, each_command_has_help);
    tcase_add_test(plain, run_help_names_every_option);
    tcase_add_test(plain, version_is_the_librarys);
    tcase_add_test(plain, wrong_commands_are_usage_errors);
    tcase_add_test(plain, control_characters_are_shown);
    tcase_add_test(plain, info_lists_the_devices);
    tcase_add_test(plain, info_tells_of_a_wrong_environment);
    tcase_add_test(plain, info_prints_json);
    tcase_add_test(plain, full_disk_is_noticed);
    suite_add_tcase(suite, plain);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(command_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
