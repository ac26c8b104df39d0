/*
 * Built programs of one context. A program is an embedded kernel file plus options; each pair is
 * built once, whoever asks, and kept until the cache is destroyed. Binaries are kept on disk too,
 * for the next process: see program_disk.h.
 */
#ifndef MHA_CL_PROGRAM_H
#define MHA_CL_PROGRAM_H

#include "cl/device.h"
#include "cl/options.h"
#include "cl/sources.h"

struct mha_program_cache;

/* `sources` ends in an entry without a name (mha_cl_sources); it and `cl` are borrowed. */
gpu_mha_status mha_program_cache_create(cl_context cl, const struct mha_device *device,
                                        const struct mha_cl_source *sources,
                                        struct mha_program_cache **cache);
void mha_program_cache_destroy(struct mha_program_cache *cache);

/*
 * The program of kernels/<file> (e.g. "fused.cl") with `options`, built with -cl-std=CL1.2 -w and
 * the definitions that every kernel gets (MHA_HAS_FMA). `#include "common/..."` is expanded from
 * the embedded files, each once. `options` may be NULL. *program is borrowed from the cache. From
 * any thread; a failed build is tried again by the next caller.
 */
gpu_mha_status mha_program_get(struct mha_program_cache *cache, const char *file,
                               const struct mha_options *options, cl_program *program);

#endif
