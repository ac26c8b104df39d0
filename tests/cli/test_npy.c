/*
 * .npy files: every layout that is read, every way to be malformed, and element conversion. Files
 * are composed byte by byte here, so that the reader is never checked against our own writer.
 */
#include <check.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "npy.h"
#include "report.h"

static char folder[] = "/tmp/test_npy_XXXXXX";
static char path[64];
static char error[MHA_ERROR_SIZE];

static void enter_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.npy", folder);
}

static void leave_folder(void)
{
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* fails when a temporary file was left behind */
}

struct image {
    unsigned char bytes[4096];
    size_t size;
};

/* A file of the given version whose header is exactly `dict`; the data follow. */
static struct image compose(int version, const char *dict, const void *data, size_t data_size)
{
    struct image image = {.size = 0};
    size_t length = strlen(dict);

    memcpy(image.bytes, "\x93NUMPY", 6);
    image.bytes[6] = (unsigned char)version;
    image.bytes[8] = (unsigned char)(length & 0xff);
    image.bytes[9] = (unsigned char)(length >> 8);
    image.size = version == 1 ? 10 : 12;
    ck_assert_uint_le(image.size + length + data_size, sizeof image.bytes);
    memcpy(image.bytes + image.size, dict, length);
    image.size += length;
    if (data_size > 0) {
        memcpy(image.bytes + image.size, data, data_size);
    }
    image.size += data_size;
    return image;
}

