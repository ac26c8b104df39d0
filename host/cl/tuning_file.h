/*
 * What is known of a device, as a text and as a file of the cache directory: in one file what was
 * measured, in another what gpu-mha doctor found to work.
 *
 *     gpu_mha 0.1.0 tuning 1                  library and format
 *     device NAME                             whom it is for: all of it must be the same
 *     ...
 *     entry KEY <tab> VALUE <tab> NS          a kind of problem, what was best for it, its time
 *     checksum SHA-256 of all lines above
 *
 * Keys and values are words of those who ask (attention/, blas/); here they are text. A file is
 * small and never trusted: whatever is wrong with it, it is passed over with one line in the log,
 * and the library's own defaults hold. Any number of threads and processes may use one directory.
 */
#ifndef MHA_CL_TUNING_FILE_H
#define MHA_CL_TUNING_FILE_H

#include "cl/device.h"
#include "core/strbuf.h"

enum { MHA_TUNED_WORD = 64, MHA_TUNED_MAX = 128 };

struct mha_tuned_entry {
    char key[MHA_TUNED_WORD], value[MHA_TUNED_WORD];
    int64_t nanoseconds;
};

struct mha_tuned_list {
    int count;
    struct mha_tuned_entry entries[MHA_TUNED_MAX];
};

/* The entry of a key, or NULL. */
struct mha_tuned_entry *mha_tuned_find(struct mha_tuned_list *list, const char *key);

/* Puts an entry in the place of the one of the same key, or behind; the oldest makes room. */
void mha_tuned_set(struct mha_tuned_list *list, const struct mha_tuned_entry *entry);

/* What a file is about. */
struct mha_tuning_kind {
    const char *suffix; /* of its name */
    const char *format; /* in its first line, with a version */
    const char *what;   /* for the log: "the tuning" */
    const char *maker;  /* the command that makes a new one */
    int of_sources;     /* it holds for these very kernels, not for all of this version */
};

extern const struct mha_tuning_kind mha_tuning_measured, mha_tuning_verdicts;

/* Where the file of a device lies, and the lines that say whose it is. */
struct mha_tuning_file {
    const struct mha_tuning_kind *kind;
    char *dir;        /* NULL: nothing is kept */
    char *path;       /* of the file; NULL: nothing is kept */
    const char *name; /* the last part of path */
    char *identity;
};

/* Cannot fail: at worst nothing is kept. */
void mha_tuning_file_open(struct mha_tuning_file *file, const struct mha_tuning_kind *kind,
                          const struct mha_device *device);
void mha_tuning_file_close(struct mha_tuning_file *file);

/* Fills the list from the file; leaves it empty where there is none or it is passed over. */
void mha_tuning_file_load(const struct mha_tuning_file *file, struct mha_tuned_list *list);

/*
 * Writes the entry into the file beside those that stand there, and gives back in *list what
 * stands there then. 0, with a line in the log, if it cannot be kept.
 */
int mha_tuning_file_save(const struct mha_tuning_file *file, const struct mha_tuned_entry *entry,
                         struct mha_tuned_list *list);

/* Takes the file away. 0, or the errno; one that is not there is gone already. */
int mha_tuning_file_remove(const struct mha_tuning_file *file);

/* Bytes of the largest file that is read. */
enum { MHA_TUNING_BYTES_MAX = 64 << 10 };

/*
 * The two directions between text and list. Reading gives NULL, or what is wrong with the text, as
 * a phrase in `why`; the list is empty then.
 */
void mha_tuning_text_write(struct mha_strbuf *text, const char *identity,
                           const struct mha_tuned_list *list);
const char *mha_tuning_text_read(const char *text, size_t size, const char *identity,
                                 struct mha_tuned_list *list, char *why, size_t why_size);

#endif
