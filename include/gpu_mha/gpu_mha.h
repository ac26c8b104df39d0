/*
 * gpu_mha: exact multi-head attention on any OpenCL 1.2 device.
 *
 * This header is the authority: what stands here is promised, what does not is not.
 *
 *   simple    gpu_mha(), gpu_mha_layer(), ...: one blocking call on host memory
 *   devices   gpu_mha_context_*: pick a device, or bring your own cl_context
 *   expert    a descriptor, a plan, and gpu_mha_enqueue() on your own queue and buffers
 *   tuning    gpu_mha_tune(): what is fastest on the device at hand, measured and kept
 *   verdicts  what gpu-mha doctor found to work there, and what is avoided since
 *
 * A first use:
 *
 *     #include <gpu_mha/gpu_mha.h>
 *     #include <stdio.h>
 *     static float q[8 * 128 * 64], k[8 * 128 * 64], v[8 * 128 * 64], o[8 * 128 * 64];
 *     int main(void) {
 *         for (int i = 0; i < 8 * 128 * 64; i++) v[i] = 1;
 *         gpu_mha_desc desc = {.B = 1, .H = 8, .HKV = 8, .NQ = 128, .NK = 128,
 *                              .DK = 64, .DV = 64, .causal = 1};
 *         gpu_mha_arrays arrays = {.query = q, .key = k, .value = v, .output = o};
 *         if (gpu_mha(NULL, &desc, &arrays)) return puts(gpu_mha_last_error()), 1;
 *         printf("%g\n", o[0]); // a mean of ones: 1
 *     }
 *
 * More programs to copy from are in host/examples of the source tree.
 *
 * Letters. B batch entries, H query heads, HKV key/value heads, NQ queries, NK new keys, NP past
 * keys (a cache, read in front of the new ones), NT = NP + NK all keys, DK head size of query and
 * key, DV head size of value and output, E model width. Indices: b, h, i (query), j (key, counted
 * over past and new), d. Lengths, offsets and strides count elements, never bytes; a byte count
 * ends in _bytes.
 *
 * What is computed, for one row (b, h, i), in this order (FlashAttention's online softmax, Dao et
 * al. 2022, arXiv:2205.14135, gives the same numbers as these two passes to rounding):
 *
 *   1. s[j] = scale * sum_d q[d] * k[j][d]        k, v of head h come from kv head h / (H / HKV)
 *   2. softcap > 0:  s[j] = softcap * tanh(s[j] / softcap)
 *   3. s[j] += bias[j];   ALiBi: s[j] -= slope[h] * |i + offset - j|   (arXiv:2108.12409)
 *   4. masks select the visible keys; a key is hidden when the boolean mask is 0 there, or the bias
 *      is -inf, or causal, the window or the key length exclude it. Several masks intersect.
 *   5. w[j] = exp(s[j]) / sum over visible keys of exp(s), the sink's exp(sink[h]) joining the sum
 *   6. dropout (training): w[j] is divided by 1 - p or multiplied by 0 (a NaN stays a NaN)
 *   7. o[d] = sum over visible keys of w[j] * v[j][d];   LSE = ln(sum of step 5)
 *
 * - A row without a visible key has output 0 and weights 0. Its LSE is -inf, or the sink's logit
 *   where there is a sink, so that merging stays exact.
 * - What a hidden key, its value or its bias hold (NaN, infinities) never changes a result. What a
 *   visible one holds comes out as IEEE arithmetic says.
 * - A finite bias, however negative, is a bias: it hides nothing.
 * - Arithmetic is IEEE single precision whatever the storage type, without fast-math options.
 *   Every output element is within this bound of exact arithmetic on the stored inputs, with u the
 *   unit round-off of the output type (2^-24, 2^-11, 2^-8), a[j] = |scale| * sum_d |q[d] k[j][d]| +
 *   |bias[j]| (ALiBi included), and half of the output type's smallest subnormal added:
 *     |o - o64|     <= u |o64| + 2^-24 (sum_j w[j] (8 + 4 a[j]) |v[j]|
 *                                       + sum_j 4 w[j] a[j] * sum_j w[j] |v[j]|)
 *     |lse - lse64| <= 2^-24 (8 + |lse64| + 4 sum_j w[j] a[j])
 *   w[j] is the weight of step 5; what dropout zeroes or scales up changes only |v[j]| there. This
 *   holds while single precision can hold what lies between: products q k and their sums, scores
 *   times log2 e, and sums of 4 exp(s - m) v before they are divided, m the row's largest score;
 *   and while a[j] < 2^19, since the rounding of a larger score is no small part of a weight any
 *   more. A weight below 2^-126 of the row's largest, the sink's included, counts as 0.
 * - The same inputs on the same device, driver and plan give the same bits, from any thread, queue,
 *   batch position or repeat.
 *
 * Threads. Every function may be called from any thread at any time, also on one and the same
 * context or plan, except that an object must not be used while its last reference is released.
 * Errors are kept per thread. OpenCL does not survive fork(): once a process has listed devices or
 * made a context, in its children every call with that context or a plan is refused at once with
 * GPU_MHA_FORKED, and so is every attempt to list devices or to make a context. A release there
 * does no harm and leaves alone what the driver holds. Fork first, or exec() in the child.
 *
 * Caches. A context keeps every program that it has built. Their binaries are also kept on disk, so
 * that the next process need not build: in the directory GPU_MHA_CACHE_DIR if that variable is set
 * ("off" or empty: nothing is kept), else in $XDG_CACHE_HOME/gpu_mha, else in $HOME/.cache/gpu_mha.
 * It must belong to the user and be writable to no one else, and is made if missing; at most 256
 * binaries and 256 MB of them stay there, and deleting any of them is safe at any time. A file
 * serves only the very source, options, device and driver that it was made from. One that is
 * damaged, or that the driver refuses, is replaced, and a directory that cannot be used is done
 * without; neither is an error. PoCL makes binaries slowly: there they are written when the last
 * reference to a context is released, which takes some seconds the first time. The default context
 * is not released: on PoCL its programs come from the cache that PoCL itself has. In the same
 * directory lie what gpu_mha_tune() measured and what gpu-mha doctor found, a small file each for
 * each device.
 *
 * Errors. Every function that can fail returns a gpu_mha_status. Arguments are checked before any
 * work: a refused call has written nothing. After any failure nothing is leaked and the next call
 * works; the contents of the outputs are undefined if the failure came from the device.
 *
 * Structs grow at their end. `struct_size` tells the library which of its fields the caller knows:
 * 0 stands for the struct of version 0.1, sizeof(the struct) for the one compiled against. A field
 * this library does not know must be zero. Zero is the documented default of every optional field,
 * so start from `= {0}` or designated initialisers.
 */
