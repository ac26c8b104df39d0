/* The process that uses OpenCL: there is one, and no child of it may be another. */
#ifndef MHA_CL_PROCESS_H
#define MHA_CL_PROCESS_H

#include "core/error.h"

/*
 * Stands in front of the first OpenCL call of every way into the library. GPU_MHA_FORKED in a child
 * of a process that came through here before the fork: a driver's threads are gone there, and most
 * would wait for them for ever. Takes no lock, since one may be held for ever in a child.
 */
gpu_mha_status mha_process_check(void);

#endif
