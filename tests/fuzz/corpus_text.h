/*
 * A corpus as one text file, so that it can be read and its changes reviewed: an input on each
 * line, printable ASCII as it is and every other byte, the backslash, and a # at the front as \xHH
 * (\n, \t and \0 have their letters). Lines that begin with # are comments.
 */
#ifndef MHA_TEST_FUZZ_CORPUS_TEXT_H
#define MHA_TEST_FUZZ_CORPUS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct corpus_text {
    FILE *file;
    int line; /* of the last input, from 1 */
    char *text;
    size_t capacity;
};

bool corpus_text_open(struct corpus_text *corpus, const char *path);
void corpus_text_close(struct corpus_text *corpus);

/*
 * The next input, in a block of its very size, to be freed, so that a read behind its end is seen.
 * False at the end. A line that is none ends the process.
 */
bool corpus_text_next(struct corpus_text *corpus, uint8_t **bytes, size_t *size);

void corpus_text_write(FILE *out, const uint8_t *bytes, size_t size);

/* A whole file, in the same way; at most 1 MiB. Ends the process if it cannot be read. */
uint8_t *corpus_file_read(const char *path, size_t *size);

#endif
