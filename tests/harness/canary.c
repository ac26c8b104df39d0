/*
 * canary.c - see canary.h.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "canary.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK_ALIGNMENT 4096

int canary_alloc(struct canary *c, size_t size_bytes, size_t guard_bytes)
{
    void *block = NULL;
    size_t block_bytes;

    *c = (struct canary){0};
    if (guard_bytes > (SIZE_MAX - size_bytes) / 2) {
        return -1;
    }
    block_bytes = size_bytes + 2 * guard_bytes;
    if (posix_memalign(&block, BLOCK_ALIGNMENT, block_bytes ? block_bytes : 1) != 0) {
        return -1;
    }
    memset(block, CANARY_BYTE, block_bytes);
    c->block = block;
    c->data = c->block + guard_bytes;
    c->block_bytes = block_bytes;
    c->guard_bytes = guard_bytes;
    c->size_bytes = size_bytes;
    return 0;
}

int canary_check_block(const struct canary *c, const void *block, ptrdiff_t *where)
{
    const unsigned char *bytes = block;

    for (size_t n = 0; n < c->block_bytes; n++) {
        if (n == c->guard_bytes) {
            n += c->size_bytes; /* over the array; both guards may be empty */
        }
        if (n < c->block_bytes && bytes[n] != CANARY_BYTE) {
            if (where) {
                *where = (ptrdiff_t)n - (ptrdiff_t)c->guard_bytes;
            }
            return 1;
        }
    }
    return 0;
}

int canary_check(const struct canary *c, ptrdiff_t *where)
{
    return canary_check_block(c, c->block, where);
}

void canary_free(struct canary *c)
{
    free(c->block);
    *c = (struct canary){0};
}

int guard_alloc(struct guard *g, size_t size_bytes, enum guard_side side)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t data_bytes, mapping_bytes;
    unsigned char *mapping;

    *g = (struct guard){0};
    if (size_bytes > SIZE_MAX - 2 * page) {
        return -1;
    }
    data_bytes = (size_bytes + page - 1) / page * page;
    mapping_bytes = data_bytes + page;
    mapping = mmap(NULL, mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return -1;
    }
    if (mprotect(side == GUARD_BEHIND ? mapping + data_bytes : mapping, page, PROT_NONE) != 0) {
        (void)munmap(mapping, mapping_bytes);
        return -1;
    }
    g->mapping = mapping;
    g->mapping_bytes = mapping_bytes;
    g->data = side == GUARD_BEHIND ? mapping + (data_bytes - size_bytes) : mapping + page;
    g->size_bytes = size_bytes;
    return 0;
}

void guard_free(struct guard *g)
{
    if (g->mapping) {
        (void)munmap(g->mapping, g->mapping_bytes);
    }
    *g = (struct guard){0};
}
