/*
 * test_core.c - sizes that saturate, strings that grow, errors per thread, log lines by level.
 */
#include "core/error.h"
#include "core/log.h"
#include "core/size.h"
#include "core/strbuf.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE INT64_MAX

START_TEST(sizes_add_and_multiply)
{
    ck_assert_int_eq(mha_size_add(7, 5), 12);
    ck_assert_int_eq(mha_size_add(LARGE - 6, 5), LARGE - 1);
    ck_assert_int_eq(mha_size_mul(7, 5), 35);
    ck_assert_int_eq(mha_size_mul(0, 5), 0);
    ck_assert_int_eq(mha_size_mul(5, 0), 0);
    ck_assert_int_eq(mha_size_mul(INT64_C(3037000499), INT64_C(3037000499)),
                     INT64_C(9223372030926249001));
    ck_assert_int_eq(mha_size_ceil_div(0, 3), 0);
    ck_assert_int_eq(mha_size_ceil_div(6, 3), 2);
    ck_assert_int_eq(mha_size_ceil_div(7, 3), 3);
    ck_assert_int_eq(mha_size_ceil_div(LARGE - 1, 1), LARGE - 1);
    ck_assert_int_eq(mha_size_round_up(0, 32), 0);
    ck_assert_int_eq(mha_size_round_up(64, 32), 64);
    ck_assert_int_eq(mha_size_round_up(65, 32), 96);
    ck_assert_int_eq(mha_size_round_up(13, 1), 13);
}
END_TEST

START_TEST(too_large_stays_too_large)
{
    ck_assert_int_eq(mha_size_add(LARGE - 5, 6), LARGE);
    ck_assert_int_eq(mha_size_add(LARGE, LARGE), LARGE);
    ck_assert_int_eq(mha_size_mul(INT64_C(1) << 32, INT64_C(1) << 31), LARGE);
    ck_assert_int_eq(mha_size_mul(INT64_C(1) << 62, INT64_C(1) << 62), LARGE);
    ck_assert_int_eq(mha_size_mul(LARGE, 1), LARGE);
    ck_assert_int_eq(mha_size_mul(2, LARGE), LARGE);
    ck_assert_int_eq(mha_size_mul(-1, 0), LARGE);
    ck_assert_int_eq(mha_size_mul(0, -1), LARGE);
    ck_assert_int_eq(mha_size_add(-1, 3), LARGE);
    ck_assert_int_eq(mha_size_mul(3, -1), LARGE);
    ck_assert_int_eq(mha_size_ceil_div(LARGE, 7), LARGE);
    ck_assert_int_eq(mha_size_round_up(LARGE, 7), LARGE);
    ck_assert_int_eq(mha_size_round_up(LARGE - 1, 32), LARGE);
    ck_assert(mha_size_fits(0));
    ck_assert(mha_size_fits(4096));
    ck_assert(!mha_size_fits(LARGE));
    ck_assert(!mha_size_fits(-1));
}
END_TEST

START_TEST(nothing_of_something_huge_is_nothing)
{
    const int64_t length = INT64_C(1) << 40;
    ck_assert_int_eq(mha_size_mul(mha_size_mul(length, length), 0), 0);
    ck_assert_int_eq(mha_size_mul(0, mha_size_mul(length, length)), 0);
    ck_assert_int_eq(mha_size_mul(mha_size_mul(length, 0), length), 0);
    /* What was added to it is not forgotten. */
    ck_assert_int_eq(mha_size_add(mha_size_mul(LARGE, 0), LARGE), LARGE);
}
END_TEST

