#!/bin/sh
# Every kernel that the library would build, as SPIR-V 1.0, must be valid for OpenCL 1.2.
#   spirv.sh CHOICES
# CHOICES is the program built from choices.c. Kernels with sub-groups are left out: they are more
# than OpenCL 1.2. Exit code 77: a tool is missing.
set -eu

choices=$1
for tool in clang-15 llvm-spirv-15 spirv-val; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "SKIPPED: no $tool (tests/offline/setup.sh installs it)" >&2
        exit 77
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

"$choices" "$work"
cut -f 3- "$work/builds.tsv" | sort -u >"$work/jobs"
valid=0
left_out=0
while IFS='	' read -r source options; do
    case $options in
    *SUB_GROUP=1*)
        left_out=$((left_out + 1))
        continue
        ;;
    esac
    # Splitting is wanted: the options are many.
    # shellcheck disable=SC2086
    clang-15 -x cl -target spir64 -O0 -Xclang -disable-O0-optnone -Xclang -finclude-default-header \
        -D __OPENCL_VERSION__=120 $options -emit-llvm -c -o "$work/kernel.bc" "$work/$source"
    llvm-spirv-15 --spirv-max-version=1.0 "$work/kernel.bc" -o "$work/kernel.spv"
    if ! spirv-val --target-env opencl1.2 "$work/kernel.spv"; then
        echo "FAIL: not valid with $options" >&2
        exit 1
    fi
    valid=$((valid + 1))
done <"$work/jobs"
echo "$valid builds are valid SPIR-V for OpenCL 1.2, $left_out with sub-groups left out"
