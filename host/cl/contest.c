/* Rounds, medians, and the winner. */
#include "cl/contest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cl/recent.h"
#include "core/log.h"
#include "core/tensor.h"

enum {
    SLOWEST = 3,     /* times the best one's first run: no use to measure it further */
    LEAST_GAIN = 2,  /* per cent, that another one than the default must win by */
    RUNS_MAX = 4096, /* in one round */
    SECONDS_DEFAULT_MS = 500,
    SECONDS_MAX = 60
};

gpu_mha_status mha_contest_options(const gpu_mha_tune_options *given, gpu_mha_tune_options *options)
{
    *options = (gpu_mha_tune_options){0};
    if (given != NULL) {
        MHA_TRY(mha_struct_read(options, sizeof *options, given, given->struct_size,
                                sizeof(gpu_mha_tune_options), "gpu_mha_tune_options"));
    }
    MHA_INVALID_IF(!(options->seconds >= 0 && options->seconds <= SECONDS_MAX),
                   "seconds is %g: it must be more than 0 and at most %d, or 0 for the default",
                   options->seconds, SECONDS_MAX);
    MHA_TRY(mha_flag_check("dry_run", options->dry_run));
    if (options->seconds == 0) {
        options->seconds = SECONDS_DEFAULT_MS * 1e-3;
    }
    return GPU_MHA_OK;
}

gpu_mha_status mha_contest_check_size(const char *name, size_t given, size_t needed)
{
    MHA_INVALID_IF(given != 0 && given < needed,
                   "%s.struct_size is %zu: it must be 0 or at least %zu", name, given, needed);
    return GPU_MHA_OK;
}

static void report(const struct mha_contest *contest, const gpu_mha_tune_options *options,
                   gpu_mha_tune_progress progress)
{
    if (options->progress == NULL) {
        return;
    }
    progress.struct_size = sizeof progress;
    progress.kind = contest->kind;
    progress.count = contest->count;
    progress.rounds = contest->rounds;
    progress.candidate =
        progress.state == GPU_MHA_TUNE_TIMING ? "" : contest->entrants[progress.index].text;
    progress.reason = progress.reason == NULL ? "" : progress.reason;
    options->progress(options->user, &progress);
}