#ifndef GPU_MHA_H
#define GPU_MHA_H

#include <stddef.h>
#include <stdint.h>

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif

#include <gpu_mha/gpu_mha_status.h>
#include <gpu_mha/version.h>

#ifndef GPU_MHA_API
#if defined(GPU_MHA_STATIC) || !defined(__GNUC__)
#define GPU_MHA_API
#else
#define GPU_MHA_API __attribute__((visibility("default")))
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status and errors -------------------------------------------------------------------- */

/* The library's version, "MAJOR.MINOR.PATCH". */
GPU_MHA_API const char *gpu_mha_version(void);

/* A fixed text for a status; "unknown status" for anything else. Never NULL. */
GPU_MHA_API const char *gpu_mha_status_text(gpu_mha_status status);

/* The name of a status as in the list, e.g. "GPU_MHA_INVALID". Never NULL. */
GPU_MHA_API const char *gpu_mha_status_name(gpu_mha_status status);

/*
 * What the calling thread's last failed call had to say. Stays until the next failing call of
 * the same thread; a success leaves it as it is. Strings belong to the library and live as long.
 */
typedef struct gpu_mha_error {
    gpu_mha_status status;
    const char *message;   /* one sentence: field, value, rule; "" if nothing failed yet */
    cl_int cl_code;        /* the OpenCL (or CLBlast) code behind it, CL_SUCCESS if none */
    const char *cl_call;   /* the OpenCL function that gave it, "" if none */
    const char *build_log; /* the compiler's log for GPU_MHA_BUILD, else "" */
} gpu_mha_error;

GPU_MHA_API const char *gpu_mha_last_error(void);
GPU_MHA_API gpu_mha_error gpu_mha_last_error_info(void);

/*
 * Log. The environment variable GPU_MHA_LOG sets the level, one of these words and all above it; it
 * is read once, before the first line.
 *   off     nothing
 *   error   a failure that no status can tell of
 *   warn    (default) something is not as it should be and was worked around: a variable of the
 *           environment with a wrong value, a file that was passed over, a kernel that was replaced
 *   info    what was chosen and what was passed over for it: device, measured shapes, verdicts
 *   debug   every build, every refusal of a variant, every error that became a status
 * A line is "verb object: value, rule" and goes to stderr as "gpu_mha: LEVEL: LINE", unless a
 * function is set here (NULL: stderr again). The function may be called from any thread, also one
 * of the driver's, one call at a time; it must not call the library, and is not called any more
 * once it was replaced. `level` and `line` are valid during the call.
 */
typedef void (*gpu_mha_log_fn)(void *user, const char *level, const char *line);
GPU_MHA_API void gpu_mha_set_log(gpu_mha_log_fn fn, void *user);

/* ---- devices and contexts ----------------------------------------------------------------- */

/* One OpenCL device as the library sees it. The caller sets struct_size (or leaves it 0). */
typedef struct gpu_mha_device_info {
    size_t struct_size;
    char selector[16]; /* "PLATFORM:DEVICE", fit for gpu_mha_context_create */
    char name[256];
    char vendor[256];
    char platform[256];
    char version[128]; /* the device's OpenCL version string */
    char driver[128];
    cl_device_type type;
    cl_uint compute_units;
    cl_ulong global_bytes;
    cl_ulong max_alloc_bytes;
    cl_ulong local_bytes;
    size_t max_work_group_size;
    int usable;       /* 1 if gpu_mha_context_create accepts it */
    int is_default;   /* 1 on the one that selector NULL picks */
    char reason[128]; /* why not usable, "" otherwise */
} gpu_mha_device_info;

/*
 * How many devices there are over all platforms; 0 with GPU_MHA_OK if none. A platform that does
 * not answer is left out, with a line of level warn.
 */
GPU_MHA_API gpu_mha_status gpu_mha_device_count(size_t *count);

/* Device `index`, 0 <= index < count, in the order of platforms and of devices within them. */
GPU_MHA_API gpu_mha_status gpu_mha_device_get(size_t index, gpu_mha_device_info *info);

/* An OpenCL device with its context and its built kernels. Counted references. */
typedef struct gpu_mha_context gpu_mha_context;

/*
 * Makes a context. `selector`:
 *   NULL or ""        the environment variable GPU_MHA_DEVICE if set, else the best: a GPU,
 *                     else an accelerator, else a CPU; most compute units first
 *   "gpu" "cpu" "accelerator"   the best of that type
 *   "P:D"             device D of platform P, both counted from 0 (see gpu-mha info)
 *   other text        the best whose device, vendor or platform name has it (any case)
 * GPU_MHA_NO_DEVICE if nothing fits; the message lists what is there, and cl_code is that of a
 * platform or device that did not answer, if there is one.
 */
GPU_MHA_API gpu_mha_status gpu_mha_context_create(const char *selector, gpu_mha_context **context);

/* The same on the caller's OpenCL context and one of its devices. Both are retained. */
GPU_MHA_API gpu_mha_status gpu_mha_context_wrap(cl_context cl, cl_device_id device,
                                                gpu_mha_context **context);

/* References. Plans hold their context. Release takes NULL. */
GPU_MHA_API gpu_mha_status gpu_mha_context_retain(gpu_mha_context *context);
GPU_MHA_API void gpu_mha_context_release(gpu_mha_context *context);

/* The OpenCL objects behind a context; borrowed, valid as long as it. NULL for NULL. */
GPU_MHA_API cl_context gpu_mha_context_cl(gpu_mha_context *context);
GPU_MHA_API cl_device_id gpu_mha_context_device(gpu_mha_context *context);

