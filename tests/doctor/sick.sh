#!/bin/sh
# What the tests of the doctor share; sourced by test_<name>.sh with its arguments
#
#   COMMAND DATA SICK    gpu-mha, tests/data, and the library made from sick.c
#
# On top of ../cli/command.sh: every run of the command must leave no process behind.

command=$1
data=$2
driver=$3
subcommand=
. "$(dirname "$0")/../cli/command.sh"
GPU_MHA_CACHE_DIR=$work/cache
MHA_DOCTOR_MARK=$work
export GPU_MHA_CACHE_DIR MHA_DOCTOR_MARK
unset GPU_MHA_TILE GPU_MHA_LOG GPU_MHA_DEVICE

# sick "HOW KERNEL" COMMAND...: with a driver that has this fault.
sick() {
    MHA_SICK=$1
    shift
    export MHA_SICK
    LD_PRELOAD=$driver
    export LD_PRELOAD
    "$@"
    unset MHA_SICK LD_PRELOAD
}

# The processes that this test's runs of the doctor have started and that are still there.
processes() {
    grep -l -s -z -x -F "MHA_DOCTOR_MARK=$work" /proc/[0-9]*/environ | while read -r path; do
        case $({ tr '\0' ' ' <"${path%environ}cmdline"; } 2>/dev/null) in
        *"doctor --child"*) echo "$path" ;;
        esac
    done
}

# no_process: none is left. One that was killed may take a moment to go.
no_process() {
    tries=0
    while left=$(processes) && [ -n "$left" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 500 ] || {
            fail "a process is left: $left"
            return 0
        }
    done
}

# doctor CODE ARGUMENT...
doctor() {
    want=$1
    shift
    run "$want" doctor "$@"
    no_process
}

# row NAME TYPE VERDICT TEXT: one line of out, before the report, is this verdict's.
row() {
    sed '/^Report,/,$d' "$work/out" >"$work/rows"
    [ "$(grep -c "^$1  *$2  *$3  *[0-9.]* s  .*$4" "$work/rows")" -eq 1 ] || {
        fail "no single line '$1 $2 $3 $4' in:"
        cat "$work/rows" >&2
    }
}

# listed NAME "f32 VERDICT": what is kept. The last run's out stays.
listed() {
    "$command" doctor --list >"$work/list" 2>"$work/err" || fail "--list fails"
    grep "^$1  " "$work/list" | grep -q -F -e "$2" || {
        fail "$1: '$2' is not kept, but:"
        cat "$work/list" >&2
    }
}

ended() {
    [ "$failures" -eq 0 ] || exit 1
    echo "$1"
}
