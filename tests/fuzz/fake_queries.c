/* See fake_cl.h. Platforms, devices, and every query. */
#include <string.h>

#include "fuzz/fake_objects.h"

const struct fake_facts fake_cpu = {
    .name = "a CPU",
    .vendor = "nobody",
    .version = "OpenCL 1.2 fake",
    .driver = "1",
    .profile = "FULL_PROFILE",
    .extensions = "cl_khr_byte_addressable_store cl_khr_fp64",
    .type = CL_DEVICE_TYPE_CPU,
    .compute_units = 2,
    .vector_width = 8,
    .dimensions = 3,
    .address_bits = 64,
    .align_bits = 1024,
    .global_bytes = (cl_ulong)8 << 30,
    .max_alloc_bytes = (cl_ulong)2 << 30,
    .local_bytes = 512 << 10,
    .group = 4096,
    .items_0 = 4096,
    .parameter_bytes = 1024,
    .kernel_group = 4096,
    .single = CL_FP_DENORM | CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST | CL_FP_FMA,
    .local_type = CL_GLOBAL,
    .available = CL_TRUE,
    .compiler = CL_TRUE,
    .little_endian = CL_TRUE,
};

/* A device's id is the address of its facts, a platform's that of its byte. */
static struct fake_facts devices[FAKE_DEVICES_MAX];
static size_t device_count, first_platform_count;
static char platforms[2];

void fake_devices(const struct fake_facts *facts, size_t count, size_t on_first)
{
    FUZZ_ASSERT(count <= FAKE_DEVICES_MAX && on_first <= count);
    if (count > 0) {
        memcpy(devices, facts, count * sizeof *facts);
    }
    device_count = count;
    first_platform_count = on_first;
    fake_forget_refusals();
}

cl_device_id fake_device(size_t index)
{
    return (cl_device_id)&devices[index];
}

const struct fake_facts *fake_facts_of(cl_device_id device)
{
    const struct fake_facts *facts = (const struct fake_facts *)device;
    FUZZ_ASSERT(facts >= devices && facts < devices + device_count);
    return facts;
}

static size_t platform_index(const void *platform)
{
    const char *at = platform;
    FUZZ_ASSERT(at == &platforms[0] || at == &platforms[1]);
    return (size_t)(at - platforms);
}

static size_t pick(struct fuzz_bytes *bytes, size_t count)
{
    return fuzz_byte(bytes) % count;
}

static size_t at_least_1(uint64_t n)
{
    return n > 0 ? (size_t)n : 1;
}

/* A number of one byte's choosing: the usual one first. */
static uint64_t odd(struct fuzz_bytes *bytes, uint64_t usual)
{
    static const uint64_t values[] = {0,          1,
                                      2,          3,
                                      7,          8,
                                      16,         32,
                                      33,         64,
                                      100,        224,
                                      256,        1000,
                                      1024,       4096,
                                      65536,      1 << 20,
                                      UINT32_MAX, UINT64_MAX,
                                      1u << 31,   (uint64_t)1 << 40};
    const size_t which = fuzz_byte(bytes);
    return which == 0 ? usual : values[(which - 1) % (sizeof values / sizeof *values)];
}

