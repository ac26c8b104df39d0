/* Parsing command lines from a table; see options.h. The --help text is in options_help.c. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { MAXIMUM_OPTIONS = 64, SPELLING_SIZE = 64 };

struct parser {
    const struct mha_command_line *line;
    int argc;
    char **argv;
    int next; /* index of the next argument */
    int operands;
    bool seen[MAXIMUM_OPTIONS];
};

/* Prints a sentence and where to find help; always returns false. */
static bool usage_error(const struct parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool usage_error(const struct parser *parser, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    mha_report_usage_v(parser->line->command, format, arguments);
    va_end(arguments);
    return false;
}

bool mha_options_int64(const char *text, int64_t *value)
{
    size_t sign = *text == '-' || *text == '+';
    char *end;

    /* strtoll alone would also take leading blanks */
    if (text[sign] < '0' || text[sign] > '9') {
        return false;
    }
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (*end != '\0' || errno != 0) {
        return false;
    }
    *value = number;
    return true;
}

size_t mha_options_lengths(const char *text, int64_t *const lengths[], size_t most)
{
    size_t read = 0;

    for (bool more = true; more; read++) {
        char number[24];
        size_t length = strcspn(text, ",");
        if (read == most || length >= sizeof number) {
            return 0;
        }
        memcpy(number, text, length);
        number[length] = '\0';
        if (!mha_options_int64(number, lengths[read]) || *lengths[read] < 1) {
            return 0;
        }
        more = text[length] == ',';
        text += length + more;
    }
    return read;
}

bool mha_options_double(const char *text, bool allow_nonfinite, double *value)
{
    static const char *const words[] = {"inf", "infinity", "nan"};
    size_t sign = *text == '-' || *text == '+';
    bool is_word = false;
    char *end;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        is_word = is_word || strcmp(text + sign, words[i]) == 0;
    }
    if (is_word && !allow_nonfinite) {
        return false;
    }
    /* strtod alone would also take leading blanks, hexadecimal numbers and nan(...) */
    if (!is_word && (text[sign] == '\0' || strspn(text, "0123456789+-.eE") != strlen(text))) {
        return false;
    }
    errno = 0;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || (!is_word && !isfinite(number))) {
        return false; /* an underflow is fine: the nearest double is what was asked for */
    }
    *value = number;
    return true;
}

/* Number of single-character edits, swaps of neighbours included, between two words. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 31 };
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *previous = rows[1], *current = rows[2];
    size_t a_length = strlen(a), b_length = strlen(b);

    if (a_length > LONGEST || b_length > LONGEST) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= b_length; j++) {
        previous[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        current[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = previous[j - 1] + (a[i - 1] != b[j - 1]);
            if (previous[j] + 1 < best) {
                best = previous[j] + 1;
            }
            if (current[j - 1] + 1 < best) {
                best = current[j - 1] + 1;
            }
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best) {
                best = before[j - 2] + 1;
            }
            current[j] = best;
        }
        size_t *oldest = before;
        before = previous;
        previous = current;
        current = oldest;
    }
    return previous[b_length];
}

const char *mha_options_nearest(const char *word, const char *const *candidates, size_t count)
{
    const char *nearest = NULL;
    size_t smallest = SIZE_MAX;
    size_t length = strlen(word);

    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(word, candidates[i]);
        /* A beginning of the right word is as good as a misspelling of it. */
        if (length >= 3 && strncmp(word, candidates[i], length) == 0) {
            distance = 1;
        }
        if (distance < smallest) {
            smallest = distance;
            nearest = candidates[i];
        }
    }
    size_t allowed = length <= 3 ? 1 : length <= 6 ? 2 : 3;
    return smallest <= allowed && smallest < length ? nearest : NULL;
}

static bool is_heading(const struct mha_option *option)
{
    return option->kind == MHA_OPTION_HEADING;
}

/* The option that an argument's first `length` characters spell, dashes included, or NULL. */
static const struct mha_option *find(const struct mha_command_line *line, const char *argument,
                                     size_t length)
{
    for (size_t i = 0; i < line->option_count; i++) {
        const struct mha_option *option = &line->options[i];
        if (is_heading(option)) {
            continue;
        }
        if (length > 2 && argument[1] == '-' && strlen(option->name) == length - 2 &&
            memcmp(argument + 2, option->name, length - 2) == 0) {
            return option;
        }
        if (length == 2 && option->letter != 0 && argument[1] == option->letter) {
            return option;
        }
    }
    return NULL;
}

