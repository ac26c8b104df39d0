/*
 * test_command.c - the command under the same failures: it ends with 1 and a sentence that has the
 * code, or with 0 and the right answer; it leaves nothing alive and no half a file.
 *
 * Most runs are calls of a subcommand's function in this process, which shows its allocations too;
 * some are real processes, steered by the environment. Jansson's own allocations do not fail:
 * version 2.14 ends the process by an assertion of its own when it has no memory for a string.
 */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "drive.h"
#include "heap.h"

enum { WORDS_MAX = 24, TEXT_MAX = 1 << 16 };

enum { OUTPUT_COUNT = 2 * 3 * 4 };

/* `words` begins with the subcommand. */
static const struct command {
    enum mha_exit (*run)(int argc, char **argv);
    const char *words[WORDS_MAX];
    int sparse;    /* takes so long that not every N is tried */
    int gives_way; /* what fails may be left out of the answer, which says so */
    int same_text; /* its answer is the same every time */
    int writes;    /* output.npy */
    int slow;      /* some seconds a run: only with MHA_FAULT_ALL, but for the heap */
} commands[] = {
    {.run = mha_cmd_info, .words = {"info"}, .same_text = 1, .gives_way = 1},
    {.run = mha_cmd_info, .words = {"info", "--json"}, .same_text = 1, .gives_way = 1},
    {.run = mha_cmd_run,
     .words = {"run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--output", "output.npy",
               "--lse", "lse.npy", "--json"},
     .writes = 1},
    {.run = mha_cmd_verify,
     .words = {"verify", MHA_TEST_DATA_DIR "/onnx/attention_3d",
               MHA_TEST_DATA_DIR "/onnx/rotary_embedding",
               MHA_TEST_DATA_DIR "/onnx/tensorscatter"}},
    {.run = mha_cmd_demo, .words = {"demo"}, .sparse = 1, .slow = 1},
    {.run = mha_cmd_tune,
     .words = {"tune", "--shape", "1,2,1,2,6,4", "--seconds", "1e-9", "--dry-run", "--json"},
     .sparse = 1,
     .gives_way = 1,
     .slow = 1},
    {.run = mha_cmd_bench,
     .words = {"bench", "--shape", "1,2,1,4,4,8", "--seconds", "0.001", "--no-start", "--json"},
     .sparse = 2,
     .slow = 1},
};
#define COMMANDS (int)(sizeof commands / sizeof commands[0])

/* MHA_FAULT_SCENARIO has the name of the only subcommand to run. */
static int is_wanted(const struct command *command)
{
    const char *wanted = getenv("MHA_FAULT_SCENARIO");
    return !wanted || strcmp(wanted, command->words[0]) == 0;
}

static int is_wanted_now(const struct command *command)
{
    return is_wanted(command) &&
           (!command->slow || getenv("MHA_FAULT_ALL") || getenv("MHA_FAULT_SCENARIO"));
}

/* ---- the work folder ---- */

static const char *const inputs[] = {"q.npy", "k.npy", "v.npy"};

/* float32 of shape (1, 2, N, 4): zeros, or n + 1. */
static void write_npy(const char *path, int rows, int counts)
{
    char header[256];
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    snprintf(header, sizeof header,
             "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, %d, 4), }", rows);
    /* Magic, version and length are 10 bytes; with the header they fill 128. */
    fprintf(file, "\x93NUMPY%c%c%c%c%-117s\n", 1, 0, 118, 0, header);
    for (int i = 0; i < 2 * rows * 4; i++) {
        const float value = counts ? (float)(i / 4 % rows + 1) : 0;
        ck_assert_int_eq((int)fwrite(&value, sizeof value, 1, file), 1);
    }
    ck_assert_int_eq(fclose(file), 0);
}

static void write_inputs(void)
{
    write_npy("q.npy", 3, 0);
    write_npy("k.npy", 5, 1);
    write_npy("v.npy", 5, 1);
}

/* Of zeros for queries every key weighs the same: the mean of 1 .. 5. */
static void check_output(void)
{
    float values[OUTPUT_COUNT];
    FILE *file = fopen("output.npy", "rb");
    if (!file) {
        complain("a success wrote no output.npy");
        return;
    }
    if (fseek(file, 128, SEEK_SET) != 0 ||
        fread(values, sizeof *values, OUTPUT_COUNT, file) != OUTPUT_COUNT) {
        complain("output.npy is too short");
    } else {
        for (int i = 0; i < OUTPUT_COUNT; i++) {
            expect_near("output.npy", i, (double)values[i], 3);
        }
    }
    fclose(file);
}

