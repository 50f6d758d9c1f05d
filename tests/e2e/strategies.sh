#!/bin/bash
# Search strategies on a recorded exhaustive run (tests/fixtures/h200-qwen7b.jsonl.zst): what each finds, and what it takes of the
# GPU seconds that trying everything took. Replays of the real program, neighbours and finals included; nothing is measured.
# Candidates are those that were recorded: templates whose parameters have changed since have their space.lua of then beside the
# recording.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
recording=$PWD/tests/fixtures/h200-qwen7b.jsonl.zst
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -f "$recording" ] || { echo "no recording $recording" && exit 77; }
read -r -a options <"${recording%.jsonl.zst}.options"

. tests/lib.sh

recorded=$work/home
mkdir -p "$recorded/templates"
for entry in "$PWD"/* "$PWD"/.deps; do
    [ ! -e "$entry" ] || [ "$entry" = "$PWD/templates" ] || ln -s "$entry" "$recorded/"
done
for entry in templates/*; do
    name=$(basename "$entry")
    then=tests/fixtures/h200-qwen7b/$name.lua
    if [ -f "$then" ]; then
        mkdir "$recorded/templates/$name"
        cp "$entry/kernel.cu" "$recorded/templates/$name/"
        cp "$then" "$recorded/templates/$name/space.lua"
    else
        ln -s "$PWD/$entry" "$recorded/templates/"
    fi
done
export TERN_HOME=$recorded

replay() { # strategy, options...
    local strategy=$1
    shift
    "$tune" --gpu h200 --shapes qwen7b "${options[@]}" --cache "$work/cache" --replay "$recording" --strategy "$strategy" --db "$work/$strategy.db" "$@"
}
# GPU seconds of all checks and screens: what the search itself took. Finals and baselines cost every strategy the same.
spent="SELECT sum(gpu_seconds) FROM trial WHERE stage IN ('verify', 'screen')"
check "exhaustive" exits 0 "on h200-replay" replay exhaustive
check "race" exits 0 "on h200-replay" replay race
budget=$(python3 -c "print(round(0.2 * $(query "$work/exhaustive.db" "$spent"), 3))")
check "random, a fifth of the GPU time" exits 0 "on h200-replay" replay random --budget "${budget}s"
check "model, a fifth of the GPU time" exits 0 "on h200-replay" replay model --budget "${budget}s"
python3 - "$work" <<'P' || echo "not ok strategies could be judged"
import math, sqlite3, sys
def search(name):
    db = sqlite3.connect(f"{sys.argv[1]}/{name}.db")
    best = dict(db.execute("""SELECT p.format || ' ' || p.n || 'x' || p.k || ' M=' || p.m, min(t.us) FROM trial t JOIN problem p ON p.id = t.problem
        WHERE t.stage = 'screen' AND t.outcome = 'ok' GROUP BY 1"""))
    return best, db.execute("""SELECT sum(gpu_seconds), sum(stage = 'screen') FROM trial WHERE stage IN ('verify', 'screen')""").fetchone()
everything, (all_seconds, all_trials) = search("exhaustive")
for name in "race", "random", "model":
    best, (seconds, trials) = search(name)
    ratio = {p: best[p] / everything[p] for p in everything}
    mean = math.exp(sum(map(math.log, ratio.values())) / len(ratio))
    worst = max(ratio, key=ratio.get)
    share = seconds / all_seconds
    line = f"{name}: {100 * mean - 100:.2f} % over exhaustive on average, worst {100 * ratio[worst] - 100:.1f} % ({worst}), {100 * share:.1f} % of its {all_seconds:.0f} GPU s, {trials} of {all_trials} trials, {len(ratio)} problems"
    if name == "race":
        stated = dict(sqlite3.connect(f"{sys.argv[1]}/race.db").execute("SELECT p.format || ' ' || p.n || 'x' || p.k || ' M=' || p.m, w.regret FROM winner w JOIN problem p ON p.id = w.problem"))
        covered = sum(ratio[p] - 1 <= stated[p] for p in ratio)
        print(("ok " if covered >= 0.95 * len(ratio) else "not ok ") + f"the stated regret covers what the race missed in {covered} of {len(ratio)} problems")
        print(("ok " if mean <= 1.02 and ratio[worst] <= 1.08 and share <= 0.20 else "not ok ") + line)
    else:
        print("# " + line)
P
