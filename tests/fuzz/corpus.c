/*
 * Between a corpus as a text and as the folder of files that libFuzzer wants.
 *
 *   fuzz_corpus unpack TEXT FOLDER    writes each input into a file of FOLDER, which is there
 *   fuzz_corpus pack FOLDER >TEXT     the other way, without what is larger than 3 KB
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/corpus_text.h"

enum { PACKED_BYTES_MAX = 3072 };

static int unpack(const char *text, const char *folder)
{
    struct corpus_text corpus;
    uint8_t *bytes;
    size_t size;
    if (!corpus_text_open(&corpus, text)) {
        return EXIT_SUCCESS; /* not every target has one */
    }
    while (corpus_text_next(&corpus, &bytes, &size)) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%05d", folder, corpus.line);
        FILE *file = fopen(path, "wb");
        if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
            fprintf(stderr, "corpus: cannot be written: %s\n", path);
            return EXIT_FAILURE;
        }
        free(bytes);
    }
    corpus_text_close(&corpus);
    return EXIT_SUCCESS;
}

struct input {
    uint8_t *bytes;
    size_t size;
};

/* Short ones first, and then by their bytes, so that an input more is a line more. */
static int by_size(const void *a, const void *b)
{
    const struct input *x = a, *y = b;
    if (x->size != y->size) {
        return x->size < y->size ? -1 : 1;
    }
    return memcmp(x->bytes, y->bytes, x->size);
}

static int pack(const char *folder)
{
    struct dirent **entries;
    const int found = scandir(folder, &entries, NULL, alphasort);
    if (found < 0) {
        fprintf(stderr, "corpus: cannot be read: %s\n", folder);
        return EXIT_FAILURE;
    }
    struct input *inputs = calloc((size_t)found, sizeof *inputs);
    size_t count = 0;
    for (int i = 0; i < found && inputs != NULL; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            inputs[count].bytes = corpus_file_read(path, &inputs[count].size);
            count++;
        }
        free(entries[i]);
    }
    free(entries);
    qsort(inputs, count, sizeof *inputs, by_size);
    for (size_t i = 0; i < count; i++) {
        if (inputs[i].size <= PACKED_BYTES_MAX) {
            corpus_text_write(stdout, inputs[i].bytes, inputs[i].size);
        }
        free(inputs[i].bytes);
    }
    free(inputs);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "unpack") == 0) {
        return unpack(argv[2], argv[3]);
    }
    if (argc == 3 && strcmp(argv[1], "pack") == 0) {
        return pack(argv[2]);
    }
    fprintf(stderr, "usage: fuzz_corpus unpack TEXT FOLDER | pack FOLDER >TEXT\n");
    return 2;
}