START_TEST(a_string_grows)
{
    struct mha_strbuf s = {0};
    ck_assert_str_eq(mha_strbuf_text(&s), "");
    mha_strbuf_append(&s, "", 0);
    ck_assert_str_eq(mha_strbuf_text(&s), "");
    char want[3 * 500 + 1];
    for (int i = 0; i < 500; i++) {
        snprintf(want + 3 * i, 4, "%03d", i);
        if (i % 2) {
            mha_strbuf_printf(&s, "%03d", i);
        } else {
            mha_strbuf_append(&s, want + 3 * i, 3);
        }
    }
    ck_assert(mha_strbuf_ok(&s));
    ck_assert_uint_eq(s.length, 1500);
    ck_assert_str_eq(mha_strbuf_text(&s), want);
    mha_strbuf_free(&s);
    ck_assert_str_eq(mha_strbuf_text(&s), "");
}
END_TEST

START_TEST(a_string_at_each_length_has_its_nul)
{
    for (size_t length = 0; length < 200; length++) {
        struct mha_strbuf s = {0};
        for (size_t i = 0; i < length; i++) {
            mha_strbuf_append(&s, "x", 1);
        }
        mha_strbuf_printf(&s, "%s", "yz");
        ck_assert_uint_eq(s.length, length + 2);
        ck_assert_uint_eq(strlen(s.text), length + 2);
        ck_assert_str_eq(s.text + length, "yz");
        mha_strbuf_free(&s);
    }
}
END_TEST

START_TEST(a_string_that_cannot_grow_fails_for_good)
{
    struct mha_strbuf s = {0};
    mha_strbuf_append(&s, "kept", 4);
    /* Refused before anything is read. */
    mha_strbuf_append(&s, "x", SIZE_MAX - 1);
    ck_assert(!mha_strbuf_ok(&s));
    mha_strbuf_append(&s, "y", 1);
    mha_strbuf_printf(&s, "%d", 1);
    ck_assert(!mha_strbuf_ok(&s));
    ck_assert_str_eq(mha_strbuf_text(&s), "kept");
    mha_strbuf_free(&s);
}
END_TEST

START_TEST(statuses_have_names_and_texts)
{
    ck_assert_str_eq(gpu_mha_status_name(GPU_MHA_OK), "GPU_MHA_OK");
    ck_assert_str_eq(gpu_mha_status_name(GPU_MHA_DEVICE_MEMORY), "GPU_MHA_DEVICE_MEMORY");
    ck_assert_str_eq(gpu_mha_status_text(GPU_MHA_INVALID), "invalid argument");
    ck_assert_str_eq(gpu_mha_status_text((gpu_mha_status)10), "unknown status");
    ck_assert_str_eq(gpu_mha_status_text((gpu_mha_status)-1), "unknown status");
    ck_assert_str_eq(gpu_mha_status_name((gpu_mha_status)4711), "unknown status");
    int major = -1, minor = -1, patch = -1;
    ck_assert_int_eq(sscanf(gpu_mha_version(), "%d.%d.%d", &major, &minor, &patch), 3);
    ck_assert_int_eq(major, GPU_MHA_VERSION_MAJOR);
    ck_assert_int_eq(minor, GPU_MHA_VERSION_MINOR);
    ck_assert_int_eq(patch, GPU_MHA_VERSION_PATCH);
}
END_TEST

START_TEST(nothing_failed_yet)
{
    gpu_mha_error error = gpu_mha_last_error_info();
    ck_assert_int_eq(error.status, GPU_MHA_OK);
    ck_assert_str_eq(error.message, "");
    ck_assert_int_eq(error.cl_code, CL_SUCCESS);
    ck_assert_str_eq(error.cl_call, "");
    ck_assert_str_eq(error.build_log, "");
}
END_TEST

