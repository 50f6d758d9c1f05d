#!/bin/bash
# The CUDA backend on a real GPU: runs build/tests-gpu/test_device, and builds it first where it is not there yet.
# `tests/gpu/device.sh build` builds only: the program, with templates/ and kernels/, can then be carried to a bare GPU machine.
set -u
cd "$(dirname "$0")/../.." || exit 1
program=build/tests-gpu/test_device
if [ "${1:-}" = build ] || [ ! -x "$program" ]; then
    mkdir -p build/tests-gpu
    make --no-print-directory build/libtern.a >/dev/null || { echo "not ok build of libtern.a" && exit 1; }
    gcc -std=c17 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -Iharness -Itemplates/include tests/gpu/test_device.c tests/gpu/test_timing.c build/libtern.a \
        -static-libgcc -l:liblua5.4.a -l:libsqlite3.a -l:libjansson.a -l:libxxhash.a -l:libzstd.a -ldl -lpthread -lm -o "$program" ||
        { echo "not ok build of $program" && exit 1; }
    [ "${1:-}" != build ] || exit 0
fi
TERN_HOME=$PWD exec "$program"
