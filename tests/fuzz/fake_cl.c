/* See fake_cl.h. Objects and everything that is no query. */
#include "fuzz/fake_cl.h"

#include <clblast_c.h>
#include <string.h>

#include "fuzz/fake_objects.h"

static long live, refusals;
static unsigned builds;

long fake_live(void)
{
    return live;
}

long fake_refusals(void)
{
    return refusals;
}

void fake_forget_refusals(void)
{
    refusals = 0;
    builds = 0;
}

cl_int fake_refuse(cl_int code)
{
    refusals++;
    return code;
}

/* ---- objects ------------------------------------------------------------------------------ */

struct fake *fake_make(enum fake_kind kind, struct fake *parent)
{
    struct fake *made = calloc(1, sizeof *made);
    FUZZ_ASSERT(made != NULL);
    made->magic = FAKE_MAGIC;
    made->kind = kind;
    made->references = 1;
    made->parent = parent;
    if (parent != NULL) {
        parent->references++;
    }
    live++;
    return made;
}

struct fake *fake_of(const void *object, enum fake_kind kind)
{
    struct fake *fake = (struct fake *)(uintptr_t)object;
    FUZZ_ASSERT(fake != NULL && fake->magic == FAKE_MAGIC && fake->kind == kind);
    FUZZ_ASSERT(fake->references > 0);
    return fake;
}

static void drop(struct fake *fake)
{
    while (fake != NULL && --fake->references == 0) {
        struct fake *parent = fake->parent;
        fake->magic = 0;
        free(fake);
        live--;
        fake = parent;
    }
}

static cl_int set(cl_int *code, cl_int value)
{
    if (code != NULL) {
        *code = value;
    }
    return value;
}

cl_context fake_context(void)
{
    return (cl_context)fake_make(FAKE_CONTEXT, NULL);
}

cl_command_queue fake_queue(cl_context cl)
{
    return (cl_command_queue)fake_make(FAKE_QUEUE, fake_of(cl, FAKE_CONTEXT));
}

cl_mem fake_buffer(cl_context cl, size_t bytes)
{
    struct fake *made = fake_make(FAKE_MEM, fake_of(cl, FAKE_CONTEXT));
    made->bytes = bytes;
    return (cl_mem)made;
}

/* ---- contexts, queues, events ------------------------------------------------------------- */

CL_API_ENTRY cl_context CL_API_CALL clCreateContext(
    const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code)
{
    (void)notify;
    (void)user;
    FUZZ_ASSERT(properties != NULL && count == 1);
    fake_facts_of(devices[0]);
    set(code, CL_SUCCESS);
    return fake_context();
}

