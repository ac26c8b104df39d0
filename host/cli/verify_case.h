/*
 * A recorded case: a folder with a case.json that names an operator, its attributes and the .npy
 * files of its inputs and expected outputs. tests/data/onnx/README.md describes the format.
 *
 * A case may come from anywhere, so nothing in it is trusted: every function below that returns
 * bool returns false after anything unexpected and leaves one sentence in `error`.
 */
#ifndef MHA_CLI_VERIFY_CASE_H
#define MHA_CLI_VERIFY_CASE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "npy.h"
#include "report.h"

/* More inputs or outputs than any operator has; the standard's Attention has 7 and 4. */
#define MHA_CASE_SLOTS 8

/* One input or expected output. The place in the array is its position in the standard. */
struct mha_case_array {
    const char *name; /* NULL: this one is absent */
    struct mha_npy npy;
};

/* All strings belong to `document`. */
struct mha_case {
    json_t *document;
    json_t *attributes;
    const char *name, *operator_name;
    const char *summary; /* "" if there is none */
    int64_t opset;
    struct mha_case_array inputs[MHA_CASE_SLOTS];
    struct mha_case_array outputs[MHA_CASE_SLOTS];
    char error[MHA_ERROR_SIZE];
};

/* Reads a folder. To be freed whether it succeeded or not; `name` may be known even then. */
bool mha_case_read(const char *folder, struct mha_case *record);
void mha_case_free(struct mha_case *record);

/* Puts a sentence into record->error and returns false. */
bool mha_case_fail(struct mha_case *record, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* True if the case sets this attribute. */
bool mha_case_has(const struct mha_case *record, const char *attribute);

/* Attributes. An absent one leaves *value as it is, so that the caller's default stays. */
bool mha_case_int(struct mha_case *record, const char *attribute, int64_t minimum, int64_t maximum,
                  int64_t *value);
bool mha_case_float(struct mha_case *record, const char *attribute, float *value);
bool mha_case_string(struct mha_case *record, const char *attribute, const char **value);

#endif
