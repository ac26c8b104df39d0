#!/bin/sh
# Puts Intel's OpenCL runtime for CPUs, as PyPI has it, into a folder of its own:
#   setup_intel_cpu.sh [DIRECTORY]
# DIRECTORY: by default build/intel_cpu in the source tree, where on.sh looks for it, or in
# $GPU_MHA_INTEL_CPU. Some 900 MB. Nothing of the system changes, and nothing but on.sh uses it: the
# wheels bring an ICD loader as well, which is left out. Needs python3 with pip; x86-64 Linux.
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
directory=${1:-${GPU_MHA_INTEL_CPU:-$source/build/intel_cpu}}
packages="intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0"

if [ -e "$directory/lib/libintelocl.so" ]; then
    echo "setup_intel_cpu: already in $directory"
    exit 0
fi
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
python3 -m venv "$directory/venv" || {
    echo "setup_intel_cpu: python3 makes no virtual environment (Debian: python3-venv)" >&2
    exit 1
}
# shellcheck disable=SC2086
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir $packages

rm -rf "$directory/links"
mkdir "$directory/links"
for library in "$directory/venv/lib"/*; do
    case ${library##*/} in
    libOpenCL.* | python*) ;;
    *) ln -s "../venv/lib/${library##*/}" "$directory/links/" ;;
    esac
done
# Last, so that a setup that broke off is not taken for a whole one.
mv "$directory/links" "$directory/lib"
echo "setup_intel_cpu: installed in $directory"
