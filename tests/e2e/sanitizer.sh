#!/bin/bash
# `tune verify --sanitize` with --backend cuda where there is no GPU: options, a missing tool, a tool that fails, a device that is
# missing under the tool; and --db, which both backends take. What the tool finds on a GPU: tests/gpu/sanitizer.sh.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export CUDA_VISIBLE_DEVICES= # also where there is a GPU

. tests/lib.sh

mkdir "$work/bin"
tool() { # a compute-sanitizer that is this script
    printf '#!/bin/bash\n%s\n' "$1" >"$work/bin/compute-sanitizer"
    chmod +x "$work/bin/compute-sanitizer"
}
sanitize=(env PATH="$work/bin:$PATH" "$tune" verify --backend cuda --sanitize --templates simt-decode --formats ternary-g128 --per-template 0)

if ! command -v compute-sanitizer >/dev/null && ! ls "${CUDA_HOME:-/usr/local/cuda}"/{bin,compute-sanitizer}/compute-sanitizer >/dev/null 2>&1; then
    check "no compute-sanitizer: exit 3 and where it comes from" exits 3 "comes with the CUDA toolkit" "${sanitize[@]}"
fi
tool 'echo "$@" >>'"'$work/asked'"'; while [ "$1" != "${1#-}" ]; do shift 2; done; "$@"; echo "========= ERROR SUMMARY: 0 errors"'
check "no GPU under the tool: exit 3, and no report is believed" exits 3 "libcuda" "${sanitize[@]}"
check "the worker runs under memcheck" grep -q -- "--tool memcheck .* worker verify" "$work/asked"
tool 'echo "no such tool"; exit 9'
check "a tool that dies: exit 1 and what it said" exits 1 "exited with code 9; output: no such tool" "${sanitize[@]}"
check "and which candidate" grep -q "FAILED simt-decode ternary-g128 " "$work/said"

"$tune" --gpu a100 --shapes smoke --layers wide --m 1,3 --formats gptq4-g32 --budget 10s --db "$work/t.db" --cache "$work/cache" >/dev/null 2>&1
winners=$(query "$work/t.db" "SELECT count(DISTINCT b.candidate) FROM winner w JOIN build b ON b.id = w.build")
check "a planned database has winners" at_least "$winners" 1
check "they are right on the emulator" exits 0 "$winners" "$tune" verify --gpu a100 --db "$work/t.db" --order forward --cache "$work/emu" --json
check "and no other candidate is checked" grep -q "\"checked\": $winners," "$work/said"
check "--db and --templates" exits 2 "no winner of wgmma-tile serves any format" "$tune" verify --gpu a100 --db "$work/t.db" --templates wgmma-tile
check "--db of another GPU" exits 2 "a100" "$tune" verify --gpu h200 --db "$work/t.db"
check "--db excludes --all" exits 2 "--db takes winners" "$tune" verify --gpu a100 --db "$work/t.db" --all
check "--db excludes --per-template" exits 2 "--db takes winners" "$tune" verify --gpu a100 --db "$work/t.db" --per-template 0
check "a database that is not there" exits 2 none.db "$tune" verify --gpu a100 --db "$work/none.db"
