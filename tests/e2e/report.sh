#!/bin/bash
# tune report on a database of invented rows: pictures, page and data; without gnuplot; bad requests.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
writer=build/tests/test_output_export
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh
is_png() { [ "$(head -c 8 "$1" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ] && [ "$(stat -c %s "$1")" -gt 20000 ]; }
# Every relative link and picture of the page exists, and nothing points to the network.
links_hold() {
    local link n=0
    ! grep -qE '(src|href)="(https?:)?//' "$1/index.html" || return 1
    for link in $(grep -oE '(src|href)="[^"]+"' "$1/index.html" | cut -d'"' -f2 | sort -u); do
        [ -s "$1/$link" ] || { echo "missing: $link" && return 1; }
        n=$((n + 1))
    done
    [ "$n" -ge "$2" ] || { echo "only $n links" && return 1; }
}

[ -x "$writer" ] || make "$writer" >/dev/null || exit 1
"$writer" --write-database "$work/measured.db" || exit 1
"$writer" --write-database "$work/planned.db" planned || exit 1

if command -v gnuplot >/dev/null; then
    check "report of measured rows" exits 0 index.html "$tune" report --gpu h200 --shapes qwen7b --db "$work/measured.db" -o "$work/m"
    for picture in model heatmap limit roofline sustained latency-ternary-g128 latency-gptq4-g128; do
        check "$picture.png" is_png "$work/m/qwen7b-$picture.png"
        check "$picture.svg" python3 -c "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])" "$work/m/qwen7b-$picture.svg"
        check "$picture names the device" grep -q "NVIDIA H200" "$work/m/qwen7b-$picture.svg"
    done
    check "links of the page" links_hold "$work/m" 19
    check "the Markdown version has every row" same "$(grep -c '^| [a-z0-9-]* | [a-z_]* | [0-9]* |' "$work/m/report.md")" 112
    check "and the pictures" sh -c "for p in \$(grep -oE '\\([^)]+\\.png\\)' '$work/m/report.md' | tr -d '()'); do [ -s '$work/m/'\$p ] || exit 1; done"
    check "the weights' size" grep -q "FP16 weights: 13.05 GB" "$work/m/report.md"
    check "measured pictures do not claim predictions" sh -c "! grep -l PREDICTED '$work'/m/*.svg"
    cp "$work/measured.db" "$work/part.db"
    python3 -Ic 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("DELETE FROM winner WHERE layer IN (?, ?) AND problem IN (SELECT id FROM problem WHERE format = ?)", ("qkv", "o", "gptq4-g128"))
db.commit()' "$work/part.db"
    check "report where a format has some of the layers" exits 0 index.html "$tune" report --gpu h200 --shapes qwen7b --db "$work/part.db" -o "$work/part"
    check "its bars are those of whole models alone" sh -c "grep -q ternary-g128 '$work/part/qwen7b-model.svg' && ! grep -q gptq4 '$work/part/qwen7b-model.svg'"
    check "its latency has panels of those alone" sh -c "! grep -q '>qkv' '$work/part/qwen7b-latency-gptq4-g128.svg' && grep -q gate_up '$work/part/qwen7b-latency-gptq4-g128.svg'"
    check "report of planned rows, the GPU by itself" exits 0 index.html "$tune" report --db "$work/planned.db" -o "$work/p"
    for picture in model limit roofline latency-ternary-g128; do
        check "planned $picture says so" grep -q PREDICTED "$work/p/qwen7b-$picture.svg"
    done
    check "no speed-ups of planned rows" test ! -e "$work/p/qwen7b-heatmap.svg"
    check "the planned page says so" grep -q "Predicted, not measured" "$work/p/index.html"
fi

# How winners were found: a replay whose rows pose as measured, one trial made wrong.
recording=$PWD/tests/fixtures/h200-qwen7b.jsonl.zst
if command -v gnuplot >/dev/null && [ -f "$recording" ]; then
    "$tune" --gpu h200 --shapes qwen7b --layers qkv,o --m "1,16" --cache "$work/cache" --replay "$recording" --db "$work/r.db" >/dev/null 2>&1
    python3 -Ic 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.executescript("""UPDATE device SET gpu = "h200"; UPDATE trial SET outcome = "wrong", us = NULL, us_lo = NULL, us_hi = NULL, samples = NULL,
    sample_count = 0 WHERE stage = "screen" AND id % 5 = 0 AND build NOT IN (SELECT build FROM winner)""")
db.commit()' "$work/r.db"
    check "report with trials" exits 0 index.html "$tune" report --db "$work/r.db" -o "$work/t"
    for picture in space-ternary-g128 space-gptq4-g128 search-ternary-g128 search-gptq4-g128; do
        check "$picture.png" is_png "$work/t/qwen7b-$picture.png"
    done
    check "a symbol of the failed ones" grep -q ">wrong<" "$work/t/qwen7b-space-ternary-g128.svg"
    check "links of its page" links_hold "$work/t" 20
fi

if command -v gnuplot >/dev/null; then
    check "report of a release" exits 0 index.html "$tune" report --release v0.2 --shapes qwen7b -o "$work/rel"
    check "with sums over layers" is_png "$work/rel/qwen7b-model.png"
    check "an old release without its model" exits 0 "name it with --shapes" "$tune" report --release v0.2 -o "$work/old"
    mkdir -p "$work/v9/h200" && cp "$work/m/winners.csv" "$work/v9/h200/"
    printf 'kind,argument,value,unit,sm_mhz\nread,1048576,2,us,1980\nread,1073741824,260,us,1980\nwgmma-f16/cool,0.0004,950,TFLOPS,1980\n' >"$work/v9/h200/ceilings.csv"
    check "with measured ceilings" exits 0 index.html "$tune" report --release "$work/v9" -o "$work/new"
    check "as its roofline says" grep -q "ceiling, measured" "$work/new/qwen7b-roofline.svg"
    check "a release that is not there" exits 2 "no release" "$tune" report --release v0.99 -o "$work/no"
    echo broken >>"$work/v9/h200/ceilings.csv"
    check "damaged ceilings" exits 4 "line 5" "$tune" report --release "$work/v9" -o "$work/no"
fi

mkdir "$work/bin" # a PATH without gnuplot
check "without gnuplot: exit 3 and the remedy" exits 3 "gnuplot-nox" env PATH="$work/bin" "$tune" report --db "$work/measured.db" -o "$work/n"
check "the data is there" sh -c "[ \$(wc -l <'$work/n/data/qwen7b.tsv') = 113 ] && [ \$(wc -l <'$work/n/winners.csv') = 113 ]"
check "and a page" links_hold "$work/n" 4
printf '#!/bin/sh\necho broken >&2\nexit 1\n' >"$work/bin/gnuplot" && chmod +x "$work/bin/gnuplot"
check "gnuplot fails: exit 3 and its words" exits 3 "broken" env PATH="$work/bin" "$tune" report --db "$work/measured.db" -o "$work/n"
check "empty selection" exits 2 "--shapes qwen7b" "$tune" report --shapes nothing --db "$work/measured.db" -o "$work/x"
check "missing database" exits 2 "$work/none.db" "$tune" report --db "$work/none.db" -o "$work/x"
check "missing option" exits 2 "-o DIR" "$tune" report --db "$work/measured.db"
check "output folder not writable" exits 4 "measured.db" "$tune" report --db "$work/measured.db" -o "$work/measured.db/sub"
