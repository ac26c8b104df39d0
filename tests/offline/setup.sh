#!/bin/sh
# Installs the offline compilers on Debian 12:  sh tests/offline/setup.sh
#
# NVIDIA's assembler ptxas is no part of Debian proper: nvidia-cuda-toolkit of its section non-free
# brings it, or any CUDA toolkit whose bin directory is on PATH. What is missing is named by
# registers.py and left out.
set -eu

packages="clang-15 libclc-15 rocm-device-libs intel-opencl-icd llvm-spirv-15 spirv-tools python3"
root=
if [ "$(id -u)" -ne 0 ]; then
    root=sudo
fi
$root apt-get update -qq
# shellcheck disable=SC2086
$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
if ! command -v ptxas >/dev/null 2>&1; then
    echo "setup: there is no ptxas on PATH; NVIDIA's targets will be skipped" >&2
fi
