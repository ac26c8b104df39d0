/*
 * test_cases_outputs.c - weights and scores at each stage (case 25), and offsets beyond 2^31 (case
 * 21).
 *
 * The numbers of each case are ones that broke other libraries; the results follow from arithmetic.
 */
#include "harness/assertions.h"
#include "harness/probe.h"

#include <stdlib.h>
#include <string.h>

#define SMALL .DK = 5, .DV = 3

enum { B = 2, H = 4, NQ = 3, NK = 7, ROWS = B * H * NQ };

/* Scores 2 q k with q = (h + i) % 3 - 1 and k = j - 2, capped at 3, biased by j / 8, causal. */
struct expected {
    double raw[ROWS * NK], capped[ROWS * NK], masked[ROWS * NK], softmax[ROWS * NK];
    double averaged[B * NQ * NK];
};

static void make_scores(struct probe *p, struct expected *want)
{
    probe_init(p, &(gpu_mha_desc){.B = B,
                                  .H = H,
                                  .HKV = 2,
                                  .NQ = NQ,
                                  .NP = 3,
                                  .NK = NK - 3,
                                  SMALL,
                                  .has_scale = 1,
                                  .scale = 2,
                                  .softcap = 3,
                                  .causal = 1,
                                  .offset_kind = GPU_MHA_OFFSET,
                                  .offset = 1});
    probe_give_mask(p, GPU_MHA_MASK_F32, 1, (int64_t[]){NK});
    probe_give_mask(p, GPU_MHA_MASK_BOOL, 3, (int64_t[]){H, 1, 1});
    p->mask[3] = 0;
    memset(want, 0, sizeof *want);
    p->score_peak = 9;
    for (int j = 0; j < NK; j++) {
        p->bias[j] = (double)j / 8;
        for (int64_t head = 0; head < B * 2; head++) {
            double *k = probe_key_row(p, head / 2, head % 2, j);
            fill_constant(k, 5, 0);
            k[4] = j - 2;
        }
    }
    for (int n = 0; n < ROWS * NK; n++) {
        const int j = n % NK, i = n / NK % NQ, h = n / NK / NQ % H, b = n / NK / NQ / H;
        const double q = (h + i) % 3 - 1;
        p->query[n / NK * 5 + 4] = q;
        want->raw[n] = 2 * q * (j - 2);
        want->capped[n] = 3 * tanh(want->raw[n] / 3);
        want->masked[n] =
            probe_visible(p, b, h, i, j) ? want->capped[n] + (double)j / 8 : -INFINITY;
    }
    for (int row = 0; row < ROWS; row++) {
        double sum = 0;
        for (int j = 0; j < NK; j++) {
            sum += exp(want->masked[row * NK + j]);
        }
        for (int j = 0; j < NK && sum > 0; j++) {
            want->softmax[row * NK + j] = exp(want->masked[row * NK + j]) / sum;
        }
    }
    for (int n = 0; n < ROWS * NK; n++) {
        want->averaged[n / (H * NQ * NK) * NQ * NK + n % (NQ * NK)] += want->softmax[n] / H;
    }
    probe_spread_values(p);
    p->want_output = alloc_doubles(ROWS * 3);
    for (int n = 0; n < ROWS * NK; n++) {
        const int h = n / NK / NQ % H, b = n / NK / NQ / H;
        for (int e = 0; e < 3; e++) {
            p->want_output[n / NK * 3 + e] +=
                want->softmax[n] * probe_value_row(p, b, h / 2, n % NK)[e];
        }
    }
}

static double *copied(const double *values, int64_t count)
{
    double *copy = alloc_doubles(count);
    memcpy(copy, values, (size_t)count * sizeof *copy);
    return copy;
}

/* Case 25: the scores as each stage is named, alone and beside both forms of weights. */
START_TEST(scores_are_those_of_their_stage)
{
    struct probe p;
    struct expected want;
    make_scores(&p, &want);
    const double *stages[] = {NULL, want.raw, want.capped, want.masked, want.softmax};
    const int scores = _i % 5, weights = _i / 5;
    p.desc.scores = (gpu_mha_scores)scores;
    p.desc.weights = (gpu_mha_weights)weights;
    if (scores > 0) {
        p.want_scores = copied(stages[scores], ROWS * NK);
    }
    if (weights == GPU_MHA_WEIGHTS_PER_HEAD) {
        p.want_weights = copied(want.softmax, ROWS * NK);
    }
    if (weights == GPU_MHA_WEIGHTS_AVERAGED) {
        p.want_weights = copied(want.averaged, B * NQ * NK);
    }
    probe_run(&p);
    for (int row = 0; row < ROWS && weights == GPU_MHA_WEIGHTS_PER_HEAD; row++) {
        double sum = 0;
        for (int j = 0; j < NK; j++) {
            sum += p.weights[row * NK + j];
        }
        ASSERT_DOUBLE_NEAR(sum, row / NQ % H == 3 ? 0 : 1, 0x1p-22);
    }
    probe_free(&p);
}
END_TEST

