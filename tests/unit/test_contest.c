/*
 * test_contest.c - who takes part in a measurement, who is dropped and why, and what is told.
 *
 * The jobs here are made up and run nothing on the device, so that what happens is known.
 */
#include "cl/contest.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gpu_mha_context *context;

enum { TOLD_MAX = 512 };
static gpu_mha_tune_progress told[TOLD_MAX];
static char reasons[TOLD_MAX][160];
static int told_count;

static void tell(void *user, const gpu_mha_tune_progress *progress)
{
    ck_assert_ptr_eq(user, &told_count);
    ck_assert_uint_eq(progress->struct_size, sizeof *progress);
    ck_assert_str_eq(progress->kind, "a kind");
    ck_assert_int_lt(told_count, TOLD_MAX);
    snprintf(reasons[told_count], sizeof reasons[0], "%s", progress->reason);
    told[told_count++] = *progress;
}

static void set_up(void)
{
    setenv("GPU_MHA_LOG", "off", 1);
    setenv("GPU_MHA_CACHE_DIR", "off", 1);
    ck_assert_msg(gpu_mha_context_create(NULL, &context) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    told_count = 0;
}

static void tear_down(void)
{
    gpu_mha_context_release(context);
}

/* What an entrant of the job does. */
enum conduct { FINE, NOT_BUILT, WRONG, FAILS_AT_ONCE, FAILS_LATER };

struct job {
    enum conduct conduct[MHA_CONTEST_MAX];
    int prepared[MHA_CONTEST_MAX], runs[MHA_CONTEST_MAX];
};

static gpu_mha_status prepare(void *state, int index, cl_command_queue queue, int *agrees)
{
    struct job *job = state;
    ck_assert_ptr_nonnull(queue);
    ck_assert_int_eq(job->prepared[index]++, 0);
    MHA_RETURN_IF(job->conduct[index] == NOT_BUILT, GPU_MHA_BUILD, "number %d is not built", index);
    *agrees = job->conduct[index] != WRONG;
    return GPU_MHA_OK;
}

static gpu_mha_status run(void *state, int index, cl_command_queue queue, uint64_t turn,
                          cl_event *event)
{
    struct job *job = state;
    (void)event;
    static uint64_t next;
    (void)queue;
    next = turn == 0 ? 0 : next;
    ck_assert_uint_eq(turn, next++); /* runs take the inputs in their order, whoever runs */
    job->runs[index]++;
    MHA_RETURN_IF(job->conduct[index] == FAILS_AT_ONCE, GPU_MHA_OPENCL, "number %d fails", index);
    MHA_RETURN_IF(job->conduct[index] == FAILS_LATER && job->runs[index] > 4, GPU_MHA_DEVICE_MEMORY,
                  "number %d fails later", index);
    return GPU_MHA_OK;
}

static struct mha_contest contest_of(struct job *job, int count)
{
    struct mha_contest contest = {.kind = "a kind",
                                  .key = "a key",
                                  .count = count,
                                  .job = job,
                                  .prepare = prepare,
                                  .run = run};
    for (int i = 0; i < count; i++) {
        snprintf(contest.entrants[i].text, sizeof contest.entrants[i].text, "number %d", i);
    }
    return contest;
}

/* So much time that nobody is dropped for being slow; the runs are few, and do nothing. */
static const gpu_mha_tune_options options = {
    .seconds = 60, .dry_run = 0, .progress = tell, .user = &told_count};

START_TEST(who_fails_or_differs_is_dropped)
{
    struct job job = {.conduct = {FINE, NOT_BUILT, WRONG, FAILS_AT_ONCE, FAILS_LATER}};
    struct mha_contest contest = contest_of(&job, 5);
    int winner = -1;
    ck_assert_int_eq(mha_error_set(GPU_MHA_INVALID, "as before"), GPU_MHA_INVALID);
    ck_assert_int_eq(mha_contest_hold(&contest, context, &options, &winner), GPU_MHA_OK);
    ck_assert_int_eq(winner, 0);
    ck_assert_str_eq(gpu_mha_last_error(), "as before");

    static const char *const why[] = {NULL, "number 1 is not built",
                                      "its result differs from the default's", "number 3 fails",
                                      "number 4 fails later"};
    int dropped[5] = {0}, measured[5] = {0}, built[5] = {0};
    for (int t = 0; t < told_count; t++) {
        const gpu_mha_tune_progress *p = &told[t];
        ck_assert_int_eq(p->count, 5);
        if (p->state == GPU_MHA_TUNE_DROPPED) {
            ck_assert_str_eq(reasons[t], why[p->index]);
        }
        dropped[p->index] += p->state == GPU_MHA_TUNE_DROPPED;
        measured[p->index] += p->state == GPU_MHA_TUNE_MEASURED;
        built[p->index] += p->state == GPU_MHA_TUNE_BUILDING;
    }
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(built[i], 1);
        ck_assert_int_eq(dropped[i], i > 0);
        ck_assert_int_eq(measured[i], i == 0);
    }
    ck_assert_int_eq(job.runs[1] + job.runs[2], 0);
    ck_assert_int_eq(job.runs[3], 1);
    ck_assert_int_eq(job.runs[4], 5);
}
END_TEST

/* Without the default there is nothing to compare with. */
START_TEST(a_default_that_fails_ends_it)
{
    static const gpu_mha_status wanted[] = {GPU_MHA_OK, GPU_MHA_BUILD, GPU_MHA_OPENCL,
                                            GPU_MHA_OPENCL, GPU_MHA_DEVICE_MEMORY};
    struct job job = {.conduct = {(enum conduct)_i, FINE}};
    struct mha_contest contest = contest_of(&job, 2);
    int winner = -1;
    ck_assert_int_eq(mha_contest_hold(&contest, context, &options, &winner), wanted[_i]);
    ck_assert_int_eq(winner == -1, wanted[_i] != GPU_MHA_OK);
}
END_TEST

