/*
 * NumPy's .npy files: reading, writing, and conversion of their elements.
 *
 * Read: format versions 1.0, 2.0 and 3.0; C and Fortran order; little and big endian; the types
 * of enum mha_npy_type. Whatever the file's layout, the array in memory is in C order and in the
 * machine's own byte order. Written: version 1.0 in C order and the machine's
 * own byte order; at MHA_NPY_MAX_RANK dimensions a header never outgrows version 1.0.
 *
 * Functions that return bool return true on success. On failure they return false and leave in
 * `error` one sentence that names the file, what was found and what is needed.
 */
#ifndef MHA_CLI_NPY_H
#define MHA_CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MHA_NPY_MAX_RANK 8

enum mha_npy_type {
    MHA_NPY_BOOL, /* b1: one byte, 0 or 1 (a file's other non-zero bytes are read as 1) */
    MHA_NPY_U8,   /* u1 */
    MHA_NPY_I32,  /* i4 */
    MHA_NPY_I64,  /* i8 */
    MHA_NPY_F16,  /* f2, held as uint16_t */
    MHA_NPY_BF16, /* V2, what the ml_dtypes package writes for bfloat16; held as uint16_t */
    MHA_NPY_F32,  /* f4 */
    MHA_NPY_F64   /* f8 */
};

struct mha_npy {
    enum mha_npy_type type;
    int rank; /* 0 is a scalar: count is 1 */
    int64_t shape[MHA_NPY_MAX_RANK];
    size_t count; /* number of elements, the product of shape */
    size_t bytes; /* count * mha_npy_item_size(type) */
    void *data;   /* never NULL after a successful read, even when count is 0 */
};

/* Bytes of one element. */
size_t mha_npy_item_size(enum mha_npy_type type);

/* "bool", "u8", "i32", "i64", "f16", "bf16", "f32", "f64". */
const char *mha_npy_type_name(enum mha_npy_type type);

/* True for f16, bf16, f32 and f64. */
bool mha_npy_is_float(enum mha_npy_type type);

/*
 * Writes the shape as Python would, "(2, 3)", "(3,)" or "()", cut to size; returns text.
 * MHA_NPY_SHAPE_TEXT bytes are always enough.
 */
#define MHA_NPY_SHAPE_TEXT (MHA_NPY_MAX_RANK * 22 + 3)
char *mha_npy_shape_text(int rank, const int64_t *shape, char *text, size_t size);

/* The same for an element, "(0, 2, 1)", by its place in C order. */
char *mha_npy_element_text(const struct mha_npy *array, size_t flat, char *text, size_t size);

/*
 * Reads a whole file. Allocates only what the file's real size allows. On failure `array` is
 * empty and needs no release.
 */
bool mha_npy_read(const char *path, struct mha_npy *array, char *error, size_t error_size);

/* Releases the data and empties the struct. Safe on an empty or zeroed struct and on NULL. */
void mha_npy_free(struct mha_npy *array);

/*
 * Writes `data` (C order, native byte order, shape[0..rank-1]) under `path`. The file appears
 * only when it is complete; see output_file.h.
 */
bool mha_npy_write(const char *path, enum mha_npy_type type, int rank, const int64_t *shape,
                   const void *data, char *error, size_t error_size);

/*
 * The elements as another type, in memory that the caller frees. NULL means out of memory, and
 * for the last two also a floating-point array. Never NULL for an empty array. Floating-point
 * values are rounded once, integers beyond 2^53 may be rounded twice.
 */
float *mha_npy_to_f32(const struct mha_npy *array);     /* from any type, rounded to nearest */
uint16_t *mha_npy_to_f16(const struct mha_npy *array);  /* from any type, rounded to nearest */
uint16_t *mha_npy_to_bf16(const struct mha_npy *array); /* from any type, rounded to nearest */
double *mha_npy_to_f64(const struct mha_npy *array);    /* from any type */
int64_t *mha_npy_to_i64(const struct mha_npy *array);   /* from bool and integers only */
uint8_t *mha_npy_to_bool(const struct mha_npy *array);  /* 0 or 1; from bool and integers only */

/*
 * Single elements. To nearest, ties to even; subnormals, infinities and signed zeros are kept;
 * values beyond the largest become infinite; a NaN stays a NaN.
 */
float mha_npy_f16_to_f32(uint16_t bits);
float mha_npy_bf16_to_f32(uint16_t bits);
uint16_t mha_npy_f64_to_f16(double value); /* a float argument converts exactly */
uint16_t mha_npy_f64_to_bf16(double value);

#endif
