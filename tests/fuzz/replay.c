/*
 * In the place of libFuzzer: hands the inputs on the command line (files, folders of them, and
 * corpora whose names end in .txt), or the target's corpus, seeds and findings, to the target.
 * Needs no special compiler, so that what was found once is looked for in every build.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz/corpus_text.h"
#include "fuzz/fuzz.h"

static void replay_file(const char *path)
{
    size_t size;
    uint8_t *bytes = corpus_file_read(path, &size);
    printf("%s\n", path);
    fflush(stdout);
    FUZZ_ASSERT(LLVMFuzzerTestOneInput(bytes, size) == 0);
    free(bytes);
}

/* Each of these gives the number of inputs. */

static int replay_text(const char *path)
{
    struct corpus_text corpus;
    uint8_t *bytes;
    size_t size;
    int count = 0;
    if (!corpus_text_open(&corpus, path)) {
        return 0;
    }
    for (; corpus_text_next(&corpus, &bytes, &size); count++) {
        printf("%s:%d\n", path, corpus.line);
        fflush(stdout);
        FUZZ_ASSERT(LLVMFuzzerTestOneInput(bytes, size) == 0);
        free(bytes);
    }
    corpus_text_close(&corpus);
    return count;
}

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

static int replay(const char *path)
{
    const char *dot = strrchr(path, '.');
    struct stat facts;
    if (dot != NULL && strcmp(dot, ".txt") == 0) {
        return replay_text(path);
    }
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) {
        return replay_folder(path);
    }
    replay_file(path);
    return 1;
}

int main(int argc, char **argv)
{
    int count = 0;
    /* As libFuzzer begins: where the input says nothing, a target may hold that all is well. */
    FUZZ_ASSERT(LLVMFuzzerTestOneInput((const uint8_t *)"", 0) == 0);
    for (int i = 1; i < argc; i++) {
        count += replay(argv[i]);
    }
    if (argc < 2) {
        const int inputs = replay_text(MHA_FUZZ_DIR "/corpus/" MHA_FUZZ_TARGET ".txt");
        FUZZ_ASSERT(inputs > 0);
        count = inputs + replay_text(MHA_FUZZ_DIR "/seeds/" MHA_FUZZ_TARGET ".txt") +
                replay_folder(MHA_FUZZ_DIR "/findings/" MHA_FUZZ_TARGET);
    }
    printf("%d inputs\n", count);
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
