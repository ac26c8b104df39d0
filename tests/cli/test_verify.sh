#!/bin/sh
# gpu-mha verify: passes every recorded case, and fails on each copy with one thing wrong.
#
#   sh test_verify.sh GPU_MHA DATA    GPU_MHA is the command, DATA has the folder onnx
set -u

command=$1
data=$2/onnx
subcommand=verify
. "$(dirname "$0")/command.sh"

# last TEXT: the last line of out.
last() {
    line=$(tail -n 1 "$work/out")
    [ "$line" = "$1" ] || fail "the last line is '$line', want '$1'"
}

# ---- what passes ------------------------------------------------------------------------------

cases=$(find "$data" -name case.json | wc -l)
cases=$((cases))
[ "$cases" -ge 63 ] || fail "only $cases cases in $data"
for method in auto fused staged; do
    run 0 --method "$method" "$data"
    last "$cases passed, 0 failed"
    lines=$(grep -c '^ok   [a-z0-9_]*  max error [^ ]* of [^ ]* (output [a-zA-Z_]*)$' "$work/out")
    [ "$lines" -eq "$cases" ] || fail "method $method: $lines lines of cases, want $cases"
done

# A case is named by its folder as well; two operands are two walks.
run 0 "$data/tensorscatter" "$data/attention_4d/"
last "2 passed, 0 failed"

# Only tightening. Nothing but the rounding of the output's type is left at 0.
run 2 --tolerance 1e-6 "$data"
has err "may only tighten"
run 2 --tolerance=-1e-9 "$data"
has err "may only tighten"
run 2 --tolerance nan "$data"
run 0 --tolerance 9.5e-7 "$data/attention_4d"
run 0 --tolerance 0 "$data/tensorscatter"

run 0 --json "$data/tensorscatter"
has out '"passed": 1'
has out '"name": "present_cache"'
run 0 --verbose "$data/attention_4d_fp16"
has out "Attention of opset 23"
has out "Y f16 (2, 3, 4, 8)"
run 0 --help
run 2
run 2 --method quick "$data"
run 1 --device "no such device" "$data"

# ---- copies with one thing wrong --------------------------------------------------------------

bad=$work/bad
mkdir "$bad"

# copy CASE NAME: a copy under a name of its own.
copy() {
    cp -R "$data/$1" "$bad/$2"
    chmod -R u+w "$bad/$2"
    edit "$2" 's/"name": "'"$1"'"/"name": "'"$2"'"/'
}

# edit NAME SED: changes case.json, and must change something.
edit() {
    cp "$bad/$1/case.json" "$work/before"
    sed "$2" "$work/before" >"$bad/$1/case.json"
    if cmp -s "$work/before" "$bad/$1/case.json"; then
        fail "$1: '$2' changes nothing"
    fi
}

# last_float FILE OCTAL: replaces the last four bytes.
last_float() {
    size=$(wc -c <"$1")
    printf %b "$2" | dd of="$1" bs=1 seek=$((size - 4)) conv=notrunc 2>/dev/null
}

# shift_float FILE ULPS: adds to the low byte of the last little-endian float, modulo 256.
shift_float() {
    size=$(wc -c <"$1")
    low=$(od -A n -t u1 -j $((size - 4)) -N 1 "$1" | tr -d ' ')
    printf %b "\\0$(printf %o $(((low + $2) % 256)))" |
        dd of="$1" bs=1 seek=$((size - 4)) conv=notrunc 2>/dev/null
}

expected=0
# wrong NAME TEXT: the copy must fail with a sentence that contains the text.
wrong() {
    expected=$((expected + 1))
    printf '%s\t%s\n' "$1" "$2" >>"$work/expected"
}

# The values.
copy attention_4d value
last_float "$bad/value/output_0_Y.npy" '\0000\0000\0200\0077'
wrong value "output Y: 1 of 192 elements are over their bound; the worst, (1, 2, 3, 7), is"
copy attention_4d value_near
shift_float "$bad/value_near/output_0_Y.npy" 64
wrong value_near "output Y: 1 of 192 elements"
copy attention_4d nan
last_float "$bad/nan/output_0_Y.npy" '\0000\0000\0300\0177'
wrong nan "where nan is recorded"
copy attention_4d infinity
last_float "$bad/infinity/output_0_Y.npy" '\0000\0000\0200\0377'
wrong infinity "where -inf is recorded"
copy attention_4d input
last_float "$bad/input/input_2_V.npy" '\0000\0000\0300\0177'
wrong input "nan where"
copy attention_4d_with_past_and_present moved
shift_float "$bad/moved/output_1_present_key.npy" 1
wrong moved "output present_key: 1 of 864 elements"
copy tensorscatter scatter
shift_float "$bad/scatter/output_0_present_cache.npy" 1
wrong scatter "output present_cache: 1 of 40 elements"
copy rotary_embedding rotary
edit rotary 's/"attributes": {}/"attributes": {"interleaved": 1}/'
wrong rotary "output Y: "
copy attention_4d_causal mask
edit mask 's/"is_causal": 1/"is_causal": 0/'
wrong mask "output Y: "

# The files.
copy attention_4d missing
rm "$bad/missing/input_1_K.npy"
wrong missing "input_1_K.npy"
copy attention_4d cut
head -c 300 "$data/attention_4d/input_1_K.npy" >"$bad/cut/input_1_K.npy"
wrong cut "input_1_K.npy"
copy attention_4d no_array
echo hello >"$bad/no_array/input_1_K.npy"
wrong no_array "input_1_K.npy"
copy attention_4d swapped
cp "$data/attention_4d/input_0_Q.npy" "$bad/swapped/input_1_K.npy"
wrong swapped "the file's shape (2, 3, 4, 8) is not the one in case.json"
copy attention_4d outside
edit outside 's/"file": "input_1_K.npy"/"file": "..\/value\/input_1_K.npy"/'
wrong outside "is not a plain file name"

