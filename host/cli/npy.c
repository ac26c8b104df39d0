/* Reading and writing .npy files; see npy.h. The header's grammar is in npy_header.c. */
#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "npy_header.h"
#include "output_file.h"
#include "report.h"

enum {
    MAGIC_SIZE = 6,
    PREFIX_SIZE = 12,                 /* magic, version, longest length field */
    MAXIMUM_HEADER_LENGTH = 64 * 1024 /* NumPy itself writes some hundred bytes */
};

static const struct {
    const char *name;
    size_t size;
    bool is_float;
} types[] = {
    [MHA_NPY_BOOL] = {"bool", 1, false}, [MHA_NPY_U8] = {"u8", 1, false},
    [MHA_NPY_I32] = {"i32", 4, false},   [MHA_NPY_I64] = {"i64", 8, false},
    [MHA_NPY_F16] = {"f16", 2, true},    [MHA_NPY_BF16] = {"bf16", 2, true},
    [MHA_NPY_F32] = {"f32", 4, true},    [MHA_NPY_F64] = {"f64", 8, true},
};

size_t mha_npy_item_size(enum mha_npy_type type)
{
    return types[type].size;
}

const char *mha_npy_type_name(enum mha_npy_type type)
{
    return types[type].name;
}

bool mha_npy_is_float(enum mha_npy_type type)
{
    return types[type].is_float;
}

char *mha_npy_shape_text(int rank, const int64_t *shape, char *text, size_t size)
{
    snprintf(text, size, rank == 0 ? "()" : "(");
    for (int i = 0; i < rank; i++) {
        const char *after = i + 1 < rank ? ", " : rank == 1 ? ",)" : ")";
        size_t length = strlen(text);
        snprintf(text + length, size - length, "%lld%s", (long long)shape[i], after);
    }
    return text;
}

char *mha_npy_element_text(const struct mha_npy *array, size_t flat, char *text, size_t size)
{
    int64_t index[MHA_NPY_MAX_RANK] = {0};

    for (int axis = array->rank - 1; axis >= 0; axis--) {
        index[axis] = (int64_t)(flat % (size_t)array->shape[axis]);
        flat /= (size_t)array->shape[axis];
    }
    return mha_npy_shape_text(array->rank, index, text, size);
}

static bool host_is_big_endian(void)
{
    const uint16_t probe = 1;
    unsigned char first;

    memcpy(&first, &probe, 1);
    return first == 0;
}

/* Reads exactly `size` bytes; false at an error (errno set) or at an early end (errno 0). */
static bool read_exactly(int descriptor, void *buffer, size_t size)
{
    unsigned char *at = buffer;

    while (size > 0) {
        errno = 0;
        ssize_t got = read(descriptor, at, size);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        at += got;
        size -= (size_t)got;
    }
    return true;
}

static bool fail_read(const char *path, char *error, size_t error_size)
{
    return mha_fail(error, error_size, "cannot read '%s': %s", path,
                    errno != 0 ? strerror(errno) : "it became shorter while it was read");
}

/* Opens a regular file and takes its size. Never blocks, whatever `path` turns out to be. */
static int open_regular(const char *path, int64_t *size, char *error, size_t error_size)
{
    struct stat status;
    int descriptor;

    if (strcmp(path, "-") == 0) {
        mha_fail(error, error_size,
                 "cannot read '-': standard input is not supported; name a "
                 ".npy file ('./-' if it is called that)");
        return -1;
    }
    descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0) {
        fail_read(path, error, error_size);
        return -1;
    }
    if (fstat(descriptor, &status) != 0) {
        fail_read(path, error, error_size);
        close(descriptor);
        return -1;
    }
    if (!S_ISREG(status.st_mode)) {
        mha_fail(error, error_size, "cannot read '%s': it is %s; a regular .npy file is needed",
                 path, S_ISDIR(status.st_mode) ? "a directory" : "a device, pipe or socket");
        close(descriptor);
        return -1;
    }
    *size = (int64_t)status.st_size;
    return descriptor;
}

