#!/bin/sh
# coverage.sh LIBRARY COMMAND SOURCES - every function that the library exports is in the covers of
# a scenario, and every entry point of OpenCL that library and command import is in calls.h: a new
# one without a fault test fails here.
set -u
library=$1 command=$2 sources=$3
failed=0

exports=$(nm -D --defined-only "$library" | awk '$2 == "T" && $3 ~ /^gpu_mha/ {print $3}' |
    sed 's/@.*//' | sort -u)
# The names in .covers, in the macro of such a list, or the first argument of a macro that makes
# one.
covered=$(awk '/\.covers/ {on = 1}
        on || /_FUNCTIONS/ || /^ *(BLOCKING|PLAN|ENQUEUE)\(gpu_mha/ || /^ *"gpu_mha/ {print}
        /,$/ {on = 0}' "$sources"/scenarios_*.c | grep -o 'gpu_mha[a-z0-9_]*' | sort -u)
for function in $exports; do
    if ! echo "$covered" | grep -qx "$function"; then
        echo "$function is public, and no scenario covers it"
        failed=1
    fi
done
for function in $covered; do
    if ! echo "$exports" | grep -qx "$function"; then
        echo "$function is in a scenario's covers, and the library does not export it"
        failed=1
    fi
done

imports=$(nm -D --undefined-only "$library" "$command" | awk '$1 == "U" {print $2}' |
    sed 's/@.*//' | grep '^cl[A-Z]' | sort -u)
calls=$(grep -o 'X(cl[A-Za-z0-9]*' "$sources/layer/calls.h" | cut -c3- | sort -u)
for call in $imports; do
    # The loader's own: it gives an address or none, and no code.
    [ "$call" = clGetExtensionFunctionAddress ] && continue
    if ! echo "$calls" | grep -qx "$call"; then
        echo "$call is used, and the layer does not fail it"
        failed=1
    fi
done

echo "$(echo "$exports" | wc -l) public functions, $(echo "$imports" | wc -l) entry points"
# An empty list would pass everything.
[ -n "$exports" ] && [ -n "$imports" ] || failed=1
exit $failed