static void drop(struct mha_contest *contest, const gpu_mha_tune_options *options, int index,
                 const char *reason)
{
    struct mha_entrant *entrant = &contest->entrants[index];
    entrant->dropped = 1;
    mha_log(MHA_LOG_INFO, "drop %s for %s: %s", entrant->text, contest->kind, reason);
    report(
        contest, options,
        (gpu_mha_tune_progress){.state = GPU_MHA_TUNE_DROPPED, .index = index, .reason = reason});
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

gpu_mha_status mha_contest_settle(cl_command_queue queue, cl_event event, const char *text)
{
    const char *call = event != NULL ? "clWaitForEvents" : "clFinish";
    const cl_int code = event != NULL ? clWaitForEvents(1, &event) : clFinish(queue);
    if (event != NULL) {
        clReleaseEvent(event);
    }
    MHA_TRY_CL(code, call, "measuring %s", text);
    return GPU_MHA_OK;
}

/* The time of one run, from `runs` of them in a row. */
static gpu_mha_status time_runs(const struct mha_contest *contest, int index, int runs,
                                uint64_t *turn, int64_t *ns)
{
    cl_event last = NULL;
    const int64_t start = now_ns();
    for (int r = 0; r < runs; r++) {
        MHA_TRY(contest->run(contest->job, index, contest->queue, (*turn)++,
                             r + 1 == runs ? &last : NULL));
    }
    MHA_TRY(mha_contest_settle(contest->queue, last, contest->entrants[index].text));
    *ns = (now_ns() - start) / runs;
    return GPU_MHA_OK;
}

/* Builds, checks, and two runs; the better one says how many there can be in a round. */
static gpu_mha_status enter(struct mha_contest *contest, int index, uint64_t *turn, int *agrees)
{
    struct mha_entrant *entrant = &contest->entrants[index];
    MHA_TRY(contest->prepare(contest->job, index, contest->queue, agrees));
    for (int r = 0; r < 2 && *agrees; r++) {
        int64_t ns = 0;
        MHA_TRY(time_runs(contest, index, 1, turn, &ns));
        if (r == 0 || ns < entrant->first_ns) {
            entrant->first_ns = ns;
        }
    }
    return GPU_MHA_OK;
}

/* The time that an entrant has in one round. */
static int64_t round_time(const gpu_mha_tune_options *options)
{
    return (int64_t)(options->seconds * 1e9 / MHA_CONTEST_ROUNDS);
}

/* Fewer where runs are so long that even one in each round takes more than all of the time. */
static int count_rounds(int64_t run_ns, const gpu_mha_tune_options *options)
{
    int rounds = MHA_CONTEST_ROUNDS;
    while (rounds > MHA_CONTEST_ROUNDS_LEAST && (double)run_ns * rounds > options->seconds * 1e9) {
        rounds -= 2; /* stays odd: the median is one of them */
    }
    return rounds;
}

static gpu_mha_status enter_all(struct mha_contest *contest, const gpu_mha_tune_options *options,
                                uint64_t *turn)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < contest->count; i++) {
        struct mha_entrant *entrant = &contest->entrants[i];
        int agrees = 1;
        report(contest, options,
               (gpu_mha_tune_progress){.state = GPU_MHA_TUNE_BUILDING, .index = i});
        if (i == 0) {
            MHA_TRY(enter(contest, i, turn, &agrees));
            MHA_RETURN_IF(!agrees, GPU_MHA_OPENCL, "%s gives something that is not a number for %s",
                          entrant->text, contest->kind);
        } else {
            mha_error_attempt();
            const gpu_mha_status status = enter(contest, i, turn, &agrees);
            const char *sentence = mha_error_attempt_end();
            if (status != GPU_MHA_OK) {
                drop(contest, options, i, sentence);
                continue;
            }
        }
        if (!agrees) {
            drop(contest, options, i, "its result differs from the default's");
            continue;
        }
        best = entrant->first_ns < best ? entrant->first_ns : best;
    }
    for (int i = 1; i < contest->count; i++) {
        const struct mha_entrant *entrant = &contest->entrants[i];
        /* A short run is measured even so: the first ones may have met with a busy machine. */
        if (!entrant->dropped && entrant->first_ns / SLOWEST > best &&
            entrant->first_ns > round_time(options)) {
            char reason[96];
            snprintf(reason, sizeof reason, "it takes %.4g ms, the best one %.4g",
                     (double)entrant->first_ns * 1e-6, (double)best * 1e-6);
            drop(contest, options, i, reason);
        }
    }
    return GPU_MHA_OK;
}

/* One round of all who are in. A failure here comes from the device, in the midst of runs. */
static gpu_mha_status take_turns(struct mha_contest *contest, const gpu_mha_tune_options *options,
                                 int round, uint64_t *turn)
{
    for (int i = 0; i < contest->count; i++) {
        struct mha_entrant *entrant = &contest->entrants[i];
        if (entrant->dropped) {
            continue;
        }
        if (i == 0) {
            MHA_TRY(time_runs(contest, i, entrant->runs, turn, &entrant->round_ns[round]));
            continue;
        }
        mha_error_attempt();
        const gpu_mha_status status =
            time_runs(contest, i, entrant->runs, turn, &entrant->round_ns[round]);
        const char *sentence = mha_error_attempt_end();
        if (status != GPU_MHA_OK) {
            drop(contest, options, i, sentence);
        }
    }
    return GPU_MHA_OK;
}

