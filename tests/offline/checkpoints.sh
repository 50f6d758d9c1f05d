#!/bin/bash
# Checkpoints written by Python, one family a script, decoded by Tern and compared weight by weight. Needs nothing but python3;
# where the safetensors and gguf packages are installed or can be fetched, they write the files a second time and read what Tern writes.
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "needs python3" && exit 77; }
make build/tests/offline/decode_checkpoint >/dev/null || exit 1
if packages=$(scripts/test-packages.sh 2>&1); then
    export PYTHONPATH=$packages
else
    echo "# skipped the official packages: $packages"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
for script in tests/offline/checkpoint_*.py; do
    [ "$script" = tests/offline/checkpoint_files.py ] && continue
    mkdir "$work/$(basename "$script" .py)"
    PYTHONDONTWRITEBYTECODE=1 "${PYTHON:-python3}" "$script" "$work/$(basename "$script" .py)" || failures=$((failures + 1))
done
exit $((failures > 0))
