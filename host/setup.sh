#!/bin/sh
# Installs the Debian packages that are missing:  sh host/setup.sh [--tests]
#
# --tests adds what the test suite needs. Needs root or sudo only if something is missing. On other
# systems it names the packages and leaves the rest to the build.
set -eu

packages="gcc libc6-dev make cmake pkg-config ocl-icd-opencl-dev pocl-opencl-icd libclblast-dev
    libjansson-dev libpng-dev"
case ${1-} in
'') ;;
--tests) packages="$packages g++ check oclgrind mesa-opencl-icd" ;;
*)
    echo "usage: setup.sh [--tests]" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "setup: this is no Debian system. The build needs what these packages hold there:"
    # shellcheck disable=SC2086
    printf '  %s\n' $packages
    echo "setup: nothing installed; going on with what is here"
    exit 0
fi

missing=
for package in $packages; do
    state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) || state=
    if [ "$state" != "install ok installed" ]; then
        missing="$missing $package"
    fi
done
if [ -z "$missing" ]; then
    echo "setup: all packages are installed"
    exit 0
fi

root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "setup: run this as root, or install sudo; missing packages:$missing" >&2
        exit 1
    fi
    root=sudo
fi

echo "setup: installing$missing"
# The lists may be empty or old, as in a fresh container.
$root apt-get update -qq
# shellcheck disable=SC2086
$root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends $missing
echo "setup: done"
