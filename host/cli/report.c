/* Sentences on stderr and in error buffers; see report.h. */
#include "report.h"

#include <stdio.h>

enum { SENTENCE_SIZE = 2 * MHA_ERROR_SIZE, ESCAPE_SIZE = 4 /* "\xNN" */ };

static bool is_hostile(unsigned char character)
{
    return (character < 0x20 && character != '\n' && character != '\t') || character == 0x7f;
}

void mha_report(const char *format, ...)
{
    static const char hex[] = "0123456789ABCDEF";
    static const char prefix[] = "gpu-mha: ";
    char sentence[SENTENCE_SIZE];
    char shown[sizeof prefix + ESCAPE_SIZE * SENTENCE_SIZE];
    size_t length = 0;

    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(sentence, sizeof sentence, format, arguments) < 0) {
        sentence[0] = '\0';
    }
    va_end(arguments);

    for (const char *at = prefix; *at; at++) {
        shown[length++] = *at;
    }
    for (const char *at = sentence; *at; at++) {
        unsigned char character = (unsigned char)*at;
        if (is_hostile(character)) {
            shown[length++] = '\\';
            shown[length++] = 'x';
            shown[length++] = hex[character >> 4];
            shown[length++] = hex[character & 15];
        } else {
            shown[length++] = *at;
        }
    }
    shown[length++] = '\n';
    fwrite(shown, 1, length, stderr);
}

bool mha_report_usage_v(const char *command, const char *format, va_list arguments)
{
    char sentence[MHA_ERROR_SIZE];

    vsnprintf(sentence, sizeof sentence, format, arguments);
    mha_report("%s (see '%s --help')", sentence, command);
    return false;
}

bool mha_report_usage(const char *command, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    mha_report_usage_v(command, format, arguments);
    va_end(arguments);
    return false;
}

bool mha_fail(char *error, size_t error_size, const char *format, ...)
{
    if (!error || error_size == 0) {
        return false;
    }
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(error, error_size, format, arguments) < 0) {
        error[0] = '\0';
    }
    va_end(arguments);
    return false;
}