/* ---- tensors ------------------------------------------------------------------------------ */

/* Storage types. Any mix of them over query, key, value and output is allowed. */
typedef enum gpu_mha_type { GPU_MHA_F32 = 0, GPU_MHA_F16 = 1, GPU_MHA_BF16 = 2 } gpu_mha_type;

/* Integers as an input: absent, 32 or 64 bit, signed. */
typedef enum gpu_mha_index_type {
    GPU_MHA_INDEX_NONE = 0,
    GPU_MHA_I32 = 1,
    GPU_MHA_I64 = 2
} gpu_mha_index_type;

/* Where element (b, h, n, d) of a (B, H, N, D) tensor lies; d is always contiguous. */
typedef enum gpu_mha_layout {
    GPU_MHA_BHND = 0,   /* packed (B, H, N, D) */
    GPU_MHA_BNHD = 1,   /* packed (B, N, H, D), the same bytes as (B, N, H*D) */
    GPU_MHA_STRIDED = 2 /* b * stride_b + h * stride_h + n * stride_n + d */
} gpu_mha_layout;

/*
 * Strides are read only with GPU_MHA_STRIDED and must be 0 otherwise. They are >= 0. An input may
 * use 0 to broadcast an axis; rows of an output must not overlap. Interleaved QKV is three strided
 * tensors in one buffer.
 */
typedef struct gpu_mha_tensor {
    gpu_mha_type type;
    gpu_mha_layout layout;
    int64_t stride_b, stride_h, stride_n;
} gpu_mha_tensor;

typedef enum gpu_mha_mask_type {
    GPU_MHA_MASK_NONE = 0,
    GPU_MHA_MASK_BOOL = 1, /* bytes; not 0 = attend, 0 = hide */
    GPU_MHA_MASK_F32 = 2,  /* additive, in the units of the scores; -inf hides */
    GPU_MHA_MASK_F16 = 3,
    GPU_MHA_MASK_BF16 = 4
} gpu_mha_mask_type;

/*
 * A mask over (B, H, NQ, NT), NT = NP + NK. Each axis of `shape` is the full size, or 1 to
 * broadcast; 0 stands for the full size. Unless `strided`, the array is packed in its shape. With
 * `strided`, element (b, h, i, j) lies at the sum of index * stride over the axes that are not
 * broadcast; strides are >= 0.
 */
typedef struct gpu_mha_mask {
    gpu_mha_mask_type type;
    int strided;
    int64_t shape[4];
    int64_t stride[4];
} gpu_mha_mask;

/* ---- attention: the descriptor ------------------------------------------------------------ */

/* The `offset` of causal, window and ALiBi: query i stands at key position i + offset. */
typedef enum gpu_mha_offset_kind {
    GPU_MHA_TOP_LEFT = 0,     /* 0 */
    GPU_MHA_BOTTOM_RIGHT = 1, /* NT - NQ, or length[b] - NQ with key lengths */
    GPU_MHA_OFFSET = 2        /* the field `offset`, any sign */
} gpu_mha_offset_kind;

typedef enum gpu_mha_alibi {
    GPU_MHA_ALIBI_NONE = 0,
    GPU_MHA_ALIBI_AUTO = 1,  /* the published slopes for H heads (see gpu_mha_alibi_slopes) */
    GPU_MHA_ALIBI_SLOPES = 2 /* the caller's, (H) */
} gpu_mha_alibi;

typedef enum gpu_mha_weights {
    GPU_MHA_WEIGHTS_NONE = 0,
    GPU_MHA_WEIGHTS_PER_HEAD = 1, /* (B, H, NQ, NT) */
    GPU_MHA_WEIGHTS_AVERAGED = 2  /* (B, NQ, NT), mean over heads */
} gpu_mha_weights;

/* The scores (B, H, NQ, NT) as they stand after a step of the list above. */
typedef enum gpu_mha_scores {
    GPU_MHA_SCORES_NONE = 0,
    GPU_MHA_SCORES_RAW = 1,    /* step 1: scaled products, every key, hidden or not */
    GPU_MHA_SCORES_CAPPED = 2, /* step 2, every key */
    GPU_MHA_SCORES_MASKED = 3, /* step 4: biased; -inf where hidden */
    GPU_MHA_SCORES_SOFTMAX = 4 /* step 5, before dropout; 0 where hidden */
} gpu_mha_scores;

typedef enum gpu_mha_method {
    GPU_MHA_AUTO = 0,  /* fused unless weights or scores are asked for */
    GPU_MHA_FUSED = 1, /* online softmax; workspace does not grow with NQ * NT */
    GPU_MHA_STAGED = 2 /* scores, softmax, weighted sum; workspace 4 B H NQ NT bytes and more */
} gpu_mha_method;

/*
 * One attention problem. B, NQ, NK, NP may be 0 (nothing is computed, or no key is there);
 * H, HKV, DK, DV are at least 1 and H is a multiple of HKV.
 */
