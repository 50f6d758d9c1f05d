#!/bin/bash
# bfloat16 beside binary16 in one database: neither takes the other's rows. Planned rows, then a recording whose lines are given to
# the other op as well (its times mean nothing there): replay, record, show, export, select, compare, release --verify.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
recording=$PWD/tests/fixtures/h200-qwen7b.jsonl.zst
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export CUDA_VISIBLE_DEVICES= # a machine with a GPU plans too

. tests/lib.sh

# ---- planned: builds of both types ----
if "$tune" doctor 2>/dev/null | grep -qi "nvrtc.*not found"; then
    echo "# no NVRTC to plan with"
else
    plan() { "$tune" --gpu h200 --shapes smoke --layers wide --m "1,33" --formats ternary-g128 --templates "mma-decode,wgmma-decode" --budget 8s --db "$work/p.db" --cache "$work/cache" "$@"; }
    check "f16 is planned" exits 0 PLANNED plan
    check "bf16 is planned" exits 0 "linear-bf16: x and y in bfloat16" plan --activations bf16
    check "on the emulator as well" same "2" "$(query "$work/p.db" "SELECT count(DISTINCT op) FROM trial t JOIN problem p ON p.id = t.problem WHERE stage = 'verify' AND outcome = 'ok'")"
    check "rows of both stay" same "linear-a16|2
linear-bf16|2" "$(query "$work/p.db" "SELECT op, count(*) FROM winner JOIN problem ON problem.id = problem GROUP BY op ORDER BY op")"
    check "no build serves both" same 0 "$(query "$work/p.db" "SELECT count(*) FROM build a JOIN build b ON a.cubin_hash = b.cubin_hash AND a.op < b.op")"
    check "no raw codes, no scaled weights unless rounded" same 0 "$(query "$work/p.db" "SELECT count(*) FROM build b JOIN candidate c ON c.id = b.candidate WHERE b.op = 'linear-bf16' AND (params LIKE 'RAW_CODES=1%' OR params LIKE '%SCALE_WEIGHTS=1 ROUND_WEIGHTS=0%')")"
    check "the older GPU refuses" exits 1 "no right candidate" "$tune" --gpu t4 --shapes smoke --layers wide --m 1 --activations bf16 --db "$work/t4.db" --cache "$work/cache"
fi

# ---- measured, of a kind ----
[ -f "$recording" ] || exit 0
change() { python3 -Ic 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute(sys.argv[2]); d.commit()' "$1" "$2"; }
problems=(--shapes qwen7b --layers "qkv,o" --m "1,16" --formats ternary-g128)
run=("$tune" --gpu h200 "${problems[@]}" --cache "$work/cache")
check "f16 is replayed" exits 0 "on h200-replay" "${run[@]}" --replay "$recording" --db "$work/r.db"
check "of bf16 nothing was recorded" exits 1 "no right candidate" "${run[@]}" --activations bf16 --replay "$recording" --db "$work/none.db"
change "$work/r.db" "UPDATE device SET gpu = 'h200', name = 'NVIDIA H200' WHERE gpu = 'h200-replay'"
check "written as text" exits 0 f.json "$tune" record --gpu h200 "${problems[@]}" --db "$work/r.db" --t4 -o "$work/f.json"
sed 's/"linear-a16"/"linear-bf16"/g' "$work/f.json" >"$work/b.json"
check "bf16 is replayed" exits 0 "linear-bf16: x and y in bfloat16" "${run[@]}" --activations bf16 --replay "$work/b.json" --db "$work/r.db"
check "f16 has no answers there" exits 1 "no right candidate" "${run[@]}" --replay "$work/b.json" --db "$work/none.db"
change "$work/r.db" "UPDATE device SET gpu = 'h200', name = 'NVIDIA H200' WHERE gpu = 'h200-replay'"

check "show tells them apart" exits 0 "linear-bf16: x and y in bfloat16" "$tune" show --db "$work/r.db"
check "JSON does" sh -c "'$tune' show --db '$work/r.db' --json | python3 -c 'import collections, json, sys
assert collections.Counter(p[\"op\"] for p in json.load(sys.stdin)[\"problems\"]) == {\"linear-a16\": 4, \"linear-bf16\": 4}'"
for what in --trials --outcomes --search "--why o 16"; do
    # shellcheck disable=SC2086  # options and their values
    check "show $what names the op" exits 0 "ternary-g128/linear-bf16" "$tune" show $what --db "$work/r.db"
done
"$tune" show --db "$work/r.db" --csv >"$work/both.csv" 2>/dev/null
check "CSV does" same "4 4" "$(grep -c ,linear-a16, "$work/both.csv") $(grep -c ,linear-bf16, "$work/both.csv")"
check "why names what does not take bf16" exits 0 "does not take ternary-g128 with bf16 activations" "$tune" show --why o 16 --db "$work/r.db"
sed -n 1p "$work/both.csv" >"$work/f.csv" && grep ,linear-a16, "$work/both.csv" >>"$work/f.csv"
check "compare pairs equal ops only" exits 0 "4 same" "$tune" compare "$work/f.csv" "$work/both.csv"

# ---- the answer in other programs ----
select_op() { "$tune" select --gpu h200 --format ternary-g128 --m 16 --n 3584 --k 3584 --db "$work/r.db" --json "$@" | grep '"cubin"'; }
check "select answers for each" sh -c "[ -n '$(select_op)' ] && [ -n '$(select_op --activations bf16)' ] && [ '$(select_op)' != '$(select_op --activations bf16)' ]"
check "export holds both" exits 0 tern_dispatch.h "$tune" export --gpu h200 --db "$work/r.db" -o "$work/x"
cat >"$work/use.c" <<'C'
#define TERN_DISPATCH_IMPLEMENTATION
#include "tern_dispatch.h"
#include <string.h>
int main(void) {
    const struct tern_choice half = tern_select("ternary-g128", NULL, 16, 3584, 3584);
    const struct tern_choice same = tern_select("ternary-g128", "linear-a16", 16, 3584, 3584);
    const struct tern_choice bf16 = tern_select("ternary-g128", "linear-bf16", 16, 3584, 3584);
    return !(half.kernel && half.kernel == same.kernel && bf16.kernel && bf16.match == TERN_MATCH_EXACT && !strcmp(bf16.kernel->op, "linear-bf16") &&
             strcmp(half.kernel->cubin_hash, bf16.kernel->cubin_hash));
}
C
check "tern_select answers for each" sh -c "gcc -std=c99 -Wall -Wextra -Wpedantic -Werror -I'$work/x' '$work/use.c' -o '$work/use' && '$work/use'"

# ---- a release is verified op by op ----
mkdir -p "$work/results/v8/h200" && grep -v ,linear-a16, "$work/both.csv" >"$work/results/v8/h200/winners.csv"
verify() { (cd "$work" && TERN_HOME=${TERN_HOME:-$OLDPWD} "$tune" release v8 --gpu h200 --verify --sample 8 --cache "$work/cache" --replay "$1"); }
check "a release of bf16 holds by its recording" exits 0 "4 problems: 4 same" verify "$work/b.json"
check "and not by that of f16" exits 1 "4 missing" verify "$work/f.json"
exit 0
