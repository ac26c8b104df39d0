/* See corpus_text.h. */
#include "fuzz/corpus_text.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20 };

_Noreturn static void give_up(const char *what, const char *path)
{
    fprintf(stderr, "corpus: %s: %s\n", what, path);
    exit(EXIT_FAILURE);
}

bool corpus_text_open(struct corpus_text *corpus, const char *path)
{
    *corpus = (struct corpus_text){.file = fopen(path, "rb")};
    return corpus->file != NULL;
}

void corpus_text_close(struct corpus_text *corpus)
{
    fclose(corpus->file);
    free(corpus->text);
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

/* One byte at *at, which moves behind it; -1 if it is none. */
static int read_byte(const char **at)
{
    const char *from = *at;
    if (from[0] != '\\') {
        *at += 1;
        return (unsigned char)from[0];
    }
    static const char letters[] = "nt0\\", bytes[] = "\n\t\0\\";
    const char *letter = from[1] != '\0' ? strchr(letters, from[1]) : NULL;
    if (letter != NULL) {
        *at += 2;
        return bytes[letter - letters];
    }
    if (from[1] != 'x' || hex_digit(from[2]) < 0 || hex_digit(from[3]) < 0) {
        return -1;
    }
    *at += 4;
    return hex_digit(from[2]) * 16 + hex_digit(from[3]);
}

/* A block that ends with the bytes. */
static uint8_t *exact(const char *bytes, size_t size)
{
    uint8_t *made = malloc(size > 0 ? size : 1);
    if (made == NULL) {
        give_up("no memory", "an input");
    }
    if (size > 0) {
        memcpy(made, bytes, size);
    }
    return made;
}

bool corpus_text_next(struct corpus_text *corpus, uint8_t **bytes, size_t *size)
{
    do {
        corpus->line++;
        if (getline(&corpus->text, &corpus->capacity, corpus->file) < 0) {
            return false;
        }
    } while (corpus->text[0] == '#');
    char *to = corpus->text;
    for (const char *at = corpus->text; *at != '\n' && *at != '\0';) {
        const int byte = read_byte(&at);
        if (byte < 0) {
            give_up("not an escape", at);
        }
        *to++ = (char)byte;
    }
    *size = (size_t)(to - corpus->text);
    *bytes = exact(corpus->text, *size);
    return true;
}

void corpus_text_write(FILE *out, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const uint8_t c = bytes[i];
        if (c == '\n' || c == '\t' || c == '\0' || c == '\\') {
            fprintf(out, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : c == '\0' ? '0' : '\\');
        } else if (c < 0x20 || c > 0x7e || (c == '#' && i == 0)) {
            fprintf(out, "\\x%02x", c);
        } else {
            putc(c, out);
        }
    }
    putc('\n', out);
}

uint8_t *corpus_file_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(FILE_BYTES_MAX);
    if (file == NULL || bytes == NULL) {
        give_up("cannot be read", path);
    }
    *size = fread(bytes, 1, FILE_BYTES_MAX, file);
    if (ferror(file) || !feof(file)) {
        give_up("cannot be read, or is too large", path);
    }
    fclose(file);
    uint8_t *made = exact(bytes, *size);
    free(bytes);
    return made;
}
