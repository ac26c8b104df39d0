/*
 * Joins partial results over disjoint keys: each output weighs exp(its LSE - joint LSE). A partial
 * with LSE -inf is left out beside one that has seen a key, so that (0, -inf) is the identity.
 *
 *   merge_splits  joins the partials that fused.cl left in the workspace; where every LSE is -inf,
 *                 they are summed, since scores of -inf leave NaN in them
 *   merge_pair    joins two results of the caller's, also in place; (0, -inf) if both LSE are -inf
 *
 * ND-range of both: one work-item per row (b, h, i). No local memory.
 *
 * -D names: VEC (any; for common/math.h), DV.
 */
#include "common/copy.h"
#include "common/math.h"
#include "common/merge_params.h"

#if !defined(DV)
#error "DV must be defined"
#endif

/* What is known of the partials after looking at their LSEs. */
struct mha_joint {
    float base; /* subtracted before exponentials: the largest LSE, 0 if that is -inf */
    float sum;  /* of exp(LSE - base) */
    int none;   /* every LSE is -inf */
};

MHA_INLINE struct mha_joint mha_joint_of(__global const float *lse, int count)
{
    struct mha_joint joint = {-INFINITY, 0.0f, 1};
    for (int s = 0; s < count; ++s) {
        joint.base = mha_larger(lse[s], joint.base);
        joint.none &= lse[s] == -INFINITY;
    }
    joint.base = joint.base == -INFINITY ? 0.0f : joint.base;
    for (int s = 0; s < count; ++s) {
        joint.sum += mha_exp(lse[s] - joint.base);
    }
    return joint;
}

MHA_INLINE int mha_joint_skips(struct mha_joint joint, float lse)
{
    return !joint.none && lse == -INFINITY;
}

__kernel void merge_splits(const struct mha_params p, __global const float *sinks,
                           __global void *output, __global float *lse,
                           __global const float *workspace)
{
    const mha_i64 line = (mha_i64)get_global_id(0);
    if (line >= p.B * p.H * p.NQ) {
        return;
    }
    const mha_i64 i = line % p.NQ, h = line / p.NQ % p.H, b = line / p.NQ / p.H;
    const int splits = (int)p.splits;
    __global const float *part_lse = workspace + p.partial_lse + line * splits;
    __global const float *part = workspace + p.partial_output + line * splits * DV;
    const struct mha_joint joint = mha_joint_of(part_lse, splits);
    /* As the sums of one row: its largest "score" is the base, and no key at all is -inf. */
    const struct mha_sink sink =
        mha_join_sink(joint.none ? -INFINITY : joint.base, 0.0f, joint.none ? 0.0f : joint.sum,
                      p.has_sinks, p.has_sinks ? sinks[p.sinks_offset + h] : 0.0f, p.has_lse);
    const mha_i64 at = mha_row(p.output, b, h, i);
    for (int d = 0; d < DV; ++d) {
        float sum = 0.0f;
        for (int s = 0; s < splits; ++s) {
            if (!mha_joint_skips(joint, part_lse[s])) {
                const float weight = joint.none ? 1.0f : mha_exp(part_lse[s] - joint.base);
                sum += weight * part[s * DV + d];
            }
        }
        /* With no key the parts are 0, or NaN where scores of -inf left it; a sink outweighs those.
         */
        const float alone = sink.factor == 0.0f ? 0.0f : sum;
        mha_store(output, p.output_type, at + d,
                  joint.none ? alone : sum * sink.factor / sink.divisor);
    }
    if (p.has_lse) {
        lse[p.lse_offset + line] = sink.lse;
    }
}

/*
 * A row of which one side has seen no key is the other side's, bit for bit. The output may be a
 * side: a work-item owns its row, reads both LSEs first and an element of both sides before it
 * writes that element.
 */
__kernel void merge_pair(const struct mha_merge_params p, __global const void *a,
                         __global const float *lse_a, __global const void *b,
                         __global const float *lse_b, __global void *output, __global float *lse)
{
    const mha_i64 line = (mha_i64)get_global_id(0);
    if (line >= p.B * p.H * p.NQ) {
        return;
    }
    const mha_i64 head = line / p.NQ % p.H, entry = line / p.NQ / p.H, i = line % p.NQ;
    const mha_i64 at_a = mha_row(p.a, entry, head, i);
    const mha_i64 at_b = mha_row(p.b, entry, head, i);
    const mha_i64 at = mha_row(p.output, entry, head, i);
    const float x = lse_a[p.lse_a_offset + line];
    const float y = lse_b[p.lse_b_offset + line];
    const int no_a = x == -INFINITY, no_b = y == -INFINITY;
    if (no_a || no_b) {
        for (mha_i64 d = 0; d < DV; ++d) {
            if (no_a && no_b) {
                mha_store(output, p.output_type, at + d, 0.0f);
            } else if (no_a) {
                mha_copy(output, p.output_type, at + d, b, p.b_type, at_b + d);
            } else {
                mha_copy(output, p.output_type, at + d, a, p.a_type, at_a + d);
            }
        }
        lse[p.lse_offset + line] = no_a ? y : x;
        return;
    }
    const float larger = mha_larger(x, y);
    const float sum = mha_exp(x - larger) + mha_exp(y - larger);
    const float weight_a = mha_exp(x - larger) / sum;
    const float weight_b = mha_exp(y - larger) / sum;
    for (mha_i64 d = 0; d < DV; ++d) {
        const float from_a = mha_load(a, p.a_type, at_a + d);
        const float from_b = mha_load(b, p.b_type, at_b + d);
        mha_store(output, p.output_type, at + d, weight_a * from_a + weight_b * from_b);
    }
    lse[p.lse_offset + line] = larger + log(sum);
}