/* All rounds are told, before all results, and all who are in are timed in each. */
START_TEST(all_take_turns)
{
    struct job job = {.conduct = {FINE}};
    struct mha_contest contest = contest_of(&job, 3);
    int winner = -1, rounds = 0, measured = 0;
    ck_assert_int_eq(mha_contest_hold(&contest, context, &options, &winner), GPU_MHA_OK);
    for (int t = 0; t < told_count; t++) {
        const gpu_mha_tune_progress *p = &told[t];
        if (p->state == GPU_MHA_TUNE_TIMING) {
            ck_assert_int_eq(measured, 0);
            ck_assert_int_eq(p->round, rounds++);
            ck_assert_int_eq(p->rounds, contest.rounds);
        } else if (p->state == GPU_MHA_TUNE_MEASURED) {
            ck_assert_int_eq(p->index, measured++);
            ck_assert(p->median_ms >= 0);
        }
    }
    ck_assert_int_eq(rounds, contest.rounds);
    ck_assert_int_eq(measured, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_ge(contest.entrants[i].runs, 1);
        ck_assert_int_eq(job.runs[i], 2 + contest.rounds * contest.entrants[i].runs);
    }
}
END_TEST

/* Times of rounds as they might have been measured, and who wins. */
static const struct {
    int64_t rounds[3][5];
    int dropped, winner;
} races[] = {
    {{{100, 100, 100, 100, 100}, {90, 90, 90, 90, 90}, {95, 95, 95, 95, 95}}, 0, 1},
    {{{100, 100, 100, 100, 100}, {90, 90, 90, 90, 90}, {80, 80, 80, 80, 80}}, 0, 2},
    {{{100, 100, 100, 100, 100}, {90, 90, 90, 90, 90}, {80, 80, 80, 80, 80}}, 2, 1},
    /* Not by 2%. */
    {{{1000, 1000, 1000, 1000, 1000}, {981, 981, 981, 981, 981}, {1200, 1, 1200, 1, 1200}}, 0, 0},
    /* The better median, but ahead in three rounds of five alone; in four. */
    {{{50, 50, 100, 100, 100}, {90, 90, 90, 90, 90}, {300, 300, 300, 300, 300}}, 0, 0},
    {{{50, 100, 100, 100, 100}, {90, 90, 90, 90, 90}, {300, 300, 300, 300, 300}}, 0, 1},
    /* A machine that slows down for all leaves the order. */
    {{{100, 200, 400, 800, 1600}, {90, 180, 360, 720, 1440}, {99, 199, 399, 799, 1599}}, 0, 1},
};

START_TEST(the_winner_wins_by_more_than_chance)
{
    struct job job = {.conduct = {FINE}};
    struct mha_contest contest = contest_of(&job, 3);
    contest.rounds = 5;
    for (int i = 0; i < 3; i++) {
        memcpy(contest.entrants[i].round_ns, races[_i].rounds[i], sizeof races[_i].rounds[i]);
        contest.entrants[i].dropped = races[_i].dropped != 0 && races[_i].dropped == i;
    }
    ck_assert_int_eq(mha_contest_judge(&contest), races[_i].winner);
}
END_TEST

/* Medians as they might have been measured, and the winner of it. */
START_TEST(the_result_says_what_was_found)
{
    struct job job = {.conduct = {FINE}};
    struct mha_contest contest = contest_of(&job, 3);
    contest.entrants[0].median_ns = 2000000;
    contest.entrants[1].dropped = 1;
    contest.entrants[2].median_ns = 1500000;
    gpu_mha_tune_result result = {0};
    struct mha_tuned_entry entry;
    const gpu_mha_tune_options dry = {.seconds = 1, .dry_run = 1};
    mha_contest_finish(&contest, context, &dry, 2, &result);
    ck_assert(!mha_tuned_get(context->tuned, "a key", &entry));

    mha_contest_finish(&contest, context, &options, 2, &result);
    ck_assert_str_eq(result.kind, "a kind");
    ck_assert_str_eq(result.default_text, "number 0");
    ck_assert_str_eq(result.winner, "number 2");
    ck_assert_double_eq(result.default_ms, 2.0);
    ck_assert_double_eq(result.winner_ms, 1.5);
    ck_assert_int_eq(result.count, 3);
    ck_assert_int_eq(result.dropped, 1);
    ck_assert_int_eq(result.kept, 0); /* caching is off */
    ck_assert(mha_tuned_get(context->tuned, "a key", &entry));
    ck_assert_str_eq(entry.value, "number 2");
    ck_assert_int_eq(entry.nanoseconds, 1500000);
    mha_contest_finish(&contest, context, &options, 0, NULL);
    ck_assert(mha_tuned_get(context->tuned, "a key", &entry));
    ck_assert_str_eq(entry.value, "number 0");
}
END_TEST

static Suite *contest_suite(void)
{
    Suite *suite = suite_create("contest");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_set_timeout(all, 60);
    tcase_add_test(all, who_fails_or_differs_is_dropped);
    tcase_add_loop_test(all, a_default_that_fails_ends_it, 0, 5);
    tcase_add_test(all, all_take_turns);
    tcase_add_loop_test(all, the_winner_wins_by_more_than_chance, 0,
                        (int)(sizeof races / sizeof races[0]));
    tcase_add_test(all, the_result_says_what_was_found);
    suite_add_tcase(suite, all);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(contest_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
