/*
 * Runs the command gpu-mha, and writes and reads the .npy files that go in and come out. The files
 * are made here from NumPy's description of the format, with no code of the command.
 *
 * Everything lies in the test's own working directory, so paths are plain names.
 */
#ifndef MHA_TESTS_COMMAND_FIXTURE_H
#define MHA_TESTS_COMMAND_FIXTURE_H

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/assertions.h"
#include "harness/storage.h"

#define MAX_RANK 5

struct outcome {
    int code;
    char out[16384];
    char err[8192];
};

static inline void read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s is missing", path);
    size_t length = fread(text, 1, size - 1, file);
    text[length] = '\0';
    fclose(file);
}

/* Runs "gpu-mha ARGUMENTS" through the shell. Whatever the outcome, it is no crash. */
static inline struct outcome run_command(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

static inline struct outcome run_command(const char *format, ...)
{
    static struct outcome outcome;
    char arguments[2048], line[4096];
    va_list values;

    va_start(values, format);
    vsnprintf(arguments, sizeof arguments, format, values);
    va_end(values);
    snprintf(line, sizeof line, "'%s' >stdout.txt 2>stderr.txt </dev/null %s", MHA_TEST_COMMAND,
             arguments);
    int status = system(line);
    ck_assert_msg(status != -1 && WIFEXITED(status), "the shell did not run: %s", line);
    outcome.code = WEXITSTATUS(status);
    read_text("stdout.txt", outcome.out, sizeof outcome.out);
    read_text("stderr.txt", outcome.err, sizeof outcome.err);
    ck_assert_msg(outcome.code <= 2, "gpu-mha %s ended with %d: %s", arguments, outcome.code,
                  outcome.err);
    ck_assert_msg(!strstr(outcome.err, "Sanitizer") && !strstr(outcome.err, "runtime error"),
                  "gpu-mha %s: %s", arguments, outcome.err);
    return outcome;
}

#define ASSERT_CONTAINS(text, part)                                                                \
    ck_assert_msg(strstr((text), (part)) != NULL, "'%s' is not in: %s", (part), (text))

/* The command succeeds and keeps stderr empty. */
#define ASSERT_RUNS(...)                                                                           \
    do {                                                                                           \
        struct outcome outcome_ = run_command(__VA_ARGS__);                                        \
        ck_assert_msg(outcome_.code == 0 && !outcome_.err[0], "exit code %d: %s", outcome_.code,   \
                      outcome_.err);                                                               \
    } while (0)

/* The command refuses with this exit code and one line on stderr that contains `part`. */
#define ASSERT_REFUSES(exit_code, part, ...)                                                       \
    do {                                                                                           \
        struct outcome outcome_ = run_command(__VA_ARGS__);                                        \
        ck_assert_msg(outcome_.code == (exit_code), "exit code is %d, want %d: %s", outcome_.code, \
                      (exit_code), outcome_.err);                                                  \
        ASSERT_CONTAINS(outcome_.err, (part));                                                     \
        ck_assert_msg(strncmp(outcome_.err, "gpu-mha: ", 9) == 0 &&                                \
                          strchr(outcome_.err, '\n') == strrchr(outcome_.err, '\n'),               \
                      "not one sentence of gpu-mha: %s", outcome_.err);                            \
        ck_assert_str_eq(outcome_.out, "");                                                        \
    } while (0)

/* An array in memory: rank and shape, and its values as doubles. */
struct array {
    int rank;
    int64_t shape[MAX_RANK];
    double *values;
};

static inline int64_t array_count(int rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int axis = 0; axis < rank; axis++) {
        count *= shape[axis];
    }
    return count;
}

/* "(2, 3)", "(3,)", "()", as NumPy writes a shape. */
static inline char *shape_text(int rank, const int64_t *shape, char *text, size_t size)
{
    size_t length = (size_t)snprintf(text, size, "(");
    for (int axis = 0; axis < rank; axis++) {
        length += (size_t)snprintf(text + length, size - length, "%s%" PRId64, axis ? ", " : "",
                                   shape[axis]);
    }
    snprintf(text + length, size - length, rank == 1 ? ",)" : ")");
    return text;
}

/* Bytes of an element of the .npy type `descr`, and the element itself as a double. */
static inline size_t item_size(const char *descr)
{
    return (size_t)(descr[2] - '0');
}

