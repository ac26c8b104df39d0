/* See words.h. */
#include "words.h"

#include <gpu_mha/gpu_mha.h>
#include <stddef.h>

const char *const mha_type_words[] = {
    [GPU_MHA_F32] = "f32", [GPU_MHA_F16] = "f16", [GPU_MHA_BF16] = "bf16", NULL};
const char *const mha_method_words[] = {
    [GPU_MHA_AUTO] = "auto", [GPU_MHA_FUSED] = "fused", [GPU_MHA_STAGED] = "staged", NULL};
