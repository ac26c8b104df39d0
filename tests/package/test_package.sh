#!/bin/sh
# Installs a built tree into a scratch prefix and uses it as a stranger would:
#   test_package.sh BUILD_DIR CONFIGURATION WORK_DIR CMAKE VERSION
#
# C and C++ programs, through find_package and through pkg-config, with the shared and the static
# library; the prefix is moved before, so a path left over from the installation fails. Then what
# the library exports, its SONAME, the command, and that uninstalling leaves nothing behind.
set -eu

build=$1
config=$2
work=$3
cmake=$4
version=$5
source=$(cd "$(dirname "$0")" && pwd)
CC=${CC:-cc}
CXX=${CXX:-c++}

fail()
{
    echo "FAILED: $*" >&2
    exit 1
}

rm -rf "$work"
mkdir -p "$work"

# The build tree's manifest belongs to the user's installation, not to this one.
manifest=$build/install_manifest.txt
restore_manifest()
{
    rm -f "$manifest"
    if [ -e "$work/manifest" ]; then
        mv "$work/manifest" "$manifest"
    fi
}
trap restore_manifest EXIT
trap 'exit 1' HUP INT TERM
if [ -e "$manifest" ]; then
    cp "$manifest" "$work/manifest"
fi

echo "== install, then move"
"$cmake" --install "$build" --config "$config" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/prefix"
prefix=$work/prefix
[ -f "$prefix/include/gpu_mha/gpu_mha.h" ] || fail "no header below $prefix/include"
libdir=$(dirname "$(find "$prefix" -name libgpu_mha.a)")
[ -d "$libdir" ] || fail "no libgpu_mha.a below $prefix"

echo "== exported symbols"
shared=$libdir/libgpu_mha.so
nm -D --defined-only "$shared" | awk '{ print $NF }' | sed 's/@.*//' >"$work/symbols"
grep -q '^gpu_mha$' "$work/symbols" || fail "gpu_mha() is not exported"
if grep -v -E '^gpu_mha(_|$)' "$work/symbols"; then
    fail "symbols that are not gpu_mha_*"
fi

# Nothing that the header promises is missing from the library.
"$CC" -E -P "$prefix/include/gpu_mha/gpu_mha.h" -I"$prefix/include" | tr '\n' ' ' |
    grep -o -E 'gpu_mha(_[a-z0-9_]+)? *\(' | tr -d ' (' | sort -u >"$work/declared"
while read -r name; do
    grep -q "^$name\$" "$work/symbols" || fail "$name() is in the header but not exported"
done <"$work/declared"
while read -r name; do
    grep -q "^$name\$" "$work/declared" || fail "$name() is exported but not in the header"
done <"$work/symbols"

echo "== SONAME"
soname=$(readelf -d "$shared" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = "libgpu_mha.so.${version%%.*}" ] || fail "SONAME is '$soname'"
[ -e "$libdir/libgpu_mha.so.$version" ] || fail "no libgpu_mha.so.$version"

run()
{
    output=$("$@") || fail "$* ended with $?"
    [ "$output" = "$version" ] || fail "$* printed '$output', not $version"
}

for language in C CXX; do
    echo "== find_package, $language"
    "$cmake" -S "$source" -B "$work/cmake-$language" -DLANGUAGE=$language -DVERSION="$version" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake-$language.log" \
        || fail "configuring a $language consumer: $(cat "$work/cmake-$language.log")"
    "$cmake" --build "$work/cmake-$language" >>"$work/cmake-$language.log" \
        || fail "building a $language consumer: $(cat "$work/cmake-$language.log")"
    run "$work/cmake-$language/with_gpu_mha"
    run "$work/cmake-$language/with_gpu_mha_static"
    readelf -d "$work/cmake-$language/with_gpu_mha" | grep -q 'NEEDED.*libgpu_mha' ||
        fail "with_gpu_mha does not use the shared library"
    if readelf -d "$work/cmake-$language/with_gpu_mha_static" | grep -q 'NEEDED.*libgpu_mha'; then
        fail "with_gpu_mha_static uses the shared library"
    fi
done

if "$cmake" -S "$source" -B "$work/cmake-version" -DLANGUAGE=C -DVERSION=99.0 \
    -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake-version.log" 2>&1; then
    fail "find_package(gpu_mha 99.0) was satisfied"
fi

PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion gpu_mha)" = "$version" ] || fail "the .pc file has another version"

# compile COMPILER STANDARD SOURCE: once shared, once static
compile()
{
    strict="-std=$2 -Wall -Wextra -Werror -pedantic"
    # pkg-config quotes for a shell to read again, hence eval.
    eval "$1 $strict \"\$source/$3\" -o \"\$work/pc-shared\" \
        $(pkg-config --cflags --libs gpu_mha)" || fail "$3 with pkg-config"
    run env LD_LIBRARY_PATH="$libdir" "$work/pc-shared"

    # The linker prefers the shared library where it finds both; a name with its suffix is exact.
    eval "$1 $strict -DGPU_MHA_STATIC \"\$source/$3\" -o \"\$work/pc-static\" \
        $(pkg-config --static --cflags --libs gpu_mha | sed 's/-lgpu_mha/-l:libgpu_mha.a/')" ||
        fail "$3 with pkg-config --static"
    run "$work/pc-static"
}
echo "== pkg-config, C"
compile "$CC" c11 consumer.c
echo "== pkg-config, C++"
compile "$CXX" c++17 consumer.cpp

echo "== the command"
if [ -e "$prefix/bin/gpu-mha" ]; then
    "$prefix/bin/gpu-mha" --version >"$work/command.log" ||
        fail "the installed command does not start"
    grep -q "$version" "$work/command.log" || fail "gpu-mha --version does not say $version"
fi

echo "== uninstall"
# With DESTDIR, so that both are seen to honour it.
DESTDIR=$work/stage
export DESTDIR
"$cmake" --install "$build" --config "$config" --prefix /opt/prefix >"$work/install.log"
[ -f "$work/stage/opt/prefix/include/gpu_mha/gpu_mha.h" ] || fail "DESTDIR was not honoured"
touch "$work/stage/opt/prefix/include/other.h"
"$cmake" --build "$build" --config "$config" --target uninstall >"$work/uninstall.log" ||
    fail "uninstall"
left=$(find "$work/stage" ! -type d)
[ "$left" = "$work/stage/opt/prefix/include/other.h" ] || fail "uninstall left: $left"
left=$(find "$work/stage" -name 'gpu_mha*')
[ -z "$left" ] || fail "uninstall left directories: $left"
if "$cmake" --build "$build" --config "$config" --target uninstall 2>&1 |
    grep -q 'Removing /'; then
    fail "a second uninstall removed something"
fi
echo "passed"