typedef struct gpu_mha_desc {
    size_t struct_size;
    int64_t B, H, HKV, NQ, NK, NP, DK, DV;

    gpu_mha_tensor query;      /* (B, H, NQ, DK) */
    gpu_mha_tensor key;        /* (B, HKV, NK, DK) */
    gpu_mha_tensor value;      /* (B, HKV, NK, DV) */
    gpu_mha_tensor past_key;   /* (B, HKV, NP, DK), used if NP > 0 */
    gpu_mha_tensor past_value; /* (B, HKV, NP, DV), used if NP > 0 */
    gpu_mha_tensor output;     /* (B, H, NQ, DV) */

    int has_scale; /* 0: scale = 1 / sqrt(DK); 1: `scale`, literally, 0 and negative included */
    float scale;   /* finite */
    float softcap; /* 0: none; > 0 and finite */

    gpu_mha_mask mask;              /* GPU_MHA_MASK_NONE or _BOOL */
    gpu_mha_mask bias;              /* GPU_MHA_MASK_NONE or a float type */
    gpu_mha_index_type key_lengths; /* (B), 0 <= length <= NT: keys from there on are hidden */

    int causal; /* 1: key j is visible to query i iff j <= i + offset */
    gpu_mha_offset_kind offset_kind;
    int64_t offset;                    /* with GPU_MHA_OFFSET, else 0; |offset| <= 2^40 */
    int has_window;                    /* 1: visible iff i + offset - window_left <= j */
    int64_t window_left, window_right; /*    and j <= i + offset + window_right; -1: unbounded */

    gpu_mha_alibi alibi;
    int sinks; /* 1: one extra logit per head, (H), in the softmax but without a value */

    float dropout;         /* p, 0 <= p < 1; 0: none */
    uint64_t dropout_seed; /* key of Philox4x32-10 (Salmon et al. 2011); the draw for (b, h, i, j)
                              is word j % 4 of counter (j / 4, i, low and high half of b * H + h);
                              kept iff it is >= floor(p * 2^32) */

    int lse;                 /* 1: write LSE (B, H, NQ) */
    gpu_mha_weights weights; /* after dropout */
    gpu_mha_scores scores;
    gpu_mha_method method; /* GPU_MHA_FUSED is refused together with weights or scores */
} gpu_mha_desc;

/*
 * Sets desc->mask (type GPU_MHA_MASK_BOOL) or desc->bias (a float type) for an array of `rank` axes
 * (0 to 4), packed, aligned to the right with (B, H, NQ, NT): rank 1 is (k), 2 is (q, k), 3 is
 * (heads, q, k). Each axis is the full size or 1. The sizes in `desc` must be set before. A padding
 * mask, one row of keys per batch entry, is (B, 1, 1, NT); or give key_lengths instead.
 */
GPU_MHA_API gpu_mha_status gpu_mha_mask_broadcast(gpu_mha_desc *desc, gpu_mha_mask_type type,
                                                  int rank, const int64_t *shape);

/* Checks a descriptor without any device: what gpu_mha_plan_create refuses as GPU_MHA_INVALID. */
GPU_MHA_API gpu_mha_status gpu_mha_desc_check(const gpu_mha_desc *desc);

/*
 * The published ALiBi slopes of H heads (Press et al. 2022, arXiv:2108.12409, and its reference
 * code for head counts that are no power of two). H >= 1; slopes has room for H.
 */
GPU_MHA_API gpu_mha_status gpu_mha_alibi_slopes(int64_t H, float *slopes);

/* ---- attention: one blocking call on host memory ------------------------------------------ */

/*
 * Host arrays for gpu_mha(). Each points at element (0, 0, 0, 0) of its tensor. Owned by the
 * caller; inputs are only read, and only the rows that the descriptor names are read or written.
 * All inputs are read before an output is written, so an output may lie over an input.
 * An array that the descriptor does not ask for must be NULL; one that has no element may be.
 */
typedef struct gpu_mha_arrays {
    size_t struct_size;
    const void *query, *key, *value, *past_key, *past_value;
    const void *mask;          /* bytes, as desc->mask */
    const void *bias;          /* as desc->bias */
    const void *key_lengths;   /* (B) int32_t or int64_t; out of range is refused */
    const float *alibi_slopes; /* (H) */
    const float *sinks;        /* (H) */
    void *output;
    float *lse;     /* (B, H, NQ) packed */
    float *weights; /* packed, shape as in gpu_mha_weights */
    float *scores;  /* (B, H, NQ, NT) packed */
} gpu_mha_arrays;

/*
 * Computes one attention on host memory: copies in, computes, copies out, returns when done.
 * `context` NULL: a context that the library makes on first use as gpu_mha_context_create(NULL)
 * does and keeps to the end of the process. For all blocking calls, those of the other operations
 * too, the context keeps what it made ready for the latest 16 descriptors: a call in a loop
 * prepares nothing anew.
 */
GPU_MHA_API gpu_mha_status gpu_mha(gpu_mha_context *context, const gpu_mha_desc *desc,
                                   const gpu_mha_arrays *arrays);

/* ---- attention: plans and the caller's queues --------------------------------------------- */

/* A problem made ready for one device: kernels built, launches laid out. Immutable, counted. */
typedef struct gpu_mha_plan gpu_mha_plan;

/*
 * `context` NULL: the default one, as in gpu_mha().
 * GPU_MHA_INVALID: the descriptor is wrong (see gpu_mha_desc_check). GPU_MHA_UNSUPPORTED: right,
 * but over a limit of this device, which the message names. Compiles kernels that the context has
 * not yet built: milliseconds to seconds.
 */
GPU_MHA_API gpu_mha_status gpu_mha_plan_create(gpu_mha_context *context, const gpu_mha_desc *desc,
                                               gpu_mha_plan **plan);

/* References; a plan may be released while work it enqueued still runs. Release takes NULL. */
GPU_MHA_API gpu_mha_status gpu_mha_plan_retain(gpu_mha_plan *plan);
GPU_MHA_API void gpu_mha_plan_release(gpu_mha_plan *plan);

/* Bytes of device memory that one run needs at buffers.workspace; 0 if none, and for NULL. */
GPU_MHA_API size_t gpu_mha_plan_workspace_bytes(const gpu_mha_plan *plan);

/* Which kernels a plan runs, e.g. "fused 12x16", "decode 4x16 split 4"; lives as long as the plan.
 */
GPU_MHA_API const char *gpu_mha_plan_text(const gpu_mha_plan *plan);

/* A buffer and the element at which a tensor's (0, 0, 0, 0) lies. Alignment of the type only. */
typedef struct gpu_mha_buffer {
    cl_mem mem;
    uint64_t offset;
} gpu_mha_buffer;

/*
 * The same as a variant (see "verdicts"), e.g. "fused 12,16,1,16"; "" for what is no attention, or
 * computes nothing. Lives as long as the plan. Where a built kernel needs more than the device has,
 * it is another one than was asked for.
 */
GPU_MHA_API const char *gpu_mha_plan_variant(const gpu_mha_plan *plan);

