/* Build options as typed definitions: every -D a kernel gets is made here. */
#ifndef MHA_CL_OPTIONS_H
#define MHA_CL_OPTIONS_H

#include <stdint.h>

#include "core/strbuf.h"

struct mha_options {
    struct mha_strbuf text;
};

/* -D NAME=value */
void mha_options_int(struct mha_options *options, const char *name, int64_t value);
/* -D NAME=1 or -D NAME=0: features are always defined */
void mha_options_flag(struct mha_options *options, const char *name, int on);
void mha_options_free(struct mha_options *options);

#endif
