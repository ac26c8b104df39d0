/*
 * soak.c - changing shapes, plans, methods, layers, caches and threads for a while; what is alive
 * afterwards is what was alive after the warm-up.
 *   soak [SECONDS]
 *
 * Every call and every object goes through the layer of tests/fault, every allocation of the
 * library through its seam: these counts must come back to the very number, as must those of
 * descriptors and threads. What drivers keep for themselves shows in the heap and the resident set,
 * which have a limit for each piece of work. Results are judged throughout.
 */
#include "cl/context.h"
#include "crew.h"
#include "drawn.h"
#include "harness/known_run.h"
#include "heap.h"
#include "layer.h"
#include "lifetime/maps.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 8, STEPS = 24 };

/*
 * Bytes of heap that drivers may keep: for a context with its programs some, which PoCL does, for
 * anything else less than the smallest object.
 */
enum { HEAP_ONCE = 1 << 20, HEAP_EACH_STEP = 16, HEAP_EACH_CONTEXT = 16384 };

/* The resident set also has what allocators and the program loader do not give back. */
enum { RESIDENT_ONCE = 32 << 20, RESIDENT_EACH_CONTEXT = 131072 };

static atomic_int contexts_made;

static gpu_mha_context *shared;
static gpu_mha_context *by_clblast; /* takes it for the products of layers */

