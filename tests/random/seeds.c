/*
 * seeds.c - see seeds.h.
 */
#include "seeds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_number(const char *name, const char *text, uint64_t *number)
{
    char *end;

    errno = 0;
    *number = strtoull(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-') {
        fprintf(stderr, "%s is \"%s\": it must be a whole number\n", name, text);
        return 2;
    }
    return 0;
}

int seeds_read(struct seeds *options, int argc, char **argv)
{
    *options = (struct seeds){MHA_RANDOM_FIRST, MHA_RANDOM_COUNT, 5, 0, "."};
    for (int a = 1; a < argc; a += 2) {
        uint64_t *number = !strcmp(argv[a], "--first")      ? &options->first
                           : !strcmp(argv[a], "--count")    ? &options->count
                           : !strcmp(argv[a], "--seed")     ? &options->first
                           : !strcmp(argv[a], "--failures") ? &options->failures
                                                            : NULL;
        if (a + 1 == argc || (!number && strcmp(argv[a], "--folder") != 0)) {
            fprintf(stderr,
                    "usage: %s [--first N] [--count N] [--seed N] [--failures N] [--folder DIR]\n"
                    "Tries the problems of seeds FIRST (%llu) to FIRST + COUNT (%llu) - 1, or of\n"
                    "one seed. Ends after so many failures (5); they leave files in DIR (.).\n",
                    argv[0], (unsigned long long)MHA_RANDOM_FIRST,
                    (unsigned long long)MHA_RANDOM_COUNT);
            return 2;
        }
        if (!number) {
            options->folder = argv[a + 1];
        } else if (read_number(argv[a], argv[a + 1], number) != 0) {
            return 2;
        }
        if (!strcmp(argv[a], "--seed")) {
            options->is_one = 1;
            options->count = 1;
        }
    }
    return 0;
}
