/*
 * gpu-mha doctor, the process that watches: starts one that tries a variant, listens, and ends it
 * when it takes too long or when a signal comes. See doctor.h and doctor_child.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "doctor.h"

extern char **environ;

enum { LINE_SIZE = 2 * MHA_DOCTOR_SENTENCE, AVOID_MAX = 256 };

/* ---- signals ------------------------------------------------------------------------------- */

static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
enum { CAUGHT = sizeof caught / sizeof caught[0] };

static volatile sig_atomic_t signal_came;
static struct sigaction actions_before[CAUGHT];
static sigset_t mask_before;

static void note_signal(int number)
{
    signal_came = number;
}

/* Blocked but while we wait, so that none comes between a look and the wait. */
void mha_doctor_watch_begin(void)
{
    struct sigaction action = {.sa_handler = note_signal};
    sigset_t blocked;

    sigemptyset(&action.sa_mask);
    sigemptyset(&blocked);
    for (int i = 0; i < CAUGHT; i++) {
        sigaddset(&blocked, caught[i]);
    }
    sigprocmask(SIG_BLOCK, &blocked, &mask_before);
    for (int i = 0; i < CAUGHT; i++) {
        sigaction(caught[i], NULL, &actions_before[i]);
        /* Who started this with a signal ignored, as nohup does, wants it so. */
        if (actions_before[i].sa_handler != SIG_IGN) {
            sigaction(caught[i], &action, NULL);
        }
    }
}

/* One that waits to be delivered counts too. */
bool mha_doctor_interrupted(void)
{
    sigset_t pending;

    sigpending(&pending);
    for (int i = 0; i < CAUGHT; i++) {
        if (sigismember(&pending, caught[i]) && actions_before[i].sa_handler != SIG_IGN) {
            signal_came = caught[i];
        }
    }
    return signal_came != 0;
}

int mha_doctor_watch_end(void)
{
    /* First the mask: what is pending meets the handler, and not the end of the process. */
    sigprocmask(SIG_SETMASK, &mask_before, NULL);
    for (int i = 0; i < CAUGHT; i++) {
        sigaction(caught[i], &actions_before[i], NULL);
    }
    return signal_came;
}

/* ---- start --------------------------------------------------------------------------------- */

/* A running process and what it has said. */
struct child {
    pid_t pid;
    int channel;
    char line[LINE_SIZE];
    size_t length;
    int current; /* the type that has begun and has no verdict yet, or -1 */
    bool opened, done;
    char gone[MHA_DOCTOR_SENTENCE]; /* why the device cannot be had; else "" */
    double since;                   /* of the clock, when it began */
};

/* A pipe whose ends no other process gets, above the descriptors that are set up for the child. */
static bool make_pipe(int ends[2])
{
    int made[2];

    if (pipe(made) != 0) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(made[i], F_DUPFD_CLOEXEC, MHA_DOCTOR_CHANNEL + 1);
        close(made[i]);
    }
    if (ends[0] >= 0 && ends[1] >= 0 && ends[0] < FD_SETSIZE) {
        return true;
    }
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0) {
            close(ends[i]);
        }
    }
    errno = EMFILE;
    return false;
}

static int set_files(posix_spawn_file_actions_t *files, int channel, bool verbose)
{
    int code = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
    code = code ? code : posix_spawn_file_actions_addopen(files, 1, "/dev/null", O_WRONLY, 0);
    if (!verbose) {
        code = code ? code : posix_spawn_file_actions_addopen(files, 2, "/dev/null", O_WRONLY, 0);
    }
    return code ? code : posix_spawn_file_actions_adddup2(files, channel, MHA_DOCTOR_CHANNEL);
}