static int is_expected(const char *name)
{
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        if (strcmp(name, inputs[i]) == 0) {
            return 1;
        }
    }
    return strcmp(name, "out.txt") == 0 || strcmp(name, "err.txt") == 0 ||
           strcmp(name, "report.txt") == 0;
}

/*
 * Removes what a run left, and complains about each file but `allowed` ones: results. A temporary
 * file, which is half a result, never is.
 */
static void sweep(int allowed)
{
    DIR *stream = opendir(".");
    ck_assert_ptr_nonnull(stream);
    for (const struct dirent *entry; (entry = readdir(stream));) {
        if (entry->d_name[0] == '.' && (!entry->d_name[1] || !strcmp(entry->d_name, ".."))) {
            continue;
        }
        if (!is_expected(entry->d_name)) {
            const int is_output = strcmp(entry->d_name, "output.npy") == 0 ||
                                  strcmp(entry->d_name, "lse.npy") == 0 ||
                                  strcmp(entry->d_name, "attention.png") == 0;
            if (!(allowed && is_output)) {
                complain("%s is left behind", entry->d_name);
            }
            unlink(entry->d_name);
        }
    }
    closedir(stream);
}

static void read_text(const char *path, char *text)
{
    FILE *file = fopen(path, "rb");
    size_t length = file ? fread(text, 1, TEXT_MAX - 1, file) : 0;
    text[length] = '\0';
    if (file) {
        fclose(file);
    }
}

/* ---- a run in this process ---- */

static char out[TEXT_MAX], err[TEXT_MAX], usual[TEXT_MAX];

/* Points a stream's descriptor at a file; returns a copy of what it was. */
static int redirect(int descriptor, const char *path)
{
    const int copy = dup(descriptor);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert(copy >= 0 && file >= 0 && dup2(file, descriptor) == descriptor);
    close(file);
    return copy;
}

static void restore(int descriptor, int copy)
{
    ck_assert_int_eq(dup2(copy, descriptor), descriptor);
    close(copy);
}

/*
 * The layer is armed by the caller, the heap here: Check allocates as well. Allocation number `nth`
 * fails, if not 0, and all after it if `ever`.
 */
static int run_here(const struct command *command, int nth, int ever)
{
    static char copies[WORDS_MAX][256];
    char *arguments[WORDS_MAX + 1] = {NULL};
    int count = 0;
    for (int w = 1; command->words[w]; w++) {
        snprintf(copies[count], sizeof copies[count], "%s", command->words[w]);
        arguments[count] = copies[count];
        count++;
    }
    fflush(stdout);
    const int old_out = redirect(STDOUT_FILENO, "out.txt");
    const int old_err = redirect(STDERR_FILENO, "err.txt");
    heap_arm(nth, ever);
    const int code = (int)command->run(count, arguments);
    heap_disarm();
    fault_layer_disarm();
    fflush(stdout);
    restore(STDOUT_FILENO, old_out);
    restore(STDERR_FILENO, old_err);
    read_text("out.txt", out);
    read_text("err.txt", err);
    return code;
}

static void name_of(const struct command *command, char *name, size_t size)
{
    size_t length = 0;
    for (int w = 0; command->words[w] && length < size; w++) {
        const char *slash = strrchr(command->words[w], '/');
        length += (size_t)snprintf(name + length, size - length, "%s%s", w ? " " : "",
                                   slash ? slash + 1 : command->words[w]);
    }
}

/* The number of the code stands in what the person sees. */
static int tells(cl_int code)
{
    char number[16];
    snprintf(number, sizeof number, "%d", (int)code);
    return strstr(err, number) || strstr(out, number);
}

/* Names that only people read may be empty where a driver does not tell them, or no memory is left.
 */
static int texts_may_lack;

/* What holds whatever failed. */
static void check_run(const struct command *command, int code)
{
    if (code != MHA_EXIT_OK && code != MHA_EXIT_FAILED) {
        complain("the exit code is %d", code);
    }
    if (code == MHA_EXIT_FAILED && !strstr(err, "gpu-mha: ") && !strstr(out, "FAIL")) {
        complain("it fails without a sentence: %s", err);
    }
    if (code == MHA_EXIT_OK && command->writes) {
        check_output();
    }
    if (code == MHA_EXIT_OK && command->same_text && !texts_may_lack && strcmp(out, usual) != 0 &&
        !err[0] && !strstr(out, "failed")) {
        complain("it succeeds with another answer and no word of why:\n%s", out);
    }
    sweep(code == MHA_EXIT_OK);
}

