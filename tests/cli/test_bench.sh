#!/bin/sh
# gpu-mha bench: what it prints and what it refuses. No time is judged.
#
#   sh test_bench.sh GPU_MHA    GPU_MHA is the command
set -u

command=$1
subcommand=bench
. "$(dirname "$0")/command.sh"
TMPDIR=$work
export TMPDIR

# refuses TEXT ARGUMENT...: a usage error that says the text, and nothing on stdout.
refuses() {
    text=$1
    shift
    run 2 "$@"
    has err "$text"
    [ ! -s "$work/out" ] || fail "bench $*: a refusal prints to stdout"
}

# positive KEY: a key of the JSON text whose value is a positive number, every time.
positive() {
    grep -F "\"$1\":" "$work/out" >"$work/lines"
    [ -s "$work/lines" ] || fail "$1 is missing"
    if grep -v -q -E '": [0-9]*\.?[0-9]*[1-9][0-9]*\.?[0-9]*(e-?[0-9]+)?,?$' "$work/lines"; then
        fail "$1 is no positive number: $(cat "$work/lines")"
    fi
}

# ---- what it prints ---------------------------------------------------------------------------

quick="--seconds 0.01 --no-start"

# Shapes by name and by size, in this order; one object and nothing else.
# Splitting is wanted here and below.
# shellcheck disable=SC2086
run 0 --json $quick --name cross --shape 2,6,3,5,9,16,24 --shape 1,2,1,4,4,8
[ ! -s "$work/err" ] || fail "stderr is not empty: $(cat "$work/err")"
keys=$(sed -n 's/^ *"\([a-z_]*\)":.*/\1/p' "$work/out" | tr '\n' ' ')
shape="name median_ms gflops gbps limit fraction workspace_bytes cold_ms warm_ms variant"
wanted="device limits fma_gflops read_gbps launch_us shapes $shape $shape $shape "
[ "$keys" = "$wanted" ] || fail "the keys are '$keys', want '$wanted'"
names=$(sed -n 's/^ *"name": "\(.*\)",$/\1/p' "$work/out" | tr '\n' ' ')
[ "$names" = "cross 2,6,3,5,9,16,24 1,2,1,4,4,8 " ] || fail "the names are '$names'"
for key in fma_gflops read_gbps launch_us median_ms gflops gbps fraction; do
    positive "$key"
done
[ "$(grep -c -E '"(cold|warm)_ms": null,$' "$work/out")" -eq 6 ] || fail "the start is not null"
if grep -F '"limit":' "$work/out" | grep -v -q -E '"(fma|bandwidth|launch)",$'; then
    fail "a limit has another name: $(grep -F '"limit":' "$work/out")"
fi

# With the start, which needs a folder for a while.
run 0 --json --seconds 0.01 --shape 1,2,1,4,4,8
positive cold_ms
positive warm_ms
for left in "$work"/gpu-mha-bench-*; do
    [ ! -e "$left" ] || fail "$left is left behind"
done

# Storage type, method, mask and device.
# shellcheck disable=SC2086
run 0 --json $quick --shape 1,2,2,33,47,20 --causal --window 9,0 --dtype bf16 --method staged \
    --device cpu
has out '"variant": "staged'

# shellcheck disable=SC2086
run 0 $quick --dtype f16 --name tiny,cross,layer-768
[ ! -s "$work/err" ] || fail "a progress line in a pipe: $(cat "$work/err")"
has out "products "
has out "limits: "
has out "GFLOP/s multiply-add"
for line in '^shape  *median ms ' '^tiny  *[0-9]' '^cross  *[0-9]' '^layer-768  *[0-9]'; do
    grep -q -E "$line" "$work/out" || fail "no line '$line' in: $(cat "$work/out")"
done

run 0 --help
for text in --name --shape --causal --window --dtype --method --device --seconds --no-start --json \
    prefill-64 prefill-128 causal-64 causal-128 gqa bert tiny odd long decode decode-batch \
    decode-f16 prefill-f16 cross layer-768; do
    has out "$text"
done

# ---- what it refuses --------------------------------------------------------------------------

refuses "--shape needs B,H,HKV,NQ,NK,DK or" --shape 1,2,2,3,4
refuses "--shape needs B,H,HKV,NQ,NK,DK or" --shape 1,2,2,3,4,5,6,7
refuses "not '1,2,2,0,4,5'" --shape 1,2,2,0,4,5
refuses "not '1,2,2,-3,4,5'" --shape=1,2,2,-3,4,5
refuses "not '1,2,2,3,4,5,'" --shape 1,2,2,3,4,5,
refuses "not '1,2,2,3,4,x'" --shape 1,2,2,3,4,x
refuses "whole numbers" --shape 99999999999999999999999999,2,2,3,4,5
refuses "shape 1,3,2,4,4,8: H" --shape 1,3,2,4,4,8
refuses "--name has no shape 'prefil'; there are prefill-64, prefill-128," --name cross,prefil
refuses "--name has no shape ''" --name cross,
refuses "--causal does nothing without --shape" --causal
refuses "--window does nothing without --shape" --window 1,0 --name cross
refuses "--seconds is 0" --seconds 0 --name cross
refuses "--seconds is 1e+09" --seconds 1e9 --name cross
refuses "--dtype needs f32, f16 or bf16" --dtype f64
refuses "--method needs auto, fused or staged" --method quick
refuses "unexpected argument 'cross'" cross
refuses "--json is given twice" --json --json
run 1 --name cross --device "no such device"
has err "no such device"
# One sentence for what does not fit, before or after new processes are asked.
run 1 --shape 1,1,1,1,9000000000,128
run 1 --no-start --shape 1,1,1,1,9000000000,128
for left in "$work"/gpu-mha-bench-*; do
    [ ! -e "$left" ] || fail "$left is left behind"
done

[ "$failures" -eq 0 ] || exit 1
echo "bench: prints and refuses what it should"
