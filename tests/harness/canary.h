/*
 * canary.h - arrays that notice when something writes or reads past their ends.
 *
 * canary_*: bytes before and behind the array, checked afterwards; catches writes on any device
 * when the whole block travels there and back. guard_*: the array ends at (or begins behind) a
 * page without access; for CL_MEM_USE_HOST_PTR on a CPU device, where one element too far crashes.
 */
#ifndef MHA_TESTS_CANARY_H
#define MHA_TESTS_CANARY_H

#include <stddef.h>

#define CANARY_BYTE 0xFF

/* data points guard_bytes into block; block is block_bytes = size_bytes + 2 * guard_bytes long. */
struct canary {
    unsigned char *block;
    unsigned char *data;
    size_t block_bytes;
    size_t guard_bytes;
    size_t size_bytes;
};

/* Everything, the array included, is filled with CANARY_BYTE. Returns 0, or -1: out of memory.
 * data is aligned to the largest power of two (up to 4096) that divides guard_bytes. */
int canary_alloc(struct canary *c, size_t size_bytes, size_t guard_bytes);

/* Returns 0 when both guards are intact; else 1, and the changed byte's distance from data
 * (negative = in front of the array) in *where, which may be NULL. */
int canary_check(const struct canary *c, ptrdiff_t *where);

/* The same for a block that came back from a device: `block` is block_bytes long. */
int canary_check_block(const struct canary *c, const void *block, ptrdiff_t *where);

void canary_free(struct canary *c);

enum guard_side { GUARD_BEHIND, GUARD_BEFORE };

/* data is as aligned as size_bytes allows when the guard is behind, page-aligned otherwise. */
struct guard {
    void *mapping;
    size_t mapping_bytes;
    void *data;
    size_t size_bytes;
};

/* Returns 0, or -1 when the system gives no memory. size_bytes may be 0. */
int guard_alloc(struct guard *g, size_t size_bytes, enum guard_side side);

void guard_free(struct guard *g);

#endif
