#!/bin/bash
# What stays valid after a change: another compiler with the same machine code, with other machine code, an edited template. Builds
# of a replay have their key as image, so that an "older compiler" is made by renaming keys in the database.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
recording=$PWD/tests/fixtures/h200-qwen7b.jsonl.zst
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -f "$recording" ] || { echo "no recording $recording" && exit 77; }

. tests/lib.sh

replay() { "$tune" --gpu h200 --shapes qwen7b --layers qkv,o --m 1,16 --formats ternary-g128 --strategy exhaustive --cache "$work/cache" --replay "$recording" --db "$work/$1"; }
edit() { # database, SQL
    python3 -Ic 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1]); db.executescript(sys.argv[2]); db.commit()' "$work/$1" "$2"
}
candidate="JOIN build b ON b.id = build JOIN candidate c ON c.id = b.candidate"
winners="SELECT p.n, p.m, c.template, c.params, w.us, w.speedup FROM winner w JOIN problem p ON p.id = w.problem $candidate ORDER BY 1, 2"
new_trials="SELECT count(*) FROM trial t $candidate WHERE run = (SELECT max(id) FROM run)" # of the last run
older="UPDATE build SET key = 'older' || substr(key, 6); UPDATE toolchain SET nvrtc = 'older'"
one="(SELECT min(build) FROM winner)"

check "a first run" exits 0 "on h200-replay" replay first.db
reference=$(query "$work/first.db" "$winners")
check "it has 4 winners" same "$(grep -c . <<<"$reference")" 4
screens=$(query "$work/first.db" "$new_trials AND stage = 'screen'")

cp "$work/first.db" "$work/same.db" && edit same.db "$older"
check "another compiler, the same machine code: said" exits 0 "NVRTC replay, before older: the machine code of 4 of 4 winners is the same" replay same.db
check "no problem is left" grep -q "4 of 4 problems are done already" "$work/said"
check "winners stay" same "$(query "$work/same.db" "$winners")" "$reference"
check "nothing is measured" same "$(query "$work/same.db" "$new_trials")" 0
check "winners are of today's builds" same "$(query "$work/same.db" "SELECT DISTINCT t.nvrtc FROM winner $candidate JOIN toolchain t ON t.id = b.toolchain")" replay
check "and once more, without a word about the compiler" exits 0 "4 of 4 problems are done already" replay same.db
check "which was told once" sh -c "! grep -q NVRTC '$work/said'"

cp "$work/first.db" "$work/other.db" && edit other.db "$older; UPDATE build SET cubin_hash = 'other' || substr(cubin_hash, 6)"
check "another compiler, other machine code: said" exits 0 "the machine code of 0 of 4 winners is the same" replay other.db
check "all is measured again" same "$(query "$work/other.db" "$new_trials AND stage = 'screen'")" "$screens"
check "winners are those of before" same "$(query "$work/other.db" "$winners")" "$reference"

cp "$work/first.db" "$work/one.db" && edit one.db "$older; UPDATE build SET cubin_hash = 'other' || substr(cubin_hash, 6) WHERE id = $one"
changed=$(query "$work/one.db" "SELECT count(*) FROM winner WHERE build = $one")
check "other machine code of one winner: said" exits 0 "the machine code of $((4 - changed)) of 4 winners is the same" replay one.db
check "only its problems are open" grep -q "$((4 - changed)) of 4 problems are done already" "$work/said"
check "only that build is screened again" same "$(query "$work/one.db" "SELECT count(DISTINCT build) FROM trial WHERE run = (SELECT max(id) FROM run) AND stage = 'screen'")" 1
check "the winners are those of before" same "$(query "$work/one.db" "$winners")" "$reference"

mkdir -p "$work/home/harness"
cp -r templates kernels configs scripts "$work/home" && cp -r harness/emulator "$work/home/harness"
export TERN_HOME=$work/home
template=$(query "$work/first.db" "SELECT c.template FROM winner $candidate LIMIT 1")
echo "// edited" >>"$work/home/templates/$template/kernel.cu"
check "an edited template: said" exits 0 "a template that was tried there has been edited; rows of the others stay" replay first.db
check "no other template is measured" same "$(query "$work/first.db" "$new_trials AND stage != 'final' AND c.template != '$template'")" 0
check "the edited one is" at_least "$(query "$work/first.db" "$new_trials AND stage = 'screen' AND c.template = '$template'")" 1
check "its winners are the same again" same "$(query "$work/first.db" "$winners")" "$reference"
check "then nothing is left to do" exits 0 "4 of 4 problems are done already" replay first.db
