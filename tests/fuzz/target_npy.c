/*
 * The reader of .npy files, its header parser, the conversions, and the way back through the
 * writer. Input: a file; or, behind a first byte that no .npy file has, a header's dict.
 */
#include "npy.h"

#include <math.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "npy_header.h"

enum { DICT_MARK = 'D' };

static void check_shape(int rank, const int64_t *shape)
{
    FUZZ_ASSERT(rank >= 0 && rank <= MHA_NPY_MAX_RANK);
    for (int axis = 0; axis < rank; axis++) {
        FUZZ_ASSERT(shape[axis] >= 0);
    }
}

/* What was parsed can be written as a header that parses to the same. */
static void try_dict(const char *dict, size_t length)
{
    struct mha_npy_header header, again;
    unsigned char bytes[MHA_NPY_HEADER_SIZE];
    char error[256] = "";
    if (!mha_npy_header_parse(dict, length, &header, error, sizeof error)) {
        FUZZ_ASSERT(strlen(error) > 8 && strlen(error) < sizeof error);
        return;
    }
    check_shape(header.rank, header.shape);
    const size_t size = mha_npy_header_format(&header, bytes);
    FUZZ_ASSERT(size % 64 == 0 && size <= sizeof bytes);
    FUZZ_ASSERT(mha_npy_header_parse((char *)bytes + 10, size - 10, &again, error, sizeof error));
    FUZZ_ASSERT(header.type == again.type && header.rank == again.rank);
    FUZZ_ASSERT(header.big_endian == again.big_endian);
    FUZZ_ASSERT(header.fortran_order == again.fortran_order);
    FUZZ_ASSERT(memcmp(header.shape, again.shape, sizeof header.shape) == 0);
}

/* Values of each type are those of the elements, as far as a double holds them. */
static void try_conversions(const struct mha_npy *array)
{
    const bool is_float = mha_npy_is_float(array->type);
    double *f64 = mha_npy_to_f64(array);
    float *f32 = mha_npy_to_f32(array);
    uint16_t *f16 = mha_npy_to_f16(array), *bf16 = mha_npy_to_bf16(array);
    int64_t *i64 = mha_npy_to_i64(array);
    uint8_t *bits = mha_npy_to_bool(array);
    FUZZ_ASSERT(f64 != NULL && f32 != NULL && f16 != NULL && bf16 != NULL);
    FUZZ_ASSERT((i64 == NULL) == is_float && (bits == NULL) == is_float);
    for (size_t i = 0; i < array->count; i++) {
        const float half = mha_npy_f16_to_f32(f16[i]), brain = mha_npy_bf16_to_f32(bf16[i]);
        FUZZ_ASSERT(isnan(f64[i]) == isnan(f32[i]));
        FUZZ_ASSERT(isnan(f64[i]) == isnan(half) && isnan(f64[i]) == isnan(brain));
        FUZZ_ASSERT(isnan(half) || mha_npy_f64_to_f16((double)half) == f16[i]);
        FUZZ_ASSERT(isnan(brain) || mha_npy_f64_to_bf16((double)brain) == bf16[i]);
        FUZZ_ASSERT(!(fabs(f64[i]) <= 65504) || fabs(half - f64[i]) <= 32);
        FUZZ_ASSERT(is_float || (bits[i] == (i64[i] != 0) && (double)i64[i] == f64[i]));
    }
    free(f64);
    free(f32);
    free(f16);
    free(bf16);
    free(i64);
    free(bits);
}

static void try_file(const uint8_t *data, size_t size)
{
    struct mha_npy array, again;
    char error[1024] = "", path[512];
    memset(&array, 0x5a, sizeof array);
    snprintf(path, sizeof path, "%s", fuzz_put("in.npy", data, size));
    if (!mha_npy_read(path, &array, error, sizeof error)) {
        FUZZ_ASSERT(array.data == NULL && array.count == 0);
        FUZZ_ASSERT(strlen(error) > 8 && strlen(error) < sizeof error);
        return;
    }
    check_shape(array.rank, array.shape);
    size_t count = 1;
    for (int axis = 0; axis < array.rank; axis++) {
        count *= (size_t)array.shape[axis];
    }
    FUZZ_ASSERT(array.data != NULL && array.count == count);
    FUZZ_ASSERT(array.bytes == count * mha_npy_item_size(array.type) && array.bytes < size);
    try_conversions(&array);

    snprintf(path, sizeof path, "%s", fuzz_path("out.npy"));
    FUZZ_ASSERT(
        mha_npy_write(path, array.type, array.rank, array.shape, array.data, error, sizeof error));
    FUZZ_ASSERT(mha_npy_read(path, &again, error, sizeof error));
    FUZZ_ASSERT(again.type == array.type && again.rank == array.rank);
    FUZZ_ASSERT(memcmp(again.shape, array.shape, sizeof array.shape) == 0);
    FUZZ_ASSERT(again.bytes == array.bytes);
    FUZZ_ASSERT(array.bytes == 0 || memcmp(again.data, array.data, array.bytes) == 0);
    mha_npy_free(&again);
    mha_npy_free(&array);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == DICT_MARK) {
        try_dict((const char *)data + 1, size - 1);
    } else {
        try_file(data, size);
    }
    return 0;
}
