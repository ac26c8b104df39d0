/* A growing string. Failure is sticky: append at will, check mha_strbuf_ok once at the end. */
#ifndef MHA_CORE_STRBUF_H
#define MHA_CORE_STRBUF_H

#include <stddef.h>

#include "core/error.h"

struct mha_strbuf {
    char *text; /* NUL-terminated once something was appended, else NULL */
    size_t length, capacity;
    int failed;
};

void mha_strbuf_append(struct mha_strbuf *s, const char *bytes, size_t length);
void mha_strbuf_printf(struct mha_strbuf *s, const char *format, ...) MHA_PRINTF(2, 3);
int mha_strbuf_ok(const struct mha_strbuf *s);
const char *mha_strbuf_text(const struct mha_strbuf *s); /* "" when empty */
void mha_strbuf_free(struct mha_strbuf *s);

#endif
