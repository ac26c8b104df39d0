/*
 * Several ways to do one job, measured against each other on one device. What the job is, the
 * caller's functions know; here is who takes part, for how long, and who wins.
 *
 * Machines change their pace within seconds, so all take turns, round after round, and what is
 * compared was measured in the same moments.
 */
#ifndef MHA_CL_CONTEST_H
#define MHA_CL_CONTEST_H

#include "cl/context.h"
#include "cl/tuned.h"

enum { MHA_CONTEST_MAX = 32, MHA_CONTEST_ROUNDS = 9, MHA_CONTEST_ROUNDS_LEAST = 3 };

struct mha_entrant {
    char text[MHA_TUNED_WORD]; /* the caller's: names it in the tuning file */
    int dropped;
    int64_t first_ns;  /* of one run, before the rounds */
    int64_t median_ns; /* of one run, over the rounds */
    int runs;          /* in one round */
    int64_t round_ns[MHA_CONTEST_ROUNDS];
};

struct mha_contest {
    char kind[MHA_TUNED_WORD]; /* of problem, for people */
    char key[MHA_TUNED_WORD];  /* in the tuning file */
    int count;
    struct mha_entrant entrants[MHA_CONTEST_MAX]; /* 0 is the default */
    int rounds;
    cl_command_queue queue; /* in-order; made and released here */
    void *job;
    /*
     * Builds entrant `index` and runs it once on inputs 0; for entrant 0, which comes first, makes
     * the inputs too. *agrees: whether its result is that of 0. Waits for the queue.
     */
    gpu_mha_status (*prepare)(void *job, int index, cl_command_queue queue, int *agrees);
    /*
     * Enqueues one run on the inputs of number `turn`, modulo how many there are. `event` may be
     * NULL; what it gets, NULL or an event of the last command, is the caller's.
     */
    gpu_mha_status (*run)(void *job, int index, cl_command_queue queue, uint64_t turn,
                          cl_event *event);
};

/*
 * Waits for what is on the queue, and releases the event of a run, which may be NULL: a run that
 * was accepted and failed later is an error here.
 */
gpu_mha_status mha_contest_settle(cl_command_queue queue, cl_event event, const char *text);

/* Copies what the caller gave, NULL included, with its defaults filled in. */
gpu_mha_status mha_contest_options(const gpu_mha_tune_options *given,
                                   gpu_mha_tune_options *options);

/* The struct_size of a result or a choice that the caller gave: 0, or large enough. */
gpu_mha_status mha_contest_check_size(const char *name, size_t given, size_t needed);

/* Fails only where entrant 0 does. */
gpu_mha_status mha_contest_hold(struct mha_contest *contest, gpu_mha_context *context,
                                const gpu_mha_tune_options *options, int *winner);

/* Fills in the medians of what was measured, and says who wins. */
int mha_contest_judge(struct mha_contest *contest);

/*
 * Uses and keeps the winner, unless the run is dry, and fills in `result`, which may be NULL. What
 * blocking calls made ready before is dropped.
 */
void mha_contest_finish(const struct mha_contest *contest, gpu_mha_context *context,
                        const gpu_mha_tune_options *options, int winner,
                        gpu_mha_tune_result *result);

#endif
