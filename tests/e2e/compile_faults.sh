#!/bin/bash
# Candidates that the compiler does not survive: endless, of more memory than a worker may have, refused. Each becomes a row, the
# others are compiled, and nothing is compiled twice.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export CUDA_VISIBLE_DEVICES= # also where there is a GPU: compiling needs none

. tests/lib.sh

plant "$work/home" tests/e2e/bomb
export TERN_HOME=$work/home
plan=("$tune" --gpu a100 --shapes smoke --templates bomb --layers wide --m 1 --formats gptq4-g32 --jobs 2 --budget 60s --cache "$work/cache")
build() { # database, value of BOMB: outcome and log, in one line
    query "$work/$1" "SELECT b.outcome, replace(b.log, char(10), ' ') FROM build b JOIN candidate c ON c.id = b.candidate WHERE c.params LIKE '%BOMB=$2%'"
}
is() { # outcome, text, row
    [[ $3 == "$1|"*"$2"* ]] || { echo "got '$3', expected '$1' and '$2'" && return 1; }
}

# The limit of the test, far below that of the workers: a second of allocating reaches it.
small() (
    ulimit -d 400000
    "${plan[@]}" --db "$work/memory.db"
)
check "a compiler out of memory does not end the run" exits 0 "compiled 5 of 5 candidates" small
check "it becomes its row" is crash "out of memory" "$(build memory.db 2)"
check "a compile error becomes its row" is compile "refused on purpose" "$(build memory.db 3)"
check "candidates before and behind it are compiled" same "$(build memory.db 0 | cut -d'|' -f1) $(build memory.db 4 | cut -d'|' -f1)" "ok ok"
check "one of them is planned" same "$(query "$work/memory.db" "SELECT count(*) FROM winner")" 1

endless=("${plan[@]}" --db "$work/endless.db" --timeout 3s)
"${endless[@]}" >"$work/out" 2>&1 &
run=$!
limit=
for _ in $(seq 100); do
    sleep 0.05
    worker=$(awk '{ print $1 }' "/proc/$run/task/$run/children" 2>/dev/null)
    limit=$(awk '/^Max data size/ { print $4 }' "/proc/${worker:-0}/limits" 2>/dev/null)
    [ "$limit" = 4294967296 ] && break
done
wait $run
check "an endless compile does not end the run" same $? 0
check "a compile worker has a memory limit of its own" same "$limit" 4294967296
check "the endless compile becomes its row" is timeout "did not answer before its deadline and was killed" "$(build endless.db 1)"
check "candidates before and behind it are compiled" same "$(build endless.db 0 | cut -d'|' -f1) $(build endless.db 4 | cut -d'|' -f1)" "ok ok"
rows=$(query "$work/endless.db" "SELECT id, outcome FROM build ORDER BY id")
start=$(date +%s%N)
check "the same command again ends well" exits 0 "compiled 5 of 5 candidates" "${endless[@]}"
check "and waits for the endless one no more: $((($(date +%s%N) - start) / 1000000)) ms" at_least 3000 $((($(date +%s%N) - start) / 1000000))
check "its rows stand as they were" same "$(query "$work/endless.db" "SELECT id, outcome FROM build ORDER BY id")" "$rows"
