/*
 * How the command talks to the person who started it: exit codes, sentences on stderr, and the
 * one way to put a sentence into a caller's buffer.
 */
#ifndef MHA_CLI_REPORT_H
#define MHA_CLI_REPORT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

enum mha_exit {
    MHA_EXIT_OK = 0,
    MHA_EXIT_FAILED = 1, /* the work could not be done, or a check did not pass */
    MHA_EXIT_USAGE = 2   /* the command line itself is wrong */
};

/* Large enough for every sentence of this folder with the longest path (4096 bytes) in it. */
#define MHA_ERROR_SIZE 5120

/*
 * Prints "gpu-mha: <sentence>\n" to stderr in one write. Control characters other than newline and
 * tab are shown as \xNN, so that a hostile file name cannot drive the terminal.
 */
void mha_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Reports a wrong command line of `command`, "gpu-mha run", and where its help is; always returns
 * false.
 */
bool mha_report_usage(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same with its arguments as a list. */
bool mha_report_usage_v(const char *command, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/*
 * Writes a sentence to `error` (cut to error_size, always terminated) and returns false, so that
 * a failing function ends in `return mha_fail(error, error_size, "...")`. A NULL `error` is fine.
 */
bool mha_fail(char *error, size_t error_size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
