/* Log lines by level; where they go and how GPU_MHA_LOG is read stands in the public header. */
#ifndef MHA_CORE_LOG_H
#define MHA_CORE_LOG_H

#include "core/error.h"

enum mha_log_level { MHA_LOG_OFF, MHA_LOG_ERROR, MHA_LOG_WARN, MHA_LOG_INFO, MHA_LOG_DEBUG };

/* A line is "verb object: value, rule", without a newline. Cheap when the level is off. */
void mha_log(enum mha_log_level level, const char *format, ...) MHA_PRINTF(2, 3);

/*
 * Makes one line of a text: control characters become blanks. Callers, files and drivers are quoted
 * in lines and sentences, and what they wrote must not break one or steer a terminal.
 */
void mha_one_line(char *text);

/* 1 if lines of this level are shown: for callers that must build a line first. */
int mha_log_shows(enum mha_log_level level);

#endif
