/* Log lines: the level from the environment, the sink from gpu_mha_set_log(). */
#include "core/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void write_line(enum mha_log_level level, const char *line)
{
    pthread_mutex_lock(&sink_lock);
    if (sink) {
        sink(sink_user, level_names[level], line);
    } else {
        fprintf(stderr, "gpu_mha: %s: %s\n", level_names[level], line);
    }
    pthread_mutex_unlock(&sink_lock);
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
    write_line(level, line);
}

void gpu_mha_set_log(gpu_mha_log_fn fn, void *user)
{
    pthread_mutex_lock(&sink_lock);
    sink = fn;
    sink_user = user;
    pthread_mutex_unlock(&sink_lock);
}