/* Reads magic, version and length field: where the dict starts, and how long it is. */
static bool read_prefix(int descriptor, const char *path, int64_t file_size, size_t *dict_offset,
                        size_t *dict_length, char *error, size_t error_size)
{
    unsigned char prefix[PREFIX_SIZE] = {0};
    size_t available = file_size < PREFIX_SIZE ? (size_t)file_size : PREFIX_SIZE;

    if (!read_exactly(descriptor, prefix, available)) {
        return fail_read(path, error, error_size);
    }
    if (file_size == 0) {
        return mha_fail(error, error_size, "'%s' is empty; a .npy file is needed", path);
    }
    if (available < MAGIC_SIZE || memcmp(prefix, "\x93NUMPY", MAGIC_SIZE) != 0) {
        return mha_fail(error, error_size,
                        "'%s' is not a .npy file: it does not start with the "
                        "byte 0x93 and 'NUMPY'",
                        path);
    }
    if (available < 10) {
        return mha_fail(error, error_size,
                        "'%s' is cut off: it has %zu bytes, and the fixed part "
                        "of a .npy header alone has 10",
                        path, available);
    }
    if (prefix[6] < 1 || prefix[6] > 3 || prefix[7] != 0) {
        return mha_fail(error, error_size,
                        "'%s' has .npy format version %d.%d; "
                        "versions 1.0, 2.0 and 3.0 are read",
                        path, prefix[6], prefix[7]);
    }
    *dict_offset = prefix[6] == 1 ? 10 : 12;
    *dict_length = (size_t)prefix[8] | (size_t)prefix[9] << 8;
    if (prefix[6] != 1) {
        *dict_length |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
    }
    if ((uint64_t)file_size < *dict_offset + *dict_length) {
        return mha_fail(error, error_size,
                        "'%s' is cut off: its header needs %zu bytes, and the "
                        "file has %lld",
                        path, *dict_offset + *dict_length, (long long)file_size);
    }
    if (*dict_length > MAXIMUM_HEADER_LENGTH) {
        return mha_fail(error, error_size, "'%s' has a header of %zu bytes; at most %d are read",
                        path, *dict_length, MAXIMUM_HEADER_LENGTH);
    }
    return true;
}

static bool read_header(int descriptor, const char *path, int64_t file_size,
                        struct mha_npy_header *header, int64_t *data_size, char *error,
                        size_t error_size)
{
    char reason[256];
    char *dict = NULL;
    size_t offset = 0, length = 0;
    bool done = false;

    if (!read_prefix(descriptor, path, file_size, &offset, &length, error, error_size)) {
        goto cleanup;
    }
    dict = malloc(length + 1);
    if (!dict) {
        mha_fail(error, error_size, "cannot read '%s': out of memory", path);
        goto cleanup;
    }
    if (lseek(descriptor, (off_t)offset, SEEK_SET) < 0 || !read_exactly(descriptor, dict, length)) {
        fail_read(path, error, error_size);
        goto cleanup;
    }
    if (!mha_npy_header_parse(dict, length, header, reason, sizeof reason)) {
        mha_fail(error, error_size, "'%s' is not usable: %s", path, reason);
        goto cleanup;
    }
    *data_size = file_size - (int64_t)(offset + length);
    done = true;

cleanup:
    free(dict);
    return done;
}

/*
 * Sets type, shape, count and bytes of `array`, after comparing them with the bytes that the file
 * really has. A zero length does not excuse the others: their product must be a size too.
 */
static bool set_shape(struct mha_npy *array, const struct mha_npy_header *header, const char *path,
                      int64_t data_size, char *error, size_t error_size)
{
    char shape[MHA_NPY_SHAPE_TEXT];
    size_t item = mha_npy_item_size(header->type);
    size_t product = 1;
    bool empty = false;

    mha_npy_shape_text(header->rank, header->shape, shape, sizeof shape);
    for (int i = 0; i < header->rank; i++) {
        uint64_t length = (uint64_t)header->shape[i];
        empty = empty || length == 0;
        if (length != 0 && length > (uint64_t)PTRDIFF_MAX / item / product) {
            return mha_fail(error, error_size,
                            "'%s' has the shape %s, whose size in bytes is "
                            "beyond this machine's memory addresses",
                            path, shape);
        }
        product *= length != 0 ? (size_t)length : 1;
    }
    array->type = header->type;
    array->rank = header->rank;
    memcpy(array->shape, header->shape, sizeof array->shape);
    array->count = empty ? 0 : product;
    array->bytes = array->count * item;
    if ((uint64_t)data_size != array->bytes) {
        return mha_fail(error, error_size,
                        "'%s' is %s: %s of the shape %s need %zu bytes behind "
                        "the header, and the file has %lld",
                        path, (uint64_t)data_size < array->bytes ? "cut off" : "too long",
                        mha_npy_type_name(array->type), shape, array->bytes, (long long)data_size);
    }
    return true;
}

static void swap_bytes(unsigned char *data, size_t count, size_t item)
{
    for (size_t i = 0; i < count; i++, data += item) {
        for (size_t low = 0, high = item - 1; low < high; low++, high--) {
            unsigned char kept = data[low];
            data[low] = data[high];
            data[high] = kept;
        }
    }
}

