/*
 * layer.h - how a test steers the OpenCL layer that it was started under.
 *
 * The layer (OPENCL_LAYERS) stands between the loader and the drivers. It counts calls, fails the
 * Nth one of an entry point, and keeps account of every object: what the program holds, and whether
 * it ever used or released what it did not hold. A program that links the layer reaches these
 * functions; any other is steered by the environment:
 *
 *   MHA_FAULT="clCreateBuffer 3 -61 once"   the third call gives -61; "ever": and all after it;
 *                                           "late": it succeeds, but its event fails with the code
 *   MHA_FAULT_REPORT=FILE                   at exit, lines "calls NAME N", "live KIND N",
 *                                           "failed N", "misuse SENTENCE"
 */
#ifndef MHA_TESTS_FAULT_LAYER_H
#define MHA_TESTS_FAULT_LAYER_H

#include <CL/cl.h>

#include "calls.h"

#define FAULT_EXPORT __attribute__((visibility("default")))

enum fault_mode { FAULT_ONCE, FAULT_EVER, FAULT_LATE };

enum fault_kind {
    FAULT_CONTEXTS,
    FAULT_QUEUES,
    FAULT_BUFFERS,
    FAULT_PROGRAMS,
    FAULT_KERNELS,
    FAULT_EVENTS,
    FAULT_DEVICES, /* references that were taken; a root device is nobody's */
    FAULT_KINDS
};

/* What the compiler "says" where the layer makes a build fail. */
#define FAULT_BUILD_LOG "line 1: error: this build was made to fail"

FAULT_EXPORT const char *fault_call_name(enum fault_call call);
FAULT_EXPORT const cl_int *fault_call_codes(enum fault_call call, int *count);
FAULT_EXPORT const char *fault_kind_name(enum fault_kind kind);

/* 1 if the loader has the layer in its chain. */
FAULT_EXPORT int fault_layer_is_in(void);

/* From now on calls are counted from 0, and call number `nth` (from 1) fails; nth 0: none does. */
FAULT_EXPORT void fault_layer_arm(enum fault_call call, int nth, cl_int code, enum fault_mode mode);
FAULT_EXPORT void fault_layer_disarm(void);

FAULT_EXPORT int fault_layer_failed(void); /* calls that failed since it was armed */
FAULT_EXPORT int fault_layer_calls(enum fault_call call);

/* References that the program holds. */
FAULT_EXPORT int fault_layer_live(enum fault_kind kind);

/* The first use or release of an object that was not the program's; "" if none. */
FAULT_EXPORT const char *fault_layer_misuse(void);
FAULT_EXPORT void fault_layer_forget_misuse(void);

#endif
