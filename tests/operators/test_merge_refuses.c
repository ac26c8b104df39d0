/*
 * test_merge_refuses.c - what gpu_mha_merge and its plan refuse, and the overlap of buffers that
 * all the small operators check alike.
 */
#include "operator_fixture.h"

enum { B = 2, H = 3, NQ = 11, DV = 19, ROWS = B * H * NQ };

/* ---- descriptors and arrays ---- */

START_TEST(wrong_descriptors_are_refused)
{
    const gpu_mha_merge_desc right = {.B = B, .H = H, .NQ = NQ, .DV = DV};
    const gpu_mha_tensor overlapping = {
        .layout = GPU_MHA_STRIDED, .stride_b = H * NQ * DV, .stride_h = NQ * DV, .stride_n = 18};
    struct {
        const char *field, *words;
        gpu_mha_merge_desc desc;
    } cases[] = {
        {"B is -1", "at least 0", right},
        {"H is 0", "at least 1", right},
        {"NQ is -7", "at least 0", right},
        {"DV is 0", "at least 1", right},
        {"a.type is 3", "GPU_MHA_F32", right},
        {"b.layout is 9", "GPU_MHA_BHND", right},
        {"a.stride_h is -2", "negative", right},
        {"b.stride_n is 5", "GPU_MHA_STRIDED", right},
        {"output.stride_n is 18", "must not overlap", right},
        {"a spans", "address", right},
        {"gpu_mha_merge_desc.struct_size is 8", "sizeof(gpu_mha_merge_desc)", right},
    };
    cases[0].desc.B = -1;
    cases[1].desc.H = 0;
    cases[2].desc.NQ = -7;
    cases[3].desc.DV = 0;
    cases[4].desc.a.type = (gpu_mha_type)3;
    cases[5].desc.b.layout = (gpu_mha_layout)9;
    cases[6].desc.a.layout = GPU_MHA_STRIDED;
    cases[6].desc.a.stride_h = -2;
    cases[7].desc.b.stride_n = 5;
    cases[8].desc.output = overlapping;
    cases[9].desc.B = cases[9].desc.NQ = (int64_t)1 << 40;
    cases[10].desc.struct_size = 8;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpu_mha_merge_arrays arrays = {0};
        gpu_mha_plan *plan = (gpu_mha_plan *)&arrays;
        EXPECT_REFUSED(gpu_mha_merge(context, &cases[i].desc, &arrays), cases[i].field,
                       cases[i].words);
        EXPECT_REFUSED(gpu_mha_merge_plan_create(context, &cases[i].desc, &plan), cases[i].field,
                       cases[i].words);
        ck_assert_ptr_null(plan);
    }
}
END_TEST

START_TEST(wrong_arrays_are_refused)
{
    float x[ROWS * DV], lse[ROWS], output[ROWS * DV], out_lse[ROWS];
    const gpu_mha_merge_desc desc = {.B = B, .H = H, .NQ = NQ, .DV = DV};
    const gpu_mha_merge_arrays right = {
        .a = x, .lse_a = lse, .b = x, .lse_b = lse, .output = output, .lse = out_lse};
    gpu_mha_merge_arrays wrong[6] = {right, right, right, right, right, right};
    static const char *const names[6] = {"a is NULL",     "lse_a is NULL",  "b is NULL",
                                         "lse_b is NULL", "output is NULL", "lse is NULL"};
    wrong[0].a = NULL;
    wrong[1].lse_a = NULL;
    wrong[2].b = NULL;
    wrong[3].lse_b = NULL;
    wrong[4].output = NULL;
    wrong[5].lse = NULL;
    for (int i = 0; i < 6; i++) {
        EXPECT_REFUSED(gpu_mha_merge(context, &desc, &wrong[i]), names[i], "asks for it");
    }
    EXPECT_REFUSED(gpu_mha_merge(context, &desc, NULL), "arrays is NULL", "needed");
    EXPECT_REFUSED(gpu_mha_merge(context, NULL, &right), "desc is NULL", "needed");
    EXPECT_REFUSED(gpu_mha_merge_plan_create(context, &desc, NULL), "plan is NULL", "needed");
}
END_TEST

