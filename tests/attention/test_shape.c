/*
 * test_shape.c - shapes of kernels as text, which of them fit, which a device gets, and what
 * happens to one whose kernel does not build. Devices are made up; kernels run on the default one.
 */
#include "attention/attention.h"
#include "harness/assertions.h"
#include "harness/attention_run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASSERT_OK(call) ck_assert_msg((call) == GPU_MHA_OK, "%s", gpu_mha_last_error())

START_TEST(text_and_shape_are_the_same)
{
    static const struct {
        const char *text, *again;
    } cases[] = {
        {"fused 12,16,2,8", NULL}, {"12,16,2,8", "fused 12,16,2,8"},
        {"decode 16", NULL},       {"heads 6,8,2,16", NULL},
        {"0,8,2,4", "decode 8"},   {"shared 8,16,4,4,32,2,1,0", NULL},
        {"rows 2,8,32", NULL},
    };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        struct mha_shape shape;
        char text[MHA_SHAPE_TEXT];
        ASSERT_OK(mha_shape_parse("it", cases[n].text, &shape));
        mha_shape_text(&shape, text, sizeof text);
        ck_assert_str_eq(text, cases[n].again ? cases[n].again : cases[n].text);
    }
}
END_TEST

START_TEST(what_is_no_shape_is_refused_with_a_sentence)
{
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"12,16,2", "it is \"12,16,2\": it must be MQ,VEC,NV,TB"},
        {"fused 12,16,2,8,", "it is \"fused 12,16,2,8,\": it must be MQ,VEC,NV,TB"},
        {"4294967308,16,2,8", "it is \"4294967308,16,2,8\": it must be MQ,VEC,NV,TB"},
        {"decode 5", "it: VEC is 5: it must be 4, 8 or 16"},
        {"33,16,2,8", "it: MQ is 33: it must be from 0 to 32"},
        {"shared 8,16,4",
         "it is \"shared 8,16,4\": it must be shared LR,LC,MQ,NK,DC,KC,QUERY,SUBGROUP"},
        {"shared 3,16,4,4,16,1,0,0", "it: LR is 3: it must be a power of two from 1 to 64"},
        {"shared 8,2,4,4,16,1,0,0", "it: LC is 2: it must be a power of two from 4 to 64"},
        {"shared 8,16,0,4,16,1,0,0", "it: MQ is 0: it must be from 1 to 16"},
        {"shared 8,16,4,6,16,1,0,0", "it: NK is 6: it must be 4 or 8"},
        {"shared 8,16,4,4,20,1,0,0", "it: DC is 20: it must be 16, 32 or 64"},
        {"shared 8,16,4,4,16,8,0,0", "it: KC is 8: it must be a power of two, at most NK"},
        {"shared 8,32,4,4,16,4,0,0", "it: LC * KC is 128: it must be at most 64"},
        {"shared 8,16,16,8,16,1,0,0", "it: MQ * NK is 128: it must be at most 64"},
        {"shared 8,16,4,4,16,1,2,0", "it: QUERY is 2: it must be 0 or 1"},
        {"shared 8,16,4,4,16,1,0,7", "it: SUBGROUP is 7: it must be 0 or 1"},
        {"rows 1,8", "it is \"rows 1,8\": it must be rows MQ,NK,NC"},
        {"rows 5,8,32", "it: MQ is 5: it must be from 1 to 4"},
        {"rows 1,5,32", "it: NK is 5: it must be 4, 8 or 16"},
        {"rows 1,8,6", "it: NC is 6: it must be a multiple of 4 from 4 to 64"},
        {"", "it is \"\": it must be MQ,VEC,NV,TB"},
    };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        struct mha_shape shape;
        ck_assert_int_eq(mha_shape_parse("it", cases[n].text, &shape), GPU_MHA_INVALID);
        ck_assert_str_eq(gpu_mha_last_error(), cases[n].sentence);
    }
}
END_TEST

