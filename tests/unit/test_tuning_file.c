/*
 * test_tuning_file.c - the tuning file: kept, found, and passed over with a warning whatever is
 * wrong with it.
 *
 * Its texts are written here from the format's description in cl/tuning_file.h. The device is one
 * that this machine has, since its names come from the driver; nothing runs on it.
 */
#include "cl/tuned.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/sha256.h"

static const struct mha_tuned_entry first = {"a kind", "12,16,2,8", 1500000};
static const struct mha_tuned_entry second = {"another kind", "g:16,64", 17};

static char work[] = "tuning_file-XXXXXX";
static struct mha_device device;
static struct mha_tuning_file file;

static int warnings;
static char warning[2048];

static void count_warnings(void *user, const char *level, const char *line)
{
    (void)user;
    if (strcmp(level, "warn") == 0) {
        warnings++;
        snprintf(warning, sizeof warning, "%s", line);
    }
}

static void set_up(void)
{
    cl_device_id id;
    unsetenv("GPU_MHA_LOG");
    ck_assert_msg(mha_device_select(NULL, &id) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    ck_assert_int_eq(mha_device_query(id, &device), GPU_MHA_OK);
    memcpy(work + sizeof work - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(work));
    ck_assert_int_eq(setenv("GPU_MHA_CACHE_DIR", work, 1), 0);
    mha_tuning_file_open(&file, &mha_tuning_measured, &device);
    ck_assert_ptr_nonnull(file.path);
    warnings = 0;
    gpu_mha_set_log(count_warnings, NULL);
}

static void tear_down(void)
{
    gpu_mha_set_log(NULL, NULL);
    mha_tuning_file_close(&file);
    DIR *stream = opendir(work);
    ck_assert_ptr_nonnull(stream);
    for (const struct dirent *entry; (entry = readdir(stream));) {
        if (unlinkat(dirfd(stream), entry->d_name, 0) != 0) {
            unlinkat(dirfd(stream), entry->d_name, AT_REMOVEDIR);
        }
    }
    closedir(stream);
    rmdir(work);
}

static int count_files(void)
{
    int count = 0;
    DIR *stream = opendir(work);
    ck_assert_ptr_nonnull(stream);
    for (const struct dirent *entry; (entry = readdir(stream));) {
        count += entry->d_name[0] != '.';
    }
    closedir(stream);
    return count;
}

static void save(const struct mha_tuned_entry *entry)
{
    static struct mha_tuned_list list;
    ck_assert(mha_tuning_file_save(&file, entry, &list));
}

static struct mha_tuned_list *load(void)
{
    static struct mha_tuned_list list;
    list.count = -1;
    mha_tuning_file_load(&file, &list);
    return &list;
}

static void assert_holds(const struct mha_tuned_entry *wanted)
{
    const struct mha_tuned_entry *found = mha_tuned_find(load(), wanted->key);
    ck_assert_ptr_nonnull(found);
    ck_assert_str_eq(found->value, wanted->value);
    ck_assert_int_eq(found->nanoseconds, wanted->nanoseconds);
}

/* Nothing is found, one warning names the file and says why. */
static void assert_passed_over(const char *why)
{
    warnings = 0;
    ck_assert_int_eq(load()->count, 0);
    ck_assert_msg(warnings == 1, "%d warnings where '%s' is expected", warnings, why);
    ck_assert_msg(strstr(warning, file.path) != NULL, "no path in: %s", warning);
    ck_assert_msg(strstr(warning, why) != NULL, "no '%s' in: %s", why, warning);
}

static void write_file(const char *bytes, size_t size)
{
    FILE *stream = fopen(file.path, "wb");
    ck_assert_ptr_nonnull(stream);
    ck_assert_uint_eq(fwrite(bytes, 1, size, stream), size);
    ck_assert_int_eq(fclose(stream), 0);
}

static size_t read_file(char *bytes, size_t capacity)
{
    FILE *stream = fopen(file.path, "rb");
    ck_assert_ptr_nonnull(stream);
    size_t size = fread(bytes, 1, capacity - 1, stream);
    fclose(stream);
    bytes[size] = '\0';
    return size;
}

/* The lines, and the checksum that belongs to them. */
static void write_lines(const char *lines)
{
    unsigned char digest[MHA_SHA256_BYTES];
    char hex[MHA_SHA256_HEX], text[16384];
    mha_sha256(lines, strlen(lines), digest);
    mha_sha256_text(digest, hex);
    int size = snprintf(text, sizeof text, "%schecksum %s\n", lines, hex);
    write_file(text, (size_t)size);
}

/* The head of a file for this device, and these lines behind it. */
static void write_entries(const char *entries)
{
    char lines[8192];
    snprintf(lines, sizeof lines, "%s%s", file.identity, entries);
    write_lines(lines);
}

/* ---- what is kept ---- */

START_TEST(what_is_saved_is_found_again)
{
    ck_assert_int_eq(load()->count, 0);
    save(&first);
    assert_holds(&first);
    save(&second);
    assert_holds(&first);
    assert_holds(&second);
    const struct mha_tuned_entry better = {"a kind", "6,8,2,16", 900000};
    save(&better);
    assert_holds(&better);
    assert_holds(&second);
    ck_assert_int_eq(load()->count, 2);
    ck_assert_int_eq(count_files(), 1);
    ck_assert_int_eq(warnings, 0);
    struct stat facts;
    ck_assert_int_eq(stat(file.path, &facts), 0);
    ck_assert_uint_eq(facts.st_mode & 0777, 0600);
}
END_TEST

START_TEST(the_text_is_the_one_that_is_described)
{
    save(&first);
    save(&second);
    char found[4096];
    read_file(found, sizeof found);
    write_entries("entry a kind\t12,16,2,8\t1500000\nentry another kind\tg:16,64\t17\n");
    char wanted[4096];
    read_file(wanted, sizeof wanted);
    ck_assert_str_eq(found, wanted);
    const char *const head = "gpu_mha " GPU_MHA_VERSION_STRING " tuning 1\ndevice ";
    ck_assert_int_eq(strncmp(found, head, strlen(head)), 0);
    ck_assert_ptr_nonnull(strstr(found, device.name));
}
END_TEST

/* Nothing, not even a directory, is made by looking. */
START_TEST(without_a_file_there_is_no_word)
{
    ck_assert_int_eq(load()->count, 0);
    ck_assert_int_eq(rmdir(work), 0);
    ck_assert_int_eq(load()->count, 0);
    ck_assert_int_ne(access(work, F_OK), 0);
    ck_assert_int_eq(warnings, 0);
    save(&first); /* makes it */
    assert_holds(&first);
}
END_TEST

START_TEST(the_oldest_entry_makes_room)
{
    struct mha_tuned_entry entry = {"", "value", 1};
    for (int i = 0; i < MHA_TUNED_MAX + 2; i++) {
        snprintf(entry.key, sizeof entry.key, "key %d", i);
        save(&entry);
    }
    struct mha_tuned_list *list = load();
    ck_assert_int_eq(list->count, MHA_TUNED_MAX);
    ck_assert_ptr_null(mha_tuned_find(list, "key 1"));
    ck_assert_ptr_nonnull(mha_tuned_find(list, "key 2"));
    ck_assert_ptr_nonnull(mha_tuned_find(list, entry.key));
}
END_TEST

/* Words as long as they may be, as many as may be, are still a file that is read. */
START_TEST(the_largest_list_is_read_back)
{
    struct mha_tuned_entry entry = {"", "", INT64_C(999999999999999999)};
    memset(entry.value, 'v', sizeof entry.value - 1);
    for (int i = 0; i < MHA_TUNED_MAX; i++) {
        snprintf(entry.key, sizeof entry.key, "%0*d", MHA_TUNED_WORD - 1, i);
        save(&entry);
    }
    ck_assert_int_eq(load()->count, MHA_TUNED_MAX);
    assert_holds(&entry);
}
END_TEST

/* ---- what is passed over ---- */

static void assert_repaired(void)
{
    save(&second);
    assert_holds(&second);
    ck_assert_int_eq(load()->count, 1);
}

START_TEST(damage_anywhere_is_seen_and_repaired)
{
    char whole[4096], bad[4096];
    save(&first);
    const size_t size = read_file(whole, sizeof whole);
    for (size_t length = size; length-- > 0;) {
        ck_assert_int_eq(truncate(file.path, (off_t)length), 0);
        assert_passed_over(length == 0 ? "it is empty" : "it is ");
    }
    write_file(whole, size);
    int opened = open(file.path, O_WRONLY);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        const unsigned char byte = (unsigned char)whole[bit / 8];
        const unsigned char flipped = (unsigned char)(byte ^ 1u << bit % 8);
        ck_assert_int_eq(pwrite(opened, &flipped, 1, (off_t)(bit / 8)), 1);
        assert_passed_over("it is ");
        ck_assert_int_eq(pwrite(opened, &byte, 1, (off_t)(bit / 8)), 1);
    }
    close(opened);
    assert_holds(&first);
    memcpy(bad, whole, size);
    bad[size] = '\n';
    write_file(bad, size + 1);
    assert_passed_over("it is damaged: its checksum is wrong");
    memset(bad, 0, size);
    write_file(bad, size);
    assert_passed_over("it is no file of gpu_mha");
    assert_repaired();
}
END_TEST

