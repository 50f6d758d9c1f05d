#!/bin/bash
# Python packages that only tests use, to hold Tern against code that nobody here wrote: the official readers and writers of both
# containers. Prints the folder for PYTHONPATH; where they cannot be had, says why on stderr and ends with 1. usage: test-packages.sh
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$PWD/.deps/test-packages
python=${PYTHON:-python3}
command -v "$python" >/dev/null || { echo "needs python3" >&2 && exit 1; }
found() { PYTHONPATH=$1 "$python" -c 'import numpy, safetensors, gguf' 2>/dev/null; }
if found "${PYTHONPATH:-}"; then
    echo "${PYTHONPATH:-}"
    exit 0
fi
if ! found "$folder"; then
    rm -rf "$folder"
    timeout 120 "$python" -m pip --disable-pip-version-check install --quiet --target "$folder" --only-binary :all: \
        safetensors gguf numpy >/dev/null 2>&1
    found "$folder" || { rm -rf "$folder"; echo "pip could not fetch safetensors, gguf and numpy" >&2; exit 1; }
fi
echo "$folder"