static unsigned next_number(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void need(struct crew_member *me, gpu_mha_status status, const char *what)
{
    if (status != GPU_MHA_OK) {
        crew_complain(me, "%s: %s", what, gpu_mha_last_error());
    }
}

/* ---- steps ---- */

/* Of short lists: a context keeps a program for every kind of problem, so there is an end of them.
 */
static gpu_mha_desc describe(unsigned variant)
{
    static const int64_t sizes[][2] = {{8, 8}, {24, 20}};
    static const int64_t queries[] = {1, 5, 40}, keys[] = {1, 31, 300};
    const unsigned kind = variant % 3; /* fused of both sizes, staged */
    gpu_mha_desc desc = {.B = 1 + (int64_t)(variant / 3 % 2),
                         .H = 4,
                         .HKV = variant / 6 % 2 ? 4 : 1,
                         .NQ = queries[variant / 12 % 3],
                         .NK = keys[variant / 36 % 3],
                         .DK = sizes[kind % 2][0],
                         .DV = sizes[kind % 2][1],
                         .causal = (int)(variant / 108 % 2)};
    desc.method = kind == 2 ? GPU_MHA_STAGED : GPU_MHA_FUSED;
    return desc;
}
enum { VARIANTS = 216 };

/* A plan on a queue that both live for one run. */
static void enqueue_drawn(struct crew_member *me, const struct drawn *d)
{
    struct drawn_buffers buffers = {.all = {NULL}};
    gpu_mha_plan *plan = NULL;
    cl_int code = CL_SUCCESS;
    cl_command_queue queue =
        clCreateCommandQueue(gpu_mha_context_cl(shared), gpu_mha_context_device(shared), 0, &code);
    need(me, gpu_mha_plan_create(shared, &d->desc, &plan), "a plan");
    if (plan && queue && drawn_open(&buffers, d, gpu_mha_context_cl(shared), plan) == 0) {
        const char *complaint = drawn_enqueue(d, &buffers, plan, queue);
        if (complaint) {
            crew_complain(me, "a plan: %s", complaint);
        }
    } else {
        crew_complain(me, "no plan, queue or buffers");
    }
    drawn_close(&buffers);
    gpu_mha_plan_release(plan);
    clReleaseCommandQueue(queue);
}

static void attend(struct crew_member *me, unsigned variant, unsigned *state)
{
    struct drawn d;
    const gpu_mha_desc desc = describe(variant);
    if (drawn_make(&d, shared, &desc, next_number(state)) != 0) {
        crew_complain(me, "%s", d.text);
    } else {
        const char *complaint = drawn_call(&d, shared);
        if (complaint) {
            crew_complain(me, "%s", complaint);
        }
        enqueue_drawn(me, &d);
    }
    drawn_free(&d);
}

static void call_known(struct crew_member *me, gpu_mha_context *context, enum known_kind kind,
                       float value)
{
    float output[KNOWN_OUTPUT_MAX] = {0};
    need(me, known_call(context, kind, value, output), known_name(kind));
    if (!known_right(kind, output, value)) {
        crew_complain(me, "%s gives %g, want %g", known_name(kind), (double)output[0],
                      (double)value);
    }
}

static void plan_known(struct crew_member *me, gpu_mha_context *context, enum known_kind kind,
                       float value)
{
    struct known_run run = {.buffer_count = 0};
    float output[KNOWN_OUTPUT_MAX] = {0};
    gpu_mha_plan *plan = NULL;
    cl_event done = NULL;
    cl_int code = CL_SUCCESS;
    cl_context cl = gpu_mha_context_cl(context);
    cl_command_queue queue = clCreateCommandQueue(cl, gpu_mha_context_device(context), 0, &code);
    need(me, known_plan(context, kind, &plan), "a plan");
    if (!plan || known_open(&run, cl, plan, kind, value) != 0) {
        crew_complain(me, "no plan or buffers");
    } else {
        need(me, known_enqueue(plan, &run, queue, 0, NULL, &done), "an enqueue");
    }
    if (done) {
        clEnqueueReadBuffer(queue, run.buffers[run.output], CL_TRUE, 0,
                            run.output_count * sizeof *output, output, 1, &done, NULL);
        clReleaseEvent(done);
        if (!known_right(kind, output, value)) {
            crew_complain(me, "a plan of %s gives %g, want %g", known_name(kind), (double)output[0],
                          (double)value);
        }
    }
    known_close(&run);
    gpu_mha_plan_release(plan);
    clReleaseCommandQueue(queue);
}

static void come_and_go(struct crew_member *me, unsigned number)
{
    gpu_mha_context *other = NULL;
    if (number % 2) {
        need(me, gpu_mha_context_create(NULL, &other), "a context");
    } else {
        need(me,
             gpu_mha_context_wrap(gpu_mha_context_cl(shared), gpu_mha_context_device(shared),
                                  &other),
             "a wrapped context");
    }
    atomic_fetch_add(&contexts_made, 1);
    if (other) {
        call_known(me, other, (enum known_kind)(number / 2 % KNOWN_KINDS), 2);
        plan_known(me, other, (enum known_kind)(number / 16 % KNOWN_KINDS), 3);
        gpu_mha_context_release(other);
    }
}

static void be_refused(struct crew_member *me, unsigned number)
{
    gpu_mha_plan *plan = NULL;
    gpu_mha_desc bad = describe(number);
    bad.HKV = 3;
    if (gpu_mha_plan_create(shared, &bad, &plan) != GPU_MHA_INVALID || plan) {
        crew_complain(me, "3 heads of 4 were not refused");
    }
    gpu_mha_choice choice = {0};
    bad.HKV = 4;
    need(me, gpu_mha_choice_get(shared, &bad, &choice), "a choice");
}

static void step(struct crew_member *me, unsigned *state)
{
    const unsigned number = next_number(state);
    const enum known_kind known = (enum known_kind)(number % KNOWN_KINDS);
    const float value = 1 + (float)(number % 64) / 8;
    switch (next_number(state) % 16) {
    case 0:
        come_and_go(me, number);
        break;
    case 1:
    case 2:
        call_known(me, by_clblast, KNOWN_LAYER, value);
        plan_known(me, by_clblast, KNOWN_LAYER, value);
        break;
    case 3:
    case 4:
        be_refused(me, number);
        break;
    case 5:
    case 6:
    case 7:
        call_known(me, number & 256 ? shared : NULL, known, value);
        break;
    case 8:
    case 9:
    case 10:
        plan_known(me, shared, known, value);
        break;
    default:
        attend(me, number, state);
    }
}

static void lap_of(struct crew_member *me)
{
    const unsigned *lap = me->user;
    unsigned state = *lap * 2654435761u + (unsigned)me->number;
    heap_arm(0, 0);
    for (int n = 0; n < STEPS && !me->complaint[0]; n++) {
        step(me, &state);
    }
    heap_disarm();
}

/* Every program that a step can ask for. */
static void warm_up(struct crew_member *me)
{
    unsigned state = 1;
    heap_arm(0, 0);
    for (unsigned v = 0; v < VARIANTS && !me->complaint[0]; v++) {
        attend(me, v, &state);
    }
    for (int k = 0; k < KNOWN_KINDS; k++) {
        call_known(me, shared, (enum known_kind)k, 3);
        call_known(me, NULL, (enum known_kind)k, 3);
        plan_known(me, by_clblast, (enum known_kind)k, 3);
    }
    heap_disarm();
}

/* ---- what is alive ---- */

struct level {
    int objects[FAULT_KINDS], blocks, files, threads;
    size_t heap, resident;
};

static size_t resident_bytes(void)
{
    unsigned long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%lu %lu", &total, &resident) != 2) {
            resident = 0;
        }
        fclose(file);
    }
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static int thread_count(void)
{
    char line[256];
    int threads = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "Threads:", 8) == 0) {
            threads = atoi(line + 8);
        }
    }
    if (file) {
        fclose(file);
    }
    return threads;
}

/* Blocking calls keep what they made ready, of changing size: that is dropped with the verdicts. */
static int drop_kept(gpu_mha_context *context)
{
    heap_arm(0, 0);
    const int bad = gpu_mha_verdict_forget(context) != GPU_MHA_OK;
    heap_disarm();
    return bad;
}

static struct level take_level(void)
{
    struct level level = {.blocks = -1};
    if (drop_kept(shared) || drop_kept(by_clblast) || drop_kept(NULL)) {
        fprintf(stderr, "soak: verdicts cannot be forgotten: %s\n", gpu_mha_last_error());
        return level;
    }
    for (int k = 0; k < FAULT_KINDS; k++) {
        level.objects[k] = fault_layer_live((enum fault_kind)k);
    }
    level.blocks = heap_live();
    level.files = maps_open_files();
    level.threads = thread_count();
    level.heap = mallinfo2().uordblks;
    level.resident = resident_bytes();
    return level;
}