START_TEST(an_error_replaces_all_of_the_one_before)
{
    ck_assert_int_eq(mha_error_build(CL_BUILD_PROGRAM_FAILURE, "some.cl", "1:2: error: no such\nx"),
                     GPU_MHA_BUILD);
    gpu_mha_error error = gpu_mha_last_error_info();
    ck_assert_int_eq(error.status, GPU_MHA_BUILD);
    ck_assert_str_eq(error.message, "clBuildProgram failed: CL_BUILD_PROGRAM_FAILURE (-11): "
                                    "kernel source some.cl: 1:2: error: no such");
    ck_assert_int_eq(error.cl_code, CL_BUILD_PROGRAM_FAILURE);
    ck_assert_str_eq(error.cl_call, "clBuildProgram");
    ck_assert_str_eq(error.build_log, "1:2: error: no such\nx");

    ck_assert_int_eq(mha_error_cl(CL_INVALID_VALUE, "clFinish", "queue %d", 3), GPU_MHA_OPENCL);
    error = gpu_mha_last_error_info();
    ck_assert_int_eq(error.status, GPU_MHA_OPENCL);
    ck_assert_str_eq(error.message, "clFinish failed: CL_INVALID_VALUE (-30): queue 3");
    ck_assert_int_eq(error.cl_code, CL_INVALID_VALUE);
    ck_assert_str_eq(error.cl_call, "clFinish");
    ck_assert_str_eq(error.build_log, "");

    ck_assert_int_eq(mha_error_set(GPU_MHA_INVALID, "H is %d, must be > 0", -2), GPU_MHA_INVALID);
    error = gpu_mha_last_error_info();
    ck_assert_int_eq(error.status, GPU_MHA_INVALID);
    ck_assert_str_eq(gpu_mha_last_error(), "H is -2, must be > 0");
    ck_assert_int_eq(error.cl_code, CL_SUCCESS);
    ck_assert_str_eq(error.cl_call, "");

    /* The old message may be part of the new one. */
    mha_error_set(GPU_MHA_INVALID, "file x: %s", gpu_mha_last_error());
    ck_assert_str_eq(gpu_mha_last_error(), "file x: H is -2, must be > 0");
}
END_TEST

/* And its message is for the one who tries. */
START_TEST(an_attempt_leaves_the_last_error)
{
    mha_error_build(CL_BUILD_PROGRAM_FAILURE, "some.cl", "a log");
    char before[256];
    snprintf(before, sizeof before, "%s", gpu_mha_last_error());
    mha_error_attempt();
    ck_assert_str_eq(mha_error_attempt_end(), "");
    mha_error_attempt();
    ck_assert_int_eq(mha_error_set(GPU_MHA_INVALID, "first"), GPU_MHA_INVALID);
    ck_assert_int_eq(mha_error_build(CL_BUILD_PROGRAM_FAILURE, "other.cl", "another log"),
                     GPU_MHA_BUILD);
    ck_assert_str_eq(gpu_mha_last_error(), before);
    mha_error_attempt();
    mha_error_set(GPU_MHA_INVALID, "inside");
    ck_assert_str_eq(mha_error_attempt_end(), "inside");
    ck_assert_str_eq(gpu_mha_last_error(), before);
    mha_error_build(CL_BUILD_PROGRAM_FAILURE, "other.cl", "another log");
    ck_assert_ptr_nonnull(strstr(mha_error_attempt_end(), "other.cl: another log"));
    ck_assert_str_eq(gpu_mha_last_error(), before);
    ck_assert_str_eq(gpu_mha_last_error_info().build_log, "a log");
    mha_error_set(GPU_MHA_INVALID, "counts again");
    ck_assert_str_eq(gpu_mha_last_error(), "counts again");
}
END_TEST

START_TEST(attempts_hold_others_and_may_fail)
{
    mha_error_set(GPU_MHA_INVALID, "before");
    mha_error_attempt();
    mha_error_attempt();
    mha_error_set(GPU_MHA_UNSUPPORTED, "inner");
    ck_assert_str_eq(mha_error_attempt_end(), "inner");
    mha_error_set(GPU_MHA_UNSUPPORTED, "outer");
    ck_assert_str_eq(gpu_mha_last_error(), "before");
    ck_assert_str_eq(mha_error_attempt_end(), "outer");
    ck_assert_str_eq(gpu_mha_last_error(), "before");
    mha_error_attempt();
    mha_error_cl(CL_OUT_OF_RESOURCES, "clCreateBuffer", "7 bytes");
    ck_assert_int_eq(mha_error_attempt_failed(), GPU_MHA_DEVICE_MEMORY);
    ck_assert_ptr_nonnull(strstr(gpu_mha_last_error(), "7 bytes"));
    ck_assert_int_eq(gpu_mha_last_error_info().cl_code, CL_OUT_OF_RESOURCES);
    ck_assert_str_eq(gpu_mha_last_error_info().cl_call, "clCreateBuffer");
}
END_TEST

