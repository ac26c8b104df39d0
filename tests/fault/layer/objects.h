/* objects.h - the account of every object, inside the layer. From any thread. */
#ifndef MHA_TESTS_FAULT_OBJECTS_H
#define MHA_TESTS_FAULT_OBJECTS_H

#include "layer.h"

void objects_add(enum fault_kind kind, const void *object);
void objects_retain(enum fault_kind kind, const void *object, const char *call);

/* 1 if the program held it; otherwise the release must not reach the driver. */
int objects_release(enum fault_kind kind, const void *object, const char *call);

/* Notes a misuse unless the object lives. */
void objects_use(enum fault_kind kind, const void *object, const char *call);

/* A mark on a live object: the negative status of an event, the failed build of a program. */
void objects_mark(enum fault_kind kind, const void *object, int mark);
int objects_marked(enum fault_kind kind, const void *object);

int objects_live(enum fault_kind kind);
const char *objects_misuse(void);
void objects_forget_misuse(void);

#endif
