/* crew.h - threads that begin together, and what goes wrong in them. Nothing here uses Check. */
#ifndef MHA_TESTS_THREADS_CREW_H
#define MHA_TESTS_THREADS_CREW_H

#include <stdatomic.h>

enum { CREW_MAX = 16 };

struct crew_member {
    int number;
    void *user;
    const atomic_int *workers_left; /* 0: who works beside them may end */
    char complaint[512];            /* "" while all is well */
};

typedef void (*crew_fn)(struct crew_member *me);

/* Keeps the first complaint of a member. */
void crew_complain(struct crew_member *me, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * `workers` threads do `work`, and `besides` others `beside` (which may be NULL), numbered on.
 * Returns the first complaint, which lives to the next call, or NULL.
 */
const char *crew_run(int workers, crew_fn work, int besides, crew_fn beside, void *user);

#endif