/* Case 25: asking for weights or scores does not change a bit of the output. */
START_TEST(the_output_does_not_depend_on_what_else_is_asked_for)
{
    struct probe p;
    struct expected want;
    make_scores(&p, &want);
    p.desc.method = GPU_MHA_STAGED;
    p.types = PROBE_F32;
    probe_run(&p);
    double *output = copied(p.output, ROWS * 3), *lse = copied(p.lse, ROWS);
    for (int n = 1; n < 15; n++) {
        p.desc.scores = (gpu_mha_scores)(n % 5);
        p.desc.weights = (gpu_mha_weights)(n / 5);
        probe_run(&p);
        ck_assert_mem_eq(output, p.output, ROWS * 3 * sizeof *output);
        ck_assert_mem_eq(lse, p.lse, ROWS * sizeof *lse);
    }
    free(output);
    free(lse);
    probe_free(&p);
}
END_TEST

/* With key lengths, raw and capped scores still show every key. */
START_TEST(raw_scores_show_keys_past_the_length)
{
    struct probe p;
    struct expected want;
    make_scores(&p, &want);
    probe_give_lengths(&p, GPU_MHA_I32, (int64_t[]){2, 0});
    p.desc.scores = _i ? GPU_MHA_SCORES_CAPPED : GPU_MHA_SCORES_RAW;
    p.want_scores = copied(_i ? want.capped : want.raw, ROWS * NK);
    free(p.want_output);
    p.want_output = NULL;
    probe_run(&p);
    probe_free(&p);
}
END_TEST

/* Dropout: the weights after it are what the output is made of; softmax scores are those before. */
START_TEST(dropped_weights_are_0_and_the_rest_is_scaled)
{
    struct probe p;
    struct expected want;
    make_scores(&p, &want);
    p.desc.dropout = 0.5f;
    p.desc.dropout_seed = 0x0123456789abcdef;
    p.desc.weights = GPU_MHA_WEIGHTS_PER_HEAD;
    p.desc.scores = GPU_MHA_SCORES_SOFTMAX;
    p.want_scores = copied(want.softmax, ROWS * NK);
    free(p.want_output);
    p.want_output = NULL;
    p.types = PROBE_F32;
    probe_run(&p);
    int kept = 0, dropped = 0;
    for (int row = 0; row < ROWS; row++) {
        double output[3] = {0, 0, 0};
        for (int j = 0; j < NK; j++) {
            const double w = p.weights[row * NK + j], s = p.scores[row * NK + j];
            if (s > 0 && w == 0) {
                dropped++;
            } else {
                ASSERT_DOUBLE_SAME(w, 2 * s);
            }
            kept += w > 0;
            for (int e = 0; e < 3; e++) {
                output[e] += w * probe_value_row(&p, row / NQ / H, row / NQ % H / 2, j)[e];
            }
        }
        for (int e = 0; e < 3; e++) {
            ASSERT_DOUBLE_NEAR(p.output[row * 3 + e], output[e], 0x1p-18);
        }
    }
    ck_assert_msg(kept > 10 && dropped > 10, "%d kept, %d dropped", kept, dropped);
    probe_free(&p);
}
END_TEST

/* ---- case 21 ---- */

#define FAR (((int64_t)1 << 31) + 64)

