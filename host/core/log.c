/* Log lines: the level from the environment, the sink from gpu_mha_set_log(). */
#include "core/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static const char *const level_names[] = {"off", "error", "warn", "info", "debug"};
enum { LEVEL_COUNT = sizeof level_names / sizeof level_names[0] };

static pthread_once_t level_once = PTHREAD_ONCE_INIT;
static enum mha_log_level shown_level = MHA_LOG_WARN;

/*
 * Held while a sink runs, so that lines do not mix and that a sink is never called once
 * gpu_mha_set_log() has replaced it: the caller may then free `user`.
 */
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static gpu_mha_log_fn sink;
static void *sink_user;

static pthread_once_t process_once = PTHREAD_ONCE_INIT;
static pid_t sink_process; /* that the lock belongs to */

static void note_process(void)
{
    sink_process = getpid();
}

/*
 * In a forked child the lock may be held by a thread that is not there: then it is done without.
 * Returns whether it was taken.
 */
static int lock_sink(void)
{
    pthread_once(&process_once, note_process);
    if (sink_process == getpid()) {
        return pthread_mutex_lock(&sink_lock) == 0;
    }
    return pthread_mutex_trylock(&sink_lock) == 0;
}

static void unlock_sink(int locked)
{
    if (locked) {
        pthread_mutex_unlock(&sink_lock);
    }
}

void mha_one_line(char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f) {
            *text = ' ';
        }
    }
}

static void write_line(enum mha_log_level level, const char *line)
{
    const int locked = lock_sink();
    if (sink) {
        sink(sink_user, level_names[level], line);
    } else {
        fprintf(stderr, "gpu_mha: %s: %s\n", level_names[level], line);
    }
    unlock_sink(locked);
}

static void read_level(void)
{
    const char *wanted = getenv("GPU_MHA_LOG");
    if (!wanted || !*wanted) {
        return;
    }
    for (int level = 0; level < LEVEL_COUNT; level++) {
        if (strcmp(wanted, level_names[level]) == 0) {
            shown_level = (enum mha_log_level)level;
            return;
        }
    }
    char line[160];
    snprintf(line, sizeof line,
             "read GPU_MHA_LOG: \"%.40s\", must be off, error, warn, info or debug; using warn",
             wanted);
    mha_one_line(line);
    write_line(MHA_LOG_WARN, line);
}

int mha_log_shows(enum mha_log_level level)
{
    pthread_once(&level_once, read_level);
    return level <= shown_level;
}

void mha_log(enum mha_log_level level, const char *format, ...)
{
    if (!mha_log_shows(level)) {
        return;
    }

    char line[2048];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length < 0) {
        return;
    }
    if ((size_t)length >= sizeof line) {
        memcpy(line + sizeof line - 4, "...", 4);
    }
    mha_one_line(line);
    write_line(level, line);
}

void gpu_mha_set_log(gpu_mha_log_fn fn, void *user)
{
    const int locked = lock_sink();
    sink = fn;
    sink_user = user;
    unlock_sink(locked);
}
