#!/bin/sh
# Installs what is missing, builds the command and runs its demo:  sh host/demo.sh [ARGUMENT...]
#
# The arguments go to `gpu-mha demo` (see --help). BUILD_DIR (default: build/ in the source tree)
# chooses where to build.
set -eu

source=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD_DIR:-$source/build}/demo

sh "$source/host/setup.sh"

echo "demo: building in $build"
mkdir -p "$build"
log=$build/demo-build.log
if ! { cmake -S "$source" --preset release -B "$build" -DGPU_MHA_BUILD_TESTS=OFF &&
    cmake --build "$build" --parallel "$(getconf _NPROCESSORS_ONLN)" --target gpu-mha; } \
    >"$log" 2>&1; then
    cat "$log" >&2
    echo "demo: the build failed" >&2
    exit 1
fi

# The heat map goes beside the build unless --plot says otherwise.
case " $* " in
*' --plot '* | *' --plot='* | *' --help '*) ;;
*) set -- --plot "$build/attention.png" "$@" ;;
esac
command=$build/bin/gpu-mha
echo "demo: $command demo $*"
exec "$command" demo "$@"