/* A GPU with room for everything. */
static struct mha_device gpu(enum mha_vendor vendor)
{
    return (struct mha_device){.type = CL_DEVICE_TYPE_GPU,
                               .vendor = vendor,
                               .compute_units = 8,
                               .native_vector_width_float = 1,
                               .local_bytes = 48 * 1024,
                               .max_work_group_size = 1024,
                               .max_work_items_0 = 1024};
}

static struct mha_problem problem_of(int64_t H, int64_t HKV, int64_t NQ, int64_t D)
{
    const gpu_mha_desc desc = {.B = 1, .H = H, .HKV = HKV, .NQ = NQ, .NK = 512, .DK = D, .DV = D};
    struct mha_problem problem;
    ASSERT_OK(mha_problem_read(&desc, &problem));
    return problem;
}

/* Enough heads for every core, each small enough for a cache; few rows in tiles that they fill. */
START_TEST(short_sequences_get_a_work_item_for_each_head)
{
    static const struct {
        cl_uint cores;
        int64_t B, HKV, NQ, NK, D;
        const char *shape, *key;
    } cases[] = {
        {2, 8, 12, 128, 128, 64, "heads 8,16,1,16", "short dk64 dv64 f32"},
        {2, 32, 12, 32, 32, 32, "heads 8,16,1,16", "short dk32 dv32 f32"},
        {2, 2, 4, 130, 256, 64, "heads 12,16,1,16", "short dk64 dv64 f32"},
        {2, 1, 7, 128, 128, 64, "fused 12,16,1,16", "prefill dk64 dv64 f32"},
        {2, 2, 4, 130, 257, 64, "fused 12,16,1,16", "prefill dk64 dv64 f32"},
        {25, 8, 12, 128, 128, 64, "fused 12,16,1,16", "short dk64 dv64 f32"},
        {2, 8, 12, 4, 128, 64, "decode 16", "decode dk64 dv64 f32"},
    };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        const struct mha_device device = {.type = CL_DEVICE_TYPE_CPU,
                                          .compute_units = cases[n].cores,
                                          .native_vector_width_float = 16};
        const gpu_mha_desc desc = {.B = cases[n].B,
                                   .H = cases[n].HKV,
                                   .HKV = cases[n].HKV,
                                   .NQ = cases[n].NQ,
                                   .NK = cases[n].NK,
                                   .DK = cases[n].D,
                                   .DV = cases[n].D};
        struct mha_problem problem;
        struct mha_shape shape;
        char text[MHA_SHAPE_TEXT], key[MHA_SHAPE_TEXT];
        ASSERT_OK(mha_problem_read(&desc, &problem));
        mha_shape_default(&problem, &device, &shape);
        mha_shape_text(&shape, text, sizeof text);
        mha_shape_key(&problem, key, sizeof key);
        ck_assert_str_eq(text, cases[n].shape);
        ck_assert_str_eq(key, cases[n].key);
    }
}
END_TEST

START_TEST(every_device_has_a_default_that_fits_its_limits)
{
    static const size_t local[] = {0, 2048, 16384, 32768, 65536}, groups[] = {1, 64, 128, 256};
    static const int64_t sizes[] = {1, 64, 80, 128, 256, 600}, queries[] = {1, 40, 1000};
    for (int vendor = MHA_VENDOR_OTHER; vendor <= MHA_VENDOR_MALI; vendor++) {
        for (int n = 0; n < 5 * 4 * 6 * 3; n++) {
            struct mha_device device = gpu((enum mha_vendor)vendor);
            const struct mha_problem problem =
                problem_of(8, 2, queries[n / 120], sizes[n / 20 % 6]);
            struct mha_shape shape, list[32];
            char reason[160], first[MHA_SHAPE_TEXT], text[MHA_SHAPE_TEXT];
            device.local_bytes = local[n % 5];
            device.max_work_group_size = groups[n / 5 % 4];
            mha_shape_default(&problem, &device, &shape);
            ck_assert_msg(mha_shape_fits(&problem, &device, &shape, reason, sizeof reason), "%s",
                          reason);
            const int count = mha_shape_candidates(&problem, &device, list, 32);
            ck_assert_int_gt(count, 0);
            mha_shape_text(&shape, text, sizeof text);
            mha_shape_text(&list[0], first, sizeof first);
            ck_assert_str_eq(first, text);
            for (int c = 1; c < count; c++) {
                mha_shape_text(&list[c], text, sizeof text);
                ck_assert_str_ne(first, text);
                ck_assert_msg(mha_shape_fits(&problem, &device, &list[c], reason, sizeof reason),
                              "%s: %s", text, reason);
            }
        }
    }
}
END_TEST

