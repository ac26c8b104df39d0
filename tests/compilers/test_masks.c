/*
 * test_masks.c - what is decided at run time, in every kernel, so that a compiler can be caught at
 * it: a launch has the same build whatever is masked, and branches of rows and tiles stand around
 * barriers. A work-group method that takes a branch for uniform, or a lane's value for another's,
 * shows here.
 *
 * A test case per kernel (CK_RUN_CASE takes one, `--list` names them), each with one shape and one
 * build: the shape that a driver can compile soonest, and problems small enough for Oclgrind. The
 * plan must have the shape that was asked for: what another kernel computes is not the point.
 * Exit code 77: the device has the sub-groups of none of those that were to run.
 *
 * MHA_TEST_PROBLEM=N runs problem N alone. MHA_TEST_DIGESTS=FILE adds a line to the file for each
 * problem, with a digest of every output: two compilers that are one and the same, driven
 * differently, must give the same lines.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "attention/attention.h"
#include "harness/assertions.h"
#include "harness/attention_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct family {
    const char *name, *tile;
    gpu_mha_method method;
    int64_t NQ, NK;
    int splits;    /* the keys of a row are to be split, and the parts merged */
    int sub_group; /* lanes of the sub-groups that it takes */
};

static const struct family families[] = {
    {"fused", "fused 2,4,1,2", GPU_MHA_FUSED, 5, 21, 0, 0},
    {"staged", "fused 2,4,1,2", GPU_MHA_STAGED, 5, 21, 0, 0},
    {"decode", "decode 4", GPU_MHA_FUSED, 2, 21, 0, 0},
    {"heads", "heads 2,4,1,2", GPU_MHA_FUSED, 5, 21, 0, 0},
    {"rows", "rows 1,4,4", GPU_MHA_FUSED, 5, 21, 0, 0},
    {"shared", "shared 2,4,1,4,16,1,0,0", GPU_MHA_FUSED, 5, 39, 0, 0},
    {"shared_query", "shared 1,4,2,4,16,4,1,0", GPU_MHA_FUSED, 5, 39, 0, 0},
    {"merge", "fused 1,4,1,1", GPU_MHA_FUSED, 1, 131, 1, 0},
    {"shared_merge", "shared 1,4,1,4,16,2,0,0", GPU_MHA_FUSED, 1, 131, 1, 0},
    {"sub_group_8", "shared 2,8,1,4,16,1,0,1", GPU_MHA_FUSED, 5, 71, 0, 8},
    {"sub_group_16", "shared 4,16,2,4,16,2,1,1", GPU_MHA_FUSED, 5, 71, 0, 16},
    {"sub_group_32", "shared 2,32,1,8,16,2,0,1", GPU_MHA_FUSED, 5, 300, 0, 32},
};
enum { FAMILIES = (int)(sizeof families / sizeof families[0]) };

static struct attention_spec problem_of(const struct family *family, int n)
{
    struct attention_spec spec = {.desc = {.B = 2,
                                           .H = 2,
                                           .HKV = 1,
                                           .NQ = family->NQ,
                                           .NK = family->NK,
                                           .DK = 5,
                                           .DV = 3,
                                           .lse = 1,
                                           .method = family->method},
                                  .tile = family->tile,
                                  .seed = 70 + (uint64_t)n,
                                  .key = ATTENTION_PADDED,
                                  .value = ATTENTION_BNHD,
                                  .output = ATTENTION_PADDED_BNHD};
    if (family->splits) {
        spec.desc.B = spec.desc.H = 1;
    }
    return spec;
}

/* What geometry alone hides. */
static void geometry(gpu_mha_desc *d, int n)
{
    d->causal = n < 4;
    switch (n) {
    case 0: /* offset 0: later rows see more keys */
        break;
    case 1:
        d->offset_kind = GPU_MHA_BOTTOM_RIGHT;
        d->NP = 6;
        break;
    case 2: /* leading rows see nothing */
        d->offset_kind = GPU_MHA_OFFSET;
        d->offset = -2;
        break;
    case 3:
        d->offset_kind = GPU_MHA_BOTTOM_RIGHT;
        d->key_lengths = GPU_MHA_I32;
        break;
    case 4:
        d->has_window = 1;
        d->window_left = 2;
        d->window_right = 3;
        d->offset_kind = GPU_MHA_OFFSET;
        d->offset = 9;
        break;
    default:
        d->key_lengths = GPU_MHA_I64;
        d->has_window = 1;
        d->window_left = -1;
        d->window_right = 11;
        break;
    }
}
enum { GEOMETRIES = 6 };

