#!/bin/bash
# Every test that needs no GPU, as many at a time as there are cores. The last line is "N passed, N failed"; exit 1 if anything failed
# or nothing ran.
#   unit programs, normal and with ASan + UBSan; transcripts of the command line; style checks; tests/{offline,e2e,emulator}/*.sh
# A test prints cmocka's summary or lines "ok ..." and "not ok ..."; exit 77 skips it, with the reason as its last line. It runs beside
# others: it keeps to a folder of its own, and what it asks of time holds on a busy machine too.
# usage: tests/run.sh [PART...]   parts: unit asan cli lint offline e2e emulator (default: all)
set -u
shopt -s lastpipe # the end of a pipe counts here, not in a subshell
cd "$(dirname "$0")/.." || exit 1
export TUNE=$PWD/build/tune
unset TERN_HOME
export logs=build/test-logs
jobs=$(nproc 2>/dev/null || echo 2)
passed=0
failed=0
rm -rf "$logs" && mkdir -p "$logs" && : >"$logs/tests" || exit 1

# ---- what there is to run ------------------------------------------------------------------------------------------------------
build() { # make arguments
    if ! make -j"$jobs" "$@" >"$logs/build.log" 2>&1; then
        grep -E ' error: |: error|undefined reference|^make.*\*\*\*' "$logs/build.log" | head -40
        echo "FAILED build: make $*"
        failed=$((failed + 1))
        return 1
    fi
}

# Prints a line for each test of part $1: name, seconds after which it is ended, command. Alone none takes a quarter of its seconds.
tests_of() {
    local test
    # Fibers of the emulator move between stacks themselves; a segmentation fault stays a signal, which tests of workers expect.
    local asan="env ASAN_OPTIONS=detect_stack_use_after_return=0:handle_segv=0 UBSAN_OPTIONS=print_stacktrace=1"
    case "$1" in
    unit) for test in tests/unit/test_*.c; do test=$(basename "$test" .c) && echo "$test 300 build/tests/$test"; done ;;
    asan) for test in tests/unit/test_*.c; do test=$(basename "$test" .c) && echo "asan-$test 300 $asan build/asan/tests/$test"; done ;;
    lint) echo "lint 120 scripts/lint.sh structure" ;;
    *) for test in tests/"$1"/*.sh; do echo "$1-$(basename "$test" .sh) 1200 $test"; done ;;
    esac
}

# ---- running and counting ------------------------------------------------------------------------------------------------------
# Runs one test, leaves its log in $logs/NAME.log, its exit code and seconds in $logs/NAME.end, and says that it has ended.
run_one() { # name, seconds, command...
    local name=$1 seconds=$2
    shift 2
    timeout -k 10 "$seconds" "$@" >"$logs/$name.log" 2>&1 </dev/null
    echo "$? $SECONDS" >"$logs/$name.end"
    echo "$name"
}
export -f run_one

# Counts the results of the test named $1 and tells them.
count() {
    local good bad code=127 seconds=0 log=$logs/$1.log
    if [ -s "$logs/$1.end" ]; then read -r code seconds <"$logs/$1.end"; else echo "was not run" >>"$log"; fi
    # cmocka: "[  PASSED  ] 5 test(s)."; its failures are listed one a line as "[  FAILED  ] name" after the summary.
    good=$(awk '/^\[  PASSED  \] [0-9]+ test/ { n += $4 } /^ok / { n++ } END { print n + 0 }' "$log")
    bad=$(awk '/^\[  FAILED  \] [0-9]+ test/ { n += $4 } /^not ok / { n++ } END { print n + 0 }' "$log")
    if [ "$code" = 77 ]; then
        echo "skipped $1: $(tail -1 "$log")"
        return
    fi
    [ "$code" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1          # died without saying so
    [ "$good" -gt 0 ] || [ "$bad" -gt 0 ] || bad=1          # ran nothing
    passed=$((passed + good))
    failed=$((failed + bad))
    if [ "$bad" -gt 0 ]; then
        echo "FAILED $1: $good passed, $bad failed (exit $code), $seconds s"
        grep -vE '^\[ RUN|^\[       OK|^ok ' "$log" | tail -60 | sed 's/^/    /'
    else
        echo "passed $1: $good, $seconds s"
    fi
}

[ $# -gt 0 ] || set -- unit asan cli lint offline e2e emulator # last what fills all cores alone
for part; do
    case "$part" in
    lint) ;;
    asan) build SANITIZE=1 unit-tests || continue ;;
    unit | cli | offline | e2e | emulator) build all unit-tests || continue ;; # scripts have unit programs write databases
    *) echo "unknown part '$part'" >&2 && failed=$((failed + 1)) && continue ;;
    esac
    tests_of "$part" >>"$logs/tests"
done
echo "built: $SECONDS s"

# Results are told in the order of the list: whenever a test ends, those of all before it that have ended too.
mapfile -t names < <(cut -d' ' -f1 "$logs/tests")
told=0
xargs -r -P "$jobs" -L 1 bash -c 'run_one "$@"' _ <"$logs/tests" | while read -r _; do
    while [ -s "$logs/${names[told]:-}.end" ]; do
        count "${names[told]}"
        told=$((told + 1))
    done
done
for name in "${names[@]:told}"; do count "$name"; done # the runner itself was ended

echo "---- $SECONDS s"
[ "$passed" -gt 0 ] || [ "$failed" -gt 0 ] || failed=1
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