static const struct {
    const char *log, *quoted;
} build_logs[] = {
    {"", ""},
    {"\n\n", ""},
    {"note\nline 2", ": note"},
    {"warning: a\r\nx:1: error: b\r\nc", ": x:1: error: b"},
    {"\n\nonly", ": only"},
};

START_TEST(a_build_error_quotes_its_log)
{
    char want[200];
    snprintf(want, sizeof want,
             "clBuildProgram failed: CL_BUILD_PROGRAM_FAILURE (-11): kernel source f.cl%s",
             build_logs[_i].quoted);
    mha_error_build(CL_BUILD_PROGRAM_FAILURE, "f.cl", build_logs[_i].log);
    ck_assert_str_eq(gpu_mha_last_error(), want);
    ck_assert_str_eq(gpu_mha_last_error_info().build_log, build_logs[_i].log);
}
END_TEST

START_TEST(memory_codes_have_their_own_status)
{
    ck_assert_int_eq(mha_error_cl(CL_OUT_OF_HOST_MEMORY, "c", "x"), GPU_MHA_HOST_MEMORY);
    ck_assert_int_eq(mha_error_cl(CL_OUT_OF_RESOURCES, "c", "x"), GPU_MHA_DEVICE_MEMORY);
    ck_assert_int_eq(mha_error_cl(CL_MEM_OBJECT_ALLOCATION_FAILURE, "c", "x"),
                     GPU_MHA_DEVICE_MEMORY);
    ck_assert_int_eq(mha_error_cl(-9999, "c", "x"), GPU_MHA_OPENCL);
    ck_assert_str_eq(gpu_mha_last_error(), "c failed: unknown OpenCL code (-9999): x");
    ck_assert_int_eq(mha_error_blas(-1020, "CLBlastSgemm"), GPU_MHA_BLAS);
    ck_assert_str_eq(gpu_mha_last_error(), "CLBlastSgemm failed with CLBlast status -1020");
    ck_assert_int_eq(gpu_mha_last_error_info().cl_code, -1020);
    ck_assert_int_eq(mha_error_blas(CL_INVALID_KERNEL_ARGS, "CLBlastSgemm"), GPU_MHA_BLAS);
    ck_assert_str_eq(gpu_mha_last_error(),
                     "CLBlastSgemm failed with CLBlast status -52 (CL_INVALID_KERNEL_ARGS)");
    ck_assert_str_eq(mha_error_cl_name(-1001), "CL_PLATFORM_NOT_FOUND_KHR");
}
END_TEST

/* A message holds 1023 bytes; a longer one ends in "..." and never within a UTF-8 character. */
START_TEST(a_long_message_is_cut)
{
    char text[1100];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    mha_error_set(GPU_MHA_INVALID, "%.1023s", text);
    ck_assert_uint_eq(strlen(gpu_mha_last_error()), 1023);
    ck_assert_str_eq(gpu_mha_last_error() + 1020, "aaa");
    mha_error_set(GPU_MHA_INVALID, "%.1024s", text);
    ck_assert_uint_eq(strlen(gpu_mha_last_error()), 1023);
    ck_assert_str_eq(gpu_mha_last_error() + 1019, "a...");
    mha_error_cl(CL_INVALID_VALUE, "clFinish", "%s", text);
    ck_assert_uint_eq(strlen(gpu_mha_last_error()), 1023);
    ck_assert_str_eq(gpu_mha_last_error() + 1019, "a...");

    /* The euro sign takes 3 bytes, of which the cut at 1020 would leave 2. */
    memcpy(text + 1018, "\xE2\x82\xAC", 3);
    mha_error_set(GPU_MHA_INVALID, "%s", text);
    ck_assert_uint_eq(strlen(gpu_mha_last_error()), 1021);
    ck_assert_str_eq(gpu_mha_last_error() + 1016, "aa...");
}
END_TEST

