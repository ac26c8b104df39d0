#!/bin/sh
# Events that fail, through Mesa's rusticl on llvmpipe.
#   rusticl.sh GPU_MHA_COMMAND TEST_PROGRAM
# Exit code 77: rusticl has no device here.
set -eu

export RUSTICL_ENABLE=llvmpipe GPU_MHA_DEVICE=llvmpipe
if ! "$1" info | grep -q 'llvmpipe'; then
    echo "SKIPPED: rusticl offers no llvmpipe device (Debian: mesa-opencl-icd)" >&2
    exit 77
fi
CK_RUN_CASE=failed "$2"
