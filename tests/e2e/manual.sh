#!/bin/bash
# The manual page holds every command and its options, completion offers them, and both come from the help texts.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh

scripts/man.sh "$tune" >"$work/tune.1" || echo "not ok the manual page is made"
commands=$("$tune" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
check "commands were found" at_least "$(wc -w <<<"$commands")" 10
for command in $commands; do
    check "$command stands in the manual" grep -qx ".SS tune $command" "$work/tune.1"
    check "$command fits 80 columns" sh -c "'$tune' help $command | awk 'length > 80 { bad = 1 } END { exit bad }'"
    check "$command has an example" sh -c "'$tune' help $command | grep -q '^examples\?: tune'"
done
if command -v groff >/dev/null; then
    groff -man -Tutf8 -ww "$work/tune.1" >"$work/page" 2>"$work/warnings"
    check "groff has nothing to say" test ! -s "$work/warnings"
    check "and prints the options" grep -q -- "--threshold PERCENT" "$work/page"
fi

complete_words() { # words of a command line, the last to be completed: prints the answers
    PATH=$(dirname "$tune"):$PATH bash -c 'source scripts/tune.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tune; printf "%s\n" "${COMPREPLY[@]}"' - "$@"
}
check "completion of commands" same "$(complete_words tune comp)" compare
check "of options" same "$(complete_words tune compare --thr)" --threshold
check "of options of the default command" same "$(complete_words tune --sha)" --shapes
check "of GPUs" same "$(complete_words tune --gpu h2)" h200
check "of models" same "$(complete_words tune run --shapes qwen7)" qwen7b
check "of releases" same "$(complete_words tune compare v0. | sort)" "$(cd results && printf '%s\n' v0.*)"
check "of help" same "$(complete_words tune help rel)" release