/* Each line of the head, changed as another device, driver, library or format would. */
START_TEST(a_foreign_file_is_passed_over)
{
    save(&first);
    char lines[4096];
    int count = 0;
    for (const char *at = file.identity; *at; at = strchr(at, '\n') + 1, count++) {
        const size_t before = (size_t)(at - file.identity), length = strcspn(at, "\n");
        snprintf(lines, sizeof lines, "%.*s 9%s", (int)(before + length), file.identity,
                 at + length);
        write_lines(lines);
        char expected[160];
        snprintf(expected, sizeof expected, "it is for \"%.*s", length > 80 ? 80 : (int)length, at);
        assert_passed_over(expected);
    }
    ck_assert_int_eq(count, 6);
    /* The head is cut short. */
    snprintf(lines, sizeof lines, "%.*s\n", (int)strcspn(file.identity, "\n"), file.identity);
    write_lines(lines);
    assert_passed_over("it is for \"\", here is \"device ");
    assert_repaired();
}
END_TEST

START_TEST(entries_that_cannot_be_read_are_passed_over)
{
    static const char *const bad[] = {
        "\n",
        "entry \n",
        "entry a\n",
        "entry a\tb\n",
        "entry a\tb\t\n",
        "entry a\tb\tc\n",
        "entry a\tb\t-1\n",
        "entry a\tb\t+1\n",
        "entry a\tb\t 1\n",
        "entry a\tb\t1.5\n",
        "entry a\tb\t1e3\n",
        "entry a\tb\tnan\n",
        "entry a\tb\t1234567890123456789\n",
        "entry a\tb\t1\t\n",
        "entry a\tb\t1", /* and the checksum in the same line */
        "entry \tb\t1\n",
        "entry a\t\t1\n",
        "entrance a\tb\t1\n",
        "entry a\xc3\xa4\tb\t1\n",
        "entry 1234567890123456789012345678901234567890123456789012345678901234\tb\t1\n",
        "entry a\t1234567890123456789012345678901234567890123456789012345678901234\t1\n",
        "entry a\tb\t1\nentry a\tb\t1\n", /* twice */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_entries(bad[i]);
        assert_passed_over("its entry ");
    }
    write_entries("entry a\x1b[2J\tb\t1\n");
    assert_passed_over("it is damaged");
    write_entries("entry a\tb\t1\n");
    ck_assert_int_eq(load()->count, 1);
}
END_TEST

