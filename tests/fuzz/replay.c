/*
 * In the place of libFuzzer: hands every file of the folders on the command line, or of the
 * target's corpus and findings, to the target. Needs no special compiler, so that what was found
 * once is looked for in every build.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"

enum { FILE_BYTES_MAX = 1 << 20 };

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(FILE_BYTES_MAX);
    FUZZ_ASSERT(file != NULL && bytes != NULL);
    const size_t size = fread(bytes, 1, FILE_BYTES_MAX, file);
    FUZZ_ASSERT(!ferror(file));
    fclose(file);
    /* A block of the very size, so that a read behind its end is seen. */
    uint8_t *exact = malloc(size > 0 ? size : 1);
    FUZZ_ASSERT(exact != NULL);
    memcpy(exact, bytes, size);
    free(bytes);
    printf("%s\n", path);
    fflush(stdout);
    FUZZ_ASSERT(LLVMFuzzerTestOneInput(exact, size) == 0);
    free(exact);
}

/* The number of files replayed. */
static int replay_folder(const char *folder)
{
    struct dirent **entries;
    const int found = scandir(folder, &entries, NULL, alphasort);
    int count = 0;
    for (int i = 0; i < found; i++) {
        if (entries[i]->d_name[0] != '.') {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
            replay_file(path);
            count++;
        }
        free(entries[i]);
    }
    if (found >= 0) {
        free(entries);
    }
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        count += replay_folder(argv[i]);
    }
    if (argc < 2) {
        count += replay_folder(MHA_FUZZ_DIR "/corpus/" MHA_FUZZ_TARGET);
        count += replay_folder(MHA_FUZZ_DIR "/findings/" MHA_FUZZ_TARGET);
    }
    printf("%d inputs\n", count);
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
