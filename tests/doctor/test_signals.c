/*
 * test_signals.c - gpu-mha doctor while a driver hangs: a signal ends it and what it has started,
 * and what was found before stays.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness/assertions.h"

/* Between two looks at what another process does; how many before it counts as never. */
static const struct timespec pause_between_looks = {0, 5000000};
enum { LOOKS = 12000 };

/* Starts "gpu-mha doctor ARGUMENTS" whose driver hangs in the kernel of rotary; `ignored` or 0. */
static pid_t start(const char *only, int ignored)
{
    unlink("hanging.txt");
    pid_t pid = fork();
    if (pid == 0) {
        int out = open("out.txt", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out, STDOUT_FILENO);
        setenv("GPU_MHA_CACHE_DIR", "cache", 1);
        setenv("LD_PRELOAD", MHA_SICK_DRIVER, 1);
        setenv("MHA_SICK", "hang rotary", 1);
        setenv("MHA_SICK_FILE", "hanging.txt", 1);
        if (ignored) {
            signal(ignored, SIG_IGN);
        }
        execl(MHA_TEST_COMMAND, "gpu-mha", "doctor", "--only", only, (char *)NULL);
        _exit(127);
    }
    ck_assert_int_gt(pid, 0);
    return pid;
}

/* The process that hangs and the one that it has started. */
static void wait_until_it_hangs(pid_t pid, long processes[2])
{
    FILE *file = NULL;
    for (int look = 0; !file && look < LOOKS; look++) {
        ck_assert_msg(waitpid(pid, NULL, WNOHANG) == 0, "the doctor ended before the driver hung");
        nanosleep(&pause_between_looks, NULL);
        file = fopen("hanging.txt", "r");
    }
    ck_assert_msg(file != NULL, "the driver never hung");
    ck_assert_int_eq(fscanf(file, "%ld %ld", &processes[0], &processes[1]), 2);
    fclose(file);
}

/* A zombie whose parent does not care has ended too. */
static int has_ended(long process)
{
    char path[64], state = 'X';
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) {
            state = 'X';
        }
        fclose(file);
    }
    return state == 'X' || state == 'Z';
}

static void wait_for_end(long process)
{
    for (int look = 0; look < LOOKS && !has_ended(process); look++) {
        nanosleep(&pause_between_looks, NULL);
    }
    ck_assert_msg(has_ended(process), "process %ld is left", process);
}

/* What "gpu-mha doctor --list" says of a variant. */
static void expect_kept(const char *line)
{
    char text[8192] = "";
    FILE *list = popen("GPU_MHA_CACHE_DIR=cache '" MHA_TEST_COMMAND "' doctor --list", "r");
    ck_assert(list != NULL);
    ck_assert(fread(text, 1, sizeof text - 1, list) > 0);
    ck_assert_int_eq(pclose(list), 0);
    ck_assert_msg(strstr(text, line) != NULL, "'%s' is not in: %s", line, text);
}

static void forget(void)
{
    ck_assert_int_eq(system("GPU_MHA_CACHE_DIR=cache '" MHA_TEST_COMMAND "' doctor --forget"), 0);
}

static void setup(void)
{
    forget();
}

static const int endings[] = {SIGINT, SIGTERM, SIGHUP};

START_TEST(a_signal_ends_it_and_what_it_started)
{
    long processes[2];
    int status;
    pid_t pid = start("merge;rotary", 0);
    wait_until_it_hangs(pid, processes);
    ck_assert_int_eq(kill(pid, endings[_i]), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == endings[_i], "status %x", status);
    wait_for_end(processes[0]);
    wait_for_end(processes[1]);
    expect_kept("merge                             f32 ok  f16 ok  bf16 ok");
    expect_kept("rotary                            f32 not tried");
    ck_assert_int_eq(system("grep -q 'ended early, the rest was not tried' out.txt"), 0);
}
END_TEST

/* As under nohup. */
START_TEST(a_signal_that_was_ignored_stays_so)
{
    long processes[2];
    int status;
    pid_t pid = start("rotary", SIGHUP);
    wait_until_it_hangs(pid, processes);
    kill(pid, SIGHUP);
    kill(pid, SIGTERM);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "status %x", status);
    wait_for_end(processes[0]);
}
END_TEST

/* What the driver has started by itself may outlive that; its own process does not. */
START_TEST(the_process_goes_with_a_doctor_that_is_killed)
{
    long processes[2];
    int status;
    pid_t pid = start("rotary", 0);
    wait_until_it_hangs(pid, processes);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    wait_for_end(processes[0]);
    kill((pid_t)processes[1], SIGKILL);
    wait_for_end(processes[1]);
}
END_TEST

/* Stopped and continued, it goes on to wait; nothing is taken for hung in between. */
START_TEST(it_can_be_stopped_and_continued)
{
    long processes[2];
    int status;
    pid_t pid = start("rotary", 0);
    wait_until_it_hangs(pid, processes);
    kill(pid, SIGSTOP);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status));
    kill(pid, SIGCONT);
    kill(pid, SIGINT);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "status %x", status);
    wait_for_end(processes[0]);
    expect_kept("rotary                            f32 not tried");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("signals");
    TCase *tcase = tcase_create("signals");
    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_loop_test(tcase, a_signal_ends_it_and_what_it_started, 0, 3);
    tcase_add_test(tcase, a_signal_that_was_ignored_stays_so);
    tcase_add_test(tcase, the_process_goes_with_a_doctor_that_is_killed);
    tcase_add_test(tcase, it_can_be_stopped_and_continued);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
