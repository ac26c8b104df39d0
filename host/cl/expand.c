/*
 * Writes out #include lines.
 *
 * No #line directives: drivers differ in what they take there. A line number of a build log counts
 * in the expanded text, which begins with the included files.
 */
#include "cl/expand.h"

#include <stdlib.h>
#include <string.h>

struct expansion {
    const struct mha_cl_source *sources;
    unsigned char *done; /* by index in sources: already in the text */
    struct mha_strbuf *text;
};

static gpu_mha_status expand_file(struct expansion *e, const char *name, size_t length,
                                  const char *included_by);

/* If the line is #include "file": 1, and where that name lies. */
static int included_name(const char *line, size_t length, const char **name, size_t *name_length)
{
    static const char directive[] = "#include";
    size_t at = sizeof directive - 1;
    if (length < at || memcmp(line, directive, at) != 0) {
        return 0;
    }
    while (at < length && (line[at] == ' ' || line[at] == '\t')) {
        at++;
    }
    if (at == length || line[at] != '"') {
        return 0;
    }
    const char *first = line + at + 1;
    const char *last = memchr(first, '"', length - at - 1);
    if (!last) {
        return 0;
    }
    *name = first;
    *name_length = (size_t)(last - first);
    return 1;
}

static gpu_mha_status expand_lines(struct expansion *e, const struct mha_cl_source *source)
{
    const char *line = source->text;
    const char *end = line + source->length;
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = newline ? newline : end;
        size_t length = (size_t)(line_end - line);
        const char *name;
        size_t name_length;
        if (included_name(line, length, &name, &name_length)) {
            MHA_TRY(expand_file(e, name, name_length, source->name));
        } else {
            mha_strbuf_append(e->text, line, length);
            mha_strbuf_append(e->text, "\n", 1);
        }
        line = newline ? newline + 1 : end;
    }
    return GPU_MHA_OK;
}

static gpu_mha_status expand_file(struct expansion *e, const char *name, size_t length,
                                  const char *included_by)
{
    for (size_t i = 0; e->sources[i].name; i++) {
        const char *candidate = e->sources[i].name;
        if (strlen(candidate) != length || memcmp(candidate, name, length) != 0) {
            continue;
        }
        if (e->done[i]) {
            return GPU_MHA_OK;
        }
        /* Marked before its lines are read, so that a circle of includes ends. */
        e->done[i] = 1;
        return expand_lines(e, &e->sources[i]);
    }
    int shown = length < 100 ? (int)length : 100;
    if (included_by) {
        return mha_error_set(GPU_MHA_BUILD,
                             "kernel source %s includes \"%.*s\", which is not embedded",
                             included_by, shown, name);
    }
    return mha_error_set(GPU_MHA_BUILD, "kernel source \"%.*s\" is not embedded", shown, name);
}

gpu_mha_status mha_expand_source(const struct mha_cl_source *sources, const char *name,
                                 struct mha_strbuf *text)
{
    size_t count = 0;
    while (sources[count].name) {
        count++;
    }
    struct expansion e = {sources, calloc(count + 1, 1), text};
    gpu_mha_status status;
    if (!e.done) {
        status = mha_error_set(GPU_MHA_HOST_MEMORY, "no memory to read kernel source %s", name);
        goto cleanup;
    }
    status = expand_file(&e, name, strlen(name), NULL);
    if (status == GPU_MHA_OK && !mha_strbuf_ok(text)) {
        status = mha_error_set(GPU_MHA_HOST_MEMORY, "no memory for kernel source %s", name);
    }

cleanup:
    free(e.done);
    return status;
}
