#!/bin/sh
# The suite at small shapes on every runtime that on.sh knows:
#   long.sh BUILD_DIR [RUNTIME...]
#
# BUILD_DIR holds a build of the tests. JOBS (default 2) is how many programs run at a time, ONLY a
# pattern of the shell for the checks that run (ONLY='masks.*'), LOGS (default BUILD_DIR/compilers)
# the folder for what they say. What cannot run here says so and counts as skipped. The last lines
# are a table by runtime; the exit code is 1 if anything failed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
data=$here/../data
all="pocl-auto pocl-loops pocl-loopvec pocl-workitemrepl pocl-cbs pocl-basic pocl-pthread \
rusticl intel oclgrind"
limit=3600 # seconds for one program

# The checks of a runtime, a line each.
checks() {
    "$build/tests/compilers/test_compilers_masks" --list | sed 's/^/masks./'
    case $1 in
    pocl-auto | pocl-pthread) ;; # the device of the whole suite
    pocl-*)
        tiny
        one_tile masks
        printf 'attention.%s\n' masks splits sweep_features
        ;;
    oclgrind) tiny ;; # a simulator bears no more
    *)
        tiny
        one_tile masks types sweep_features
        printf 'attention.%s\n' masks splits sweep_features sweep_numbers layouts types extremes \
            determinism guard_pages gpu_shapes cases_empty_rows cases_geometry cases_lengths \
            cases_masks cases_outputs enqueue blocking_call huge_and_empty
        printf '%s\n' operators.merge operators.rotary operators.cache_update layer.layer cli.verify
        ;;
    esac
}

tiny() {
    printf '%s\n' kernels.tiny_attention kernels.tiny_decode kernels.tiny_gemm \
        operators.tiny_operators
}

# Tests of attention/ on the tiles of on_tile.
one_tile() {
    for name in "$@"; do
        printf '%s\n' "shared.$name" "rows.$name" "heads.$name"
    done
}

# run_check CHECK COMMAND...: the program of the check, by COMMAND.
run_check() {
    name=$1
    shift
    case $name in
    masks.*)
        export CK_RUN_CASE="${name#masks.}"
        "$@" "$build/tests/compilers/test_compilers_masks"
        ;;
    shared.*) on_tile "shared 2,4,2,4,16,4,0,0" "$@" ;;
    rows.*) on_tile "rows 1,8,16" "$@" ;;
    heads.*) on_tile "heads 12,16,1,16" "$@" ;;
    cli.verify) "$@" "$build/bin/gpu-mha" verify "$data/onnx" ;;
    *) "$@" "$build/tests/test_$(echo "$name" | tr . _)" ;;
    esac
}

# on_tile TILE COMMAND...: the program of $name among those of attention, every run on one tile.
on_tile() {
    export GPU_MHA_TILE="$1" GPU_MHA_TEST_TILE="$1"
    shift
    "$@" "$build/tests/test_attention_${name#*.}"
}

# one RUNTIME CHECK: runs it and leaves a line in $logs/results.
one() {
    log=$logs/$1.$2.log
    export GPU_MHA_CACHE_DIR=off XDG_CACHE_HOME="$logs/cache" CK_TIMEOUT_MULTIPLIER=10
    export MHA_TEST_DIGESTS="$logs/$1.$2.digests"
    mkdir -p "$logs/work/$1.$2"
    cd "$logs/work/$1.$2"
    began=$(date +%s)
    status=0
    run_check "$2" timeout "$limit" sh "$here/on.sh" "$1" >"$log" 2>&1 || status=$?
    case $status in
    0) verdict=passed ;;
    77) verdict=skipped ;;
    *) verdict=failed ;;
    esac
    record "$verdict" "$1" "$2" "$(($(date +%s) - began)) s, exit code $status"
}

# record VERDICT RUNTIME CHECK REMARK
record() {
    echo "$1 $2 $3" >>"$logs/results"
    echo "$1: $2 $3 ($4)"
    if [ "$1" != passed ] && [ -e "$logs/$2.$3.log" ]; then
        grep -a -e SKIPPED -e '%: Checks' -e ':[EF]:' -e '^FAIL' -e rror "$logs/$2.$3.log" |
            head -n 5 | cut -c 1-300 | sed 's/^/    /'
    fi
}

# Whether the runtime runs a kernel at all; else all its checks are skipped. A broken one fails them.
is_here() {
    status=0
    GPU_MHA_CACHE_DIR=off sh "$here/on.sh" "$1" "$build/bin/gpu-mha" verify \
        "$data/onnx/attention_4d" >"$logs/$1.log" 2>&1 || status=$?
    if [ "$status" -ne 77 ]; then
        return 0
    fi
    grep -a SKIPPED "$logs/$1.log" || true
    return 1
}

# The same compiler, driven another way, gives the same bits: RUNTIME against pocl-auto.
compare_bits() {
    for file in "$logs/pocl-auto".masks.*.digests; do
        check=${file#"$logs/pocl-auto."}
        other=$logs/$1.$check
        if [ ! -e "$file" ] || [ ! -e "$other" ]; then
            continue
        fi
        verdict=passed
        cmp -s "$file" "$other" || verdict=failed
        record "$verdict" "$1" "bits.${check%.digests}" "against pocl-auto"
    done
}

if [ $# -eq 5 ] && [ "$1" = --one ]; then
    build=$2
    logs=$3
    one "$4" "$5"
    exit 0
fi
if [ $# -lt 1 ] || [ ! -x "$1/tests/compilers/test_compilers_masks" ]; then
    echo "usage: long.sh BUILD_DIR [RUNTIME...], of: $all" >&2
    exit 2
fi
build=$(cd "$1" && pwd)
shift
runtimes=${*:-$all}
logs=${LOGS:-$build/compilers}
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)
rm -f "$logs"/*.log "$logs"/*.digests
: >"$logs/results"
: >"$logs/plan"

for runtime in $runtimes; do
    here_or_not=yes
    is_here "$runtime" || here_or_not=no
    for check in $(checks "$runtime"); do
        # shellcheck disable=SC2254
        case $check in
        ${ONLY:-*}) ;;
        *) continue ;;
        esac
        if [ "$here_or_not" = yes ]; then
            echo "$runtime $check" >>"$logs/plan"
        else
            echo "skipped $runtime $check" >>"$logs/results"
        fi
    done
done
xargs -r -P "${JOBS:-2}" -n 2 sh "$here/long.sh" --one "$build" "$logs" <"$logs/plan"
for runtime in $runtimes; do
    case $runtime in
    pocl-auto) ;;
    pocl-*) compare_bits "$runtime" ;;
    esac
done

# count VERDICT RUNTIME
count() {
    grep -c "^$1 $2 " "$logs/results" || true
}
echo
printf '%-18s %7s %7s %7s\n' runtime passed failed skipped
for runtime in $runtimes; do
    printf '%-18s %7s %7s %7s\n' "$runtime" "$(count passed "$runtime")" \
        "$(count failed "$runtime")" "$(count skipped "$runtime")"
done
printf '%-18s %7s %7s %7s\n' all "$(count passed '.*')" "$(count failed '.*')" \
    "$(count skipped '.*')"
if grep '^failed ' "$logs/results"; then
    exit 1
fi
