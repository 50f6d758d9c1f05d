#!/bin/bash
# Compiles candidates of every template for sm_75, sm_80, sm_86, sm_89, sm_90a, sm_100a and sm_120a; two processes.
set -u
cd "$(dirname "$0")/../.." || exit 1
if ! scripts/find-cuda.sh include >/dev/null; then
    echo "no CUDA toolkit and no wheels: scripts/setup.sh fetches them"
    exit 77
fi
make build/tests/offline/compile_templates >/dev/null || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%s\n' t4 a100 a10 l40s h200 b200 rtx5090 |
    xargs -P 2 -I GPU sh -c 'build/tests/offline/compile_templates GPU >"$0/GPU" 2>&1 || { grep -q "^not ok" "$0/GPU" || echo "not ok offline: GPU: nothing compiled" >>"$0/GPU"; }' "$work"
cat "$work"/*
! grep -q '^not ok' "$work"/*
