#!/bin/bash
# Writes the committed results of a GPU from a database: winners.csv, environment.json, tern_dispatch.h, plots and page.
# Same database, same bytes. usage: scripts/results.sh DB GPU SHAPES DIR COMMIT   e.g. results/tern.db h200 qwen7b results/v0.1/h200 07c9aa8
# COMMIT is the state of the tree that the run was made with.
set -eu
cd "$(dirname "$0")/.."
[ $# -eq 5 ] || { sed -n 3p "$0" >&2 && exit 2; }
db=$1 gpu=$2 shapes=$3 dir=$4
tune=${TUNE:-build/tune}
mkdir -p "$dir"
"$tune" show --gpu "$gpu" --shapes "$shapes" --db "$db" --csv >"$dir/winners.csv"
"$tune" export --gpu "$gpu" --shapes "$shapes" --db "$db" --cache "$dir/none" -o "$dir"
"$tune" report --gpu "$gpu" --shapes "$shapes" --db "$db" -o "$dir"
rm -rf "$dir/data/winners.csv" "$dir/none"
python3 - "$db" "$gpu" "$5" >"$dir/environment.json" <<'P'
import json, sqlite3, sys
c = sqlite3.connect(sys.argv[1])
c.row_factory = sqlite3.Row
rows = lambda sql, *a: [dict(r) for r in c.execute(sql, a)]
device = rows("SELECT gpu, name, uuid, arch, driver, sms, l2_bytes, memory_bytes FROM device WHERE gpu = ? AND real = 1 ORDER BY id DESC LIMIT 1", sys.argv[2])[0]
run = rows("SELECT command_line, tern_version, seed, exit_code, CAST(round((julianday(ended) - julianday(started)) * 86400) AS INTEGER) AS seconds FROM run ORDER BY id")
out = {
    "commit": sys.argv[3],
    "device": device,
    "nvrtc": [r["nvrtc"] for r in rows("SELECT nvrtc FROM toolchain ORDER BY nvrtc")],
    "runs": run,
    "policies": [r["policy"] for r in rows("SELECT DISTINCT policy FROM trial ORDER BY policy")],
    "outcomes": {f"{r['stage']} {r['outcome']}": r["n"] for r in rows("SELECT stage, outcome, count(*) AS n FROM trial GROUP BY 1, 2 ORDER BY 1, 2")},
    "builds": {r["outcome"]: r["n"] for r in rows("SELECT outcome, count(*) AS n FROM build GROUP BY 1 ORDER BY 1")},
    "templates": {r["template"]: r["template_hash"] for r in rows("SELECT DISTINCT k.template, k.template_hash FROM candidate k ORDER BY 1")},
}
json.dump(out, sys.stdout, indent=2, sort_keys=True)
print()
P