static void store(const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

/* The file is refused with one sentence that names the file and contains `fragment`. */
static void expect_refusal(const char *fragment)
{
    struct mha_npy array;

    memset(error, 0, sizeof error);
    ck_assert_msg(!mha_npy_read(path, &array, error, sizeof error), "accepted; wanted: %s",
                  fragment);
    ck_assert_ptr_null(array.data);
    ck_assert_msg(strstr(error, path) != NULL, "no path in: %s", error);
    ck_assert_msg(strstr(error, fragment) != NULL, "no '%s' in: %s", fragment, error);
    ck_assert_ptr_null(strchr(error, '\n'));
}

static struct mha_npy expect_array(enum mha_npy_type type, int rank, const int64_t *shape)
{
    struct mha_npy array;
    size_t count = 1;

    ck_assert_msg(mha_npy_read(path, &array, error, sizeof error), "refused: %s", error);
    ck_assert_int_eq(array.type, type);
    ck_assert_int_eq(array.rank, rank);
    for (int i = 0; i < rank; i++) {
        ck_assert_int_eq(array.shape[i], shape[i]);
        count *= (size_t)shape[i];
    }
    ck_assert_uint_eq(array.count, count);
    ck_assert_uint_eq(array.bytes, count * mha_npy_item_size(type));
    ck_assert_ptr_nonnull(array.data);
    return array;
}

START_TEST(reads_all_versions)
{
    static const float data[] = {1.5f, -2.25f, 3e30f, 0.0f, -0.5f, 7.0f};
    static const int64_t shape[] = {2, 3};

    for (int version = 1; version <= 3; version++) {
        struct image image =
            compose(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n",
                    data, sizeof data);
        store(image.bytes, image.size);
        struct mha_npy array = expect_array(MHA_NPY_F32, 2, shape);
        ck_assert_mem_eq(array.data, data, sizeof data);
        mha_npy_free(&array);
        mha_npy_free(&array);
    }
}
END_TEST

/* All spellings of each type, with one element whose value is known as bytes, least first. */
static const struct {
    const char *code;
    enum mha_npy_type type;
    unsigned char little[8];
    double value;
} elements[] = {
    {"f2", MHA_NPY_F16, {0x00, 0xc1}, -2.5},
    {"f4", MHA_NPY_F32, {0x00, 0x00, 0x20, 0xc0}, -2.5},
    {"f8", MHA_NPY_F64, {0, 0, 0, 0, 0, 0, 0x04, 0xc0}, -2.5},
    {"V2", MHA_NPY_BF16, {0x20, 0xc0}, -2.5},
    {"i4", MHA_NPY_I32, {0xfe, 0xff, 0xff, 0xff}, -2},
    {"i8", MHA_NPY_I64, {0x01, 0x02, 0, 0, 0, 0, 0, 0}, 513},
    {"u1", MHA_NPY_U8, {200}, 200},
    {"b1", MHA_NPY_BOOL, {1}, 1},
    {"?", MHA_NPY_BOOL, {7}, 1}, /* any non-zero byte is true */
};

START_TEST(reads_every_type_in_both_byte_orders)
{
    static const char *const orders[] = {"<", ">", "=", "|", ""};
    const size_t item = mha_npy_item_size(elements[_i].type);

    for (size_t n = 0; n < sizeof orders / sizeof orders[0]; n++) {
        unsigned char data[8];
        char dict[128];
        for (size_t i = 0; i < item; i++) {
            data[i] = elements[_i].little[*orders[n] == '>' ? item - 1 - i : i];
        }
        snprintf(dict, sizeof dict, "{'descr': '%s%s', 'fortran_order': False, 'shape': ()}",
                 orders[n], elements[_i].code);
        struct image image = compose(1, dict, data, item);
        store(image.bytes, image.size);
        struct mha_npy array = expect_array(elements[_i].type, 0, NULL);
        double *value = mha_npy_to_f64(&array);
        ck_assert_ptr_nonnull(value);
        ck_assert_double_eq(*value, elements[_i].value);
        free(value);
        mha_npy_free(&array);
    }
}
END_TEST

START_TEST(brings_fortran_order_and_big_endian_to_native_c_order)
{
    enum { A = 2, B = 3, C = 5, D = 4 };
    static const int64_t shape[] = {A, B, C, D};
    unsigned char data[A * B * C * D * 4];

    for (int a = 0; a < A; a++) {
        for (int b = 0; b < B; b++) {
            for (int c = 0; c < C; c++) {
                for (int d = 0; d < D; d++) {
                    int32_t value = 1000 * a + 100 * b + 10 * c + d - 1500;
                    unsigned char *at = data + 4 * (a + A * (b + B * (c + C * d)));
                    for (int i = 0; i < 4; i++) {
                        at[i] = (unsigned char)((uint32_t)value >> (24 - 8 * i));
                    }
                }
            }
        }
    }
    struct image image =
        compose(2, "{'shape':(2,3,5,4),'fortran_order':True,'descr':'>i4'}\n", data, sizeof data);
    store(image.bytes, image.size);
    struct mha_npy array = expect_array(MHA_NPY_I32, 4, shape);
    const int32_t *value = array.data;
    for (int a = 0; a < A; a++) {
        for (int b = 0; b < B; b++) {
            for (int c = 0; c < C; c++) {
                for (int d = 0; d < D; d++) {
                    ck_assert_int_eq(*value++, 1000 * a + 100 * b + 10 * c + d - 1500);
                }
            }
        }
    }
    mha_npy_free(&array);
}
END_TEST

START_TEST(reads_every_legal_spelling_of_the_header)
{
    static const struct {
        const char *dict;
        int rank;
        int64_t shape[3];
    } legal[] = {
        {"{'descr':'<f4','fortran_order':False,'shape':(3,)}", 1, {3}},
        {"{\"shape\" : ( 3 , ) , \"descr\" : \"<f4\" , \"fortran_order\" : False , } \n", 1, {3}},
        {"\t{ 'fortran_order':True,\n'shape':(1,3),'descr':'<f4'}\r\n", 2, {1, 3}},
        {"{'descr':'<f4','fortran_order':True,'shape':(3,1,1,)}", 3, {3, 1, 1}},
        {"{'descr':'<f4','fortran_order':False,'shape':(3L,)}", 1, {3}},
    };
    static const float data[] = {1, 2, 3};

    for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++) {
        struct image image = compose(1, legal[i].dict, data, sizeof data);
        store(image.bytes, image.size);
        struct mha_npy array = expect_array(MHA_NPY_F32, legal[i].rank, legal[i].shape);
        ck_assert_mem_eq(array.data, data, sizeof data);
        mha_npy_free(&array);
    }
}
END_TEST