/*
 * Device buffers of one run, of the plan's OpenCL context; the same fields as gpu_mha_arrays.
 * `workspace.offset` counts bytes and is a multiple of 128. The caller owns the buffers and keeps
 * them until the event is complete. Outputs that overlap each other, an input or the workspace are
 * refused; the output's rows may be interleaved with those of an input. Runs that may overlap in
 * time need a workspace each.
 */
typedef struct gpu_mha_buffers {
    size_t struct_size;
    gpu_mha_buffer query, key, value, past_key, past_value;
    gpu_mha_buffer mask, bias;
    gpu_mha_buffer key_lengths; /* read on the device: clamped to 0 .. NT */
    gpu_mha_buffer alibi_slopes, sinks;
    gpu_mha_buffer output, lse, weights, scores;
    gpu_mha_buffer workspace;
} gpu_mha_buffers;

/*
 * Puts one run on `queue` (in-order or out-of-order, same OpenCL context and device as the plan)
 * and returns without waiting. Work starts after `wait` (NULL if and only if wait_count is 0).
 * `event`, if not NULL, receives an event on success, always: it completes with the last command
 * and the caller releases it. Nothing is allocated on the device. Buffers too small for their
 * strides are refused. On failure `*event` is NULL, and commands already put on the queue write at
 * most the workspace and the outputs. An event of `wait` that ends with an error makes `*event` end
 * with one, and the outputs are undefined; one that has done so before the call is refused with
 * GPU_MHA_OPENCL and CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST. (PoCL 3.1 aborts the process
 * when two commands fail in a row.)
 */
GPU_MHA_API gpu_mha_status gpu_mha_enqueue(gpu_mha_plan *plan, cl_command_queue queue,
                                           const gpu_mha_buffers *buffers, cl_uint wait_count,
                                           const cl_event *wait, cl_event *event);

/* ---- merge of two partial results --------------------------------------------------------- */

/*
 * Attention over two disjoint sets of keys, merged exactly from (output, LSE) of each:
 *   m = max(lse_a, lse_b), lse = m + ln(exp(lse_a - m) + exp(lse_b - m)),
 *   o = o_a exp(lse_a - lse) + o_b exp(lse_b - lse).
 * (0, -inf) is the identity: the other side comes through bit for bit. Both -inf: (0, -inf).
 * Sinks belong to one side only. B, NQ may be 0; H, DV >= 1.
 */
typedef struct gpu_mha_merge_desc {
    size_t struct_size;
    int64_t B, H, NQ, DV;
    gpu_mha_tensor a, b, output; /* (B, H, NQ, DV) */
} gpu_mha_merge_desc;

/* `output`, `lse` may be the very buffer, offset, type and layout of a side: merged in place. */
typedef struct gpu_mha_merge_buffers {
    size_t struct_size;
    gpu_mha_buffer a, lse_a, b, lse_b; /* LSE: (B, H, NQ) packed, float */
    gpu_mha_buffer output, lse;
} gpu_mha_merge_buffers;

typedef struct gpu_mha_merge_arrays {
    size_t struct_size;
    const void *a;
    const float *lse_a;
    const void *b;
    const float *lse_b;
    void *output;
    float *lse;
} gpu_mha_merge_arrays;

GPU_MHA_API gpu_mha_status gpu_mha_merge(gpu_mha_context *context, const gpu_mha_merge_desc *desc,
                                         const gpu_mha_merge_arrays *arrays);
GPU_MHA_API gpu_mha_status gpu_mha_merge_plan_create(gpu_mha_context *context,
                                                     const gpu_mha_merge_desc *desc,
                                                     gpu_mha_plan **plan);
GPU_MHA_API gpu_mha_status gpu_mha_merge_enqueue(gpu_mha_plan *plan, cl_command_queue queue,
                                                 const gpu_mha_merge_buffers *buffers,
                                                 cl_uint wait_count, const cl_event *wait,
                                                 cl_event *event);

/* ---- rotary embedding --------------------------------------------------------------------- */

/*
 * ONNX RotaryEmbedding (opset 23; Su et al. 2021, arXiv:2104.09864). The first R elements of a row
 * are rotated in pairs, the rest are copied:
 *   x1' = cos * x1 - sin * x2,  x2' = sin * x1 + cos * x2
 * where pair r is (r, r + R/2), or (2r, 2r + 1) if interleaved, 0 <= r < R/2. cos and sin are
 * (P, R/2), row = positions[b][n], or without positions (B, N, R/2). R is even, R = 0 means D.
 */
typedef struct gpu_mha_rotary_desc {
    size_t struct_size;
    int64_t B, H, N, D;
    int64_t R;
    int interleaved;
    gpu_mha_index_type positions; /* (B, N): 0 <= position < P */
    int64_t P;                    /* rows of cos and sin with positions, else 0 */
    gpu_mha_type cache_type;      /* of cos and sin */
    gpu_mha_tensor input, output; /* (B, H, N, D) */
} gpu_mha_rotary_desc;

/* `output` may be the very buffer, offset, type and layout of `input`: rotated in place. */
typedef struct gpu_mha_rotary_buffers {
    size_t struct_size;
    gpu_mha_buffer input, cos, sin;
    gpu_mha_buffer positions; /* read on the device: clamped to 0 .. P - 1 */
    gpu_mha_buffer output;
} gpu_mha_rotary_buffers;

typedef struct gpu_mha_rotary_arrays {
    size_t struct_size;
    const void *input, *cos, *sin;
    const void *positions; /* out of range is refused */
    void *output;
} gpu_mha_rotary_arrays;

GPU_MHA_API gpu_mha_status gpu_mha_rotary(gpu_mha_context *context, const gpu_mha_rotary_desc *desc,
                                          const gpu_mha_rotary_arrays *arrays);
GPU_MHA_API gpu_mha_status gpu_mha_rotary_plan_create(gpu_mha_context *context,
                                                      const gpu_mha_rotary_desc *desc,
                                                      gpu_mha_plan **plan);
GPU_MHA_API gpu_mha_status gpu_mha_rotary_enqueue(gpu_mha_plan *plan, cl_command_queue queue,
                                                  const gpu_mha_rotary_buffers *buffers,
                                                  cl_uint wait_count, const cl_event *wait,
                                                  cl_event *event);

