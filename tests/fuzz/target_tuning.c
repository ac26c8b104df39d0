/*
 * The files of the kinds tuning and verdicts. Input: a byte of how, then
 *
 *   a text, as it is; with the right checksum behind it; or as the entries between a right head and
 *   a right checksum, which get into a plan's choice; or
 *   a device's name and driver, an entry, and what happens to the file between writing and reading.
 */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attention/shape.h"
#include "cl/tuned.h"
#include "core/sha256.h"
#include "fuzz/fake_cl.h"

enum how { ENTRIES_IN_CONTEXT = 3, VERDICTS = 4, PLACE = 8, GPU = 16, VENDOR = 32 };

/* Each line of the log is one, and printable. */
static void check_line(void *user, const char *level, const char *line)
{
    (void)user;
    FUZZ_ASSERT(level[0] != '\0');
    fuzz_check_printable(line);
}

/* ---- texts -------------------------------------------------------------------------------- */

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

/* Made, or refused because a verdict is on the last that could compute it. */
static void check_made(gpu_mha_status status, bool with_verdicts)
{
    if (status != GPU_MHA_OK) {
        FUZZ_ASSERT(with_verdicts && status == GPU_MHA_UNSUPPORTED);
        FUZZ_ASSERT(strstr(gpu_mha_last_error(), "gpu-mha doctor") != NULL);
    }
}

static void try_plans(gpu_mha_context *context, bool with_verdicts)
{
    const gpu_mha_desc desc = {.B = 1, .H = 2, .HKV = 1, .NQ = 40, .NK = 50, .DK = 8, .DV = 8};
    const gpu_mha_layer_desc layer = {.attention = &desc, .EQ = 8, .EK = 8, .EV = 8, .EO = 8};
    const gpu_mha_merge_desc merge = {.B = 1, .H = 1, .NQ = 1, .DV = 1};
    gpu_mha_plan *plan = NULL, *layer_plan = NULL, *merge_plan = NULL;
    check_made(gpu_mha_plan_create(context, &desc, &plan), with_verdicts);
    check_made(gpu_mha_layer_plan_create(context, &layer, &layer_plan), with_verdicts);
    check_made(gpu_mha_merge_plan_create(context, &merge, &merge_plan), with_verdicts);
    gpu_mha_plan_release(plan);
    gpu_mha_plan_release(layer_plan);
    gpu_mha_plan_release(merge_plan);
}

static void try_choice(gpu_mha_context *context, bool with_verdicts)
{
    const gpu_mha_desc desc = {.B = 1, .H = 2, .HKV = 1, .NQ = 40, .NK = 50, .DK = 8, .DV = 8};
    gpu_mha_choice choice = {.struct_size = sizeof choice};
    check_made(gpu_mha_choice_get(context, &desc, &choice), with_verdicts);
    FUZZ_ASSERT(gpu_mha_choice_get(context, NULL, &choice) == GPU_MHA_OK);
}

static void check_variants(gpu_mha_context *context)
{
    size_t count = 0, verdicts = 0;
    gpu_mha_variant_info info = {.struct_size = sizeof info};
    FUZZ_ASSERT(gpu_mha_variant_count(context, &count) == GPU_MHA_OK && count > 0);
    for (size_t i = 0; i < count; i++) {
        FUZZ_ASSERT(gpu_mha_variant_get(context, i, &info) == GPU_MHA_OK);
        for (int type = 0; type < 3; type++) {
            gpu_mha_verdict verdict;
            FUZZ_ASSERT(gpu_mha_verdict_get(context, info.name, (gpu_mha_type)type, &verdict) ==
                        GPU_MHA_OK);
            FUZZ_ASSERT(verdict == info.verdicts[type]);
            verdicts += info.types >> type & 1;
            FUZZ_ASSERT(strcmp(gpu_mha_verdict_text(verdict), "unknown verdict") != 0);
        }
    }
    FUZZ_ASSERT(verdicts <= MHA_TUNED_MAX); /* a file holds all */
}