# The document.
for name in garbage empty deep list; do
    mkdir "$bad/$name"
done
printf '\377\376{"name"' >"$bad/garbage/case.json"
wrong garbage "case.json, line 1"
: >"$bad/empty/case.json"
wrong empty "case.json, line 1"
head -c 100000 /dev/zero | tr '\000' '[' >"$bad/deep/case.json"
wrong deep "case.json, line 1"
echo "[3]" >"$bad/list/case.json"
wrong list "it must be an object"
mkdir "$bad/large"
head -c 2000000 /dev/zero | tr '\000' ' ' >"$bad/large/case.json"
wrong large "the limit is"
mkdir -p "$bad/folder/case.json"
wrong folder "is not a regular file"
mkdir "$bad/pipe" && mkfifo "$bad/pipe/case.json"
wrong pipe "is not a regular file"
copy attention_4d no_inputs
edit no_inputs 's/"inputs"/"outputs_"/'
wrong no_inputs 'has no "inputs"'
copy attention_4d twice
edit twice 's/"index": 1,/"index": 2,/'
wrong twice "both have index 2"
copy attention_4d index
edit index 's/"index": 1,/"index": -1,/'
wrong index "index -1 of K is not within"
copy attention_4d shape
edit shape 's/"shape": \[/"shape": [ 9223372036854775807, 9223372036854775807,/'
wrong shape "is not the one in case.json"
copy attention_4d number
edit number 's/"opset_version": 23/"opset_version": 99999999999999999999999/'
wrong number "case.json, line"

# The operator.
copy attention_4d operator
edit operator 's/"operator": "Attention"/"operator": "Attention\\u001b[31m"/'
wrong operator 'operator "Attention\x1B[31m" is not known'
copy attention_4d domain
edit domain 's/"domain": ""/"domain": "com.example"/'
wrong domain 'domain "com.example" is not known'
copy attention_4d opset
edit opset 's/"opset_version": 23/"opset_version": 26/'
wrong opset "opset_version 26 of Attention is not within 23 .. 25"
copy attention_local_window window_early
edit window_early 's/"opset_version": 25/"opset_version": 24/'
wrong window_early 'attribute "left_window_size" is not known in Attention of opset 24'
copy attention_4d attribute
edit attribute 's/"attributes": {/"attributes": {"heads": 3/'
wrong attribute 'attribute "heads" is not known'
copy attention_4d_causal attribute_type
edit attribute_type 's/"is_causal": 1/"is_causal": "yes"/'
wrong attribute_type "attribute is_causal is a string, it must be an integer"
copy attention_4d_softcap attribute_range
edit attribute_range 's/"softcap": 2.0/"softcap": 1e300/'
wrong attribute_range "attribute softcap is 1e+300, it must fit a float"
copy attention_4d_softcap softcap
edit softcap 's/"softcap": 2.0/"softcap": -2.0/'
wrong softcap "softcap"
copy attention_24_qk_matmul_output_mode3_softmax_precision precision
edit precision 's/"softmax_precision": 1/"softmax_precision": 11/'
wrong precision "softmax_precision is 11"
copy attention_3d heads
edit heads 's/"q_num_heads": 3/"q_num_heads": 5/'
wrong heads "q_num_heads is 5, it must divide the last axis of Q, 24"
copy attention_3d_gqa head_groups
edit head_groups 's/"q_num_heads": 9/"q_num_heads": 4/'
wrong head_groups "Q, K and V do not fit"
copy attention_4d missing_input
edit missing_input 's/"index": 2,/"index": 6,/'
wrong missing_input "input 2 (V) of Attention is missing"
copy attention_4d_diff_heads_mask4d_padded_kv input_early
edit input_early 's/"opset_version": 24/"opset_version": 23/'
wrong input_early "input 6 (nonpad_kv_seqlen) is not known in Attention of opset 23"
copy attention_4d_diff_heads_mask4d_padded_kv length
last_float "$bad/length/input_6_nonpad_kv_seqlen.npy" '\0377\0377\0377\0377'
wrong length "length"
copy tensorscatter write_index
last_float "$bad/write_index/input_2_write_indices.npy" '\0000\0000\0000\0100'
wrong write_index "index"
copy rotary_embedding position
last_float "$bad/position/input_3_position_ids.npy" '\0000\0000\0000\0100'
wrong position "position"

# The walk.
mkdir "$bad/deeper" && ln -s .. "$bad/deeper/loop"

run 1 "$bad"
last "0 passed, $expected failed"
while IFS="$(printf '\t')" read -r name text; do
    line=$(grep -F -e "FAIL $name: " -e "FAIL $bad/$name: " "$work/out")
    case $line in
        *"$text"*) ;;
        *) fail "$name: '$line' does not say '$text'" ;;
    esac
done <"$work/expected"
if grep -q '[[:cntrl:]]' "$work/out"; then
    fail "a control character of a case reached the output"
fi
run 1 --json "$bad"
has out "\"failed\": $expected"
run 1 --method staged "$bad/value" "$data/attention_4d"
last "1 passed, 1 failed"

# One unit in the last place is rounding, not an error.
copy attention_4d unit
shift_float "$bad/unit/output_0_Y.npy" 1
run 0 "$bad/unit"

mkdir "$work/none"
run 1 "$work/none"
last "0 passed, 1 failed"
has out "there is no case.json"
run 1 "$work/nowhere"
last "0 passed, 1 failed"

[ "$failures" -eq 0 ] || exit 1
echo "verify: $cases cases pass by three methods, $expected altered copies fail"
