/*
 * The header of a .npy file: a Python dict literal with the keys descr, fortran_order and shape.
 * Only npy.c needs this.
 */
#ifndef MHA_CLI_NPY_HEADER_H
#define MHA_CLI_NPY_HEADER_H

#include "npy.h"

struct mha_npy_header {
    enum mha_npy_type type;
    bool big_endian; /* false for one-byte types */
    bool fortran_order;
    int rank;
    int64_t shape[MHA_NPY_MAX_RANK];
};

/*
 * Parses the dict literal text[0..length-1] (it need not be terminated). On failure `error` gets
 * what is wrong and what is needed, without the file's name. The grammar is strict: the three
 * keys once each in any order, no others, nothing but blanks behind the dict.
 */
bool mha_npy_header_parse(const char *text, size_t length, struct mha_npy_header *header,
                          char *error, size_t error_size);

/*
 * Writes magic, version 1.0 and the dict, padded so that the data behind it starts at a multiple
 * of 64 bytes. Returns the number of bytes, at most MHA_NPY_HEADER_SIZE.
 */
#define MHA_NPY_HEADER_SIZE 320
size_t mha_npy_header_format(const struct mha_npy_header *header,
                             unsigned char bytes[MHA_NPY_HEADER_SIZE]);

#endif
