#!/bin/sh
# Takes what long runs have added into the corpora of the tree:  sh tests/fuzz/keep.sh [TARGET...]
#
# Of all inputs, those of the tree included, as few and short ones as reach the same code. BUILD_DIR
# as for long.sh.
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD_DIR:-$source/build/fuzz}
. "$source/tests/fuzz/fuzzers.sh"

build_fuzzers "$build"
mkdir -p "$source/tests/fuzz/corpus"
for target in ${*:-$targets}; do
    merged=$build/merged-$target
    rm -rf "$merged"
    mkdir -p "$merged" "$build/long-$target"
    unpack_corpus "$build" "$target" "$build/kept-$target"
    # shellcheck disable=SC2046
    "$build/tests/fuzz/fuzz_$target" $(fuzzer_options "$target") -merge=1 \
        "$merged" "$build/kept-$target" "$build/long-$target" >"$build/merge-$target.log" 2>&1
    "$build/tests/fuzz/fuzz_corpus" pack "$merged" >"$build/merged-$target.txt"
    cp "$build/merged-$target.txt" "$source/tests/fuzz/corpus/$target.txt"
    echo "fuzz: $target: $(wc -l <"$source/tests/fuzz/corpus/$target.txt") inputs kept"
done
