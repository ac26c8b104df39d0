/*
 * test_tune.c - gpu_mha_tune(), gpu_mha_tune_product(), gpu_mha_choice_get(): what is measured,
 * what is kept, and who takes it. Which candidate wins is the machine's affair and never asserted.
 */
#include "attention/attention.h"
#include "attention/choice.h"
#include "attention/tune_buffers.h"
#include "blas/gemm.h"
#include "harness/assertions.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * In the test's own directory, and kept: built programs are the same for all tests, and some
 * drivers take seconds to hand out their binaries. Tuning files are not kept.
 */
static const char work[] = "cache";
static gpu_mha_context *context;

static int warnings;
static char warning[2048];

static void count_warnings(void *user, const char *level, const char *line)
{
    (void)user;
    if (strcmp(level, "warn") == 0) {
        warnings++;
        snprintf(warning, sizeof warning, "%s", line);
    }
}

static gpu_mha_context *open_context(void)
{
    gpu_mha_context *opened = NULL;
    ck_assert_msg(gpu_mha_context_create(NULL, &opened) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    return opened;
}

static void remove_tuning_files(void)
{
    DIR *stream = opendir(work);
    ck_assert_ptr_nonnull(stream);
    for (const struct dirent *entry; (entry = readdir(stream));) {
        if (strstr(entry->d_name, ".tuning")) {
            unlinkat(dirfd(stream), entry->d_name, 0);
        }
    }
    closedir(stream);
}

static void set_up(void)
{
    unsetenv("GPU_MHA_LOG");
    unsetenv("GPU_MHA_TILE");
    mkdir(work, 0700);
    remove_tuning_files();
    ck_assert_int_eq(setenv("GPU_MHA_CACHE_DIR", work, 1), 0);
    warnings = 0;
    gpu_mha_set_log(count_warnings, NULL);
    context = open_context();
}

static void tear_down(void)
{
    gpu_mha_context_release(context);
    gpu_mha_set_log(NULL, NULL);
    remove_tuning_files();
}

static const gpu_mha_desc small = {
    .B = 1, .H = 2, .HKV = 2, .NQ = 70, .NK = 75, .DK = 20, .DV = 12};
static const gpu_mha_tune_options quick = {.seconds = 1e-3};

/* A shape that no default has, but every device can run. */
static const char other_shape[] = "fused 2,4,1,8";
static const char other_plan[] = "fused 2x4";

/* What a plan for the problem says of itself. */
static const char *plan_text(gpu_mha_context *of, const gpu_mha_desc *desc)
{
    static char text[160];
    gpu_mha_plan *plan = NULL;
    ck_assert_msg(gpu_mha_plan_create(of, desc, &plan) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    snprintf(text, sizeof text, "%s", gpu_mha_plan_text(plan));
    gpu_mha_plan_release(plan);
    return text;
}

static void assert_plan(gpu_mha_context *of, const gpu_mha_desc *desc, const char *opening)
{
    const char *text = plan_text(of, desc);
    ck_assert_msg(strncmp(text, opening, strlen(opening)) == 0, "the plan is \"%s\", want \"%s\"",
                  text, opening);
}

static gpu_mha_choice choice_of(gpu_mha_context *of, const gpu_mha_desc *desc)
{
    gpu_mha_choice choice = {.struct_size = sizeof choice};
    ck_assert_msg(gpu_mha_choice_get(of, desc, &choice) == GPU_MHA_OK, "%s", gpu_mha_last_error());
    return choice;
}

/* As if `value` had won. */
static void keep(const gpu_mha_desc *desc, const char *value)
{
    struct mha_problem problem;
    struct mha_tuned_entry entry = {.nanoseconds = 1234567};
    ck_assert_int_eq(mha_problem_read(desc, &problem), GPU_MHA_OK);
    mha_choice_key(&problem, &context->device, entry.key);
    snprintf(entry.value, sizeof entry.value, "%s", value);
    ck_assert(mha_tuned_put(context->tuned, &entry));
}

/* ---- who takes what was kept ---- */

START_TEST(a_kept_shape_is_taken_here_and_by_the_next_context)
{
    char before[160];
    snprintf(before, sizeof before, "%s", plan_text(context, &small));
    ck_assert_str_ne(before, other_plan);
    ck_assert_int_eq(choice_of(context, &small).source, GPU_MHA_CHOICE_DEFAULT);
    keep(&small, other_shape);
    gpu_mha_context *next = open_context();
    gpu_mha_context *const both[] = {context, next};
    for (int c = 0; c < 2; c++) {
        assert_plan(both[c], &small, other_plan);
        const gpu_mha_choice choice = choice_of(both[c], &small);
        ck_assert_int_eq(choice.source, GPU_MHA_CHOICE_TUNED);
        ck_assert_str_eq(choice.text, other_shape);
        ck_assert_str_eq(choice.kind, "prefill dk32 dv16 f32");
        ck_assert_double_eq_tol(choice.median_ms, 1.234567, 1e-9);
        ck_assert_str_eq(gpu_mha_tuning_file(both[c]), gpu_mha_tuning_file(context));
    }
    gpu_mha_context_release(next);
    ck_assert_int_eq(access(gpu_mha_tuning_file(context), R_OK), 0);
    ck_assert_int_eq(warnings, 0);
}
END_TEST

/*
 * Other head sizes and storage are other kinds, so are problems for which the tables have another
 * shape (on a CPU, many heads of few keys), and staged problems have no choice.
 */
START_TEST(other_kinds_keep_their_default)
{
    gpu_mha_desc wide = small, half = small, staged = small, many = small, like = small;
    wide.DK = 65;
    half.key.type = half.value.type = GPU_MHA_F16;
    staged.method = GPU_MHA_STAGED;
    many.B = 20 * context->device.compute_units;
    like.B = 3;
    like.NQ = 64;
    like.causal = 1;
    const gpu_mha_choice before_many = choice_of(context, &many);
    keep(&small, other_shape);
    ck_assert_int_eq(choice_of(context, &wide).source, GPU_MHA_CHOICE_DEFAULT);
    ck_assert_int_eq(choice_of(context, &half).source, GPU_MHA_CHOICE_DEFAULT);
    if (strncmp(before_many.text, "heads ", 6) == 0) {
        ck_assert_int_eq(choice_of(context, &many).source, GPU_MHA_CHOICE_DEFAULT);
    }
    ck_assert_str_eq(choice_of(context, &staged).text, "staged");
    ck_assert_int_eq(choice_of(context, &like).source, GPU_MHA_CHOICE_TUNED);
    assert_plan(context, &staged, "staged");
    assert_plan(context, &like, other_plan);
}
END_TEST

START_TEST(the_environment_overrides)
{
    keep(&small, other_shape);
    ck_assert_int_eq(setenv("GPU_MHA_TILE", "1,8,1,4", 1), 0);
    assert_plan(context, &small, "fused 1x8");
    const gpu_mha_choice choice = choice_of(context, &small);
    ck_assert_int_eq(choice.source, GPU_MHA_CHOICE_ENVIRONMENT);
    ck_assert_str_eq(choice.text, "fused 1,8,1,4");
    ck_assert_int_eq(gpu_mha_tune(context, &small, &quick, NULL), GPU_MHA_INVALID);
    ck_assert_ptr_nonnull(strstr(gpu_mha_last_error(), "GPU_MHA_TILE"));
    ck_assert_int_eq(gpu_mha_tune_product(context, 3, 4, 5, &quick, NULL), GPU_MHA_INVALID);
    ck_assert_ptr_nonnull(strstr(gpu_mha_last_error(), "GPU_MHA_TILE"));
    unsetenv("GPU_MHA_TILE");
    assert_plan(context, &small, other_plan);
}
END_TEST

START_TEST(an_entry_that_is_no_shape_is_told_once)
{
    static const char *const bad[] = {"frobnicate", "fused 99,4,1,8", "shared 3,4,1,8,16,1,0,0"};
    char before[160];
    snprintf(before, sizeof before, "%s", plan_text(context, &small));
    keep(&small, bad[_i]);
    gpu_mha_context *next = open_context();
    mha_error_set(GPU_MHA_INVALID, "as before");
    for (int repeat = 0; repeat < 2; repeat++) {
        assert_plan(next, &small, before);
        ck_assert_int_eq(warnings, 1);
    }
    ck_assert_ptr_nonnull(strstr(warning, bad[_i]));
    ck_assert_ptr_nonnull(strstr(warning, gpu_mha_tuning_file(context)));
    ck_assert_str_eq(gpu_mha_last_error(), "as before");
    ck_assert_int_eq(choice_of(next, &small).source, GPU_MHA_CHOICE_DEFAULT);
    gpu_mha_context_release(next);
}
END_TEST

/* The fused kernel needs a workspace, which this device cannot have; the decode kernel none. */
START_TEST(a_shape_that_cannot_be_made_gives_way_to_the_default)
{
    const gpu_mha_desc decode = {.B = 1, .H = 2, .HKV = 2, .NQ = 1, .NK = 9, .DK = 20, .DV = 12};
    if (!(context->device.type & CL_DEVICE_TYPE_CPU)) {
        return; /* the default is another */
    }
    keep(&decode, other_shape);
    assert_plan(context, &decode, "fused");
    context->device.max_alloc_bytes = 64;
    mha_error_set(GPU_MHA_INVALID, "as before");
    assert_plan(context, &decode, "decode");
    ck_assert_int_eq(warnings, 0);
    ck_assert_str_eq(gpu_mha_last_error(), "as before");
}
END_TEST

START_TEST(a_damaged_file_is_told_and_does_without)
{
    char before[160];
    snprintf(before, sizeof before, "%s", plan_text(context, &small));
    keep(&small, other_shape);
    FILE *stream = fopen(gpu_mha_tuning_file(context), "r+b");
    ck_assert_ptr_nonnull(stream);
    ck_assert_int_eq(fseek(stream, -3, SEEK_END), 0);
    fputc('x', stream);
    fclose(stream);
    gpu_mha_context *next = open_context();
    ck_assert_int_eq(warnings, 0); /* read when first needed */
    assert_plan(next, &small, before);
    assert_plan(next, &small, before);
    ck_assert_int_eq(warnings, 1);
    ck_assert_ptr_nonnull(strstr(warning, gpu_mha_tuning_file(next)));
    gpu_mha_context_release(next);
}
END_TEST

/* ---- what is measured ---- */

struct told {
    int count, built, dropped, measured, rounds;
};

static void tell(void *user, const gpu_mha_tune_progress *p)
{
    struct told *told = user;
    ck_assert_int_ge(p->index, 0);
    ck_assert_int_lt(p->index, p->count);
    told->count = p->count;
    told->built += p->state == GPU_MHA_TUNE_BUILDING;
    told->dropped += p->state == GPU_MHA_TUNE_DROPPED;
    told->measured += p->state == GPU_MHA_TUNE_MEASURED;
    told->rounds += p->state == GPU_MHA_TUNE_TIMING;
    if (p->state == GPU_MHA_TUNE_DROPPED) {
        ck_assert_str_ne(p->reason, "");
        ck_assert_msg(!strstr(p->reason, "differs"), "%s for %s: %s", p->candidate, p->kind,
                      p->reason);
    }
}

#define TYPE(t)                                                                                    \
    .query = {.type = t}, .key = {.type = t}, .value = {.type = t}, .output = {.type = t}

/* Each kind of input and output once. Head sizes are the same all over: kernels build once. */
static const gpu_mha_desc problems[] = {
    {.B = 1, .H = 2, .HKV = 1, .NQ = 66, .NK = 75, .DK = 20, .DV = 12, .lse = 1},
    {.B = 2,
     .H = 4,
     .HKV = 2,
     .NQ = 1,
     .NK = 150,
     .DK = 20,
     .DV = 12,
     TYPE(GPU_MHA_F16),
     .key_lengths = GPU_MHA_I32},
    {.B = 2,
     .H = 2,
     .HKV = 2,
     .NQ = 20,
     .NK = 33,
     .NP = 31,
     .DK = 20,
     .DV = 12,
     TYPE(GPU_MHA_BF16),
     .past_key = {.type = GPU_MHA_BF16},
     .past_value = {.type = GPU_MHA_F16},
     .mask = {.type = GPU_MHA_MASK_BOOL, .shape = {1, 1, 0, 0}},
     .bias = {.type = GPU_MHA_MASK_F16, .shape = {1, 0, 1, 0}},
     .key_lengths = GPU_MHA_I64},
    {.B = 1,
     .H = 3,
     .HKV = 3,
     .NQ = 64,
     .NK = 64,
     .DK = 20,
     .DV = 12,
     .causal = 1,
     .has_window = 1,
     .window_left = 20,
     .window_right = -1,
     .alibi = GPU_MHA_ALIBI_SLOPES,
     .sinks = 1,
     .softcap = 5,
     .dropout = 0.25f,
     .dropout_seed = 7,
     .output = {.layout = GPU_MHA_STRIDED, .stride_b = 9000, .stride_h = 20, .stride_n = 61},
     .key = {.layout = GPU_MHA_STRIDED, .stride_h = 0, .stride_n = 21}},
};
enum { PROBLEMS = sizeof problems / sizeof problems[0] };

START_TEST(every_candidate_is_measured_and_the_winner_taken)
{
    struct told told = {0};
    const gpu_mha_tune_options options = {
        .struct_size = sizeof options, .seconds = 1e-3, .progress = tell, .user = &told};
    gpu_mha_tune_result result = {.struct_size = sizeof result};
    const gpu_mha_choice before = choice_of(context, &problems[_i]);
    gpu_mha_plan *plan = NULL;
    ck_assert_int_eq(gpu_mha_plan_create(context, &problems[_i], &plan), GPU_MHA_OK);
    char old_text[160];
    snprintf(old_text, sizeof old_text, "%s", gpu_mha_plan_text(plan));

    ck_assert_msg(gpu_mha_tune(context, &problems[_i], &options, &result) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    ck_assert_int_ge(told.count, 2);
    ck_assert_int_eq(told.built, told.count);
    ck_assert_int_eq(told.dropped + told.measured, told.count);
    ck_assert_int_ge(told.rounds, 3);
    ck_assert_int_eq(result.count, told.count);
    ck_assert_int_eq(result.dropped, told.dropped);
    ck_assert_int_eq(result.kept, 1);
    ck_assert_uint_eq(result.struct_size, sizeof result);
    ck_assert(result.winner_ms > 0 && result.winner_ms <= result.default_ms);
    ck_assert_str_eq(result.kind, before.kind);

    /* The plan that was there keeps its shape; the next one has what GPU_MHA_TILE gives too. */
    ck_assert_str_eq(gpu_mha_plan_text(plan), old_text);
    gpu_mha_plan_release(plan);
    gpu_mha_context *next = open_context();
    char tuned[160];
    snprintf(tuned, sizeof tuned, "%s", plan_text(context, &problems[_i]));
    ck_assert_str_eq(plan_text(next, &problems[_i]), tuned);
    ck_assert_int_eq(choice_of(next, &problems[_i]).source, GPU_MHA_CHOICE_TUNED);
    ck_assert_int_eq(setenv("GPU_MHA_TILE", result.winner, 1), 0);
    ck_assert_str_eq(plan_text(next, &problems[_i]), tuned);
    unsetenv("GPU_MHA_TILE");
    gpu_mha_context_release(next);
    ck_assert_int_eq(warnings, 0);
}
END_TEST

START_TEST(a_dry_run_changes_nothing)
{
    const gpu_mha_tune_options dry = {.seconds = 1e-3, .dry_run = 1};
    gpu_mha_tune_result result = {.struct_size = 0};
    ck_assert_int_eq(gpu_mha_tune(context, &small, &dry, &result), GPU_MHA_OK);
    ck_assert_int_eq(result.kept, 0);
    ck_assert_str_ne(result.winner, "");
    ck_assert_int_eq(choice_of(context, &small).source, GPU_MHA_CHOICE_DEFAULT);
    ck_assert_int_ne(access(gpu_mha_tuning_file(context), F_OK), 0);
}
END_TEST

START_TEST(with_caching_off_it_holds_for_the_context)
{
    ck_assert_int_eq(setenv("GPU_MHA_CACHE_DIR", "off", 1), 0);
    gpu_mha_context *off = open_context(), *next = open_context();
    gpu_mha_tune_result result = {.struct_size = sizeof result};
    ck_assert_str_eq(gpu_mha_tuning_file(off), "");
    ck_assert_int_eq(gpu_mha_tune(off, &small, &quick, &result), GPU_MHA_OK);
    ck_assert_int_eq(result.kept, 0);
    ck_assert_int_eq(warnings, 1);
    ck_assert_ptr_nonnull(strstr(warning, "caching is off"));
    ck_assert_int_eq(choice_of(off, &small).source, GPU_MHA_CHOICE_TUNED);
    ck_assert_int_eq(choice_of(next, &small).source, GPU_MHA_CHOICE_DEFAULT);
    gpu_mha_context_release(off);
    gpu_mha_context_release(next);
}
END_TEST

struct plan_maker {
    atomic_int stop;
    int made;
};

static void *make_plans(void *memory)
{
    struct plan_maker *maker = memory;
    gpu_mha_choice choice = {.struct_size = sizeof choice};
    do {
        gpu_mha_plan *plan = NULL;
        if (gpu_mha_plan_create(context, &small, &plan) != GPU_MHA_OK ||
            gpu_mha_choice_get(context, &small, &choice) != GPU_MHA_OK) {
            return memory;
        }
        gpu_mha_plan_release(plan);
        maker->made++;
    } while (!atomic_load(&maker->stop));
    return NULL;
}

START_TEST(plans_are_made_while_another_thread_tunes)
{
    struct plan_maker maker = {.made = 0};
    pthread_t thread;
    void *failed = NULL;
    ck_assert_int_eq(pthread_create(&thread, NULL, make_plans, &maker), 0);
    ck_assert_int_eq(gpu_mha_tune(context, &small, &quick, NULL), GPU_MHA_OK);
    atomic_store(&maker.stop, 1);
    ck_assert_int_eq(pthread_join(thread, &failed), 0);
    ck_assert_ptr_null(failed);
    ck_assert_int_ge(maker.made, 1);
    ck_assert_int_eq(choice_of(context, &small).source, GPU_MHA_CHOICE_TUNED);
}
END_TEST

/* A mean of ones is 1, before and after; what was made ready for the call is made anew. */
START_TEST(blocking_calls_take_the_winner)
{
    static float query[2 * 70 * 20], key[2 * 75 * 20], value[2 * 75 * 12], output[2 * 70 * 12];
    const gpu_mha_arrays arrays = {.query = query, .key = key, .value = value, .output = output};
    for (size_t i = 0; i < sizeof value / sizeof value[0]; i++) {
        value[i] = 1;
    }
    for (int call = 0; call < 2; call++) {
        memset(output, 0xff, sizeof output);
        ck_assert_int_eq(gpu_mha(context, &small, &arrays), GPU_MHA_OK);
        for (size_t i = 0; i < sizeof output / sizeof output[0]; i++) {
            ASSERT_DOUBLE_NEAR(output[i], 1.0, 1e-6);
        }
        ck_assert_ptr_nonnull(context->recent);
        ck_assert_int_eq(gpu_mha_tune(context, &small, &quick, NULL), GPU_MHA_OK);
        ck_assert_ptr_null(context->recent);
    }
}
END_TEST

/* ---- what a wrong result is ---- */

/* One element in the last place that the bound leaves, and beyond it. */
START_TEST(a_result_that_differs_is_seen)
{
    struct mha_problem problem;
    struct mha_tune_buffers buffers;
    struct mha_attention *attention = NULL;
    gpu_mha_desc desc = problems[0];
    int agrees = 0;
    ck_assert_int_eq(mha_problem_read(&desc, &problem), GPU_MHA_OK);
    ck_assert_int_eq(mha_tune_buffers_make(context, context->queue, &problem, &buffers),
                     GPU_MHA_OK);
    ck_assert_int_ge(buffers.sets, 2);
    ck_assert_int_eq(mha_attention_create(context, &desc, NULL, &attention), GPU_MHA_OK);
    ck_assert_int_eq(mha_tune_buffers_reserve(context, &buffers, attention->workspace_bytes),
                     GPU_MHA_OK);
    const gpu_mha_buffers first = mha_tune_buffers_of(&buffers, 0);
    struct mha_chain chain;
    mha_chain_begin(&chain, context->queue, 0, NULL);
    ck_assert_int_eq(mha_chain_end(&chain, mha_attention_launch(attention, &first, &chain), NULL),
                     GPU_MHA_OK);
    ck_assert_int_eq(mha_tune_buffers_compare(&buffers, context->queue, 1, &agrees), GPU_MHA_OK);
    ck_assert_int_eq(agrees, 1);

    static const struct {
        float by;
        int is_lse, agrees;
    } changes[] = {{0, 0, 1},        {1e-7f, 0, 1}, {1e-4f, 0, 0}, {-1e-4f, 0, 0}, {NAN, 0, 0},
                   {INFINITY, 0, 0}, {0, 1, 1},     {1e-3f, 1, 0}, {NAN, 1, 0}};
    for (size_t c = 0; c < sizeof changes / sizeof changes[0]; c++) {
        cl_mem mem = changes[c].is_lse ? first.lse.mem : first.output.mem;
        const size_t at = sizeof(float) * (changes[c].is_lse ? 66 * 2 - 1 : 66 * 2 * 12 - 1);
        float old = 0;
        ck_assert_int_eq(
            clEnqueueReadBuffer(context->queue, mem, CL_TRUE, at, sizeof old, &old, 0, NULL, NULL),
            CL_SUCCESS);
        const float changed = old + changes[c].by;
        ck_assert_int_eq(clEnqueueWriteBuffer(context->queue, mem, CL_TRUE, at, sizeof changed,
                                              &changed, 0, NULL, NULL),
                         CL_SUCCESS);
        ck_assert_int_eq(mha_tune_buffers_compare(&buffers, context->queue, 0, &agrees),
                         GPU_MHA_OK);
        ck_assert_msg(agrees == changes[c].agrees, "changed by %g: agrees is %d",
                      (double)changes[c].by, agrees);
        ck_assert_int_eq(
            clEnqueueWriteBuffer(context->queue, mem, CL_TRUE, at, sizeof old, &old, 0, NULL, NULL),
            CL_SUCCESS);
    }
    mha_attention_destroy(attention);
    mha_tune_buffers_release(&buffers);
}
END_TEST

/* ---- products ---- */

START_TEST(products_are_measured_and_the_winner_taken)
{
    struct told told = {0};
    const gpu_mha_tune_options options = {
        .struct_size = sizeof options, .seconds = 1e-3, .progress = tell, .user = &told};
    gpu_mha_tune_result result = {.struct_size = sizeof result};
    struct mha_tuned_entry entry;
    ck_assert_msg(gpu_mha_tune_product(context, 37, 41, 43, &options, &result) == GPU_MHA_OK, "%s",
                  gpu_mha_last_error());
    ck_assert_int_eq(told.count, 2);
    ck_assert_int_eq(told.dropped + told.measured, 2); /* one may be far slower */
    ck_assert_str_eq(result.kind, "product");
    ck_assert_int_eq(result.kept, 1);
    gpu_mha_context *next = open_context();
    ck_assert_str_eq(mha_gemm_kind_for(next, &entry)->name, result.winner);
    const gpu_mha_choice choice = choice_of(next, NULL);
    ck_assert_int_eq(choice.source, GPU_MHA_CHOICE_TUNED);
    ck_assert_str_eq(choice.text, result.winner);
    ck_assert_str_eq(choice.kind, "product");
    gpu_mha_context_release(next);
}
END_TEST

START_TEST(a_kept_product_is_taken)
{
    static const char *const names[] = {"tile", "CLBlast", "abacus"};
    struct mha_tuned_entry entry = {.key = MHA_GEMM_KEY, .nanoseconds = 1}, found;
    const char *const by_default = mha_gemm_kind_for(context, &found)->name;
    ck_assert_str_eq(found.key, "");
    snprintf(entry.value, sizeof entry.value, "%s", names[_i]);
    ck_assert(mha_tuned_put(context->tuned, &entry));
    gpu_mha_context *next = open_context();
    ck_assert_str_eq(mha_gemm_kind_for(next, &found)->name, _i < 2 ? names[_i] : by_default);
    ck_assert_int_eq(warnings, _i == 2);
    struct mha_gemm gemm;
    const struct mha_gemm_shape shape = {3, 4, 5, 5, 5, 4};
    ck_assert_int_eq(mha_gemm_prepare(next, &shape, &gemm), GPU_MHA_OK);
    ck_assert_str_eq(gemm.kind->name, _i < 2 ? names[_i] : by_default);
    mha_gemm_destroy(&gemm);
    gpu_mha_context_release(next);
}
END_TEST

/* What CLBlast cannot count goes to the tile, the rest still to CLBlast. */
START_TEST(a_product_too_large_for_the_kept_one_gives_way)
{
    const int64_t wide = INT64_C(1) << 17;
    const struct mha_gemm_shape large = {2, wide, wide, wide, wide, wide},
                                tiny = {3, 4, 5, 5, 5, 4};
    const struct mha_tuned_entry entry = {MHA_GEMM_KEY, "CLBlast", 1};
    struct mha_gemm gemm;
    if (!(context->device.type & CL_DEVICE_TYPE_CPU)) {
        return; /* the default is CLBlast itself */
    }
    ck_assert(mha_tuned_put(context->tuned, &entry));
    mha_error_set(GPU_MHA_INVALID, "as before");
    ck_assert_int_eq(mha_gemm_prepare(context, &large, &gemm), GPU_MHA_OK);
    ck_assert_str_eq(gemm.kind->name, "tile");
    mha_gemm_destroy(&gemm);
    ck_assert_int_eq(mha_gemm_prepare(context, &tiny, &gemm), GPU_MHA_OK);
    ck_assert_str_eq(gemm.kind->name, "CLBlast");
    mha_gemm_destroy(&gemm);
    ck_assert_str_eq(gpu_mha_last_error(), "as before");
    ck_assert_int_eq(warnings, 0);
}
END_TEST

/* ---- what is refused ---- */

static void assert_refused(gpu_mha_status got, gpu_mha_status wanted, const char *word)
{
    ck_assert_int_eq(got, wanted);
    ck_assert_msg(strstr(gpu_mha_last_error(), word) != NULL, "no '%s' in: %s", word,
                  gpu_mha_last_error());
}

START_TEST(wrong_arguments_are_refused)
{
    gpu_mha_desc d = small;
    gpu_mha_tune_result result = {.struct_size = 8};
    gpu_mha_choice choice = {.struct_size = 8};
    assert_refused(gpu_mha_tune(context, NULL, &quick, NULL), GPU_MHA_INVALID, "desc is NULL");
    assert_refused(gpu_mha_tune(context, &d, &quick, &result), GPU_MHA_INVALID, "struct_size is 8");
    assert_refused(gpu_mha_choice_get(context, &d, &choice), GPU_MHA_INVALID, "struct_size is 8");
    assert_refused(gpu_mha_choice_get(context, &d, NULL), GPU_MHA_INVALID, "choice is NULL");
    static const double seconds[] = {-1, 61, NAN, INFINITY};
    for (size_t s = 0; s < sizeof seconds / sizeof seconds[0]; s++) {
        const gpu_mha_tune_options bad = {.seconds = seconds[s]};
        assert_refused(gpu_mha_tune(context, &d, &bad, NULL), GPU_MHA_INVALID, "seconds is");
        assert_refused(gpu_mha_tune_product(context, 3, 4, 5, &bad, NULL), GPU_MHA_INVALID,
                       "seconds is");
    }
    const gpu_mha_tune_options bad = {.dry_run = 2};
    assert_refused(gpu_mha_tune(context, &d, &bad, NULL), GPU_MHA_INVALID, "dry_run is 2");
    d.B = 0;
    assert_refused(gpu_mha_tune(context, &d, &quick, NULL), GPU_MHA_INVALID, "B is 0");
    d = small;
    d.NQ = 0;
    assert_refused(gpu_mha_tune(context, &d, &quick, NULL), GPU_MHA_INVALID, "NQ is 0");
    d = small;
    d.NK = 0;
    assert_refused(gpu_mha_tune(context, &d, &quick, NULL), GPU_MHA_INVALID, "NP + NK is 0");
    d = small;
    d.weights = GPU_MHA_WEIGHTS_AVERAGED;
    assert_refused(gpu_mha_tune(context, &d, &quick, NULL), GPU_MHA_UNSUPPORTED, "no choice");
    d = small;
    d.DK = 20000;
    assert_refused(gpu_mha_tune(context, &d, &quick, NULL), GPU_MHA_UNSUPPORTED, "DK is 20000");
    assert_refused(gpu_mha_tune_product(context, 0, 4, 5, &quick, NULL), GPU_MHA_INVALID, "M is 0");
    assert_refused(gpu_mha_tune_product(context, 3, -4, 5, &quick, NULL), GPU_MHA_INVALID,
                   "N is -4");
    assert_refused(gpu_mha_tune_product(context, 3, 4, INT64_MAX, &quick, NULL), GPU_MHA_INVALID,
                   "K is 9223372036854775807");
    ck_assert_str_eq(gpu_mha_tuning_file(NULL), "");
    ck_assert_int_eq(choice_of(context, &small).source, GPU_MHA_CHOICE_DEFAULT);
}
END_TEST

/* Nothing is left behind, and what was chosen before still holds. */
START_TEST(more_memory_than_there_is_fails_cleanly)
{
    const gpu_mha_desc huge = {
        .B = 1, .H = 1, .HKV = 1, .NQ = INT64_C(1) << 34, .NK = 64, .DK = 64, .DV = 64};
    const gpu_mha_status status = gpu_mha_tune(context, &huge, &quick, NULL);
    ck_assert_msg(status == GPU_MHA_UNSUPPORTED || status == GPU_MHA_DEVICE_MEMORY ||
                      status == GPU_MHA_HOST_MEMORY,
                  "%d: %s", (int)status, gpu_mha_last_error());
    ck_assert_int_eq(choice_of(context, &huge).source, GPU_MHA_CHOICE_DEFAULT);
    ck_assert_int_eq(gpu_mha_tune(context, &small, &quick, NULL), GPU_MHA_OK);
}
END_TEST

static Suite *tune_suite(void)
{
    Suite *suite = suite_create("tune");
    TCase *kept = tcase_create("kept"), *measured = tcase_create("measured");
    TCase *products = tcase_create("products"), *refused = tcase_create("refused");
    TCase *const all[] = {kept, measured, products, refused};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        tcase_add_checked_fixture(all[i], set_up, tear_down);
        tcase_set_timeout(all[i], 240);
        suite_add_tcase(suite, all[i]);
    }
    tcase_add_test(kept, a_kept_shape_is_taken_here_and_by_the_next_context);
    tcase_add_test(kept, other_kinds_keep_their_default);
    tcase_add_test(kept, the_environment_overrides);
    tcase_add_loop_test(kept, an_entry_that_is_no_shape_is_told_once, 0, 3);
    tcase_add_test(kept, a_shape_that_cannot_be_made_gives_way_to_the_default);
    tcase_add_test(kept, a_damaged_file_is_told_and_does_without);

    tcase_add_loop_test(measured, every_candidate_is_measured_and_the_winner_taken, 0, PROBLEMS);
    tcase_add_test(measured, a_dry_run_changes_nothing);
    tcase_add_test(measured, with_caching_off_it_holds_for_the_context);
    tcase_add_test(measured, plans_are_made_while_another_thread_tunes);
    tcase_add_test(measured, blocking_calls_take_the_winner);
    tcase_add_test(measured, a_result_that_differs_is_seen);

    tcase_add_test(products, products_are_measured_and_the_winner_taken);
    tcase_add_loop_test(products, a_kept_product_is_taken, 0, 3);
    tcase_add_test(products, a_product_too_large_for_the_kept_one_gives_way);

    tcase_add_test(refused, wrong_arguments_are_refused);
    tcase_add_test(refused, more_memory_than_there_is_fails_cleanly);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(tune_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
