# For short.sh, long.sh and keep.sh: how the fuzzers are built and called. Sourced, with $source set.

targets=$(cd "$source/tests/fuzz" && ls target_*.c | sed 's/^target_//; s/\.c$//')

# find_clang FOLDER: the first Clang that comes with libFuzzer. Debian's PoCL brings one.
find_clang()
{
    for clang in ${FUZZ_CC:-clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14}; do
        if command -v "$clang" >/dev/null 2>&1 &&
            echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }' |
            "$clang" -x c -fsanitize=fuzzer,address,undefined - -o "$1/probe" 2>"$1/probe.log"; then
            echo "$clang"
            return 0
        fi
    done
    return 1
}

# build_fuzzers BUILD: makes them there, or ends with 77 where no Clang has libFuzzer
build_fuzzers()
{
    mkdir -p "$1"
    if ! clang=$(find_clang "$1"); then
        echo "fuzz: SKIPPED: no clang with libFuzzer here (Debian: clang, libclang-rt-dev)"
        exit 77
    fi
    if ! { cmake -S "$source" -B "$1" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DCMAKE_C_COMPILER="$clang" -DCMAKE_C_FLAGS_RELWITHDEBINFO='-O1 -g' \
        -DGPU_MHA_SANITIZE=address,undefined -DGPU_MHA_FUZZERS=ON &&
        cmake --build "$1" --target fuzzers --parallel "${JOBS:-2}"; } >"$1/build.log" 2>&1; then
        cat "$1/build.log"
        echo "fuzz: the fuzzers did not build"
        exit 1
    fi
}

# unpack_corpus BUILD TARGET FOLDER: puts the inputs of the tree into an empty folder
unpack_corpus()
{
    rm -rf "$3"
    for kind in corpus seeds; do
        mkdir -p "$3/$kind"
        "$1/tests/fuzz/fuzz_corpus" unpack "$source/tests/fuzz/$kind/$2.txt" "$3/$kind"
    done
    if [ -d "$source/tests/fuzz/findings/$2" ]; then
        cp "$source/tests/fuzz/findings/$2"/* "$3"
    fi
}

# fuzzer_options TARGET: what each is called with
fuzzer_options()
{
    length=4096
    case $1 in attention | layer | operators | selector) length=400 ;; esac
    # What the command prints of wrong arguments would fill the log.
    silent=1
    case $1 in options) silent=3 ;; esac
    echo "-max_len=$length -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512"
    echo "-print_final_stats=1 -close_fd_mask=$silent"
    if [ -e "$source/tests/fuzz/dict/$1.dict" ]; then
        echo "-dict=$source/tests/fuzz/dict/$1.dict"
    fi
}

# stat LOG NAME: a number of libFuzzer's last lines
stat()
{
    sed -n "s/^stat::$2: *//p" "$1" | tail -n 1
}

# coverage LOG: edges that the run has reached
coverage()
{
    grep -a -o ' cov: [0-9]*' "$1" | tail -n 1 | tr -dc 0-9
}
