/*
 * The sources of the kernels in kernels/bench/, embedded in the command by the build: they measure
 * what a device can do, and the library has no use for them.
 */
#ifndef MHA_CLI_BENCH_SOURCES_H
#define MHA_CLI_BENCH_SOURCES_H

#include <stddef.h>

struct mha_bench_source {
    const char *name; /* below kernels/: "bench/limits.cl" */
    const char *text; /* ends in a NUL that length does not count */
    size_t length;    /* bytes */
};

/* mha_bench_source_count entries, then one whose name is NULL. */
extern const struct mha_bench_source mha_bench_sources[];
extern const size_t mha_bench_source_count;

#endif
