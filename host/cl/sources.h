/*
 * The kernel sources, embedded in the library by the build.
 *
 * Names are paths below kernels/: "fused.cl", "common/params.h". The table is sorted by name.
 */
#ifndef MHA_CL_SOURCES_H
#define MHA_CL_SOURCES_H

#include <stddef.h>

struct mha_cl_source {
    const char *name;
    const char *text; /* ends in a NUL that length does not count */
    size_t length;    /* bytes */
};

/* mha_cl_source_count entries, then one whose name is NULL. */
extern const struct mha_cl_source mha_cl_sources[];
extern const size_t mha_cl_source_count;

#endif