START_TEST(too_many_entries_are_passed_over)
{
    char entries[8192];
    size_t used = 0;
    for (int i = 0; i <= MHA_TUNED_MAX; i++) {
        used += (size_t)snprintf(entries + used, sizeof entries - used, "entry k%d\tv\t1\n", i);
    }
    write_entries(entries);
    assert_passed_over("is one too many");
}
END_TEST

START_TEST(a_huge_file_is_not_read)
{
    save(&first);
    ck_assert_int_eq(truncate(file.path, (off_t)1 << 40), 0);
    assert_passed_over("it is too large");
    assert_repaired();
}
END_TEST

START_TEST(other_things_under_the_name_are_passed_over)
{
    ck_assert_int_eq(symlink("/etc/passwd", file.path), 0);
    assert_passed_over("it is no regular file");
    ck_assert_int_eq(unlink(file.path), 0);
    ck_assert_int_eq(mkfifo(file.path, 0600), 0);
    assert_passed_over("it is no regular file");
    assert_repaired();
    /* A directory cannot be replaced by a file. */
    ck_assert_int_eq(unlink(file.path), 0);
    ck_assert_int_eq(mkdir(file.path, 0700), 0);
    assert_passed_over("it is no regular file");
    static struct mha_tuned_list list;
    ck_assert(!mha_tuning_file_save(&file, &first, &list));
    ck_assert_ptr_nonnull(strstr(warning, file.path));
    ck_assert_int_eq(count_files(), 1); /* nothing was left aside */
}
END_TEST