static int by_value(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static int64_t median_of(const int64_t *round_ns, int rounds)
{
    int64_t sorted[MHA_CONTEST_ROUNDS];
    memcpy(sorted, round_ns, (size_t)rounds * sizeof sorted[0]);
    qsort(sorted, (size_t)rounds, sizeof sorted[0], by_value);
    return sorted[rounds / 2];
}

/* Another one than the default wins by more than chance: clearly, and in most of the rounds. */
static int beats_default(const struct mha_contest *contest, int index)
{
    const struct mha_entrant *entrant = &contest->entrants[index], *first = &contest->entrants[0];
    int rounds_won = 0;
    for (int r = 0; r < contest->rounds; r++) {
        rounds_won += entrant->round_ns[r] < first->round_ns[r];
    }
    return first->median_ns - entrant->median_ns > first->median_ns / 100 * LEAST_GAIN &&
           4 * rounds_won >= 3 * contest->rounds;
}

int mha_contest_judge(struct mha_contest *contest)
{
    int winner = 0;
    for (int i = 0; i < contest->count; i++) {
        struct mha_entrant *entrant = &contest->entrants[i];
        if (entrant->dropped) {
            continue;
        }
        entrant->median_ns = median_of(entrant->round_ns, contest->rounds);
        if (i > 0 && beats_default(contest, i) &&
            entrant->median_ns < contest->entrants[winner].median_ns) {
            winner = i;
        }
    }
    return winner;
}

static void report_medians(const struct mha_contest *contest, const gpu_mha_tune_options *options)
{
    for (int i = 0; i < contest->count; i++) {
        const struct mha_entrant *entrant = &contest->entrants[i];
        if (!entrant->dropped) {
            report(contest, options,
                   (gpu_mha_tune_progress){.state = GPU_MHA_TUNE_MEASURED,
                                           .index = i,
                                           .median_ms = (double)entrant->median_ns * 1e-6});
        }
    }
}

static gpu_mha_status hold(struct mha_contest *contest, const gpu_mha_tune_options *options,
                           int *winner)
{
    uint64_t turn = 0;
    MHA_TRY(enter_all(contest, options, &turn));
    for (int i = 0; i < contest->count; i++) {
        struct mha_entrant *entrant = &contest->entrants[i];
        const int64_t runs = round_time(options) / (entrant->first_ns > 0 ? entrant->first_ns : 1);
        entrant->runs = runs < 1 ? 1 : runs > RUNS_MAX ? RUNS_MAX : (int)runs;
    }
    contest->rounds = count_rounds(contest->entrants[0].first_ns, options);
    for (int round = 0; round < contest->rounds; round++) {
        report(contest, options,
               (gpu_mha_tune_progress){.state = GPU_MHA_TUNE_TIMING, .round = round});
        MHA_TRY(take_turns(contest, options, round, &turn));
    }
    *winner = mha_contest_judge(contest);
    report_medians(contest, options);
    return GPU_MHA_OK;
}

gpu_mha_status mha_contest_hold(struct mha_contest *contest, gpu_mha_context *context,
                                const gpu_mha_tune_options *options, int *winner)
{
    cl_int code = CL_SUCCESS;
    contest->queue = clCreateCommandQueue(context->cl, context->device.id, 0, &code);
    MHA_TRY_CL(code, "clCreateCommandQueue", "device %s", context->device.name);
    const gpu_mha_status status = hold(contest, options, winner);
    /* Runs of a failed candidate may still read what the caller is about to release. */
    clFinish(contest->queue);
    clReleaseCommandQueue(contest->queue);
    contest->queue = NULL;
    return status;
}

void mha_contest_finish(const struct mha_contest *contest, gpu_mha_context *context,
                        const gpu_mha_tune_options *options, int winner,
                        gpu_mha_tune_result *result)
{
    const struct mha_entrant *best = &contest->entrants[winner];
    struct mha_tuned_entry entry = {.nanoseconds = best->median_ns};
    memcpy(entry.key, contest->key, sizeof entry.key);
    memcpy(entry.value, best->text, sizeof entry.value);
    int kept = 0;
    if (!options->dry_run) {
        kept = mha_tuned_put(context->tuned, &entry);
        pthread_mutex_lock(&context->queue_lock);
        mha_recent_destroy(context->recent);
        context->recent = NULL;
        pthread_mutex_unlock(&context->queue_lock);
    }
    if (result == NULL) {
        return;
    }
    *result = (gpu_mha_tune_result){.struct_size = result->struct_size,
                                    .default_ms = (double)contest->entrants[0].median_ns * 1e-6,
                                    .winner_ms = (double)best->median_ns * 1e-6,
                                    .count = contest->count,
                                    .kept = kept};
    memcpy(result->kind, contest->kind, sizeof result->kind);
    memcpy(result->default_text, contest->entrants[0].text, sizeof result->default_text);
    memcpy(result->winner, best->text, sizeof result->winner);
    for (int i = 0; i < contest->count; i++) {
        result->dropped += contest->entrants[i].dropped;
    }
}
