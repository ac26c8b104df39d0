#!/bin/sh
# Runs the fuzzers for long:  sh tests/fuzz/long.sh [MINUTES [TARGET...]]
#
# 30 minutes each if nothing is said, JOBS (default 2) at a time. BUILD_DIR (default build/fuzz in
# the source tree) has the programs, what the runs add to the corpora, and what they find. What one
# run has added the next goes on from; keep.sh takes it into the tree. Prints a table and ends with
# 1 if anything was found.
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD_DIR:-$source/build/fuzz}
. "$source/tests/fuzz/fuzzers.sh"

# run_one MINUTES TARGET: the run and its line of the table, in a file
run_one()
{
    log=$build/long-$2.log
    corpus=$build/long-$2
    found=$build/found-$2
    mkdir -p "$corpus" "$found"
    unpack_corpus "$build" "$2" "$build/kept-$2"
    seconds=$(($1 * 60))
    # shellcheck disable=SC2046
    "$build/tests/fuzz/fuzz_$2" $(fuzzer_options "$2") -max_total_time="$seconds" \
        -artifact_prefix="$found/" "$corpus" "$build/kept-$2" >"$log" 2>&1 || true
    took=$(sed -n 's/^Done .* in \([0-9]*\) second.*/\1/p' "$log")
    inputs=$(find "$corpus" -type f | wc -l)
    finds=$(find "$found" -type f | wc -l)
    printf '%-10s %8s %12s %8s %8s %8s\n' "$2" "$((${took:-0} / 60))" \
        "$(stat "$log" number_of_executed_units)" "$(coverage "$log")" "$inputs" "$finds" \
        >"$build/long-$2.line"
}

if [ "${1-}" = --one ]; then
    run_one "$2" "$3"
    exit 0
fi

minutes=${1:-30}
if [ $# -gt 0 ]; then
    shift
fi
case $minutes in
'' | 0* | *[!0-9]*)
    echo "usage: long.sh [MINUTES [TARGET...]]" >&2
    exit 2
    ;;
esac
build_fuzzers "$build"
chosen=${*:-$targets}
for target in $chosen; do
    echo "$target"
done | BUILD_DIR=$build xargs -P "${JOBS:-2}" -I '{}' sh "$0" --one "$minutes" '{}'

printf '%-10s %8s %12s %8s %8s %8s\n' target minutes executions edges inputs findings
result=0
for target in $chosen; do
    cat "$build/long-$target.line"
    if [ -n "$(find "$build/found-$target" -type f)" ]; then
        result=1
        find "$build/found-$target" -type f
    fi
done
exit "$result"