static int lacks_texts(enum fault_call call)
{
    return call == FAULT_clGetPlatformInfo || call == FAULT_clGetDeviceInfo;
}

static void run_again(const struct command *command)
{
    texts_may_lack = 0;
    const int code = run_here(command, 0, 0);
    check_run(command, code);
    if (code != MHA_EXIT_OK) {
        complain("the next run ends with %d: %s", code, err);
    }
}

static int next_n(const struct command *command, int n)
{
    return command->sparse == 2 ? 16 * n : command->sparse ? 4 * n : n + 1;
}

static void must_have_layer(void)
{
    size_t devices;
    must(gpu_mha_device_count(&devices));
    ck_assert_msg(fault_layer_is_in(), "the loader has not taken the layer");
}

static void begin(const struct command *command, char *name, size_t size)
{
    must_have_layer();
    write_inputs();
    name_of(command, name, size);
    trying("%s: without a failure", name);
    ck_assert_int_eq(run_here(command, 0, 0), MHA_EXIT_OK);
    memcpy(usual, out, sizeof usual);
    sweep(1);
}

START_TEST(a_call_of_the_command_fails)
{
    const struct command *command = &commands[_i];
    char name[256];
    if (!is_wanted_now(command)) {
        return;
    }
    begin(command, name, sizeof name);
    for (int call = 0; call < FAULT_CALL_COUNT; call++) {
        int count, failed = 1;
        const cl_int *codes = fault_call_codes((enum fault_call)call, &count);
        for (int n = 1; failed; n = next_n(command, n)) {
            const cl_int wanted = codes[n % count];
            const enum fault_mode mode = n / count % 2 ? FAULT_EVER : FAULT_ONCE;
            const struct account before = account_take();
            trying("%s: %s number %d gives %d", name, fault_call_name((enum fault_call)call), n,
                   (int)wanted);
            texts_may_lack = lacks_texts((enum fault_call)call);
            fault_layer_arm((enum fault_call)call, n, wanted, mode);
            const int code = run_here(command, 0, 0);
            failed = fault_layer_failed();
            check_run(command, code);
            if (failed && code == MHA_EXIT_OK && !command->gives_way &&
                !drive_may_fail_unseen((enum fault_call)call, mode)) {
                complain("it succeeds");
            }
            if (code == MHA_EXIT_FAILED && !tells(wanted)) {
                complain("the code is not told: %s", err);
            }
            account_compare(&before);
        }
        run_again(command);
    }
    no_complaints();
}
END_TEST

START_TEST(an_allocation_of_the_command_fails)
{
    const struct command *command = &commands[_i];
    char name[256];
    if (!is_wanted(command)) {
        return;
    }
    begin(command, name, sizeof name);
    int failed = 1;
    for (int n = 1; failed; n = next_n(command, n)) {
        for (int ever = 0; ever <= 1; ever++) {
            const struct account before = account_take();
            trying("%s: allocation %d fails %s", name, n, ever ? "and all after it" : "alone");
            fault_layer_arm(FAULT_clFinish, 0, CL_SUCCESS, FAULT_ONCE);
            texts_may_lack = 1;
            const int code = run_here(command, n, ever);
            failed = heap_failed();
            check_run(command, code);
            if (code == MHA_EXIT_FAILED && !strstr(err, "memory") && !strstr(err, "MEMORY") &&
                !strstr(out, "memory")) {
                complain("memory is not told: %s", err);
            }
            account_compare(&before);
        }
    }
    run_again(command);
    no_complaints();
}
END_TEST

/* ---- processes ---- */

static int number_in_report(const char *report, const char *word)
{
    const char *at = strstr(report, word);
    return at ? atoi(at + strlen(word)) : -1;
}

