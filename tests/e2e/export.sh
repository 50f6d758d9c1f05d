#!/bin/bash
# tune export, select and show on a database of invented rows: exit codes, messages, files, and the header in a C program.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
writer=build/tests/test_output_export
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh

[ -x "$writer" ] || make "$writer" >/dev/null || exit 1
"$writer" --write-database "$work/measured.db" || exit 1
"$writer" --write-database "$work/planned.db" planned || exit 1

check "export writes the header" exits 0 "$work/a/tern_dispatch.h" "$tune" export --gpu h200 --shapes qwen7b.lua --db "$work/measured.db" -o "$work/a"
"$tune" export --gpu h200 --db "$work/measured.db" -o "$work/b" >/dev/null 2>&1
check "the same rows give the same bytes" cmp "$work/a/tern_dispatch.h" "$work/b/tern_dispatch.h"
cat >"$work/use.c" <<'C'
#define TERN_DISPATCH_IMPLEMENTATION
#include "tern_dispatch.h"
int main(void) {
    struct tern_choice c = tern_select("ternary-g128", NULL, 1, 37888, 3584);
    return !(c.kernel && c.match == TERN_MATCH_EXACT && c.grid[0] > 0 && c.block > 0 && !TERN_DISPATCH_PLANNED);
}
C
check "the header compiles and answers" sh -c "gcc -std=c99 -Wall -Wextra -Wpedantic -Werror -I'$work/a' '$work/use.c' -o '$work/use' && '$work/use'"
check "planned rows are refused" exits 1 "--allow-planned" "$tune" export --gpu h200 --db "$work/planned.db" -o "$work/p"
check "nothing is written then" test ! -e "$work/p/tern_dispatch.h"
check "planned rows are exported when asked for" exits 0 tern_dispatch.h "$tune" export --gpu h200 --db "$work/planned.db" -o "$work/p" --allow-planned
check "the header says that they are planned" grep -q "TERN_DISPATCH_PLANNED 1" "$work/p/tern_dispatch.h"
check "unknown GPU" exits 2 "h200" "$tune" export --gpu h20 --db "$work/measured.db" -o "$work/x"
check "empty selection" exits 2 "--shapes qwen7b" "$tune" export --gpu h200 --shapes llama3-8b --db "$work/measured.db" -o "$work/x"
check "other GPU" exits 2 "a100" "$tune" export --gpu a100 --db "$work/measured.db" -o "$work/x"
check "missing database" exits 2 "$work/none.db" "$tune" export --gpu h200 --db "$work/none.db" -o "$work/x"
check "not a database" exits 4 "use.c" "$tune" export --gpu h200 --db "$work/use.c" -o "$work/x"
check "output folder not writable" exits 4 "use.c" "$tune" export --gpu h200 --db "$work/measured.db" -o "$work/use.c/sub"
check "missing option" exits 2 "-o DIR" "$tune" export --gpu h200 --db "$work/measured.db"
check "select answers" exits 0 "exact" "$tune" select --gpu h200 --db "$work/measured.db" --format ternary-g128 --m 1 --n 37888 --k 3584
check "select finds nothing" exits 1 "serves" "$tune" select --gpu h200 --db "$work/measured.db" --format gptq8-channel --m 1 --n 64 --k 64
check "select with M = 0 launches nothing" exits 0 "none" "$tune" select --gpu h200 --db "$work/measured.db" --format ternary-g128 --m 0 --n 37888 --k 3584
check "select --json is JSON" sh -c "'$tune' select --gpu h200 --db '$work/measured.db' --format ternary-g128 --m 3 --n 64 --k 64 --json | python3 -m json.tool"
check "show --json is JSON" sh -c "'$tune' show --db '$work/planned.db' --json | python3 -m json.tool"
check "show --csv has the documented columns" sh -c "'$tune' show --db '$work/measured.db' --csv | sed -n 1p | grep -qx format,op,layer,n,k,m,template,params,us,us_lo,us_hi,baseline,baseline_us,speedup,limit_us,pct_of_limit,p_best,regret,sustained_us,sustained_speedup,shapes,layer_count,policy"
check "show fits 80 columns" sh -c "'$tune' show --db '$work/measured.db' | awk 'length > 80 { bad = 1 } END { exit bad || NR < 100 }'"
check "show names planned rows" exits 0 "nothing was measured" "$tune" show --db "$work/planned.db"
check "show of a missing database" exits 2 "$work/none.db" "$tune" show --db "$work/none.db"
