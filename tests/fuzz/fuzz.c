/* See fuzz.h. */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Noreturn void fuzz_fail(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: not true: %s\nlast error: %s\n", file, line, condition,
            gpu_mha_last_error());
    abort();
}

/* ---- bytes -------------------------------------------------------------------------------- */

uint8_t fuzz_byte(struct fuzz_bytes *bytes)
{
    if (bytes->left == 0) {
        return 0;
    }
    bytes->left--;
    return *bytes->at++;
}

uint64_t fuzz_u64(struct fuzz_bytes *bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) {
        value |= (uint64_t)fuzz_byte(bytes) << 8 * i;
    }
    return value;
}

char *fuzz_text(struct fuzz_bytes *bytes)
{
    char *text = malloc(bytes->left + 1);
    FUZZ_ASSERT(text != NULL);
    if (bytes->left > 0) {
        memcpy(text, bytes->at, bytes->left);
    }
    text[bytes->left] = '\0';
    return text;
}

/* ---- environment -------------------------------------------------------------------------- */

void fuzz_environment(const char *name, const char *text)
{
    enum { VARIABLES_MAX = 4, TEXT_BYTES = 4096 };
    static struct variable {
        const char *name;
        char *place;
    } variables[VARIABLES_MAX];
    int v = 0;
    while (v < VARIABLES_MAX && variables[v].name != NULL && strcmp(variables[v].name, name) != 0) {
        v++;
    }
    FUZZ_ASSERT(v < VARIABLES_MAX);
    if (variables[v].name == NULL) {
        char room[TEXT_BYTES];
        memset(room, '-', sizeof room - 1);
        room[sizeof room - 1] = '\0';
        FUZZ_ASSERT(setenv(name, room, 1) == 0);
        variables[v] = (struct variable){name, getenv(name)};
    }
    FUZZ_ASSERT(variables[v].place == getenv(name));
    snprintf(variables[v].place, TEXT_BYTES, "%s", text);
}

void fuzz_settle(void)
{
    static bool settled;
    if (!settled) {
        settled = true;
        setenv("GPU_MHA_CACHE_DIR", "off", 1);
        setenv("GPU_MHA_LOG", "off", 1);
        unsetenv("GPU_MHA_TILE");
        unsetenv("GPU_MHA_DEVICE");
    }
}

/* ---- files -------------------------------------------------------------------------------- */

static char folder[256];
static pid_t owner;

static void remove_folder(void)
{
    if (owner == getpid()) {
        fuzz_clear();
        rmdir(folder);
    }
}

const char *fuzz_folder(void)
{
    if (folder[0] == '\0') {
        const bool in_memory = access("/dev/shm", W_OK) == 0;
        snprintf(folder, sizeof folder, "%s/gpu_mha_fuzz-XXXXXX", in_memory ? "/dev/shm" : ".");
        FUZZ_ASSERT(mkdtemp(folder) != NULL);
        owner = getpid();
        atexit(remove_folder);
    }
    return folder;
}

const char *fuzz_path(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    return path;
}

const char *fuzz_put(const char *name, const void *data, size_t size)
{
    const char *path = fuzz_path(name);
    FILE *file = fopen(path, "wb");
    FUZZ_ASSERT(file != NULL);
    FUZZ_ASSERT(size == 0 || fwrite(data, 1, size, file) == size);
    FUZZ_ASSERT(fclose(file) == 0);
    return path;
}

void fuzz_clear(void)
{
    DIR *files = opendir(fuzz_folder());
    FUZZ_ASSERT(files != NULL);
    for (struct dirent *entry; (entry = readdir(files)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            unlinkat(dirfd(files), entry->d_name, 0);
        }
    }
    closedir(files);
}

/* ---- sentences ---------------------------------------------------------------------------- */

static bool has_one_of(const char *sentence, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(sentence, words[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* 1 if the sentence opens with one of the fields. */
static bool opens_with_one_of(const char *sentence, const char *fields)
{
    for (const char *at = fields; *at != '\0';) {
        at += strspn(at, " ");
        const size_t length = strcspn(at, " ");
        if (length > 0 && strncmp(sentence, at, length) == 0 &&
            strchr(" .[:*", sentence[length]) != NULL) {
            return true;
        }
        at += length;
    }
    return false;
}

void fuzz_check_printable(const char *text)
{
    const size_t length = strlen(text);
    FUZZ_ASSERT(length > 4 && length < 4096);
    for (size_t i = 0; i < length; i++) {
        FUZZ_ASSERT((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
    }
}

void fuzz_check_sentence(gpu_mha_status status, const char *fields)
{
    static const char *const rules[] = {"must",      "too large",  "so use",
                                        "is needed", "are needed", "asks for"};
    static const char *const limits[] = {"at most",        "more than",      "more work-items",
                                         "too large",      "cannot be used", "counts to",
                                         "this device has"};
    const gpu_mha_error error = gpu_mha_last_error_info();
    FUZZ_ASSERT(error.status == status);
    FUZZ_ASSERT(error.message != NULL && strcmp(error.message, gpu_mha_last_error()) == 0);
    fuzz_check_printable(error.message);
    if (status == GPU_MHA_INVALID) {
        FUZZ_ASSERT(has_one_of(error.message, rules, sizeof rules / sizeof *rules));
        FUZZ_ASSERT(opens_with_one_of(error.message, fields));
    } else if (status == GPU_MHA_UNSUPPORTED) {
        FUZZ_ASSERT(has_one_of(error.message, limits, sizeof limits / sizeof *limits));
    }
}
