#!/bin/sh
# gpu-mha demo: agrees with the model's own numbers, draws its picture, and notices wrong data.
#
#   sh test_demo.sh GPU_MHA DATA    GPU_MHA is the command, DATA has the folder minilm
set -u

command=$1
data=$2/minilm
subcommand=demo
. "$(dirname "$0")/command.sh"
case $command in
    /*) ;;
    *) command=$PWD/$command ;;
esac
case $data in
    /*) ;;
    *) data=$PWD/$data ;;
esac
cd "$work" || exit 1
unset GPU_MHA_DATA_DIR

# is_png FILE: starts with the PNG signature and ends with the last chunk's name and checksum.
is_png() {
    [ "$(od -A n -t x1 -N 8 "$1" | tr -d ' \n')" = 89504e470d0a1a0a ] || fail "$1 is no PNG file"
    [ "$(tail -c 8 "$1" | od -A n -t x1 | tr -d ' \n')" = 49454e44ae426082 ] || fail "$1 is cut off"
}

# ---- what passes ------------------------------------------------------------------------------

# What the model's own weights say: "it" is token 10 of sentence 0, head 1 gives "animal" the most.
run 0 --data "$data"
has out "Device "
has out "layer 3 of 6"
has out "The animal didn't cross the street because it was tired. (15 tokens)"
has out "Time "
has out "Weights   largest error"
has out "Output    largest error"
has out 'Head 1 finds "animal" best: "it" gives it 69.5 % of its attention, more than any other of the 15 tokens.'
has out "first choice of 1 of the 12 heads"
[ "$(grep -c '^ *[0-9][0-9]*  0\.[0-9]* .*, rank [0-9]*$' out)" -eq 12 ] || fail "not 12 rows of heads"
[ -s err ] && fail "there is something on stderr: $(cat err)"
is_png attention.png

run 0 --data "$data" --json --plot picture.png
has out '"passed": true'
has out '"best_head": 1'
is_png picture.png

# Without --data: the environment's folder, and without that the source tree's or the installed one.
run 0
GPU_MHA_DATA_DIR=$work
export GPU_MHA_DATA_DIR
run 1
has err "$work/layer.json"
unset GPU_MHA_DATA_DIR

run 0 --help
run 2 operand
run 2 --plot
run 1 --data "$data" --plot "$work/nowhere/picture.png"
has err "nowhere"
run 1 --data "$work"
has err "layer.json"

# ---- data with one thing wrong ----------------------------------------------------------------

# copy: a fresh copy in the folder `copy`.
copy() {
    rm -rf copy
    cp -R "$data" copy
    chmod -R u+w copy
}

# refused TEXT: the copy must be refused, with a sentence that contains the text and no picture.
refused() {
    rm -f attention.png
    run 1 --data copy
    has err "$1"
    [ ! -e attention.png ] || fail "$1: there is a picture all the same"
}

# last_float FILE OCTAL: replaces the last four bytes.
last_float() {
    size=$(wc -c <"$1")
    printf %b "$2" | dd of="$1" bs=1 seek=$((size - 4)) conv=notrunc 2>/dev/null
}

copy
last_float copy/expected_output.npy '\0000\0000\0200\0077'
run 1 --data copy
has err "further from the model's"
copy
last_float copy/expected_weights.npy '\0000\0000\0300\0177'
run 1 --data copy
has err "further from the model's"
copy
last_float copy/w_v.npy '\0000\0000\0200\0077'
run 1 --data copy
has err "further from the model's"

copy
rm copy/b_k.npy
refused "b_k.npy"
copy
head -c 1000 "$data/w_q.npy" >copy/w_q.npy
refused "w_q.npy"
copy
cp copy/b_q.npy copy/w_q.npy
refused "w_q has the shape (384,), it must be (384, 384)"
copy
cp copy/key_lengths.npy copy/key_mask.npy
refused "key_mask.npy is i64, it must be bool"
copy
sed 's/"heads": 12/"heads": 7/' "$data/layer.json" >copy/layer.json
refused "heads is 7, it must divide the width, 384"
copy
sed 's/"heads": 12/"heads": 0/' "$data/layer.json" >copy/layer.json
refused "heads is 0"
copy
sed 's/"query_token": "it"/"query_token": "he"/' "$data/layer.json" >copy/layer.json
refused 'no sentence has both "he" and "animal"'
copy
sed 's/"tired",/7,/' "$data/layer.json" >copy/layer.json
refused "token 12 of batch entry 0 is not a plain text"
copy
sed 's/"tired",/"\\u001b[31m",/' "$data/layer.json" >copy/layer.json
refused "token 12 of batch entry 0 is not a plain text"
copy
echo '{' >copy/layer.json
refused "layer.json, line"

[ "$failures" -eq 0 ] || exit 1
echo "demo: agrees with the model, and every altered copy is noticed"
