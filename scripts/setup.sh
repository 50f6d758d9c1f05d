#!/bin/bash
# Installs what building and testing Tern needs and this machine lacks. Says nothing and takes no time where all is there.
#   Debian 12, Ubuntu 24.04: packages by apt when root or with password-less sudo, else prints the one command.
#   CUDA: a toolkit (CUDA_HOME, nvcc on PATH, /usr/local/cuda), else NVRTC, headers and cuBLAS from pip wheels into .deps/cuda.
set -u
cd "$(dirname "$0")/.." || exit 3

fail() {
    echo "setup: $1" >&2
    [ $# -gt 1 ] && echo "  hint: $2" >&2
    exit 3
}

# ---- packages ------------------------------------------------------------------------------------------------------------------
# A package and a file that proves it (or what replaces it) is there.
library=/usr/lib/$(gcc -print-multiarch 2>/dev/null || uname -m)-linux-gnu
[ -d "$library" ] || library=/usr/lib/$(uname -m)-linux-gnu
missing=()
want() { # package, file or command that must exist
    case "$2" in
    /*) [ -e "$2" ] || missing+=("$1") ;;
    *) command -v "$2" >/dev/null 2>&1 || missing+=("$1") ;;
    esac
}
want gcc gcc
want g++ g++
want make make
want binutils readelf
want liblua5.4-dev /usr/include/lua5.4/lua.h
want libsqlite3-dev /usr/include/sqlite3.h
want libjansson-dev /usr/include/jansson.h
want libxxhash-dev /usr/include/xxhash.h
want libzstd-dev /usr/include/zstd.h
want libcmocka-dev /usr/include/cmocka.h
want gnuplot-nox gnuplot

if [ ${#missing[@]} -gt 0 ]; then
    command -v apt-get >/dev/null || fail "missing: ${missing[*]}" "install what your distribution calls these, then run this again"
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif sudo -n true 2>/dev/null; then
        as_root=sudo
    else
        fail "missing packages: ${missing[*]}" "sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
    fi
    echo "setup: installing ${missing[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    install=(apt-get install -y --no-install-recommends "${missing[@]}")
    # The package lists may be missing or old: fetch them when the first try fails.
    $as_root "${install[@]}" >/dev/null 2>&1 ||
        { $as_root apt-get update >&2 && $as_root "${install[@]}" >&2; } ||
        fail "apt-get could not install ${missing[*]}" "see its messages above"
fi

# ---- CUDA ----------------------------------------------------------------------------------------------------------------------
scripts/find-cuda.sh include >/dev/null && exit 0

python=$(command -v python3) || fail "no CUDA toolkit and no python3 to fetch its wheels with" \
    "install a CUDA 12.4+ or 13 toolkit and set CUDA_HOME, or install python3 and python3-pip"
echo "setup: no CUDA toolkit found: fetching NVRTC, headers and cuBLAS wheels into .deps/" >&2
fetch=.deps/wheels
rm -rf "$fetch" .deps/cuda
mkdir -p "$fetch" || fail "cannot write to .deps/"
# CUDA 13 wheels carry no suffix and unpack to nvidia/cu13; those of CUDA 12 are named -cu12 and unpack to a folder each.
wheels13=(nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl nvidia-cublas)
wheels12=(nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-cccl-cu12 nvidia-cublas-cu12)
pip() { "$python" -m pip --disable-pip-version-check install --quiet --target "$fetch" --only-binary :all: --no-deps "$@" >&2; }
pip "${wheels13[@]/%/>=13,<14}" || { rm -rf "$fetch" && pip "${wheels12[@]/%/>=12.4,<13}"; } ||
    fail "pip could not fetch the CUDA wheels" "install a CUDA 12.4+ or 13 toolkit and set CUDA_HOME; or check python3-pip and the network"

# One toolkit-like folder of links: include/ and lib64/.
mkdir -p .deps/cuda/include .deps/cuda/lib64
for part in "$fetch"/nvidia/*/; do
    [ -d "$part/include" ] && cp -rs "$PWD/$part/include/." .deps/cuda/include/ 2>/dev/null
    [ -d "$part/lib" ] && find "$PWD/$part/lib" -name 'lib*.so*' -exec ln -sf -t .deps/cuda/lib64 {} +
done
scripts/find-cuda.sh include >/dev/null || fail "the wheels hold no cuda.h and cuda_fp16.h" "install a CUDA toolkit and set CUDA_HOME"
[ -n "$(find .deps/cuda/lib64 -name 'libnvrtc.so*' -print -quit)" ] || fail "the wheels hold no libnvrtc"
echo "setup: CUDA headers and libraries are in .deps/cuda" >&2
