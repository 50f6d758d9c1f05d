#!/bin/bash
# Every test that needs no GPU. The last line is "N passed, N failed"; exit 1 if anything failed or nothing ran.
#   unit programs, normal and with ASan + UBSan; transcripts of the command line; style checks; tests/{emulator,offline,e2e}/*.sh
# A script prints cmocka's summary or lines "ok ..." and "not ok ..."; exit 77 skips it, with the reason as its last line.
# usage: tests/run.sh [PART...]   parts: unit asan cli lint emulator offline e2e (default: all)
set -u
cd "$(dirname "$0")/.." || exit 1
export TUNE=$PWD/build/tune
unset TERN_HOME
logs=build/test-logs
jobs=$(nproc 2>/dev/null || echo 2)
passed=0
failed=0
rm -rf "$logs" && mkdir -p "$logs" || exit 1

# Counts the results in log $2 of the test named $1, which ended with code $3.
count() {
    local good bad
    # cmocka: "[  PASSED  ] 5 test(s)."; its failures are listed one a line as "[  FAILED  ] name" after the summary.
    good=$(awk '/^\[  PASSED  \] [0-9]+ test/ { n += $4 } /^ok / { n++ } END { print n + 0 }' "$2")
    bad=$(awk '/^\[  FAILED  \] [0-9]+ test/ { n += $4 } /^not ok / { n++ } END { print n + 0 }' "$2")
    if [ "$3" = 77 ]; then
        echo "skipped $1: $(tail -1 "$2")"
        return
    fi
    [ "$3" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1             # died without saying so
    [ "$good" -gt 0 ] || [ "$bad" -gt 0 ] || bad=1          # ran nothing
    passed=$((passed + good))
    failed=$((failed + bad))
    if [ "$bad" -gt 0 ]; then
        echo "FAILED $1: $good passed, $bad failed (exit $3)"
        grep -vE '^\[ RUN|^\[       OK|^ok ' "$2" | tail -60 | sed 's/^/    /'
    else
        echo "passed $1: $good"
    fi
}

# Runs `timeout SECONDS COMMAND...` with its log and exit code in $logs/NAME.{log,rc}.
run_one() { # name, seconds, command...
    local name=$1 seconds=$2
    shift 2
    timeout -k 10 "$seconds" "$@" >"$logs/$name.log" 2>&1 </dev/null
    echo $? >"$logs/$name.rc"
}
export -f run_one
export logs

build() { # make arguments
    local log=$logs/build.log
    if ! make -j"$jobs" "$@" >"$log" 2>&1; then
        grep -E ' error: |: error|undefined reference|^make.*\*\*\*' "$log" | head -40
        echo "FAILED build: make $*"
        failed=$((failed + 1))
        return 1
    fi
}

unit() { # folder of programs, name prefix
    local program
    for program in "$1"/test_*; do
        [ -x "$program" ] && [ -f "tests/unit/$(basename "$program").c" ] && echo "$2$(basename "$program") 300 $program"
    done | xargs -r -P "$jobs" -L 1 bash -c 'run_one "$@"' _
    for program in tests/unit/test_*.c; do
        program=$2$(basename "$program" .c)
        [ -f "$logs/$program.rc" ] || { echo 127 >"$logs/$program.rc" && echo "was not built" >"$logs/$program.log"; }
        count "$program" "$logs/$program.log" "$(cat "$logs/$program.rc")"
    done
}

scripts() { # folder
    local script name
    for script in tests/"$1"/*.sh; do
        [ -x "$script" ] || continue
        name=$1-$(basename "$script" .sh)
        run_one "$name" 600 "$script"
        count "$name" "$logs/$name.log" "$(cat "$logs/$name.rc")"
    done
}

part() {
    local start=$SECONDS
    case "$1" in
    unit) build all unit-tests && unit build/tests "" ;;
    asan)
        # Fibers of the emulator move between stacks themselves; a segmentation fault stays a signal, which tests of workers expect.
        export ASAN_OPTIONS=detect_stack_use_after_return=0:handle_segv=0 UBSAN_OPTIONS=print_stacktrace=1
        build SANITIZE=1 unit-tests && unit build/asan/tests asan-
        unset ASAN_OPTIONS UBSAN_OPTIONS
        ;;
    cli) build all && scripts cli ;;
    lint) run_one lint 120 scripts/lint.sh structure && count lint "$logs/lint.log" "$(cat "$logs/lint.rc")" ;;
    emulator | offline | e2e) build all && scripts "$1" ;;
    *) echo "unknown part '$1'" >&2 && failed=$((failed + 1)) ;;
    esac
    echo "---- $1: $((SECONDS - start)) s"
}

[ $# -gt 0 ] || set -- unit asan cli lint emulator offline e2e
for name; do
    part "$name"
done
[ "$passed" -gt 0 ] || [ "$failed" -gt 0 ] || failed=1
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