/* ---- places of the buffers ---- */

static cl_mem make_buffer(size_t bytes)
{
    cl_int code;
    cl_mem mem = clCreateBuffer(gpu_mha_context_cl(context), CL_MEM_READ_WRITE, bytes, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    return mem;
}

/* One buffer of `bytes` for everything, offsets from the caller. */
static gpu_mha_status enqueue_in_one(const gpu_mha_merge_desc *desc,
                                     const gpu_mha_merge_buffers *places, size_t bytes)
{
    cl_mem mem = make_buffer(bytes);
    gpu_mha_merge_buffers b = *places;
    gpu_mha_plan *plan;
    b.a.mem = b.b.mem = b.lse_a.mem = b.lse_b.mem = b.output.mem = b.lse.mem = mem;
    ok(gpu_mha_merge_plan_create(context, desc, &plan));
    cl_event event = (cl_event)(void *)plan; /* something that is not NULL */
    gpu_mha_status status = gpu_mha_merge_enqueue(plan, queues[WAY_IN_ORDER], &b, 0, NULL, &event);
    if (status == GPU_MHA_OK) {
        ck_assert_int_eq(clWaitForEvents(1, &event), CL_SUCCESS);
        clReleaseEvent(event);
    } else {
        ck_assert_ptr_null(event);
    }
    gpu_mha_plan_release(plan);
    clReleaseMemObject(mem);
    return status;
}

/* B 1, H 2, NQ 3, DV 4, f32: 24 elements a tensor, 6 an LSE, all in one buffer of 128. */
START_TEST(overlapping_buffers_are_refused)
{
    const gpu_mha_merge_desc packed = {.B = 1, .H = 2, .NQ = 3, .DV = 4};
    const gpu_mha_merge_buffers apart = {.a.offset = 0,
                                         .b.offset = 24,
                                         .output.offset = 48,
                                         .lse_a.offset = 72,
                                         .lse_b.offset = 78,
                                         .lse.offset = 84};
    ok(enqueue_in_one(&packed, &apart, 512));

    gpu_mha_merge_buffers b = apart;
    b.output.offset = 47;
    EXPECT_REFUSED(enqueue_in_one(&packed, &b, 512), "output overlaps b", "same buffer");
    b.output.offset = 1;
    EXPECT_REFUSED(enqueue_in_one(&packed, &b, 512), "output overlaps a", "same buffer");
    b.output.offset = 49;
    EXPECT_REFUSED(enqueue_in_one(&packed, &b, 512), "output overlaps lse_a", "apart from it");
    b = apart;
    b.lse.offset = 83;
    EXPECT_REFUSED(enqueue_in_one(&packed, &b, 512), "lse overlaps lse_b", "same buffer");
    b.lse.offset = 71;
    EXPECT_REFUSED(enqueue_in_one(&packed, &b, 512), "output overlaps lse", "apart from it");
    b = apart;
    b.output.offset = 0;
    b.lse.offset = 78;
    ok(enqueue_in_one(&packed, &b, 512));

    /* The same place, but other elements: another size, other strides. */
    gpu_mha_merge_desc other = packed;
    other.output.type = GPU_MHA_F16;
    EXPECT_REFUSED(enqueue_in_one(&other, &b, 512), "output overlaps a", "element size");
    other = packed;
    other.output.layout = GPU_MHA_BNHD;
    EXPECT_REFUSED(enqueue_in_one(&other, &b, 512), "output overlaps a", "strides");
    /* Two names for the same strides. */
    other.a.layout = GPU_MHA_STRIDED;
    other.a.stride_b = 1000;
    other.a.stride_h = 4;
    other.a.stride_n = 8;
    ok(enqueue_in_one(&other, &b, 512));
}
END_TEST

/* Rows of 12: a, b and output lie side by side, as query, key and value of one product do. */
START_TEST(interleaved_tensors_are_apart)
{
    const gpu_mha_tensor by_rows = {
        .layout = GPU_MHA_STRIDED, .stride_b = 72, .stride_h = 36, .stride_n = 12};
    const gpu_mha_merge_desc desc = {
        .B = 1, .H = 2, .NQ = 3, .DV = 4, .a = by_rows, .b = by_rows, .output = by_rows};
    gpu_mha_merge_buffers b = {.a.offset = 0,
                               .b.offset = 4,
                               .output.offset = 8,
                               .lse_a.offset = 72,
                               .lse_b.offset = 78,
                               .lse.offset = 84};
    ok(enqueue_in_one(&desc, &b, 512));
    b.output.offset = 7;
    EXPECT_REFUSED(enqueue_in_one(&desc, &b, 512), "output overlaps b", "apart from it");
}
END_TEST

START_TEST(sub_buffers_are_seen_through)
{
    const gpu_mha_merge_desc desc = {.B = 1, .H = 1, .NQ = 1, .DV = 4};
    cl_mem whole = make_buffer(16384), other = make_buffer(512);
    cl_int code;
    cl_buffer_region region = {4096, 4096};
    cl_mem part =
        clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    gpu_mha_merge_buffers b = {.a = {whole, 1024},
                               .b = {other, 0},
                               .lse_a = {other, 10},
                               .lse_b = {other, 20},
                               .output = {part, 0},
                               .lse = {other, 30}};
    gpu_mha_plan *plan;
    cl_command_queue queue = queues[WAY_IN_ORDER];
    ok(gpu_mha_merge_plan_create(context, &desc, &plan));
    ok(gpu_mha_merge_enqueue(plan, queue, &b, 0, NULL, NULL));
    b.output.offset = 1;
    EXPECT_REFUSED(gpu_mha_merge_enqueue(plan, queue, &b, 0, NULL, NULL), "output overlaps a",
                   "apart from it");
    clFinish(queue);
    gpu_mha_plan_release(plan);
    clReleaseMemObject(part);
    clReleaseMemObject(whole);
    clReleaseMemObject(other);
}
END_TEST

START_TEST(wrong_buffers_are_refused)
{
    const gpu_mha_merge_desc desc = {.B = 1, .H = 2, .NQ = 3, .DV = 4};
    const gpu_mha_merge_buffers apart = {.a.offset = 0,
                                         .b.offset = 24,
                                         .output.offset = 48,
                                         .lse_a.offset = 72,
                                         .lse_b.offset = 78,
                                         .lse.offset = 84};
    ok(enqueue_in_one(&desc, &apart, 90 * 4));
    EXPECT_REFUSED(enqueue_in_one(&desc, &apart, 90 * 4 - 1), "lse holds 359 bytes", "6 elements");
    gpu_mha_plan *plan;
    gpu_mha_merge_buffers none = {0};
    ok(gpu_mha_merge_plan_create(context, &desc, &plan));
    EXPECT_REFUSED(gpu_mha_merge_enqueue(plan, queues[WAY_IN_ORDER], &none, 0, NULL, NULL),
                   "a is NULL", "asks for it");
    EXPECT_REFUSED(gpu_mha_merge_enqueue(plan, queues[WAY_IN_ORDER], NULL, 0, NULL, NULL),
                   "buffers is NULL", "needed");
    EXPECT_REFUSED(gpu_mha_merge_enqueue(NULL, queues[WAY_IN_ORDER], &none, 0, NULL, NULL),
                   "plan is NULL", "needed");
    gpu_mha_cache_buffers foreign = {0};
    EXPECT_REFUSED(gpu_mha_cache_enqueue(plan, queues[WAY_IN_ORDER], &foreign, 0, NULL, NULL),
                   "plan is a merge plan", "a cache update plan is needed");
    gpu_mha_plan_release(plan);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("merge_refuses");
    TCase *tcase = tcase_create("merge_refuses");
    tcase_add_checked_fixture(tcase, open_context, close_context);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, wrong_descriptors_are_refused);
    tcase_add_test(tcase, wrong_arrays_are_refused);
    tcase_add_test(tcase, overlapping_buffers_are_refused);
    tcase_add_test(tcase, interleaved_tensors_are_apart);
    tcase_add_test(tcase, sub_buffers_are_seen_through);
    tcase_add_test(tcase, wrong_buffers_are_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