/* 0 if what must be the same is. */
static int compare(const struct level *before, const struct level *after)
{
    int bad = 0;
    for (int k = 0; k < FAULT_KINDS; k++) {
        if (after->objects[k] != before->objects[k]) {
            fprintf(stderr, "soak: %d %s are alive, were %d\n", after->objects[k],
                    fault_kind_name((enum fault_kind)k), before->objects[k]);
            bad = 1;
        }
    }
    if (after->blocks != before->blocks || after->blocks < 0) {
        fprintf(stderr, "soak: %d blocks of the library are alive, were %d\n", after->blocks,
                before->blocks);
        bad = 1;
    }
    if (after->files != before->files || after->threads != before->threads) {
        fprintf(stderr, "soak: %d files and %d threads, were %d and %d\n", after->files,
                after->threads, before->files, before->threads);
        bad = 1;
    }
    if (fault_layer_misuse()[0]) {
        fprintf(stderr, "soak: %s\n", fault_layer_misuse());
        bad = 1;
    }
    return bad;
}

static double seconds_now(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void tell(const char *when, unsigned laps, long steps, const struct level *l)
{
    printf("%s: %u laps, %ld steps; objects", when, laps, steps);
    for (int k = 0; k < FAULT_KINDS; k++) {
        printf(" %d", l->objects[k]);
    }
    printf("; blocks %d; files %d; threads %d; heap %.2f MB; resident %.2f MB\n", l->blocks,
           l->files, l->threads, (double)l->heap / 1e6, (double)l->resident / 1e6);
    fflush(stdout);
}

enum { CONTEXTS_TO_JUDGE = 100 };

/* What is the drivers' own. */
static int is_flat(const struct level *before, const struct level *after, long steps, int contexts)
{
    const double heap = (double)after->heap - (double)before->heap;
    const double resident = (double)after->resident - (double)before->resident;
    printf("heap %+.0f bytes, resident %+.0f bytes, over %ld steps, %d of them with a context\n",
           heap, resident, steps, contexts);
    /* The heap of a driver's compiler moves by megabytes; few contexts tell nothing beside it. */
    if (contexts < CONTEXTS_TO_JUDGE) {
        return 1;
    }
    if (heap > HEAP_ONCE + (double)steps * HEAP_EACH_STEP + (double)contexts * HEAP_EACH_CONTEXT ||
        resident > RESIDENT_ONCE + (double)contexts * RESIDENT_EACH_CONTEXT) {
        fprintf(stderr, "soak: memory grows\n");
        return 0;
    }
    return 1;
}

/* Returns 0 if all is flat. */
static int soak(double seconds)
{
    long steps = 0;
    unsigned lap = 0;
    double told = 0;
    const char *complaint = crew_run(1, warm_up, 0, NULL, &lap);
    for (; lap < 2 && !complaint; lap++) {
        complaint = crew_run(THREADS_MAX, lap_of, 0, NULL, &lap);
    }
    struct level before = take_level(), after = before;
    const int contexts = atomic_load(&contexts_made);
    tell("warm", lap, steps, &before);
    int bad = 0;
    for (const double begin = seconds_now();
         !complaint && !bad && (steps == 0 || seconds_now() < begin + seconds); lap++) {
        const int threads = 1 + (int)(lap % THREADS_MAX);
        complaint = crew_run(threads, lap_of, 0, NULL, &lap);
        steps += threads * STEPS;
        after = take_level();
        bad = complaint == NULL && compare(&before, &after);
        if (seconds_now() > begin + told + 30) {
            told += 30;
            tell("so far", lap, steps, &after);
        }
    }
    tell("end", lap, steps, &after);
    if (complaint) {
        fprintf(stderr, "soak: %s\n", complaint);
    }
    return bad || complaint != NULL ||
           !is_flat(&before, &after, steps, atomic_load(&contexts_made) - contexts);
}

static int open_all(void)
{
    size_t count;
    if (gpu_mha_device_count(&count) != GPU_MHA_OK || !fault_layer_is_in()) {
        fprintf(stderr, "soak: the OpenCL layer was not taken\n");
        return -1;
    }
    heap_arm(0, 0);
    const int bad = gpu_mha_context_create(NULL, &shared) != GPU_MHA_OK ||
                    gpu_mha_context_create(NULL, &by_clblast) != GPU_MHA_OK;
    heap_disarm();
    if (bad) {
        fprintf(stderr, "soak: no context: %s\n", gpu_mha_last_error());
        return -1;
    }
    by_clblast->device.type = CL_DEVICE_TYPE_ACCELERATOR;
    return 0;
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? strtod(argv[1], NULL) : 600;
    setenv("OPENCL_LAYERS", MHA_FAULT_LAYER, 1);
    setenv("GPU_MHA_LOG", "off", 1);
    if (seconds < 0 || argc > 2) {
        fprintf(stderr, "usage: soak [SECONDS]\n");
        return 2;
    }
    if (open_all() != 0) {
        return EXIT_FAILURE;
    }
    const int bad = soak(seconds);
    gpu_mha_context_release(shared);
    gpu_mha_context_release(by_clblast);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