/* A group of its own, so that what the driver starts ends with it; signals as they were. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t defaults;

    sigemptyset(&defaults);
    for (int i = 0; i < CAUGHT; i++) {
        sigaddset(&defaults, caught[i]);
    }
    int code = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                        POSIX_SPAWN_SETSIGDEF);
    code = code ? code : posix_spawnattr_setpgroup(attributes, 0);
    code = code ? code : posix_spawnattr_setsigmask(attributes, &mask_before);
    return code ? code : posix_spawnattr_setsigdefault(attributes, &defaults);
}

static int spawn(char *const *argv, int channel, bool verbose, pid_t *pid)
{
#ifdef __linux__
    static const char program[] = "/proc/self/exe";
#else
    static const char program[] = "gpu-mha";
#endif
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;

    int code = posix_spawn_file_actions_init(&files);
    if (code != 0) {
        return code;
    }
    code = posix_spawnattr_init(&attributes);
    if (code == 0) {
        code = set_files(&files, channel, verbose);
        code = code ? code : set_attributes(&attributes);
        code = code ? code : posix_spawnp(pid, program, &files, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return code;
}

static double seconds_now(void)
{
    return mha_milliseconds() * 1e-3;
}

static bool start(const struct mha_doctor_job *job, unsigned types, struct child *child)
{
    static char program[] = "gpu-mha", command[] = "doctor", hidden[] = MHA_DOCTOR_CHILD;
    char device[256], variant[64], types_text[16], seconds[32];
    char *argv[7 + 2 * AVOID_MAX + 1] = {program, command,    hidden, device,
                                         variant, types_text, seconds};
    int ends[2], count = 7;

    snprintf(device, sizeof device, "%s", job->device ? job->device : "");
    snprintf(variant, sizeof variant, "%s", job->variant);
    snprintf(types_text, sizeof types_text, "%u", types);
    snprintf(seconds, sizeof seconds, "%.3f", job->seconds);
    for (int i = 0; job->avoid && job->avoid[i] && i < 2 * AVOID_MAX; i++) {
        argv[count++] = job->avoid[i];
    }
    *child = (struct child){.current = -1, .since = seconds_now()};
    if (!make_pipe(ends)) {
        mha_report("a pipe to a process could not be made: %s", strerror(errno));
        return false;
    }
    const int code = spawn(argv, ends[1], job->verbose, &child->pid);
    close(ends[1]);
    child->channel = ends[0];
    if (code != 0) {
        close(ends[0]);
        mha_report("a process to try \"%s\" in could not be started: %s", job->variant,
                   strerror(code));
        return false;
    }
    fcntl(child->channel, F_SETFL, O_NONBLOCK);
    return true;
}

/* ---- listen -------------------------------------------------------------------------------- */

static int type_of(const char *word)
{
    for (int type = 0; type < MHA_DOCTOR_TYPES; type++) {
        if (!strcmp(word, mha_type_words[type])) {
            return type;
        }
    }
    return -1;
}

static void take_opened(struct child *child, const char *wanted, const char *name)
{
    child->opened = true;
    if (wanted && strcmp(wanted, name) != 0) {
        snprintf(child->gone, sizeof child->gone, "there is \"%.200s\" in its place", name);
    }
}

static void take_line(struct child *child, const struct mha_doctor_job *job, char *line,
                      struct mha_doctor_finding *findings)
{
    char verdict[16], word[16];
    double error, bound;
    int sentence = 0;

    if (!strcmp(line, "done")) {
        child->done = true;
    } else if (!strncmp(line, "open ", 5)) {
        take_opened(child, job->opened, line + 5);
    } else if (!strncmp(line, "gone ", 5)) {
        snprintf(child->gone, sizeof child->gone, "%.*s", MHA_DOCTOR_SENTENCE - 1, line + 5);
    } else if (sscanf(line, "begin %15s", word) == 1) {
        child->current = type_of(word);
    } else if (sscanf(line, "%15s %15s %lf %lf %n", verdict, word, &error, &bound, &sentence) ==
                   4 &&
               child->current >= 0 && type_of(word) == child->current) {
        struct mha_doctor_finding *finding = &findings[child->current];
        const double now = seconds_now();
        *finding = (struct mha_doctor_finding){
            .error = error, .bound = bound, .seconds = now - child->since};
        for (int v = GPU_MHA_VERDICT_OK; v <= GPU_MHA_VERDICT_HUNG; v++) {
            if (!strcmp(verdict, gpu_mha_verdict_text((gpu_mha_verdict)v))) {
                finding->verdict = (gpu_mha_verdict)v;
            }
        }
        snprintf(finding->sentence, sizeof finding->sentence, "%s", line + sentence);
        mha_doctor_clean(finding->sentence);
        child->current = -1;
        child->since = now;
    }
}

/* Reads what is there; false at the end of the channel. */
static bool listen_to(struct child *child, const struct mha_doctor_job *job,
                      struct mha_doctor_finding *findings)
{
    for (;;) {
        const ssize_t got = read(child->channel, child->line + child->length,
                                 sizeof child->line - 1 - child->length);
        if (got <= 0) {
            return got < 0 && (errno == EAGAIN || errno == EINTR);
        }
        child->length += (size_t)got;
        child->line[child->length] = '\0';
        char *newline;
        while ((newline = strchr(child->line, '\n'))) {
            *newline = '\0';
            take_line(child, job, child->line, findings);
            child->length -= (size_t)(newline + 1 - child->line);
            memmove(child->line, newline + 1, child->length + 1);
        }
        if (child->length == sizeof child->line - 1) {
            child->length = 0; /* no line of ours */
        }
    }
}

