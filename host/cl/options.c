/* Build options. */
#include "cl/options.h"

#include <inttypes.h>

void mha_options_int(struct mha_options *options, const char *name, int64_t value)
{
    mha_strbuf_printf(&options->text, " -D %s=%" PRId64, name, value);
}

void mha_options_flag(struct mha_options *options, const char *name, int on)
{
    mha_options_int(options, name, on != 0);
}

void mha_options_free(struct mha_options *options)
{
    mha_strbuf_free(&options->text);
}