/* ---- cache update ------------------------------------------------------------------------- */

/*
 * ONNX TensorScatter (opset 24), in place: row n of `update` goes to row w of `cache`,
 *   linear:   w = index[b] + n, which must be < NC
 *   circular: w = (index[b] + n) mod NC
 * Rows not written stay as they are. index[b] = 0 without indices. N <= NC.
 */
typedef struct gpu_mha_cache_desc {
    size_t struct_size;
    int64_t B, H, D;
    int64_t N;  /* rows of update */
    int64_t NC; /* rows of cache, its capacity; >= 1 unless N is 0 */
    int circular;
    gpu_mha_index_type indices; /* (B): 0 <= index, linear: index <= NC - N, circular: < NC */
    gpu_mha_tensor update;      /* (B, H, N, D) */
    gpu_mha_tensor cache;       /* (B, H, NC, D), converted to its type */
} gpu_mha_cache_desc;

typedef struct gpu_mha_cache_buffers {
    size_t struct_size;
    gpu_mha_buffer update;
    gpu_mha_buffer indices; /* read on the device: rows that fall outside are left out */
    gpu_mha_buffer cache;
} gpu_mha_cache_buffers;

typedef struct gpu_mha_cache_arrays {
    size_t struct_size;
    const void *update;
    const void *indices; /* out of range is refused */
    void *cache;
} gpu_mha_cache_arrays;

GPU_MHA_API gpu_mha_status gpu_mha_cache_update(gpu_mha_context *context,
                                                const gpu_mha_cache_desc *desc,
                                                const gpu_mha_cache_arrays *arrays);
GPU_MHA_API gpu_mha_status gpu_mha_cache_plan_create(gpu_mha_context *context,
                                                     const gpu_mha_cache_desc *desc,
                                                     gpu_mha_plan **plan);
GPU_MHA_API gpu_mha_status gpu_mha_cache_enqueue(gpu_mha_plan *plan, cl_command_queue queue,
                                                 const gpu_mha_cache_buffers *buffers,
                                                 cl_uint wait_count, const cl_event *wait,
                                                 cl_event *event);

/* ---- layer -------------------------------------------------------------------------------- */

/*
 * A whole attention layer (Vaswani et al. 2017, arXiv:1706.03762):
 *   Q = query_input Wq^T + bq,  K = key_input Wk^T + bk,  V = value_input Wv^T + bv,
 *   output = attention(Q, K, V) Wo^T + bo.
 * Self-attention passes one sequence three times; cross-attention passes the decoder's state as
 * query_input and the encoder's output as key_input and value_input. Weights are (out, in) row
 * major, as torch.nn.Linear stores them; row h * D + d of Wq, Wk, Wv makes element d of head h, and
 * column h * DV + d of Wo takes it. Inputs and output are packed (B, N, width).
 *
 * packed_qkv = 1: one weight (H*DK + HKV*DK + HKV*DV, EQ), rows of Q, then K, then V, and one
 * bias of the same order; then EQ = EK = EV. The products run in single precision: on a CPU device
 * in a kernel of the library's, elsewhere through CLBlast, unless gpu_mha_tune_product() found the
 * other one faster there.
 */
typedef struct gpu_mha_layer_desc {
    size_t struct_size;
    /* The attention inside; borrowed during the call, so a plan does not need it any more. The
     * fields query, key, value and output give only a type: the type of query_input, key_input,
     * value_input and of the output; their layout and strides are 0. NP is 0. */
    const gpu_mha_desc *attention;
    int64_t EQ, EK, EV;       /* widths of query_input, key_input, value_input; >= 1 */
    int64_t EO;               /* width of the output; >= 1 */
    gpu_mha_type weight_type; /* of all weights and biases */
    int packed_qkv;
    int bias_q, bias_k, bias_v, bias_out; /* 1: there is one; packed_qkv: all of q, k, v or none */
} gpu_mha_layer_desc;

/* Fields of the attention inside have the meaning they have in gpu_mha_buffers. */
typedef struct gpu_mha_layer_buffers {
    size_t struct_size;
    gpu_mha_buffer query_input;                      /* (B, NQ, EQ) */
    gpu_mha_buffer key_input;                        /* (B, NK, EK) */
    gpu_mha_buffer value_input;                      /* (B, NK, EV) */
    gpu_mha_buffer weight_q;                         /* (H*DK, EQ); packed_qkv: all three */
    gpu_mha_buffer weight_k;                         /* (HKV*DK, EK) */
    gpu_mha_buffer weight_v;                         /* (HKV*DV, EV) */
    gpu_mha_buffer weight_out;                       /* (EO, H*DV) */
    gpu_mha_buffer bias_q, bias_k, bias_v, bias_out; /* packed_qkv: bias_q has all three */
    gpu_mha_buffer mask, bias, key_lengths, alibi_slopes, sinks;
    gpu_mha_buffer output; /* (B, NQ, EO) */
    gpu_mha_buffer lse, weights, scores;
    gpu_mha_buffer workspace;
} gpu_mha_layer_buffers;

typedef struct gpu_mha_layer_arrays {
    size_t struct_size;
    const void *query_input, *key_input, *value_input;
    const void *weight_q, *weight_k, *weight_v, *weight_out;
    const void *bias_q, *bias_k, *bias_v, *bias_out;
    const void *mask, *bias, *key_lengths;
    const float *alibi_slopes, *sinks;
    void *output;
    float *lse, *weights, *scores;
} gpu_mha_layer_arrays;

GPU_MHA_API gpu_mha_status gpu_mha_layer(gpu_mha_context *context, const gpu_mha_layer_desc *desc,
                                         const gpu_mha_layer_arrays *arrays);
GPU_MHA_API gpu_mha_status gpu_mha_layer_plan_create(gpu_mha_context *context,
                                                     const gpu_mha_layer_desc *desc,
                                                     gpu_mha_plan **plan);

/*
 * As gpu_mha_enqueue. Where CLBlast makes the products: version 1.5 knows no wait lists, so on an
 * out-of-order queue a barrier stands in front of each, which also orders other commands of that
 * queue.
 */
