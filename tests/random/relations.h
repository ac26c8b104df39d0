/*
 * relations.h - two problems whose results must go together, made from one.
 */
#ifndef MHA_TESTS_RANDOM_RELATIONS_H
#define MHA_TESTS_RANDOM_RELATIONS_H

#include "dense.h"

/* What the base problem may not have: it is taken from the spec. */
enum {
    WITHOUT_DROPOUT = 1,            /* its draws belong to a place */
    WITHOUT_ALIBI = 2,              /* distances belong to a place */
    WITHOUT_DIAGONAL_PER_ENTRY = 4, /* key lengths do not move the offset */
    WITHOUT_SPECIAL = 8,            /* 0 times infinity depends on what was summed together */
    WITH_BIAS = 16,                 /* of f32, in small steps; sinks too */
    WITH_BATCH = 32                 /* of two entries at least */
};

/*
 * Row r of the other problem has the output of row rows[r] of the base, in its first elements; its
 * LSE is larger by lse_shift. -1: a row of its own.
 */
struct row_map {
    int64_t *rows;
    double lse_shift;
};

struct relation {
    const char *name;
    unsigned needs;
    int same_bits; /* the same plan: the contract promises bits */
    /* Changes the copy of a base to the other problem. map->rows has room for twice the rows. */
    void (*change)(struct rng *rng, struct dense *d, struct row_map *map);
};

/* The last one, whose `change` is NULL, is split_and_merge's. */
extern const struct relation relations[];
extern const int relation_count;

/* Makes a spec one that the relation holds for. */
void relation_prepare(const struct relation *relation, struct attention_spec *spec);

#endif
