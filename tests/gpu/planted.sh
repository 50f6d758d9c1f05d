#!/bin/bash
# Kernels with faults planted in them (tests/gpu/planted) on a real GPU, among real candidates: `tune run` gives each its outcome
# within the deadline, the next candidate measures right, winners are real ones, and a second run remembers.
# Needs python3 only; TERN_GPU names the description in configs/gpus (default h200).
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
gpu=${TERN_GPU:-h200}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh

# Long K, so that the race moves sums by less than the bound but often to another binary16; N above that of the check shapes, and no
# multiple of 16, so that there is a weight that no result depends on.
cat >"$work/planted.lua" <<'L'
return { title = "planted", source = "made up", layers = { { name = "layer", n = 520, k = 2048, count = 1 } },
    decode = { 1, 3 }, formats = { "ternary-g128" } }
L
[ -z "${TERN_CEILINGS:-}" ] || cp "$TERN_CEILINGS" "$work/t.db"
plant "$work/home" tests/gpu/planted
TERN_HOME=$work/home
export TERN_HOME
job=("$tune" --gpu "$gpu" --shapes "$work/planted.lua" --db "$work/t.db" --cache "$work/cache" --require-gpu --budget 120s)
run=("${job[@]}" --strategy exhaustive --timeout 5s --templates "planted,simt-decode" --m 1)
from="FROM trial t JOIN build b ON b.id = t.build JOIN candidate c ON c.id = b.candidate JOIN problem p ON p.id = t.problem"
real="c.template != 'planted'"

start=$(date +%s)
check "a run over planted faults ends well" exits 0 "results in" "${run[@]}"
seconds=$(($(date +%s) - start))
sed 's/^/# /' "$work/said"
check "it takes less than 120 s, took $seconds s" [ "$seconds" -lt 120 ]

becomes() { # FAULT, WHERE, stage, outcome, text in its detail
    local got
    got=$(query "$work/t.db" "SELECT t.outcome, t.detail $from WHERE c.params LIKE 'FAULT=$1 WHERE=$2 %' AND t.stage = '$3'")
    echo "# FAULT=$1 WHERE=$2 $3: $got" >>"$work/details"
    [[ $got == "$4|"*"$5"* ]] || { echo "got '$got', expected '$4' and '$5'" && return 1; }
}
while read -r name fault where stage outcome text; do
    check "$name in the $stage becomes $outcome" becomes "$fault" "$where" "$stage" "$outcome" "$text"
done <<'L'
endless-loop 1 0 verify timeout did not answer before its deadline
endless-loop 1 1 screen timeout did not answer before its deadline
illegal-address 2 0 verify fault ILLEGAL_ADDRESS
illegal-address 2 1 screen fault ILLEGAL_ADDRESS
trap 3 0 verify fault
trap 3 1 screen fault
misaligned-access 4 0 verify fault MISALIGNED
misaligned-access 4 1 screen fault MISALIGNED
write-behind-y 5 0 verify wrong wrote outside y
write-behind-y 5 1 screen wrong wrote outside y
write-before-y 6 1 screen wrong wrote outside y
unwritten-element 7 1 screen wrong (1 unwritten)
NaN 8 1 screen wrong got nan
wrong-element 9 1 screen wrong 1 of 520 differ
data-race 10 1 screen nondet two runs on the same input differ
changed-weights 11 0 verify wrong changed its input
changed-weights 11 1 screen wrong changed its inputs
refused-launch 12 0 verify resources
write-behind-workspace 13 0 verify wrong wrote outside the workspace
write-behind-workspace 13 1 screen wrong wrote outside the workspace
no-fault 0 0 screen ok
harmless-race 14 0 screen ok
harmless-overread 15 0 screen ok
L
cat "$work/details"
check "every planted candidate that serves has a row" same "$(query "$work/t.db" "SELECT count(DISTINCT c.params) $from WHERE c.template = 'planted'")" 24
check "no real candidate between and behind them fails" same "$(query "$work/t.db" "SELECT c.params, t.outcome, t.detail $from WHERE $real AND t.outcome NOT IN ('ok', 'invalid')")" ""
check "and there are enough of them" at_least "$(query "$work/t.db" "SELECT count(*) $from WHERE $real AND t.outcome = 'ok' AND t.stage = 'screen'")" 12
check "behind every failure a real candidate is measured right" same "$(query "$work/t.db" "SELECT count(*) FROM (SELECT t.id AS failed $from
    WHERE t.outcome != 'ok') WHERE failed > (SELECT max(t.id) $from WHERE $real AND t.outcome = 'ok')")" 0
