/*
 * Parser and printer of the .npy header; see npy_header.h. The parser is a recursive descent over
 * a cursor that never passes its end; every refusal says at which byte of the dict it happened.
 */
#include "npy_header.h"

#include <stdio.h>
#include <string.h>

#include "report.h"

struct cursor {
    const char *begin, *at, *end;
    char *error; /* filled by the first refusal */
    size_t error_size;
};

/* Longest string literal that can matter: 'fortran_order'. Longer ones are cut for the message. */
enum { WORD_SIZE = 32 };

struct type_code {
    const char *code;
    enum mha_npy_type type;
};

static const struct type_code type_codes[] = {
    {"b1", MHA_NPY_BOOL}, {"?", MHA_NPY_BOOL}, {"u1", MHA_NPY_U8},
    {"i4", MHA_NPY_I32},  {"i8", MHA_NPY_I64}, {"f2", MHA_NPY_F16},
    {"V2", MHA_NPY_BF16}, {"f4", MHA_NPY_F32}, {"f8", MHA_NPY_F64},
};

static void skip_blanks(struct cursor *cursor)
{
    while (cursor->at < cursor->end && memchr(" \t\r\n", *cursor->at, 4)) {
        cursor->at++;
    }
}

/* "the header has 'x' at byte 7, where <needed> is needed" */
static bool refuse_here(struct cursor *cursor, const char *needed)
{
    char found[16] = "ends";
    long offset = (long)(cursor->at - cursor->begin);

    if (cursor->at < cursor->end) {
        unsigned char character = (unsigned char)*cursor->at;
        if (character > 0x20 && character < 0x7f) {
            snprintf(found, sizeof found, "has '%c'", character);
        } else {
            snprintf(found, sizeof found, "has 0x%02X", character);
        }
    }
    return mha_fail(cursor->error, cursor->error_size,
                    "the header %s at byte %ld of its dict, where %s is needed", found, offset,
                    needed);
}

/* Skips blanks and takes `character` if it is next. */
static bool accept(struct cursor *cursor, char character)
{
    skip_blanks(cursor);
    if (cursor->at == cursor->end || *cursor->at != character) {
        return false;
    }
    cursor->at++;
    return true;
}

static bool accept_word(struct cursor *cursor, const char *word)
{
    size_t length = strlen(word);

    skip_blanks(cursor);
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0) {
        return false;
    }
    cursor->at += length;
    return true;
}

/* A quoted string without escapes and without control or non-ASCII characters. */
static bool parse_string(struct cursor *cursor, const char *needed, char word[WORD_SIZE])
{
    size_t length = 0;
    char quote;

    skip_blanks(cursor);
    if (cursor->at == cursor->end || (*cursor->at != '\'' && *cursor->at != '"')) {
        return refuse_here(cursor, needed);
    }
    quote = *cursor->at++;
    while (cursor->at < cursor->end && *cursor->at != quote) {
        unsigned char character = (unsigned char)*cursor->at;
        if (character < 0x20 || character > 0x7e || character == '\\') {
            return refuse_here(cursor, "a printable ASCII character or the closing quote");
        }
        if (length < WORD_SIZE - 1) {
            word[length++] = *cursor->at;
        }
        cursor->at++;
    }
    word[length] = '\0';
    if (cursor->at == cursor->end) {
        return refuse_here(cursor, "the closing quote");
    }
    cursor->at++;
    return true;
}

static bool parse_descr(struct cursor *cursor, struct mha_npy_header *header)
{
    char word[WORD_SIZE];
    const char *code = word;

    skip_blanks(cursor);
    if (cursor->at < cursor->end && *cursor->at == '[') {
        return mha_fail(cursor->error, cursor->error_size,
                        "the element type is a record with fields; "
                        "needed is one of f2 f4 f8 b1 u1 i4 i8 V2 (bfloat16)");
    }
    if (!parse_string(cursor, "the element type in quotes", word)) {
        return false;
    }
    if (*code != '\0' && strchr("<>=|", *code)) {
        code++;
    }
    for (size_t i = 0; i < sizeof type_codes / sizeof type_codes[0]; i++) {
        if (strcmp(code, type_codes[i].code) == 0) {
            header->type = type_codes[i].type;
            header->big_endian = word[0] == '>' && mha_npy_item_size(header->type) > 1;
            return true;
        }
    }
    return mha_fail(cursor->error, cursor->error_size,
                    "the element type is '%s'; needed is one of f2 f4 f8 b1 u1 i4 i8 V2 (bfloat16)",
                    word);
}

static bool parse_fortran_order(struct cursor *cursor, struct mha_npy_header *header)
{
    header->fortran_order = accept_word(cursor, "True");
    if (header->fortran_order || accept_word(cursor, "False")) {
        return true;
    }
    return refuse_here(cursor, "True or False");
}

static bool parse_dimension(struct cursor *cursor, int64_t *dimension)
{
    int64_t value = 0;
    const char *first;

    skip_blanks(cursor);
    if (cursor->at < cursor->end && *cursor->at == '-') {
        return mha_fail(cursor->error, cursor->error_size,
                        "the header's shape has a negative length at byte %ld of its dict; "
                        "lengths are 0 or more",
                        (long)(cursor->at - cursor->begin));
    }
    first = cursor->at;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        int digit = *cursor->at - '0';
        if (value > (INT64_MAX - digit) / 10) {
            return mha_fail(cursor->error, cursor->error_size,
                            "the header's shape has a length at byte %ld of its dict that is above "
                            "2^63-1",
                            (long)(first - cursor->begin));
        }
        if (value == 0 && cursor->at > first) {
            return refuse_here(cursor, "a number without leading zeros");
        }
        value = value * 10 + digit;
        cursor->at++;
    }
    if (cursor->at == first) {
        return refuse_here(cursor, "a length or ')'");
    }
    if (cursor->at < cursor->end && *cursor->at == 'L') {
        cursor->at++; /* Python 2 wrote its long integers so */
    }
    *dimension = value;
    return true;
}