START_TEST(a_device_gets_the_kernels_made_for_it)
{
    const struct mha_problem prefill = problem_of(8, 8, 1000, 64), step = problem_of(8, 2, 1, 64);
    const struct mha_problem wide = problem_of(8, 8, 1000, 256);
    struct mha_device device = gpu(MHA_VENDOR_NVIDIA);
    struct mha_shape shape;

    mha_shape_default(&prefill, &device, &shape);
    ck_assert_int_eq(shape.path, MHA_PATH_SHARED);
    ck_assert_int_eq(mha_shape_rows(&shape), 64);
    mha_shape_default(&step, &device, &shape); /* 4 rows share each key */
    ck_assert_int_eq(shape.path, MHA_PATH_SHARED);
    ck_assert_int_eq(mha_shape_rows(&shape), 4);

    device = gpu(MHA_VENDOR_AMD);
    device.lanes = 64;
    mha_shape_default(&prefill, &device, &shape);
    ck_assert_int_eq(shape.shared.LR * shape.shared.LC, 256);
    mha_shape_default(&wide, &device, &shape);
    ck_assert_int_eq(shape.shared.MQ, 2);
    device.lanes = 32; /* a lane has half the registers */
    mha_shape_default(&wide, &device, &shape);
    ck_assert_int_eq(shape.shared.MQ, 1);

    device = gpu(MHA_VENDOR_INTEL);
    mha_shape_default(&prefill, &device, &shape);
    ck_assert_int_eq(shape.shared.sub_group, 0);
    device.sub_groups = MHA_SUB_GROUPS_ASKED;
    device.lanes = 8;
    mha_shape_default(&prefill, &device, &shape);
    ck_assert_int_eq(shape.shared.sub_group, 1);
    ck_assert_int_eq(shape.shared.LC, 8);
    device.lanes = 16; /* the smallest that may be asked for */
    mha_shape_default(&prefill, &device, &shape);
    ck_assert_int_eq(shape.shared.sub_group, 1);
    ck_assert_int_eq(shape.shared.LC, 16);

    device = gpu(MHA_VENDOR_MALI);
    device.local_is_global = 1;
    mha_shape_default(&prefill, &device, &shape);
    ck_assert_int_eq(shape.path, MHA_PATH_ROWS);

    device = gpu(MHA_VENDOR_OTHER);
    device.local_bytes = 1024;
    mha_shape_default(&prefill, &device, &shape);
    ck_assert_int_eq(shape.path, MHA_PATH_FUSED);
    device.type = CL_DEVICE_TYPE_CPU;
    device.local_bytes = 65536;
    mha_shape_default(&step, &device, &shape); /* without vectors nothing large is built */
    ck_assert_int_eq(shape.path, MHA_PATH_FUSED);
    ck_assert_int_eq(shape.tile.MQ, 1);
    device.native_vector_width_float = 8;
    mha_shape_default(&prefill, &device, &shape);
    ck_assert_int_eq(shape.path, MHA_PATH_FUSED);
    mha_shape_default(&step, &device, &shape);
    ck_assert_int_eq(shape.path, MHA_PATH_DECODE);
}
END_TEST

/* Down to the tile kernels, and each step with fewer work-items. */
START_TEST(smaller_shapes_end)
{
    const struct mha_device device = gpu(MHA_VENDOR_OTHER);
    const struct mha_problem problem = problem_of(2, 2, 1000, 64);
    struct mha_shape shape;
    mha_shape_default(&problem, &device, &shape);
    int lanes = 1 << 20, steps = 0;
    for (; shape.path == MHA_PATH_SHARED; steps++) {
        ck_assert_int_lt(shape.shared.LR * shape.shared.LC, lanes);
        lanes = shape.shared.LR * shape.shared.LC;
        mha_shape_smaller(&problem, &device, &shape);
    }
    ck_assert_int_gt(steps, 2);
    ck_assert_int_eq(shape.path, MHA_PATH_FUSED);
}
END_TEST

