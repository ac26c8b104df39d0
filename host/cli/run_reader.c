/*
 * gpu-mha run: checks and conversion of one array; see run_reader.h.
 */
#include "run_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHAPE_RULE_SIZE = 256 };

bool mha_run_refuse(const struct mha_run_reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->error, reader->error_size, format, arguments);
    va_end(arguments);
    return false;
}

bool mha_run_read_floats(const struct mha_run_reader *reader, const char *path,
                         struct mha_npy *array)
{
    if (!mha_npy_read(path, array, reader->error, reader->error_size)) {
        return false;
    }
    return mha_npy_is_float(array->type) ||
           mha_run_refuse(reader, "%s holds %s, but must hold floats (f2, f4 or f8)", path,
                          mha_npy_type_name(array->type));
}

bool mha_run_convert(const struct mha_run_reader *reader, const char *path, struct mha_npy *array,
                     enum mha_npy_type type)
{
    void *data = NULL;

    if (array->type == type) {
        return true;
    }
    if (type == MHA_NPY_F32) {
        data = mha_npy_to_f32(array);
    } else if (type == MHA_NPY_F16) {
        data = mha_npy_to_f16(array);
    } else if (type == MHA_NPY_BF16) {
        data = mha_npy_to_bf16(array);
    }
    if (!data) {
        return mha_run_refuse(reader, "%s: out of memory while converting %s to %s", path,
                              mha_npy_type_name(array->type), mha_npy_type_name(type));
    }
    free(array->data);
    array->data = data;
    array->type = type;
    array->bytes = array->count * mha_npy_item_size(type);
    return true;
}

bool mha_run_check_shape(const struct mha_run_reader *reader, const char *path,
                         const struct mha_npy *array, const char *axes, int rank,
                         const int64_t *wanted)
{
    char shape[MHA_NPY_SHAPE_TEXT];
    char rule[SHAPE_RULE_SIZE] = "";
    bool fits = array->rank == rank;
    size_t length = 0;

    for (int axis = 0; axis < rank; axis++) {
        fits = fits && (wanted[axis] == MHA_RUN_ANY || wanted[axis] == array->shape[axis]);
        const char *separator = axis ? ", " : "";
        int added = wanted[axis] == MHA_RUN_ANY
                        ? snprintf(rule + length, sizeof rule - length, "%sany", separator)
                        : snprintf(rule + length, sizeof rule - length, "%s%lld", separator,
                                   (long long)wanted[axis]);
        length += (size_t)added;
    }
    if (fits) {
        return true;
    }
    mha_npy_shape_text(array->rank, array->shape, shape, sizeof shape);
    return mha_run_refuse(reader, "%s has shape %s, but must be %s = (%s%s) here", path, shape,
                          axes, rule, rank == 1 ? "," : "");
}
