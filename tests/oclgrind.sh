#!/bin/sh
# Runs a test program under the simulator Oclgrind:  oclgrind.sh PROGRAM [ARGUMENT...]
#
# Oclgrind exits with 0 whatever it found, so its log decides: one line in it is a failure.
set -eu

library=
for candidate in /usr/lib/oclgrind/liboclgrind-rt-icd.so \
    /usr/lib/*/oclgrind/liboclgrind-rt-icd.so /usr/local/lib/liboclgrind-rt-icd.so; do
    if [ -e "$candidate" ]; then
        library=$candidate
        break
    fi
done
if [ -z "$library" ]; then
    echo "skipped: liboclgrind-rt-icd.so was not found (Debian: oclgrind)"
    exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# The one platform that the ICD loader sees.
echo "$library" >"$work/oclgrind.icd"

# The simulator keeps private arrays on its stack, several times over.
ulimit -s unlimited 2>/dev/null || true

# One process: a forked test would start the log anew and drop what was found before. Oclgrind does
# not know the instructions that inlining and optimisation put in: freeze, noalias scopes.
status=0
env OCL_ICD_VENDORS="$work" OCLGRIND_LOG="$work/log" OCLGRIND_DATA_RACES=1 \
    OCLGRIND_BUILD_OPTIONS="-cl-opt-disable -D always_inline=noinline" \
    OCLGRIND_UNINITIALIZED=1 OCLGRIND_CHECK_API=1 CK_FORK=no "$@" || status=$?

if [ ! -e "$work/log" ]; then
    echo "Oclgrind wrote no log: the program used no OpenCL"
    exit 1
fi
if [ -s "$work/log" ]; then
    echo "Oclgrind found ($(wc -l <"$work/log") lines, the first 40 follow):"
    head -n 40 "$work/log"
    exit 1
fi
exit "$status"
