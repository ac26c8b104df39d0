/*
 * Descriptors from bytes. An input is a list of patches to a small valid descriptor: a byte for the
 * field, a byte for its value, eight more where that says so. So most inputs are nearly valid, and
 * what one of them found can be read off.
 */
#ifndef MHA_TEST_FUZZ_DESCS_H
#define MHA_TEST_FUZZ_DESCS_H

#include "fuzz/fuzz.h"

struct fuzz_field {
    size_t offset;
    enum { FIELD_I64, FIELD_INT, FIELD_FLOAT, FIELD_U64 } kind;
};

/* The fields of a struct, and their names as sentences have them, between blanks. */
struct fuzz_struct {
    const struct fuzz_field *fields;
    size_t count;
    const char *names;
    size_t bytes;
};

extern const struct fuzz_struct fuzz_attention, fuzz_layer, fuzz_merge, fuzz_rotary, fuzz_cache;

/* Patches `desc` from `bytes`, up to an end mark or the end. */
void fuzz_patch(struct fuzz_bytes *bytes, const struct fuzz_struct *type, void *desc);

/*
 * A copy in a block of its own, to be freed, which ends where the struct does by its struct_size;
 * `tail` lies in what a larger one has more.
 */
void *fuzz_exact(const struct fuzz_struct *type, const void *desc, uint8_t tail);

/* Small, valid, of every feature none. */
gpu_mha_desc fuzz_small_attention(void);

/* ---- what a valid descriptor asks of buffers: worked out here, in 128 bits ----------------- */

__extension__ typedef __int128 fuzz_wide;

/* Elements from the first to the last of a tensor (lengths[3] is contiguous); 0 without elements.
 */
fuzz_wide fuzz_span(const gpu_mha_tensor *tensor, const int64_t lengths[4]);
fuzz_wide fuzz_mask_span(const gpu_mha_mask *mask, const int64_t full[4]);

struct fuzz_need {
    size_t at; /* of the gpu_mha_buffer in the struct of buffers */
    bool wanted;
    fuzz_wide span;
    size_t element;
};

size_t fuzz_type_bytes(gpu_mha_type type);
size_t fuzz_index_bytes(gpu_mha_index_type type);

enum { FUZZ_NEEDS_MAX = 24 };

/*
 * Calls `enqueue` with buffers that just do, and then with one thing wrong that `bytes` choose.
 * It must take the first and refuse the second.
 */
struct fuzz_run {
    gpu_mha_plan *plan;
    cl_context cl;
    cl_command_queue queue;
    void *buffers; /* zeroed, with struct_size */
    const struct fuzz_need *needs;
    size_t need_count;
    gpu_mha_status (*enqueue)(const struct fuzz_run *run, cl_event *event);
    const char *names; /* of the buffers */
};
void fuzz_run_buffers(struct fuzz_bytes *bytes, const struct fuzz_run *run);

#endif
