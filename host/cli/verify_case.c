/* Reading of recorded cases; see verify_case.h. */
#include "verify_case.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A case.json has some kilobytes; the limit keeps a stray file from being read into memory. */
#define JSON_MAX_BYTES (1 << 20)

bool mha_case_fail(struct mha_case *record, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(record->error, sizeof record->error, format, arguments) < 0) {
        record->error[0] = '\0';
    }
    va_end(arguments);
    return false;
}

static const char *json_kind(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a real number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    default:
        return "null";
    }
}

/* ---- fields ------------------------------------------------------------------------------- */

/* The member `key` of `object`, which must be there and have this type; NULL after an error. */
static json_t *member(struct mha_case *record, const json_t *object, const char *where,
                      const char *key, json_type type, const char *type_text)
{
    json_t *value = json_object_get(object, key);
    if (!value) {
        mha_case_fail(record, "case.json: %s has no \"%s\"", where, key);
        return NULL;
    }
    if (json_typeof(value) != type) {
        mha_case_fail(record, "case.json: \"%s\" of %s is %s, it must be %s", key, where,
                      json_kind(value), type_text);
        return NULL;
    }
    return value;
}

static const char *string_member(struct mha_case *record, const json_t *object, const char *where,
                                 const char *key)
{
    return json_string_value(member(record, object, where, key, JSON_STRING, "a string"));
}

/* ---- the document ------------------------------------------------------------------------- */

static char *join(const char *folder, const char *file)
{
    size_t size = strlen(folder) + strlen(file) + 2;
    char *path = malloc(size);
    if (path) {
        snprintf(path, size, "%s/%s", folder, file);
    }
    return path;
}