/* What a caller or a driver wrote can neither break a sentence nor steer a terminal. */
START_TEST(a_message_is_one_line)
{
    mha_error_set(GPU_MHA_INVALID, "name is \"%s\"", "a\nb\x1b[31m\x7f\t\xC3\xA4");
    ck_assert_str_eq(gpu_mha_last_error(), "name is \"a b [31m  \xC3\xA4\"");
    mha_error_cl(CL_INVALID_VALUE, "clFinish", "%s", "x\ry");
    ck_assert_str_eq(gpu_mha_last_error(), "clFinish failed: CL_INVALID_VALUE (-30): x y");
}
END_TEST

static void *fail_in_thread(void *seen)
{
    strcpy(seen, gpu_mha_last_error());
    mha_error_build(CL_BUILD_PROGRAM_FAILURE, "thread.cl", "log of the thread");
    if (strcmp(gpu_mha_last_error_info().build_log, "log of the thread") != 0) {
        return NULL;
    }
    return seen;
}

/* A leak of the thread's build log shows under LeakSanitizer. */
START_TEST(errors_belong_to_their_thread)
{
    mha_error_build(CL_BUILD_PROGRAM_FAILURE, "main.cl", "log of main");
    char seen[1024] = "x";
    pthread_t thread;
    void *result = NULL;
    ck_assert_int_eq(pthread_create(&thread, NULL, fail_in_thread, seen), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, seen);
    ck_assert_str_eq(seen, "");
    ck_assert_str_eq(gpu_mha_last_error_info().build_log, "log of main");
}
END_TEST

struct sink {
    int lines;
    char last[4096];
};

static void collect(void *user, const char *level, const char *line)
{
    struct sink *sink = user;
    sink->lines++;
    snprintf(sink->last, sizeof sink->last, "%s|%s", level, line);
}

/* The level is read once in a process; each test here is a process of its own. */
static const struct {
    const char *wanted;
    int shown; /* of error, warn, info, debug, how many */
} log_levels[] = {
    {NULL, 2}, {"", 2}, {"off", 0}, {"error", 1}, {"warn", 2}, {"info", 3}, {"debug", 4},
};

START_TEST(the_environment_sets_the_level)
{
    struct sink sink = {0};
    gpu_mha_set_log(collect, &sink);
    unsetenv("GPU_MHA_LOG");
    if (log_levels[_i].wanted) {
        setenv("GPU_MHA_LOG", log_levels[_i].wanted, 1);
    }
    for (int level = MHA_LOG_ERROR; level <= MHA_LOG_DEBUG; level++) {
        int before = sink.lines;
        mha_log((enum mha_log_level)level, "do this: %d", level);
        ck_assert_int_eq(sink.lines - before, level <= log_levels[_i].shown);
        ck_assert_int_eq(mha_log_shows((enum mha_log_level)level), level <= log_levels[_i].shown);
    }
}
END_TEST

START_TEST(an_unknown_level_is_a_warning)
{
    struct sink sink = {0};
    gpu_mha_set_log(collect, &sink);
    setenv("GPU_MHA_LOG", "loud", 1);
    ck_assert(mha_log_shows(MHA_LOG_WARN));
    ck_assert(!mha_log_shows(MHA_LOG_INFO));
    ck_assert_int_eq(sink.lines, 1);
    ck_assert_str_eq(sink.last, "warn|read GPU_MHA_LOG: \"loud\", must be off, error, warn, info "
                                "or debug; using warn");
}
END_TEST

