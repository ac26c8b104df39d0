/* Between the cache of programs, which knows OpenCL, and the disk cache, which knows bytes. */
#include "cl/program_disk.h"

#include <stdlib.h>
#include <string.h>

#include "cl/disk_cache.h"

/* The platform whose binaries are better asked for late: see the header. */
static const char late_platform[] = "Portable Computing Language";

/* What changes the code that a driver makes of the same source and options. */
static const char *const compiler_variables[] = {"POCL_WORK_GROUP_METHOD",
                                                 "OCLGRIND_BUILD_OPTIONS"};

enum { TEXT_SIZE = 1024 };

static int append_device_text(struct mha_strbuf *text, cl_device_id device, cl_device_info query)
{
    char value[TEXT_SIZE];
    if (mha_device_text(device, query, value, sizeof value) != CL_SUCCESS) {
        return 0;
    }
    mha_strbuf_printf(text, "%s\n", value);
    return 1;
}

void mha_program_disk_open(struct mha_program_disk *disk, const struct mha_device *device)
{
    static const cl_device_info queries[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION,
                                             CL_DRIVER_VERSION};
    char name[TEXT_SIZE], version[TEXT_SIZE];
    *disk = (struct mha_program_disk){0};
    /* Without an exact name for the driver nothing can be kept. */
    if (mha_platform_text(device->platform, CL_PLATFORM_NAME, name, sizeof name) != CL_SUCCESS ||
        mha_platform_text(device->platform, CL_PLATFORM_VERSION, version, sizeof version) !=
            CL_SUCCESS) {
        return;
    }
    mha_strbuf_printf(&disk->driver_text, "%s\n%s\n", name, version);
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        if (!append_device_text(&disk->driver_text, device->id, queries[i])) {
            return;
        }
    }
    for (size_t i = 0; i < sizeof compiler_variables / sizeof compiler_variables[0]; i++) {
        const char *value = getenv(compiler_variables[i]);
        mha_strbuf_printf(&disk->driver_text, "%s\n", value ? value : "");
    }
    disk->saves_late = strcmp(name, late_platform) == 0;
    if (mha_strbuf_ok(&disk->driver_text)) {
        disk->path = mha_disk_cache_path();
    }
}

void mha_program_disk_close(struct mha_program_disk *disk)
{
    free(disk->path);
    mha_strbuf_free(&disk->driver_text);
    *disk = (struct mha_program_disk){0};
}

/* All that a binary depends on: driver and device, options, source text. `text` holds it. */
static int make_key(const struct mha_program_disk *disk, const struct mha_build *build,
                    const struct mha_strbuf *source, struct mha_strbuf *text,
                    struct mha_cache_key *key)
{
    mha_strbuf_printf(text, "%s%s\n", mha_strbuf_text(&disk->driver_text), build->options);
    mha_strbuf_append(text, mha_strbuf_text(source), source->length);
    *key = (struct mha_cache_key){text->text, text->length};
    return mha_strbuf_ok(text);
}

enum mha_disk_answer mha_program_disk_load(const struct mha_program_disk *disk,
                                           const struct mha_build *build,
                                           const struct mha_strbuf *source, cl_program *program)
{
    enum mha_disk_answer answer = MHA_DISK_NOTHING;
    struct mha_strbuf text = {0};
    struct mha_cache_key key;
    unsigned char *binary = NULL;
    size_t size = 0;
    *program = NULL;
    if (disk->path && make_key(disk, build, source, &text, &key) &&
        mha_disk_cache_load(disk->path, key, &binary, &size)) {
        *program = mha_build_from_binary(build, binary, size);
        answer = *program ? MHA_DISK_LOADED : MHA_DISK_REFUSED;
    }
    free(binary);
    mha_strbuf_free(&text);
    return answer;
}

void mha_program_disk_save(const struct mha_program_disk *disk, const struct mha_build *build,
                           const struct mha_strbuf *source, cl_program program, int replaces)
{
    struct mha_strbuf text = {0};
    struct mha_cache_key key;
    unsigned char *binary = NULL;
    size_t size = 0;
    /* The directory is looked at first: to make the binary may take the driver a second. */
    if (mha_disk_cache_usable(disk->path) && make_key(disk, build, source, &text, &key) &&
        (replaces || !mha_disk_cache_load(disk->path, key, &binary, &size)) &&
        mha_build_binary(program, &binary, &size)) {
        mha_disk_cache_save(disk->path, key, binary, size);
    }
    free(binary);
    mha_strbuf_free(&text);
}
