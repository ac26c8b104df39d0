/* crew.c - see crew.h. */
#include "crew.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

struct place {
    struct crew_member member;
    pthread_t thread;
    crew_fn act;
    int is_worker;
};

static pthread_barrier_t start;
static atomic_int workers_left;

void crew_complain(struct crew_member *me, const char *format, ...)
{
    va_list args;
    if (me->complaint[0] == '\0') {
        va_start(args, format);
        vsnprintf(me->complaint, sizeof me->complaint, format, args);
        va_end(args);
    }
}

static void *begin(void *argument)
{
    struct place *place = argument;
    pthread_barrier_wait(&start);
    place->act(&place->member);
    if (place->is_worker) {
        atomic_fetch_sub(&workers_left, 1);
    }
    return NULL;
}

const char *crew_run(int workers, crew_fn work, int besides, crew_fn beside, void *user)
{
    static struct place places[CREW_MAX];
    const int count = workers + besides;
    const char *complaint = NULL;
    if (count > CREW_MAX || pthread_barrier_init(&start, NULL, (unsigned)count) != 0) {
        return "no barrier for so many threads";
    }
    atomic_store(&workers_left, workers);
    for (int n = 0; n < count; n++) {
        places[n] =
            (struct place){.member = {.number = n, .user = user, .workers_left = &workers_left},
                           .act = n < workers ? work : beside,
                           .is_worker = n < workers};
        if (pthread_create(&places[n].thread, NULL, begin, &places[n]) != 0) {
            return "no thread"; /* those that wait at the barrier end with the process */
        }
    }
    for (int n = 0; n < count; n++) {
        pthread_join(places[n].thread, NULL);
        if (complaint == NULL && places[n].member.complaint[0]) {
            complaint = places[n].member.complaint;
        }
    }
    pthread_barrier_destroy(&start);
    return complaint;
}
