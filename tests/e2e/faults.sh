#!/bin/bash
# The measured path without a GPU: replays of a recording whose numbers this script invents. Faults on purpose, kill -9, Ctrl-C,
# a locked database and a full disk: each becomes its outcome or exit code, the run goes on, and the end result stays the same.
# usage: faults.sh [KILLS]   how many random moments for kill -9 (default 50)
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
kills=${1:-50}
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1 # a hundred runs commit a thousand times each
trap 'rm -rf "$work"' EXIT

. tests/lib.sh
. tests/recording.sh
nth="SELECT outcome, detail FROM trial WHERE stage = 'screen' ORDER BY id LIMIT 1 OFFSET" # trial request, from 0

# ---- a replay ------------------------------------------------------------------------------------------------------------------
check "a recording of nothing gives no winner" exits 1 "have no right candidate" replay nothing.db device.jsonl
check "what was not recorded is invalid" same "$(query "$work/nothing.db" "SELECT DISTINCT outcome, detail FROM trial")" "invalid|not recorded"
check "a replay ends well" exits 0 "on h200-replay" replay t.db r.jsonl
reference=$(query "$work/t.db" "$winners")
check "it has a winner for each of 4 problems" same "$(grep -c . <<<"$reference")" 4
check "it has wrong candidates too" same "$(query "$work/t.db" "SELECT count(*) > 0 FROM trial WHERE outcome = 'wrong'")" 1
check "its rows are a replay's and nothing else's" same "$(query "$work/t.db" "SELECT DISTINCT d.gpu, d.name, t.policy FROM trial t JOIN device d ON d.id = t.device")" \
    "h200-replay|NVIDIA H200 (replay)|replay"
check "again: nothing is left to do" exits 0 "4 of 4 problems are done already" replay t.db r.jsonl
check "again: no trial is repeated" as_reference t.db
replay twin.db r.jsonl >/dev/null 2>&1
check "a replay is deterministic" as_reference twin.db
check "its JSON says replayed" sh -c "'$tune' show --json --db '$work/t.db' | grep -q '\"mode\": \"replayed\"'"
check "export knows no rows of the GPU itself" exits 2 "h200-replay" "$tune" export --gpu h200 --db "$work/t.db" -o "$work/x"
check "export refuses replays" exits 2 "h200-replay" "$tune" export --gpu h200-replay --db "$work/t.db" -o "$work/x"
check "a recording of another GPU is refused" exits 2 "was recorded on NVIDIA H200" "$tune" --gpu a100 --shapes smoke --db "$work/o.db" --replay "$work/r.jsonl"
check "a missing recording" exits 2 "no such recording" replay o.db missing.jsonl
head -c 5000 "$work/r.jsonl" >"$work/cut.jsonl"
check "a truncated recording" exits 4 truncated replay o.db cut.jsonl
check "record refuses a replay" exits 2 "not recorded again" "$tune" record --gpu h200-replay --db "$work/t.db" -o "$work/x.zst"
# The way of a real recording: rows as a GPU would have left them, written by `tune record`, replayed to the same winners.
cp "$work/twin.db" "$work/real.db"
python3 -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("UPDATE device SET gpu = ?, name = ?, driver = ?", ("h200", "NVIDIA H200", "invented"))
db.execute("UPDATE trial SET policy = ? WHERE stage = ?", ("small", "verify"))
db.commit()' "$work/real.db"
check "record" exits 0 "16 baselines" "$tune" record --gpu h200 --shapes smoke --db "$work/real.db" -o "$work/real.jsonl.zst"
replay again.db real.jsonl.zst >/dev/null 2>&1
check "what was recorded replays to the same winners" as_reference again.db

# ---- a database that another program holds ------------------------------------------------------------------------------------
# The run waits 10 s before it gives up; this runs beside the faults.
held() {
    local holder
    cp "$work/twin.db" "$work/held.db"
    python3 -Ic 'import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(60)' "$work/held.db" >"$work/holder" &
    holder=$!
    until [ -s "$work/holder" ]; do sleep 0.05; done
    check "a database held by another program: exit 4" exits 4 "database is locked" replay held.db r.jsonl
    kill $holder
    wait $holder 2>/dev/null
    check "once it lets go the same command ends well" exits 0 "4 of 4 problems are done already" replay held.db r.jsonl
    check "and as it would have" as_reference held.db
}
held >"$work/held.out" 2>&1 &

