#!/bin/sh
# Shows that random problems find a fault: breaks the kernels, and expects a failing seed, a shrunk
# problem, and a command that fails with the broken kernels and does not with the whole ones.
#
#   sh test_finds.sh PROGRAM COMMAND BREAKER
#
# PROGRAM is test_random_attention, COMMAND gpu-mha, BREAKER the library made from break_kernels.c.
set -eu

program=$1
command=$2
breaker=$3

fail()
{
    echo "$1"
    sed 's/^/    /' log.txt
    exit 1
}

# try FIRST-SEED FROM TO
try()
{
    export BREAK_FROM="$2" BREAK_TO="$3"
    echo "kernels with '$BREAK_TO' for '$BREAK_FROM'"
    if LD_PRELOAD=$breaker "$program" --first "$1" --count 100 --failures 1 >log.txt 2>&1; then
        fail "no seed fails"
    fi
    line=$(sed -n '/gpu-mha run /p' log.txt | head -n 1)
    [ -n "$line" ] || fail "no command is printed"
    grep -q '^  The command shows it' log.txt || fail "the command does not show the fault"
    grep FAILS log.txt
    echo "    $line"
    # As a user would paste it.
    gpu_mha=$(printf '%s' "$line" | sed "s|gpu-mha run|'$command' run|")
    status=0
    (
        export LD_PRELOAD="$breaker"
        eval "$gpu_mha"
    ) >log.txt 2>&1 || status=$?
    [ "$status" -eq 1 ] || fail "the command ends with $status on broken kernels, not with 1"
    grep -q 'not as expected' log.txt || fail "the command does not say what is wrong"
    sed 's/^/    /' log.txt
    eval "$gpu_mha" >log.txt 2>&1 || fail "the command fails on whole kernels"
}

if [ "${GPU_MHA_RANDOM_LONG:-}" ]; then
    try 1 'i + offset - p->window_left' 'i + offset - p->window_left + 1'
    try 101 'p->dropout_threshold' '(p->dropout_threshold / 2)'
    try 201 'p->softcap' '(2 * p->softcap)'
fi
try 1 'length - p->NQ' 'length - p->NQ + 1'