/* A mask whose second batch entry lies beyond element 2^31; most of it is never touched. */
START_TEST(a_mask_beyond_2_31_elements_is_found)
{
    cl_ulong largest = 0;
    clGetDeviceInfo(gpu_mha_context_device(probe_context()), CL_DEVICE_MAX_MEM_ALLOC_SIZE,
                    sizeof largest, &largest, NULL);
    if (largest < (cl_ulong)FAR + 16) {
        return;
    }
    gpu_mha_desc desc = {
        .B = 2,
        .H = 1,
        .HKV = 1,
        .NQ = 1,
        .NK = 4,
        SMALL,
        .method = _i ? GPU_MHA_STAGED : GPU_MHA_FUSED,
        .mask = {.type = GPU_MHA_MASK_BOOL, .strided = 1, .stride = {FAR, 0, 0, 3}}};
    cl_context cl = gpu_mha_context_cl(probe_context());
    cl_command_queue queue = probe_queue(probe_context(), 0);
    cl_int code = CL_SUCCESS;
    cl_mem mask = clCreateBuffer(cl, CL_MEM_READ_WRITE, (size_t)FAR + 10, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    static const unsigned char near[10] = {1}, far[10] = {0, 1, 1, 0, 1, 1, 1, 1, 1, 0};
    ck_assert_int_eq(clEnqueueWriteBuffer(queue, mask, CL_TRUE, 0, 10, near, 0, NULL, NULL), 0);
    ck_assert_int_eq(clEnqueueWriteBuffer(queue, mask, CL_TRUE, FAR, 10, far, 0, NULL, NULL), 0);

    float q[10] = {0}, k[40] = {0}, v[24], o[6];
    for (int n = 0; n < 24; n++) {
        v[n] = (float)(n / 3 % 4 + 1);
    }
    const cl_mem_flags copied_in = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
    cl_mem mems[5] = {clCreateBuffer(cl, copied_in, sizeof q, q, NULL),
                      clCreateBuffer(cl, copied_in, sizeof k, k, NULL),
                      clCreateBuffer(cl, copied_in, sizeof v, v, NULL),
                      clCreateBuffer(cl, CL_MEM_READ_WRITE, sizeof o, NULL, NULL), NULL};
    gpu_mha_plan *plan = NULL;
    ck_assert_int_eq(gpu_mha_plan_create(probe_context(), &desc, &plan), GPU_MHA_OK);
    mems[4] =
        clCreateBuffer(cl, CL_MEM_READ_WRITE, gpu_mha_plan_workspace_bytes(plan) + 128, NULL, NULL);
    gpu_mha_buffers buffers = {.query = {mems[0], 0},
                               .key = {mems[1], 0},
                               .value = {mems[2], 0},
                               .output = {mems[3], 0},
                               .mask = {mask, 0},
                               .workspace = {mems[4], 0}};
    ck_assert_msg(gpu_mha_enqueue(plan, queue, &buffers, 0, NULL, NULL) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    ck_assert_int_eq(clEnqueueReadBuffer(queue, mems[3], CL_TRUE, 0, sizeof o, o, 0, NULL, NULL),
                     0);
    for (int n = 0; n < 6; n++) {
        ASSERT_DOUBLE_NEAR(o[n], n < 3 ? 1 : 3, 1e-5); /* key 0; keys 2 of (0, 0, 1, 0) */
    }

    /* One byte less is refused before any launch. */
    buffers.mask.offset = 1;
    ck_assert_int_eq(gpu_mha_enqueue(plan, queue, &buffers, 0, NULL, NULL), GPU_MHA_INVALID);
    gpu_mha_plan_release(plan);
    for (int n = 0; n < 5; n++) {
        clReleaseMemObject(mems[n]);
    }
    clReleaseMemObject(mask);
}
END_TEST

START_TEST(huge_problems_are_planned_or_refused)
{
    gpu_mha_plan *plan = NULL;
    gpu_mha_desc desc = {.B = 1,
                         .H = 1,
                         .HKV = 1,
                         .NQ = 46342,
                         .NK = 46342,
                         SMALL,
                         .mask = {.type = GPU_MHA_MASK_BOOL}};
    ck_assert_int_eq(gpu_mha_plan_create(probe_context(), &desc, &plan), GPU_MHA_OK);
    ck_assert_msg(gpu_mha_plan_workspace_bytes(plan) < 64 << 20,
                  "the fused workspace grows with NQ * NK");
    gpu_mha_plan_release(plan);

    /* Scores of B * H * NQ * NK floats: 2^40 bytes or more do not fit any device at hand. */
    desc.method = GPU_MHA_STAGED;
    desc.H = 128;
    plan = (gpu_mha_plan *)&desc;
    ck_assert_int_eq(gpu_mha_plan_create(probe_context(), &desc, &plan), GPU_MHA_UNSUPPORTED);
    ck_assert_ptr_null(plan);
    ck_assert_ptr_nonnull(strstr(gpu_mha_last_error(), "workspace"));

    desc.H = desc.HKV = (int64_t)1 << 40;
    ck_assert_int_eq(gpu_mha_plan_create(probe_context(), &desc, &plan), GPU_MHA_INVALID);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("weights, scores and far offsets");
    TCase *cases = tcase_create("cases 21 and 25");
    tcase_add_loop_test(cases, scores_are_those_of_their_stage, 0, 15);
    tcase_add_test(cases, the_output_does_not_depend_on_what_else_is_asked_for);
    tcase_add_loop_test(cases, raw_scores_show_keys_past_the_length, 0, 2);
    tcase_add_test(cases, dropped_weights_are_0_and_the_rest_is_scaled);
    tcase_add_loop_test(cases, a_mask_beyond_2_31_elements_is_found, 0, 2);
    tcase_add_test(cases, huge_problems_are_planned_or_refused);
    suite_add_tcase(suite, cases);
    return probe_main(suite);
}
