/*
 * The operators whose recorded cases can be verified. An operator is one file verify_<name>.c with
 * one table of what the standard gives it and one function that computes it on the device, and one
 * line in the list of verify_operator.c.
 */
#ifndef MHA_CLI_VERIFY_OPERATOR_H
#define MHA_CLI_VERIFY_OPERATOR_H

#include <gpu_mha/gpu_mha.h>

#include "verify_case.h"

struct mha_verify_settings {
    gpu_mha_context *context;
    gpu_mha_method method; /* of Attention */
};

/* What the device made for one output. npy.data is NULL where nothing was computed. */
struct mha_computed {
    struct mha_npy npy;
    bool exact; /* elements are only moved, so they must come out as they are */
};

/* An attribute, input or output; inputs and outputs stand in the order of their index. */
struct mha_operator_item {
    const char *name; /* NULL ends a list */
    int64_t since;    /* the first opset that has it */
    bool required;
};

struct mha_operator {
    const char *name;
    int64_t since;
    const struct mha_operator_item *attributes, *inputs, *outputs;
    /* Called on a case that has what is required and nothing that is unknown. */
    bool (*compute)(struct mha_case *record, const struct mha_verify_settings *settings,
                    struct mha_computed *computed);
};

/* The last opset whose text these operators follow. */
#define MHA_LAST_OPSET 25

extern const struct mha_operator mha_operator_attention;
extern const struct mha_operator mha_operator_rotary_embedding;
extern const struct mha_operator mha_operator_tensor_scatter;

/*
 * Computes every output that the case records into computed[0 .. MHA_CASE_SLOTS - 1], to be freed
 * with mha_computed_free whatever comes back. False: a sentence is in record->error.
 */
bool mha_operator_run(struct mha_case *record, const struct mha_verify_settings *settings,
                      struct mha_computed *computed);
void mha_computed_free(struct mha_computed *computed);

/* ---- for the operators -------------------------------------------------------------------- */

/*
 * Makes room, zeroed, for output `slot` if the case records it. Its type and shape must be those
 * of the record, so that no more memory is taken than the recorded file has.
 */
bool mha_computed_make(struct mha_case *record, struct mha_computed *computed, int slot,
                       enum mha_npy_type type, int rank, const int64_t *shape);

/* The library's storage type of an input, which must be one of the three float types. */
bool mha_input_type(struct mha_case *record, const struct mha_case_array *input,
                    gpu_mha_type *type);

/* Checks the type and shape of an input or a recorded output. */
bool mha_array_expect(struct mha_case *record, const struct mha_case_array *array,
                      enum mha_npy_type type, int rank, const int64_t *shape);

/* Turns a status of the library into true, or false with its sentence in record->error. */
bool mha_library_ok(struct mha_case *record, gpu_mha_status status);

#endif