CL_API_ENTRY cl_int CL_API_CALL clRetainContext(cl_context cl)
{
    fake_of(cl, FAKE_CONTEXT)->references++;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseContext(cl_context cl)
{
    drop(fake_of(cl, FAKE_CONTEXT));
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clRetainDevice(cl_device_id device)
{
    fake_facts_of(device);
    live++;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseDevice(cl_device_id device)
{
    fake_facts_of(device);
    live--;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_command_queue CL_API_CALL clCreateCommandQueue(
    cl_context cl, cl_device_id device, cl_command_queue_properties properties, cl_int *code)
{
    (void)properties;
    fake_facts_of(device);
    set(code, CL_SUCCESS);
    return fake_queue(cl);
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseCommandQueue(cl_command_queue queue)
{
    drop(fake_of(queue, FAKE_QUEUE));
    return CL_SUCCESS;
}

/* Every command is at its end at once. */
static cl_int done(cl_command_queue queue, cl_uint count, const cl_event *wait, cl_event *event)
{
    struct fake *q = fake_of(queue, FAKE_QUEUE);
    FUZZ_ASSERT((count == 0) == (wait == NULL));
    for (cl_uint i = 0; i < count; i++) {
        fake_of(wait[i], FAKE_EVENT);
    }
    if (event != NULL) {
        *event = (cl_event)fake_make(FAKE_EVENT, q->parent);
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseEvent(cl_event event)
{
    drop(fake_of(event, FAKE_EVENT));
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clWaitForEvents(cl_uint count, const cl_event *events)
{
    FUZZ_ASSERT(count > 0);
    for (cl_uint i = 0; i < count; i++) {
        fake_of(events[i], FAKE_EVENT);
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clFinish(cl_command_queue queue)
{
    fake_of(queue, FAKE_QUEUE);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count,
                                                            const cl_event *wait, cl_event *event)
{
    return done(queue, count, wait, event);
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint count,
                                                             const cl_event *wait, cl_event *event)
{
    return done(queue, count, wait, event);
}

/* ---- buffers ------------------------------------------------------------------------------ */

/* Reads all of it, so that a sanitizer sees where it ends. */
static void touch(const unsigned char *bytes, size_t size)
{
    volatile unsigned char sum = 0;
    for (size_t i = 0; i<size; i += size - i> 4096 ? 509 : 1) {
        sum = (unsigned char)(sum + bytes[i]);
    }
}

CL_API_ENTRY cl_mem CL_API_CALL clCreateBuffer(cl_context cl, cl_mem_flags flags, size_t bytes,
                                               void *host, cl_int *code)
{
    fake_of(cl, FAKE_CONTEXT);
    FUZZ_ASSERT(((flags & (CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR)) != 0) == (host != NULL));
    FUZZ_ASSERT(bytes > 0);
    if (bytes > fake_facts_of(fake_device(0))->max_alloc_bytes) {
        set(code, fake_refuse(CL_INVALID_BUFFER_SIZE));
        return NULL;
    }
    if (host != NULL) {
        touch(host, bytes);
    }
    set(code, CL_SUCCESS);
    return fake_buffer(cl, bytes);
}

CL_API_ENTRY cl_mem CL_API_CALL clCreateSubBuffer(cl_mem mem, cl_mem_flags flags,
                                                  cl_buffer_create_type type, const void *info,
                                                  cl_int *code)
{
    const cl_buffer_region *region = info;
    struct fake *parent = fake_of(mem, FAKE_MEM);
    const size_t align = fake_facts_of(fake_device(0))->align_bits / 8;
    (void)flags;
    FUZZ_ASSERT(type == CL_BUFFER_CREATE_TYPE_REGION && parent->origin == 0);
    FUZZ_ASSERT(region->size > 0 && region->origin <= parent->bytes &&
                region->size <= parent->bytes - region->origin);
    FUZZ_ASSERT(align < 2 || region->origin % align == 0);
    struct fake *made = fake_make(FAKE_MEM, parent);
    made->bytes = region->size;
    made->origin = region->origin;
    made->is_part = true;
    set(code, CL_SUCCESS);
    return (cl_mem)made;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseMemObject(cl_mem mem)
{
    drop(fake_of(mem, FAKE_MEM));
    return CL_SUCCESS;
}

static void check_range(cl_mem mem, size_t offset, size_t size)
{
    const struct fake *buffer = fake_of(mem, FAKE_MEM);
    FUZZ_ASSERT(size > 0 && offset <= buffer->bytes && size <= buffer->bytes - offset);
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueReadBuffer(cl_command_queue queue, cl_mem mem,
                                                    cl_bool blocking, size_t offset, size_t size,
                                                    void *to, cl_uint count, const cl_event *wait,
                                                    cl_event *event)
{
    FUZZ_ASSERT(blocking && to != NULL);
    check_range(mem, offset, size);
    memset(to, 0, size);
    return done(queue, count, wait, event);
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueWriteBuffer(cl_command_queue queue, cl_mem mem,
                                                     cl_bool blocking, size_t offset, size_t size,
                                                     const void *from, cl_uint count,
                                                     const cl_event *wait, cl_event *event)
{
    FUZZ_ASSERT(blocking && from != NULL);
    check_range(mem, offset, size);
    touch(from, size);
    return done(queue, count, wait, event);
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueFillBuffer(cl_command_queue queue, cl_mem mem,
                                                    const void *pattern, size_t pattern_size,
                                                    size_t offset, size_t size, cl_uint count,
                                                    const cl_event *wait, cl_event *event)
{
    FUZZ_ASSERT(pattern != NULL && pattern_size > 0 && size % pattern_size == 0);
    check_range(mem, offset, size);
    return done(queue, count, wait, event);
}

/* ---- programs and kernels ----------------------------------------------------------------- */

/* The value of "-D NAME=" in build options; 0 without one. */
static size_t definition(const char *options, const char *name)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, "-D %s=", name);
    const char *at = strstr(options, wanted);
    return at != NULL ? strtoul(at + strlen(wanted), NULL, 10) : 0;
}

CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithSource(cl_context cl, cl_uint count,
                                                              const char **strings,
                                                              const size_t *lengths, cl_int *code)
{
    FUZZ_ASSERT(count == 1 && strings[0] != NULL && lengths[0] > 0);
    set(code, CL_SUCCESS);
    return (cl_program)fake_make(FAKE_PROGRAM, fake_of(cl, FAKE_CONTEXT));
}

/* No binary is good enough. */
CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithBinary(cl_context cl, cl_uint count,
                                                              const cl_device_id *devices,
                                                              const size_t *lengths,
                                                              const unsigned char **binaries,
                                                              cl_int *binary_codes, cl_int *code)
{
    fake_of(cl, FAKE_CONTEXT);
    FUZZ_ASSERT(count == 1 && devices[0] != NULL && lengths[0] > 0 && binaries[0] != NULL);
    set(binary_codes, CL_INVALID_BINARY);
    set(code, fake_refuse(CL_INVALID_BINARY));
    return NULL;
}

CL_API_ENTRY cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count,
                                               const cl_device_id *devices, const char *options,
                                               void(CL_CALLBACK *notify)(cl_program, void *),
                                               void *user)
{
    struct fake *made = fake_of(program, FAKE_PROGRAM);
    FUZZ_ASSERT(count == 1 && notify == NULL && user == NULL);
    if (fake_facts_of(devices[0])->broken_builds >> builds++ % 32 & 1) {
        return fake_refuse(CL_BUILD_PROGRAM_FAILURE);
    }
    /* The groups of kernels/shared.cl are given by reqd_work_group_size. */
    made->group = definition(options, "LR") * definition(options, "LC");
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseProgram(cl_program program)
{
    drop(fake_of(program, FAKE_PROGRAM));
    return CL_SUCCESS;
}

CL_API_ENTRY cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name,
                                                  cl_int *code)
{
    struct fake *built = fake_of(program, FAKE_PROGRAM);
    FUZZ_ASSERT(name != NULL);
    struct fake *made = fake_make(FAKE_KERNEL, built);
    made->group = strncmp(name, "shared", 6) == 0 ? built->group : 0;
    set(code, CL_SUCCESS);
    return (cl_kernel)made;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseKernel(cl_kernel kernel)
{
    drop(fake_of(kernel, FAKE_KERNEL));
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size,
                                               const void *value)
{
    FUZZ_ASSERT(value != NULL && size > 0 && index < 32);
    fake_of(kernel, FAKE_KERNEL)->arguments |= 1u << index;
    if (size == sizeof(cl_mem)) {
        cl_mem mem;
        memcpy(&mem, value, sizeof mem);
        fake_of(mem, FAKE_MEM);
    } else {
        FUZZ_ASSERT(size <= fake_facts_of(fake_device(0))->parameter_bytes);
        touch(value, size);
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                                       cl_uint dimensions, const size_t *offset,
                                                       const size_t *global, const size_t *local,
                                                       cl_uint count, const cl_event *wait,
                                                       cl_event *event)
{
    const struct fake *k = fake_of(kernel, FAKE_KERNEL);
    const struct fake_facts *facts = fake_facts_of(fake_device(0));
    FUZZ_ASSERT(dimensions == 1 && offset == NULL && local[0] > 0 && global[0] > 0);
    FUZZ_ASSERT(global[0] % local[0] == 0);
    FUZZ_ASSERT(local[0] <= facts->group && local[0] <= facts->items_0 &&
                local[0] <= facts->kernel_group);
    FUZZ_ASSERT(k->group == 0 || k->group == local[0]);
    FUZZ_ASSERT(facts->address_bits >= 64 || global[0] <= UINT32_MAX);
    FUZZ_ASSERT((k->arguments & (k->arguments + 1)) == 0); /* none was left out */
    return done(queue, count, wait, event);
}

/* ---- CLBlast ------------------------------------------------------------------------------ */

CLBlastStatusCode CLBlastSGemmTempBufferSize(const CLBlastLayout layout, const CLBlastTranspose a,
                                             const CLBlastTranspose b, const size_t m,
                                             const size_t n, const size_t k, const size_t a_offset,
                                             const size_t a_ld, const size_t b_offset,
                                             const size_t b_ld, const size_t c_offset,
                                             const size_t c_ld, cl_command_queue *queue,
                                             size_t *bytes)
{
    (void)layout, (void)a, (void)b, (void)a_offset, (void)b_offset, (void)c_offset;
    fake_of(*queue, FAKE_QUEUE);
    FUZZ_ASSERT(m > 0 && n > 0 && k > 0 && a_ld >= k && b_ld >= k && c_ld >= n);
    FUZZ_ASSERT(m <= INT32_MAX && n <= INT32_MAX && k <= INT32_MAX);
    *bytes = m * n < 4096 ? 0 : (m * k + n * k + m * n) * sizeof(float);
    return CLBlastSuccess;
}

CLBlastStatusCode CLBlastSgemmWithTempBuffer(
    const CLBlastLayout layout, const CLBlastTranspose at, const CLBlastTranspose bt,
    const size_t m, const size_t n, const size_t k, const float alpha, const cl_mem a,
    const size_t a_offset, const size_t a_ld, const cl_mem b, const size_t b_offset,
    const size_t b_ld, const float beta, cl_mem c, const size_t c_offset, const size_t c_ld,
    cl_command_queue *queue, cl_event *event, cl_mem scratch)
{
    (void)layout, (void)at, (void)bt, (void)alpha, (void)beta;
    const size_t element = sizeof(float);
    check_range(a, a_offset * element, ((m - 1) * a_ld + k) * element);
    check_range(b, b_offset * element, ((n - 1) * b_ld + k) * element);
    check_range(c, c_offset * element, ((m - 1) * c_ld + n) * element);
    if (scratch != NULL) {
        fake_of(scratch, FAKE_MEM);
    }
    done(*queue, 0, NULL, event);
    return CLBlastSuccess;
}
