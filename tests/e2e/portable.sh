#!/bin/bash
# The portable folder and an installation work away from the source tree, with an empty environment.
set -u
cd "$(dirname "$0")/../.." || exit 1
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
failures=0

check() { # what, expected text, command...
    local what=$1 expected=$2 got
    shift 2
    got=$("$@" 2>&1)
    if grep -qF -- "$expected" <<<"$got"; then
        echo "ok portable: $what"
    else
        echo "not ok portable: $what: expected '$expected', got:"
        head -5 <<<"$got" | sed 's/^/    /'
        failures=$((failures + 1))
    fi
}

make portable >"$away/log" 2>&1 || { cat "$away/log" && echo "not ok portable: make portable" && exit 1; }
check "builds and needs only glibc" "portable: build/portable/tune needs" scripts/check-portable.sh build/portable/tune
cp -r build/portable "$away/copy"
cd "$away" || exit 1
check "starts" "tune 0." env -i "$away/copy/tune" --version
check "finds the configs beside it" "did you mean h200?" env -i "$away/copy/tune" --gpu h20 --shapes smoke
check "says what is missing without its data" "TERN_HOME" env -i TERN_HOME=/nowhere "$away/copy/tune" --gpu h200 --shapes smoke
cd - >/dev/null || exit 1
check "installs" "share/tern" make install DESTDIR="$away/root" PREFIX=/usr
cd "$away" || exit 1
check "the installed program finds its data" "did you mean qwen7b?" env -i "$away/root/usr/bin/tune" --gpu h200 --shapes qwen7
exit $((failures > 0))
