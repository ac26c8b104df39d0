#!/bin/sh
# A strict compiler front end over every kernel and every tile of the tuning table: OpenCL C 1.2
# without warnings, and a missing definition is an error that names it.
#   front_end.sh KERNELS_DIR
# Exit code 77: no clang here.
set -eu

kernels=$1
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

# compile FILE OPTION...
compile() {
    file=$1
    shift
    "$compiler" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -fsyntax-only \
        -Wall -Wextra -Wdouble-promotion -Wshadow -Werror -I "$kernels" "$@" "$file"
}

compiled=0
for file in "$kernels"/*.cl; do
    for tile in '12 16 2 8' '6 8 2 16' '6 4 2 32' '4 16 2 8' '1 4 2 2' '3 4 1 5'; do
        for heads in '64 64' '80 72' '257 1'; do
            for fma in 0 1; do
                # Splitting is wanted: a tile is four numbers, head sizes are two.
                # shellcheck disable=SC2086
                set -- $tile $heads
                compile "$file" -D MQ="$1" -D MR="$1" -D VEC="$2" -D NV="$3" -D TB="$4" \
                    -D DK="$5" -D DV="$6" -D MHA_HAS_FMA="$fma" \
                    -D KEY_TYPE=0 -D VALUE_TYPE=1 -D HEAD_KEYS=64 || exit 1
                compiled=$((compiled + 1))
            done
        done
    done
done

# Without its definitions a kernel says which it needs, where it needs any.
for stem in pack fused decode scores softmax weighted_sum merge gemm; do
    if message=$(compile "$kernels/$stem.cl" 2>&1); then
        echo "FAIL: $stem.cl builds without its definitions" >&2
        exit 1
    fi
    case $message in
    *'must be defined'*) ;;
    *)
        echo "FAIL: $stem.cl without definitions does not say what it needs" >&2
        exit 1
        ;;
    esac
done
echo "$compiled builds without a warning ($("$compiler" --version | head -n 1))"
