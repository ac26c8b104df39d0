/* Kernel sources with their includes written out, since a driver cannot see embedded files. */
#ifndef MHA_CL_EXPAND_H
#define MHA_CL_EXPAND_H

#include "cl/sources.h"
#include "core/strbuf.h"

/*
 * Appends the file `name` of `sources` (ended by an entry without a name) to `text`. Each line that
 * begins with #include "file" is replaced by that file the first time and left out afterwards, so
 * such a line must not stand within #if. A file that is not in `sources` gives GPU_MHA_BUILD.
 */
gpu_mha_status mha_expand_source(const struct mha_cl_source *sources, const char *name,
                                 struct mha_strbuf *text);

#endif
