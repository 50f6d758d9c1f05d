#!/bin/bash
# Prints the manual page tune(1), made of the program's own help texts. usage: scripts/man.sh [PROGRAM] >tune.1
set -eu
tune=${1:-build/tune}

# Text that roff leaves as it is: no control line, no escape.
plain() { sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\([.']\)/\\\\\&\1/"; }
verbatim() {
    echo .nf
    plain
    echo .fi
}
commands=$("$tune" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ -n "$commands" ] || { echo "man.sh: $tune lists no commands" >&2 && exit 1; }

echo ".TH TUNE 1 \"\" \"tern $("$tune" --version | cut -d' ' -f2)\" \"Tern\""
echo .SH NAME
echo 'tune \- find the fastest right kernel for every quantised linear layer of a model'
echo .SH SYNOPSIS
"$tune" help | sed -n '/^usage:/,/^$/p' | sed -e 's/^usage: //' -e 's/^       //' | verbatim
echo .SH DESCRIPTION
"$tune" help | sed '/^$/q' | plain
echo .SH COMMANDS
for command in $commands; do
    echo ".SS tune $command"
    "$tune" help "$command" | verbatim
done
echo '.SH EXIT STATUS'
"$tune" help | sed -n '/^exit codes:/,/^$/p' | sed 1d | verbatim
echo .SH FILES
printf '%s\n' 'results/tern.db   database of every run' 'results/cache     compiled kernels' 'results/NAME      releases' \
    'configs/          GPUs and models' | verbatim
