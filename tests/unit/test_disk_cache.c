/*
 * test_disk_cache.c - the files of the disk cache: kept, found, found damaged, bounded.
 *
 * Needs no device: a "binary" here is a run of bytes.
 */
#include "cl/disk_cache.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BINARY_SIZE = 211 };

static const struct mha_cache_key key = {"a driver\n-D NAME=1\nsome source", 30};
static unsigned char binary[BINARY_SIZE];

static char work[] = "disk_cache-XXXXXX";
static char path[64]; /* of the cache, below `work`; made by what is tested */

static void set_up(void)
{
    memcpy(work + sizeof work - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(work));
    snprintf(path, sizeof path, "%s/cache", work);
    for (int i = 0; i < BINARY_SIZE; i++) {
        binary[i] = (unsigned char)(i * 37 + 11);
    }
}

/* Directories here hold files alone. */
static void remove_directory(const char *name)
{
    DIR *stream = opendir(name);
    if (!stream) {
        return;
    }
    for (const struct dirent *entry; (entry = readdir(stream));) {
        if (unlinkat(dirfd(stream), entry->d_name, 0) != 0) {
            unlinkat(dirfd(stream), entry->d_name, AT_REMOVEDIR);
        }
    }
    closedir(stream);
    rmdir(name);
}

static void tear_down(void)
{
    remove_directory(path);
    remove_directory(work);
}

static int count_files(const char *directory)
{
    int count = 0;
    DIR *stream = opendir(directory);
    if (!stream) {
        return 0;
    }
    for (const struct dirent *entry; (entry = readdir(stream));) {
        count += entry->d_name[0] != '.';
    }
    closedir(stream);
    return count;
}

/* The path of the one file in the cache. */
static void name_only_file(char *name, size_t size)
{
    DIR *stream = opendir(path);
    ck_assert_ptr_nonnull(stream);
    name[0] = '\0';
    for (const struct dirent *entry; (entry = readdir(stream));) {
        if (entry->d_name[0] != '.') {
            ck_assert_str_eq(name, "");
            snprintf(name, size, "%s/%s", path, entry->d_name);
        }
    }
    closedir(stream);
    ck_assert_str_ne(name, "");
}

static size_t read_bytes(const char *name, unsigned char *bytes, size_t capacity)
{
    FILE *file = fopen(name, "rb");
    ck_assert_ptr_nonnull(file);
    size_t size = fread(bytes, 1, capacity, file);
    fclose(file);
    return size;
}

