/* What was measured for a kind of problem, where it was. */
#ifndef MHA_ATTENTION_CHOICE_H
#define MHA_ATTENTION_CHOICE_H

#include "attention/shape.h"
#include "cl/context.h"
#include "cl/tuned.h"

/*
 * The key of the problem in the tuning file: its kind, and the shape that the tables have for it.
 * Where they tell two problems of one kind apart, by lengths or the number of heads, what is best
 * for one says nothing about the other.
 */
void mha_choice_key(const struct mha_problem *problem, const struct mha_device *device,
                    char key[MHA_TUNED_WORD]);

/*
 * 1, and the shape that was measured to be best for problems of this key on the context's device.
 * An entry that is no shape is forgotten with a line in the log. The shape may not fit this very
 * problem: mha_variant_choose looks.
 */
int mha_choice_tuned(gpu_mha_context *context, const struct mha_problem *problem,
                     struct mha_shape *shape, struct mha_tuned_entry *entry);

#endif
