#!/bin/sh
# After gpu-mha doctor the library keeps away from what crashed, says so in its log, and computes
# right; without its verdicts it crashes.
#
#   sh test_avoids.sh COMMAND DATA SICK    see sick.sh
set -u
. "$(dirname "$0")/sick.sh"

onnx=$data/onnx/attention_4d_gqa_causal
attention="run --q $onnx/input_0_Q.npy --k $onnx/input_1_K.npy --v $onnx/input_2_V.npy
    --causal top-left --expect $work/want -o $work/y.npy"
mkdir "$work/want"
cp "$onnx/output_0_Y.npy" "$work/want/output.npy"
# The bound of each of its 576 floats, behind the same header: 1e-6.
head -c 128 "$onnx/output_0_Y.npy" >"$work/want/output_bound.npy"
awk 'BEGIN { for (i = 0; i < 576; i++) printf "\\275\\067\\206\\065" }' |
    xargs -0 printf >>"$work/want/output_bound.npy"

# With few queries a CPU device runs decode.cl. Splitting is wanted here and below.
# shellcheck disable=SC2086
run 0 $attention
has out ": decode "
crash=139 # what a shell makes of SIGSEGV

# sick_run CODE: by a driver that dies of building decode.cl, with nothing built before.
sick_run() {
    rm -f "$work"/cache/*.program
    # shellcheck disable=SC2086
    sick "segv decode" run "$1" $attention
}
sick_run $crash

sick "segv decode" doctor 1 --only decode
! grep -E '^decode ' "$work/out" | grep -q -v -F "crashed" ||
    fail "a decode is not crashed: $(cat "$work/out")"

# The driver is as sick as before.
GPU_MHA_LOG=info
export GPU_MHA_LOG
sick_run 0
grep -q '^gpu_mha: info: use the verdicts of .*: [0-9]* entries$' "$work/err" || fail "no file told"
grep -q '^gpu_mha: info: avoid "decode [0-9]*": gpu-mha doctor found it crashed, it must be ok; take "[a-z]* [0-9,]*"$' \
    "$work/err" || fail "the log does not tell: $(cat "$work/err")"
! grep -q -F ": decode " "$work/out" || fail "decode ran: $(cat "$work/out")"

# By default it is silent about that, and loud about a shape that is asked for by name.
unset GPU_MHA_LOG
sick_run 0
[ ! -s "$work/err" ] || fail "stderr is not empty: $(cat "$work/err")"
decode=$("$command" doctor --list | sed -n 's/^\(decode [0-9]*\) .*/\1/p' | head -n 1)
run 0 info
has out "avoiding what gpu-mha doctor found to fail"
GPU_MHA_TILE=$decode
export GPU_MHA_TILE
# shellcheck disable=SC2086
run 0 $attention
grep -q "^gpu_mha: warn: take GPU_MHA_TILE, \"$decode\": gpu-mha doctor found it crashed here" \
    "$work/err" || fail "not told: $(cat "$work/err")"
unset GPU_MHA_TILE

run 0 doctor --forget
listed "$decode" "f32 not tried  f16 not tried  bf16 not tried"
sick_run $crash

ended "avoids: what crashed the doctor's process does not crash the library's"
