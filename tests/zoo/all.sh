#!/bin/sh
# all.sh BUILD - the limits and the core on every device of the zoo and with every limit by itself,
# one line each; hours of compiling with MHA_ZOO_LONG=1, which takes the devices' own large shapes.
set -u
build=$(cd "$1" && pwd) || exit 2
cd "$(dirname "$0")" || exit 2

devices="$(sed -n 's/^    {\.name = "\([^"]*\)".*/\1/p' devices.c | grep -v '^adreno-embedded$')"
for group in 1 8 64 224 256 1024; do devices="$devices gpu,group=$group"; done
for local in 16k 32k 48k; do devices="$devices gpu,local=$local"; done
devices="$devices gpu,local=0,local_type=0 gpu,local=0,local_type=2 gpu,alloc=256k,global=1m"
devices="$devices gpu,align=4096 gpu,no_images=1 gpu,double=1 gpu,version=20 gpu,version=30"

failed=0 passed=0
export OPENCL_LAYERS="$build/tests/zoo/mha_zoo.so" GPU_MHA_CACHE_DIR=off
one() { # NAME PROGRAM
    if output=$("$build/tests/zoo/test_zoo_$2" 2>&1); then
        passed=$((passed + 1))
        echo "ok      $1"
    else
        failed=$((failed + 1))
        echo "FAILED  $1"
        echo "$output" | grep -v 'warnings* generated'
    fi
}
work=$(mktemp -d) && cd "$work" || exit 2
trap 'rm -rf "$work"' EXIT
one limits limits
for device in $devices; do
    MHA_ZOO=$device one "$device" core
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
