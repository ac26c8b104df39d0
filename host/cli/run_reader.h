/*
 * What the functions that read the files of gpu-mha run share: where they find the problem and the
 * options, how they refuse, and their checks of one array.
 */
#ifndef MHA_CLI_RUN_READER_H
#define MHA_CLI_RUN_READER_H

#include "run.h"

struct mha_run_reader {
    struct mha_run_problem *problem;
    const struct mha_run_options *options;
    enum mha_exit *code;
    char *error; /* where the sentence of a refusal goes */
    size_t error_size;
};

/* Puts a sentence in reader->error and returns false, as every function here does on failure. */
bool mha_run_refuse(const struct mha_run_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads a file that must hold floats. */
bool mha_run_read_floats(const struct mha_run_reader *reader, const char *path,
                         struct mha_npy *array);

/* Converts `array` in place to F32, F16 or BF16. */
bool mha_run_convert(const struct mha_run_reader *reader, const char *path, struct mha_npy *array,
                     enum mha_npy_type type);

/*
 * Compares a shape with `rank` wanted sizes; MHA_RUN_ANY stands for any. `axes` names them, as in
 * "(B, H, NQ, DK)".
 */
enum { MHA_RUN_ANY = -1 };
bool mha_run_check_shape(const struct mha_run_reader *reader, const char *path,
                         const struct mha_npy *array, const char *axes, int rank,
                         const int64_t *wanted);

/*
 * What comes beside query, key, value and past: the mask or bias, the key lengths, the ALiBi
 * slopes and the sinks. The sizes in the descriptor must be set and checked before.
 */
bool mha_run_read_extras(const struct mha_run_reader *reader);

#endif
