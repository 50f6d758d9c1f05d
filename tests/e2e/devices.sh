#!/bin/bash
# One run on several devices, without a GPU: replay workers share the work of a recording whose numbers are invented. The winners
# are those of one device, whatever dies, hangs, is interrupted or does not fit; every trial says on which device it ran.
# usage: devices.sh [KILLS]   how many random moments for kill -9 (default 10)
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
kills=${1:-10}
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh
. tests/recording.sh

replay one.db r.jsonl >/dev/null 2>&1
reference=$(query "$work/one.db" "$winners")
check "one device: a winner for each of 4 problems" same "$(grep -c . <<<"$reference")" 4
on="SELECT DISTINCT d.uuid FROM trial t JOIN device d ON d.id = t.device ORDER BY 1"
# Finals, their baselines and the winner of a problem must name one device.
split="SELECT count(*) FROM (SELECT problem FROM (SELECT problem, device FROM trial WHERE stage = 'final' AND outcome = 'ok'
    UNION SELECT problem, device FROM baseline UNION SELECT problem, device FROM winner) GROUP BY problem HAVING count(DISTINCT device) > 1)"

# ---- work is shared --------------------------------------------------------------------------------------------------------------
check "two devices end well" exits 0 "on h200-replay" replay two.db r.jsonl --device 0,1
check "and tell what each did" grep -q "device 1 (replay-1): [1-3] problems" "$work/said"
check "with the winners of one" as_reference two.db
check "both took part" same "$(query "$work/two.db" "$on")" "$(printf '%s\n' replay-0 replay-1)"
check "a problem's final ran on one of them" same "$(query "$work/two.db" "$split")" 0
check "again with another device: nothing is left to do" exits 0 "4 of 4 problems are done already" replay two.db r.jsonl --device 2
check "more devices than layers end well" exits 0 "on h200-replay" replay five.db r.jsonl --device 4,3,2,1,0
check "with the winners of one, too" as_reference five.db
check "a replay has one device, however many there are" exits 2 "'all' is no device number" replay o.db r.jsonl --device all
check "no device twice" exits 2 "names device 1 twice" replay o.db r.jsonl --device 1,1
check "numbers only" exits 2 "'x' is no device number" replay o.db r.jsonl --device 0,x

# ---- devices that do not fit ------------------------------------------------------------------------------------------------------
check "a device unlike the others is left out" exits 0 "device 1 (replay-1) is left out: its control times differ" \
    replay unlike.db r.jsonl --device 0,1,2 --fault unlike@d1:0
check "with its figures" grep -q "device 1 (replay-1): control read 1.10 us, matrix burst 1.1 us" "$work/said"
check "and measures nothing" same "$(query "$work/unlike.db" "$on")" "$(printf '%s\n' replay-0 replay-2)"
check "of two the faster one stays" exits 0 "device 0 (replay-0) is left out" replay slower.db r.jsonl --device 0,1 --fault unlike@d0:0
check "a device that cannot be opened is left out" exits 0 "device 0 is left out: the replay worker cannot be started (3 attempts)" \
    replay closed.db r.jsonl --device 0,1 --fault crash@d0:0
check "with the winners of the other" as_reference closed.db

# ---- devices that are lost --------------------------------------------------------------------------------------------------------
(check "an endless kernel holds up its own device only" exits 0 "on h200-replay" replay hang.db r.jsonl --device 0,1 --timeout 5s --fault hang@d1:4 &&
    check "and is one timeout" same "$(query "$work/hang.db" "SELECT group_concat(outcome) FROM trial WHERE outcome NOT IN ('ok', 'wrong')")" timeout) \
    >"$work/hang.out" 2>&1 &
for moment in d1:1 d1:9 d0:f1; do
    check "a device that is wedged at $moment: the other does its work" exits 0 "is lost, its work goes to the others: the replay worker cannot be started" \
        replay "wedge-$moment.db" r.jsonl --device 0,1 --fault "wedge@$moment"
    check "all of it, once, and nothing is left running" same "$(query "$work/wedge-$moment.db" "$running" "$repeated" "$split" "SELECT count(*) FROM winner")" "$(printf '%s\n' 0 0 0 4)"
done
check "a final that a device was lost over is repeated as it would have been" as_reference wedge-d0:f1.db
check "all devices wedged: exit 3" exits 3 "cannot be started (3 attempts)" replay wedged.db r.jsonl --device 0,1 --fault wedge@f1
check "no trial is left running" same "$(query "$work/wedged.db" "$running")" 0
check "once they are back the same command ends well" exits 0 "on h200-replay" replay wedged.db r.jsonl --device 0,1
check "and as it would have" as_reference wedged.db

# ---- Ctrl-C and kill -9 -----------------------------------------------------------------------------------------------------------
"${job[@]}" --db "$work/int.db" --replay "$work/r.jsonl" --device 0,1 --fault "slow@d1:5,slow@d0:9" >"$work/int.out" 2>&1 &
victim=$!
for _ in $(seq 200); do
    [ "$(query "$work/int.db" "SELECT count(*) FROM trial WHERE outcome = 'running'" 2>/dev/null || echo 0)" = 4 ] && sleep 0.3 && break
    sleep 0.02
done
kill -INT $victim
wait $victim
check "Ctrl-C exits 130" same $? 130
check "Ctrl-C leaves no running trial" same "$(query "$work/int.db" "$running")" 0
check "the same command goes on" exits 0 "on h200-replay" replay int.db r.jsonl --device 0,1
check "and ends as it would have" as_reference int.db

start=$(date +%s%N)
replay timed.db r.jsonl --device 0,1 >/dev/null 2>&1
whole_us=$((($(date +%s%N) - start) / 1000))
survives() { # database, microseconds
    "${job[@]}" --db "$work/$1" --replay "$work/r.jsonl" --device 0,1 >/dev/null 2>&1 &
    sleep "$(printf '%d.%06d' $(($2 / 1000000)) $(($2 % 1000000)))"
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    exits 0 "on h200-replay" replay "$1" r.jsonl --device 1,2 && as_reference "$1"
}
RANDOM=2
for i in $(seq "$kills"); do
    check "kill -9 number $i, then other devices" survives "kill$i.db" $((whole_us * (RANDOM % 1000) / 1000))
done

wait
cat "$work/hang.out"
