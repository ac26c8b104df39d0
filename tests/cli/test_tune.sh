#!/bin/sh
# gpu-mha tune: what it prints, keeps and refuses, and that gpu-mha info tells of it. Which
# candidate wins is not judged.
#
#   sh test_tune.sh GPU_MHA    GPU_MHA is the command
set -u

command=$1
subcommand=
. "$(dirname "$0")/command.sh"
GPU_MHA_CACHE_DIR=$work/cache
export GPU_MHA_CACHE_DIR
unset GPU_MHA_TILE GPU_MHA_LOG

# refuses TEXT ARGUMENT...: a usage error that says the text, and nothing on stdout.
refuses() {
    text=$1
    shift
    run 2 tune "$@"
    has err "$text"
    [ ! -s "$work/out" ] || fail "tune $*: a refusal prints to stdout"
}

# no_err: nothing was said on stderr, so no progress line in a pipe and no warning.
no_err() {
    [ ! -s "$work/err" ] || fail "stderr is not empty: $(cat "$work/err")"
}

# the_file: the one tuning file.
the_file() {
    for file in "$work"/cache/*.tuning; do
        [ -f "$file" ] || fail "no tuning file in $work/cache"
    done
    echo "$file"
}

quick="--seconds 0.002"

# ---- what it prints and keeps -----------------------------------------------------------------

# A dry run keeps nothing. Splitting is wanted here and below.
# shellcheck disable=SC2086
run 0 tune $quick --dry-run --shape 1,2,2,66,70,64
no_err
has out "prefill dk64 dv64 f32, 1,2,2,66,70,64"
has out "this was a dry run"
for file in "$work"/cache/*.tuning; do
    [ ! -e "$file" ] || fail "a dry run left $file"
done

# One line for each candidate, the default's marked; then the table.
# shellcheck disable=SC2086
run 0 tune $quick --shape 1,2,2,66,70,64 --shape 1,2,2,65,70,64
no_err
[ "$(grep -c -E '^  [a-z]+ [0-9,]+  +([0-9.e+-]+ ms(  default)?|dropped: .+)$' "$work/out")" -ge 4 ] ||
    fail "fewer than 4 candidates in: $(cat "$work/out")"
[ "$(grep -c -E ' ms  default$' "$work/out")" -eq 2 ] || fail "no default in: $(cat "$work/out")"
grep -q -E '^kind  +default  +ms  +winner ms  +ratio  winner$' "$work/out" || fail "no table"
[ "$(grep -c -E '^prefill dk64 dv64 f32  .* [0-9]+\.[0-9][0-9]  [a-z]+ [0-9,]+$' "$work/out")" -eq 2 ] ||
    fail "the table has not two rows: $(cat "$work/out")"
has out "Kept in $(the_file)"

# What info tells, of a winner that is written here: it looks at other lengths than these. The file
# is as cl/tuning_file.h describes it.
GPU_MHA_CACHE_DIR=off run 0 info
no_err
default=$(sed -n 's/^ *prefill dk64 dv64 f32: \(.*\), default$/\1/p' "$work/out")
[ -n "$default" ] || fail "no default in: $(cat "$work/out")"
winner="fused 2,4,1,8"
{
    grep -v -e '^entry ' -e '^checksum ' "$(the_file)"
    printf 'entry prefill dk64 dv64 f32, %s\t%s\t1000\n' "$default" "$winner"
} >"$work/lines"
sum=$(sha256sum <"$work/lines")
{
    cat "$work/lines"
    echo "checksum ${sum%% *}"
} >"$(the_file)"
run 0 info
no_err
has out "prefill dk64 dv64 f32: $winner, tuned"
has out "product: "
has out "decode dk128 dv128 f32: "
has out "kept in $(the_file)"
GPU_MHA_TILE=1,4,1,4 run 0 info
has out "prefill dk64 dv64 f32: fused 1,4,1,4, GPU_MHA_TILE"
run 0 info --json
no_err
has out '"choices": ['
has out "\"shape\": \"$winner\""
has out '"source": "tuned"'
has out '"source": "default"'

# JSON: one object, storage type and mask as asked.
# shellcheck disable=SC2086
run 0 tune --json $quick --dtype f16 --causal --shape 1,4,2,1,90,64
no_err
keys=$(sed -n 's/^ *"\([a-z_]*\)":.*/\1/p' "$work/out" | sort -u | tr '\n' ' ')
wanted="candidates default default_ms device dropped file kept kind kinds median_ms name shape "
[ "$keys" = "${wanted}winner winner_ms " ] || fail "the keys are '$keys'"
has out '"kind": "decode dk64 dv64 f16"'
has out '"kept": true'

# Both kinds stand in the file now.
[ "$(grep -c '^entry ' "$(the_file)")" -eq 2 ] || fail "not two entries: $(cat "$(the_file)")"

# ---- what is wrong with a file is told once and does no harm ------------------------------------

cp "$(the_file)" "$work/whole"
sed 's/^driver .*/driver 0/' "$work/whole" >"$(the_file)"
run 0 info
has err "$(the_file)"
has err "gpu-mha tune makes a new one"
[ "$(wc -l <"$work/err")" -eq 1 ] || fail "more than one line: $(cat "$work/err")"
has out "prefill dk64 dv64 f32: "
if grep -q -F ', tuned' "$work/out"; then
    fail "a damaged file was used"
fi
GPU_MHA_LOG=off run 0 info
no_err
cp "$work/whole" "$(the_file)"
run 0 info
no_err
has out ", tuned"

# ---- off ----------------------------------------------------------------------------------------

# shellcheck disable=SC2086
GPU_MHA_CACHE_DIR=off run 1 tune $quick --shape 1,2,2,66,70,64
has err "caching is off"
has err "1 of 1 winners were not kept"
has out "Nothing was kept: caching is off"
# shellcheck disable=SC2086
GPU_MHA_CACHE_DIR=off run 1 tune $quick --json --shape 1,2,2,66,70,64
has out '"kept": false'
# A folder that cannot be made: a file stands there.
: >"$work/file"
# shellcheck disable=SC2086
GPU_MHA_CACHE_DIR=$work/file run 1 tune $quick --shape 1,2,2,66,70,64
has out "0 of 1 were kept in $work/file/"
# shellcheck disable=SC2086
GPU_MHA_CACHE_DIR=off run 0 tune $quick --dry-run --shape 1,2,2,66,70,64

# ---- what it refuses ----------------------------------------------------------------------------

run 0 tune --help
for text in --name --shape --causal --dtype --product --device --seconds --dry-run --json \
    prefill-64 prefill-128 prefill-f16 decode decode-f16 product; do
    has out "$text"
done
refuses "--shape needs B,H,HKV,NQ,NK,DK or" --shape 1,2,2,3,4
refuses "not '1,2,2,0,4,5'" --shape 1,2,2,0,4,5
refuses "shape 1,3,2,4,4,8: H" --shape 1,3,2,4,4,8
refuses "--product needs M,N,K, whole numbers of 1 or more, not '1,2'" --product 1,2
refuses "not '1,2,3,4'" --product 1,2,3,4
refuses "not '1,0,3'" --product 1,0,3
refuses "not '1,2,x'" --product 1,2,x
refuses "--name has no 'tiny'; there are prefill-64, prefill-128," --name tiny
refuses "--causal does nothing without --shape" --causal
refuses "--dtype does nothing without --shape" --dtype f16 --name decode
refuses "--seconds is 0" --seconds 0
refuses "--seconds is 61" --seconds 61
refuses "unexpected argument 'decode'" decode
run 1 tune --device "no such device"
has err "no such device"
GPU_MHA_TILE=1,4,1,4 run 1 tune --shape 1,2,2,66,70,64
has err "GPU_MHA_TILE is \"1,4,1,4\""
# What does not fit is reported, and the rest is tuned all the same.
# shellcheck disable=SC2086
run 1 tune $quick --dry-run --product 1048576,1048576,1048576 --shape 1,2,2,66,70,64
has err "1048576,1048576,1048576: "
has out "prefill dk64 dv64 f32  "

[ "$failures" -eq 0 ] || exit 1
echo "tune: prints, keeps and refuses what it should"
