/* The --help text of a command, from its option table; see options.h. */
#include <stdio.h>
#include <string.h>

#include "options.h"

enum {
    PAGE_WIDTH = 80,
    HELP_COLUMN = 30, /* where the sentences start */
    SPELLING_SIZE = 128
};

/* Prints `text` wrapped at words, the cursor being at `column`; later lines start at `indent`. */
static void print_wrapped(const char *text, int column, int indent)
{
    bool line_is_empty = true;

    while (*text) {
        if (*text == '\n') {
            printf("\n%*s", indent, "");
            column = indent;
            line_is_empty = true;
            text++;
            continue;
        }
        int length = (int)strcspn(text, " \n");
        if (!line_is_empty && column + 1 + length > PAGE_WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
            line_is_empty = true;
        }
        if (length > 0) {
            column += printf("%s%.*s", line_is_empty ? "" : " ", length, text);
            line_is_empty = false;
        }
        text += length;
        text += *text == ' ';
    }
    putchar('\n');
}

static const char *value_name(const struct mha_option *option)
{
    static const char *const names[] = {
        [MHA_OPTION_HEADING] = "",    [MHA_OPTION_FLAG] = "",          [MHA_OPTION_STRING] = "TEXT",
        [MHA_OPTION_INT64] = "N",     [MHA_OPTION_INT64_PAIR] = "A,B", [MHA_OPTION_DOUBLE] = "X",
        [MHA_OPTION_CHOICE] = "WORD", [MHA_OPTION_STRINGS] = "TEXT",
    };
    return option->value_name ? option->value_name : names[option->kind];
}

/* "--out FILE", or "--method auto|fused|staged" when a choice has no name for its value. */
static void format_spelling(const struct mha_option *option, char *text, size_t size)
{
    int length = snprintf(text, size, "--%s", option->name);

    if (option->kind == MHA_OPTION_FLAG) {
        return;
    }
    if (option->kind != MHA_OPTION_CHOICE || option->value_name) {
        snprintf(text + length, size - (size_t)length, " %s", value_name(option));
        return;
    }
    for (int i = 0; option->choices[i] && (size_t)length < size; i++) {
        length += snprintf(text + length, size - (size_t)length, "%s%s", i == 0 ? " " : "|",
                           option->choices[i]);
    }
}

static void print_option(const struct mha_option *option)
{
    char spelling[SPELLING_SIZE];

    format_spelling(option, spelling, sizeof spelling);
    int column = option->letter ? printf("  -%c, %s", option->letter, spelling)
                                : printf("      %s", spelling);
    if (column + 2 > HELP_COLUMN) {
        putchar('\n');
        column = 0;
    }
    printf("%*s", HELP_COLUMN - column, "");
    print_wrapped(option->help ? option->help : "", HELP_COLUMN, HELP_COLUMN);
}

/* "Usage: gpu-mha run --q FILE ... [options] DIR...", broken before it gets too wide. */
static void print_usage(const struct mha_command_line *line)
{
    char needed[SPELLING_SIZE];
    int indent = (int)strlen("Usage:");
    int column = printf("Usage: %s", line->command);

    for (size_t i = 0; i < line->option_count; i++) {
        const struct mha_option *option = &line->options[i];
        if (option->kind == MHA_OPTION_HEADING || !option->required) {
            continue;
        }
        format_spelling(option, needed, sizeof needed);
        if (column + 1 + (int)strlen(needed) > PAGE_WIDTH) {
            column = printf("\n%*s", indent, "") - 1;
        }
        column += printf(" %s", needed);
    }
    const char *operands = line->operands ? line->operands : "";
    if (column + (int)strlen(" [options] ") + (int)strlen(operands) > PAGE_WIDTH) {
        printf("\n%*s", indent, "");
    }
    printf(" [options]%s%s\n", *operands ? " " : "", operands);
}

void mha_options_print_help(const struct mha_command_line *line)
{
    static const struct mha_option help = {
        .kind = MHA_OPTION_FLAG, .name = "help", .letter = 'h', .help = "Print this text."};

    print_usage(line);
    if (line->summary) {
        putchar('\n');
        print_wrapped(line->summary, 0, 0);
    }
    if (line->option_count == 0 || line->options[0].kind != MHA_OPTION_HEADING) {
        printf("\nOptions:\n");
    }
    for (size_t i = 0; i < line->option_count; i++) {
        if (line->options[i].kind == MHA_OPTION_HEADING) {
            printf("\n%s\n", line->options[i].help);
        } else {
            print_option(&line->options[i]);
        }
    }
    print_option(&help);
    if (line->epilogue) {
        putchar('\n');
        print_wrapped(line->epilogue, 0, 0);
    }
}