START_TEST(reads_empty_arrays)
{
    static const int64_t shape[] = {3, 0, 5};

    for (int fortran = 0; fortran < 2; fortran++) {
        char dict[128];
        snprintf(dict, sizeof dict, "{'descr': '>f8', 'fortran_order': %s, 'shape': (3, 0, 5)}",
                 fortran ? "True" : "False");
        struct image image = compose(1, dict, NULL, 0);
        store(image.bytes, image.size);
        struct mha_npy array = expect_array(MHA_NPY_F64, 3, shape);
        float *converted = mha_npy_to_f32(&array);
        ck_assert_ptr_nonnull(converted);
        free(converted);
        mha_npy_free(&array);
    }
}
END_TEST

static const struct {
    const char *dict, *fragment;
} malformed[] = {
    {"", "ends at byte 0"},
    {"[]", "'{' is needed"},
    {"{", "a key in quotes or '}' is needed"},
    {"{}", "no key 'descr'"},
    {"{'descr': '<f4', 'shape': (1,)}", "no key 'fortran_order'"},
    {"{'descr': '<f4', 'fortran_order': False}", "no key 'shape'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "nothing but blanks"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "',' or '}' is needed"},
    {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", "',' or '}' is needed"},
    {"{'descr': '<f4',, 'fortran_order': False, 'shape': (1,)}", "a key in quotes"},
    {"{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}", "':' is needed"},
    {"{descr: '<f4', 'fortran_order': False, 'shape': (1,)}", "a key in quotes"},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "twice"},
    {"{'more': 1, 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "unknown key 'more'"},
    {"{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}", "element type is '<f4, '"},
    {"{'descr': '<f4", "the closing quote"},
    {"{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (1,)}", "a printable ASCII"},
    {"{'descr': 'caf\xc3\xa9', 'fortran_order': False, 'shape': (1,)}", "a printable ASCII"},
    {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "element type is '<c8'"},
    {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "element type is '|O'"},
    {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", "element type is ''"},
    {"{'descr': '<<f4', 'fortran_order': False, 'shape': (1,)}", "element type is '<<f4'"},
    {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}", "record with fields"},
    {"{'descr': None, 'fortran_order': False, 'shape': (1,)}", "the element type in quotes"},
    {"{'descr': '<f4', 'fortran_order': false, 'shape': (1,)}", "True or False"},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "True or False"},
    {"{'descr': '<f4', 'fortran_order': Falsely, 'shape': (1,)}", "',' or '}' is needed"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", "a tuple of one"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': 1}", "the shape as a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': [1]}", "the shape as a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "a length or ')'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}", "a length or ')'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}", "is needed"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1", "',' or ')'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}", "is needed"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (01,)}", "leading zeros"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "negative length"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "dimensions"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", "2^63-1"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}", "beyond"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "beyond"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296)}", "beyond"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", "cut off"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "cut off"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", "too long"},
    {"{'descr': '<f2', 'fortran_order': False, 'shape': (1,)}", "too long"},
};

START_TEST(refuses_malformed_headers)
{
    static const float data[] = {1};
    struct image image = compose(1, malformed[_i].dict, data, sizeof data);

    store(image.bytes, image.size);
    expect_refusal(malformed[_i].fragment);
}
END_TEST

START_TEST(refuses_bad_prefixes)
{
    static const float data[] = {1};
    const char *dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}";
    struct image good = compose(1, dict, data, sizeof data), bad;

    store("", 0);
    expect_refusal("is empty");
    store("PK\x03\x04 a zip archive", 18);
    expect_refusal("is not a .npy file");
    bad = good;
    bad.bytes[6] = 4;
    store(bad.bytes, bad.size);
    expect_refusal("version 4.0");
    bad = good;
    bad.bytes[7] = 1;
    store(bad.bytes, bad.size);
    expect_refusal("version 1.1");
    bad = good;
    bad.bytes[9] = 0xff;
    store(bad.bytes, bad.size);
    expect_refusal("is cut off: its header needs");
    bad = compose(2, dict, data, sizeof data);
    memset(bad.bytes + 8, 0xff, 4); /* a header of 4 GiB must not be allocated */
    store(bad.bytes, bad.size);
    expect_refusal("is cut off: its header needs 4294967307 bytes");
}
END_TEST

