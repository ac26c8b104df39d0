/*
 * The subcommands of gpu-mha and the few helpers that they share.
 *
 * A subcommand is one function in cmd_<name>.c and one line in MHA_COMMAND_LIST. It gets the
 * arguments after its own name and returns the exit code of the program.
 */
#ifndef MHA_CLI_COMMAND_H
#define MHA_CLI_COMMAND_H

#include <gpu_mha/gpu_mha.h>
#include <jansson.h>

#include "report.h"

/* X(name, summary): the order is that of `gpu-mha --help`. */
#define MHA_COMMAND_LIST(X)                                                                        \
    X(info, "list the OpenCL devices and what each can run")                                       \
    X(run, "compute attention on .npy files")                                                      \
    X(verify, "check a device against recorded cases")                                             \
    X(bench, "measure attention against the limits of the device")                                 \
    X(tune, "measure the kernels' shapes on a device and keep the fastest")                        \
    X(doctor, "try every kernel on a device, in processes of their own")                           \
    X(demo, "run one layer of a real sentence encoder")

#define MHA_COMMAND_DECLARE(name, summary) enum mha_exit mha_cmd_##name(int argc, char **argv);
MHA_COMMAND_LIST(MHA_COMMAND_DECLARE)
#undef MHA_COMMAND_DECLARE

/*
 * Reports the calling thread's last library error as "WHAT: MESSAGE", or as "MESSAGE" where `what`
 * is NULL, and a compiler's log below it. Returns MHA_EXIT_FAILED.
 */
enum mha_exit mha_report_library_error(const char *what);

/* The name of the device behind a context, cut to size; returns `name`. */
char *mha_device_name(gpu_mha_context *context, char *name, size_t size);

/* Milliseconds of a clock that only moves forward; differences mean something, values do not. */
double mha_milliseconds(void);

/*
 * Prints `object` to stdout, indented, with a newline, and releases it. NULL, which is what jansson
 * makes when it is out of memory, is reported as that. Returns the exit code.
 */
enum mha_exit mha_print_json(json_t *object);

/* A JSON string; bytes outside ASCII become '?' where `text` is not UTF-8, as a path may be. */
json_t *mha_json_text(const char *text);

/* A JSON number, or null for what JSON has no number for: NaN and the infinities. */
json_t *mha_json_number(double value);

#endif
