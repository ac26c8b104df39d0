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
    case $file in
    */shared.cl | */rows.cl) continue ;;
    esac
    for tile in '12 16 2 8' '6 8 2 16' '6 4 2 32' '4 16 2 8' '1 4 2 2' '3 4 1 5'; do
        for heads in '64 64' '80 72' '257 1'; do
            for fma in 0 1; do
                # Splitting is wanted: a tile is four numbers, head sizes are two.
                # shellcheck disable=SC2086
                set -- $tile $heads
                compile "$file" -D MQ="$1" -D MR="$1" -D VEC="$2" -D NV="$3" -D TB="$4" \
                    -D DK="$5" -D DV="$6" -D MHA_HAS_FMA="$fma" \
                    -D A_STRIDE=7 -D KEY_TYPE=0 -D VALUE_TYPE=1 || exit 1
                compiled=$((compiled + 1))
            done
        done
    done
done

# The kernels for GPUs have shapes of their own.
for heads in '64 64 0 0' '80 72 1 3' '257 1 2 2'; do
    for fma in 0 1; do
        for shape in '8 16 8 4 16 2 1' '4 32 1 4 32 1 0' '2 4 2 8 64 8 0'; do
            # shellcheck disable=SC2086
            set -- $shape $heads
            compile "$kernels/shared.cl" -D LR="$1" -D LC="$2" -D MQ="$3" -D NK="$4" -D DC="$5" \
                -D KC="$6" -D QUERY_LOCAL="$7" -D SUB_GROUP=0 -D DK="$8" -D DV="$9" \
                -D MHA_HAS_FMA="$fma" || exit 1
            compiled=$((compiled + 1))
        done
        for shape in '1 8 32' '2 4 16' '4 16 4'; do
            # shellcheck disable=SC2086
            set -- $shape $heads
            compile "$kernels/rows.cl" -D MQ="$1" -D NK="$2" -D NC="$3" -D DK="$4" -D DV="$5" \
                -D KEY_TYPE="$6" -D VALUE_TYPE="$7" -D MHA_HAS_FMA="$fma" || exit 1
            compiled=$((compiled + 1))
        done
    done
done

# Without its definitions a kernel says which it needs, where it needs any.
for stem in pack fused decode shared rows scores softmax weighted_sum merge gemm; do
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
