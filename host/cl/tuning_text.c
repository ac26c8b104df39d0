/* The text of a tuning file. Every byte of it lies under the checksum or is compared. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/tuning_file.h"
#include "core/sha256.h"

static const char entry_word[] = "entry ";
static const char checksum_word[] = "checksum ";
static const char first_words[] = "gpu_mha ";

/* Of a time: more than a year, less than an int64_t holds. */
enum { DIGITS_MAX = 18 };

/* The last line, with its newline. */
enum { CHECKSUM_LINE = sizeof checksum_word - 1 + MHA_SHA256_HEX - 1 + 1 };

struct mha_tuned_entry *mha_tuned_find(struct mha_tuned_list *list, const char *key)
{
    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->entries[i].key, key) == 0) {
            return &list->entries[i];
        }
    }
    return NULL;
}

void mha_tuned_set(struct mha_tuned_list *list, const struct mha_tuned_entry *entry)
{
    struct mha_tuned_entry *place = mha_tuned_find(list, entry->key);
    if (!place && list->count == MHA_TUNED_MAX) {
        list->count--;
        memmove(&list->entries[0], &list->entries[1],
                (size_t)list->count * sizeof list->entries[0]);
    }
    if (!place) {
        place = &list->entries[list->count++];
    }
    *place = *entry;
}

static void checksum_line(const char *text, size_t size, char line[CHECKSUM_LINE + 1])
{
    unsigned char digest[MHA_SHA256_BYTES];
    char hex[MHA_SHA256_HEX];
    mha_sha256(text, size, digest);
    mha_sha256_text(digest, hex);
    snprintf(line, CHECKSUM_LINE + 1, "%s%s\n", checksum_word, hex);
}

void mha_tuning_text_write(struct mha_strbuf *text, const char *identity,
                           const struct mha_tuned_list *list)
{
    mha_strbuf_printf(text, "%s", identity);
    for (int i = 0; i < list->count; i++) {
        const struct mha_tuned_entry *entry = &list->entries[i];
        mha_strbuf_printf(text, "%s%s\t%s\t%" PRId64 "\n", entry_word, entry->key, entry->value,
                          entry->nanoseconds);
    }
    if (mha_strbuf_ok(text)) {
        char line[CHECKSUM_LINE + 1];
        checksum_line(mha_strbuf_text(text), text->length, line);
        mha_strbuf_append(text, line, CHECKSUM_LINE);
    }
}

/* Copies text[0..length-1] if it is a word: not empty, not too long, printable ASCII. */
static int copy_word(char word[MHA_TUNED_WORD], const char *text, size_t length)
{
    if (length == 0 || length >= MHA_TUNED_WORD) {
        return 0;
    }
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] > 0x7e) {
            return 0;
        }
    }
    memcpy(word, text, length);
    word[length] = '\0';
    return 1;
}

/* "KEY <tab> VALUE <tab> NS" in line[0..length-1]. */
static int read_entry(const char *line, size_t length, struct mha_tuned_entry *entry)
{
    const char *const end = line + length;
    const char *first = memchr(line, '\t', length);
    const char *second = first ? memchr(first + 1, '\t', (size_t)(end - first - 1)) : NULL;
    char number[MHA_TUNED_WORD];
    if (!second || !copy_word(entry->key, line, (size_t)(first - line)) ||
        !copy_word(entry->value, first + 1, (size_t)(second - first - 1)) ||
        !copy_word(number, second + 1, (size_t)(end - second - 1)) ||
        strspn(number, "0123456789") != strlen(number) || strlen(number) > DIGITS_MAX) {
        return 0;
    }
    entry->nanoseconds = strtoll(number, NULL, 10);
    return 1;
}

/* Says in which line of its head the file is for something else. */
static const char *tell_difference(const char *text, size_t size, const char *identity, char *why,
                                   size_t why_size)
{
    const char *const end = text + size;
    while (*identity) {
        const size_t wanted = strcspn(identity, "\n");
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const size_t found = newline ? (size_t)(newline - text) : (size_t)(end - text);
        if (found != wanted || memcmp(text, identity, wanted) != 0) {
            snprintf(why, why_size, "it is for \"%.*s\", here is \"%.*s\"",
                     found > 80 ? 80 : (int)found, text, wanted > 80 ? 80 : (int)wanted, identity);
            return why;
        }
        text += found + (newline != NULL);
        identity += wanted + 1;
    }
    return NULL;
}

static int has_control_characters(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
            return 1;
        }
    }
    return 0;
}

/* The lines between head and checksum. */
static const char *read_entries(const char *text, const char *end, struct mha_tuned_list *list,
                                char *why, size_t why_size)
{
    const size_t word = sizeof entry_word - 1;
    for (int number = 1; text < end; number++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const size_t length = newline ? (size_t)(newline - text) : 0;
        struct mha_tuned_entry entry;
        if (length < word || memcmp(text, entry_word, word) != 0 ||
            !read_entry(text + word, length - word, &entry)) {
            snprintf(why, why_size, "its entry %d cannot be read", number);
            return why;
        }
        if (list->count == MHA_TUNED_MAX || mha_tuned_find(list, entry.key)) {
            snprintf(why, why_size, "its entry %d is one too many", number);
            return why;
        }
        mha_tuned_set(list, &entry);
        text = newline + 1;
    }
    return NULL;
}

const char *mha_tuning_text_read(const char *text, size_t size, const char *identity,
                                 struct mha_tuned_list *list, char *why, size_t why_size)
{
    list->count = 0;
    if (size < sizeof first_words - 1 || memcmp(text, first_words, sizeof first_words - 1) != 0) {
        return size == 0 ? "it is empty" : "it is no file of gpu_mha";
    }
    char line[CHECKSUM_LINE + 1];
    const size_t covered = size < CHECKSUM_LINE ? 0 : size - CHECKSUM_LINE;
    checksum_line(text, covered, line);
    if (covered == 0 || memcmp(text + covered, line, CHECKSUM_LINE) != 0 ||
        has_control_characters(text, covered)) {
        return "it is damaged: its checksum is wrong";
    }
    const char *wrong = tell_difference(text, covered, identity, why, why_size);
    if (!wrong) {
        wrong = read_entries(text + strlen(identity), text + covered, list, why, why_size);
    }
    if (wrong) {
        list->count = 0;
    }
    return wrong;
}
