#!/bin/sh
# Prints a folder of the CUDA toolkit: `find-cuda.sh include` or `find-cuda.sh lib`. Prints nothing and exits 1 if there is none.
# Order: $CUDA_HOME, the toolkit of nvcc on PATH, the usual folder, the wheels that setup.sh puts into .deps/cuda.
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
nvcc=$(command -v nvcc 2>/dev/null)
[ -n "$nvcc" ] && nvcc=$(dirname -- "$(dirname -- "$(readlink -f -- "$nvcc")")")

for root in "$CUDA_HOME" "$nvcc" /usr/local/cuda "$here/.deps/cuda"; do
    [ -n "$root" ] || continue
    [ -e "$root/include/cuda.h" ] && [ -e "$root/include/cuda_fp16.h" ] || continue
    case "$1" in
    include) echo "$root/include" && exit 0 ;;
    lib)
        for lib in "$root/lib64" "$root/lib"; do
            [ -d "$lib" ] && echo "$lib" && exit 0
        done
        ;;
    *) echo "usage: find-cuda.sh include|lib" >&2 && exit 2 ;;
    esac
done
exit 1
