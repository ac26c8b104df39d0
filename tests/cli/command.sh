# What the tests of the command share; sourced by test_<subcommand>.sh, which has set $command, the
# command, and $subcommand, the word that stands before every argument, or nothing.
#
# $work is a folder that goes away at the end; $failures counts.

work=$(mktemp -d "${TMPDIR:-/tmp}/test_command.XXXXXX") || exit 1
work=$(cd "$work" && pwd) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

fail() {
    echo "FAIL: $*" >&2
    failures=$((failures + 1))
}

# run CODE ARGUMENT...: the command must end with that code; its text is left in out and err.
run() {
    want=$1
    shift
    "$command" ${subcommand:+"$subcommand"} "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$?
    [ "$code" -eq "$want" ] || {
        fail "$subcommand $*: exit code $code, want $want"
        cat "$work/out" "$work/err" >&2
    }
    if grep -q -e Sanitizer -e 'runtime error' "$work/err"; then
        fail "$subcommand $*: $(cat "$work/err")"
    fi
}

# has FILE TEXT: a line of out or err must contain the text.
has() {
    grep -q -F -e "$2" "$work/$1" || {
        fail "'$2' is not in $1:"
        cat "$work/$1" >&2
    }
}
