#!/bin/bash
# Dependent launches on a real GPU: kernels that touch what the one ahead still writes (tests/early) are found wrong, the right one is
# timed under a policy of its own, and launched plainly none is wrong. Real templates pass, captured in graphs.
# Needs python3 only; TERN_GPU names the description in configs/gpus (default h200).
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
gpu=${TERN_GPU:-h200}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh

cat >"$work/early.lua" <<'L'
return { title = "early", source = "made up", layers = { { name = "layer", n = 1040, k = 2048, count = 1 } },
    decode = { 1, 3 }, formats = { "ternary-g128" } }
L
[ -z "${TERN_CEILINGS:-}" ] || cp "$TERN_CEILINGS" "$work/t.db"
plant "$work/home" tests/early
TERN_HOME=$work/home
export TERN_HOME
run=("$tune" --gpu "$gpu" --shapes "$work/early.lua" --db "$work/t.db" --cache "$work/cache" --require-gpu --strategy exhaustive)
from="FROM trial t JOIN build b ON b.id = t.build JOIN candidate c ON c.id = b.candidate"

check "a dependent run over planted faults ends well" exits 0 "early+dependent" "${run[@]}" --launch dependent --templates early --m 1
outcomes="SELECT substr(c.params, 7, 1), max(t.outcome = 'wrong') $from WHERE c.template = 'early' GROUP BY 1 ORDER BY 1"
check "every kernel that is too early is wrong, the right one is not" same \
    "$(query "$work/t.db" "$outcomes" | tr '\n' ' ')" "0|0 1|1 2|1 3|1 4|1 "
check "it was timed under a policy of its own" same \
    "$(query "$work/t.db" "SELECT DISTINCT t.policy $from WHERE t.us IS NOT NULL")" "graph/cold/dependent"
check "a plain run of the same kernels ends well" exits 0 "results in" "${run[@]}" --templates early --m 1
check "and none of them is wrong" same \
    "$(query "$work/t.db" "SELECT count(*), sum(t.outcome = 'ok') $from WHERE t.policy = 'graph/cold' AND t.stage = 'screen'")" "5|5"
check "both winners are kept, each by its shapes name" same \
    "$(query "$work/t.db" "SELECT group_concat(shapes) FROM (SELECT shapes FROM winner ORDER BY shapes)")" "early,early+dependent"
real=imma-decode,mma-stream,mma-decode,mma-tile
check "a dependent run of real templates ends well" exits 0 "results in" \
    "${run[@]}" --launch dependent --templates "$real" --m 3 --budget 12s
check "none of them is wrong" same \
    "$(query "$work/t.db" "SELECT c.template, c.params, t.outcome, t.detail $from WHERE c.template != 'early' AND t.outcome NOT IN ('ok', 'invalid', 'resources')")" ""
check "and there are enough of them" at_least \
    "$(query "$work/t.db" "SELECT count(*) $from WHERE c.params LIKE '% DEPENDENT=1' AND t.outcome = 'ok' AND t.stage = 'screen' AND c.template != 'early'")" 12
