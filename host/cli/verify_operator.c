/* What all operators share: the list, the check against their tables, outputs; see the header. */
#include "verify_operator.h"

#include <stdlib.h>
#include <string.h>

static const struct mha_operator *const operators[] = {
    &mha_operator_attention,
    &mha_operator_rotary_embedding,
    &mha_operator_tensor_scatter,
};

/* ---- checks ------------------------------------------------------------------------------- */

static const struct mha_operator *find_operator(struct mha_case *record)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (strcmp(operators[i]->name, record->operator_name) != 0) {
            continue;
        }
        if (record->opset < operators[i]->since || record->opset > MHA_LAST_OPSET) {
            mha_case_fail(record, "opset_version %lld of %s is not within %lld .. %d",
                          (long long)record->opset, record->operator_name,
                          (long long)operators[i]->since, MHA_LAST_OPSET);
            return NULL;
        }
        return operators[i];
    }
    mha_case_fail(record, "operator \"%s\" is not known", record->operator_name);
    return NULL;
}

static bool check_attributes(struct mha_case *record, const struct mha_operator *op)
{
    const char *name;
    json_t *value;

    json_object_foreach(record->attributes, name, value)
    {
        const struct mha_operator_item *item = op->attributes;
        while (item->name && strcmp(item->name, name) != 0) {
            item++;
        }
        if (!item->name || item->since > record->opset) {
            return mha_case_fail(record, "attribute \"%s\" is not known in %s of opset %lld", name,
                                 op->name, (long long)record->opset);
        }
    }
    return true;
}

static bool check_arrays(struct mha_case *record, const struct mha_operator *op, const char *kind,
                         const struct mha_operator_item *item, const struct mha_case_array *slots)
{
    for (int slot = 0; slot < MHA_CASE_SLOTS; slot++) {
        const char *name = slots[slot].name;
        bool known = item->name && item->since <= record->opset;
        if (name && !known) {
            return mha_case_fail(record, "%s %d (%s) is not known in %s of opset %lld", kind, slot,
                                 name, op->name, (long long)record->opset);
        }
        if (name && strcmp(name, item->name) != 0) {
            return mha_case_fail(record, "%s %d of %s is named %s, the standard's name is %s", kind,
                                 slot, op->name, name, item->name);
        }
        if (!name && item->name && item->required) {
            return mha_case_fail(record, "%s %d (%s) of %s is missing", kind, slot, item->name,
                                 op->name);
        }
        if (item->name) {
            item++;
        }
    }
    return true;
}

bool mha_operator_run(struct mha_case *record, const struct mha_verify_settings *settings,
                      struct mha_computed *computed)
{
    memset(computed, 0, MHA_CASE_SLOTS * sizeof *computed);
    const struct mha_operator *op = find_operator(record);
    return op && check_attributes(record, op) &&
           check_arrays(record, op, "input", op->inputs, record->inputs) &&
           check_arrays(record, op, "output", op->outputs, record->outputs) &&
           op->compute(record, settings, computed);
}

bool mha_library_ok(struct mha_case *record, gpu_mha_status status)
{
    return status == GPU_MHA_OK || mha_case_fail(record, "%s", gpu_mha_last_error());
}

/* ---- inputs and outputs ------------------------------------------------------------------- */

static bool same_shape(const struct mha_npy *npy, int rank, const int64_t *shape)
{
    if (npy->rank != rank) {
        return false;
    }
    for (int axis = 0; axis < rank; axis++) {
        if (npy->shape[axis] != shape[axis]) {
            return false;
        }
    }
    return true;
}

bool mha_array_expect(struct mha_case *record, const struct mha_case_array *array,
                      enum mha_npy_type type, int rank, const int64_t *shape)
{
    char found[MHA_NPY_SHAPE_TEXT], needed[MHA_NPY_SHAPE_TEXT];

    if (array->npy.type == type && same_shape(&array->npy, rank, shape)) {
        return true;
    }
    return mha_case_fail(record, "%s is %s %s, it must be %s %s here", array->name,
                         mha_npy_type_name(array->npy.type),
                         mha_npy_shape_text(array->npy.rank, array->npy.shape, found, sizeof found),
                         mha_npy_type_name(type),
                         mha_npy_shape_text(rank, shape, needed, sizeof needed));
}

bool mha_input_type(struct mha_case *record, const struct mha_case_array *input, gpu_mha_type *type)
{
    switch (input->npy.type) {
    case MHA_NPY_F32:
        *type = GPU_MHA_F32;
        return true;
    case MHA_NPY_F16:
        *type = GPU_MHA_F16;
        return true;
    case MHA_NPY_BF16:
        *type = GPU_MHA_BF16;
        return true;
    default:
        return mha_case_fail(record, "%s is %s, it must be f32, f16 or bf16", input->name,
                             mha_npy_type_name(input->npy.type));
    }
}

bool mha_computed_make(struct mha_case *record, struct mha_computed *computed, int slot,
                       enum mha_npy_type type, int rank, const int64_t *shape)
{
    const struct mha_case_array *recorded = &record->outputs[slot];
    struct mha_npy *npy = &computed[slot].npy;

    if (!recorded->name) {
        return true;
    }
    if (!mha_array_expect(record, recorded, type, rank, shape)) {
        return false;
    }
    *npy = recorded->npy;
    npy->data = calloc(npy->bytes ? npy->bytes : 1, 1);
    return npy->data || mha_case_fail(record, "out of memory for %s", recorded->name);
}

void mha_computed_free(struct mha_computed *computed)
{
    for (int slot = 0; slot < MHA_CASE_SLOTS; slot++) {
        free(computed[slot].npy.data);
        computed[slot].npy.data = NULL;
    }
}