START_TEST(keys_tell_kinds_of_problems_apart)
{
    char key[MHA_SHAPE_TEXT];
    struct mha_problem problem = problem_of(4, 2, 1000, 80);
    mha_shape_key(&problem, key, sizeof key);
    ck_assert_str_eq(key, "prefill dk128 dv128 f32");
    problem = problem_of(4, 2, 1, 64);
    problem.key.type = GPU_MHA_BF16;
    mha_shape_key(&problem, key, sizeof key);
    ck_assert_str_eq(key, "decode dk64 dv64 bf16");
    problem = problem_of(4, 2, 17, 3);
    mha_shape_key(&problem, key, sizeof key);
    ck_assert_str_eq(key, "few dk16 dv16 f32");
}
END_TEST

/* ---- on the default device ---- */

static const gpu_mha_desc small = {
    .B = 1, .H = 2, .HKV = 1, .NQ = 3, .NK = 20, .DK = 8, .DV = 5, .method = GPU_MHA_FUSED};

static struct mha_attention *make(const char *environment, const char *wanted)
{
    struct mha_attention *attention = NULL;
    struct mha_shape shape;
    attention_use_tile(environment);
    if (wanted) {
        ASSERT_OK(mha_shape_parse("wanted", wanted, &shape));
    }
    ASSERT_OK(mha_attention_create(attention_context, &small, wanted ? &shape : NULL, &attention));
    return attention;
}

START_TEST(the_environment_comes_before_a_wanted_shape)
{
    static const struct {
        const char *environment, *wanted, *text;
    } cases[] = {
        {NULL, "rows 1,4,8", "rows 1x4"},
        {"rows 2,4,8", "rows 1,4,8", "rows 2x4"},
        /* 128 MiB of local memory: it does not fit, and the next in turn is taken. */
        {"shared 64,4,16,4,64,1,1,0", "rows 1,4,8", "rows 1x4"},
    };
    attention_context->device.local_bytes = 16384;
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        char text[64];
        struct mha_attention *attention = make(cases[n].environment, cases[n].wanted);
        mha_attention_text(attention, text, sizeof text);
        ck_assert_str_eq(text, cases[n].text);
        mha_attention_destroy(attention);
    }
    attention_use_tile(NULL);
}
END_TEST

/* The default device has no such extension: the build with sub-groups fails. */
START_TEST(a_shape_that_does_not_build_gives_way)
{
    char text[MHA_SHAPE_TEXT];
    setenv("GPU_MHA_LOG", "off", 1);
    attention_context->device.sub_groups = MHA_SUB_GROUPS_ASKED;
    struct mha_attention *attention = make(NULL, "shared 1,8,1,4,16,4,1,1");
    mha_shape_text(&attention->variant.shape, text, sizeof text);
    ck_assert_str_eq(text, "shared 1,8,1,4,16,4,1,0");
    mha_attention_destroy(attention);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shape");
    TCase *data = tcase_create("data"), *kernels = tcase_create("kernels");
    SRunner *runner = srunner_create(suite);

    tcase_add_test(data, text_and_shape_are_the_same);
    tcase_add_test(data, what_is_no_shape_is_refused_with_a_sentence);
    tcase_add_test(data, short_sequences_get_a_work_item_for_each_head);
    tcase_add_test(data, every_device_has_a_default_that_fits_its_limits);
    tcase_add_test(data, a_device_gets_the_kernels_made_for_it);
    tcase_add_test(data, smaller_shapes_end);
    tcase_add_test(data, keys_tell_kinds_of_problems_apart);
    suite_add_tcase(suite, data);
    tcase_set_timeout(kernels, 120);
    tcase_add_checked_fixture(kernels, attention_open, attention_close);
    tcase_add_test(kernels, the_environment_comes_before_a_wanted_shape);
    tcase_add_test(kernels, a_shape_that_does_not_build_gives_way);
    suite_add_tcase(suite, kernels);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