/* A context with the file in its directory: whatever it says, plans are made, or told why not. */
static void try_context(const char *name, const char *text, size_t size, bool is_verdicts)
{
    gpu_mha_context *context = NULL;
    fuzz_put(name, text, size);
    FUZZ_ASSERT(gpu_mha_context_create(NULL, &context) == GPU_MHA_OK);
    try_choice(context, is_verdicts);
    try_plans(context, is_verdicts);
    if (is_verdicts) {
        check_variants(context);
        FUZZ_ASSERT(gpu_mha_verdict_forget(context) == GPU_MHA_OK);
        FUZZ_ASSERT(access(gpu_mha_verdict_file(context), F_OK) != 0);
        try_choice(context, false);
        try_plans(context, false);
    }
    gpu_mha_context_release(context);
    fuzz_clear();
    FUZZ_ASSERT(fake_live() == 0);
}

static struct fake_facts device_of(uint8_t how)
{
    static const char *const vendors[] = {"NVIDIA Corporation", "AMD",   "Intel(R)", "ARM",
                                          "QUALCOMM",           "Apple", "nobody",   ""};
    struct fake_facts facts = fake_cpu;
    if (how & GPU) {
        facts.type = CL_DEVICE_TYPE_GPU;
        facts.vendor = vendors[how / VENDOR];
        facts.local_type = CL_LOCAL;
        facts.local_bytes = 48 << 10;
        facts.extensions = "cl_intel_subgroups cl_intel_required_subgroup_size";
        facts.lanes = 32;
    }
    return facts;
}

static void try_entries(struct fuzz_bytes *bytes, uint8_t how, const struct mha_tuning_kind *kind)
{
    struct mha_device device;
    struct mha_tuning_file file;
    struct mha_strbuf text = {0};
    const struct fake_facts facts = device_of(how);
    fake_devices(&facts, 1, 1);
    FUZZ_ASSERT(mha_device_query(fake_device_id(), &device) == GPU_MHA_OK);
    mha_tuning_file_open(&file, kind, &device);
    FUZZ_ASSERT(file.path != NULL);
    if (how % 4 >= 2) {
        mha_strbuf_printf(&text, "%s", file.identity);
    }
    mha_strbuf_append(&text, (const char *)bytes->at, bytes->left);
    if (how % 4 >= 1) {
        add_checksum(&text);
    }
    try_text(mha_strbuf_text(&text), text.length, file.identity);
    if (how % 4 == ENTRIES_IN_CONTEXT) {
        try_context(file.name, mha_strbuf_text(&text), text.length, how & VERDICTS);
    }
    mha_strbuf_free(&text);
    mha_tuning_file_close(&file);
}

/* ---- places ------------------------------------------------------------------------------- */

/* Plain on every file system, in the directory, and short. */
static void check_name(const struct mha_tuning_file *file)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const size_t stem = strspn(file->name, plain);
    FUZZ_ASSERT(stem > 0 && strcmp(file->name + stem, file->kind->suffix) == 0);
    FUZZ_ASSERT(file->name[0] != '-' && strlen(file->name) <= 80);
    const size_t folder = strlen(fuzz_folder());
    FUZZ_ASSERT(strncmp(file->path, fuzz_folder(), folder) == 0 && file->path[folder] == '/');
    FUZZ_ASSERT(strcmp(file->path + folder + 1, file->name) == 0);
}

/* Lines that a driver's words cannot break. */
static void check_identity(const struct mha_tuning_file *file)
{
    int lines = 0;
    const size_t length = strlen(file->identity);
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)file->identity[i];
        FUZZ_ASSERT(c == '\n' || (c >= 0x20 && c != 0x7f));
        lines += c == '\n';
    }
    FUZZ_ASSERT(lines == (file->kind->of_sources ? 7 : 6) && file->identity[length - 1] == '\n');
}

enum spoilt { WHOLE, LONGER, SHORTER, HOLES, TOO_LARGE, EMPTY, LINK, FOLDER, PIPE, GONE, SPOILT };

