/* The growing string. */
#include "core/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for `more` bytes and the NUL. Returns 0, and marks the string as failed, if there is none.
 */
static int reserve(struct mha_strbuf *s, size_t more)
{
    if (s->failed) {
        return 0;
    }
    if (more < s->capacity - s->length) {
        return 1;
    }

    size_t wanted = s->capacity > 0 ? s->capacity : 64;
    while (wanted - s->length <= more && wanted <= SIZE_MAX / 2) {
        wanted *= 2;
    }
    char *text = wanted - s->length > more ? realloc(s->text, wanted) : NULL;
    if (!text) {
        s->failed = 1;
        return 0;
    }
    s->text = text;
    s->capacity = wanted;
    return 1;
}

void mha_strbuf_append(struct mha_strbuf *s, const char *bytes, size_t length)
{
    if (!reserve(s, length)) {
        return;
    }
    if (length > 0) {
        memcpy(s->text + s->length, bytes, length);
    }
    s->length += length;
    s->text[s->length] = '\0';
}

void mha_strbuf_printf(struct mha_strbuf *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) {
        s->failed = 1;
    }
    if (s->failed || !reserve(s, (size_t)length)) {
        return;
    }

    va_start(args, format);
    vsnprintf(s->text + s->length, (size_t)length + 1, format, args);
    va_end(args);
    s->length += (size_t)length;
}

int mha_strbuf_ok(const struct mha_strbuf *s)
{
    return !s->failed;
}

const char *mha_strbuf_text(const struct mha_strbuf *s)
{
    return s->text ? s->text : "";
}

void mha_strbuf_free(struct mha_strbuf *s)
{
    free(s->text);
    *s = (struct mha_strbuf){0};
}