GPU_MHA_API gpu_mha_status gpu_mha_layer_enqueue(gpu_mha_plan *plan, cl_command_queue queue,
                                                 const gpu_mha_layer_buffers *buffers,
                                                 cl_uint wait_count, const cl_event *wait,
                                                 cl_event *event);

/* ---- tuning ------------------------------------------------------------------------------- */

/*
 * One attention can run in several shapes (tile sizes, and on GPUs more), and a matrix product of
 * the layer in one of several implementations. All keep the bounds at the top; which is fastest
 * depends on the device. Without measurement a table in the library decides, by kind of device.
 *
 * A measured winner holds for a kind of problem: few or many queries, or many short
 * sequences, the head sizes and the storage of the keys as they stand in its name, e.g. "prefill
 * dk64 dv64 f32", as far as the table has the same shape for it as for the problem that was
 * measured; and for all products in "product". It is kept in a file of the caches' directory (see
 * "Caches"), one for each device. The file serves the very library version, device, driver and
 * platform that it was made with. One that is damaged, foreign, or names what is no shape is passed
 * over with a line of level warn that says why, a shape that the device or the problem at hand
 * cannot run with one of level info; neither is ever an error. Deleting it is safe at any time.
 *
 * A context reads the file when it first needs it. Plans keep the shape that they were made with,
 * so a plan's results never change by tuning. What the blocking calls made ready is dropped, and
 * their next call takes the winner: its bits may differ, within the bound.
 *
 * GPU_MHA_TILE overrides both table and file, so nothing can be tuned while it is set.
 */

typedef enum gpu_mha_tune_state {
    GPU_MHA_TUNE_BUILDING =
        0,                    /* the candidate is being built, checked and run for the first time */
    GPU_MHA_TUNE_DROPPED = 1, /* it is out: see reason */
    GPU_MHA_TUNE_TIMING = 2,  /* a round of measurement begins: see round */
    GPU_MHA_TUNE_MEASURED = 3 /* see median_ms */
} gpu_mha_tune_state;

/* Strings belong to the library and are valid during the call. */
typedef struct gpu_mha_tune_progress {
    size_t struct_size; /* what the library knows */
    gpu_mha_tune_state state;
    const char *kind;      /* of problem */
    const char *candidate; /* as GPU_MHA_TILE takes it, or the name of an implementation; "" with
                              GPU_MHA_TUNE_TIMING, which is about all of them */
    int index, count;      /* 0 <= index < count; candidate 0 is the library's own choice */
    int round, rounds;     /* 0 <= round < rounds */
    double median_ms;
    const char *reason; /* one sentence */
} gpu_mha_tune_progress;

/* Called by the thread that tunes. It must not use the context that is tuned. */
typedef void (*gpu_mha_tune_fn)(void *user, const gpu_mha_tune_progress *progress);

typedef struct gpu_mha_tune_options {
    size_t struct_size;
    double seconds;           /* that each candidate runs, about; 0 < seconds <= 60; 0: 0.5 */
    int dry_run;              /* 1: the winner is told, but neither used nor kept */
    gpu_mha_tune_fn progress; /* may be NULL */
    void *user;               /* handed to progress */
} gpu_mha_tune_options;

/* The caller sets struct_size (or leaves it 0). */
typedef struct gpu_mha_tune_result {
    size_t struct_size;
    char kind[64];
    char default_text[64], winner[64]; /* candidates, as in gpu_mha_tune_progress */
    double default_ms, winner_ms;      /* medians of one run */
    int count, dropped;                /* candidates, and how many were dropped */
    int kept; /* 1: the winner stands in gpu_mha_tuning_file(); 0: it holds for this context alone,
                 and the log says why, or dry_run is 1 */
} gpu_mha_tune_result;

/*
 * Measures what `desc` can be run with on the context's device and keeps the winner for its kind of
 * problem. `context` NULL: the default one, as in gpu_mha(). `options` and `result` may be NULL.
 *
 * Inputs, masks and biases are made here, random and never all zero, as many sets as it takes to
 * leave the caches behind; key lengths are full. Each candidate is built, its result compared with
 * the default's within twice the bound at the top, and timed: rounds in which all take turns,
 * medians of the time of a run. One that does not build, fails or differs is dropped, and so is one
 * whose runs are long and take three times the best one's time. The default stays the winner unless
 * another one is at least 2% faster, and faster in three of four rounds.
 *
 * Blocks: for seconds, and as long as the driver needs to build, which may be minutes. Other work
 * on the device makes the measurement worthless. Device memory: inputs, output and workspace of
 * `desc`, at most an eighth of the device's memory more.
 *
 * GPU_MHA_INVALID: the descriptor or the options are wrong, it has no query or no key, or
 * GPU_MHA_TILE is set. GPU_MHA_UNSUPPORTED: the problem leaves no choice (weights, scores and
 * GPU_MHA_STAGED), or is over a limit of the device. Other failures are those of the default's
 * plan and runs; then nothing was changed.
 */
GPU_MHA_API gpu_mha_status gpu_mha_tune(gpu_mha_context *context, const gpu_mha_desc *desc,
                                        const gpu_mha_tune_options *options,
                                        gpu_mha_tune_result *result);

/*
 * The same for the products of gpu_mha_layer(): (M, K) by (K, N), each 1 to 2^20; the winner is
 * for products of any shape. CLBlast compiles in its first use, which may take some ten seconds.
 */
GPU_MHA_API gpu_mha_status gpu_mha_tune_product(gpu_mha_context *context, int64_t M, int64_t N,
                                                int64_t K, const gpu_mha_tune_options *options,
                                                gpu_mha_tune_result *result);

typedef enum gpu_mha_choice_source {
    GPU_MHA_CHOICE_DEFAULT = 0,     /* the library's table */
    GPU_MHA_CHOICE_TUNED = 1,       /* measured on this device */
    GPU_MHA_CHOICE_ENVIRONMENT = 2, /* GPU_MHA_TILE */
    GPU_MHA_CHOICE_AVOIDING = 3     /* the table without what gpu-mha doctor found to fail; "staged"
                                       where     none of the fused kernels is left */
} gpu_mha_choice_source;