/* What arrays hide, up to whole tiles of keys. */
static void arrays(struct attention_spec *spec, int n)
{
    gpu_mha_desc *d = &spec->desc;
    if (n < 4) {
        static const struct attention_mask masks[] = {
            {0xF, 1, 0.4}, {0x8, 0, 0.9}, {0x6, 1, 0.5}, {0xC, 0, 0.97}};
        d->mask.type = GPU_MHA_MASK_BOOL;
        spec->mask = masks[n];
        d->causal = n == 2;
        return;
    }
    static const struct attention_mask biases[] = {{0xF, 0, 0.4}, {0xA, 1, 0.2}, {0x9, 0, 0.9}};
    d->bias.type = (gpu_mha_mask_type)(GPU_MHA_MASK_F32 + (n - 4));
    spec->bias = biases[n - 4];
    if (n == 6) {
        d->mask.type = GPU_MHA_MASK_BOOL;
        spec->mask = (struct attention_mask){0xC, 1, 0.3};
        d->key_lengths = GPU_MHA_I32;
    }
}
enum { ARRAYS = 7 };

/* What is done with scores and weights. */
static void scores(struct attention_spec *spec, int n)
{
    gpu_mha_desc *d = &spec->desc;
    switch (n) {
    case 0:
        d->alibi = GPU_MHA_ALIBI_SLOPES;
        d->softcap = 2.0f;
        break;
    case 1:
        d->alibi = GPU_MHA_ALIBI_AUTO;
        d->sinks = 1;
        d->causal = 1;
        break;
    case 2:
        d->dropout = 0.4f;
        d->dropout_seed = 8;
        break;
    case 3:
        spec->fill = ATTENTION_SPECIAL;
        d->causal = 1;
        break;
    case 4:
        spec->fill = ATTENTION_GROWING;
        d->has_scale = 1;
        d->scale = -0.7f;
        break;
    case 5:
        d->query.type = d->output.type = GPU_MHA_F16;
        d->causal = 1;
        break;
    default: /* everything at once */
        geometry(d, 3);
        arrays(spec, 6);
        d->softcap = 1.5f;
        d->alibi = GPU_MHA_ALIBI_SLOPES;
        d->sinks = 1;
        d->dropout = 0.2f;
        d->has_window = 1;
        d->window_left = 17;
        d->window_right = 2;
        break;
    }
}
enum { SCORES = 7, PROBLEMS = 1 + GEOMETRIES + ARRAYS + SCORES };

static struct attention_spec problem(const struct family *family, int n)
{
    struct attention_spec spec = problem_of(family, n);
    if (n > 0 && n <= GEOMETRIES) {
        geometry(&spec.desc, n - 1);
    } else if (n > GEOMETRIES && n <= GEOMETRIES + ARRAYS) {
        arrays(&spec, n - 1 - GEOMETRIES);
    } else if (n > 0) {
        scores(&spec, n - 1 - GEOMETRIES - ARRAYS);
    }
    if (family->method == GPU_MHA_STAGED) {
        spec.desc.weights = (gpu_mha_weights)(n % 3);
        spec.desc.scores = (gpu_mha_scores)(n % 5);
    }
    return spec;
}