struct fake_facts fake_facts_read(struct fuzz_bytes *bytes)
{
    static const cl_device_type types[] = {CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU,
                                           CL_DEVICE_TYPE_ACCELERATOR,
                                           CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT};
    static const char *const vendors[] = {
        "nobody", "NVIDIA Corporation", "AMD", "Intel(R)", "QUALCOMM", "ARM", ""};
    static const char *const versions[] = {
        "OpenCL 1.2 x", "OpenCL 3.0", "OpenCL 1.1", "OpenCL", "", "OpenCL 2.-1", "OpenCL 999.9999"};
    static const char *const extensions[] = {"", "cl_khr_subgroups",
                                             "cl_intel_subgroups cl_intel_required_subgroup_size",
                                             " cl_khr_fp16  cles_khr_int64 "};
    static const char *const profiles[] = {"FULL_PROFILE", "EMBEDDED_PROFILE"};
    static const char *const names[] = {"a CPU", "", "  two \n lines\t", "\x1b[31m\xff\xfe"};
    static const cl_device_info queries[] = {0,
                                             CL_DEVICE_NAME,
                                             CL_DEVICE_TYPE,
                                             CL_DEVICE_EXTENSIONS,
                                             CL_DEVICE_LOCAL_MEM_SIZE,
                                             CL_DEVICE_MAX_WORK_ITEM_SIZES,
                                             CL_DRIVER_VERSION};
    struct fake_facts f = fake_cpu;
    f.type = types[pick(bytes, 4)];
    f.vendor = vendors[pick(bytes, 7)];
    f.compute_units = (cl_uint)odd(bytes, 2);
    f.vector_width = (cl_uint)odd(bytes, 8);
    f.max_alloc_bytes = odd(bytes, f.max_alloc_bytes) | 4096; /* few kilobytes are always there */
    f.local_bytes = odd(bytes, 48 << 10);
    f.local_type = pick(bytes, 2) ? CL_GLOBAL : CL_LOCAL;
    f.group = at_least_1(odd(bytes, 1024));
    f.items_0 = at_least_1(odd(bytes, 1024));
    f.kernel_group = at_least_1(odd(bytes, 1024));
    f.align_bits = (cl_uint)odd(bytes, 1024);
    f.lanes = (cl_uint)odd(bytes, 32);
    f.extensions = extensions[pick(bytes, 4)];
    /* Most of the rest makes a device unusable, which is worth few of the tries. */
    const uint8_t rest = fuzz_byte(bytes);
    if (rest & 1) {
        f.version = versions[pick(bytes, 7)];
        f.profile = profiles[pick(bytes, 2)];
        f.single = pick(bytes, 2) ? CL_FP_INF_NAN : f.single;
        f.name = names[pick(bytes, 4)];
    }
    if (rest & 2) {
        f.dimensions = (cl_uint)pick(bytes, 5);
        f.address_bits = pick(bytes, 2) ? 32 : 64;
        f.parameter_bytes = odd(bytes, 1024);
        f.available = pick(bytes, 2) ? CL_FALSE : CL_TRUE;
    }
    if (rest & 4) {
        f.broken_query = queries[pick(bytes, 7)];
        f.broken_builds = (cl_uint)fuzz_u64(bytes);
    }
    if (rest & 8) {
        f.kernel_local = odd(bytes, 0);
    }
    return f;
}

/* ---- answers ------------------------------------------------------------------------------ */

/* As every query of OpenCL gives its answer. */
static cl_int answer(const void *value, size_t size, size_t capacity, void *to, size_t *given)
{
    if (given != NULL) {
        *given = size;
    }
    if (to != NULL) {
        if (capacity < size) {
            return fake_refuse(CL_INVALID_VALUE);
        }
        if (size > 0) {
            memcpy(to, value, size);
        }
    }
    return CL_SUCCESS;
}

