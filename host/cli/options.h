/*
 * Command lines from a table. The table is the only place where an option is described: parsing,
 * checks, messages and the --help text all come from it.
 *
 *     --name value   --name=value   -o value   -o=value   --flag   -- ends the options
 *
 * A value may be a negative number. A value that looks like an option ("--k", or the letter of
 * another option) is taken for a forgotten value and refused; --name=--k says it is meant.
 */
#ifndef MHA_CLI_OPTIONS_H
#define MHA_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report.h"

enum mha_option_kind {
    MHA_OPTION_HEADING,    /* not an option: `help` is a line above the options that follow */
    MHA_OPTION_FLAG,       /* target: bool, set to true */
    MHA_OPTION_STRING,     /* target: const char *, points into argv; an empty value is refused */
    MHA_OPTION_STRINGS,    /* target: struct mha_option_strings; may be given several times */
    MHA_OPTION_INT64,      /* target: int64_t, within minimum..maximum */
    MHA_OPTION_INT64_PAIR, /* target: int64_t[2], "A,B", each within minimum..maximum */
    MHA_OPTION_DOUBLE,     /* target: double; finite unless allow_nonfinite */
    MHA_OPTION_CHOICE      /* target: int, index into choices */
};

/* The values of an option that may be repeated, in their order; they point into argv. */
#define MHA_OPTION_STRINGS_MAX 64
struct mha_option_strings {
    size_t count;
    const char *values[MHA_OPTION_STRINGS_MAX];
};

struct mha_option {
    enum mha_option_kind kind;
    const char *name;       /* without the dashes */
    char letter;            /* short form, 0 for none */
    void *target;           /* keeps its value when the option is not given */
    const char *value_name; /* in --help: "FILE"; NULL takes a word that suits the kind */
    const char *help;       /* one or more sentences, wrapped by the printer; '\n' breaks a line */

    bool *given;                /* set to true when the option appears; may be NULL */
    bool required;              /* its absence is an error */
    bool allow_nonfinite;       /* DOUBLE: inf, -inf and nan are values too */
    int64_t minimum, maximum;   /* INT64 kinds; both 0 means no limits */
    const char *const *choices; /* CHOICE: the words, NULL at the end */
};

struct mha_command_line {
    const char *command;  /* "gpu-mha run", used in messages and in --help */
    const char *summary;  /* what it does, under the usage line */
    const char *operands; /* how they show in the usage line, "DIR..."; NULL: none are allowed */
    int operands_minimum; /* this many at least */
    const struct mha_option *options;
    size_t option_count;
    const char *epilogue; /* last paragraph of --help; NULL for none */
};

enum mha_options_result {
    MHA_OPTIONS_OK,
    MHA_OPTIONS_HELP, /* --help or -h was given; the text went to stdout: exit with 0 */
    MHA_OPTIONS_USAGE /* a sentence went to stderr: exit with 2 */
};

/*
 * Parses argv[0..argc-1], which starts with the first argument after the command's own words.
 * On MHA_OPTIONS_OK the operands have been moved, in order, to argv[0..*operand_count-1].
 */
enum mha_options_result mha_options_parse(const struct mha_command_line *line, int argc,
                                          char **argv, int *operand_count);

/*
 * True if the command is to go on; else *code is what it is to exit with. It is MHA_EXIT_USAGE in
 * the first case, for what the command may yet find wrong.
 */
static inline bool mha_options_are_ok(enum mha_options_result result, enum mha_exit *code)
{
    *code = result == MHA_OPTIONS_HELP ? MHA_EXIT_OK : MHA_EXIT_USAGE;
    return result == MHA_OPTIONS_OK;
}

/* The --help text, at most 80 columns wide. */
void mha_options_print_help(const struct mha_command_line *line);

/*
 * Whole-string number parsing for values that are more than a number, such as --causal's. False
 * for empty, blank, trailing or out-of-range text. Decimal only.
 */
bool mha_options_int64(const char *text, int64_t *value);
bool mha_options_double(const char *text, bool allow_nonfinite, double *value);

/*
 * Whole numbers of 1 or more between commas, `most` at most. Returns how many; 0 if the text is
 * anything else.
 */
size_t mha_options_lengths(const char *text, int64_t *const lengths[], size_t most);

/*
 * The value of --name, names between commas: `add` is given the index of each among `names`, and
 * ends the walk by returning false. A name that is none of them is reported as "--name has no
 * <what>'...'".
 */
bool mha_options_add_names(const char *command, const char *what, const char *text,
                           const char *const names[], size_t count,
                           bool (*add)(void *user, size_t index), void *user);

/*
 * The candidate nearest to `word` when it is near enough to be a misspelling, else NULL. For
 * subcommand names too.
 */
const char *mha_options_nearest(const char *word, const char *const *candidates, size_t count);

#endif
