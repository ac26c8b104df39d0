#!/bin/sh
# Installs what is missing, builds, and runs the whole suite:  sh tests/run.sh [--quick]
#
#   release    every test, warnings as errors
#   sanitize   the same tests with AddressSanitizer and UndefinedBehaviorSanitizer
#   oclgrind   the kernels at tiny shapes, under the simulator that finds races
#
# --quick runs the first stage alone. BUILD_DIR (default: build/ in the source tree) chooses where
# to build, JOBS (default 2) how many compilers and tests run at a time. The last line says how many
# tests passed and failed over all stages; a stage in which no test passed has failed.
set -eu

quick=no
case ${1-} in
'') ;;
--quick) quick=yes ;;
*)
    echo "usage: run.sh [--quick]" >&2
    exit 2
    ;;
esac

source=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD_DIR:-$source/build}
jobs=${JOBS:-2}
passed=0
failed=0
skipped=0
broken=

sh "$source/host/setup.sh" --tests

# configure_and_build PRESET
configure_and_build()
{
    echo "run: building '$1' in $build/$1"
    mkdir -p "$build/$1"
    if { cmake -S "$source" --preset "$1" -B "$build/$1" -DGPU_MHA_TEST_CACHE="$build/cache" &&
        cmake --build "$build/$1" --parallel "$jobs"; } >"$build/$1/build.log" 2>&1; then
        return 0
    fi
    cat "$build/$1/build.log"
    echo "run: the build '$1' failed"
    return 1
}

# A stage that could not run counts as one failure.
stage_broken()
{
    broken="$broken $1"
    failed=$((failed + 1))
}

# run_stage NAME PRESET CTEST-ARGUMENT...
run_stage()
{
    stage=$1
    preset=$2
    shift 2
    echo "run: stage $stage"
    log=$build/$preset/stage-$stage.log
    status=0
    # The pipe would hide ctest's exit code, so that goes through a file.
    {
        result=0
        ctest --test-dir "$build/$preset" --output-on-failure --no-tests=error -j "$jobs" "$@" \
            2>&1 || result=$?
        echo "$result" >"$log.status"
    } | tee "$log"
    status=$(cat "$log.status")

    # "100% tests passed, 0 tests failed out of 12"; ctest counts a skipped test as passed.
    stage_failed=$(sed -n 's/^.*, \([0-9]*\) tests failed out of [0-9]*$/\1/p' "$log")
    total=$(sed -n 's/^.* tests failed out of \([0-9]*\)$/\1/p' "$log")
    stage_failed=${stage_failed:-0}
    total=${total:-0}
    stage_skipped=$(grep -c '\*\*\*Skipped' "$log") || true
    stage_passed=$((total - stage_failed - stage_skipped))

    passed=$((passed + stage_passed))
    failed=$((failed + stage_failed))
    skipped=$((skipped + stage_skipped))
    if [ "$stage_passed" -eq 0 ]; then
        echo "run: no test passed in stage $stage"
        stage_broken "$stage"
    elif [ "$status" -ne 0 ] && [ "$stage_failed" -eq 0 ]; then
        echo "run: ctest itself failed in stage $stage"
        stage_broken "$stage"
    fi
}

if configure_and_build ci; then
    echo "run: the devices here (the tests take the default one)"
    "$build/ci/bin/gpu-mha" info || true
    run_stage release ci -LE oclgrind
else
    stage_broken release
fi
if [ "$quick" = no ]; then
    if configure_and_build asan; then
        run_stage sanitize asan -LE oclgrind
    else
        stage_broken sanitize
    fi
    if [ -e "$build/ci/CTestTestfile.cmake" ]; then
        run_stage oclgrind ci -L oclgrind
    else
        stage_broken oclgrind
    fi
fi

if [ "$skipped" -gt 0 ]; then
    echo "run: $skipped skipped"
fi
if [ -n "$broken" ]; then
    echo "run: stages that did not run:$broken"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