static bool refuse_unknown(const struct parser *parser, const char *argument, size_t length)
{
    const char *names[MAXIMUM_OPTIONS + 1] = {"help"};
    char word[SPELLING_SIZE];
    size_t count = 1;
    const char *nearest = NULL;

    for (size_t i = 0; i < parser->line->option_count; i++) {
        if (!is_heading(&parser->line->options[i])) {
            names[count++] = parser->line->options[i].name;
        }
    }
    size_t dashes = argument[1] == '-' ? 2 : 1;
    if (length - dashes < sizeof word) {
        memcpy(word, argument + dashes, length - dashes);
        word[length - dashes] = '\0';
        nearest = mha_options_nearest(word, names, count);
    }
    if (nearest) {
        return usage_error(parser, "unknown option '%.*s'; did you mean '--%s'?", (int)length,
                           argument, nearest);
    }
    return usage_error(parser, "unknown option '%.*s'", (int)length, argument);
}

/* True for an argument that can only be another option, so that a value before it is missing. */
static bool looks_like_option(const struct mha_command_line *line, const char *argument)
{
    if (argument[0] != '-' || argument[1] == '\0') {
        return false;
    }
    size_t length = strcspn(argument, "=");
    return argument[1] == '-' || (length == 2 && argument[1] == 'h') ||
           find(line, argument, length) != NULL;
}

static bool parse_pair(const char *text, int64_t pair[2])
{
    char first[SPELLING_SIZE];
    size_t length = strcspn(text, ",");

    if (text[length] == '\0' || length >= sizeof first) {
        return false;
    }
    memcpy(first, text, length);
    first[length] = '\0';
    return mha_options_int64(first, &pair[0]) && mha_options_int64(text + length + 1, &pair[1]);
}

static bool in_range(const struct mha_option *option, int64_t value)
{
    if (option->minimum == 0 && option->maximum == 0) {
        return true;
    }
    return value >= option->minimum && value <= option->maximum;
}

/* "--name needs <rule>, not 'text'", with the range when there is one. */
static bool refuse_value(const struct parser *parser, const struct mha_option *option,
                         const char *rule, const char *text)
{
    char range[80] = "";

    if (option->minimum == 0 && option->maximum == INT64_MAX) {
        snprintf(range, sizeof range, " of 0 or more");
    } else if (option->maximum == INT64_MAX) {
        snprintf(range, sizeof range, " of %lld or more", (long long)option->minimum);
    } else if (option->minimum != 0 || option->maximum != 0) {
        snprintf(range, sizeof range, " from %lld to %lld", (long long)option->minimum,
                 (long long)option->maximum);
    }
    return usage_error(parser, "--%s needs %s%s, not '%s'", option->name, rule, range, text);
}

static bool set_choice(const struct parser *parser, const struct mha_option *option,
                       const char *text)
{
    char words[256] = "";
    size_t length = 0;

    for (int i = 0; option->choices[i]; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *(int *)option->target = i;
            return true;
        }
        const char *before = i == 0 ? "" : option->choices[i + 1] ? ", " : " or ";
        if (length < sizeof words) {
            length += (size_t)snprintf(words + length, sizeof words - length, "%s%s", before,
                                       option->choices[i]);
        }
    }
    return usage_error(parser, "--%s needs %s, not '%s'", option->name, words, text);
}

static bool add_string(const struct parser *parser, const struct mha_option *option,
                       const char *text)
{
    struct mha_option_strings *strings = option->target;

    if (*text == '\0') {
        return usage_error(parser, "--%s needs a value that is not empty", option->name);
    }
    if (strings->count == MHA_OPTION_STRINGS_MAX) {
        return usage_error(parser, "--%s is given more than %d times", option->name,
                           MHA_OPTION_STRINGS_MAX);
    }
    strings->values[strings->count++] = text;
    return true;
}

