#!/bin/sh
# Builds the fuzzers and runs each over its corpus and for some seconds more, always with the same
# seed:
#   sh tests/fuzz/short.sh BUILD [TARGET...]
# A failure leaves the input that did it in BUILD/found-<target>-*.
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
. "$source/tests/fuzz/fuzzers.sh"

# run_one BUILD TARGET
run_one()
{
    log=$1/short-$2.log
    unpack_corpus "$1" "$2" "$1/short-$2"
    # shellcheck disable=SC2046
    if "$1/tests/fuzz/fuzz_$2" $(fuzzer_options "$2") -seed=1 \
        -runs="${FUZZ_RUNS:-20000}" -max_total_time="${FUZZ_SECONDS:-2}" \
        -artifact_prefix="$1/found-$2-" "$1/short-$2" >"$log" 2>&1; then
        echo "fuzz: $2: $(stat "$log" number_of_executed_units) inputs, $(coverage "$log") edges"
    else
        tail -n 60 "$log"
        echo "fuzz: $2 FAILED, see $1/found-$2-*"
        exit 1
    fi
}

if [ "$1" = --one ]; then
    run_one "$2" "$3"
    exit 0
fi

build=$1
shift
build_fuzzers "$build"
for target in ${*:-$targets}; do
    echo "$target"
done | xargs -P "${JOBS:-2}" -I '{}' sh "$0" --one "$build" '{}'