/* Until something is said, the process ends, time is out or a signal comes. */
static void wait_for_news(const struct child *child, bool listening, double seconds)
{
    /* A process that the driver started may hold the channel open after the end: look now and then.
     */
    const double most = 0.1;
    const double left = seconds < 0 ? 0 : seconds > most ? most : seconds;
    const struct timespec pause = {0, (long)(left * 1e9)};
    fd_set set;

    FD_ZERO(&set);
    FD_SET(child->channel, &set);
    pselect(listening ? child->channel + 1 : 0, listening ? &set : NULL, NULL, NULL, &pause,
            &mask_before);
}

static void describe_end(int status, struct mha_doctor_finding *finding)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {{SIGABRT, "SIGABRT"}, {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},
                 {SIGILL, "SIGILL"},   {SIGFPE, "SIGFPE"},   {SIGTRAP, "SIGTRAP"},
                 {SIGKILL, "SIGKILL"}, {SIGALRM, "SIGALRM"}, {SIGPIPE, "SIGPIPE"}};

    finding->verdict = GPU_MHA_VERDICT_CRASHED;
    if (!WIFSIGNALED(status)) {
        snprintf(finding->sentence, sizeof finding->sentence,
                 "the process ended with exit code %d before it was done", WEXITSTATUS(status));
        return;
    }
    snprintf(finding->sentence, sizeof finding->sentence, "signal %d", WTERMSIG(status));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].number == WTERMSIG(status)) {
            snprintf(finding->sentence, sizeof finding->sentence, "%s", names[i].name);
        }
    }
}

/* Ends the process and what it started, whatever they do, and returns how it ended. */
static int end(struct child *child)
{
    int status = 0;

    kill(-child->pid, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
    }
    close(child->channel);
    return status;
}

/* Watches one process to its end. *status: how it ended by itself; true if it did. */
static bool watch(struct child *child, const struct mha_doctor_job *job,
                  struct mha_doctor_finding *findings, int *status)
{
    bool listening = true, ended = false;

    /* Time is looked at last: one that was stopped, as by Ctrl-Z, first hears what was said. */
    do {
        wait_for_news(child, listening, child->since + job->seconds - seconds_now());
        /* Not reaped yet: its number must stay its own until its group has been ended too. */
        siginfo_t info = {.si_pid = 0};
        ended = waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                info.si_pid == child->pid;
        listening = listening && listen_to(child, job, findings);
    } while (!ended && !child->done && !child->gone[0] && !mha_doctor_interrupted() &&
             seconds_now() - child->since < job->seconds);
    *status = end(child);
    return ended;
}

bool mha_doctor_try(const struct mha_doctor_job *job,
                    struct mha_doctor_finding findings[MHA_DOCTOR_TYPES])
{
    unsigned left = job->types;

    for (int type = 0; type < MHA_DOCTOR_TYPES; type++) {
        findings[type] = (struct mha_doctor_finding){.verdict = GPU_MHA_VERDICT_NONE};
    }
    while (left && !mha_doctor_interrupted()) {
        struct child child;
        int status, next = 0;
        if (!start(job, left, &child)) {
            return false;
        }
        const bool ended = watch(&child, job, findings, &status);
        if (child.gone[0]) {
            mha_doctor_clean(child.gone);
            mha_report("the device is gone before \"%s\" was tried: %s", job->variant, child.gone);
            return false;
        }
        for (int type = 0; type < MHA_DOCTOR_TYPES; type++) {
            left &= findings[type].verdict != GPU_MHA_VERDICT_NONE ? ~(1u << type) : ~0u;
        }
        if (child.done || mha_doctor_interrupted()) {
            return true;
        }
        /* One that ends before it begins ended with the first of what it was to do. */
        while (child.current < 0 && next < MHA_DOCTOR_TYPES && !(left & 1u << next)) {
            next++;
        }
        const int type = child.current >= 0 ? child.current : next;
        if (type == MHA_DOCTOR_TYPES) {
            return true; /* every verdict is there; it ended on its way out */
        }
        struct mha_doctor_finding *finding = &findings[type];
        finding->seconds = seconds_now() - child.since;
        if (ended) {
            describe_end(status, finding);
        } else {
            finding->verdict = GPU_MHA_VERDICT_HUNG;
            snprintf(finding->sentence, sizeof finding->sentence,
                     "it took more than %g s, the limit of --timeout, and was ended", job->seconds);
        }
        if (job->variant[0] && !child.opened) {
            mha_report("the device does not open any more, before \"%s\" was tried: %s: %s",
                       job->variant, gpu_mha_verdict_text(finding->verdict), finding->sentence);
            finding->verdict = GPU_MHA_VERDICT_NONE;
            return false;
        }
        /* What ends the process in single precision fails in every type. */
        left = type == GPU_MHA_F32 ? 0 : left & ~(1u << type);
    }
    return true;
}