/* The caller sets struct_size (or leaves it 0). */
typedef struct gpu_mha_choice {
    size_t struct_size;
    gpu_mha_choice_source source;
    char kind[64], text[64]; /* of problem, and what would run it, as in gpu_mha_tune_progress */
    double median_ms;        /* as measured with GPU_MHA_CHOICE_TUNED, for the problem of then */
} gpu_mha_choice;

/*
 * What a plan for `desc` would run on the context's device if it were made now. Builds nothing.
 * `desc` NULL: the products of gpu_mha_layer(). Errors as gpu_mha_plan_create; a problem that
 * leaves no choice has the text "staged".
 */
GPU_MHA_API gpu_mha_status gpu_mha_choice_get(gpu_mha_context *context, const gpu_mha_desc *desc,
                                              gpu_mha_choice *choice);

/*
 * The path of the context's tuning file, whether it is there or not; "" if nothing is kept (see
 * "Caches"), and for a NULL context. Lives as long as the context.
 */
GPU_MHA_API const char *gpu_mha_tuning_file(const gpu_mha_context *context);

/* ---- verdicts ----------------------------------------------------------------------------- */

/*
 * A driver may compute wrong, refuse to build, crash or hang, in one of the library's kernels and
 * not in the next. `gpu-mha doctor` tries every variant that the library has for a device, each in
 * a process of its own, and leaves its verdicts here. From then on the library does not choose what
 * was wrong, failed, crashed or hung: it takes another shape of the fused kernels, where none is
 * left and the method is GPU_MHA_AUTO the staged ones, another implementation of a product; and
 * where nothing is left, it refuses with GPU_MHA_UNSUPPORTED and a sentence that names gpu-mha
 * doctor. What is avoided and what is taken for it stands in the log, level info. A shape that is
 * asked for by GPU_MHA_TILE is taken all the same, with a line of level warn.
 *
 * A verdict is for a variant and a storage type; one on f32 counts for every type. Verdicts are
 * kept in a file of the caches' directory (see "Caches"), one for each device, written aside and
 * renamed. It serves the very kernels, library version, device, driver and platform that were
 * tried, so a new driver starts without verdicts. One that is damaged or foreign is passed over
 * with a line of level warn; that is never an error, and deleting it is safe at any time. A context
 * reads it when it first needs it.
 */

typedef enum gpu_mha_verdict {
    GPU_MHA_VERDICT_NONE = 0,    /* not tried */
    GPU_MHA_VERDICT_OK = 1,      /* within the bound at the top */
    GPU_MHA_VERDICT_REFUSED = 2, /* over a limit of the device, as the library itself says */
    GPU_MHA_VERDICT_WRONG = 3,   /* this one and those below are avoided */
    GPU_MHA_VERDICT_FAILED = 4,  /* a call failed: it did not build, or not run */
    GPU_MHA_VERDICT_CRASHED = 5, /* the process ended */
    GPU_MHA_VERDICT_HUNG = 6     /* the process had to be ended */
} gpu_mha_verdict;

/* A fixed word for a verdict, "wrong"; "unknown verdict" for anything else. Never NULL. */
GPU_MHA_API const char *gpu_mha_verdict_text(gpu_mha_verdict verdict);

/* A variant as it can be asked for. The caller sets struct_size (or leaves it 0). */
typedef struct gpu_mha_variant_info {
    size_t struct_size;
    char name[64];         /* "shared 8,16,4,4,16,1,0,0", "staged 12,16,1,16", "merge", ... */
    char tile[64];         /* of an attention: what to set GPU_MHA_TILE to; else "" */
    gpu_mha_method method; /* of an attention: GPU_MHA_FUSED or GPU_MHA_STAGED; else GPU_MHA_AUTO */
    unsigned types;        /* storage types that it has verdicts for: bit 1 << gpu_mha_type */
    gpu_mha_verdict verdicts[3]; /* by gpu_mha_type, as they stand now */
} gpu_mha_variant_info;

/*
 * The variants that the library has for the context's device, 0 <= index < count; the layer, which
 * is made of others, comes last. On a CPU device those for GPUs are represented by their smallest.
 * `context` NULL: the default one. GPU_MHA_INVALID: a NULL pointer, or an index that is too large.
 */
GPU_MHA_API gpu_mha_status gpu_mha_variant_count(gpu_mha_context *context, size_t *count);
GPU_MHA_API gpu_mha_status gpu_mha_variant_get(gpu_mha_context *context, size_t index,
                                               gpu_mha_variant_info *info);

/*
 * Sets the verdict of a variant for one storage type, in this context at once and in the file for
 * those that come. *kept (may be NULL): 1 if it stands in the file; 0 if it holds for this context
 * alone, and the log says why. Plans keep what they were made with; what the blocking calls made
 * ready is dropped. `name` is copied; one that the library does not have is kept and does nothing.
 * GPU_MHA_INVALID: the name is NULL, empty, not printable ASCII or over 57 bytes, or type or
 * verdict is none of theirs.
 */
GPU_MHA_API gpu_mha_status gpu_mha_verdict_set(gpu_mha_context *context, const char *name,
                                               gpu_mha_type type, gpu_mha_verdict verdict,
                                               int *kept);

/* The verdict as it stands; GPU_MHA_VERDICT_NONE for a name that has none. */
GPU_MHA_API gpu_mha_status gpu_mha_verdict_get(gpu_mha_context *context, const char *name,
                                               gpu_mha_type type, gpu_mha_verdict *verdict);

/*
 * Forgets all verdicts of the context's device and takes the file away; nothing is avoided then.
 * GPU_MHA_INVALID: the file cannot be taken away; this context has forgotten them all the same.
 */
GPU_MHA_API gpu_mha_status gpu_mha_verdict_forget(gpu_mha_context *context);

/*
 * The path of the context's file of verdicts, whether it is there or not; "" if nothing is kept
 * (see "Caches"), and for a NULL context. Lives as long as the context.
 */
GPU_MHA_API const char *gpu_mha_verdict_file(const gpu_mha_context *context);

#ifdef __cplusplus
}
#endif

#endif