START_TEST(refuses_a_huge_header_that_the_file_really_has)
{
    size_t size = 200000;
    unsigned char *bytes = calloc(1, size);

    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, "\x93NUMPY\x02\x00\x40\x0d\x03\x00", 12); /* 200000 bytes */
    bytes[8] = 0x34;                                        /* less the 12 before it */
    store(bytes, size);
    free(bytes);
    expect_refusal("a header of 199988 bytes");
}
END_TEST

START_TEST(refuses_every_truncation_and_extension)
{
    static const double data[] = {1, 2, 3};
    struct image image = compose(
        3, "{'descr': '<f8', 'fortran_order': True, 'shape': (3, 1), }   \n", data, sizeof data);

    for (size_t size = 0; size < image.size; size++) {
        store(image.bytes, size);
        expect_refusal("'");
    }
    for (size_t more = 1; more < 20; more++) {
        store(image.bytes, image.size + more);
        expect_refusal("too long");
    }
}
END_TEST

/* Every byte before the data takes every other value: refused or read, but never a crash. */
START_TEST(survives_every_flip_of_a_header_byte)
{
    static const float data[] = {1, 2, 3, 4, 5, 6};
    const struct image good = compose(
        1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", data, sizeof data);
    int accepted = 0, refused = 0;

    for (size_t at = 0; at < good.size - sizeof data; at++) {
        for (int flip = 1; flip < 256; flip++) {
            struct image image = good;
            struct mha_npy array;
            image.bytes[at] ^= (unsigned char)flip;
            store(image.bytes, image.size);
            memset(error, 0, sizeof error);
            if (mha_npy_read(path, &array, error, sizeof error)) {
                ck_assert_uint_eq(array.bytes, sizeof data);
                accepted++;
            } else {
                ck_assert_ptr_null(array.data);
                ck_assert_ptr_nonnull(strstr(error, path));
                refused++;
            }
            mha_npy_free(&array);
        }
    }
    ck_assert_int_gt(refused, 1000);
    ck_assert_int_gt(accepted, 0); /* such as a tab for a space, or '>' for '<' */
}
END_TEST

START_TEST(refuses_what_is_not_a_regular_file)
{
    struct mha_npy array;

    ck_assert_int_eq(mkfifo(path, 0600), 0); /* must not wait for a writer */
    expect_refusal("a device, pipe or socket");
    unlink(path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    expect_refusal("a directory");
    rmdir(path);
    expect_refusal(strerror(ENOENT));
    ck_assert(!mha_npy_read("-", &array, error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, "standard input is not supported"));
    if (geteuid() != 0) { /* root may read everything */
        store("", 0);
        ck_assert_int_eq(chmod(path, 0), 0);
        expect_refusal(strerror(EACCES));
    }
}
END_TEST

START_TEST(cuts_the_sentence_to_the_buffer)
{
    struct mha_npy array;
    char small[8];

    ck_assert(!mha_npy_read(path, &array, small, sizeof small));
    ck_assert_uint_eq(strlen(small), sizeof small - 1);
    ck_assert(!mha_npy_read(path, &array, NULL, 0));
}
END_TEST

static size_t load(unsigned char *bytes, size_t capacity)
{
    FILE *file = fopen(path, "rb");

    ck_assert_ptr_nonnull(file);
    size_t size = fread(bytes, 1, capacity, file);
    fclose(file);
    return size;
}

START_TEST(writes_what_numpy_writes)
{
    static const struct {
        enum mha_npy_type type;
        int rank;
        int64_t shape[2];
        const char *dict;
    } cases[] = {
        {MHA_NPY_F32, 2, {1, 2}, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }"},
        {MHA_NPY_F16, 1, {2}, "{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }"},
        {MHA_NPY_BF16, 1, {2}, "{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }"},
        {MHA_NPY_F64, 0, {0}, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }"},
        {MHA_NPY_I64, 2, {0, 9}, "{'descr': '<i8', 'fortran_order': False, 'shape': (0, 9), }"},
        {MHA_NPY_I32, 1, {3}, "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }"},
        {MHA_NPY_BOOL, 1, {5}, "{'descr': '|b1', 'fortran_order': False, 'shape': (5,), }"},
        {MHA_NPY_U8, 1, {5}, "{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }"},
    };
    static const unsigned char data[16] = {1, 1, 0, 1, 0, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char bytes[512];
        size_t data_size = mha_npy_item_size(cases[i].type);
        for (int axis = 0; axis < cases[i].rank; axis++) {
            data_size *= (size_t)cases[i].shape[axis];
        }
        ck_assert_msg(mha_npy_write(path, cases[i].type, cases[i].rank, cases[i].shape, data, error,
                                    sizeof error),
                      "%s", error);
        size_t size = load(bytes, sizeof bytes), start = size - data_size;
        ck_assert_uint_eq(start % 64, 0);
        ck_assert_mem_eq(bytes, "\x93NUMPY\x01", 8);
        ck_assert_uint_eq(bytes[8] + 256u * bytes[9] + 10, start);
        ck_assert_mem_eq(bytes + 10, cases[i].dict, strlen(cases[i].dict));
        for (size_t at = 10 + strlen(cases[i].dict); at < start - 1; at++) {
            ck_assert_int_eq(bytes[at], ' ');
        }
        ck_assert_int_eq(bytes[start - 1], '\n');
        ck_assert_mem_eq(bytes + start, data, data_size);
    }
}
END_TEST

START_TEST(writes_the_longest_header)
{
    static const int64_t shape[MHA_NPY_MAX_RANK] = {0,         INT64_MAX, INT64_MAX, INT64_MAX,
                                                    INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    unsigned char bytes[512];

    ck_assert_msg(
        mha_npy_write(path, MHA_NPY_F32, MHA_NPY_MAX_RANK, shape, NULL, error, sizeof error), "%s",
        error);
    ck_assert_uint_eq(load(bytes, sizeof bytes) % 64, 0);
    ck_assert(
        !mha_npy_write(path, MHA_NPY_F32, MHA_NPY_MAX_RANK + 1, shape, NULL, error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, "its rank is 9"));
}
END_TEST

START_TEST(replaces_only_regular_files)
{
    static const int64_t shape[] = {1};
    static const float data[] = {4};
    char missing[96];
    struct stat status;

    store("old", 3);
    ck_assert_int_eq(chmod(path, 0640), 0);
    ck_assert(mha_npy_write(path, MHA_NPY_F32, 1, shape, data, error, sizeof error));
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_size, 128 + 4);
    ck_assert_int_eq(status.st_mode & 0777, 0640);

    /* A pipe stands for /dev/null, which a broken check would destroy when root runs this. */
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert(!mha_npy_write(path, MHA_NPY_F32, 1, shape, data, error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, "it is a device, pipe or socket"));
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert(S_ISFIFO(status.st_mode));
    ck_assert(!mha_npy_write(folder, MHA_NPY_F32, 1, shape, data, error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, "a directory"));
    ck_assert(!mha_npy_write("-", MHA_NPY_F32, 1, shape, data, error, sizeof error));
    ck_assert(!mha_npy_write("", MHA_NPY_F32, 1, shape, data, error, sizeof error));
    snprintf(missing, sizeof missing, "%s/none/a.npy", folder);
    ck_assert(!mha_npy_write(missing, MHA_NPY_F32, 1, shape, data, error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, strerror(ENOENT)));
}
END_TEST

START_TEST(follows_symbolic_links)
{
    static const int64_t shape[] = {1};
    static const float data[] = {4};
    char link[96];
    struct stat status;

    snprintf(link, sizeof link, "%s/link.npy", folder);
    ck_assert_int_eq(symlink("a.npy", link), 0);
    ck_assert(!mha_npy_write(link, MHA_NPY_F32, 1, shape, data, error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, "leads nowhere"));
    store("old", 3);
    ck_assert(mha_npy_write(link, MHA_NPY_F32, 1, shape, data, error, sizeof error));
    ck_assert_int_eq(lstat(link, &status), 0);
    ck_assert(S_ISLNK(status.st_mode));
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_size, 128 + 4);
    unlink(link);
}
END_TEST

/* A full disk, played by a limit on file size: the old file stays, and nothing else is left. */
START_TEST(keeps_the_old_file_when_the_disk_is_full)
{
    static const int64_t shape[] = {300000};
    struct rlimit limit = {100000, 100000};
    unsigned char bytes[8];
    float *data = calloc(300000, sizeof *data);

    ck_assert_ptr_nonnull(data);
    store("old", 3);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert(!mha_npy_write(path, MHA_NPY_F32, 1, shape, data, error, sizeof error));
    ck_assert_msg(strstr(error, strerror(EFBIG)) != NULL, "%s", error);
    ck_assert_uint_eq(load(bytes, sizeof bytes), 3);
    free(data);
}
END_TEST

/* The value of a 16-bit float from its three fields, by arithmetic alone. */
static double value_of(unsigned bits, int exponent_bits, int mantissa_bits)
{
    unsigned exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
    unsigned fraction = bits & ((1u << mantissa_bits) - 1);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double magnitude;

    if (exponent == (1u << exponent_bits) - 1) {
        magnitude = fraction == 0 ? INFINITY : NAN;
    } else if (exponent == 0) {
        magnitude = ldexp(fraction, 1 - bias - mantissa_bits);
    } else {
        magnitude = ldexp(fraction + (1u << mantissa_bits), (int)exponent - bias - mantissa_bits);
    }
    return bits >> 15 ? -magnitude : magnitude;
}

struct half_format {
    int exponent_bits, mantissa_bits;
    float (*decode)(uint16_t bits);
    uint16_t (*encode)(double value);
};

static const struct half_format formats[] = {
    {5, 10, mha_npy_f16_to_f32, mha_npy_f64_to_f16},
    {8, 7, mha_npy_bf16_to_f32, mha_npy_f64_to_bf16},
};

START_TEST(decodes_and_encodes_all_65536_values)
{
    const struct half_format *format = &formats[_i];

    for (unsigned bits = 0; bits < 65536; bits++) {
        double value = value_of(bits, format->exponent_bits, format->mantissa_bits);
        double decoded = (double)format->decode((uint16_t)bits);
        if (isnan(value)) {
            ck_assert(isnan(decoded));
            ck_assert(isnan(format->decode(format->encode(decoded))));
        } else {
            ck_assert_msg(decoded == value && !signbit(decoded) == !signbit(value),
                          "0x%04x: %g, not %g", bits, decoded, value);
            ck_assert_uint_eq(format->encode(value), bits);
        }
    }
}
END_TEST

/*
 * Between each two neighbours: the middle goes to the even one, the doubles next to the middle to
 * the near one. The neighbour of the largest value counts as infinity.
 */
START_TEST(rounds_to_nearest_even)
{
    const struct half_format *format = &formats[_i];
    unsigned infinity = ((1u << format->exponent_bits) - 1) << format->mantissa_bits;

    for (unsigned bits = 0; bits < infinity; bits++) {
        double low = value_of(bits, format->exponent_bits, format->mantissa_bits);
        double below = bits == 0 ? -value_of(1, format->exponent_bits, format->mantissa_bits)
                                 : value_of(bits - 1, format->exponent_bits, format->mantissa_bits);
        double high = bits + 1 < infinity
                          ? value_of(bits + 1, format->exponent_bits, format->mantissa_bits)
                          : low + (low - below);
        double middle = low + (high - low) / 2;
        unsigned even = bits % 2 == 0 ? bits : bits + 1;
        ck_assert_uint_eq(format->encode(middle), even);
        ck_assert_uint_eq(format->encode(nextafter(middle, 0)), bits);
        ck_assert_uint_eq(format->encode(nextafter(middle, INFINITY)), bits + 1);
        ck_assert_uint_eq(format->encode(-middle), even | 0x8000);
    }
    ck_assert_uint_eq(format->encode(DBL_MAX), infinity);
    ck_assert_uint_eq(format->encode(-INFINITY), infinity | 0x8000);
    ck_assert_uint_eq(format->encode(ldexp(1, -1074)), 0);
    ck_assert_uint_eq(format->encode(-0.0), 0x8000);
}
END_TEST

START_TEST(converts_whole_arrays)
{
    int64_t integers[] = {-3, 0, 65504, 1 << 24};
    double reals[] = {-3.5, 0.1, 1e300, -1e-300};
    struct mha_npy from_integers = {.type = MHA_NPY_I64,
                                    .rank = 1,
                                    .shape = {4},
                                    .count = 4,
                                    .bytes = sizeof integers,
                                    .data = integers};
    struct mha_npy from_reals = {.type = MHA_NPY_F64,
                                 .rank = 1,
                                 .shape = {4},
                                 .count = 4,
                                 .bytes = sizeof reals,
                                 .data = reals};

    float *f32 = mha_npy_to_f32(&from_reals);
    ck_assert(f32[0] == -3.5f && f32[1] == 0.1f && isinf(f32[2]) && f32[3] == 0);
    free(f32);
    uint16_t *f16 = mha_npy_to_f16(&from_integers);
    ck_assert(f16[0] == 0xc200 && f16[1] == 0 && f16[2] == 0x7bff && f16[3] == 0x7c00);
    free(f16);
    uint16_t *bf16 = mha_npy_to_bf16(&from_integers);
    ck_assert(bf16[0] == 0xc040 && bf16[1] == 0 && bf16[2] == 0x4780 && bf16[3] == 0x4b80);
    free(bf16);
    int64_t *i64 = mha_npy_to_i64(&from_integers);
    ck_assert_mem_eq(i64, integers, sizeof integers);
    free(i64);
    uint8_t *truth = mha_npy_to_bool(&from_integers);
    ck_assert(truth[0] == 1 && truth[1] == 0 && truth[2] == 1 && truth[3] == 1);
    free(truth);
    ck_assert_ptr_null(mha_npy_to_i64(&from_reals));
    ck_assert_ptr_null(mha_npy_to_bool(&from_reals));
}
END_TEST

START_TEST(prints_shapes)
{
    static const int64_t shape[] = {2, 0, INT64_MAX};
    char text[MHA_NPY_SHAPE_TEXT];

    ck_assert_str_eq(mha_npy_shape_text(0, shape, text, sizeof text), "()");
    ck_assert_str_eq(mha_npy_shape_text(1, shape, text, sizeof text), "(2,)");
    ck_assert_str_eq(mha_npy_shape_text(3, shape, text, sizeof text),
                     "(2, 0, 9223372036854775807)");
    ck_assert_str_eq(mha_npy_shape_text(3, shape, text, 6), "(2, 0");
}
END_TEST

static Suite *npy_suite(void)
{
    Suite *suite = suite_create("npy");
    TCase *files = tcase_create("files"), *values = tcase_create("values");

    tcase_add_checked_fixture(files, enter_folder, leave_folder);
    tcase_set_timeout(files, 240);
    tcase_add_test(files, reads_all_versions);
    tcase_add_loop_test(files, reads_every_type_in_both_byte_orders, 0,
                        sizeof elements / sizeof elements[0]);
    tcase_add_test(files, brings_fortran_order_and_big_endian_to_native_c_order);
    tcase_add_test(files, reads_every_legal_spelling_of_the_header);
    tcase_add_test(files, reads_empty_arrays);
    tcase_add_loop_test(files, refuses_malformed_headers, 0,
                        sizeof malformed / sizeof malformed[0]);
    tcase_add_test(files, refuses_bad_prefixes);
    tcase_add_test(files, refuses_a_huge_header_that_the_file_really_has);
    tcase_add_test(files, refuses_every_truncation_and_extension);
    tcase_add_test(files, survives_every_flip_of_a_header_byte);
    tcase_add_test(files, refuses_what_is_not_a_regular_file);
    tcase_add_test(files, cuts_the_sentence_to_the_buffer);
    tcase_add_test(files, writes_what_numpy_writes);
    tcase_add_test(files, writes_the_longest_header);
    tcase_add_test(files, replaces_only_regular_files);
    tcase_add_test(files, follows_symbolic_links);
    tcase_add_test(files, keeps_the_old_file_when_the_disk_is_full);
    suite_add_tcase(suite, files);

    tcase_set_timeout(values, 240);
    tcase_add_loop_test(values, decodes_and_encodes_all_65536_values, 0, 2);
    tcase_add_loop_test(values, rounds_to_nearest_even, 0, 2);
    tcase_add_test(values, converts_whole_arrays);
    tcase_add_test(values, prints_shapes);
    suite_add_tcase(suite, values);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(npy_suite());

    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
