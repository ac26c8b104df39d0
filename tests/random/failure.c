/*
 * failure.c - see failure.h.
 */
#include "failure.h"

#include <inttypes.h>
#include <stdio.h>

static void print_problem(const char *title, const struct attention_spec *spec,
                          const struct attention_verdict *verdict)
{
    char text[2048];

    attention_spec_text(spec, text, sizeof(text));
    printf("%s: %s\n  plan \"%s\"\n  {%s}\n", title, verdict->text, verdict->plan, text);
}

void failure_report(const char *folder, const struct attention_spec *spec,
                    const struct attention_verdict *verdict, const struct attention_spec *shrunk,
                    const struct attention_verdict *small)
{
    printf("seed %" PRIu64 " FAILS\n", spec->seed);
    print_problem("  drawn", spec, verdict);
    print_problem("  shrunk", shrunk, small);
    (void)folder;
    fflush(stdout);
}