/* The exit code; `fault` is MHA_FAULT, or NULL. */
static int run_process(const struct command *command, const char *fault, char *report)
{
    unlink("report.txt");
    fflush(stdout);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        char *words[WORDS_MAX + 2] = {(char *)(uintptr_t)(const void *)MHA_TEST_COMMAND};
        for (int w = 0; command->words[w]; w++) {
            words[w + 1] = (char *)(uintptr_t)(const void *)command->words[w];
        }
        setenv("MHA_FAULT_REPORT", "report.txt", 1);
        if (fault) {
            setenv("MHA_FAULT", fault, 1);
        }
        redirect(STDOUT_FILENO, "out.txt");
        redirect(STDERR_FILENO, "err.txt");
        execv(words[0], words);
        _exit(127);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    read_text("out.txt", out);
    read_text("err.txt", err);
    read_text("report.txt", report);
    if (!WIFEXITED(status)) {
        complain("it dies by signal %d", WTERMSIG(status));
        return MHA_EXIT_FAILED;
    }
    return WEXITSTATUS(status);
}

static void check_report(const char *report)
{
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        char word[64];
        snprintf(word, sizeof word, "live %s ", fault_kind_name((enum fault_kind)kind));
        if (number_in_report(report, word) != 0) {
            complain("at its end %d %s are alive", number_in_report(report, word),
                     fault_kind_name((enum fault_kind)kind));
        }
    }
    const char *misuse = strstr(report, "misuse ");
    if (!misuse || misuse[strlen("misuse ")] != '\n') {
        complain("its report says: %s", misuse ? misuse : "nothing");
    }
}

/* The first call of each entry point that it uses, and all after it. */
START_TEST(a_process_meets_a_failure)
{
    const struct command *command = &commands[_i];
    static char report[TEXT_MAX], first[TEXT_MAX];
    char name[256], word[64], fault[96];
    if (!is_wanted_now(command)) {
        return;
    }
    write_inputs();
    name_of(command, name, sizeof name);
    trying("process %s: without a failure", name);
    /* The first may build and keep binaries; what the next one calls, all call. */
    for (int run = 0; run < 2; run++) {
        ck_assert_msg(run_process(command, NULL, first) == MHA_EXIT_OK, "%s", err);
        check_report(first);
    }
    memcpy(usual, out, sizeof usual);
    sweep(1);
    for (int call = 0; call < FAULT_CALL_COUNT; call++) {
        int count;
        const cl_int *codes = fault_call_codes((enum fault_call)call, &count);
        const cl_int code = codes[call % count];
        snprintf(word, sizeof word, "calls %s ", fault_call_name((enum fault_call)call));
        if (number_in_report(first, word) < 1) {
            continue;
        }
        snprintf(fault, sizeof fault, "%s 1 %d ever", fault_call_name((enum fault_call)call),
                 (int)code);
        trying("process %s: %s", name, fault);
        texts_may_lack = lacks_texts((enum fault_call)call);
        const int ended = run_process(command, fault, report);
        check_run(command, ended);
        check_report(report);
        if (number_in_report(report, "failed ") < 1) {
            complain("nothing failed");
        }
        if (ended == MHA_EXIT_OK && !command->gives_way &&
            !drive_may_fail_unseen((enum fault_call)call, FAULT_EVER)) {
            complain("it succeeds");
        }
        if (ended == MHA_EXIT_FAILED && !tells(code)) {
            complain("the code is not told: %s", err);
        }
    }
    no_complaints();
}
END_TEST

static void add_case(Suite *suite, const char *name, const TTest *test, int count)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, test, 0, count);
    suite_add_tcase(suite, tcase);
}

/* Of its own: what lies in it and is not expected is removed. */
static char folder[] = "command-XXXXXX";

static void enter_folder(void)
{
    if (!mkdtemp(folder) || chdir(folder) != 0) {
        perror("the work folder");
        exit(EXIT_FAILURE);
    }
}

static void leave_folder(void)
{
    static const char *const left[] = {"q.npy",   "k.npy",   "v.npy",
                                       "out.txt", "err.txt", "report.txt"};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        unlink(left[i]);
    }
    if (chdir("..") != 0 || rmdir(folder) != 0) {
        perror(folder);
    }
}

int main(void)
{
    enter_folder();
    /* The loader reads it with the first call of OpenCL. */
    setenv("OPENCL_LAYERS", MHA_FAULT_LAYER, 1);
    unsetenv("GPU_MHA_LOG"); /* a warning is a word of why */
    setenv("GPU_MHA_DATA_DIR", MHA_TEST_DATA_DIR "/minilm", 1);
    Suite *suite = suite_create("fault_command");
    add_case(suite, "calls", a_call_of_the_command_fails, COMMANDS);
    add_case(suite, "heap", an_allocation_of_the_command_fails, COMMANDS);
    add_case(suite, "process", a_process_meets_a_failure, COMMANDS);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    leave_folder();
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
