#!/bin/bash
# Templates x formats x odd shapes on the emulator, and proof that a broken kernel is caught: one TAP line for each template and format.
# Under three minutes on two cores. usage: tests/emulator/matrix.sh [option of tune verify...]
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
tune=${TUNE:-$root/build/tune}
bad=0
if ! command -v g++ >/dev/null && ! command -v clang++ >/dev/null; then
    echo "no C++ compiler for the emulator"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

check() { # name, condition's exit code
    if [ "$2" -eq 0 ]; then
        echo "ok $1"
    else
        echo "not ok $1"
        tail -30 "$work/log" | sed 's/^/    /'
        bad=1
    fi
}

# ---- the matrix: the default candidate, of some formats one more, every order of threads ------------------------------
verify() { # least number of pairs, option...
    local least=$1 code rows=0
    shift
    timeout -k 5 900 "$tune" verify --backend emu --jobs "$(nproc)" --cache "$work/cache" "$@" \
        >"$work/log" 2>"$work/errors"
    code=$?
    while read -r template format good failed _ launches _; do
        [ "$template" = template ] && continue
        [ "${failed//[0-9]/}" = "" ] && [ -n "$failed" ] && [ "${launches//[0-9]/}" = "" ] || break
        rows=$((rows + 1))
        [ "$good" -gt 0 ] && [ "$failed" -eq 0 ] && [ "$launches" -gt 0 ]
        check "$template $format: $good candidates, $launches launches" $?
    done <"$work/log"
    [ "$code" -eq 0 ] && [ "$rows" -gt 0 ] || cat "$work/errors"
    [ "$code" -eq 0 ]
    check "tune verify exits with 0" $?
    [ "$rows" -ge "$least" ]
    check "$rows pairs of template and format were checked" $?
}
# every code width twice, by the way it decodes and by its groups; the rest by the default alone, in the order that finds most
verify 34 --per-template 1 --order all --formats ternary-g128,gptq3-g128,gptq4-g128-asym,gptq8-g64-asym "$@"
verify 58 --per-template 0 --order starved --formats "ternary-g64,ternary-channel,ternary-tensor,gptq2-g64,gptq2-channel-asym,gptq3-g32-asym" "$@"
verify 52 --per-template 0 --order starved --formats "gptq4-g32,gptq4-g96-asym,gptq4-g128,gptq4-channel,gptq8-channel,gptq8-channel-asym" "$@"
# bfloat16: three code widths decode in three ways; here and below one order of threads
verify 12 --per-template 1 --order shuffled --activations bf16 --formats ternary-g128,gptq4-g128-asym,gptq8-g64-asym "$@"
grep -q '^activations: bf16' "$work/log"
check "the table says that it is of bfloat16" $?
# int8: x is quantised first; code widths, groups that are short or span a tile, one scale a row, by both templates
verify 10 --per-template 1 --order shuffled --activations int8 --formats ternary-g128,ternary-tensor,gptq4-g32,gptq4-g128-asym,gptq8-channel "$@"
# e4m3: 2-bit codes decode in two ways, 4-bit ones in a third
verify 5 --per-template 1 --order shuffled --activations e4m3 --formats ternary-g128,ternary-tensor,gptq2-g64-asym,gptq4-g32,gptq4-g128-asym "$@"

# ---- a kernel with one bug at a time --------------------------------------------------------------------------------------------
home=$work/home
mkdir -p "$home/templates/broken" || exit 1
for entry in configs kernels scripts harness; do
    ln -s "$root/$entry" "$home/$entry"
done
ln -s "$root/templates/include" "$home/templates/include"
cat examples/templates/naive/kernel.cu tests/emulator/broken/kernel.cu >"$home/templates/broken/kernel.cu"
cp tests/emulator/broken/space.lua "$home/templates/broken/"
broken() { # option...
    TERN_HOME=$home timeout -k 5 600 "$tune" verify --templates broken --formats gptq4-g32 --shapes 2 --cache "$work/cache" "$@" \
        >"$work/log" 2>&1
}

broken --all --jobs "$(nproc)"
[ $? -eq 1 ]
check "bugs make the command exit with 1" $?
# BUG=14 is an overread of a local array, which only sanitizers see; 0 is right; 11 and 12 are not enumerated (resources, valid)
[ "$(grep -c '^FAILED' "$work/log")" -eq 12 ] && ! grep -qE '^FAILED.*BUG=(0|14) ' "$work/log"
check "each of 12 bugs is found, the right kernel is not blamed" $?
broken --per-template 0
[ $? -eq 0 ]
check "the right one passes alone" $?

broken --all --order forward --sanitize --jobs "$(nproc)"
grep -A1 '^FAILED.*BUG=14 ' "$work/log" | grep -q 'index 4 out of bounds'
check "UBSan names the overread of a local array" $?
grep -A1 '^FAILED.*BUG=4 ' "$work/log" | grep -q 'AddressSanitizer: use-after-poison .*kernel.cu'
check "ASan names the line that writes behind a buffer" $?
! grep -qE '^FAILED.*BUG=0 ' "$work/log"
check "the right kernel is clean under ASan and UBSan" $?
# the objects are in the cache now: one worker loads them one after the other and reports after many it has left
broken --all --order forward --sanitize --jobs 1
[ $? -eq 1 ] && grep -A1 '^FAILED.*BUG=4 ' "$work/log" | grep -q 'AddressSanitizer: use-after-poison .*kernel.cu'
check "ASan still names it in a worker that has run other objects" $?

# ---- launched while the kernel ahead is at work ---------------------------------------------------------------------------------
timeout -k 5 600 "$tune" verify --launch dependent --formats ternary-g128,gptq4-g32,gptq3-g32-asym --per-template 1 --order all \
    --jobs "$(nproc)" --cache "$work/cache" >"$work/log" 2>"$work/errors"
[ $? -eq 0 ] && [ "$(grep -c ' ternary-g128 ' "$work/log")" -ge 5 ]
check "templates that can be launched dependently touch nothing but weights before they wait" $?
mkdir -p "$home/templates/early" && cp tests/early/space.lua "$home/templates/early/" &&
    cat examples/templates/naive/kernel.cu tests/early/kernel.cu >"$home/templates/early/kernel.cu"
early() { # option...
    TERN_HOME=$home timeout -k 5 600 "$tune" verify --templates early --formats gptq4-g32 --shapes 3 --all --cache "$work/cache" "$@" \
        >"$work/log" 2>&1
}
early --launch dependent
[ $? -eq 1 ] && [ "$(grep -c '^FAILED' "$work/log")" -eq 4 ] && ! grep -q '^FAILED.*FAULT=0 ' "$work/log"
check "each of 4 kernels that are too early is found, the right one is not blamed" $?
early
[ $? -eq 0 ]
check "launched plainly none of them is wrong" $?

"$tune" verify --templates nosuch >"$work/log" 2>&1
[ $? -eq 2 ]
check "an unknown template is a usage error" $?
"$tune" verify --templates imma-decode --activations bf16 --formats ternary-g128 >"$work/log" 2>&1
[ $? -eq 2 ]
check "a template that does not take bfloat16 leaves nothing to verify" $?
"$tune" verify --templates simt-decode --formats gptq5-g128 >"$work/log" 2>&1
[ $? -eq 2 ]
check "an unknown format is a usage error" $?
PATH=$work CXX='' "$tune" verify --templates simt-decode --formats ternary-g128 >"$work/log" 2>&1
[ $? -eq 3 ]
check "no C++ compiler is exit 3" $?
exit $bad
