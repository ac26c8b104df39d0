/*
 * drive.h - a scenario again and again: failure number N, for every N until none is met.
 *
 * After each act: the status is right, the error tells the true call and code, guards are whole,
 * the same act works at once on the same objects, and then nothing is left of what was made.
 */
#ifndef MHA_TESTS_FAULT_DRIVE_H
#define MHA_TESTS_FAULT_DRIVE_H

#include "layer.h"
#include "scenario.h"

/* Every entry point, with each code that it can give, once and for ever. */
void drive_calls(const struct scenario *scenario);

/* Every command that succeeds, and whose event fails. */
void drive_late(const struct scenario *scenario);

/* Every allocation, alone and with all after it. */
void drive_heap(const struct scenario *scenario);

/*
 * Calls that may fail without the caller's noticing, since there is another way or nothing depends
 * on them: facts that only help to choose, binaries, and the end of an object. Asked behind the
 * act.
 */
int drive_may_fail_unseen(enum fault_call call, enum fault_mode mode);

/* What is alive of the program's, and a complaint about each kind that is not as it was. */
struct account {
    int objects[FAULT_KINDS], blocks;
};

struct account account_take(void);
void account_compare(const struct account *before);

#endif
