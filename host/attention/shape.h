/*
 * Which kernels a problem runs and in which shape, as data: the tuning table, the tuning file and
 * GPU_MHA_TILE all speak of it, in one text form.
 *
 *   "fused MQ,VEC,NV,TB"                        kernels/fused.cl; also without the word
 *   "heads MQ,VEC,NV,TB"                        kernels/heads.cl
 *   "decode VEC"                                kernels/decode.cl; also "0,VEC,NV,TB"
 *   "shared LR,LC,MQ,NK,DC,KC,QUERY,SUBGROUP"   kernels/shared.cl
 *   "rows MQ,NK,NC"                             kernels/rows.cl
 */
#ifndef MHA_ATTENTION_SHAPE_H
#define MHA_ATTENTION_SHAPE_H

#include "attention/problem.h"
#include "cl/tile.h"

enum mha_path {
    MHA_PATH_FUSED,
    MHA_PATH_HEADS,  /* fused, for many short sequences: a work-item packs for its own head */
    MHA_PATH_DECODE, /* fused, for few queries: keys and values are not packed */
    MHA_PATH_SHARED, /* for GPUs: work-groups that share keys and values in local memory */
    MHA_PATH_ROWS,   /* for GPUs without local memory */
    MHA_PATH_STAGED
};

/* A work-group of kernels/shared.cl. */
struct mha_shared {
    int LR, LC;    /* its lanes: LR over rows, LC over keys and columns; LR * LC work-items */
    int MQ, NK;    /* rows and keys of one lane: tiles of LR * MQ rows and LC * NK keys */
    int DC;        /* elements of a head that lie in local memory at a time */
    int KC;        /* of a lane's NK keys, those whose weights lie in local memory at a time */
    int query;     /* 1: all of the query rows stays in local memory */
    int sub_group; /* 1: maxima by sub-groups, of LC lanes */
};

/* A work-item of kernels/rows.cl. */
struct mha_rows_tile {
    int MQ, NK; /* query rows, and keys at a time */
    int NC;     /* output columns */
};

struct mha_shape {
    enum mha_path path;
    struct mha_tile tile;      /* of fused, heads, decode and staged */
    struct mha_shared shared;  /* of shared */
    struct mha_rows_tile rows; /* of rows */
};

/* Enough for any text of a shape or of a key. */
#define MHA_SHAPE_TEXT 64

/* Refuses what is no shape, with a sentence that opens with `name`, where the text came from. */
gpu_mha_status mha_shape_parse(const char *name, const char *text, struct mha_shape *shape);
void mha_shape_text(const struct mha_shape *shape, char *text, size_t size);

/*
 * The variant that a shape is one of, as gpu-mha doctor knows it: its text, but that the tile
 * kernels, which run with fewer rows where a problem has fewer, are known by those of the table;
 * and "staged MQ,VEC,NV,TB".
 */
void mha_shape_name(const struct mha_shape *shape, char *name, size_t size);

/*
 * What gpu-mha doctor found wrong with the shape on the device, for the storage types of the
 * problem; GPU_MHA_VERDICT_NONE if it may be taken.
 */
gpu_mha_verdict mha_shape_to_avoid(const struct mha_problem *problem,
                                   const struct mha_device *device, const struct mha_shape *shape);

/* The shape of GPU_MHA_TILE; *given is 0 where it is not set. */
gpu_mha_status mha_shape_from_environment(struct mha_shape *shape, int *given);

/*
 * 1 if the shape fits the problem and the limits that the device states, else 0 and why in
 * `reason`. A built kernel may still turn out to need more than the device has.
 */
int mha_shape_fits(const struct mha_problem *problem, const struct mha_device *device,
                   const struct mha_shape *shape, char *reason, size_t size);

/*
 * What the tuning tables say, without what is to be avoided: always a shape that fits. Where all of
 * them are to be avoided it is one of those: mha_shape_to_avoid tells. For problems that are not
 * staged.
 */
void mha_shape_default(const struct mha_problem *problem, const struct mha_device *device,
                       struct mha_shape *shape);

/*
 * What to run where the built kernel of `shape` needs more than the device has, or does not
 * build: no sub-groups, fewer work-items to a group, in the end the tile kernels.
 */
void mha_shape_smaller(const struct mha_problem *problem, const struct mha_device *device,
                       struct mha_shape *shape);

/* 1 if the problem runs the staged kernels, whose tile is no matter of choice. */
int mha_shape_is_staged(const struct mha_problem *problem);

/*
 * What is worth trying for the problem on the device, the default first, only what fits. Returns
 * how many, at most `capacity`; 0 for a problem that leaves no choice.
 */
int mha_shape_candidates(const struct mha_problem *problem, const struct mha_device *device,
                         struct mha_shape *list, int capacity);

/* The tile of the staged kernels, the same way. */
void mha_shape_staged(const struct mha_problem *problem, const struct mha_device *device,
                      struct mha_shape *shape);

/* Every shape that the tables have for a device, staged ones too. Returns how many. */
int mha_shape_known(const struct mha_device *device, struct mha_shape *list, int capacity);

/*
 * The kind of problem that a tuning entry is for: "prefill dk64 dv64 f32". Words for few or
 * many query rows, or many short sequences, the head sizes, rounded up to a power of two, and the
 * storage of the keys.
 */
void mha_shape_key(const struct mha_problem *problem, char *text, size_t size);

/*
 * Query rows of one key/value head are numbered through its query heads, so that a tile of rows can
 * reach across them: the distance from one head's first row to the next one's. It is NQ where a
 * tile has more rows than that, else NQ rounded up to whole tiles.
 */
int64_t mha_shape_row_pitch(const struct mha_shape *shape, int64_t NQ);

/* Rows of a tile, keys of a tile; local memory of a group, and about what a lane holds. */
int mha_shape_rows(const struct mha_shape *shape);
int mha_shape_keys(const struct mha_shape *shape);

/* 1 for many short sequences, which kernels/heads.cl is for. */
int mha_shape_is_short(const struct mha_problem *problem);

/* Keys that a work-item of kernels/heads.cl has room for: NT, rounded up to a power of two. */
int64_t mha_shape_head_keys(int64_t NT);
int64_t mha_shape_local_bytes(const struct mha_shape *shape, int64_t DK);
int64_t mha_shape_registers(const struct mha_shape *shape, int64_t DK, int64_t DV);

#endif
