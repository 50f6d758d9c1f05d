#!/bin/bash
# A planned run that is killed, interrupted, robbed of its cache and carried elsewhere goes on and ends well; bad databases are refused.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export CUDA_VISIBLE_DEVICES= # also where there is a GPU: this test is about not having one
problems=(--gpu a100 --shapes smoke --m "1,3" --templates mma-stream) # 32 candidates, compiled in seconds: the budget is not reached
plan=("$tune" "${problems[@]}" --db "$work/t.db" --cache "$work/cache")

. tests/lib.sh

# kill -9 once something is compiled: the builds that were finished stay, the same command goes on.
"${plan[@]}" >/dev/null 2>&1 &
victim=$!
for _ in $(seq 300); do
    sleep 0.1
    [ "$(query "$work/t.db" "SELECT count(*) FROM build" 2>/dev/null || echo 0)" -ge 3 ] && break
done
kill -9 $victim
wait $victim 2>/dev/null
finished=$(query "$work/t.db" "SELECT count(*) FROM build")
last=$(query "$work/t.db" "SELECT max(id) FROM build")
check "builds were finished before the kill" at_least "$finished" 3
check "the database is whole after kill -9" same "$(query "$work/t.db" "PRAGMA integrity_check")" ok
check "the same command goes on and ends well" exits 0 "nothing was measured" "${plan[@]}"
check "finished builds stand as they were" same "$(query "$work/t.db" "SELECT count(*) FROM build WHERE id <= $last")" "$finished"
check "every candidate was built" same "$(query "$work/t.db" "SELECT count(*) FROM build")" 32
check "a winner for each of 8 problems" same "$(query "$work/t.db" "SELECT count(*) FROM winner")" 8
check "no time without a GPU" same "$(query "$work/t.db" "SELECT count(*) FROM winner WHERE us IS NOT NULL")" 0
check "winners were right on the emulator" at_least "$(query "$work/t.db" "SELECT count(*) FROM trial WHERE policy = 'emu' AND outcome = 'ok'")" 1
check "nothing failed on the emulator" same "$(query "$work/t.db" "SELECT count(*) FROM trial WHERE policy = 'emu' AND outcome != 'ok'")" 0

# A damaged cache entry is found by its checksum and compiled again; the JSON of that run says planned.
entry=$(find "$work/cache" -name '*.zst' | sort | head -1)
printf 'garbage' | dd of="$entry" bs=1 seek=20 conv=notrunc 2>/dev/null
"${plan[@]}" --json >"$work/run.json" 2>"$work/run.err"
check "a damaged cache entry is noticed" grep -q damaged "$work/run.err"
check "the banner says how to finish" grep -q "tune bundle" "$work/run.err"
check "--json is as documented" python3 - "$work/run.json" <<'P'
import json, sys
run = json.load(open(sys.argv[1]))
assert run["mode"] == "planned" and run["gpu"] == "a100" and len(run["problems"]) == 8, run
for p in run["problems"]:
    assert p["status"] == "planned" and p["winner"]["us"] is None and p["winner"]["template"] and p["limit_us"] > 0, p
P

# Ctrl-C while more is compiled than any budget lets it finish: exit 130, nothing lost.
"$tune" --gpu a100 --shapes qwen0.5b --templates mma-decode --db "$work/t.db" --cache "$work/cache" >"$work/int.out" 2>&1 &
victim=$!
for _ in $(seq 300); do
    sleep 0.1
    [ "$(query "$work/t.db" "SELECT count(*) FROM build")" -gt 32 ] && break
done
kill -INT $victim
wait $victim
check "Ctrl-C exits 130" same $? 130
check "Ctrl-C says that the same command goes on" grep -q "the same command goes on" "$work/int.out"
check "the database is whole after Ctrl-C" same "$(query "$work/t.db" "PRAGMA integrity_check")" ok

check "bundle" "$tune" bundle --db "$work/t.db" --cache "$work/cache" -o "$work/b.tar"
mkdir "$work/away" && tar -xf "$work/b.tar" -C "$work/away"
check "the bundle goes on elsewhere with nothing left to do" sh -c "cd '$work/away' && env -u TERN_HOME ./tune ${problems[*]} >said 2>&1 && grep -q PLANNED said && grep -q '32 of 32 candidates' said"
check "bundle into a folder that is not there" exits 4 "cannot write" "$tune" bundle --db "$work/t.db" --cache "$work/cache" -o "$work/none/b.tar"

# Databases that cannot be used.
echo "not a database at all, but long enough to be looked at as one" >"$work/text.db"
check "a database that is not SQLite" exits 4 text.db "$tune" --gpu a100 --shapes smoke --db "$work/text.db" --cache "$work/cache"
python3 -c 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute("PRAGMA user_version = 99"); c.commit()' "$work/t.db"
check "a database of a newer schema" exits 4 99 "${plan[@]}"
