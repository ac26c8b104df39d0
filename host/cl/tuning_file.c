/* Where the file of a device lies, and how it gets there. */
#include "cl/tuning_file.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "cl/disk_cache.h"
#include "cl/disk_cache_dir.h"
#include "cl/disk_file.h"
#include "cl/sources.h"
#include "core/log.h"
#include "core/sha256.h"

const struct mha_tuning_kind mha_tuning_measured = {".tuning", "tuning 1", "the tuning",
                                                    "gpu-mha tune", 0};
const struct mha_tuning_kind mha_tuning_verdicts = {".verdicts", "verdicts 1", "the verdicts",
                                                    "gpu-mha doctor", 1};

enum { TEXT_SIZE = 512, SLUG_SIZE = 48, NAME_DIGITS = 8 };

/* A line of the head. What a driver puts into its names must not break lines. */
static void add_line(struct mha_strbuf *text, const char *word, const char *value)
{
    char clean[TEXT_SIZE];
    snprintf(clean, sizeof clean, "%s", value);
    for (char *at = clean; *at; at++) {
        if (iscntrl((unsigned char)*at)) {
            *at = ' ';
        }
    }
    mha_strbuf_printf(text, "%s %s\n", word, clean);
}

static pthread_once_t sources_once = PTHREAD_ONCE_INIT;
static char sources_digest[MHA_SHA256_HEX];

/* Of all kernels; left empty where there is no memory. */
static void digest_sources(void)
{
    struct mha_strbuf all = {0};
    unsigned char digest[MHA_SHA256_BYTES];
    for (size_t i = 0; i < mha_cl_source_count; i++) {
        char hex[MHA_SHA256_HEX];
        mha_sha256(mha_cl_sources[i].text, mha_cl_sources[i].length, digest);
        mha_sha256_text(digest, hex);
        mha_strbuf_printf(&all, "%s %s\n", mha_cl_sources[i].name, hex);
    }
    if (mha_strbuf_ok(&all)) {
        mha_sha256(mha_strbuf_text(&all), all.length, digest);
        mha_sha256_text(digest, sources_digest);
    }
    mha_strbuf_free(&all);
}

/* "nvidia-h200-1a2b3c4d.tuning": readable, and of the device, whatever its driver's version. */
static void add_name(struct mha_strbuf *path, const struct mha_device *device, const char *platform,
                     const char *suffix)
{
    char slug[SLUG_SIZE], facts[TEXT_SIZE + sizeof device->name + 16];
    size_t length = 0;
    for (const char *at = device->name; *at && length + 1 < sizeof slug; at++) {
        const unsigned char c = (unsigned char)*at;
        if (c < 0x80 && isalnum(c)) {
            slug[length++] = (char)tolower(c);
        } else if (length > 0 && slug[length - 1] != '-') {
            slug[length++] = '-';
        }
    }
    slug[length] = '\0';
    unsigned char digest[MHA_SHA256_BYTES];
    char hex[MHA_SHA256_HEX];
    snprintf(facts, sizeof facts, "%s\n%s\n%u", platform, device->name,
             (unsigned)device->compute_units);
    mha_sha256(facts, strlen(facts), digest);
    mha_sha256_text(digest, hex);
    mha_strbuf_printf(path, "%s%s%.*s%s", slug, length > 0 && slug[length - 1] != '-' ? "-" : "",
                      NAME_DIGITS, hex, suffix);
}

void mha_tuning_file_open(struct mha_tuning_file *file, const struct mha_tuning_kind *kind,
                          const struct mha_device *device)
{
    char platform[TEXT_SIZE], version[TEXT_SIZE], driver[TEXT_SIZE], units[16];
    *file = (struct mha_tuning_file){.kind = kind};
    file->dir = mha_disk_cache_path();
    /* Without an exact name for the driver nothing can be kept. */
    if (!file->dir ||
        mha_platform_text(device->platform, CL_PLATFORM_NAME, platform, sizeof platform) !=
            CL_SUCCESS ||
        mha_platform_text(device->platform, CL_PLATFORM_VERSION, version, sizeof version) !=
            CL_SUCCESS ||
        mha_device_text(device->id, CL_DRIVER_VERSION, driver, sizeof driver) != CL_SUCCESS) {
        mha_tuning_file_close(file);
        return;
    }
    snprintf(units, sizeof units, "%u", (unsigned)device->compute_units);
    struct mha_strbuf identity = {0}, path = {0};
    mha_strbuf_printf(&identity, "gpu_mha %s %s\n", GPU_MHA_VERSION_STRING, kind->format);
    if (kind->of_sources) {
        pthread_once(&sources_once, digest_sources);
        add_line(&identity, "kernels", sources_digest);
    }
    add_line(&identity, "device", device->name);
    add_line(&identity, "units", units);
    add_line(&identity, "driver", driver);
    add_line(&identity, "platform", platform);
    add_line(&identity, "platform-version", version);
    mha_strbuf_printf(&path, "%s/", file->dir);
    add_name(&path, device, platform, kind->suffix);
    file->identity = identity.text;
    file->path = path.text;
    if (!mha_strbuf_ok(&identity) || !mha_strbuf_ok(&path) ||
        (kind->of_sources && sources_digest[0] == '\0')) {
        mha_tuning_file_close(file);
        return;
    }
    file->name = strrchr(file->path, '/') + 1;
}