static inline void put_item(const char *descr, uint8_t *bytes, int64_t index, double value)
{
    uint8_t *item = bytes + (size_t)index * item_size(descr);

    if (!strcmp(descr, "<f4")) {
        storage_store(STORAGE_F32, bytes, index, value);
    } else if (!strcmp(descr, "<f2")) {
        storage_store(STORAGE_F16, bytes, index, value);
    } else if (!strcmp(descr, "|V2")) {
        storage_store(STORAGE_BF16, bytes, index, value);
    } else if (!strcmp(descr, "<f8")) {
        memcpy(item, &value, sizeof value);
    } else if (!strcmp(descr, "<i4")) {
        memcpy(item, &(int32_t){(int32_t)value}, sizeof(int32_t));
    } else if (!strcmp(descr, "<i8")) {
        memcpy(item, &(int64_t){(int64_t)value}, sizeof(int64_t));
    } else {
        *item = (uint8_t)value;
    }
}

/* Writes values[0..count-1], repeated as often as the shape needs. */
static inline void write_array(const char *path, const char *descr, int rank, const int64_t *shape,
                               int64_t count, const double *values)
{
    char text[128], header[256];
    int64_t total = array_count(rank, shape);
    size_t size = (size_t)total * item_size(descr);
    uint8_t *bytes = calloc(size + 1, 1);
    FILE *file = fopen(path, "wb");

    ck_assert(bytes && file);
    for (int64_t i = 0; i < total; i++) {
        put_item(descr, bytes, i, values[i % count]);
    }
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr,
             shape_text(rank, shape, text, sizeof text));
    /* magic, version and length are 10 bytes; with the header they fill 128 */
    fprintf(file, "\x93NUMPY%c%c%c%c%-117s\n", 1, 0, 118, 0, header);
    ck_assert(fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
    free(bytes);
}

/* Shapes and lists of values as arguments: SHAPE(2, 3) is a rank and a pointer. */
#define SHAPE(...)                                                                                 \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), ((const int64_t[]){__VA_ARGS__})
#define VALUES(...)                                                                                \
    (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), ((const double[]){__VA_ARGS__})

/* Values that count 1, 2, 3, ... along `axis` and are the same along the others. */
static inline void write_counting(const char *path, const char *descr, int axis, int rank,
                                  const int64_t *shape)
{
    int64_t total = array_count(rank, shape);
    int64_t inner = array_count(rank - axis - 1, shape + axis + 1);
    double *values = alloc_doubles(total);

    for (int64_t i = 0; i < total; i++) {
        values[i] = (double)(i / inner % shape[axis] + 1);
    }
    write_array(path, descr, rank, shape, total > 0 ? total : 1, values);
    free(values);
}

/* Asserts type and shape of a file, and each value to within `bound`, as write_array lists them. */
static inline void expect_array(const char *path, const char *descr, double bound, int rank,
                                const int64_t *shape, int64_t count, const double *values)
{
    char found[256] = "", wanted[160], text[128];
    int64_t total = array_count(rank, shape);
    size_t size = (size_t)total * item_size(descr);
    uint8_t prefix[10];
    uint8_t *bytes = calloc(size + 1, 1);
    FILE *file = fopen(path, "rb");

    ck_assert_msg(file != NULL, "%s is missing", path);
    ck_assert(bytes && fread(prefix, 1, sizeof prefix, file) == sizeof prefix);
    ck_assert(memcmp(prefix, "\x93NUMPY\x01\x00", 8) == 0);
    size_t length = (size_t)(prefix[8] + 256 * prefix[9]);
    ck_assert(length < sizeof found && fread(found, 1, length, file) == length);
    snprintf(wanted, sizeof wanted, "'descr': '%s'", descr);
    ASSERT_CONTAINS(found, wanted);
    snprintf(wanted, sizeof wanted, "'shape': %s", shape_text(rank, shape, text, sizeof text));
    ASSERT_CONTAINS(found, wanted);
    ck_assert_msg(fread(bytes, 1, size + 1, file) == size, "%s does not have %zu bytes of data",
                  path, size);
    fclose(file);
    enum storage_type type = strcmp(descr, "<f2") ? STORAGE_F32 : STORAGE_F16;
    for (int64_t i = 0; i < total; i++) {
        double got = storage_load(type, bytes, i);
        double want = values[i % count];
        ck_assert_msg(got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= bound,
                      "%s: element %" PRId64 " is %.9g, want %.9g within %.3g", path, i, got, want,
                      bound);
    }
    free(bytes);
}

#endif
