#!/bin/bash
# One run on all GPUs of this host that are alike: work is shared, a killed worker and a killed run cost nothing but time. Right with
# one GPU as well. Needs python3 only; TERN_GPU names the description in configs/gpus (default h200), TERN_DEVICES_OUT a folder that
# keeps database, cache and what was said.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
gpu=${TERN_GPU:-h200}
export TERN_HOME=${TERN_HOME:-$PWD}
work=$(mktemp -d) || exit 1
trap 'kill -9 ${run:-} 2>/dev/null; rm -rf "$work"' EXIT

. tests/lib.sh
job=("$tune" --gpu "$gpu" --shapes qwen7b --formats ternary-g128 --layers "o,qkv" --budget 30s
    --db "$work/t.db" --cache "$work/cache" --require-gpu)
twice="SELECT count(*) FROM (SELECT 1 FROM trial WHERE outcome != 'crash' GROUP BY problem, build, policy, stage HAVING count(*) > 1)"
split="SELECT count(*) FROM (SELECT problem FROM (SELECT problem, device FROM trial WHERE stage = 'final' AND outcome = 'ok'
    UNION SELECT problem, device FROM baseline UNION SELECT problem, device FROM winner) GROUP BY problem HAVING count(DISTINCT device) > 1)"
kept="SELECT count(DISTINCT device) FROM control WHERE kept = 1"

check "all devices end well" exits 0 "trials in" "${job[@]}" --device all --m "1,8,64"
cp "$work/said" "$work/shared.txt"
gpus=$(query "$work/t.db" "SELECT count(*) FROM control")
check "each has control times" same "$gpus" "$(nvidia-smi -L | grep -c '^GPU ')"
check "each that was kept took part" same "$(query "$work/t.db" "SELECT count(DISTINCT device) FROM trial")" "$(query "$work/t.db" "$kept")"
check "a problem's final ran on one of them" same "$(query "$work/t.db" "$split")" 0
check "a winner for each of 6 problems" same "$(query "$work/t.db" "SELECT count(*) FROM winner")" 6

runs() { query "$work/t.db" "SELECT max(id) FROM run"; } # ceilings that had to be measured are a run, too
busy() { # rows of runs that were there before, screened candidates: waits until a later run has so many
    for _ in $(seq 600); do
        sleep 0.1
        [ "$(query "$work/t.db" "SELECT count(*) FROM trial WHERE stage = 'screen' AND run > $1")" -ge "$2" ] && break
    done
}
# A worker that is killed from outside takes its trial with it, not the run.
before=$(runs)
"${job[@]}" --device all --m "2,4" >"$work/killed.txt" 2>&1 &
run=$!
busy "$before" 10
worker=$(awk '{ print $NF }' "/proc/$run/task/$run/children") # builds are done by now: its children are the GPU workers
kill -9 "${worker:?the run has no GPU worker}"
wait $run
check "a run whose worker was killed ends well" same $? 0
check "what crashed is of one problem, if anything" same "$(query "$work/t.db" "SELECT count(DISTINCT problem) <= 1 FROM trial WHERE outcome = 'crash'")" 1
check "and has winners" same "$(query "$work/t.db" "SELECT count(*) FROM winner")" 10

# kill -9 of the run: the same command goes on, also with fewer devices.
before=$(runs)
"${job[@]}" --device all --m "16,128" >/dev/null 2>&1 &
run=$!
busy "$before" 20
kill -9 $run
wait $run 2>/dev/null
check "a killed run goes on with one device" exits 0 "trials in" "${job[@]}" --device 0 --m "16,128"
check "no finished trial was repeated" same "$(query "$work/t.db" "$twice")" 0
check "no trial is left running" same "$(query "$work/t.db" "SELECT count(*) FROM trial WHERE outcome = 'running'")" 0
check "nothing computes wrong" same "$(query "$work/t.db" "SELECT count(*) FROM trial WHERE outcome IN ('wrong', 'nondet', 'fault')")" 0
check "the database is whole" same "$(query "$work/t.db" "PRAGMA integrity_check")" ok
[ -z "${TERN_DEVICES_OUT:-}" ] || cp -r "$work/t.db" "$work/cache" "$work"/*.txt "$TERN_DEVICES_OUT"/