static void cut_to(const char *path, off_t size)
{
    FUZZ_ASSERT(truncate(path, size) == 0);
}

/* What may have become of a file until it is read. */
static void spoil(const char *path, enum spoilt what, uint8_t by)
{
    struct stat facts;
    char other[PATH_MAX];
    FUZZ_ASSERT(stat(path, &facts) == 0);
    FUZZ_ASSERT(facts.st_size < MHA_TUNING_BYTES_MAX);
    if (what == LONGER) {
        cut_to(path, facts.st_size + 1 + by);
    } else if (what == SHORTER) {
        cut_to(path, facts.st_size * by / (UINT8_MAX + 1));
    } else if (what == HOLES) {
        cut_to(path, MHA_TUNING_BYTES_MAX);
    } else if (what == TOO_LARGE) {
        cut_to(path, MHA_TUNING_BYTES_MAX + 1 + ((off_t)by << 32));
    } else if (what == EMPTY) {
        cut_to(path, 0);
    } else if (what == LINK) {
        snprintf(other, sizeof other, "%s", fuzz_path("elsewhere"));
        FUZZ_ASSERT(rename(path, other) == 0 && symlink("elsewhere", path) == 0);
    } else if (what != WHOLE) {
        FUZZ_ASSERT(unlink(path) == 0);
        FUZZ_ASSERT(what != FOLDER || mkdir(path, 0700) == 0);
        FUZZ_ASSERT(what != PIPE || mkfifo(path, 0600) == 0);
    }
}

static void check_kept(const struct mha_tuned_list *list, const struct mha_tuned_entry *entry)
{
    FUZZ_ASSERT(list->count == 1 && strcmp(list->entries[0].key, entry->key) == 0);
    FUZZ_ASSERT(strcmp(list->entries[0].value, entry->value) == 0);
    FUZZ_ASSERT(list->entries[0].nanoseconds == entry->nanoseconds);
}

/* What was written is read again; a spoilt file is passed over and replaced. */
static void try_spoilt(const struct mha_tuning_file *file, const struct mha_tuned_entry *entry,
                       enum spoilt what, uint8_t by)
{
    static struct mha_tuned_list list;
    FUZZ_ASSERT(mha_tuning_file_save(file, entry, &list) == 1);
    check_kept(&list, entry);
    spoil(file->path, what, by);
    mha_tuning_file_load(file, &list);
    if (what == WHOLE) {
        check_kept(&list, entry);
    } else {
        FUZZ_ASSERT(list.count == 0);
    }
    const int kept = mha_tuning_file_save(file, entry, &list);
    check_kept(&list, entry);
    FUZZ_ASSERT(kept == (what != FOLDER));
    mha_tuning_file_load(file, &list);
    FUZZ_ASSERT(list.count == kept);
    FUZZ_ASSERT((mha_tuning_file_remove(file) == 0) == (what != FOLDER));
    FUZZ_ASSERT(what != FOLDER || rmdir(file->path) == 0);
    FUZZ_ASSERT(access(file->path, F_OK) != 0);
    fuzz_clear();
}