START_TEST(a_file_closed_to_reading_is_passed_over)
{
    save(&first);
    ck_assert_int_eq(chmod(file.path, 0), 0);
    if (geteuid() != 0) {
        assert_passed_over("it cannot be read");
    } else {
        /* Root reads everything, so another user looks: whose directory that is not. */
        ck_assert_int_eq(chown(work, 65534, (gid_t)-1), 0);
        ck_assert_int_eq(load()->count, 0);
        ck_assert_int_eq(warnings, 1);
    }
}
END_TEST

START_TEST(a_directory_that_others_may_write_to_is_not_trusted)
{
    save(&first);
    ck_assert_int_eq(chmod(work, 0777), 0);
    ck_assert_int_eq(load()->count, 0);
    static struct mha_tuned_list list;
    ck_assert(!mha_tuning_file_save(&file, &second, &list));
    ck_assert_int_eq(chmod(work, 0700), 0);
    assert_holds(&first);
    ck_assert_int_eq(load()->count, 1);
}
END_TEST

/* ---- of a context ---- */

START_TEST(with_caching_off_the_values_are_the_contexts)
{
    static const char *const off[] = {"off", ""};
    ck_assert_int_eq(setenv("GPU_MHA_CACHE_DIR", off[_i], 1), 0);
    struct mha_tuned *tuned = NULL;
    struct mha_tuned_entry found;
    ck_assert_int_eq(mha_tuned_create(&mha_tuning_measured, &device, &tuned), GPU_MHA_OK);
    ck_assert_ptr_null(mha_tuned_path(tuned));
    ck_assert(!mha_tuned_get(tuned, first.key, &found));
    ck_assert_int_eq(warnings, 0);
    ck_assert(!mha_tuned_put(tuned, &first));
    ck_assert_ptr_nonnull(strstr(warning, "caching is off"));
    ck_assert(mha_tuned_get(tuned, first.key, &found));
    ck_assert_str_eq(found.value, first.value);
    mha_tuned_destroy(tuned);
    ck_assert_int_eq(count_files(), 0);
}
END_TEST

START_TEST(a_rejected_entry_is_told_once)
{
    struct mha_tuned *tuned = NULL;
    struct mha_tuned_entry found;
    save(&first);
    save(&second);
    ck_assert_int_eq(mha_tuned_create(&mha_tuning_measured, &device, &tuned), GPU_MHA_OK);
    ck_assert_str_eq(mha_tuned_path(tuned), file.path);
    ck_assert(mha_tuned_get(tuned, first.key, &found));
    mha_tuned_reject(tuned, &found, GPU_MHA_UNSUPPORTED, "for small problems alone");
    ck_assert_int_eq(warnings, 0);
    ck_assert(mha_tuned_get(tuned, first.key, &found));
    mha_tuned_reject(tuned, &found, GPU_MHA_BUILD, "it is no shape");
    mha_tuned_reject(tuned, &found, GPU_MHA_BUILD, "it is no shape");
    ck_assert_int_eq(warnings, 1);
    ck_assert_ptr_nonnull(strstr(warning, file.path));
    ck_assert_ptr_nonnull(strstr(warning, "it is no shape"));
    ck_assert(!mha_tuned_get(tuned, first.key, &found));
    ck_assert(mha_tuned_get(tuned, second.key, &found));
    ck_assert_str_eq(found.key, second.key);
    mha_tuned_destroy(tuned);
}
END_TEST