START_TEST(lines_go_to_the_function_that_is_set)
{
    struct sink first = {0}, second = {0};
    unsetenv("GPU_MHA_LOG");
    gpu_mha_set_log(collect, &first);
    mha_log(MHA_LOG_ERROR, "one %s", "line");
    ck_assert_str_eq(first.last, "error|one line");
    gpu_mha_set_log(collect, &second);
    char text[3000];
    memset(text, 'b', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    mha_log(MHA_LOG_WARN, "%s", text);
    ck_assert_int_eq(first.lines, 1);
    ck_assert_int_eq(second.lines, 1);
    ck_assert_uint_eq(strlen(second.last), 5 + 2047);
    ck_assert_str_eq(second.last + 5 + 2043, "b...");
}
END_TEST

START_TEST(a_line_is_one)
{
    struct sink sink = {0};
    unsetenv("GPU_MHA_LOG");
    gpu_mha_set_log(collect, &sink);
    mha_log(MHA_LOG_WARN, "pass over %s", "a\nb\x1b[31m\x7f");
    ck_assert_int_eq(sink.lines, 1);
    ck_assert_str_eq(sink.last, "warn|pass over a b [31m ");
}
END_TEST

START_TEST(lines_go_to_stderr_by_default)
{
    struct sink sink = {0};
    unsetenv("GPU_MHA_LOG");
    gpu_mha_set_log(collect, &sink);
    gpu_mha_set_log(NULL, NULL);
    ck_assert_ptr_nonnull(freopen("stderr.txt", "w+", stderr));
    mha_log(MHA_LOG_WARN, "skip this: %d", 5);
    rewind(stderr);
    char line[100] = "";
    ck_assert_ptr_nonnull(fgets(line, sizeof line, stderr));
    ck_assert_str_eq(line, "gpu_mha: warn: skip this: 5\n");
    ck_assert_int_eq(sink.lines, 0);
}
END_TEST

static Suite *core_suite(void)
{
    const int levels = (int)(sizeof log_levels / sizeof log_levels[0]);
    const int logs = (int)(sizeof build_logs / sizeof build_logs[0]);
    Suite *suite = suite_create("core");
    TCase *size = tcase_create("size");
    TCase *string = tcase_create("string");
    TCase *error = tcase_create("error");
    TCase *log = tcase_create("log");

    tcase_add_test(size, sizes_add_and_multiply);
    tcase_add_test(size, too_large_stays_too_large);
    tcase_add_test(size, nothing_of_something_huge_is_nothing);
    suite_add_tcase(suite, size);

    tcase_add_test(string, a_string_grows);
    tcase_add_test(string, a_string_at_each_length_has_its_nul);
    tcase_add_test(string, a_string_that_cannot_grow_fails_for_good);
    suite_add_tcase(suite, string);

    tcase_add_test(error, statuses_have_names_and_texts);
    tcase_add_test(error, nothing_failed_yet);
    tcase_add_test(error, an_error_replaces_all_of_the_one_before);
    tcase_add_test(error, an_attempt_leaves_the_last_error);
    tcase_add_test(error, attempts_hold_others_and_may_fail);
    tcase_add_loop_test(error, a_build_error_quotes_its_log, 0, logs);
    tcase_add_test(error, memory_codes_have_their_own_status);
    tcase_add_test(error, a_long_message_is_cut);
    tcase_add_test(error, a_message_is_one_line);
    tcase_add_test(error, errors_belong_to_their_thread);
    suite_add_tcase(suite, error);

    tcase_add_loop_test(log, the_environment_sets_the_level, 0, levels);
    tcase_add_test(log, an_unknown_level_is_a_warning);
    tcase_add_test(log, lines_go_to_the_function_that_is_set);
    tcase_add_test(log, a_line_is_one);
    tcase_add_test(log, lines_go_to_stderr_by_default);
    suite_add_tcase(suite, log);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(core_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
