#!/bin/sh
# gpu-mha doctor on drivers that fail in each of the ways it knows: the line, the verdict that is
# kept, the report; and on devices that do not open, or are gone in between.
#
#   sh test_verdicts.sh COMMAND DATA SICK    see sick.sh
set -u
. "$(dirname "$0")/sick.sh"

# ---- nothing wrong ------------------------------------------------------------------------------

doctor 0 --only "merge;cache_update"
for type in f32 f16 bf16; do
    row merge $type ok "largest error [0-9.e-]*, [0-9.e-]* of the bound"
    row cache_update $type ok "largest error 0, none is allowed"
done
has out "6 ok, 0 refused, 0 wrong, 0 failed, 0 crashed, 0 hung"
has out "Kept in $work/cache/"
listed merge "f32 ok  f16 ok  bf16 ok"
listed rotary "f32 not tried"

# ---- every way to fail --------------------------------------------------------------------------

# fails HOW VERDICT TEXT ARGUMENT...: the kernel of merge fails like that, in single precision and so
# in every type; another one is not touched by it.
fails() {
    how=$1
    verdict=$2
    text=$3
    shift 3
    sick "$how merge_pair" doctor 1 --only "merge;cache_update" "$@"
    row merge f32 "$verdict" "$text"
    row cache_update f32 ok "none is allowed"
    grep -q "^[0-9]* ok.* [1-3] $verdict" "$work/out" || fail "$how: not counted: $(cat "$work/out")"
    has out "; the library avoids what failed from now on"
    listed merge "f32 $verdict"
}

fails segv crashed "SIGSEGV$"
fails abort crashed "SIGABRT$"
fails exit crashed "the process ended with exit code 7 before it was done$"
fails late crashed "SIGSEGV$"
fails resources failed "CL_OUT_OF_RESOURCES"
fails launch failed "CL_INVALID_WORK_GROUP_SIZE"
fails hang hung "it took more than 5 s, the limit of --timeout" --timeout 5
row cache_update f16 ok "none is allowed"
[ "$(grep -c '^merge ' "$work/rows")" -eq 1 ] || fail "a type is tried after f32 has hung"

MHA_SICK_TEXT="weight_a * from_a|1.0001f * weight_a * from_a"
export MHA_SICK_TEXT
fails edit wrong "largest error [0-9.e-]*, [0-9.e+]* of the bound"

# A new driver, a new verdict: the old one is replaced.
doctor 0 --only merge
listed merge "f32 ok  f16 ok  bf16 ok"

# One storage type alone: the others are tried all the same, in a process that has not crashed.
decode=$("$command" doctor --list | sed -n 's/^\(decode [0-9]*\) .*/\1/p' | head -n 1)
MHA_SICK_OPTIONS="KEY_TYPE=1"
export MHA_SICK_OPTIONS
sick "segv decode" doctor 1 --only "$decode"
unset MHA_SICK_OPTIONS
row "$decode" f32 ok "of the bound"
row "$decode" f16 crashed "SIGSEGV$"
row "$decode" bf16 ok "of the bound"
listed "$decode" "f32 ok  f16 crashed  bf16 ok"

# Over a limit of the device: no fault.
sick "flat" doctor 0 --only shared
grep -q '^shared .* f32 *refused .* it does not fit the device: ".*" ran in its place$' \
    "$work/out" || fail "shared is not refused: $(cat "$work/out")"

# ---- the report ---------------------------------------------------------------------------------

# What the library takes another kernel for is a failure here, with the compiler's words; and the
# report keeps whose machine it is to itself.
USER=somebody77
MHA_SICK_TEXT="/home/somebody77/x.cl:3: error: somebody77 $(id -un) on $(uname -n) has no register"
export USER MHA_SICK_TEXT
sick "log shared" doctor 1 --only shared
grep -q '^shared .* f32 *failed .*has no register' "$work/out" || fail "no log: $(cat "$work/out")"
sed -n '/^Report,/,$p' "$work/out" >"$work/report"
[ "$(grep -c -F '```' "$work/report")" -eq 2 ] || fail "no block to paste: $(cat "$work/report")"
for word in gpu_mha: system: loader: platform: device: driver: "OpenCL C:" "work-group size:" \
    extensions: "has no register"; do
    has report "$word"
done
for word in somebody77 "$(id -un)" "$(uname -n)" "$HOME" "$work" x.cl; do
    ! grep -q -w -F -e "$word" "$work/report" || fail "'$word' is in: $(cat "$work/report")"
done
! grep -q -E '(^|[^A-Za-z0-9_.])[~.]*/' "$work/report" || fail "a path is in: $(cat "$work/report")"

# ---- json, dry run ------------------------------------------------------------------------------

sick "abort merge_pair" doctor 1 --json --dry-run --only merge
for text in '"variant": "merge"' '"verdict": "crashed"' '"sentence": "SIGABRT"' '"crashed": 1' \
    '"not tried": 2' '"kept": false' '"early": false'; do
    has out "$text"
done
listed merge "f32 ok  f16 ok  bf16 ok"

# ---- devices that do not open, or not any more --------------------------------------------------

sick "never" doctor 1
has err "opening the device crashed: SIGABRT; another one can be named by --device"
sick "never pause" doctor 1 --timeout 1
has err "opening the device hung: it took more than 1 s"
doctor 1 --device "no such device"
has err "no such device"

# gone HOW TEXT: the device goes with the kernel of merge, and no verdict is given of what comes
# after.
gone() {
    run 0 doctor --forget
    MHA_SICK_FILE=$work/gone.$1
    export MHA_SICK_FILE
    sick "$1 merge_pair" doctor 1 --only "merge;rotary;cache_update"
    grep -q "the device is gone before \"rotary\" was tried: $2" "$work/err" ||
        fail "not told that the device is gone: $(cat "$work/err")"
    row merge f32 crashed "SIGABRT$"
    has out "; ended early, the rest was not tried"
    listed merge "f32 crashed"
    listed rotary "f32 not tried"
}
gone unplug "none of the [0-9]* OpenCL platforms has a device"
gone swap "there is \"another device\" in its place"

# ---- the command line ---------------------------------------------------------------------------

# refuses TEXT ARGUMENT...
refuses() {
    text=$1
    shift
    run 2 doctor "$@"
    has err "$text"
    [ ! -s "$work/out" ] || fail "doctor $*: a refusal prints to stdout"
}
refuses "--timeout is 0, but must be more than 0" --timeout 0
refuses "--timeout needs a finite number, not 'nan'" --timeout nan
refuses "--list, --forget and --dry-run do not go together" --list --forget
refuses "nor --forget and --only" --forget --only merge
refuses "--only is 'mer', but must name a variant" --only mer
refuses "--only needs a value that is not empty" --only ""
refuses "--only is ';', but must name a variant" --only ";"
refuses "unexpected argument 'merge'" merge
refuses "--child is not for users" --child
run 0 doctor --help
for text in --device --only --timeout --list --forget --dry-run --verbose --json; do
    has out "$text"
done

ended "verdicts: every way to fail is told and kept"
