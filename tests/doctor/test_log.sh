#!/bin/sh
# GPU_MHA_LOG: each level prints what `gpu-mha help` says, and nothing of the levels below it.
#
#   sh test_log.sh COMMAND DATA SICK    see sick.sh
set -u
. "$(dirname "$0")/sick.sh"
GPU_MHA_LOG=
export GPU_MHA_LOG

onnx=$data/onnx/attention_4d_gqa_causal
attention="run --q $onnx/input_0_Q.npy --k $onnx/input_1_K.npy --v $onnx/input_2_V.npy
    --causal top-left -o $work/y.npy"

run 0 help
for level in off error warn info debug; do
    has out " $level"
done

# Something to warn of, something to choose and pass over, something to build and refuse.
sick "abort decode" doctor 1 --only decode
for file in "$work"/cache/*.verdicts; do
    echo rubbish >"${file%.verdicts}.tuning"
done

# at LEVEL: the levels of the lines of such a run, one for each kind of line; and what is said.
at() {
    GPU_MHA_LOG=$1
    # Built from source each time. Splitting is wanted.
    rm -f "$work"/cache/*.program
    # shellcheck disable=SC2086
    run 0 $attention
    ! grep -q -v -E '^gpu_mha: (error|warn|info|debug): [a-z].*[^.]$' "$work/err" ||
        fail "a line has another form: $(cat "$work/err")"
    sed 's/^gpu_mha: \([a-z]*\): .*/\1/' "$work/err" | sort -u | tr '\n' ' '
}

# prints LEVEL "LEVELS"
prints() {
    got=$(at "$1")
    [ "$got" = "$2" ] || fail "GPU_MHA_LOG=$1 prints lines of '$got', want '$2'"
}
prints off ""
prints error ""
prints warn "warn "
grep -q '^gpu_mha: warn: pass over .*\.tuning: ' "$work/err" || fail "warn: no file passed over"
prints "" "warn "
prints info "info warn "
for text in 'use device ' 'use the verdicts of ' 'avoid "decode '; do
    grep -q "^gpu_mha: info: $text" "$work/err" || fail "info: no '$text': $(cat "$work/err")"
done
prints debug "debug info warn "
for text in 'built [a-z]*\.cl: [0-9.]* ms, -cl-std' 'skip "decode [0-9]*": gpu-mha doctor found' \
    'found [0-9]* devices'; do
    grep -q "^gpu_mha: debug: $text" "$work/err" || fail "debug: no '$text': $(cat "$work/err")"
done

# An error that became a status: once as the command's own sentence, at debug in the log too.
GPU_MHA_LOG=debug
run 1 run --device "no such device" --q "$onnx/input_0_Q.npy" --k "$onnx/input_1_K.npy" \
    --v "$onnx/input_2_V.npy" -o "$work/y.npy"
grep -q '^gpu_mha: debug: GPU_MHA_[A-Z_]*: .*no such device' "$work/err" ||
    fail "debug: no status: $(cat "$work/err")"
GPU_MHA_LOG=info
run 1 run --device "no such device" --q "$onnx/input_0_Q.npy" --k "$onnx/input_1_K.npy" \
    --v "$onnx/input_2_V.npy" -o "$work/y.npy"
[ "$(grep -c -F "no such device" "$work/err")" -eq 1 ] || fail "info: told twice"

# A wrong level is told, and is as warn.
prints loud "warn "
has err 'gpu_mha: warn: read GPU_MHA_LOG: "loud", must be off, error, warn, info or debug; using warn'

# --verbose lets the lines of the doctor's processes through, and only then.
GPU_MHA_LOG=debug
doctor 0 --dry-run --only merge
! grep -q -F "built merge.cl" "$work/err" || fail "a process is heard without --verbose"
doctor 0 --dry-run --only merge --verbose
has err "built merge.cl"

ended "log: every level prints what is said of it"