/* "()", "(3,)", "(2, 3)", "(2, 3,)"; "(3)" is a number in Python, not a tuple. */
static bool parse_shape(struct cursor *cursor, struct mha_npy_header *header)
{
    header->rank = 0;
    if (!accept(cursor, '(')) {
        return refuse_here(cursor, "the shape as a tuple, '('");
    }
    while (!accept(cursor, ')')) {
        int64_t dimension = 0;
        if (!parse_dimension(cursor, &dimension)) {
            return false;
        }
        if (header->rank == MHA_NPY_MAX_RANK) {
            return mha_fail(cursor->error, cursor->error_size,
                            "the header's shape has more than %d dimensions; at most %d are read",
                            MHA_NPY_MAX_RANK, MHA_NPY_MAX_RANK);
        }
        header->shape[header->rank++] = dimension;
        if (accept(cursor, ',')) {
            continue;
        }
        if (header->rank == 1 || !accept(cursor, ')')) {
            return refuse_here(cursor,
                               header->rank == 1 ? "',' (a tuple of one is '(3,)')" : "',' or ')'");
        }
        break;
    }
    return true;
}

struct key {
    const char *name;
    bool (*parse)(struct cursor *cursor, struct mha_npy_header *header);
};

static const struct key keys[] = {
    {"descr", parse_descr},
    {"fortran_order", parse_fortran_order},
    {"shape", parse_shape},
};
enum { KEYS = sizeof keys / sizeof keys[0] };

/* One "key: value"; marks it in seen[]. */
static bool parse_entry(struct cursor *cursor, struct mha_npy_header *header, bool seen[KEYS])
{
    char word[WORD_SIZE];
    int index = 0;

    if (!parse_string(cursor, "a key in quotes or '}'", word)) {
        return false;
    }
    while (index < KEYS && strcmp(keys[index].name, word) != 0) {
        index++;
    }
    if (index == KEYS) {
        return mha_fail(cursor->error, cursor->error_size,
                        "the header has the unknown key '%s'; known are 'descr', 'fortran_order' "
                        "and 'shape'",
                        word);
    }
    if (seen[index]) {
        return mha_fail(cursor->error, cursor->error_size,
                        "the header has the key '%s' twice; it is needed once", word);
    }
    seen[index] = true;
    if (!accept(cursor, ':')) {
        return refuse_here(cursor, "':'");
    }
    return keys[index].parse(cursor, header);
}

bool mha_npy_header_parse(const char *text, size_t length, struct mha_npy_header *header,
                          char *error, size_t error_size)
{
    struct cursor cursor = {text, text, text + length, error, error_size};
    bool seen[KEYS] = {false};

    memset(header, 0, sizeof *header);
    if (!accept(&cursor, '{')) {
        return refuse_here(&cursor, "'{'");
    }
    while (!accept(&cursor, '}')) {
        if (!parse_entry(&cursor, header, seen)) {
            return false;
        }
        if (accept(&cursor, ',')) {
            continue;
        }
        if (!accept(&cursor, '}')) {
            return refuse_here(&cursor, "',' or '}'");
        }
        break;
    }
    skip_blanks(&cursor);
    if (cursor.at != cursor.end) {
        return refuse_here(&cursor, "nothing but blanks");
    }
    for (int i = 0; i < KEYS; i++) {
        if (!seen[i]) {
            return mha_fail(error, error_size,
                            "the header has no key '%s'; needed are 'descr', 'fortran_order' and "
                            "'shape'",
                            keys[i].name);
        }
    }
    return true;
}

static const char *code_of(enum mha_npy_type type)
{
    size_t index = 0;

    while (type_codes[index].type != type) {
        index++;
    }
    return type_codes[index].code;
}

size_t mha_npy_header_format(const struct mha_npy_header *header,
                             unsigned char bytes[MHA_NPY_HEADER_SIZE])
{
    enum { PREFIX = 10 /* magic, version, length */, ALIGNMENT = 64 };
    char shape[MHA_NPY_SHAPE_TEXT];
    char order = mha_npy_item_size(header->type) == 1 ? '|' : header->big_endian ? '>' : '<';
    char *dict = (char *)bytes + PREFIX;

    mha_npy_shape_text(header->rank, header->shape, shape, sizeof shape);
    int written = snprintf(dict, MHA_NPY_HEADER_SIZE - PREFIX,
                           "{'descr': '%c%s', 'fortran_order': %s, 'shape': %s, }", order,
                           code_of(header->type), header->fortran_order ? "True" : "False", shape);
    size_t total = PREFIX + (size_t)written + 1; /* 1 for the newline that ends the header */
    total = (total + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

    memset(dict + written, ' ', total - PREFIX - (size_t)written);
    bytes[total - 1] = '\n';
    memcpy(bytes, "\x93NUMPY\x01", 8); /* the terminator is the minor version, 0 */
    bytes[8] = (unsigned char)((total - PREFIX) & 0xff);
    bytes[9] = (unsigned char)((total - PREFIX) >> 8);
    return total;
}
