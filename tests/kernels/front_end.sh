#!/bin/sh
# A strict compiler front end over every kernel: OpenCL C 1.2 without warnings, and a missing
# definition is an error that names it.
#   front_end.sh KERNELS_DIR CHOICES
# CHOICES (tests/offline/choices.c) says what the library builds on each kind of device, by its
# own choice and for tiles chosen by hand. Kernels that no plan of it makes are given definitions
# here. Exit code 77: no clang here.
set -eu

kernels=$1
choices=$2
compiler=
for candidate in "${CLANG:-}" clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1; then
        compiler=$candidate
        break
    fi
done
if [ -z "$compiler" ]; then
    echo "SKIPPED: no clang on this machine" >&2
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# compile FILE OPTION...; __OPENCL_VERSION__ is what drivers define and a bare compiler does not.
# Functions of headers that have been written out in a source look unused. The target spir64 is one
# that may have sub-groups; its headers declare them where a definition says so.
compile() {
    file=$1
    shift
    "$compiler" -x cl -target spir64 -cl-std=CL1.2 -Xclang -finclude-default-header -fsyntax-only \
        -D __OPENCL_VERSION__=120 -D cl_khr_subgroups=1 -Wall -Wextra -Wdouble-promotion \
        -Wshadow -Wno-unused-function -Werror \
        -I "$kernels" "$@" "$file"
}

for tile in '' '12,16,1,16' '12,16,2,8' '6,8,2,16' '6,4,2,32' '4,16,2,8' '1,4,2,2' '3,4,1,5' \
    'heads 12,16,1,16' 'heads 6,8,2,16' \
    'shared 8,16,8,4,16,2,1,0' 'shared 4,32,1,4,32,1,0,0' 'shared 2,4,2,8,64,8,0,0' \
    'rows 1,8,32' 'rows 2,4,16' 'rows 4,16,4'; do
    mkdir "$work/tile$tile"
    GPU_MHA_TILE=$tile "$choices" "$work/tile$tile"
done

# kernel_names FILE...: of a signature that may go over several lines
kernel_names() {
    cat "$@" | tr '\n' ' ' | grep -oE '__kernel[^{;]*\{' | sed -n 's/.*void \([a-z_0-9]*\)(.*/\1/p'
}

# Each source once with each set of options, whatever asked for it: check sum, options, path.
for list in "$work"/*/builds.tsv; do
    (
        cd "${list%/*}"
        cksum ./*.cl
        cat builds.tsv
    ) | awk -F '\t' -v directory="${list%/*}" '
        NF < 4 { split($0, word, " "); sum[word[3]] = word[1]; next }
        { print sum["./" $3] "\t" $4 "\t" directory "/" $3 }'
done | sort -t '	' -k 1,2 -u >"$work/jobs"
compiled=0
while IFS='	' read -r _ options path; do
    # Splitting is wanted: the options are many.
    # shellcheck disable=SC2086
    compile "$path" $options || {
        echo "FAIL: with $options" >&2
        exit 1
    }
    compiled=$((compiled + 1))
done <"$work/jobs"

# What only the layer and the command build.
for fma in 0 1; do
    for tile in '12 16 2 8' '6 8 2 16' '6 4 2 32' '1 4 2 2'; do
        # shellcheck disable=SC2086
        set -- $tile
        compile "$kernels/gemm.cl" -D MQ="$1" -D MR="$1" -D VEC="$2" -D NV="$3" -D TB="$4" \
            -D DK=1 -D DV=1 -D MHA_HAS_FMA="$fma"
        compiled=$((compiled + 1))
    done
    compile "$kernels/convert.cl" -D MHA_HAS_FMA="$fma"
    for lanes in 1 2 4 8 16; do
        compile "$kernels/bench/limits.cl" -D VEC="$lanes" -D CHAINS=8 -D HAS_FMA="$fma"
    done
    compiled=$((compiled + 6))
done

# No kernel is left out: each stands in a source that was compiled.
kernel_names "$work"/*/*.cl >"$work/compiled"
for file in "$kernels"/*.cl; do
    case ${file##*/} in
    gemm.cl | convert.cl) continue ;;
    esac
    for name in $(kernel_names "$file"); do
        if ! grep -qx "$name" "$work/compiled"; then
            echo "FAIL: no plan of $choices builds the kernel $name of ${file##*/}" >&2
            exit 1
        fi
    done
done

# Without its definitions a kernel says which it needs.
refused=0
for file in "$kernels"/*.cl; do
    case ${file##*/} in
    average_heads.cl | cache_update.cl | convert.cl | rotary.cl) continue ;; # need none
    esac
    if message=$(compile "$file" 2>&1); then
        echo "FAIL: ${file##*/} builds without its definitions" >&2
        exit 1
    fi
    case $message in
    *'must be defined'*) refused=$((refused + 1)) ;;
    *)
        echo "FAIL: ${file##*/} without definitions does not say what it needs" >&2
        exit 1
        ;;
    esac
done
echo "$compiled builds without a warning, $refused kernels say what they lack" \
    "($("$compiler" --version | head -n 1))"
