#!/bin/bash
# End to end without a GPU: plan a tiny model, go on after kill -9, show, export, compile the header, select, report.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
tune=${TUNE:-$root/build/tune}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export CUDA_VISIBLE_DEVICES= # a machine with a GPU plans too
failures=0

ok() { echo "ok plan: $1"; }
not_ok() {
    echo "not ok plan: $1"
    [ $# -lt 2 ] || tail -8 "$2" | sed 's/^/    /'
    failures=$((failures + 1))
}
expect() { # what, exit code, text in the output or "", command...
    local what=$1 code=$2 text=$3
    shift 3
    "$@" >"$work/log" 2>&1
    local got=$?
    if [ "$got" = "$code" ] && { [ -z "$text" ] || grep -qF -- "$text" "$work/log"; }; then ok "$what"; else not_ok "$what (exit $got, expected $code with '$text')" "$work/log"; fi
}

cat >odd.lua <<'L'
return { title = "odd", source = "reports", layers = { { name = "square", n = 2880, k = 2880, count = 1 } }, decode = { 1, 16 }, formats = { "gptq4-g32" } }
L
expect "case 52: N = K = 2880 in groups of 32 has kernels" 0 "2 planned" "$tune" --gpu a100 --shapes odd.lua --templates mma-decode --budget 5 --db odd.db
expect "case 41: groups of 256 are right" 0 "mma-tile       gptq4-g256                1      0" "$tune" verify --formats gptq4-g256 --templates mma-decode,mma-tile --per-template 0 --shapes 2

plan=("$tune" --gpu a100 --shapes smoke --m "1,3" --templates mma-stream) # 32 candidates, compiled in seconds

expect "--require-gpu without one is exit 3" 3 "tune: " "${plan[@]}" --require-gpu
expect "show before any run" 2 "tune: " "$tune" show

# kill -9 in the middle of compiling; the same command then goes on.
"${plan[@]}" >first.log 2>&1 &
pid=$!
for _ in $(seq 100); do
    [ "$(find results/cache -name '*.zst' 2>/dev/null | wc -l)" -ge 3 ] && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
done
kill -9 "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
before=$(find results/cache -name '*.zst' 2>/dev/null | wc -l)
if [ "$before" -ge 3 ]; then ok "kill -9 left $before compiled kernels"; else not_ok "kill -9 left $before compiled kernels" first.log; fi
expect "the same command goes on to the end" 0 "PLANNED" "${plan[@]}"
grep -q "nothing is measured" "$work/log" && ok "the banner says that nothing is measured" || not_ok "no banner" "$work/log"

expect "show --json says planned" 0 '"planned"' "$tune" show --json
cp "$work/log" show.json
expect "no time that no GPU measured" 1 "" grep -E '"us": *[0-9]' show.json
expect "export refuses planned rows" 1 "--allow-planned" "$tune" export --gpu a100 -o refused
expect "export --allow-planned" 0 "tern_dispatch.h" "$tune" export --gpu a100 --allow-planned -o out
cp out/tern_dispatch.h first.h 2>/dev/null
expect "export again" 0 "" "$tune" export --gpu a100 --allow-planned -o out
expect "the header is the same byte for byte" 0 "" cmp first.h out/tern_dispatch.h
printf '#include "tern_dispatch.h"\nint main(void) { return 0; }\n' >use.c
cp use.c use.cpp
expect "the header is clean C99" 0 "" gcc -std=c99 -pedantic -Wall -Wextra -Werror -Iout use.c -o use
expect "the header is clean C++" 0 "" g++ -std=c++11 -pedantic -Wall -Wextra -Werror -Iout use.cpp -o use
expect "select answers" 0 "exact" "$tune" select --gpu a100 --format ternary-channel --m 1 --n 384 --k 256
expect "select beyond what was tuned" 0 "" "$tune" select --gpu a100 --format ternary-channel --m 7 --n 4096 --k 4096
if command -v gnuplot >/dev/null; then
    expect "report" 0 "index.html" "$tune" report --gpu a100 -o report
    plots=$(find report -name '*.png' -size +4k | wc -l)
    [ "$plots" -ge 3 ] && ok "$plots plots" || not_ok "only $plots plots of more than 4 KiB"
fi
# Dependent launches: rows of their own, which answer when they are asked for.
job=("$tune" --gpu h200 --shapes smoke --layers wide --m 1 --formats ternary-g128 --templates mma-decode --budget 4 --db both.db)
expect "a plan of dependent launches" 0 "smoke+dependent" "${job[@]}" --launch dependent
expect "it exports kernels that say so" 0 "" "$tune" export --gpu h200 --db both.db --cache results/cache --allow-planned -o dependent
expect "as dependent kernels" 0 "" grep -qE '^ +"[0-9a-f]+", "[0-9a-f]+", 1, 64, [0-9]+, [0-9]+, 1, 0},$' dependent/tern_dispatch.h
expect "a plain plan beside it" 0 "PLANNED" "${job[@]}"
expect "both are kept" 0 "" sh -c '"$1" show --db both.db | grep -c "^smoke" | grep -qx 2' _ "$tune"
expect "without a model's name the plain one answers" 1 "" sh -c '"$1" select --gpu h200 --db both.db --format ternary-g128 --m 1 --n 384 --k 256 | grep DEPENDENT=1' _ "$tune"
expect "by its name the other does" 0 "DEPENDENT=1" "$tune" select --gpu h200 --db both.db --shapes smoke+dependent --format ternary-g128 --m 1 --n 384 --k 256
mkdir bin && ln -s "$(command -v g++)" "$(command -v sh)" bin/
expect "report without gnuplot still writes its data" 3 "gnuplot" env PATH="$work/bin" "$tune" report --gpu a100 -o bare
[ -n "$(find bare -name '*.tsv' 2>/dev/null)" ] && ok "data without gnuplot" || not_ok "no data without gnuplot"
printf 'not a database' >bad.db
expect "a file that is no database" 4 "bad.db" "$tune" show --db bad.db
exit $((failures > 0))