/* A verdict by the public functions: taken and there in the next context, or refused. */
static void try_verdict(const char *name, uint8_t what)
{
    const gpu_mha_type type = (gpu_mha_type)(what % 4);
    const gpu_mha_verdict verdict = (gpu_mha_verdict)(what / 4 % 8);
    gpu_mha_context *context = NULL, *next = NULL;
    gpu_mha_verdict found = GPU_MHA_VERDICT_HUNG;
    int kept = 2;
    FUZZ_ASSERT(gpu_mha_context_create(NULL, &context) == GPU_MHA_OK);
    FUZZ_ASSERT(gpu_mha_context_create(NULL, &next) == GPU_MHA_OK);
    const gpu_mha_status status = gpu_mha_verdict_set(context, name, type, verdict, &kept);
    if (status == GPU_MHA_OK) {
        FUZZ_ASSERT(kept == 1 && verdict <= GPU_MHA_VERDICT_HUNG && type <= GPU_MHA_BF16);
        FUZZ_ASSERT(gpu_mha_verdict_get(context, name, type, &found) == GPU_MHA_OK);
        FUZZ_ASSERT(found == verdict);
        FUZZ_ASSERT(gpu_mha_verdict_get(next, name, type, &found) == GPU_MHA_OK);
        FUZZ_ASSERT(found == verdict);
    } else {
        FUZZ_ASSERT(status == GPU_MHA_INVALID && kept == 2);
        fuzz_check_sentence(status, "name type verdict");
        FUZZ_ASSERT(access(gpu_mha_verdict_file(context), F_OK) != 0);
    }
    FUZZ_ASSERT(gpu_mha_verdict_forget(context) == GPU_MHA_OK);
    FUZZ_ASSERT(type > GPU_MHA_BF16 ||
                (gpu_mha_verdict_get(context, name, type, &found) == GPU_MHA_OK &&
                 found == GPU_MHA_VERDICT_NONE));
    gpu_mha_context_release(context);
    gpu_mha_context_release(next);
    FUZZ_ASSERT(fake_live() == 0);
}

/* A word that a file can hold. */
static void read_word(struct fuzz_bytes *bytes, char word[MHA_TUNED_WORD])
{
    const size_t length = 1 + fuzz_byte(bytes) % (MHA_TUNED_WORD - 1);
    for (size_t i = 0; i < length; i++) {
        word[i] = (char)(0x20 + fuzz_byte(bytes) % 0x5f);
    }
    word[length] = '\0';
}

/* A text of the input's choosing, any bytes but NUL; to be freed. */
static char *read_text(struct fuzz_bytes *bytes)
{
    const size_t wanted = 4 * (size_t)fuzz_byte(bytes);
    struct fuzz_bytes some = {bytes->at, wanted < bytes->left ? wanted : bytes->left};
    bytes->at += some.left;
    bytes->left -= some.left;
    return fuzz_text(&some);
}

static void try_place(struct fuzz_bytes *bytes, const struct mha_tuning_kind *kind)
{
    char *name = read_text(bytes), *driver = read_text(bytes), *variant = read_text(bytes);
    struct fake_facts facts = fake_cpu;
    struct mha_tuned_entry entry;
    struct mha_tuning_file file;
    struct mha_device device;
    facts.name = name;
    facts.driver = driver;
    const uint8_t verdict = fuzz_byte(bytes), what = fuzz_byte(bytes), by = fuzz_byte(bytes);
    facts.compute_units = 1u + by;
    entry.nanoseconds = (int64_t)(fuzz_u64(bytes) % 1000000000000000000u);
    read_word(bytes, entry.key);
    read_word(bytes, entry.value);
    fake_devices(&facts, 1, 1);
    FUZZ_ASSERT(mha_device_query(fake_device_id(), &device) == GPU_MHA_OK);
    mha_tuning_file_open(&file, kind, &device);
    FUZZ_ASSERT(file.path != NULL);
    check_name(&file);
    check_identity(&file);
    try_spoilt(&file, &entry, (enum spoilt)(what % SPOILT), by);
    mha_tuning_file_close(&file);
    try_verdict(variant, verdict);
    free(name);
    free(driver);
    free(variant);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool settled;
    struct fuzz_bytes bytes = {data, size};
    const uint8_t how = fuzz_byte(&bytes);
    const struct mha_tuning_kind *kind =
        how & VERDICTS ? &mha_tuning_verdicts : &mha_tuning_measured;
    if (!settled) {
        settled = true;
        fuzz_settle();
        setenv("GPU_MHA_LOG", "debug", 1);
        setenv("GPU_MHA_CACHE_DIR", fuzz_folder(), 1);
        gpu_mha_set_log(check_line, NULL);
    }
    if (how & PLACE) {
        try_place(&bytes, kind);
    } else {
        try_entries(&bytes, how, kind);
    }
    return 0;
}
