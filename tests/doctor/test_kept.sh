#!/bin/sh
# The file of verdicts: damaged, foreign, no file at all, in a place that cannot be written to.
#
#   sh test_kept.sh COMMAND DATA SICK    see sick.sh
set -u
. "$(dirname "$0")/sick.sh"

# The one file of verdicts.
the_file() {
    for file in "$work"/cache/*.verdicts; do
        [ -f "$file" ] || fail "no file of verdicts in $work/cache"
    done
    echo "$file"
}

sick "abort merge_pair" doctor 1 --only merge
file=$(the_file)
cp "$file" "$work/good"
listed merge "f32 crashed"
[ ! -s "$work/err" ] || fail "stderr is not empty: $(cat "$work/err")"

# passed_over TEXT: what lies there is not used, with one warning that says why and how to mend it.
passed_over() {
    listed merge "f32 not tried"
    [ "$(grep -c "^gpu_mha: warn: pass over $file: .*$1.*; gpu-mha doctor makes a new one$" \
        "$work/err")" -eq 1 ] || fail "not told of '$1': $(cat "$work/err")"
    [ "$(grep -c "" "$work/err")" -eq 1 ] || fail "more is told: $(cat "$work/err")"
}

head -c 200 "$work/good" >"$file"
passed_over ""
: >"$file"
passed_over ""
sed 's/crashed/ok/' "$work/good" >"$file" # the checksum is of the whole text
passed_over ""
head -c 70000 /dev/zero >"$file"
passed_over "too large"
rm "$file"
mkdir "$file"
passed_over "no regular file"
rmdir "$file"
cp "$work/good" "$file"
sick "driver" passed_over ""

# The doctor puts a good one in its place.
echo rubbish >"$file"
doctor 0 --only merge
listed merge "f32 ok  f16 ok  bf16 ok"
[ ! -s "$work/err" ] || fail "still passed over: $(cat "$work/err")"

# Nothing to forget is no failure, nor is anything else taken away.
: >"$work/cache/other"
run 0 doctor --forget
[ ! -e "$file" ] || fail "--forget left $file"
[ -e "$work/cache/other" ] || fail "--forget took another file"
run 0 doctor --forget

# lost TEXT: everything is tried and reported, and that nothing could be kept is told.
lost() {
    doctor 1 --only merge
    row merge f32 ok "of the bound"
    row merge bf16 ok "of the bound"
    has out "$1"
    has out "Report, to paste into an issue"
}
GPU_MHA_CACHE_DIR=$work/good/below
lost "Not all could be kept in $work/good/below/"
has err "gpu_mha: warn: read GPU_MHA_CACHE_DIR"
GPU_MHA_CACHE_DIR=$work/open
mkdir -m 777 "$work/open"
lost "Not all could be kept in $work/open/"
has err "it must be the user's and writable to no one else"
mkdir "$work/cache/${file##*/}"
GPU_MHA_CACHE_DIR=$work/cache
lost "Not all could be kept in $file"
run 1 doctor --forget
has err "$file cannot be taken away: "

# Who keeps nothing wants nothing kept.
GPU_MHA_CACHE_DIR=off
doctor 0 --only merge
has out "Nothing was kept: caching is off"
[ ! -s "$work/err" ] || fail "stderr is not empty: $(cat "$work/err")"

ended "kept: a file of verdicts is used where it is sound, and never trusted"
