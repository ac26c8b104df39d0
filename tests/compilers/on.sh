#!/bin/sh
# Runs a command with another OpenCL runtime, or with PoCL driven another way:
#   on.sh RUNTIME COMMAND [ARGUMENT...]
#
#   rusticl        Mesa's rusticl on llvmpipe (Debian: mesa-opencl-icd)
#   intel          Intel's CPU runtime, from the folder that setup_intel_cpu.sh has made
#   oclgrind       the simulator, by oclgrind.sh: races, overruns, uninitialised reads, API checks
#   pocl-METHOD    PoCL with POCL_WORK_GROUP_METHOD=METHOD: loops, loopvec, workitemrepl, cbs, auto
#   pocl-DEVICE    PoCL's device `basic`, which has one thread, or `pthread`, its default
#
# The command sees no other platform. Exit code 77, and a line that says so: the runtime is not here,
# or does not know the method. Else the command's exit code.
set -eu

if [ $# -lt 2 ]; then
    echo "usage: on.sh RUNTIME COMMAND [ARGUMENT...]" >&2
    exit 2
fi
runtime=$1
shift
here=$(cd "$(dirname "$0")" && pwd)

skip() {
    echo "SKIPPED: $*" >&2
    exit 77
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# only_platform LIBRARY: the command sees that one. The loaders' variable names a folder.
only_platform() {
    mkdir "$work/vendors"
    echo "$1" >"$work/vendors/only.icd"
    export OCL_ICD_VENDORS="$work/vendors"
    unset GPU_MHA_DEVICE
}

# registered WORD: the library with that word in its name among those that the system has.
registered() {
    grep -h -i "$1" /etc/OpenCL/vendors/*.icd 2>/dev/null | head -n 1 || true
}

# with_pocl NAME COMMAND...: PoCL takes another method for one that it does not know, and says so
# among its messages alone.
with_pocl() {
    name=$1
    shift
    library=$(registered libpocl)
    [ -n "$library" ] || skip "PoCL is not installed (Debian: pocl-opencl-icd)"
    only_platform "$library"
    # A new cache: for a kernel that lies in one PoCL neither compiles nor says anything.
    export POCL_CACHE_DIR="$work/cache"
    mkdir "$POCL_CACHE_DIR"
    case $name in
    basic | pthread) export POCL_DEVICES="$name" ;;
    *) export POCL_WORK_GROUP_METHOD="$name" ;;
    esac
    status=0
    "$@" 2>"$work/messages" || status=$?
    if grep -q 'Unknown work group generation method' "$work/messages"; then
        skip "this PoCL has no work-group method '$name'"
    fi
    cat "$work/messages" >&2
    return "$status"
}

status=0
case $runtime in
pocl-*) with_pocl "${runtime#pocl-}" "$@" || status=$? ;;
rusticl)
    library=$(registered rusticl)
    [ -n "$library" ] || skip "rusticl is not installed (Debian: mesa-opencl-icd)"
    only_platform "$library"
    # It compiles in each clCreateKernel anew but for its cache, which is therefore on, and new.
    RUSTICL_ENABLE=llvmpipe MESA_SHADER_CACHE_DIR="$work" MESA_GLSL_CACHE_DIR="$work" "$@" ||
        status=$?
    ;;
intel)
    root=${GPU_MHA_INTEL_CPU:-$here/../../build/intel_cpu}
    [ -e "$root/lib/libintelocl.so" ] ||
        skip "Intel's CPU runtime is not in $root (sh tests/compilers/setup_intel_cpu.sh)"
    only_platform "$(cd "$root/lib" && pwd)/libintelocl.so"
    LD_LIBRARY_PATH="$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@" || status=$?
    ;;
oclgrind) sh "$here/../oclgrind.sh" "$@" || status=$? ;;
*)
    echo "on.sh: '$runtime' is no runtime that it knows" >&2
    status=2
    ;;
esac
exit "$status"
