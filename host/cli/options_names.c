/* Names between commas, out of a list; see options.h. */
#include <stdio.h>
#include <string.h>

#include "options.h"

/* Where text[0..length-1] stands among the names; `count` if it does not. */
static size_t find(const char *text, size_t length, const char *const names[], size_t count)
{
    size_t i = 0;
    while (i < count && (strlen(names[i]) != length || memcmp(names[i], text, length))) {
        i++;
    }
    return i;
}

bool mha_options_add_names(const char *command, const char *what, const char *text,
                           const char *const names[], size_t count,
                           bool (*add)(void *user, size_t index), void *user)
{
    for (;;) {
        const size_t length = strcspn(text, ","), index = find(text, length, names, count);
        if (index == count) {
            char known[512] = "";
            size_t used = 0;
            for (size_t i = 0; i < count && used < sizeof known; i++) {
                used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                         names[i]);
            }
            return mha_report_usage(command, "--name has no %s'%.*s'; there are %s", what,
                                    (int)length, text, known);
        }
        if (!add(user, index)) {
            return false;
        }
        if (text[length] == '\0') {
            return true;
        }
        text += length + 1;
    }
}
