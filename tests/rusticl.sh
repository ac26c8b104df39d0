#!/bin/sh
# A second, unrelated compiler: recorded cases through Mesa's rusticl on llvmpipe.
#   rusticl.sh GPU_MHA_COMMAND DATA_DIR
# Few head sizes: this compiler takes seconds for each, and its own cache is off so that they are
# really spent. Exit code 77: rusticl has no device here.
set -eu

command=$1
cases=$2/onnx

export RUSTICL_ENABLE=llvmpipe GPU_MHA_DEVICE=llvmpipe
export MESA_SHADER_CACHE_DISABLE=true MESA_GLSL_CACHE_DISABLE=true
if ! "$command" info | grep -q 'llvmpipe'; then
    echo "SKIPPED: rusticl offers no llvmpipe device (Debian: mesa-opencl-icd)" >&2
    exit 77
fi

"$command" verify \
    "$cases/attention_4d" \
    "$cases/attention_4d_causal" \
    "$cases/attention_4d_softcap" \
    "$cases/attention_4d_attn_mask_bool" \
    "$cases/attention_4d_with_past_and_present" \
    "$cases/attention_4d_with_qk_matmul_softmax" \
    "$cases/attention_local_window" \
    "$cases/rotary_embedding" \
    "$cases/tensorscatter"
