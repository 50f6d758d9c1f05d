# shellcheck shell=bash disable=SC2154
# Checks shared by the test scripts, which source this file once they have a folder $work.

check() { # name, command...: prints ok if the command succeeds; a check in the background has a log of its own
    local name=$1 log=$work/log.$BASHPID
    shift
    if "$@" >"$log" 2>&1; then echo "ok $name"; else echo "not ok $name" && tail -20 "$log"; fi
}
exits() { # expected code, text that stdout or stderr must hold, command...; what the command said stays in $work/said
    local code=$1 text=$2 said=$work/said.$BASHPID got
    shift 2
    "$@" >"$said" 2>&1
    got=$?
    cp "$said" "$work/said"
    [ "$got" = "$code" ] && grep -qF -- "$text" "$said" && return 0
    echo "exit $got, expected $code and \"$text\":" && tail -20 "$said"
    return 1
}
query() { # database, SQL...: rows, columns joined by |
    python3 -Ic 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
for sql in sys.argv[2:]:
    for row in db.execute(sql): print(*row, sep="|")' "$@"
}
same() { [ "$1" = "$2" ] || { echo "got '$1', expected '$2'" && return 1; }; }
at_least() { [ "$1" -ge "$2" ] || { echo "got '$1', expected at least '$2'" && return 1; }; }
plant() { # folder, template folder of the test: makes a TERN_HOME with all real templates, and the test's behind the naive kernel
    local home=$1 planted=$2 real=${TERN_HOME:-$PWD} entry
    mkdir -p "$home/templates/$(basename "$planted")" || return 1
    for entry in "$real"/* "$real"/.deps "$real"/templates/*; do
        [ ! -e "$entry" ] || [ "$entry" = "$real/templates" ] || ln -s "$entry" "$home/${entry#"$real"/}"
    done
    cat examples/templates/naive/kernel.cu "$planted/kernel.cu" >"$home/templates/$(basename "$planted")/kernel.cu"
    cp "$planted/space.lua" "$home/templates/$(basename "$planted")/"
}