/* ---- many at once ---- */

enum { WORKERS = 6, ROUNDS = 20 };

/* Adds its own keys, one after the other; what it loads in between is whole. */
static void *add_keys(void *number)
{
    static const char *const value = "1,2,3,4";
    struct mha_tuned_list *list = calloc(1, sizeof *list);
    struct mha_tuned_entry entry = {"", "1,2,3,4", 5};
    int bad = list == NULL;
    for (int round = 0; !bad && round < ROUNDS; round++) {
        snprintf(entry.key, sizeof entry.key, "worker %d round %d", *(const int *)number, round);
        bad |= !mha_tuning_file_save(&file, &entry, list);
        mha_tuning_file_load(&file, list);
        bad |= !mha_tuned_find(list, entry.key);
        for (int i = 0; i < list->count; i++) {
            bad |= strcmp(list->entries[i].value, value) != 0;
        }
    }
    free(list);
    return bad ? number : NULL;
}

static void assert_all_keys(void)
{
    struct mha_tuned_list *list = load();
    ck_assert_int_eq(list->count, WORKERS * ROUNDS);
    ck_assert_int_eq(count_files(), 1);
    ck_assert_int_eq(warnings, 0);
}

START_TEST(threads_lose_nothing)
{
    pthread_t threads[WORKERS];
    int numbers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_keys, &numbers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        void *bad;
        ck_assert_int_eq(pthread_join(threads[i], &bad), 0);
        ck_assert_ptr_null(bad);
    }
    assert_all_keys();
}
END_TEST

START_TEST(processes_lose_nothing)
{
    pid_t children[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0) {
            _exit(add_keys(&i) != NULL);
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        int status = -1;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
    }
    assert_all_keys();
}
END_TEST

static Suite *tuning_file_suite(void)
{
    Suite *suite = suite_create("tuning_file");
    TCase *kept = tcase_create("kept"), *passed = tcase_create("passed");
    TCase *contexts = tcase_create("contexts"), *many = tcase_create("many");
    TCase *const all[] = {kept, passed, contexts, many};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        tcase_add_checked_fixture(all[i], set_up, tear_down);
        tcase_set_timeout(all[i], 120);
        suite_add_tcase(suite, all[i]);
    }
    tcase_add_test(kept, what_is_saved_is_found_again);
    tcase_add_test(kept, the_text_is_the_one_that_is_described);
    tcase_add_test(kept, without_a_file_there_is_no_word);
    tcase_add_test(kept, the_oldest_entry_makes_room);
    tcase_add_test(kept, the_largest_list_is_read_back);

    tcase_add_test(passed, damage_anywhere_is_seen_and_repaired);
    tcase_add_test(passed, a_foreign_file_is_passed_over);
    tcase_add_test(passed, entries_that_cannot_be_read_are_passed_over);
    tcase_add_test(passed, too_many_entries_are_passed_over);
    tcase_add_test(passed, a_huge_file_is_not_read);
    tcase_add_test(passed, other_things_under_the_name_are_passed_over);
    tcase_add_test(passed, a_file_closed_to_reading_is_passed_over);
    tcase_add_test(passed, a_directory_that_others_may_write_to_is_not_trusted);

    tcase_add_loop_test(contexts, with_caching_off_the_values_are_the_contexts, 0, 2);
    tcase_add_test(contexts, a_rejected_entry_is_told_once);

    tcase_add_test(many, threads_lose_nothing);
    tcase_add_test(many, processes_lose_nothing);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(tuning_file_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
