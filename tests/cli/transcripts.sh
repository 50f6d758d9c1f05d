#!/bin/bash
# Runs the transcripts *.txt of this folder: commands with the exact output and exit code that they must have.
#   $ COMMAND       runs in an empty folder, with `tune` on PATH
#   > LINE          a line of its standard output       > ...   any number of lines
#   ! LINE          a line of its standard error        ! ...   any number of lines
#   ? CODE          its exit code, 0 if not given
# In LINE, * stands for any text; ROOT is the tree that holds configs/, TMP the folder. Lines with # are comments.
# Prints a line "ok" or "not ok" for each command. usage: transcripts.sh [FILE...]
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
tune=${TUNE:-$root/build/tune}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
ran=0
PATH=$(dirname "$tune"):$PATH
export LC_ALL=C PATH
unset TERN_HOME CUDA_VISIBLE_DEVICES

# True if the lines of file $2 match the patterns of file $1.
matches() {
    local -a want got
    mapfile -t want <"$1"
    mapfile -t got <"$2"
    matches_from 0 0
}
matches_from() { # pattern index, line index; reads want and got of the caller
    local w=$1 g=$2
    while [ "$w" -lt ${#want[@]} ]; do
        if [ "${want[$w]}" = "..." ]; then
            local next
            for ((next = g; next <= ${#got[@]}; next++)); do
                matches_from $((w + 1)) "$next" && return 0
            done
            return 1
        fi
        [ "$g" -lt ${#got[@]} ] || return 1
        local pattern=${want[$w]//\\/\\\\}
        pattern=${pattern//\?/\\?}
        pattern=${pattern//\[/\\[}
        # shellcheck disable=SC2053  # a pattern on purpose
        [[ ${got[$g]} == $pattern ]] || return 1
        w=$((w + 1))
        g=$((g + 1))
    done
    [ "$g" -eq ${#got[@]} ]
}

check() { # runs the command collected so far
    [ -n "$command" ] || return
    ran=$((ran + 1))
    (cd "$work/run" && timeout 120 bash -c "$command" >"$work/out" 2>"$work/err" </dev/null)
    local status=$?
    sed -i "s|$work/run|TMP|g; s|$root|ROOT|g" "$work/out" "$work/err"
    local problem=
    [ "$status" = "$code" ] || problem="exit code $status, expected $code"
    matches "$work/want-out" "$work/out" || problem="$problem; standard output differs"
    matches "$work/want-err" "$work/err" || problem="$problem; standard error differs"
    if [ -z "$problem" ]; then
        echo "ok cli: $name: $command"
    else
        failures=$((failures + 1))
        echo "not ok cli: $name:$line: $command"
        echo "    ${problem#; }"
        sed 's/^/    > /' "$work/out" | head -30
        sed 's/^/    ! /' "$work/err" | head -30
    fi
}

begin() {
    check
    command=$1
    line=$number
    code=0
    : >"$work/want-out"
    : >"$work/want-err"
}

[ $# -gt 0 ] || set -- "$here"/*.txt
for file; do
    name=$(basename "$file")
    rm -rf "$work/run" && mkdir "$work/run"
    command=
    number=0
    while IFS= read -r text || [ -n "$text" ]; do
        number=$((number + 1))
        case "$text" in
        '$ '*) begin "${text:2}" ;;
        '> '*) echo "${text:2}" >>"$work/want-out" ;;
        '>') echo >>"$work/want-out" ;;
        '! '*) echo "${text:2}" >>"$work/want-err" ;;
        '? '*) code=${text:2} ;;
        '' | '#'*) ;;
        *) echo "not ok cli: $name:$number: not a transcript line: $text" && failures=$((failures + 1)) ;;
        esac
    done <"$file"
    begin ""
done
[ "$ran" -gt 0 ] || { echo "not ok cli: no transcript was run" && exit 1; }
exit $((failures > 0))
