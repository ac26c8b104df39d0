/* What fake_cl.c and fake_queries.c share. */
#ifndef MHA_TEST_FUZZ_FAKE_OBJECTS_H
#define MHA_TEST_FUZZ_FAKE_OBJECTS_H

#include "fuzz/fake_cl.h"

enum fake_kind { FAKE_CONTEXT = 1, FAKE_QUEUE, FAKE_MEM, FAKE_PROGRAM, FAKE_KERNEL, FAKE_EVENT };

#define FAKE_MAGIC 0x66616b65u

/* Any object of OpenCL but platforms and devices. It holds a reference to its parent. */
struct fake {
    unsigned magic;
    enum fake_kind kind;
    long references;
    struct fake *parent;
    size_t bytes, origin; /* of a buffer */
    bool is_part;         /* of another buffer */
    size_t group;         /* of a program or kernel: work-items that it is compiled for; 0: any */
    unsigned arguments;   /* of a kernel: bit i is set when argument i is */
};

struct fake *fake_make(enum fake_kind kind, struct fake *parent);
struct fake *fake_of(const void *object, enum fake_kind kind);

cl_device_id fake_device(size_t index);
const struct fake_facts *fake_facts_of(cl_device_id device);

/* Counts a call that fails; returns the code. */
cl_int fake_refuse(cl_int code);
void fake_forget_refusals(void);

#endif