query "$work/t.db" "SELECT '# a screen takes ' || round(1000 * avg(t.gpu_seconds), 2) || ' ms on average of ' || count(*) $from
    WHERE $real AND t.stage = 'screen' AND t.outcome = 'ok'"
check "the winner is a real one" same "$(query "$work/t.db" "SELECT DISTINCT c.template FROM winner w JOIN build b ON b.id = w.build JOIN candidate c ON c.id = b.candidate")" simt-decode
check "no row is left running" same "$(query "$work/t.db" "SELECT count(*) FROM trial WHERE outcome = 'running'")" 0

# Without the winner the same command has only the final to do: what failed is known, and no deadline is waited for.
screens="SELECT count(*), max(id) FROM trial WHERE stage != 'final'"
before=$(query "$work/t.db" "$screens")
python3 -Ic 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("DELETE FROM winner")
db.commit()' "$work/t.db"
start=$(date +%s)
check "the same command makes the winner again" exits 0 "" "${run[@]}"
seconds=$(($(date +%s) - start))
check "no candidate is tried again" same "$(query "$work/t.db" "$screens")" "$before"
check "in less than 20 s, took $seconds s" [ "$seconds" -lt 20 ]

# kill -9 with an endless kernel on the device, twice: the device recovers, and the third run leaves the candidate alone.
sed -i 's/values = { 0, 1, .* }, default = 0, doc = "which/values = { 0, 1 }, default = 0, doc = "which/' "$work/home/templates/planted/space.lua"
slow=("${job[@]}" --templates planted --m 3)
of_victim="FROM trial t JOIN quarantine q ON q.build = t.build AND q.problem = t.problem"
ended() { # process numbers: true once none of them runs any more
    local pid
    for _ in $(seq 200); do
        for pid; do
            grep -qs '^State:[^Z]*$' "/proc/$pid/status" && sleep 0.05 && continue 2
        done
        return 0
    done
    echo "process $pid still runs" && return 1
}
for kill in 1 2; do
    "${slow[@]}" --timeout 60s >/dev/null 2>&1 &
    parent=$!
    for _ in $(seq 400); do
        sleep 0.05
        [ "$(query "$work/t.db" "SELECT count(*), max(t.outcome = 'running' AND t.run = (SELECT max(id) FROM run)) $from
            WHERE c.params LIKE 'FAULT=1 %' AND p.m = 3")" = "$kill|1" ] && break
    done
    sleep 1
    workers=$(cat "/proc/$parent/task/$parent/children")
    kill -9 $parent
    wait $parent 2>/dev/null
    check "kill -9 number $kill meets an endless kernel" at_least "$(query "$work/t.db" "SELECT count(*) FROM trial WHERE outcome = 'running'")" 1
    # shellcheck disable=SC2086  # a list
    check "and leaves no worker on the device" ended $workers
done
check "after two kills in one kernel the run ends well" exits 0 "1 of its trials are marked" "${slow[@]}" --timeout 5s
check "its candidate is quarantined" same "$(query "$work/t.db" "SELECT count(*) FROM quarantine")" 1
check "and was not tried a third time" same "$(query "$work/t.db" "SELECT count(*), min(t.interrupted) $of_victim")" "2|1"
check "the database is whole" same "$(query "$work/t.db" "PRAGMA integrity_check")" ok
