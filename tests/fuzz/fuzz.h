/*
 * What every fuzz target shares. A target is one file target_<name>.c that defines
 * LLVMFuzzerTestOneInput; libFuzzer calls it with inputs of its making, replay.c with the files of
 * corpus/<name> and findings/<name>. Whatever the bytes are, it returns: a broken promise of the
 * library ends the process.
 */
#ifndef MHA_TEST_FUZZ_H
#define MHA_TEST_FUZZ_H

#include <gpu_mha/gpu_mha.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process, and libFuzzer keeps the input. */
#define FUZZ_ASSERT(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fuzz_fail(__FILE__, __LINE__, #condition);                                             \
        }                                                                                          \
    } while (0)
_Noreturn void fuzz_fail(const char *file, int line, const char *condition);

/* ---- bytes -------------------------------------------------------------------------------- */

/* What is left of an input; behind its end there are zeros. */
struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
};

uint8_t fuzz_byte(struct fuzz_bytes *bytes);
uint64_t fuzz_u64(struct fuzz_bytes *bytes);

/* A copy of the rest as a string, to be freed: it ends at the first NUL. */
char *fuzz_text(struct fuzz_bytes *bytes);

/* ---- environment -------------------------------------------------------------------------- */

/*
 * Sets a variable to a text, of which at most 4 KB count. In place: setenv() keeps every text that
 * it was ever given.
 */
void fuzz_environment(const char *name, const char *text);

/* Once: no cache, no log, none of the library's variables is set. */
void fuzz_settle(void);

/* ---- files -------------------------------------------------------------------------------- */

/* A folder of this process, in memory where the system has such a place; removed at exit. */
const char *fuzz_folder(void);

/* The path of a file of that name in the folder, valid until the next call. */
const char *fuzz_path(const char *name);

/* Writes that file and returns its path. */
const char *fuzz_put(const char *name, const void *data, size_t size);

/* Removes every file of the folder. */
void fuzz_clear(void);

/* ---- sentences ---------------------------------------------------------------------------- */

/* `text` is a sentence that neither breaks a line nor steers a terminal. */
void fuzz_check_printable(const char *text);

/*
 * The last error of a call that gave `status` is one printable sentence. With GPU_MHA_INVALID it
 * opens with one of the words between blanks in `fields` and has a rule, with GPU_MHA_UNSUPPORTED
 * a limit.
 */
void fuzz_check_sentence(gpu_mha_status status, const char *fields);

#endif