static bool read_document(struct mha_case *record, const char *path)
{
    struct stat info;
    json_error_t problem;

    /* Looked at before it is opened: opening a named pipe would wait for a writer. */
    if (stat(path, &info) != 0) {
        return mha_case_fail(record, "cannot read %s: %s", path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return mha_case_fail(record, "%s is not a regular file", path);
    }
    if (info.st_size > JSON_MAX_BYTES) {
        return mha_case_fail(record, "%s has %lld bytes, the limit is %d", path,
                             (long long)info.st_size, JSON_MAX_BYTES);
    }
    record->document = json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    if (!record->document) {
        return mha_case_fail(record, "%s, line %d: %s", path, problem.line, problem.text);
    }
    if (!json_is_object(record->document)) {
        return mha_case_fail(record, "%s is %s, it must be an object", path,
                             json_kind(record->document));
    }
    return true;
}

static bool read_fields(struct mha_case *record)
{
    static const char where[] = "the case";
    const json_t *document = record->document;
    const char *domain;
    json_t *opset, *summary;

    if (!(record->name = string_member(record, document, where, "name")) ||
        !(record->operator_name = string_member(record, document, where, "operator")) ||
        !(domain = string_member(record, document, where, "domain")) ||
        !(opset = member(record, document, where, "opset_version", JSON_INTEGER, "an integer")) ||
        !(record->attributes =
              member(record, document, where, "attributes", JSON_OBJECT, "an object"))) {
        return false;
    }
    if (strcmp(domain, "") != 0 && strcmp(domain, "ai.onnx") != 0) {
        return mha_case_fail(record, "case.json: domain \"%s\" is not known, only \"\" is", domain);
    }
    record->opset = json_integer_value(opset);
    summary = json_object_get(document, "summary");
    record->summary = json_is_string(summary) ? json_string_value(summary) : "";
    return true;
}

/* ---- arrays ------------------------------------------------------------------------------- */

/* The name that case.json uses for an element type. */
static const char *type_label(enum mha_npy_type type)
{
    switch (type) {
    case MHA_NPY_BOOL:
        return "bool";
    case MHA_NPY_U8:
        return "uint8";
    case MHA_NPY_I32:
        return "int32";
    case MHA_NPY_I64:
        return "int64";
    case MHA_NPY_F16:
        return "float16";
    case MHA_NPY_BF16:
        return "bfloat16";
    case MHA_NPY_F32:
        return "float32";
    case MHA_NPY_F64:
        return "float64";
    }
    return "unknown";
}

/* The file must hold what case.json says: a file that was swapped or cut must not pass. */
static bool check_against_file(struct mha_case *record, const char *name, const char *label,
                               const json_t *shape, const struct mha_npy *npy)
{
    char text[MHA_NPY_SHAPE_TEXT];
    bool same = json_array_size(shape) == (size_t)npy->rank;

    if (strcmp(label, type_label(npy->type)) != 0) {
        return mha_case_fail(record, "%s: case.json says %s, the file holds %s", name, label,
                             type_label(npy->type));
    }
    for (int axis = 0; same && axis < npy->rank; axis++) {
        const json_t *size = json_array_get(shape, (size_t)axis);
        same = json_is_integer(size) && json_integer_value(size) == npy->shape[axis];
    }
    if (!same) {
        return mha_case_fail(record, "%s: the file's shape %s is not the one in case.json", name,
                             mha_npy_shape_text(npy->rank, npy->shape, text, sizeof text));
    }
    return true;
}

static bool read_array(struct mha_case *record, const char *folder, const char *list,
                       const json_t *entry, struct mha_case_array *slots)
{
    const char *name, *file, *label;
    json_t *index, *shape;

    if (!json_is_object(entry)) {
        return mha_case_fail(record, "case.json: \"%s\" has an entry that is %s, not an object",
                             list, json_kind(entry));
    }
    if (!(name = string_member(record, entry, list, "name")) ||
        !(file = string_member(record, entry, name, "file")) ||
        !(label = string_member(record, entry, name, "dtype")) ||
        !(index = member(record, entry, name, "index", JSON_INTEGER, "an integer")) ||
        !(shape = member(record, entry, name, "shape", JSON_ARRAY, "an array"))) {
        return false;
    }
    /* A case never reads outside its own folder. */
    if (file[0] == '\0' || file[0] == '.' || strchr(file, '/')) {
        return mha_case_fail(record, "case.json: file \"%s\" of %s is not a plain file name", file,
                             name);
    }
    json_int_t place = json_integer_value(index);
    if (place < 0 || place >= MHA_CASE_SLOTS) {
        return mha_case_fail(record, "case.json: index %lld of %s is not within 0 .. %d",
                             (long long)place, name, MHA_CASE_SLOTS - 1);
    }
    struct mha_case_array *slot = &slots[place];
    if (slot->name) {
        return mha_case_fail(record, "case.json: %s and %s both have index %lld", slot->name, name,
                             (long long)place);
    }

    char *path = join(folder, file);
    if (!path) {
        return mha_case_fail(record, "out of memory");
    }
    bool read = mha_npy_read(path, &slot->npy, record->error, sizeof record->error);
    free(path);
    if (!read) {
        return false;
    }
    slot->name = name;
    return check_against_file(record, name, label, shape, &slot->npy);
}

static bool read_arrays(struct mha_case *record, const char *folder, const char *list,
                        struct mha_case_array *slots)
{
    json_t *entries = member(record, record->document, "the case", list, JSON_ARRAY, "an array");
    json_t *entry;
    size_t place;

    if (!entries) {
        return false;
    }
    json_array_foreach(entries, place, entry)
    {
        if (!read_array(record, folder, list, entry, slots)) {
            return false;
        }
    }
    return true;
}

bool mha_case_read(const char *folder, struct mha_case *record)
{
    memset(record, 0, sizeof *record);
    char *path = join(folder, "case.json");
    if (!path) {
        return mha_case_fail(record, "out of memory");
    }
    bool read = read_document(record, path);
    free(path);
    return read && read_fields(record) && read_arrays(record, folder, "inputs", record->inputs) &&
           read_arrays(record, folder, "outputs", record->outputs);
}

void mha_case_free(struct mha_case *record)
{
    for (int slot = 0; slot < MHA_CASE_SLOTS; slot++) {
        mha_npy_free(&record->inputs[slot].npy);
        mha_npy_free(&record->outputs[slot].npy);
    }
    json_decref(record->document);
    memset(record, 0, sizeof *record);
}

/* ---- attributes --------------------------------------------------------------------------- */

bool mha_case_has(const struct mha_case *record, const char *attribute)
{
    return json_object_get(record->attributes, attribute) != NULL;
}

bool mha_case_int(struct mha_case *record, const char *attribute, int64_t minimum, int64_t maximum,
                  int64_t *value)
{
    const json_t *number = json_object_get(record->attributes, attribute);
    if (!number) {
        return true;
    }
    if (!json_is_integer(number)) {
        return mha_case_fail(record, "attribute %s is %s, it must be an integer", attribute,
                             json_kind(number));
    }
    json_int_t found = json_integer_value(number);
    if (found < minimum || found > maximum) {
        return mha_case_fail(record, "attribute %s is %lld, it must be within %lld .. %lld",
                             attribute, (long long)found, (long long)minimum, (long long)maximum);
    }
    *value = found;
    return true;
}

bool mha_case_float(struct mha_case *record, const char *attribute, float *value)
{
    const json_t *number = json_object_get(record->attributes, attribute);
    if (!number) {
        return true;
    }
    if (!json_is_number(number)) {
        return mha_case_fail(record, "attribute %s is %s, it must be a number", attribute,
                             json_kind(number));
    }
    double found = json_number_value(number);
    if (!(fabs(found) <= FLT_MAX)) {
        return mha_case_fail(record, "attribute %s is %g, it must fit a float", attribute, found);
    }
    *value = (float)found;
    return true;
}

bool mha_case_string(struct mha_case *record, const char *attribute, const char **value)
{
    const json_t *text = json_object_get(record->attributes, attribute);
    if (!text) {
        return true;
    }
    if (!json_is_string(text)) {
        return mha_case_fail(record, "attribute %s is %s, it must be a string", attribute,
                             json_kind(text));
    }
    *value = json_string_value(text);
    return true;
}