void mha_tuning_file_close(struct mha_tuning_file *file)
{
    free(file->dir);
    free(file->path);
    free(file->identity);
    *file = (struct mha_tuning_file){.kind = file->kind};
}

static const char *read_from(int dir, const struct mha_tuning_file *file,
                             struct mha_tuned_list *list, char *why, size_t why_size)
{
    unsigned char *bytes = NULL;
    size_t size = 0;
    list->count = 0;
    const int code = mha_disk_file_read(dir, file->name, MHA_TUNING_BYTES_MAX, &bytes, &size);
    if (code == ENOENT) {
        return NULL;
    }
    if (code == EFBIG) {
        return "it is too large for a tuning file";
    }
    if (code == EINVAL || code == ELOOP) {
        return "it is no regular file";
    }
    if (code != 0) {
        snprintf(why, why_size, "it cannot be read: %s", strerror(code));
        return why;
    }
    const char *wrong =
        mha_tuning_text_read((const char *)bytes, size, file->identity, list, why, why_size);
    free(bytes);
    return wrong;
}

void mha_tuning_file_load(const struct mha_tuning_file *file, struct mha_tuned_list *list)
{
    list->count = 0;
    const int dir = file->path ? mha_cache_dir_find(file->dir) : -1;
    if (dir < 0) {
        return;
    }
    char why[256];
    const char *wrong = read_from(dir, file, list, why, sizeof why);
    close(dir);
    if (wrong) {
        mha_log(MHA_LOG_WARN, "pass over %s: %s; %s makes a new one", file->path, wrong,
                file->kind->maker);
    } else if (list->count > 0) {
        mha_log(MHA_LOG_INFO, "use %s of %s: %d entries", file->kind->what, file->path,
                list->count);
    }
}

/*
 * Who adds an entry reads the file and writes it anew: one at a time, or entries would be lost.
 * Whoever holds it does so for milliseconds. A file system without such locks, and a holder that
 * was stopped, cost an entry at worst, so the wait is bounded.
 */
static void lock_directory(int dir)
{
    const struct timespec pause = {0, 1000000};
    for (int tries = 0; tries < 10000; tries++) {
        if (flock(dir, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR)) {
            return;
        }
        nanosleep(&pause, NULL);
    }
}

int mha_tuning_file_save(const struct mha_tuning_file *file, const struct mha_tuned_entry *entry,
                         struct mha_tuned_list *list)
{
    if (!file->path) {
        mha_log(MHA_LOG_WARN, "keep %s of %s in this context alone: caching is off",
                file->kind->what, entry->key);
        return 0;
    }
    const int dir = mha_cache_dir_open(file->dir);
    if (dir < 0) {
        mha_log(MHA_LOG_WARN, "keep %s of %s in this context alone: %s cannot be used",
                file->kind->what, entry->key, file->dir);
        return 0;
    }
    char why[256];
    struct mha_strbuf text = {0};
    lock_directory(dir);
    /* What cannot be used is replaced. */
    read_from(dir, file, list, why, sizeof why);
    mha_tuned_set(list, entry);
    mha_tuning_text_write(&text, file->identity, list);
    int code = ENOMEM;
    if (mha_strbuf_ok(&text)) {
        const struct mha_disk_part part = {text.text, text.length};
        code = mha_disk_file_write(dir, file->name, &part, 1);
    }
    mha_strbuf_free(&text);
    close(dir); /* and with it the lock */
    if (code != 0) {
        mha_log(MHA_LOG_WARN, "keep %s of %s in this context alone: write %s: %s", file->kind->what,
                entry->key, file->path, strerror(code));
        return 0;
    }
    mha_log(MHA_LOG_INFO, "kept in %s: %s is %s", file->path, entry->key, entry->value);
    return 1;
}

int mha_tuning_file_remove(const struct mha_tuning_file *file)
{
    const int dir = file->path ? mha_cache_dir_find(file->dir) : -1;
    if (dir < 0) {
        return 0;
    }
    lock_directory(dir);
    const int code = unlinkat(dir, file->name, 0) == 0 || errno == ENOENT ? 0 : errno;
    close(dir);
    return code;
}
