/*
 * drive.h - a scenario again and again: failure number N, for every N until none is met.
 *
 * After each act: the status is right, the error tells the true call and code, guards are whole,
 * the same act works at once on the same objects, and then nothing is left of what was made.
 */
#ifndef MHA_TESTS_FAULT_DRIVE_H
#define MHA_TESTS_FAULT_DRIVE_H

#include "scenario.h"

/* Every entry point, with each code that it can give, once and for ever. */
void drive_calls(const struct scenario *scenario);

/* Every command that succeeds, and whose event fails. */
void drive_late(const struct scenario *scenario);

/* Every allocation, alone and with all after it. */
void drive_heap(const struct scenario *scenario);

#endif
