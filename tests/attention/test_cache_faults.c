/*
 * test_cache_faults.c - whatever is wrong with the cache of programs, the result is right.
 *
 * Each step is a new process, since within one the programs stay in memory: this program starts
 * itself with the argument "child". A child computes one attention whose result is known by
 * arithmetic and tells how many programs it built from source and how many came from the cache.
 * The parent makes no OpenCL call.
 */
#include <gpu_mha/gpu_mha.h>

#include "core/sha256.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the child ---- */

enum { H = 2, NQ = 3, NK = 5, DK = 8, DV = 4 };

struct counts {
    int built, loaded;
};

static void count_line(void *user, const char *level, const char *line)
{
    struct counts *counts = user;
    (void)level;
    counts->built += strncmp(line, "built ", 6) == 0;
    counts->loaded += strncmp(line, "loaded ", 7) == 0;
}

/* Q = 0 and V[j] = j + 1: every key weighs the same, so row i, which sees i + 1 keys, is 1 + i/2.
 */
static int run_attention(void)
{
    static float query[H * NQ * DK], key[H * NK * DK], value[H * NK * DV], output[H * NQ * DV];
    for (int x = 0; x < H * NK * DK; x++) {
        key[x] = (float)(x % 7) - 3;
    }
    for (int x = 0; x < H * NK * DV; x++) {
        value[x] = (float)(x / DV % NK + 1);
    }
    memset(output, 0xff, sizeof output);

    gpu_mha_context *context = NULL;
    const gpu_mha_desc desc = {
        .B = 1, .H = H, .HKV = H, .NQ = NQ, .NK = NK, .DK = DK, .DV = DV, .causal = 1};
    const gpu_mha_arrays arrays = {.query = query, .key = key, .value = value, .output = output};
    int bad = gpu_mha_context_create(NULL, &context) != GPU_MHA_OK ||
              gpu_mha(context, &desc, &arrays) != GPU_MHA_OK;
    if (bad) {
        fprintf(stderr, "%s\n", gpu_mha_last_error());
    } else if (*gpu_mha_last_error()) {
        bad = fprintf(stderr, "an error is left: %s\n", gpu_mha_last_error());
    }
    gpu_mha_context_release(context);
    for (int x = 0; x < H * NQ * DV && !bad; x++) {
        const float want = 1 + 0.5f * (float)(x / DV % NQ);
        if (!(output[x] > want - 1e-5f && output[x] < want + 1e-5f)) {
            bad = fprintf(stderr, "output %d is %g, must be %g\n", x, output[x], want);
        }
    }
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int child_main(void)
{
    struct counts counts = {0, 0};
    gpu_mha_set_log(count_line, &counts);
    int code = run_attention();
    gpu_mha_set_log(NULL, NULL);
    printf("%d %d\n", counts.built, counts.loaded);
    return code;
}

/* ---- the parent ---- */

static const char *program; /* this one */

struct child {
    pid_t pid;
    FILE *output;
};

static struct child start_child(void)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    struct child child = {fork(), NULL};
    ck_assert_int_ge(child.pid, 0);
    if (child.pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(program, program, "child", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    child.output = fdopen(ends[0], "r");
    ck_assert_ptr_nonnull(child.output);
    return child;
}

static struct counts finish_child(struct child child)
{
    struct counts counts = {-1, -1};
    int status = -1;
    int fields = fscanf(child.output, "%d %d", &counts.built, &counts.loaded);
    fclose(child.output);
    ck_assert_int_eq(waitpid(child.pid, &status, 0), child.pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(fields, 2);
    return counts;
}

/* A process that must get the result right. */
static struct counts run_child(void)
{
    return finish_child(start_child());
}

static char work[] = "cache_faults-XXXXXX";
static char path[64];

static void set_up(void)
{
    memcpy(work + sizeof work - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(work));
    snprintf(path, sizeof path, "%s/cache", work);
    ck_assert_int_eq(setenv("GPU_MHA_CACHE_DIR", path, 1), 0);
    ck_assert_int_eq(setenv("GPU_MHA_LOG", "debug", 1), 0);
}

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

enum { FILES_MAX = 16, NAME_SIZE = 512, BYTES_MAX = 8 << 20 };

/* The files of the cache, and nothing but whole ones. */
static int list_files(char names[FILES_MAX][NAME_SIZE])
{
    int count = 0;
    DIR *stream = opendir(path);
    if (!stream) {
        return 0;
    }
    for (const struct dirent *entry; (entry = readdir(stream));) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        ck_assert_int_lt(count, FILES_MAX);
        ck_assert_ptr_nonnull(strstr(entry->d_name, ".program"));
        snprintf(names[count++], NAME_SIZE, "%s/%s", path, entry->d_name);
    }
    closedir(stream);
    return count;
}

static unsigned char *read_bytes(const char *name, size_t *size)
{
    unsigned char *bytes = malloc(BYTES_MAX);
    ck_assert_ptr_nonnull(bytes);
    FILE *file = fopen(name, "rb");
    ck_assert_ptr_nonnull(file);
    *size = fread(bytes, 1, BYTES_MAX, file);
    fclose(file);
    ck_assert_uint_lt(*size, BYTES_MAX);
    return bytes;
}

static void write_bytes(const char *name, const unsigned char *bytes, size_t size)
{
    FILE *file = fopen(name, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

/*
 * Runs processes until one builds nothing, and returns its number of programs. What a process may
 * spend on saving is bounded, so on a slow machine the first may leave some to the next; but each
 * saves at least one.
 */
static int fill_cache(void)
{
    struct counts counts = run_child();
    int programs = counts.built + counts.loaded;
    ck_assert_int_gt(programs, 0);
    while (counts.built > 0) {
        const int built = counts.built;
        counts = run_child();
        ck_assert_int_lt(counts.built, built);
        ck_assert_int_eq(counts.built + counts.loaded, programs);
    }
    char names[FILES_MAX][NAME_SIZE];
    ck_assert_int_eq(list_files(names), programs);
    return programs;
}

static void assert_all_loaded(int programs)
{
    struct counts counts = run_child();
    ck_assert_int_eq(counts.built, 0);
    ck_assert_int_eq(counts.loaded, programs);
}

START_TEST(a_new_process_builds_what_is_missing_and_no_more)
{
    struct counts counts = run_child();
    ck_assert_int_gt(counts.built, 0);
    ck_assert_int_eq(counts.loaded, 0);
    int programs = fill_cache();
    ck_assert_int_eq(programs, counts.built);
    assert_all_loaded(programs);

    char names[FILES_MAX][NAME_SIZE];
    list_files(names);
    ck_assert_int_eq(unlink(names[0]), 0);
    counts = run_child();
    ck_assert_int_eq(counts.built, 1);
    ck_assert_int_eq(counts.loaded, programs - 1);
    assert_all_loaded(programs);
}
END_TEST

/* A driver under other settings makes other code. */
START_TEST(the_binary_of_other_compiler_settings_is_not_taken)
{
    int programs = fill_cache();
    ck_assert_int_eq(setenv("POCL_WORK_GROUP_METHOD", "loops", 1), 0);
    struct counts counts = run_child();
    ck_assert_int_eq(counts.built, programs);
    ck_assert_int_eq(counts.loaded, 0);
    ck_assert_int_eq(unsetenv("POCL_WORK_GROUP_METHOD"), 0);
    assert_all_loaded(programs);
}
END_TEST

/* ---- damage: one file at a time; what is repaired must be loaded from the next process on ---- */

/* Where things lie in a file of the format, after its magic. */
enum { KEY_SIZE_AT = 8, BINARY_SIZE_AT = 16, DIGEST_AT = 24, KEY_AT = 56 };

static size_t binary_at(const unsigned char *bytes)
{
    uint64_t key_size;
    memcpy(&key_size, bytes + KEY_SIZE_AT, sizeof key_size);
    return KEY_AT + (size_t)key_size;
}

typedef size_t damage_fn(unsigned char *bytes, size_t size, int step);

/* Damages the files in turn, `steps` times. */
static void damage_and_repair(damage_fn *damage, int steps)
{
    char names[FILES_MAX][NAME_SIZE];
    int programs = fill_cache();
    list_files(names);
    for (int step = 0; step < steps; step++) {
        size_t size;
        const char *name = names[step % programs];
        unsigned char *bytes = read_bytes(name, &size);
        size = damage(bytes, size, step);
        write_bytes(name, bytes, size);
        free(bytes);
        struct counts counts = run_child();
        ck_assert_msg(counts.built == 1 && counts.loaded == programs - 1,
                      "step %d: built %d, loaded %d of %d programs", step, counts.built,
                      counts.loaded, programs);
    }
    assert_all_loaded(programs);
}

static size_t truncated(unsigned char *bytes, size_t size, int step)
{
    size_t middle = binary_at(bytes);
    const size_t lengths[] = {0,          1,          KEY_AT - 1, KEY_AT,   KEY_AT + 1,
                              middle - 1, middle + 1, middle,     size / 2, size - 1};
    return lengths[(size_t)step % (sizeof lengths / sizeof lengths[0])];
}

START_TEST(a_truncated_file_is_repaired)
{
    damage_and_repair(truncated, 10);
}
END_TEST

/* One bit in each part of the header, in the key, and from the first to the last of the binary. */
static size_t flipped(unsigned char *bytes, size_t size, int step)
{
    size_t middle = binary_at(bytes), binary_size = size - middle;
    const size_t at[] = {0,
                         7,
                         KEY_SIZE_AT,
                         KEY_SIZE_AT + 7,
                         BINARY_SIZE_AT,
                         BINARY_SIZE_AT + 7,
                         DIGEST_AT,
                         KEY_AT - 1,
                         KEY_AT,
                         middle - 1,
                         middle,
                         middle + 9,
                         middle + binary_size / 3,
                         middle + binary_size / 2,
                         size - 1};
    bytes[at[(size_t)step % (sizeof at / sizeof at[0])]] ^= (unsigned char)(1 << step % 8);
    return size;
}

START_TEST(a_flipped_bit_is_repaired)
{
    damage_and_repair(flipped, 15);
}
END_TEST

static size_t overwritten(unsigned char *bytes, size_t size, int step)
{
    memset(bytes, step < 2 ? 0 : 0xff, size);
    return size;
}

START_TEST(an_overwritten_file_is_repaired)
{
    damage_and_repair(overwritten, 4);
}
END_TEST

static size_t foreign(unsigned char *bytes, size_t size, int step)
{
    static const char *const texts[] = {"#!/bin/sh\necho not a program\n", "\x7f"
                                                                           "ELF"};
    const char *text = texts[step % 2];
    (void)size;
    memcpy(bytes, text, strlen(text));
    return strlen(text);
}

START_TEST(a_foreign_file_is_replaced)
{
    damage_and_repair(foreign, 4);
}
END_TEST

/* Right in every check of ours, so that the driver gets to see it. */
static size_t nonsense_binary(unsigned char *bytes, size_t size, int step)
{
    size_t at = binary_at(bytes);
    uint64_t binary_size = step % 2 ? 1 : 1000;
    (void)size;
    for (size_t i = 0; i < binary_size; i++) {
        bytes[at + i] = (unsigned char)(i * 29 + 5);
    }
    memcpy(bytes + BINARY_SIZE_AT, &binary_size, sizeof binary_size);
    mha_sha256(bytes + at, (size_t)binary_size, bytes + DIGEST_AT);
    return at + (size_t)binary_size;
}

START_TEST(a_binary_that_the_driver_refuses_is_replaced)
{
    damage_and_repair(nonsense_binary, 4);
}
END_TEST

/* As after an update of the library or the driver: right file, wrong contents for its name. */
START_TEST(the_file_of_another_program_is_replaced)
{
    char names[FILES_MAX][NAME_SIZE];
    int programs = fill_cache();
    if (programs < 2) {
        return;
    }
    list_files(names);
    size_t size;
    unsigned char *bytes = read_bytes(names[0], &size);
    write_bytes(names[1], bytes, size);
    free(bytes);
    struct counts counts = run_child();
    ck_assert_int_eq(counts.built, 1);
    ck_assert_int_eq(counts.loaded, programs - 1);
    assert_all_loaded(programs);
}
END_TEST

/* ---- no place to keep anything ---- */

static void assert_works_without(void)
{
    for (int i = 0; i < 2; i++) {
        struct counts counts = run_child();
        ck_assert_int_gt(counts.built, 0);
        ck_assert_int_eq(counts.loaded, 0);
    }
}

static int count_entries(const char *directory)
{
    int count = 0;
    DIR *stream = opendir(directory);
    ck_assert_ptr_nonnull(stream);
    for (const struct dirent *entry; (entry = readdir(stream));) {
        count += entry->d_name[0] != '.';
    }
    closedir(stream);
    return count;
}

START_TEST(switched_off_it_leaves_no_trace)
{
    static const char *const values[] = {"off", ""};
    ck_assert_int_eq(setenv("XDG_CACHE_HOME", work, 1), 0);
    ck_assert_int_eq(setenv("HOME", work, 1), 0);
    ck_assert_int_eq(setenv("GPU_MHA_CACHE_DIR", values[_i], 1), 0);
    assert_works_without();
    char ours[sizeof work + 16];
    snprintf(ours, sizeof ours, "%s/gpu_mha", work);
    ck_assert_int_ne(access(ours, F_OK), 0);
    ck_assert_int_ne(access("off", F_OK), 0);
}
END_TEST

START_TEST(without_a_home_nothing_is_kept)
{
    unsetenv("GPU_MHA_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_works_without();
}
END_TEST

START_TEST(a_file_in_the_place_of_the_directory_stays)
{
    write_bytes(path, (const unsigned char *)"file", 4);
    assert_works_without();
    char below[sizeof path + 8];
    snprintf(below, sizeof below, "%s/deep", path);
    ck_assert_int_eq(setenv("GPU_MHA_CACHE_DIR", below, 1), 0);
    assert_works_without();
    size_t size;
    unsigned char *bytes = read_bytes(path, &size);
    ck_assert_uint_eq(size, 4);
    free(bytes);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

/* For root, whom permissions do not bind, nothing is wrong here. */
START_TEST(a_directory_closed_to_writing_does_no_harm)
{
    ck_assert_int_eq(mkdir(path, 0500), 0);
    if (geteuid() != 0) {
        assert_works_without();
        ck_assert_int_eq(count_entries(path), 0);
    } else {
        assert_all_loaded(fill_cache());
    }
    ck_assert_int_eq(chmod(path, 0700), 0);
}
END_TEST

START_TEST(a_directory_that_others_may_write_to_is_not_used)
{
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(chmod(path, 0777), 0);
    assert_works_without();
    ck_assert_int_eq(count_entries(path), 0);
}
END_TEST

/* ---- many processes ---- */

START_TEST(eight_processes_start_cold_on_one_directory)
{
    enum { CHILDREN = 8 };
    struct child children[CHILDREN];
    int programs = 0;
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = start_child();
    }
    for (int i = 0; i < CHILDREN; i++) {
        struct counts counts = finish_child(children[i]);
        if (i == 0) {
            programs = counts.built + counts.loaded;
        }
        ck_assert_int_eq(counts.built + counts.loaded, programs);
    }
    ck_assert_int_eq(fill_cache(), programs);
}
END_TEST

static Suite *cache_faults_suite(void)
{
    Suite *suite = suite_create("cache_faults");
    TCase *damage = tcase_create("damage"), *place = tcase_create("place");
    TCase *processes = tcase_create("processes");
    TCase *const all[] = {damage, place, processes};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        tcase_add_checked_fixture(all[i], set_up, tear_down);
        tcase_set_timeout(all[i], 240);
        suite_add_tcase(suite, all[i]);
    }
    tcase_add_test(damage, a_new_process_builds_what_is_missing_and_no_more);
    tcase_add_test(damage, the_binary_of_other_compiler_settings_is_not_taken);
    tcase_add_test(damage, a_truncated_file_is_repaired);
    tcase_add_test(damage, a_flipped_bit_is_repaired);
    tcase_add_test(damage, an_overwritten_file_is_repaired);
    tcase_add_test(damage, a_foreign_file_is_replaced);
    tcase_add_test(damage, a_binary_that_the_driver_refuses_is_replaced);
    tcase_add_test(damage, the_file_of_another_program_is_replaced);

    tcase_add_loop_test(place, switched_off_it_leaves_no_trace, 0, 2);
    tcase_add_test(place, without_a_home_nothing_is_kept);
    tcase_add_test(place, a_file_in_the_place_of_the_directory_stays);
    tcase_add_test(place, a_directory_closed_to_writing_does_no_harm);
    tcase_add_test(place, a_directory_that_others_may_write_to_is_not_used);

    tcase_add_test(processes, eight_processes_start_cold_on_one_directory);
    return suite;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        return child_main();
    }
    program = argv[0];
    SRunner *runner = srunner_create(cache_faults_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
