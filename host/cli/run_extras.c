/*
 * gpu-mha run: mask, key lengths, ALiBi slopes and sinks.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "run_reader.h"

/* A bias beyond single precision stays finite: as an infinity it would hide its key. */
static void keep_finite(const double *from, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (isfinite(from[i]) && isinf(to[i])) {
            to[i] = copysignf(FLT_MAX, to[i]);
        }
    }
}

/* A bias in a type that the library knows. */
static bool convert_bias(const struct mha_run_reader *reader, const char *path,
                         struct mha_npy *array)
{
    if (array->type != MHA_NPY_F64) {
        return true;
    }
    double *exact = array->data;
    array->data = mha_npy_to_f32(array);
    if (array->data) {
        keep_finite(exact, array->data, array->count);
        array->type = MHA_NPY_F32;
        array->bytes = array->count * sizeof(float);
    }
    free(exact);
    return array->data ||
           mha_run_refuse(reader, "%s: out of memory while converting f64 to f32", path);
}

/* The descriptor's mask or bias is set from what the file holds. */
static bool read_mask(const struct mha_run_reader *reader, const char *path, struct mha_npy *mask)
{
    gpu_mha_mask_type type = GPU_MHA_MASK_BOOL;

    if (mask->type != MHA_NPY_BOOL) {
        /* 0 and 1 as integers are read as "hide" by some libraries and "attend" by others. */
        if (!mha_npy_is_float(mask->type)) {
            return mha_run_refuse(
                reader,
                "%s holds %s; a mask must hold b1 (true is attended to) or floats "
                "(added to the scores)",
                path, mha_npy_type_name(mask->type));
        }
        if (!convert_bias(reader, path, mask)) {
            return false;
        }
        type = mask->type == MHA_NPY_F16    ? GPU_MHA_MASK_F16
               : mask->type == MHA_NPY_BF16 ? GPU_MHA_MASK_BF16
                                            : GPU_MHA_MASK_F32;
    }
    if (gpu_mha_mask_broadcast(&reader->problem->desc, type, mask->rank, mask->shape)) {
        return mha_run_refuse(reader, "%s: %s", path, gpu_mha_last_error());
    }
    return true;
}

/* --mask may hold either kind; what it holds leaves --bias the other one. */
static bool read_masks(const struct mha_run_reader *reader)
{
    const struct mha_run_options *options = reader->options;
    struct mha_run_problem *problem = reader->problem;

    if (options->mask) {
        struct mha_npy mask;
        if (!mha_npy_read(options->mask, &mask, reader->error, reader->error_size)) {
            return false;
        }
        struct mha_npy *kept = mha_npy_is_float(mask.type) ? &problem->bias : &problem->mask;
        *kept = mask;
        if (!read_mask(reader, options->mask, kept)) {
            return false;
        }
    }
    if (!options->bias) {
        return true;
    }
    if (problem->bias.data) {
        return mha_run_refuse(reader, "%s holds %s; beside --bias a mask must hold b1",
                              options->mask, mha_npy_type_name(problem->bias.type));
    }
    return mha_run_read_floats(reader, options->bias, &problem->bias) &&
           read_mask(reader, options->bias, &problem->bias);
}

static bool read_key_lengths(const struct mha_run_reader *reader)
{
    const char *path = reader->options->key_lengths;
    struct mha_npy *lengths = &reader->problem->key_lengths;
    gpu_mha_desc *desc = &reader->problem->desc;

    if (!path) {
        return true;
    }
    if (!mha_npy_read(path, lengths, reader->error, reader->error_size)) {
        return false;
    }
    if (lengths->type != MHA_NPY_I32 && lengths->type != MHA_NPY_I64) {
        return mha_run_refuse(reader, "%s holds %s; key lengths must be i4 or i8", path,
                              mha_npy_type_name(lengths->type));
    }
    if (!mha_run_check_shape(reader, path, lengths, "(B,)", 1, (const int64_t[]){desc->B})) {
        return false;
    }
    desc->key_lengths = lengths->type == MHA_NPY_I32 ? GPU_MHA_I32 : GPU_MHA_I64;
    for (size_t b = 0; b < lengths->count; b++) {
        int64_t length = lengths->type == MHA_NPY_I32 ? ((const int32_t *)lengths->data)[b]
                                                      : ((const int64_t *)lengths->data)[b];
        if (length < 0 || length > desc->NP + desc->NK) {
            return mha_run_refuse(reader,
                                  "%s says %lld keys for batch entry %zu, but must say 0 to %lld",
                                  path, (long long)length, b, (long long)(desc->NP + desc->NK));
        }
    }
    return true;
}

/* One float per query head. */
static bool read_per_head(const struct mha_run_reader *reader, const char *path,
                          struct mha_npy *array)
{
    if (!path) {
        return true;
    }
    if (!mha_run_read_floats(reader, path, array)) {
        return false;
    }
    return mha_run_check_shape(reader, path, array, "(H,)", 1,
                               (const int64_t[]){reader->problem->desc.H}) &&
           mha_run_convert(reader, path, array, MHA_NPY_F32);
}

bool mha_run_read_extras(const struct mha_run_reader *reader)
{
    const struct mha_run_options *options = reader->options;
    struct mha_run_problem *problem = reader->problem;

    return read_masks(reader) && read_key_lengths(reader) &&
           read_per_head(reader, options->alibi_slopes, &problem->alibi_slopes) &&
           read_per_head(reader, options->sinks, &problem->sinks);
}
