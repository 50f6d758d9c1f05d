#!/bin/bash
# Checks of style that need no judgement. `lint.sh structure` needs only awk and grep and prints test lines (ok / not ok);
# `lint.sh` adds clang-format and cppcheck and says what is missing of them.
set -u
cd "$(dirname "$0")/.." || exit 3
failures=0

report() { # name, problems
    if [ -z "$2" ]; then
        echo "ok lint: $1"
    else
        echo "not ok lint: $1"
        sed 's/^/    /' <<<"$2"
        failures=$((failures + 1))
    fi
}

mapfile -t c_files < <(find harness tests examples \( -name '*.c' -o -name '*.h' \) | sort)
mapfile -t device_files < <(find templates kernels harness/emulator \( -name '*.cu' -o -name '*.cuh' -o -name '*.hpp' -o -name '*.cpp' \) | sort)
all_files=("${c_files[@]}" "${device_files[@]}")

# ---- includes go one way -------------------------------------------------------------------------------------------------------
# What each folder of harness/ may include besides itself; emulator and runtime are seams of their own.
directions='
core: none
config: core formats
formats: core
measure: core
space: core config formats
verify: core formats
output: core config
store: core
emulator: core
runtime: core formats
device: core config formats measure space verify emulator
worker: core config formats measure space verify device store
commands: core config formats measure space verify device worker store output emulator'
includes() {
    grep -rnoE '^#include "[a-z_]+/' harness --include='*.[ch]' | awk -F: -v rules="$directions" '
        BEGIN {
            split(rules, lines, "\n")
            for (i in lines) { split(lines[i], part, ":"); allowed[part[1]] = " " part[2] " " }
        }
        {
            split($1, path, "/"); from = path[2]
            to = $3; sub(/^#include "/, "", to); sub(/\/$/, "", to)
            if (to != from && to != "tern" && index(allowed[from] " ", " " to " ") == 0)
                print $1 ":" $2 ": " from "/ may not include " to "/"
        }'
}
only_in() { # pattern, folders that may have it
    grep -rnE "$1" harness --include='*.[ch]' | grep -vE "^harness/($2)/"
}

# ---- lengths -------------------------------------------------------------------------------------------------------------------
# A function starts at a line in column 1 that ends in "{" and holds ")", or follows such a parameter list; it ends at "}" in
# column 1. Prints "LENGTH FILE:LINE".
function_lengths() {
    awk '
        FNR == 1 { start = 0; head = 0 }
        !start && /^[A-Za-z_].*\(/ && !/;[ \t]*$/ && !/^#/ { head = FNR }
        !start && head && /\{[ \t]*(\/\/.*|\/\*.*)?$/ && !/=[ \t]*\{/ { start = head }
        !start && /;[ \t]*$/ { head = 0 }
        /^\}/ { if (start) print FNR - start + 1, FILENAME ":" start; start = 0; head = 0 }
    ' "$@"
}
long_functions() { function_lengths "${all_files[@]}" | awk '$1 > 80 { print $2 ": function of " $1 " lines, at most 80" }'; }
p90() {
    mapfile -t lengths < <(function_lengths $(printf '%s\n' "${c_files[@]}" | grep ^harness) | sort -n | cut -d' ' -f1)
    [ ${#lengths[@]} -gt 0 ] || { echo "no functions found"; return; }
    local value=${lengths[$((${#lengths[@]} * 9 / 10))]}
    [ "$value" -le 35 ] || echo "90 % of the functions have up to $value lines, at most 35"
}
long_files() { wc -l "${all_files[@]}" | awk '$2 != "total" && $1 > 500 { print $2 ": " $1 " lines, at most 500" }'; }

# Share of lines that hold a comment, over the harness. Banner lines ("// ----") count as none.
comment_share() {
    awk '
        /^[ \t]*$/ { next }
        { lines++ }
        FNR == 1 { open = 0 }
        open || /\/\*/ || /\/\// { if ($0 !~ /-----/) comments++ }
        /\/\*/ { open = 1 }
        /\*\// { open = 0 }
        END {
            share = lines ? 100 * comments / lines : 0
            if (!(share >= 10 && share <= 20)) printf "%.1f %% of the lines hold comments, should be 10 to 20\n", share
        }' $(printf '%s\n' "${c_files[@]}" | grep ^harness)
}
first_lines() {
    for file in "${all_files[@]}"; do
        head -1 "$file" | grep -qE '^(/\*|//) ?[^ ]' || echo "$file:1: must say what the file is"
    done
}
forbidden() {
    grep -rnE '\b(system|popen|sprintf|strcpy|strcat|atoi|atof|gets)\(' harness --include='*.[ch]'
    grep -rnE '\bexit\(' harness --include='*.[ch]' | grep -vE '^harness/(worker|commands/main)|_exit\('
    grep -nE 'ffast-math' Makefile
    grep -rnE '^typedef struct' harness --include='*.[ch]'
}

report "includes go one way" "$(includes)"
report "only config/ knows Lua" "$(only_in '#include <(lua|lauxlib|lualib)\.h>' config)"
report "only store/ knows SQLite" "$(only_in '#include <sqlite3\.h>' store)"
report "only device/ names CUDA headers" "$(only_in '#include [<"](cuda|nvrtc|cublas|nvml)' 'device|emulator/include')"
report "functions have at most 80 lines" "$(long_functions)"
report "90 % of the functions have at most 35 lines" "$(p90)"
report "files have at most 500 lines" "$(long_files)"
report "line 1 says what a file is" "$(first_lines)"
report "no forbidden calls" "$(forbidden)"
[ "${1:-}" = structure ] && exit $((failures > 0))
report "10 to 20 % of the lines hold comments" "$(comment_share)"

# ---- tools ---------------------------------------------------------------------------------------------------------------------
if command -v clang-format >/dev/null; then
    report "clang-format" "$(clang-format --dry-run "${c_files[@]}" 2>&1 | grep 'warning:' | cut -d: -f1 | sort | uniq -c |
        awk '{ print $2 ": " $1 " places" }')"
else
    echo "clang-format is missing: apt-get install clang-format" >&2 && failures=$((failures + 1))
fi
if command -v cppcheck >/dev/null; then
    report "cppcheck" "$(cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr -j 2 \
        --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches -D_GNU_SOURCE -Iharness -Itemplates/include \
        --template='{file}:{line}: {id}: {message}' harness 2>&1)"
else
    echo "cppcheck is missing: apt-get install cppcheck" >&2 && failures=$((failures + 1))
fi
if command -v shellcheck >/dev/null; then
    report "shellcheck" "$(shellcheck -S warning -e SC2046,SC1007 $(find scripts tests .ci -name '*.sh') .ci/run 2>&1 | head -40)"
fi
exit $((failures > 0))