static void write_bytes(const char *name, const unsigned char *bytes, size_t size)
{
    FILE *file = fopen(name, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

static int is_found(struct mha_cache_key wanted)
{
    unsigned char *bytes = NULL;
    size_t size = 0;
    if (!mha_disk_cache_load(path, wanted, &bytes, &size)) {
        return 0;
    }
    ck_assert_uint_eq(size, BINARY_SIZE);
    ck_assert_mem_eq(bytes, binary, BINARY_SIZE);
    free(bytes);
    return 1;
}

/* ---- files ---- */

START_TEST(what_is_saved_is_found_again)
{
    ck_assert(!is_found(key));
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    ck_assert(is_found(key));
    ck_assert_int_eq(count_files(path), 1);

    struct stat facts;
    ck_assert_int_eq(stat(path, &facts), 0);
    ck_assert_uint_eq(facts.st_mode & 0777, 0700);
    char name[512];
    name_only_file(name, sizeof name);
    ck_assert_int_eq(stat(name, &facts), 0);
    ck_assert_uint_eq(facts.st_mode & 0777, 0600);
}
END_TEST

START_TEST(another_key_finds_nothing)
{
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    char other[64];
    for (size_t i = 0; i < key.size; i++) {
        memcpy(other, key.bytes, key.size);
        other[i] ^= 1;
        ck_assert(!is_found((struct mha_cache_key){other, key.size}));
    }
    ck_assert(!is_found((struct mha_cache_key){key.bytes, key.size - 1}));
    ck_assert(!is_found((struct mha_cache_key){key.bytes, 0}));
}
END_TEST

/* As if two keys had the same hash. */
START_TEST(a_file_under_the_name_of_another_key_is_passed_over)
{
    static const struct mha_cache_key other = {"a driver\n-D NAME=2\nsome source", 30};
    char first[512], second[512];
    mha_disk_cache_save(path, other, binary, BINARY_SIZE);
    name_only_file(first, sizeof first);
    unsigned char bytes[1024];
    size_t size = read_bytes(first, bytes, sizeof bytes);
    unlink(first);
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    name_only_file(second, sizeof second);
    write_bytes(second, bytes, size);
    ck_assert(!is_found(key));
}
END_TEST

/* Saves over the damage, which must be gone then. */
static void assert_passed_over_and_repaired(void)
{
    ck_assert(!is_found(key));
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    ck_assert(is_found(key));
}

START_TEST(damage_anywhere_is_seen_and_repaired)
{
    char name[512];
    unsigned char whole[1024], bad[1024];
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    name_only_file(name, sizeof name);
    size_t size = read_bytes(name, whole, sizeof whole);
    ck_assert_uint_gt(size, key.size + BINARY_SIZE);
    ck_assert_uint_lt(size, sizeof whole);

    for (size_t length = 0; length < size; length++) {
        ck_assert_int_eq(truncate(name, (off_t)length), 0);
        assert_passed_over_and_repaired();
    }
    int file = open(name, O_WRONLY);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        unsigned char flipped = whole[bit / 8] ^ (unsigned char)(1u << bit % 8);
        ck_assert_int_eq(pwrite(file, &flipped, 1, (off_t)(bit / 8)), 1);
        ck_assert_msg(!is_found(key), "bit %zu is flipped", bit);
        ck_assert_int_eq(pwrite(file, &whole[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    close(file);
    ck_assert(is_found(key));
    memset(bad, 0, sizeof bad);
    write_bytes(name, bad, size);
    assert_passed_over_and_repaired();
    memset(bad, 0xff, sizeof bad);
    write_bytes(name, bad, size);
    assert_passed_over_and_repaired();
    /* Whole, and more behind it. */
    memcpy(bad, whole, size);
    write_bytes(name, bad, size + 1);
    assert_passed_over_and_repaired();
}
END_TEST

START_TEST(a_huge_file_is_not_read)
{
    char name[512];
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    name_only_file(name, sizeof name);
    ck_assert_int_eq(truncate(name, (off_t)1 << 40), 0);
    assert_passed_over_and_repaired();
}
END_TEST

START_TEST(a_binary_too_large_or_empty_is_not_kept)
{
    mha_disk_cache_save(path, key, binary, 0);
    mha_disk_cache_save(path, key, binary, SIZE_MAX);
    mha_disk_cache_save(path, key, binary, (size_t)64 << 20);
    ck_assert_int_eq(count_files(path), 0);
}
END_TEST

/* A directory cannot be replaced by a file; the others can. */
START_TEST(other_things_under_the_name_are_passed_over)
{
    char name[512], target[sizeof path + 8];
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    name_only_file(name, sizeof name);

    snprintf(target, sizeof target, "%s/whole", path);
    ck_assert_int_eq(rename(name, target), 0);
    ck_assert_int_eq(symlink("whole", name), 0);
    assert_passed_over_and_repaired();

    ck_assert_int_eq(unlink(name), 0);
    ck_assert_int_eq(mkfifo(name, 0600), 0);
    assert_passed_over_and_repaired();

    ck_assert_int_eq(unlink(name), 0);
    ck_assert_int_eq(mkdir(name, 0700), 0);
    ck_assert(!is_found(key));
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    ck_assert(!is_found(key));
    ck_assert_int_eq(count_files(path), 2); /* nothing was left aside */
}
END_TEST

/* ---- the directory ---- */

START_TEST(missing_directories_are_made)
{
    char deep[sizeof path + 16], middle[sizeof path + 16];
    snprintf(middle, sizeof middle, "%s/a", path);
    snprintf(deep, sizeof deep, "%s/a/b", path);
    ck_assert(mha_disk_cache_usable(deep));
    struct stat facts;
    ck_assert_int_eq(stat(middle, &facts), 0);
    ck_assert_uint_eq(facts.st_mode & 0777, 0700);
    rmdir(deep);
    rmdir(middle);
}
END_TEST

/* And nothing is written, and nothing fails. */
static void assert_unusable(const char *directory)
{
    unsigned char *bytes;
    size_t size;
    ck_assert(!mha_disk_cache_usable(directory));
    mha_disk_cache_save(directory, key, binary, BINARY_SIZE);
    ck_assert(!mha_disk_cache_load(directory, key, &bytes, &size));
}

START_TEST(without_a_directory_nothing_is_kept)
{
    char file[sizeof path], below[sizeof path + 16];
    assert_unusable(NULL);
    assert_unusable("");
    snprintf(file, sizeof file, "%s/file", work);
    write_bytes(file, binary, 5);
    assert_unusable(file);
    snprintf(below, sizeof below, "%s/file/cache", work);
    assert_unusable(below);
    ck_assert_int_eq(count_files(work), 1);
}
END_TEST

START_TEST(a_directory_that_others_may_write_to_is_not_trusted)
{
    static const mode_t modes[] = {0770, 0707, 0777, 01777};
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    ck_assert_int_eq(chmod(path, modes[_i]), 0);
    ck_assert(!is_found(key));
    assert_unusable(path);
    ck_assert_int_eq(chmod(path, 0755), 0);
    ck_assert(is_found(key));
    ck_assert(mha_disk_cache_usable(path));
}
END_TEST

START_TEST(a_directory_of_another_user_is_not_trusted)
{
    if (geteuid() != 0) {
        /* Whoever may not give a directory away looks at one that belongs to root. */
        assert_unusable("/usr");
        return;
    }
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    ck_assert_int_eq(chown(path, 65534, (gid_t)-1), 0);
    ck_assert(!is_found(key));
    assert_unusable(path);
}
END_TEST

START_TEST(a_directory_closed_to_writing_is_still_read)
{
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    ck_assert_int_eq(chmod(path, 0500), 0);
    ck_assert(is_found(key));
    if (geteuid() != 0) {
        ck_assert(!mha_disk_cache_usable(path));
    }
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    ck_assert(is_found(key));
    ck_assert_int_eq(chmod(path, 0700), 0);
}
END_TEST

/* The signal's default would end the process. */
START_TEST(a_limit_on_file_sizes_only_means_that_nothing_is_kept)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        const struct rlimit limit = {BINARY_SIZE, BINARY_SIZE};
        setrlimit(RLIMIT_FSIZE, &limit);
        mha_disk_cache_save(path, key, binary, BINARY_SIZE);
        _exit(0);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(count_files(path), 0);
}
END_TEST

/* ---- the environment ---- */

static const struct place {
    const char *cache_dir, *xdg, *home; /* NULL: not set */
    const char *path;                   /* NULL: no cache */
} places[] = {
    {"/a/b", "/xdg", "/home/u", "/a/b"},
    {"relative", "/xdg", "/home/u", "relative"},
    {"off", "/xdg", "/home/u", NULL},
    {"", "/xdg", "/home/u", NULL},
    {NULL, "/xdg", "/home/u", "/xdg/gpu_mha"},
    {NULL, NULL, "/home/u", "/home/u/.cache/gpu_mha"},
    {NULL, "", "/home/u", "/home/u/.cache/gpu_mha"},
    {NULL, "relative", "/home/u", "/home/u/.cache/gpu_mha"},
    {NULL, NULL, NULL, NULL},
    {NULL, NULL, "", NULL},
    {NULL, NULL, "relative", NULL},
};
enum { PLACES = sizeof places / sizeof places[0] };

static void set_variable(const char *name, const char *value)
{
    ck_assert_int_eq(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

START_TEST(the_environment_names_the_directory)
{
    const struct place *p = &places[_i];
    set_variable("GPU_MHA_CACHE_DIR", p->cache_dir);
    set_variable("XDG_CACHE_HOME", p->xdg);
    set_variable("HOME", p->home);
    char *got = mha_disk_cache_path();
    if (p->path) {
        ck_assert_str_eq(got, p->path);
    } else {
        ck_assert_ptr_null(got);
    }
    free(got);
}
END_TEST

/* ---- bounds ---- */

/* Key number `i`. */
static struct mha_cache_key numbered(char text[16], int i)
{
    int size = snprintf(text, 16, "key %d", i);
    return (struct mha_cache_key){text, (size_t)size};
}

START_TEST(the_least_recently_used_files_go)
{
    enum { SAVED = MHA_CACHE_FILES_MAX + 3 };
    char text[16], foreign[sizeof path + 16];
    mha_disk_cache_save(path, numbered(text, 0), binary, BINARY_SIZE);
    snprintf(foreign, sizeof foreign, "%s/notes.txt", path);
    write_bytes(foreign, binary, 9);
    for (int i = 1; i < SAVED; i++) {
        ck_assert(is_found(numbered(text, 0))); /* number 0 is in use all the time */
        mha_disk_cache_save(path, numbered(text, i), binary, BINARY_SIZE);
    }
    ck_assert_int_eq(count_files(path), MHA_CACHE_FILES_MAX + 1);
    ck_assert(is_found(numbered(text, 0)));
    ck_assert(is_found(numbered(text, SAVED - 1)));
    ck_assert_int_eq(access(foreign, F_OK), 0);
}
END_TEST

/* Files with holes count by their length and take no room. */
START_TEST(the_bytes_are_bounded_too)
{
    enum { SIZE = 50 << 20, LARGE = 7, KEPT = MHA_CACHE_BYTES_MAX / SIZE };
    char name[LARGE][sizeof path + 32];
    ck_assert(mha_disk_cache_usable(path));
    for (int i = 0; i < LARGE; i++) {
        snprintf(name[i], sizeof name[i], "%s/%d.program", path, i);
        write_bytes(name[i], binary, 1);
        ck_assert_int_eq(truncate(name[i], SIZE), 0);
        const struct timespec used[2] = {{1000000 + i, 0}, {1000000 + i, 0}};
        ck_assert_int_eq(utimensat(AT_FDCWD, name[i], used, 0), 0);
    }
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    ck_assert(is_found(key));
    for (int i = 0; i < LARGE; i++) {
        ck_assert_int_eq(access(name[i], F_OK) == 0, i >= LARGE - KEPT);
    }
}
END_TEST

START_TEST(what_a_dead_writer_left_is_removed)
{
    char old[sizeof path + 32], fresh[sizeof path + 32];
    ck_assert(mha_disk_cache_usable(path));
    snprintf(old, sizeof old, "%s/12345-0.aside", path);
    snprintf(fresh, sizeof fresh, "%s/12345-1.aside", path);
    write_bytes(old, binary, 50);
    write_bytes(fresh, binary, 50);
    const struct timespec long_ago[2] = {{1000000, 0}, {1000000, 0}};
    ck_assert_int_eq(utimensat(AT_FDCWD, old, long_ago, 0), 0);
    mha_disk_cache_save(path, key, binary, BINARY_SIZE);
    ck_assert_int_ne(access(old, F_OK), 0);
    ck_assert_int_eq(access(fresh, F_OK), 0);
}
END_TEST

/* ---- many at once ---- */

enum { WORKERS = 8, ROUNDS = 100 };

/* Saves its own binary, and must load either nothing or one binary as some worker saved it. */
static void *save_and_load(void *number)
{
    unsigned char own[4096], *bytes;
    size_t size, bad = 0;
    memset(own, *(const int *)number + 1, sizeof own);
    for (int round = 0; round < ROUNDS; round++) {
        mha_disk_cache_save(path, key, own, sizeof own - (size_t) * (const int *)number);
        if (!mha_disk_cache_load(path, key, &bytes, &size)) {
            continue;
        }
        bad += bytes[0] < 1 || bytes[0] > WORKERS || size != sizeof own - (bytes[0] - 1);
        for (size_t i = 1; i < size; i++) {
            bad += bytes[i] != bytes[0];
        }
        free(bytes);
    }
    return bad ? number : NULL;
}

START_TEST(threads_see_whole_files)
{
    pthread_t threads[WORKERS];
    int numbers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, save_and_load, &numbers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        void *bad;
        ck_assert_int_eq(pthread_join(threads[i], &bad), 0);
        ck_assert_ptr_null(bad);
    }
    ck_assert_int_eq(count_files(path), 1);
}
END_TEST

START_TEST(processes_see_whole_files)
{
    pid_t children[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0) {
            _exit(save_and_load(&i) != NULL);
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        int status = -1;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_int_eq(count_files(path), 1);
}
END_TEST

static Suite *disk_cache_suite(void)
{
    Suite *suite = suite_create("disk_cache");
    TCase *files = tcase_create("files"), *directory = tcase_create("directory");
    TCase *bounds = tcase_create("bounds"), *many = tcase_create("many");
    TCase *const with_directory[] = {files, directory, bounds, many};
    for (size_t i = 0; i < sizeof with_directory / sizeof with_directory[0]; i++) {
        tcase_add_checked_fixture(with_directory[i], set_up, tear_down);
        tcase_set_timeout(with_directory[i], 120);
        suite_add_tcase(suite, with_directory[i]);
    }
    tcase_add_test(files, what_is_saved_is_found_again);
    tcase_add_test(files, another_key_finds_nothing);
    tcase_add_test(files, a_file_under_the_name_of_another_key_is_passed_over);
    tcase_add_test(files, damage_anywhere_is_seen_and_repaired);
    tcase_add_test(files, a_huge_file_is_not_read);
    tcase_add_test(files, a_binary_too_large_or_empty_is_not_kept);
    tcase_add_test(files, other_things_under_the_name_are_passed_over);

    tcase_add_test(directory, missing_directories_are_made);
    tcase_add_test(directory, without_a_directory_nothing_is_kept);
    tcase_add_loop_test(directory, a_directory_that_others_may_write_to_is_not_trusted, 0, 4);
    tcase_add_test(directory, a_directory_of_another_user_is_not_trusted);
    tcase_add_test(directory, a_directory_closed_to_writing_is_still_read);
    tcase_add_test(directory, a_limit_on_file_sizes_only_means_that_nothing_is_kept);

    tcase_add_test(bounds, the_least_recently_used_files_go);
    tcase_add_test(bounds, the_bytes_are_bounded_too);
    tcase_add_test(bounds, what_a_dead_writer_left_is_removed);

    tcase_add_test(many, threads_see_whole_files);
    tcase_add_test(many, processes_see_whole_files);

    TCase *environment = tcase_create("environment");
    tcase_add_loop_test(environment, the_environment_names_the_directory, 0, PLACES);
    suite_add_tcase(suite, environment);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(disk_cache_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