/* The shape of the problem's plan is the one asked for, not one to which a refusal led. */
static void assert_shape(const struct attention_data *data)
{
    gpu_mha_plan *plan;
    char shape[MHA_SHAPE_TEXT];
    ck_assert_msg(gpu_mha_plan_create(attention_context, &data->desc, &plan) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    const struct mha_attention *attention = plan->state;
    mha_shape_text(&attention->variant.shape, shape, sizeof shape);
    ck_assert_str_eq(shape, data->spec.tile);
    gpu_mha_plan_release(plan);
}

/* FNV-1a over the outputs, in which any NaN is like any other. */
static uint64_t digest(const struct attention_outputs *outputs)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int a = ARRAY_INPUTS; a < ARRAY_COUNT; a++) {
        const size_t size = storage_size(outputs->types[a]);
        for (size_t i = 0; i < outputs->bytes[a] / size; i++) {
            const double x = storage_load(outputs->types[a], outputs->arrays[a], (int64_t)i);
            const uint32_t bits = storage_encode(outputs->types[a], isnan(x) ? (double)NAN : x);
            hash = (hash ^ bits) * UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

static void note_digest(const struct family *family, int n, const struct attention_data *data)
{
    const char *path = getenv("MHA_TEST_DIGESTS");
    if (!path) {
        return;
    }
    struct attention_outputs outputs;
    char error[ATTENTION_ERROR_SIZE];
    const struct attention_launch launch = {.poison = POISON_1000};
    ck_assert_msg(attention_run(attention_context, data, launch, &outputs, error) == 0, "%s",
                  error);
    FILE *file = fopen(path, "a");
    ck_assert_msg(file != NULL, "cannot write %s", path);
    fprintf(file, "%s %d %016" PRIx64 "\n", family->name, n, digest(&outputs));
    ck_assert_int_eq(fclose(file), 0);
    attention_outputs_free(&outputs);
}

static void solve(const struct family *family, int n)
{
    const struct attention_spec spec = problem(family, n);
    struct attention_data data;
    char plan[64];

    attention_use_tile(spec.tile);
    attention_data_make(&spec, &data);
    if (spec.desc.method != GPU_MHA_STAGED) {
        assert_shape(&data);
    }
    attention_check(&spec, plan);
    if (family->splits && n == 0) {
        ck_assert_msg(strstr(plan, "split") != NULL, "\"%s\" was to split the keys", plan);
    }
    note_digest(family, n, &data);
    attention_data_free(&data);
}

/* Which sub-groups a device has. */
static int has_sub_groups(int lanes)
{
    const struct mha_device *device = &attention_context->device;
    return lanes == 0 ||
           (device->sub_groups == MHA_SUB_GROUPS_ASKED && device->lanes <= (cl_uint)lanes) ||
           (device->sub_groups == MHA_SUB_GROUPS_FIXED && device->lanes == (cl_uint)lanes);
}

/* How many families could not run: tests are processes of their own. */
static int *skipped;

/* _i: the family. */
START_TEST(whatever_is_hidden_at_run_time)
{
    const struct family *family = &families[_i];
    if (!has_sub_groups(family->sub_group)) {
        printf("SKIPPED: the device promises no sub-groups of %d\n", family->sub_group);
        ++*skipped;
        return;
    }
    const char *one = getenv("MHA_TEST_PROBLEM");
    for (int n = 0; n < PROBLEMS; n++) {
        if (!one || atoi(one) == n) {
            solve(family, n);
        }
    }
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (int f = 0; f < FAMILIES; f++) {
            printf("%s\n", families[f].name);
        }
        return EXIT_SUCCESS;
    }
    skipped =
        mmap(NULL, sizeof *skipped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (skipped == MAP_FAILED) {
        perror("mmap");
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("what is hidden at run time");
    SRunner *runner = srunner_create(suite);
    for (int f = 0; f < FAMILIES; f++) {
        TCase *tcase = tcase_create(families[f].name);
        tcase_set_timeout(tcase, 600);
        tcase_add_checked_fixture(tcase, attention_open, attention_close);
        tcase_add_loop_test(tcase, whatever_is_hidden_at_run_time, f, f + 1);
        suite_add_tcase(suite, tcase);
    }
    srunner_run_all(runner, CK_NORMAL);
    const int run = srunner_ntests_run(runner), failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures || run == 0 ? EXIT_FAILURE : *skipped == run ? 77 : EXIT_SUCCESS;
}
