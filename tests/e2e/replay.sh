#!/bin/bash
# Replays of recorded runs, tests/fixtures/GPU-SHAPES.jsonl.zst, each with a file GPU-SHAPES.options beside it: the options of that
# run (such as --layers qkv,o --m 1,16), one line. The recording must fit today's templates: record again when they change.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
fixtures=${TERN_FIXTURES:-tests/fixtures}
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
if ! compgen -G "$fixtures/*.jsonl.zst" >/dev/null; then
    echo "no recording in $fixtures"
    exit 77
fi

. tests/lib.sh

for file in "$fixtures"/*.jsonl.zst; do
    name=$(basename "$file" .jsonl.zst)
    read -r -a options <"${file%.jsonl.zst}.options"
    job=("$tune" --gpu "${name%%-*}" --shapes "${name#*-}" "${options[@]}" --cache "$work/cache" --replay "$file" --json)
    for i in 1 2; do
        "${job[@]}" --db "$work/$name$i.db" >"$work/$name$i.json" 2>"$work/$name$i.err"
        check "$name: replay $i ends well" test $? = 0
    done
    sed -i 's/"db": .*//' "$work/$name"[12].json
    check "$name: both replays are the same" cmp "$work/${name}1.json" "$work/${name}2.json"
    check "$name: every row is plausible" python3 - "$work/${name}1.json" <<'P'
import json, sys
run = json.load(open(sys.argv[1]))
assert run["mode"] == "replayed" and run["problems"], run
for p in run["problems"]:
    w, b = p["winner"], p["baseline"]
    assert p["status"] == "replayed" and 0 < w["us_lo"] <= w["us"] <= w["us_hi"] and 0 <= w["p_best"] <= 1, p  # rounds of several finals: no pairs
    assert w["us"] >= 0.97 * p["limit_us"] and b["us"] > 0 and 0 < p["speedup_lo"] <= p["speedup"], p
P
    check "$name: most of what was asked was recorded" python3 - "$work/${name}1.json" <<'P'
import json, sys
outcomes = json.load(open(sys.argv[1]))["outcomes"]
asked, missing = sum(outcomes.values()), outcomes.get("invalid", 0)
assert 2 * missing < asked, f"{missing} of {asked} answers are not in the recording: templates have changed, record again"
P
done
