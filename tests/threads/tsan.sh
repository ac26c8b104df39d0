#!/bin/sh
# The tests of many threads, and of what is released while it is at work, under ThreadSanitizer.
#   tsan.sh [BUILD_DIR]
#
# Builds with the preset tsan (BUILD_DIR: build/tsan in the source tree) what it runs and no more.
# Exit code 77: the compiler has no ThreadSanitizer, or the system does not let it run.
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$source/build/tsan}
tests='^(threads\.(bits|beside|clblast)|lifetime\.(flight|fork))$'

mkdir -p "$build"
cat >"$build/probe.c" <<'EOF'
int main(void)
{
    return 0;
}
EOF
if ! { ${CC:-cc} -fsanitize=thread "$build/probe.c" -o "$build/probe" && "$build/probe"; }; then
    echo "SKIPPED: ThreadSanitizer does not work here" >&2
    exit 77
fi

cmake -S "$source" --preset tsan -B "$build" >"$build/configure.log" 2>&1 || {
    cat "$build/configure.log"
    exit 1
}
cmake --build "$build" --parallel "${JOBS:-2}" --target \
    test_threads_bits test_threads_beside test_threads_clblast \
    test_lifetime_flight test_lifetime_fork >"$build/build.log" 2>&1 || {
    cat "$build/build.log"
    exit 1
}
ctest --test-dir "$build" --output-on-failure --no-tests=error -j "${JOBS:-2}" -R "$tests"
