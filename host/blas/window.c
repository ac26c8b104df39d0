/* Parts of buffers. */
#include "blas/window.h"

/* A sub-buffer has no sub-buffers: the part is sought in the buffer that `mem` is itself a part of.
 */
static gpu_mha_status find_root(cl_mem mem, const char *name, cl_mem *root, size_t *first_byte)
{
    cl_mem parent = NULL;
    size_t offset = 0;
    MHA_TRY_CL(
        clGetMemObjectInfo(mem, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent, (void *)&parent, NULL),
        "clGetMemObjectInfo", "asking for the parent of %s", name);
    *root = mem;
    *first_byte = 0;
    if (parent != NULL) {
        MHA_TRY_CL(clGetMemObjectInfo(mem, CL_MEM_OFFSET, sizeof offset, &offset, NULL),
                   "clGetMemObjectInfo", "asking for the offset of %s", name);
        *root = parent;
        *first_byte = offset;
    }
    return GPU_MHA_OK;
}

gpu_mha_status mha_window_open(gpu_mha_buffer buffer, int64_t count, size_t align_bytes,
                               const char *name, struct mha_window *window)
{
    *window = (struct mha_window){0};
    cl_mem root = NULL;
    size_t first = 0;
    MHA_TRY(find_root(buffer.mem, name, &root, &first));
    first += (size_t)buffer.offset * sizeof(float);
    const size_t in_front = first % align_bytes;
    const cl_buffer_region region = {first - in_front, in_front + (size_t)count * sizeof(float)};
    cl_int code = CL_SUCCESS;
    window->mem = clCreateSubBuffer(root, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    window->offset = in_front / sizeof(float);
    MHA_TRY_CL(code, "clCreateSubBuffer", "%zu bytes from byte %zu of %s", region.size,
               region.origin, name);
    return GPU_MHA_OK;
}

void mha_window_close(struct mha_window *window)
{
    if (window->mem != NULL) {
        clReleaseMemObject(window->mem);
        window->mem = NULL;
    }
}
