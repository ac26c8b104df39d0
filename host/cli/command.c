/*
 * Helpers that the subcommands share; see command.h.
 */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum mha_exit mha_report_library_error(const char *what)
{
    gpu_mha_error error = gpu_mha_last_error_info();
    const char *message = error.message[0] ? error.message : gpu_mha_status_text(error.status);
    if (what) {
        mha_report("%s: %s", what, message);
    } else {
        mha_report("%s", message);
    }
    if (error.build_log[0]) {
        fprintf(stderr, "%s\n", error.build_log);
    }
    return MHA_EXIT_FAILED;
}

char *mha_device_name(gpu_mha_context *context, char *name, size_t size)
{
    char text[256] = "";
    cl_int code =
        clGetDeviceInfo(gpu_mha_context_device(context), CL_DEVICE_NAME, sizeof text, text, NULL);
    text[sizeof text - 1] = '\0';
    /* Some drivers pad the name with blanks in front. */
    const char *start = text;
    while (*start == ' ') {
        start++;
    }
    snprintf(name, size, "%s", code == CL_SUCCESS && *start ? start : "unnamed device");
    return name;
}

double mha_milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

enum mha_exit mha_print_json(json_t *object)
{
    bool made = object != NULL;
    bool printed = made && !json_dumpf(object, stdout, JSON_INDENT(2)) && putchar('\n') != EOF;

    json_decref(object);
    if (!made) {
        mha_report("out of memory for the JSON text");
    } else if (!printed) {
        mha_report("the JSON text could not be written to standard output");
    }
    return printed ? MHA_EXIT_OK : MHA_EXIT_FAILED;
}

json_t *mha_json_text(const char *text)
{
    json_t *string = json_string(text); /* NULL for what is not UTF-8 */
    char *plain = string ? NULL : strdup(text);

    if (!plain) {
        return string;
    }
    for (char *at = plain; *at; at++) {
        if ((unsigned char)*at >= 0x80) {
            *at = '?';
        }
    }
    string = json_string(plain);
    free(plain);
    return string;
}

json_t *mha_json_number(double value)
{
    json_t *number = json_real(value); /* NULL for what is not finite */
    return number ? number : json_null();
}