/* Copies the Fortran-ordered `from` into the C-ordered `to`; count is not 0. */
static void reorder(const struct mha_npy *array, const unsigned char *from, unsigned char *to)
{
    size_t item = mha_npy_item_size(array->type);
    size_t stride[MHA_NPY_MAX_RANK]; /* of `from`, in bytes */
    int64_t index[MHA_NPY_MAX_RANK] = {0};
    size_t offset = 0, step = item;

    for (int i = 0; i < array->rank; i++) {
        stride[i] = step;
        step *= (size_t)array->shape[i];
    }
    for (size_t n = 0; n < array->count; n++, to += item) {
        memcpy(to, from + offset, item);
        for (int i = array->rank - 1; i >= 0; i--) {
            offset += stride[i];
            if (++index[i] < array->shape[i]) {
                break;
            }
            offset -= stride[i] * (size_t)array->shape[i];
            index[i] = 0;
        }
    }
}

/* Brings array->data from the file's layout into the one that npy.h promises. */
static bool normalise(struct mha_npy *array, const struct mha_npy_header *header)
{
    size_t item = mha_npy_item_size(array->type);
    unsigned char *data = array->data;

    if (array->count == 0) {
        return true;
    }
    if (item > 1 && header->big_endian != host_is_big_endian()) {
        swap_bytes(data, array->count, item);
    }
    for (size_t i = 0; array->type == MHA_NPY_BOOL && i < array->count; i++) {
        data[i] = data[i] != 0;
    }
    if (header->fortran_order && array->rank > 1) {
        unsigned char *reordered = malloc(array->bytes);
        if (!reordered) {
            return false;
        }
        reorder(array, data, reordered);
        free(array->data);
        array->data = reordered;
    }
    return true;
}

bool mha_npy_read(const char *path, struct mha_npy *array, char *error, size_t error_size)
{
    struct mha_npy_header header;
    int64_t file_size, data_size;
    bool done = false;

    memset(array, 0, sizeof *array);
    int descriptor = open_regular(path, &file_size, error, error_size);
    if (descriptor < 0) {
        goto cleanup;
    }
    if (!read_header(descriptor, path, file_size, &header, &data_size, error, error_size) ||
        !set_shape(array, &header, path, data_size, error, error_size)) {
        goto cleanup;
    }
    array->data = malloc(array->bytes > 0 ? array->bytes : 1);
    if (!array->data) {
        mha_fail(error, error_size, "cannot read '%s': out of memory for its %zu bytes", path,
                 array->bytes);
        goto cleanup;
    }
    if (!read_exactly(descriptor, array->data, array->bytes)) {
        fail_read(path, error, error_size);
        goto cleanup;
    }
    if (!normalise(array, &header)) {
        mha_fail(error, error_size, "cannot read '%s': out of memory for its %zu bytes", path,
                 array->bytes);
        goto cleanup;
    }
    done = true;

cleanup:
    if (descriptor >= 0) {
        close(descriptor);
    }
    if (!done) {
        mha_npy_free(array);
    }
    return done;
}

void mha_npy_free(struct mha_npy *array)
{
    if (!array) {
        return;
    }
    free(array->data);
    memset(array, 0, sizeof *array);
}

bool mha_npy_write(const char *path, enum mha_npy_type type, int rank, const int64_t *shape,
                   const void *data, char *error, size_t error_size)
{
    struct mha_npy_header header = {.type = type, .rank = rank};
    unsigned char bytes[MHA_NPY_HEADER_SIZE];
    struct mha_output_file file;
    size_t size = mha_npy_item_size(type);

    if (rank < 0 || rank > MHA_NPY_MAX_RANK) {
        return mha_fail(error, error_size,
                        "cannot write '%s': its rank is %d; at most %d "
                        "dimensions are written",
                        path, rank, MHA_NPY_MAX_RANK);
    }
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0 || (shape[i] > 0 && (uint64_t)shape[i] > SIZE_MAX / (size ? size : 1))) {
            return mha_fail(error, error_size,
                            "cannot write '%s': length %lld of dimension %d is "
                            "negative or too large",
                            path, (long long)shape[i], i);
        }
        header.shape[i] = shape[i];
        size *= (size_t)shape[i];
    }
    header.big_endian = host_is_big_endian();

    if (!mha_output_file_open(&file, path, error, error_size)) {
        return false;
    }
    size_t header_size = mha_npy_header_format(&header, bytes);
    mha_output_file_write(&file, bytes, header_size);
    mha_output_file_write(&file, data, size);
    return mha_output_file_commit(&file, error, error_size);
}
