#!/bin/bash
# Tests that need a GPU: tests/gpu/*.sh, each printing lines "ok ..." and "not ok ...", or with exit 77 why it cannot run. Exit 77, with
# the reason, without a GPU.
# Ceilings are measured once, into the database $TERN_CEILINGS from which the scripts start; without it each measures its own.
set -u
cd "$(dirname "$0")/.." || exit 1
export TUNE=$PWD/build/tune
if ! command -v nvidia-smi >/dev/null; then
    echo "skipped: no nvidia-smi on PATH, so no NVIDIA driver here"
    exit 77
fi
if ! listing=$(timeout 60 nvidia-smi -L 2>&1) || ! grep -q '^GPU ' <<<"$listing"; then
    echo "skipped: nvidia-smi finds no GPU: $(head -1 <<<"$listing")"
    exit 77
fi
echo "$listing"
passed=0
failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
log=$work/log
export TERN_CEILINGS=$work/ceilings.db
"$TUNE" calibrate --gpu "${TERN_GPU:-h200}" --db "$TERN_CEILINGS" >/dev/null || exit 1
for script in tests/gpu/*.sh; do
    [ -x "$script" ] || continue
    timeout -k 10 900 "$script" >"$log" 2>&1 </dev/null
    code=$?
    cat "$log"
    good=$(grep -c '^ok ' "$log")
    bad=$(grep -c '^not ok ' "$log")
    [ "$code" -ne 77 ] || { echo "skipped $script" && continue; }
    if [ "$code" -ne 0 ] || [ "$good" -eq 0 ]; then
        [ "$bad" -gt 0 ] || bad=1
        echo "FAILED $script (exit $code)"
    fi
    passed=$((passed + good))
    failed=$((failed + bad))
done
[ "$passed" -gt 0 ] || [ "$failed" -gt 0 ] || { echo "tests/gpu holds no tests" && failed=1; }
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
