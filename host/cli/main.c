/*
 * The command gpu-mha: picks the subcommand and hands it the rest of the line.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "options.h"

struct command {
    const char *name;
    const char *summary;
    enum mha_exit (*run)(int argc, char **argv);
};

static const struct command commands[] = {
#define COMMAND_ROW(name, summary) {#name, summary, mha_cmd_##name},
    MHA_COMMAND_LIST(COMMAND_ROW)
#undef COMMAND_ROW
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_help(FILE *stream)
{
    fprintf(stream, "Usage: gpu-mha COMMAND [OPTION...]\n"
                    "\n"
                    "Exact multi-head attention on any OpenCL device.\n"
                    "\n"
                    "Commands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(stream, "  %-10s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(stream,
            "\n"
            "`gpu-mha COMMAND --help` and `gpu-mha help COMMAND` describe one command.\n"
            "`gpu-mha --version` tells the version.\n"
            "\n"
            "Environment:\n"
            "  GPU_MHA_DEVICE     the device where --device is not given\n"
            "  GPU_MHA_LOG        what goes to stderr: off, error, warn (wrong settings, what was\n"
            "                     worked around), info (what was chosen and what passed over),\n"
            "                     debug (every build and refusal); warn if not set\n"
            "  GPU_MHA_CACHE_DIR  where built kernels, measured shapes and verdicts are kept; off\n"
            "                     for nowhere\n"
            "  GPU_MHA_DATA_DIR   the folder of the demo's data\n"
            "  GPU_MHA_TILE       which kernels to run and their shape, for tuning\n"
            "\n"
            "Exit codes: 0 done, 1 failed or a check did not pass, 2 wrong command line\n");
}

/* The command called `name`; NULL after reporting that there is none. */
static const struct command *find_command(const char *name)
{
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (!strcmp(name, commands[i].name)) {
            return &commands[i];
        }
        names[i] = commands[i].name;
    }
    const char *nearest = mha_options_nearest(name, names, COMMAND_COUNT);
    if (nearest) {
        mha_report("there is no command '%s'; did you mean '%s'?", name, nearest);
    } else {
        mha_report("there is no command '%s'; see gpu-mha --help", name);
    }
    return NULL;
}

static enum mha_exit help_on(int argc, char **argv)
{
    if (argc == 0) {
        print_help(stdout);
        return MHA_EXIT_OK;
    }
    if (argc > 1) {
        mha_report("help takes one command, not also '%s'", argv[1]);
        return MHA_EXIT_USAGE;
    }
    const struct command *command = find_command(argv[0]);
    char option[] = "--help";
    char *arguments[] = {option, NULL};
    return command ? command->run(1, arguments) : MHA_EXIT_USAGE;
}

static enum mha_exit dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return MHA_EXIT_USAGE;
    }
    const char *word = argv[1];
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
        return help_on(argc - 2, argv + 2);
    }
    if (!strcmp(word, "--version")) {
        printf("gpu-mha %s\n", gpu_mha_version());
        return MHA_EXIT_OK;
    }
    if (word[0] == '-') {
        mha_report("there is no option '%s' before the command; see gpu-mha --help", word);
        return MHA_EXIT_USAGE;
    }
    const struct command *command = find_command(word);
    return command ? command->run(argc - 2, argv + 2) : MHA_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    /* A file that may not grow, and a reader that is gone, are errors to report, not to die of. */
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    enum mha_exit code = dispatch(argc, argv);
    /* A full disk or a closed pipe behind stdout would otherwise look like success. */
    if (fflush(stdout) || ferror(stdout)) {
        mha_report("standard output could not be written");
        if (code == MHA_EXIT_OK) {
            code = MHA_EXIT_FAILED;
        }
    }
    return code;
}
