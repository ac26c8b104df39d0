/*
 * heap.h - fails the Nth allocation that the library makes.
 *
 * The programs here link the library's static form with --wrap, so malloc, calloc, realloc, free
 * and what makes locks go through this seam; drivers, which are shared libraries, do not. Between
 * heap_arm and heap_disarm requests are counted and one of them, or it and all after it, fails.
 * What was handed out between them and not freed is live: the library's, as a test brackets its
 * calls.
 */
#ifndef MHA_TESTS_FAULT_HEAP_H
#define MHA_TESTS_FAULT_HEAP_H

void heap_arm(int nth, int ever); /* nth 0: nothing fails */
void heap_disarm(void);
int heap_failed(void); /* since it was armed */
int heap_calls(void);
int heap_live(void);

#endif
