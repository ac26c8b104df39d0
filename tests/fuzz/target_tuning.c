/*
 * The tuning file. Input: a byte of how, then a text. As it is; with the right checksum behind it;
 * or as the entries between a right head and a right checksum, which get into a plan's choice.
 */
#include <string.h>

#include "attention/shape.h"
#include "cl/tuned.h"
#include "core/sha256.h"
#include "fuzz/fake_cl.h"

static const char *ignored;

static void count_lines(void *user, const char *level, const char *line)
{
    (void)user;
    FUZZ_ASSERT(strcmp(level, "debug") != 0 || line[0] != '\0');
    ignored = line;
}

static void add_checksum(struct mha_strbuf *text)
{
    unsigned char digest[MHA_SHA256_BYTES];
    char hex[MHA_SHA256_HEX];
    mha_sha256(mha_strbuf_text(text), text->length, digest);
    mha_sha256_text(digest, hex);
    mha_strbuf_printf(text, "checksum %s\n", hex);
}

static void check_list(const struct mha_tuned_list *list)
{
    FUZZ_ASSERT(list->count >= 0 && list->count <= MHA_TUNED_MAX);
    for (int i = 0; i < list->count; i++) {
        const struct mha_tuned_entry *entry = &list->entries[i];
        FUZZ_ASSERT(memchr(entry->key, '\0', sizeof entry->key) != NULL && entry->key[0] != '\0');
        FUZZ_ASSERT(memchr(entry->value, '\0', sizeof entry->value) != NULL);
        FUZZ_ASSERT(entry->value[0] != '\0' && entry->nanoseconds >= 0);
        for (int j = 0; j < i; j++) {
            FUZZ_ASSERT(strcmp(entry->key, list->entries[j].key) != 0);
        }
    }
}

/* What was read can be written and is read as the same. */
static void try_text(const char *text, size_t size, const char *identity)
{
    static struct mha_tuned_list list, again;
    char why[256] = "";
    char *exact = malloc(size > 0 ? size : 1);
    FUZZ_ASSERT(exact != NULL);
    memcpy(exact, text, size);
    const char *wrong = mha_tuning_text_read(exact, size, identity, &list, why, sizeof why);
    free(exact);
    if (wrong != NULL) {
        FUZZ_ASSERT(list.count == 0 && strlen(wrong) > 8);
        return;
    }
    check_list(&list);
    struct mha_strbuf out = {0};
    mha_tuning_text_write(&out, identity, &list);
    FUZZ_ASSERT(mha_strbuf_ok(&out));
    FUZZ_ASSERT(mha_tuning_text_read(mha_strbuf_text(&out), out.length, identity, &again, why,
                                     sizeof why) == NULL);
    FUZZ_ASSERT(again.count == list.count);
    for (int i = 0; i < list.count; i++) {
        FUZZ_ASSERT(strcmp(again.entries[i].key, list.entries[i].key) == 0);
        FUZZ_ASSERT(strcmp(again.entries[i].value, list.entries[i].value) == 0);
        FUZZ_ASSERT(again.entries[i].nanoseconds == list.entries[i].nanoseconds);
    }
    mha_strbuf_free(&out);
}

/* A context with the file in its directory: whatever it says, plans are made. */
static void try_context(const char *name, const char *text, size_t size)
{
    const gpu_mha_desc desc = {.B = 1, .H = 2, .HKV = 1, .NQ = 40, .NK = 50, .DK = 8, .DV = 8};
    const gpu_mha_layer_desc layer = {.attention = &desc, .EQ = 8, .EK = 8, .EV = 8, .EO = 8};
    gpu_mha_context *context = NULL;
    gpu_mha_plan *plan = NULL, *layer_plan = NULL;
    gpu_mha_choice choice = {.struct_size = sizeof choice};
    fuzz_put(name, text, size);
    FUZZ_ASSERT(gpu_mha_context_create(NULL, &context) == GPU_MHA_OK);
    FUZZ_ASSERT(gpu_mha_choice_get(context, &desc, &choice) == GPU_MHA_OK);
    FUZZ_ASSERT(gpu_mha_choice_get(context, NULL, &choice) == GPU_MHA_OK);
    FUZZ_ASSERT(gpu_mha_plan_create(context, &desc, &plan) == GPU_MHA_OK);
    FUZZ_ASSERT(gpu_mha_layer_plan_create(context, &layer, &layer_plan) == GPU_MHA_OK);
    gpu_mha_plan_release(plan);
    gpu_mha_plan_release(layer_plan);
    gpu_mha_context_release(context);
    FUZZ_ASSERT(fake_live() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct mha_tuning_file file; /* of the one device, kept */
    struct fuzz_bytes bytes = {data, size};
    const uint8_t how = fuzz_byte(&bytes);
    struct mha_strbuf text = {0};
    struct mha_device device;
    if (file.path == NULL) {
        setenv("GPU_MHA_LOG", "debug", 1);
        setenv("GPU_MHA_CACHE_DIR", fuzz_folder(), 1);
        unsetenv("GPU_MHA_DEVICE");
        unsetenv("GPU_MHA_TILE");
        fake_devices(&fake_cpu, 1, 1);
        FUZZ_ASSERT(mha_device_query(fake_device_id(), &device) == GPU_MHA_OK);
        mha_tuning_file_open(&file, &mha_tuning_measured, &device);
        FUZZ_ASSERT(file.path != NULL);
        gpu_mha_set_log(count_lines, NULL);
    }
    if (how % 4 >= 2) {
        mha_strbuf_printf(&text, "%s", file.identity);
    }
    mha_strbuf_append(&text, (const char *)bytes.at, bytes.left);
    if (how % 4 >= 1) {
        add_checksum(&text);
    }
    try_text(mha_strbuf_text(&text), text.length, file.identity);
    if (how % 4 == 3) {
        try_context(file.name, mha_strbuf_text(&text), text.length);
    }
    mha_strbuf_free(&text);
    return 0;
}