# ---- faults on purpose ---------------------------------------------------------------------------------------------------------
# The first trial from the third request on whose build wins nothing: its loss changes no result.
victim=$(query "$work/t.db" "SELECT n FROM (SELECT row_number() OVER (ORDER BY id) AS n, build FROM trial WHERE stage = 'screen')
    WHERE n > 2 AND build NOT IN (SELECT build FROM trial WHERE stage = 'final') LIMIT 1")
becomes() { # kind, request, outcome, text in its detail
    local db=$1-$2.db got
    exits 0 "on h200-replay" replay "$db" r.jsonl --timeout 2s --fault "$1@$2" || return 1
    got=$(query "$work/$db" "$nth $(($2 - 1))")
    [[ $got == "$3|"*"$4"* ]] || { echo "got '$got', expected '$3' and '$4'" && return 1; }
    as_reference "$db"
}
while read -r kind outcome text; do
    check "$kind in a trial becomes $outcome" becomes "$kind" "$victim" "$outcome" "$text"
done <<'L'
crash crash killed by signal 11
abort crash killed by signal 6
exit crash exited with code 7
garbage crash something that is no message
hang timeout did not answer before its deadline
wrong wrong 1 of 1 differ
nan wrong got nan
unwritten wrong unwritten
outside wrong wrote outside y
nondet nondet two runs differ
fault fault illegal address
oom resources out of device memory
noisy noisy no stable time
L
again() { # kind, outcome, text: the first final fails, a second worker repeats it
    local db=final-$1.db
    exits 0 "on h200-replay" replay "$db" r.jsonl --fault "$1@f1" || return 1
    same "$(query "$work/$db" "SELECT DISTINCT outcome FROM trial WHERE id IN (SELECT min(id) FROM trial WHERE stage = 'final' GROUP BY problem)
        ORDER BY 1")" "$(printf '%s\n' "$2" ok | sort)" || return 1
    same "$(query "$work/$db" "SELECT DISTINCT count(*) > 0 FROM trial WHERE stage = 'final' AND outcome = '$2' AND detail LIKE '%$3%'")" 1 &&
        as_reference "$db"
}
check "crash in a final: it is repeated" again crash crash "signal 11"
check "fault in a final: it is repeated" again fault fault "illegal address"
check "garbage in a final: it is repeated" again garbage crash "no message"
check "a final that fails twice costs its problem: exit 1" exits 1 "1 of 4 problems have no right candidate" replay twice.db r.jsonl --fault "crash@f1,exit@f2"
check "and the same command mends it" exits 0 "3 of 4 problems are done already" replay twice.db r.jsonl
check "as it would have been" as_reference twice.db
check "several faults in one run" exits 0 "on h200-replay" replay many.db r.jsonl --fault "crash@2,fault@5,oom@6,exit@8"
check "each became its row" same "$(query "$work/many.db" "SELECT group_concat(outcome) FROM (SELECT outcome FROM trial WHERE outcome NOT IN ('ok', 'wrong') ORDER BY id)")" crash,fault,resources,crash
check "every trial crashes: exit 1" exits 1 "no right candidate" replay each.db r.jsonl --formats gptq4-g32 --fault "crash@*"
check "every trial crashes: each is a row" same "$(query "$work/each.db" "SELECT DISTINCT outcome FROM trial")" crash
check "a worker that dies at each hello: exit 3" exits 3 "cannot be started (3 attempts)" replay hello.db r.jsonl --fault crash@0
check "a device that is wedged: exit 3" exits 3 "finished trials are kept" replay wedge.db r.jsonl --fault "wedge@$victim"
check "a wedged device leaves no running trial" same "$(query "$work/wedge.db" "$running")" 0
check "once it is back the same command ends well" exits 0 "on h200-replay" replay wedge.db r.jsonl
check "and as it would have" as_reference wedge.db
check "unknown faults are refused" exits 2 "did you mean 'crash'" replay o.db r.jsonl --fault crsh@3

# A build that is on the device at two kills is quarantined: the third run leaves it alone.
kill_in_trial() { # request number at which the replay is slow
    "${job[@]}" --db "$work/twice-killed.db" --replay "$work/r.jsonl" --fault "slow@$1" >/dev/null 2>&1 &
    for _ in $(seq 100); do
        sleep 0.05
        [ "$(query "$work/twice-killed.db" "SELECT max(outcome = 'running') FROM trial WHERE run = $2 AND stage = 'screen'" 2>/dev/null)" = 1 ] &&
            sleep 0.3 && break
    done
    kill -9 $! && wait $! 2>/dev/null
}
kill_in_trial "$victim" 1
kill_in_trial 1 2
check "after two kills in one trial the run ends well" exits 0 "on h200-replay" replay twice-killed.db r.jsonl
check "and its build is quarantined" same "$(query "$work/twice-killed.db" "SELECT count(*) FROM quarantine")" 1
check "and is not tried a third time" same "$(query "$work/twice-killed.db" "SELECT count(*) FROM trial t JOIN quarantine q ON q.build = t.build AND q.problem = t.problem WHERE t.stage = 'screen'")" 2
check "and everything else is as it would have been" as_reference twice-killed.db

# ---- Ctrl-C, locks, a full disk ------------------------------------------------------------------------------------------------
"${job[@]}" --db "$work/int.db" --replay "$work/r.jsonl" --fault "slow@$victim" >"$work/int.out" 2>&1 &
slow=$!
for _ in $(seq 200); do
    [ "$(query "$work/int.db" "SELECT count(*) FROM trial" 2>/dev/null || echo 0)" -ge "$victim" ] && break
    sleep 0.02
done
check "a locked database: exit 4 with its holder" exits 4 "wait for process $slow" replay int.db r.jsonl
kill -INT $slow
wait $slow
check "Ctrl-C exits 130" same $? 130
check "Ctrl-C says that the same command goes on" grep -q "the same command goes on" "$work/int.out"
check "Ctrl-C leaves no running trial" same "$(query "$work/int.db" "$running")" 0
check "it does" exits 0 "on h200-replay" replay int.db r.jsonl
check "and ends as it would have" as_reference int.db

# A file-size limit stands for a full disk: a write fails half-way, and nothing needs root.
full() (
    trap '' XFSZ
    ulimit -f 160
    replay full.db r.jsonl
)
check "a full disk: exit 4 and what to do" exits 4 "free some space" full
check "the database is whole" same "$(query "$work/full.db" "PRAGMA integrity_check")" ok
check "with space again the same command ends well" exits 0 "on h200-replay" replay full.db r.jsonl
check "and as it would have" as_reference full.db

# ---- kill -9 at random moments -------------------------------------------------------------------------------------------------
# Moments spread over the time that a whole run takes here and now, so that start, checks, screens, finals and promotion are met.
start=$(date +%s%N)
replay timed.db r.jsonl >/dev/null 2>&1
whole_us=$((($(date +%s%N) - start) / 1000))
survives() { # database, microseconds
    "${job[@]}" --db "$work/$1" --replay "$work/r.jsonl" >/dev/null 2>&1 &
    sleep "$(printf '%d.%06d' $(($2 / 1000000)) $(($2 % 1000000)))"
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    if [ -s "$work/$1" ]; then
        query "$work/$1" "PRAGMA integrity_check" >>"$work/whole"
        query "$work/$1" "SELECT count(*) FROM trial WHERE outcome != 'running'" >>"$work/finished" 2>/dev/null
    fi
    exits 0 "on h200-replay" replay "$1" r.jsonl && as_reference "$1"
}
RANDOM=1
for i in $(seq "$kills"); do
    check "kill -9 number $i" survives "kill$i.db" $((whole_us * (RANDOM % 1000) / 1000))
    rm -f "$work/kill$i.db"*
done
check "the database was whole after each kill" same "$(sort -u "$work/whole")" ok
check "a fifth of them and more met a run with finished trials" same "$(awk '$1 > 0 { n++ } END { print (5 * n > '"$kills"') }' "$work/finished")" 1

wait
cat "$work/held.out"
