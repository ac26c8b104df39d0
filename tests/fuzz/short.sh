#!/bin/sh
# Builds the fuzzers and runs each over its corpus and a few seconds more, always with the same seed:
#   sh tests/fuzz/short.sh BUILD
# A failure leaves the input that did it in BUILD/found-<target>-*.
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
. "$source/tests/fuzz/fuzzers.sh"

build_fuzzers "$build"
failed=0
for target in $targets; do
    log=$build/short-$target.log
    corpus=$build/short-$target
    rm -rf "$corpus"
    mkdir -p "$corpus"
    set -- "$corpus"
    for kept in corpus findings; do
        if [ -d "$source/tests/fuzz/$kept/$target" ]; then
            set -- "$@" "$source/tests/fuzz/$kept/$target"
        fi
    done
    # shellcheck disable=SC2046
    if "$build/tests/fuzz/fuzz_$target" $(fuzzer_options "$target") -seed=1 \
        -runs="${FUZZ_RUNS:-20000}" -max_total_time="${FUZZ_SECONDS:-2}" \
        -artifact_prefix="$build/found-$target-" "$@" >"$log" 2>&1; then
        echo "fuzz: $target: $(stat "$log" number_of_executed_units) inputs, $(coverage "$log") edges"
    else
        failed=1
        tail -n 60 "$log"
        echo "fuzz: $target FAILED, see $build/found-$target-*"
    fi
done
exit "$failed"