/* Checks `text` (NULL for a flag) and stores it. */
static bool set_value(const struct parser *parser, const struct mha_option *option,
                      const char *text)
{
    int64_t number, pair[2];
    double real;

    switch (option->kind) {
    case MHA_OPTION_HEADING:
        break;
    case MHA_OPTION_FLAG:
        *(bool *)option->target = true;
        break;
    case MHA_OPTION_STRING:
        if (*text == '\0') {
            return usage_error(parser, "--%s needs a value that is not empty", option->name);
        }
        *(const char **)option->target = text;
        break;
    case MHA_OPTION_STRINGS:
        return add_string(parser, option, text);
    case MHA_OPTION_INT64:
        if (!mha_options_int64(text, &number) || !in_range(option, number)) {
            return refuse_value(parser, option, "a whole number", text);
        }
        *(int64_t *)option->target = number;
        break;
    case MHA_OPTION_INT64_PAIR:
        if (!parse_pair(text, pair) || !in_range(option, pair[0]) || !in_range(option, pair[1])) {
            return refuse_value(parser, option, "two whole numbers A,B", text);
        }
        memcpy(option->target, pair, sizeof pair);
        break;
    case MHA_OPTION_DOUBLE:
        if (!mha_options_double(text, option->allow_nonfinite, &real)) {
            return refuse_value(parser, option,
                                option->allow_nonfinite ? "a number" : "a finite number", text);
        }
        *(double *)option->target = real;
        break;
    case MHA_OPTION_CHOICE:
        return set_choice(parser, option, text);
    }
    return true;
}

/* One option at argv[next], with its value from behind '=' or from the next argument. */
static bool parse_option(struct parser *parser)
{
    const char *argument = parser->argv[parser->next++];
    size_t length = strcspn(argument, "=");
    const char *value = argument[length] == '=' ? argument + length + 1 : NULL;
    const struct mha_option *option = find(parser->line, argument, length);

    if (!option) {
        return refuse_unknown(parser, argument, length);
    }
    size_t index = (size_t)(option - parser->line->options);
    if (parser->seen[index] && option->kind != MHA_OPTION_STRINGS) {
        return usage_error(parser, "--%s is given twice; once is needed", option->name);
    }
    parser->seen[index] = true;

    if (option->kind == MHA_OPTION_FLAG) {
        if (value) {
            return usage_error(parser, "--%s takes no value", option->name);
        }
    } else if (!value) {
        if (parser->next == parser->argc ||
            looks_like_option(parser->line, parser->argv[parser->next])) {
            return usage_error(parser, "--%s needs a value", option->name);
        }
        value = parser->argv[parser->next++];
    }
    if (!set_value(parser, option, value)) {
        return false;
    }
    if (option->given) {
        *option->given = true;
    }
    return true;
}

/* What only the whole command line can show: missing options, missing or surplus operands. */
static bool check_complete(const struct parser *parser)
{
    const struct mha_command_line *line = parser->line;

    for (size_t i = 0; i < line->option_count; i++) {
        if (line->options[i].required && !parser->seen[i]) {
            return usage_error(parser, "--%s is needed", line->options[i].name);
        }
    }
    if (!line->operands && parser->operands > 0) {
        return usage_error(parser, "unexpected argument '%s'", parser->argv[0]);
    }
    if (parser->operands < line->operands_minimum) {
        return usage_error(parser, "%s is needed", line->operands);
    }
    return true;
}

enum mha_options_result mha_options_parse(const struct mha_command_line *line, int argc,
                                          char **argv, int *operand_count)
{
    struct parser parser = {.line = line, .argc = argc, .argv = argv};
    bool options_ended = false;

    *operand_count = 0;
    if (line->option_count > MAXIMUM_OPTIONS) {
        mha_report("the option table of '%s' has more than %d rows", line->command,
                   MAXIMUM_OPTIONS);
        return MHA_OPTIONS_USAGE;
    }
    while (parser.next < argc) {
        char *argument = argv[parser.next];
        if (options_ended || argument[0] != '-' || argument[1] == '\0') {
            argv[parser.operands++] = argument;
            parser.next++;
        } else if (strcmp(argument, "--") == 0) {
            options_ended = true;
            parser.next++;
        } else if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            mha_options_print_help(line);
            return MHA_OPTIONS_HELP;
        } else if (!parse_option(&parser)) {
            return MHA_OPTIONS_USAGE;
        }
    }
    if (!check_complete(&parser)) {
        return MHA_OPTIONS_USAGE;
    }
    *operand_count = parser.operands;
    return MHA_OPTIONS_OK;
}
