#!/bin/sh
# Makes a Python environment with the pinned peers of peers.py. Some gigabytes, nothing of which the
# build or the tests need.
#   setup.sh DIR
set -eu

if [ $# -ne 1 ]; then
    echo "usage: setup.sh DIR" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
"${PYTHON:-python3}" -m venv "$1"
"$1/bin/python" -m pip install --quiet --requirement "$here/requirements.txt"
echo "$1/bin/python $here/peers.py LIBRARY"
