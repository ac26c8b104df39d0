/* The attentions that gpu_mha() made last, so that calling it in a loop builds nothing anew. */
#ifndef MHA_ATTENTION_RECENT_H
#define MHA_ATTENTION_RECENT_H

#include "attention/attention.h"

/*
 * The attention of `desc` on the context: a kept one, or a new one, which is then kept. Borrowed; the
 * caller holds context->queue_lock until it is done with it.
 */
gpu_mha_status mha_recent_get(gpu_mha_context *context, const gpu_mha_desc *desc,
                              struct mha_attention **attention);

#endif
