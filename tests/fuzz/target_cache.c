/*
 * The program cache's files. Input: a byte of how, then a file as it is, or with its magic, sizes
 * or hash made right, or a binary to be saved and loaded again. With FLIP, two bytes before that
 * say which byte of what was saved changes, and how.
 */
#include <string.h>

#include "cl/disk_cache.h"
#include "core/sha256.h"
#include "fuzz/fuzz.h"

/* As disk_cache.c has it. */
struct header {
    char magic[8];
    uint64_t key_size, binary_size;
    unsigned char digest[MHA_SHA256_BYTES];
};

enum how { MAGIC = 1, SIZES = 2, HASH = 4, WHOLE = MAGIC | SIZES | HASH, SAVE = 8, FLIP = 16 };

static const struct mha_cache_key key = {"a key", 5};

static void name_file(char name[MHA_SHA256_HEX + 16])
{
    unsigned char digest[MHA_SHA256_BYTES];
    char hex[MHA_SHA256_HEX];
    mha_sha256(key.bytes, key.size, digest);
    mha_sha256_text(digest, hex);
    snprintf(name, MHA_SHA256_HEX + 16, "%s.program", hex);
}

/* Makes parts of the header right, so that what is checked behind them is reached. */
static void repair(uint8_t *file, size_t size, uint8_t how)
{
    struct header header;
    if (size < sizeof header) {
        return;
    }
    memcpy(&header, file, sizeof header);
    if (how & MAGIC) {
        memcpy(header.magic, "mhaprog1", 8);
    }
    if ((how & SIZES) && size > sizeof header + key.size) {
        header.key_size = key.size;
        header.binary_size = size - sizeof header - key.size;
        memcpy(file + sizeof header, key.bytes, key.size);
    }
    if ((how & HASH) && size > sizeof header + key.size) {
        mha_sha256(file + sizeof header + key.size, size - sizeof header - key.size, header.digest);
    }
    memcpy(file, &header, sizeof header);
}

/* What is saved is loaded; and not when a byte of it has changed, whichever it is. */
static void try_saved(const char *name, struct fuzz_bytes bytes, size_t at, uint8_t mask)
{
    unsigned char *binary = NULL;
    size_t size = 0;
    mha_disk_cache_save(fuzz_folder(), key, bytes.at, bytes.left);
    int found = mha_disk_cache_load(fuzz_folder(), key, &binary, &size);
    FUZZ_ASSERT(found == (bytes.left > 0));
    FUZZ_ASSERT(!found || (size == bytes.left && memcmp(binary, bytes.at, size) == 0));
    free(binary);
    if (found && mask != 0) {
        FILE *file = fopen(fuzz_path(name), "r+b");
        const long place = (long)(at % (sizeof(struct header) + key.size + size));
        FUZZ_ASSERT(file != NULL && fseek(file, place, SEEK_SET) == 0);
        const int byte = fgetc(file);
        FUZZ_ASSERT(byte != EOF && fseek(file, place, SEEK_SET) == 0);
        FUZZ_ASSERT(fputc(byte ^ mask, file) != EOF && fclose(file) == 0);
        FUZZ_ASSERT(!mha_disk_cache_load(fuzz_folder(), key, &binary, &size));
    }
}

static void try_file(const char *name, struct fuzz_bytes bytes, uint8_t how)
{
    unsigned char *binary = NULL;
    size_t binary_size = 0;
    uint8_t *file = malloc(bytes.left + 1);
    FUZZ_ASSERT(file != NULL);
    memcpy(file, bytes.at, bytes.left);
    repair(file, bytes.left, how);
    fuzz_put(name, file, bytes.left);
    if (mha_disk_cache_load(fuzz_folder(), key, &binary, &binary_size)) {
        /* Only the very end of the file can be the binary. */
        FUZZ_ASSERT(binary != NULL && binary_size > 0);
        FUZZ_ASSERT(bytes.left == sizeof(struct header) + key.size + binary_size);
        FUZZ_ASSERT(memcmp(binary, file + bytes.left - binary_size, binary_size) == 0);
    } else {
        FUZZ_ASSERT((how & WHOLE) != WHOLE || bytes.left <= sizeof(struct header) + key.size);
    }
    free(file);
    free(binary);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    const uint8_t how = fuzz_byte(&bytes);
    const size_t at = how & FLIP ? fuzz_byte(&bytes) : 0;
    const uint8_t mask = how & FLIP ? fuzz_byte(&bytes) : 0;
    char name[MHA_SHA256_HEX + 16];
    name_file(name);
    if (how & SAVE) {
        try_saved(name, bytes, at, mask);
    } else {
        try_file(name, bytes, how);
    }
    fuzz_clear();
    return 0;
}