#define ANSWER(value) answer(&(value), sizeof(value), capacity, to, given)
#define ANSWER_TEXT(text) answer(text, strlen(text) + 1, capacity, to, given)

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformIDs(cl_uint room, cl_platform_id *ids, cl_uint *count)
{
    const cl_uint there = device_count > 0 ? 2 : 0;
    for (cl_uint i = 0; ids != NULL && i < room && i < there; i++) {
        ids[i] = (cl_platform_id)&platforms[i];
    }
    if (count != NULL) {
        *count = there;
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info query,
                                                  size_t capacity, void *to, size_t *given)
{
    return query == CL_PLATFORM_NAME && platform_index(platform) == 1 ? ANSWER_TEXT("second")
                                                                      : ANSWER_TEXT("first");
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id platform, cl_device_type type,
                                               cl_uint room, cl_device_id *ids, cl_uint *count)
{
    const size_t first = platform_index(platform) == 0 ? 0 : first_platform_count;
    const size_t last = platform_index(platform) == 0 ? first_platform_count : device_count;
    FUZZ_ASSERT(type == CL_DEVICE_TYPE_ALL);
    if (first == last) {
        return CL_DEVICE_NOT_FOUND;
    }
    for (size_t i = first; ids != NULL && i < last && i - first < room; i++) {
        ids[i - first] = fake_device(i);
    }
    if (count != NULL) {
        *count = (cl_uint)(last - first);
    }
    return CL_SUCCESS;
}

static const char *device_text(const struct fake_facts *facts, cl_device_info query)
{
    switch (query) {
    case CL_DEVICE_NAME:
        return facts->name;
    case CL_DEVICE_VENDOR:
        return facts->vendor;
    case CL_DEVICE_VERSION:
        return facts->version;
    case CL_DRIVER_VERSION:
        return facts->driver;
    case CL_DEVICE_PROFILE:
        return facts->profile;
    case CL_DEVICE_EXTENSIONS:
        return facts->extensions;
    default:
        return NULL;
    }
}

static cl_int device_number(const struct fake_facts *f, cl_device_id device, cl_device_info query,
                            size_t capacity, void *to, size_t *given)
{
    const size_t items[5] = {f->items_0, 1, 1, 1, 1}, sub_groups[3] = {32, 8, 16};
    const cl_platform_id platform =
        (cl_platform_id)&platforms[f - devices < (ptrdiff_t)first_platform_count ? 0 : 1];
    const cl_device_id parent = NULL;
    (void)device;
    switch (query) {
    case CL_DEVICE_PLATFORM:
        return ANSWER(platform);
    case CL_DEVICE_TYPE:
        return ANSWER(f->type);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return ANSWER(f->compute_units);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
        return ANSWER(f->vector_width);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        return ANSWER(f->global_bytes);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return ANSWER(f->max_alloc_bytes);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return ANSWER(f->local_bytes);
    case CL_DEVICE_LOCAL_MEM_TYPE:
        return ANSWER(f->local_type);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return ANSWER(f->group);
    case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS:
        return ANSWER(f->dimensions);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        return answer(items, f->dimensions * sizeof *items, capacity, to, given);
    case CL_DEVICE_MAX_PARAMETER_SIZE:
        return ANSWER(f->parameter_bytes);
    case CL_DEVICE_ADDRESS_BITS:
        return ANSWER(f->address_bits);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        return ANSWER(f->align_bits);
    case CL_DEVICE_SINGLE_FP_CONFIG:
        return ANSWER(f->single);
    case CL_DEVICE_AVAILABLE:
        return ANSWER(f->available);
    case CL_DEVICE_COMPILER_AVAILABLE:
        return ANSWER(f->compiler);
    case CL_DEVICE_ENDIAN_LITTLE:
        return ANSWER(f->little_endian);
    case CL_DEVICE_PARENT_DEVICE:
        return ANSWER(parent);
    case 0x4003: /* the warp size of NVIDIA, the wavefront of AMD */
    case 0x4043:
        return ANSWER(f->lanes);
    case 0x4108: /* the sub-groups of Intel */
        return ANSWER(sub_groups);
    default:
        fuzz_fail(__FILE__, __LINE__, "a query of devices that is known");
    }
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info query,
                                                size_t capacity, void *to, size_t *given)
{
    const struct fake_facts *facts = fake_facts_of(device);
    const char *text = device_text(facts, query);
    if (query == facts->broken_query) {
        return fake_refuse(CL_INVALID_DEVICE);
    }
    return text != NULL ? ANSWER_TEXT(text)
                        : device_number(facts, device, query, capacity, to, given);
}

CL_API_ENTRY cl_int CL_API_CALL clGetContextInfo(cl_context cl, cl_context_info query,
                                                 size_t capacity, void *to, size_t *given)
{
    const cl_device_id device = fake_device(0);
    fake_of(cl, FAKE_CONTEXT);
    FUZZ_ASSERT(query == CL_CONTEXT_DEVICES);
    return ANSWER(device);
}

CL_API_ENTRY cl_int CL_API_CALL clGetCommandQueueInfo(cl_command_queue queue,
                                                      cl_command_queue_info query, size_t capacity,
                                                      void *to, size_t *given)
{
    const cl_context cl = (cl_context)fake_of(queue, FAKE_QUEUE)->parent;
    const cl_device_id device = fake_device(0);
    const cl_command_queue_properties properties = 0;
    switch (query) {
    case CL_QUEUE_CONTEXT:
        return ANSWER(cl);
    case CL_QUEUE_DEVICE:
        return ANSWER(device);
    case CL_QUEUE_PROPERTIES:
        return ANSWER(properties);
    default:
        fuzz_fail(__FILE__, __LINE__, "a query of queues that is known");
    }
}

CL_API_ENTRY cl_int CL_API_CALL clGetMemObjectInfo(cl_mem mem, cl_mem_info query, size_t capacity,
                                                   void *to, size_t *given)
{
    const struct fake *buffer = fake_of(mem, FAKE_MEM);
    const cl_mem whole = buffer->is_part ? (cl_mem)buffer->parent : NULL;
    const struct fake *root = buffer->is_part ? buffer->parent : buffer;
    const cl_context cl = (cl_context)root->parent;
    switch (query) {
    case CL_MEM_CONTEXT:
        return ANSWER(cl);
    case CL_MEM_SIZE:
        return ANSWER(buffer->bytes);
    case CL_MEM_OFFSET:
        return ANSWER(buffer->origin);
    case CL_MEM_ASSOCIATED_MEMOBJECT:
        return ANSWER(whole);
    default:
        fuzz_fail(__FILE__, __LINE__, "a query of buffers that is known");
    }
}

CL_API_ENTRY cl_int CL_API_CALL clGetEventInfo(cl_event event, cl_event_info query, size_t capacity,
                                               void *to, size_t *given)
{
    const cl_context cl = (cl_context)fake_of(event, FAKE_EVENT)->parent;
    const cl_int complete = CL_COMPLETE;
    FUZZ_ASSERT(query == CL_EVENT_CONTEXT || query == CL_EVENT_COMMAND_EXECUTION_STATUS);
    return query == CL_EVENT_CONTEXT ? ANSWER(cl) : ANSWER(complete);
}

CL_API_ENTRY cl_int CL_API_CALL clGetProgramBuildInfo(cl_program program, cl_device_id device,
                                                      cl_program_build_info query, size_t capacity,
                                                      void *to, size_t *given)
{
    fake_of(program, FAKE_PROGRAM);
    fake_facts_of(device);
    FUZZ_ASSERT(query == CL_PROGRAM_BUILD_LOG);
    return ANSWER_TEXT("a log");
}

CL_API_ENTRY cl_int CL_API_CALL clGetProgramInfo(cl_program program, cl_program_info query,
                                                 size_t capacity, void *to, size_t *given)
{
    const cl_uint count = 1;
    const size_t none = 0;
    fake_of(program, FAKE_PROGRAM);
    return query == CL_PROGRAM_NUM_DEVICES ? ANSWER(count) : ANSWER(none);
}

CL_API_ENTRY cl_int CL_API_CALL clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                                         cl_kernel_work_group_info query,
                                                         size_t capacity, void *to, size_t *given)
{
    const struct fake *k = fake_of(kernel, FAKE_KERNEL);
    const size_t compiled[3] = {k->group, k->group > 0, k->group > 0};
    const struct fake_facts *facts = fake_facts_of(device);
    switch (query) {
    case CL_KERNEL_WORK_GROUP_SIZE:
        return ANSWER(facts->kernel_group);
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE:
        return ANSWER(compiled);
    case CL_KERNEL_LOCAL_MEM_SIZE:
        return ANSWER(facts->kernel_local);
    default:
        fuzz_fail(__FILE__, __LINE__, "a query of kernels that is known");
    }
}

cl_device_id fake_device_id(void)
{
    return fake_device(0);
}
