#!/bin/bash
# A newcomer adds a template by adding one folder: copies examples/templates/naive into an otherwise untouched home and asks `tune verify`
# for it by name. Fails if the name is known before, if it is not after, or if verification lets a broken copy pass.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
tune=${TUNE:-$root/build/tune}
bad=0

check() { # name, condition's exit code
    if [ "$2" -eq 0 ]; then
        echo "ok $1"
    else
        echo "not ok $1"
        sed 's/^/    /' "$home/log" | tail -20
        bad=1
    fi
}

if ! command -v g++ >/dev/null && ! command -v clang++ >/dev/null; then
    echo "no C++ compiler for the emulator"
    exit 77
fi

home=$(mktemp -d) || exit 1
trap 'rm -rf "$home"' EXIT
mkdir "$home/templates" || exit 1
for entry in configs kernels scripts harness; do
    [ -e "$root/$entry" ] && ln -s "$root/$entry" "$home/$entry"
done
ln -s "$root/templates/include" "$home/templates/include"
for entry in "$root"/templates/*/space.lua; do
    ln -s "$(dirname "$entry")" "$home/templates/"
done
export TERN_HOME=$home

# A format of each kind and two candidates: the emulator matrix of the tests does the rest.
formats=ternary-g128,gptq3-g32-asym,gptq4-g128,gptq8-channel
verify() {
    timeout -k 5 300 "$tune" verify --backend emu --templates naive --formats "$formats" --per-template 1 \
        --cache "$home/cache" >"$home/log" 2>&1
}

verify
[ $? -eq 2 ]
check "the name is unknown before the folder is there" $?

cp -r examples/templates/naive "$home/templates/naive"
verify
check "the folder alone makes it known, compiled and right" $?
grep -q naive "$home/log"
check "the report names it" $?

# The same with a wrong zero point: what was verified above must have been verified.
sed -i 's/- zero)/- zero - 1)/' "$home/templates/naive/kernel.cu"
! cmp -s examples/templates/naive/kernel.cu "$home/templates/naive/kernel.cu" || exit 1
formats=gptq4-g128
verify
[ $? -eq 1 ]
check "a wrong kernel is found wrong" $?

exit $bad
